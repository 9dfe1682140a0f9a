package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestJudge1RoleOfAnEarlierVersion: the Role of a watched namespace is of an earlier version and lacks a kind that the manager watches: the manager
// leaves the namespace out (cmd/heighliner/namespaces.go), and doctor, which asks for microservices only, reports nothing.
func TestJudge1RoleOfAnEarlierVersion(t *testing.T) {
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		if r, is := o.(*authorizationv1.SubjectAccessReview); is {
			r.Status.Allowed = r.Spec.ResourceAttributes.Resource == "microservices" // and not analysistemplates, freezes, ...
		}
		return nil
	}}).Build()
	d := &doctor{client: c, watched: []string{"shop"}}
	m := &appsv1.Deployment{}
	m.Namespace = "heighliner-system"
	d.checkWatched(t.Context(), m)
	if len(d.result.Findings) == 0 {
		t.Error("the manager cannot list analysistemplates in namespace shop and does not watch it; doctor reports no problem")
	}
}

// TestJudge1RollbackOfAFirstRelease: the advice of a first release without pods is a rollback, and there is nothing to return to.
func TestJudge1RollbackOfAFirstRelease(t *testing.T) {
	now := time.Now()
	ms := &v1alpha1.Microservice{}
	ms.Namespace, ms.Name = "shop", "shop"
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "1.x", Slug: "1-x", Active: "1.0.0", Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-1-0-0", Status: v1alpha1.ReleaseActive, Promoted: 1}}}}
	ms.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "ActiveUnavailable", Message: "active release 1.0.0 of group 1.x does not have all its replicas", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	for _, f := range judgeObject("Microservice", ms, now) {
		if strings.Contains(f.Fix, "hlnr rollback") {
			t.Errorf("no release is retained, and the fix is %q", f.Fix)
		}
		if !strings.Contains(f.Fix, "-n shop") {
			t.Errorf("doctor checks all namespaces, and the command names none: %q", f.Fix)
		}
	}
}
