package versionedmicroservice

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
)

// TestTrimmedTemplate checks that the template hash of a Deployment is the same before the Deployment is trimmed and
// after it is trimmed once or twice: the cache trims an object twice if the object exists when the cache starts.
func TestTrimmedTemplate(t *testing.T) {
	t.Parallel()
	d := scene(2, 2).deployment
	want, err := apply.Hash(d.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	for times := range 3 {
		if got, err := templateHash(d); got != want || err != nil {
			t.Errorf("after %d trims, the hash is %q, %v; want %q", times, got, err, want)
		}
		trimDeployment(d)
	}
	if len(d.Spec.Template.Spec.Containers) > 0 {
		t.Error("the template still has containers")
	}
}

// TestTrimmedPods checks that a trimmed pod has the same diagnosis as before, and that a second trim does not change the pod.
func TestTrimmedPods(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	start := metav1.NewTime(now.Add(-30 * time.Minute))
	condition := func(ready corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True"}, {Type: corev1.PodReady, Status: ready, LastTransitionTime: start}}
	}
	container := func(name string, ready bool) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Image: "shop:1", Ready: ready, RestartCount: 2, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}}
	}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		whole  bool // The status of the containers is kept.
	}{
		"ready":                    {corev1.PodStatus{Conditions: condition("True"), ContainerStatuses: []corev1.ContainerStatus{container("app", true), container("proxy", true)}}, false},
		"ready with a sidecar":     {corev1.PodStatus{Conditions: condition("True"), ContainerStatuses: []corev1.ContainerStatus{container("app", true)}, InitContainerStatuses: []corev1.ContainerStatus{container("sidecar", true)}}, false},
		"a failing sidecar":        {corev1.PodStatus{Conditions: condition("True"), ContainerStatuses: []corev1.ContainerStatus{container("app", true)}, InitContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}}, true},
		"a failing readiness gate": {corev1.PodStatus{Conditions: condition("False"), ContainerStatuses: []corev1.ContainerStatus{container("app", true)}}, true},
		"a failing probe":          {corev1.PodStatus{Conditions: condition("False"), ContainerStatuses: []corev1.ContainerStatus{container("app", false)}}, true},
		"an outdated condition":    {corev1.PodStatus{Conditions: condition("True"), ContainerStatuses: []corev1.ContainerStatus{container("app", true), container("proxy", false)}}, true},
		"no statuses":              {corev1.PodStatus{Conditions: condition("False")}, false},
		"waiting": {corev1.PodStatus{Conditions: condition("False"), ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}},
		}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := scene(2, 0)
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-1", CreationTimestamp: start}, Spec: corev1.PodSpec{NodeName: "node"}, Status: test.status}
			pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &start
			o.pods = []corev1.Pod{pod}
			want := diagnose(o, rolloutState{}, now)
			for range 2 {
				trimPod(&o.pods[0])
				if got := diagnose(o, rolloutState{}, now); got != want {
					t.Errorf("diagnosis %+v, want %+v", got, want)
				}
				if kept := slices.ContainsFunc(o.pods[0].Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name != "" }); kept != test.whole {
					t.Errorf("the status of the containers is kept: %t, want %t", kept, test.whole)
				}
				if got := o.pods[0].Status; got.Phase != corev1.PodRunning || containersReady(&o.pods[0]) != containersReady(&pod) {
					t.Errorf("status %+v", got)
				}
			}
		})
	}
}

// TestReadyPodsShareTheirStatus checks that a ready pod has the shared container status each time it is trimmed, and that trimming copies what it changes.
func TestReadyPodsShareTheirStatus(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Status: corev1.PodStatus{
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true}},
	}}
	for range 2 {
		if trimPod(pod); &pod.Status.ContainerStatuses[0] != &readyContainers[0] {
			t.Error("a ready pod has its own container status")
		}
	}
	own := []corev1.ContainerStatus{{Name: "app", ContainerID: "1"}}
	if got := trimContainers(own); own[0].ContainerID != "1" || got[0].ContainerID != "" {
		t.Errorf("own %+v, trimmed %+v", own, got)
	}
}

// TestTrimmedLabels checks that the labels of a trimmed pod are those of the other objects of its release, and that the original labels, which other
// objects in the cache may share, do not change.
func TestTrimmedLabels(t *testing.T) {
	t.Parallel()
	all := resources.Labels(newRelease("default", 1))
	want := maps.Clone(all)
	all["app"], all[appsv1.DefaultDeploymentUniqueLabelKey] = "shop", "5d8c"
	original := maps.Clone(all)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: all}}
	for range 2 {
		trimPod(pod)
		if diff := cmp.Diff(want, pod.Labels); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(original, all); diff != "" {
		t.Errorf("the original labels changed: %s", diff)
	}
}

// TestTrimmedConditions checks that a trimmed Deployment keeps the condition that shows why it has no pods, and no other condition.
func TestTrimmedConditions(t *testing.T) {
	t.Parallel()
	d := scene(2, 2).deployment
	failure := appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate", Message: "exceeded quota"}
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: "True"}, failure, {Type: appsv1.DeploymentProgressing, Status: "True"}}
	for range 2 {
		trimDeployment(d)
		if diff := cmp.Diff([]appsv1.DeploymentCondition{failure}, d.Status.Conditions); diff != "" {
			t.Error(diff)
		}
	}
}

// TestUntrimmed checks that the template of a trimmed Deployment is read from the API server, and that a Deployment that was changed
// or deleted in the meantime causes a conflict.
func TestUntrimmed(t *testing.T) {
	t.Parallel()
	complete := scene(2, 2).deployment
	for name, test := range map[string]struct {
		edit     func(live *appsv1.Deployment)
		conflict bool
	}{
		"unchanged": {func(*appsv1.Deployment) {}, false},
		"changed":   {func(live *appsv1.Deployment) { live.ResourceVersion = "8" }, true},
		"deleted":   {func(live *appsv1.Deployment) { live.Name = "another" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := complete.DeepCopy()
			live.ResourceVersion = "7"
			cached := live.DeepCopy()
			trimDeployment(cached)
			test.edit(live)
			r := &reconciler{live: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(live).Build()}
			got, err := r.untrimmed(t.Context(), cached)
			if apierrors.IsConflict(err) != test.conflict || err == nil == test.conflict {
				t.Fatalf("error %v, want a conflict: %t", err, test.conflict)
			}
			if err == nil {
				if diff := cmp.Diff(live.Spec.Template, got.Spec.Template); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	// A complete Deployment is not read.
	if got, err := (&reconciler{live: client.Reader(nil)}).untrimmed(t.Context(), complete); got != complete || err != nil {
		t.Errorf("%v, error %v", got, err)
	}
}

// newFake returns the builder of a client that has the indexes of the cache.
func newFake(scheme *runtime.Scheme) *fake.ClientBuilder {
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, x := range indexes {
		b = b.WithIndex(x.Object, x.Field, x.Values)
	}
	return b
}
