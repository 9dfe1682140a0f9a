package versionedmicroservice

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/queue"
)

// TestResultsContinueRollouts checks that results of analyses, hook calls and hook Jobs come before new releases.
func TestResultsContinueRollouts(t *testing.T) {
	t.Parallel()
	q := priorityqueue.New[ctrl.Request]("results")
	defer q.ShutDown()
	at := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: name} }
	q.Add(ctrl.Request{NamespacedName: at("new")})
	(&pools{queue: q}).requeue(at("measured"))
	job := func(version string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", ResourceVersion: version, Labels: map[string]string{v1alpha1.LabelRelease: "migrated"}}}
	}
	queue.Continue(labeledRelease).Update(t.Context(), event.UpdateEvent{ObjectOld: job("1"), ObjectNew: job("2")}, q)
	for _, want := range []struct {
		name     string
		priority int
	}{{"measured", queue.Progress}, {"migrated", queue.Progress}, {"new", 0}} {
		if got, priority, _ := q.GetWithPriority(); got.Name != want.name || priority != want.priority {
			t.Errorf("got %s with priority %d, want %s with %d", got.Name, priority, want.name, want.priority)
		}
	}
}

// TestRolloutsAreResumed checks that, after a restart, the releases that are being rolled out come first.
func TestRolloutsAreResumed(t *testing.T) {
	t.Parallel()
	for state, want := range map[v1alpha1.ReleaseStatus]bool{
		"": false, v1alpha1.ReleasePending: true, v1alpha1.ReleaseCanary: true,
		v1alpha1.ReleaseActive: false, v1alpha1.ReleaseDeprecated: false, v1alpha1.ReleaseError: false,
	} {
		release := &v1alpha1.VersionedMicroservice{Status: v1alpha1.VersionedMicroserviceStatus{Release: state}}
		if got := rollsOut(release); got != want {
			t.Errorf("%q: %t, want %t", state, got, want)
		}
	}
}
