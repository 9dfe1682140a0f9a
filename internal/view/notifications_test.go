package view

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestNotificationProblems checks that the board shows the NotificationPolicies that do not deliver all messages.
func TestNotificationProblems(t *testing.T) {
	t.Parallel()
	policy := func(name string, ready metav1.ConditionStatus, message string) v1alpha1.NotificationPolicy {
		p := v1alpha1.NotificationPolicy{}
		p.Namespace, p.Name = "shop", name
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "DeliveryFailing", Message: message, LastTransitionTime: metav1.NewTime(time.Unix(60, 0))}}
		return p
	}
	b := New(Input{Notifications: []v1alpha1.NotificationPolicy{policy("mail", "False", "receiver \"a\": 401\nnot allowed"), policy("chat", "True", "1 receiver"), policy("ci", "False", "receiver \"b\": 500"), {}}}, time.Unix(120, 0))
	if len(b.Notifications) != 2 || b.Notifications[0].Name != "ci" || b.Notifications[1].Name != "mail" || b.Notifications[1].Message != `receiver "a": 401 not allowed` || b.Notifications[1].Since == nil {
		t.Errorf("%+v", b.Notifications)
	}
}
