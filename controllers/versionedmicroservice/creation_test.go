package versionedmicroservice

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// pending returns a pod of the given age that is assigned to a node, with the given container statuses.
func pending(age time.Duration, containers ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, ContainerStatuses: containers,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
		},
	}
}

// waits returns the status of a container that is waiting for the given reason.
func waits(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

// runs returns the status of a container that has been running for the given time and is not ready.
func runs(name string, since time.Duration) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-since))}}}
}

// TestCauseOfAPodThatDoesNotStart checks that the following causes are external, because they would affect
// every other version too: a node that has no address for a pod, cannot attach its volume, or is slow to pull
// its image; an unavailable scheduler; and a queue that keeps pods waiting with a scheduling gate.
func TestCauseOfAPodThatDoesNotStart(t *testing.T) {
	t.Parallel()
	withInit := func(pod corev1.Pod, containers ...corev1.ContainerStatus) corev1.Pod {
		pod.Status.InitContainerStatuses = containers
		return pod
	}
	with := func(pod corev1.Pod, conditions ...corev1.PodCondition) corev1.Pod {
		pod.Status.Conditions = conditions
		return pod
	}
	unassigned := func(age time.Duration, conditions ...corev1.PodCondition) corev1.Pod {
		pod := with(pending(age), conditions...)
		pod.Spec.NodeName = ""
		return pod
	}
	gated := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates"}
	noNetwork := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}
	migrated := corev1.ContainerStatus{Name: "migrate", Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(noon.Add(-time.Minute))}}}
	for name, test := range map[string]struct {
		pod           corev1.Pod
		want, message string
		requeue       time.Duration
	}{
		"just created": {pod: pending(time.Minute, waits("shop", "ContainerCreating")), requeue: 4 * time.Minute},
		"a slow image pull": {pod: pending(6*time.Minute, waits("shop", "ContainerCreating")), want: v1alpha1.FailureContainerCreating,
			message: "a node has not created a container of the pod: it may still be pulling the image; the events of the pod show the cause"},
		"no address, or no volume": {pod: with(pending(6*time.Minute, waits("shop", "ContainerCreating")), noNetwork), want: v1alpha1.FailureContainerCreating,
			message: "a node has not set up the network and volumes of the pod; the events of the pod show the cause"},
		"its node does not respond": {pod: pending(6 * time.Minute), want: v1alpha1.FailureContainerCreating,
			message: "a node has not created a container of the pod: it may still be pulling the image; the events of the pod show the cause"},
		"the first container after a migration": {pod: withInit(pending(time.Hour, waits("shop", "PodInitializing")), migrated), requeue: 4 * time.Minute},
		"a slow migration":                      {pod: withInit(pending(time.Hour, waits("shop", "PodInitializing")), runs("migrate", time.Hour))},
		"no scheduler, just created":            {pod: unassigned(time.Second), requeue: 29 * time.Second},
		"no scheduler":                          {pod: unassigned(time.Minute), want: v1alpha1.FailureUnschedulable, message: "no scheduler has assigned the pod to a node"},
		"a queue has just accepted it":          {pod: unassigned(time.Second, gated), requeue: 29 * time.Second},
		"a queue keeps it waiting":              {pod: unassigned(time.Minute, gated), want: v1alpha1.FailureUnschedulable, message: gated.Message},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &observed{release: newRelease("default", 1), pods: []corev1.Pod{test.pod}}
			got := diagnose(o, rolloutState{}, noon)
			if got.reason != test.want || got.message != test.message {
				t.Errorf("%q (%s), want %q (%s)", got.reason, got.message, test.want, test.message)
			}
			if due := noon.Add(test.requeue); test.requeue > 0 && !got.requeueAt.Equal(due) || test.requeue == 0 && !got.requeueAt.IsZero() {
				t.Errorf("requeue at %s, want %s from noon", got.requeueAt, test.requeue)
			}
		})
	}
	t.Run("the release's own failures come first", func(t *testing.T) {
		t.Parallel()
		o := &observed{release: newRelease("default", 2), pods: []corev1.Pod{pending(time.Hour, waits("shop", "ContainerCreating")), pending(time.Hour, runs("shop", time.Hour))}}
		if got := diagnose(o, rolloutState{}, noon); got.reason != v1alpha1.FailureReadinessFailing {
			t.Errorf("%q (%s), want %q", got.reason, got.message, v1alpha1.FailureReadinessFailing)
		}
	})
	t.Run("after half of a short deadline", func(t *testing.T) {
		t.Parallel()
		o := &observed{release: newRelease("default", 1), pods: []corev1.Pod{pending(31*time.Second, waits("shop", "ContainerCreating"))}}
		o.microservice = &v1alpha1.Microservice{}
		o.microservice.Spec.UpdateStrategy.ProgressDeadlineSeconds = 60
		if got := diagnose(o, rolloutState{}, noon); got.reason != v1alpha1.FailureContainerCreating {
			t.Errorf("%q (%s), want %q", got.reason, got.message, v1alpha1.FailureContainerCreating)
		}
	})
}

// TestNativeSidecarThatIsNeverReady checks that an init container that keeps running but does not become
// ready is a failure of the release, even if another pod cannot be scheduled.
func TestNativeSidecarThatIsNeverReady(t *testing.T) {
	t.Parallel()
	sidecar := func(since time.Duration, started bool) corev1.ContainerStatus {
		c := runs("proxy", since)
		c.Started = &started
		return c
	}
	pod := func(sidecar, shop corev1.ContainerStatus) corev1.Pod {
		pod := pending(time.Hour, shop)
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{sidecar}
		return pod
	}
	ready := runs("shop", time.Hour)
	ready.Ready = true
	noRoom := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}}
	for name, test := range map[string]struct {
		pods          []corev1.Pod
		want, message string
	}{
		"its startup probe fails":   {[]corev1.Pod{pod(sidecar(time.Hour, false), waits("shop", "PodInitializing"))}, v1alpha1.FailureReadinessFailing, `container "proxy" is running, but its startup probe fails`},
		"its readiness probe fails": {[]corev1.Pod{pod(sidecar(time.Hour, true), ready)}, v1alpha1.FailureReadinessFailing, `container "proxy" is running, but its readiness probe fails`},
		"it is starting":            {[]corev1.Pod{pod(sidecar(time.Second, false), waits("shop", "PodInitializing"))}, "", ""},
		"its startup probe fails, another pod cannot be scheduled": {[]corev1.Pod{pod(sidecar(time.Hour, false), waits("shop", "PodInitializing")), noRoom}, v1alpha1.FailureReadinessFailing, `container "proxy" is running, but its startup probe fails`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := newRelease("default", int32(len(test.pods)))
			always, probe := corev1.ContainerRestartPolicyAlways, &corev1.Probe{PeriodSeconds: 1}
			release.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always, StartupProbe: probe, ReadinessProbe: probe}}
			got := diagnose(&observed{release: release, pods: test.pods}, rolloutState{}, noon)
			if got.reason != test.want || got.message != test.message {
				t.Errorf("%q (%s), want %q (%s)", got.reason, got.message, test.want, test.message)
			}
		})
	}
}
