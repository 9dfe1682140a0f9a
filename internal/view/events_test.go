package view

import (
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Events with the same time are in the order in which they were written.
func TestEventsInOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	event := func(reason, version string, time time.Time) eventsv1.Event {
		e := eventsv1.Event{Reason: reason, EventTime: metav1.NewMicroTime(time)}
		e.Namespace, e.ResourceVersion = "shop", version
		e.Regarding.APIVersion, e.Regarding.Kind, e.Regarding.Name = v1alpha1.GroupVersion.String(), "Microservice", "shop"
		return e
	}
	v := NewEvents(Input{}, []eventsv1.Event{event("Promoted", "101", at), event("Removed", "7", at.Add(time.Second)), event("Step", "99", at), event("Started", "98", at)}, "shop", "", at)
	var got []string
	for _, e := range v.Events {
		got = append(got, e.Reason)
	}
	if want := "Started Step Promoted Removed"; strings.Join(got, " ") != want {
		t.Errorf("the events are %q, want %s", got, want)
	}
}
