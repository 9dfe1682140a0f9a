package versionedmicroservice

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestDiagnose(t *testing.T) {
	t.Parallel()
	pod := func(c corev1.ContainerStatus) corev1.Pod {
		c.Name, c.Image = "shop", "r/shop:1"
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c}}}
	}
	waiting := func(reason, message string) corev1.Pod {
		return pod(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}})
	}
	running := func(since time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-since))}}}
	}
	ended := &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: "no database\n"}
	again := running(time.Second)
	again.RestartCount, again.LastTerminationState.Terminated = 1, ended
	refusing := func(message string) *appsv1.Deployment {
		return &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message}}}}
	}
	unschedulable := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"}}}}
	going := waiting("ImagePullBackOff", "")
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	initPod := waiting("", "")
	initPod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "migrate", State: corev1.ContainerState{Terminated: ended}}}
	initDone := pod(running(time.Second))
	initDone.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "migrate", Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}

	deadline := func(seconds int32) func(*observed) {
		return func(o *observed) {
			o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleasePending}, nil)
			o.microservice.Spec.UpdateStrategy.ProgressDeadlineSeconds = seconds
		}
	}
	rolledBack := func(reason string) func(*observed) {
		return func(o *observed) {
			o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseError, Reason: reason}, nil)
			o.microservice.Spec.UpdateStrategy.ProgressDeadlineSeconds = 30
		}
	}
	for name, test := range map[string]struct {
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		probe      *corev1.Probe
		startup    *corev1.Probe
		seen       func(*observed)
		want       failure
	}{
		"nothing known":         {},
		"a terminating pod":     {pods: []corev1.Pod{going}},
		"just created":          {pods: []corev1.Pod{waiting("ContainerCreating", "")}},
		"image 404":             {pods: []corev1.Pod{waiting("ErrImagePull", `failed to pull: r/shop:1: not found`)}, want: failure{reason: v1alpha1.FailureImageNotFound, message: `container "shop": image "r/shop:1": failed to pull: r/shop:1: not found`}},
		"image 404 later":       {pods: []corev1.Pod{waiting("ImagePullBackOff", `Back-off pulling image "r/shop:1": ErrImagePull: failed to pull: r/shop:1: not found`)}, want: failure{reason: v1alpha1.FailureImageNotFound, message: `container "shop": image "r/shop:1": failed to pull: r/shop:1: not found`}},
		"manifest unknown":      {pods: []corev1.Pod{waiting("ErrImagePull", `manifest unknown: manifest unknown`)}, want: failure{reason: v1alpha1.FailureImageNotFound, message: `container "shop": image "r/shop:1": manifest unknown: manifest unknown`}},
		"old back-off":          {pods: []corev1.Pod{waiting("ImagePullBackOff", `Back-off pulling image "r/shop:1"`)}, want: failure{reason: v1alpha1.FailureImagePullBackOff, message: `container "shop": image "r/shop:1"`}},
		"registry is down":      {pods: []corev1.Pod{waiting("ErrImagePull", `dial tcp: lookup r: no such host`)}, want: failure{reason: v1alpha1.FailureImagePullBackOff, message: `container "shop": image "r/shop:1": dial tcp: lookup r: no such host`}},
		"no permission to pull": {pods: []corev1.Pod{waiting("ErrImagePull", `pull access denied, repository does not exist or may require authorization`)}, want: failure{reason: v1alpha1.FailureImagePullBackOff, message: `container "shop": image "r/shop:1": pull access denied, repository does not exist or may require authorization`}},
		"invalid image name":    {pods: []corev1.Pod{waiting("InvalidImageName", "cannot parse")}, want: failure{reason: v1alpha1.FailureInvalidImageName, message: `container "shop": image "r/shop:1": cannot parse`}},
		"no ConfigMap":          {pods: []corev1.Pod{waiting("CreateContainerConfigError", `configmap "x" not found`)}, want: failure{reason: v1alpha1.FailureCreateContainerConfigError, message: `container "shop": configmap "x" not found`}},
		"no such command":       {pods: []corev1.Pod{waiting("RunContainerError", `exec: "x"`)}, want: failure{reason: v1alpha1.FailureCreateContainerError, message: `container "shop": exec: "x"`}},
		"crash, next attempt":   {pods: []corev1.Pod{pod(again)}, want: failure{reason: v1alpha1.FailureCrashLoopBackOff, message: `container "shop" exited with code 2 (Error): no database` + "\n"}},
		"init fails":            {pods: []corev1.Pod{initPod}, want: failure{reason: v1alpha1.FailureCrashLoopBackOff, message: `init container "migrate" exited with code 2 (Error): no database` + "\n"}},
		"init done":             {pods: []corev1.Pod{initDone}, want: failure{requeueAt: noon.Add(29 * time.Second)}},
		"no node":               {pods: []corev1.Pod{unschedulable}, want: failure{reason: v1alpha1.FailureUnschedulable, message: "0/1 nodes are available"}},
		"quota":                 {deployment: refusing(`pods "shop-x1" is forbidden: exceeded quota: small, requested: pods=1`), want: failure{reason: v1alpha1.FailureQuotaExceeded, message: "exceeded quota: small, requested: pods=1"}},
		"pod security":          {deployment: refusing(`pods "shop-x1" is forbidden: violates PodSecurity "restricted:latest": x`), want: failure{reason: v1alpha1.FailurePodSecurityViolation, message: `violates PodSecurity "restricted:latest": x`}},
		"limits":                {deployment: refusing(`pods "shop-x1" is forbidden: maximum cpu usage per Container is 1`), want: failure{reason: v1alpha1.FailurePodRejected, message: "maximum cpu usage per Container is 1"}},
		"webhook":               {deployment: refusing(`admission webhook "x" denied the request: no`), want: failure{reason: v1alpha1.FailurePodRejected, message: `admission webhook "x" denied the request: no`}},
		"young":                 {pods: []corev1.Pod{pod(running(10 * time.Second))}, want: failure{requeueAt: noon.Add(20 * time.Second)}},
		"never ready":           {pods: []corev1.Pod{pod(running(30 * time.Second))}, want: failure{reason: v1alpha1.FailureReadinessFailing, message: `container "shop" is running, but its readiness probe fails`, unanswered: true}},
		"half the deadline":     {pods: []corev1.Pod{pod(running(10 * time.Second))}, seen: deadline(20), want: failure{reason: v1alpha1.FailureReadinessFailing, message: `container "shop" is running, but its readiness probe fails`, unanswered: true}},
		"shortly after the start, within the deadline": {pods: []corev1.Pod{pod(running(10 * time.Second))}, seen: deadline(30), want: failure{requeueAt: noon.Add(5 * time.Second)}},
		"rolled back shortly after the start":          {pods: []corev1.Pod{pod(running(10 * time.Second))}, seen: rolledBack("ProgressDeadlineExceeded"), want: failure{reason: v1alpha1.FailureReadinessFailing, message: `container "shop" is running, but its readiness probe fails`, unanswered: true}},
		"aborted shortly after the start":              {pods: []corev1.Pod{pod(running(10 * time.Second))}, seen: rolledBack("Aborted"), want: failure{requeueAt: noon.Add(5 * time.Second)}},
		"probe message from events": {pods: []corev1.Pod{pod(running(time.Minute))}, seen: func(o *observed) {
			o.probeMessages = map[failingProbe]string{{"shop", "readiness"}: "HTTP probe failed with statuscode: 503", {"shop", "startup"}: "refused", {"proxy", "readiness"}: "no"}
		},
			want: failure{reason: v1alpha1.FailureReadinessFailing, message: `container "shop" is running, but its readiness probe fails: HTTP probe failed with statuscode: 503`}},
		"first recorded probe message": {pods: []corev1.Pod{pod(running(time.Minute))}, seen: func(o *observed) {
			o.release.Status.Failure, o.release.Status.Message = v1alpha1.FailureReadinessFailing, `container "shop" is running, but its readiness probe fails: refused`
		}, want: failure{reason: v1alpha1.FailureReadinessFailing, message: `container "shop" is running, but its readiness probe fails: refused`}},
		"message for a recorded probe failure": {pods: []corev1.Pod{pod(running(time.Minute))}, seen: func(o *observed) {
			o.release.Status.Failure, o.release.Status.Message = v1alpha1.FailureReadinessFailing, `container "shop" is running, but its readiness probe fails`
			o.probeMessages = map[failingProbe]string{{"shop", "readiness"}: "refused"}
		}, want: failure{reason: v1alpha1.FailureReadinessFailing, message: `container "shop" is running, but its readiness probe fails: refused`}},
		"probe with a long delay": {pods: []corev1.Pod{pod(running(30 * time.Second))}, probe: &corev1.Probe{InitialDelaySeconds: 60}, want: failure{requeueAt: noon.Add(time.Minute)}},
		"never started":           {pods: []corev1.Pod{pod(running(time.Hour))}, startup: &corev1.Probe{}, want: failure{reason: v1alpha1.FailureReadinessFailing, message: `container "shop" is running, but its startup probe fails`, unanswered: true}},
		"several causes, the most severe first": {
			deployment: refusing("exceeded quota"),
			pods:       []corev1.Pod{unschedulable, pod(running(time.Second)), pod(again), waiting("ErrImagePull", "x")},
			want:       failure{reason: v1alpha1.FailureCrashLoopBackOff, message: `container "shop" exited with code 2 (Error): no database` + "\n", requeueAt: noon.Add(29 * time.Second)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := newRelease("default", 1)
			release.Spec.Template.Spec.Containers[0].ReadinessProbe, release.Spec.Template.Spec.Containers[0].StartupProbe = test.probe, test.startup
			release.UID = "release"
			if test.deployment != nil {
				test.deployment.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(release, v1alpha1.GroupVersion.WithKind("VersionedMicroservice"))}
			}
			o := &observed{release: release, deployment: test.deployment, pods: test.pods}
			if test.seen != nil {
				test.seen(o)
			}
			got := diagnose(o, rolloutStateOf(o.microservice, releaseName), noon)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(failure{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.reason != "" && ranks[got.reason] == 0 {
				t.Errorf("%s has no rank", got.reason)
			}
		})
	}
}

// TestCauseOfMissingCapacity checks that a release with four pods, some of which cannot be scheduled, waits
// for capacity unless the scheduled pods show that the release would not become available even with more
// capacity.
func TestCauseOfMissingCapacity(t *testing.T) {
	t.Parallel()
	shop := func(c corev1.ContainerStatus) corev1.Pod {
		c.Name, c.Image = "shop", "r/shop:1"
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c}}}
	}
	running := func(since time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-since))}}
	}
	kinds := map[rune]corev1.Pod{
		'r': shop(corev1.ContainerStatus{Ready: true, State: running(time.Hour)}),
		'u': shop(corev1.ContainerStatus{State: running(time.Hour)}),
		's': shop(corev1.ContainerStatus{State: running(time.Second)}),
		'c': shop(corev1.ContainerStatus{State: running(time.Second), LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}),
		'i': shop(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "i/o timeout"}}}),
		'-': {Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"}}}},
	}
	const quota, down = `pods "shop-x1" is forbidden: exceeded quota: small`, `Internal error occurred: failed calling webhook "pods.example.com": connection refused`
	for name, test := range map[string]struct {
		pods    string // one letter of kinds for each pod
		refused string
		want    string
	}{
		"no pod is scheduled":                                    {"----", "", v1alpha1.FailureUnschedulable},
		"all scheduled pods are ready":                           {"rrr-", "", v1alpha1.FailureUnschedulable},
		"all scheduled pods are starting":                        {"sss-", "", v1alpha1.FailureUnschedulable},
		"one cannot be scheduled, the others are never ready":    {"uuu-", "", v1alpha1.FailureReadinessFailing},
		"half of the pods are scheduled, and are never ready":    {"uu--", "", v1alpha1.FailureReadinessFailing},
		"half of the pods are scheduled, one is never ready":     {"ru--", "", v1alpha1.FailureReadinessFailing},
		"one is scheduled, and may need the others":              {"u---", "", v1alpha1.FailureUnschedulable},
		"one is never ready, another cannot be scheduled":        {"rru-", "", v1alpha1.FailureReadinessFailing},
		"one is never ready, others are starting":                {"uss-", "", v1alpha1.FailureUnschedulable},
		"one crashes, the others cannot be scheduled":            {"c---", "", v1alpha1.FailureCrashLoopBackOff},
		"one crashes, others are ready, one cannot be scheduled": {"rrc-", "", v1alpha1.FailureCrashLoopBackOff},
		"the quota rejects one, the others are ready":            {"rrr", quota, v1alpha1.FailureQuotaExceeded},
		"the quota rejects one, others are never ready":          {"uuu", quota, v1alpha1.FailureReadinessFailing},
		"the quota rejects all but one":                          {"u", quota, v1alpha1.FailureQuotaExceeded},
		"a webhook is down, the others are never ready":          {"uuu", down, v1alpha1.FailureReadinessFailing},
		"a webhook is down, the others are ready":                {"rrr", down, v1alpha1.FailureAdmissionUnavailable},
		"one cannot be pulled, the others are never ready":       {"uuui", "", v1alpha1.FailureReadinessFailing},
		"one cannot be pulled, the others are ready":             {"rrri", "", v1alpha1.FailureImagePullBackOff},
		"a policy rejects one, another cannot be pulled":         {"rri", `pods "shop-x1" is forbidden: ValidatingAdmissionPolicy 'images' denied request: no`, v1alpha1.FailurePodRejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := newRelease("default", 4)
			release.UID = "release"
			o := &observed{release: release}
			if test.refused != "" {
				o.deployment = &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: test.refused}}}}
				o.deployment.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(release, v1alpha1.GroupVersion.WithKind("VersionedMicroservice"))}
			}
			for _, kind := range test.pods {
				o.pods = append(o.pods, kinds[kind])
			}
			if got := diagnose(o, rolloutStateOf(o.microservice, releaseName), noon); got.reason != test.want {
				t.Errorf("%s (%s), want %s", got.reason, got.message, test.want)
			}
		})
	}
}

// TestCauseOfAMissingSidecar checks the failure that is reported for a container that does not become ready and may require another container
// of its pod. While a problem outside the release prevents the other container from running, the release waits,
// regardless of the number of replicas. Complete pods still show the failure.
func TestCauseOfAMissingSidecar(t *testing.T) {
	t.Parallel()
	container := func(name string, ready bool, state corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Image: "r/" + name + ":1", Ready: ready, State: state}
	}
	running := func(since time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-since))}}
	}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	pod := func(containers ...corev1.ContainerStatus) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: containers}}
	}
	initial := func(pod corev1.Pod, containers ...corev1.ContainerStatus) corev1.Pod {
		pod.Status.InitContainerStatuses = containers
		return pod
	}
	var (
		runs, starts = running(time.Hour), running(time.Second)
		away         = waiting("ImagePullBackOff", `Back-off pulling image "r/proxy:1": ErrImagePull: dial tcp 10.0.0.1:443: i/o timeout`)
		missing      = waiting("ErrImagePull", "r/proxy:1: not found")
		made, idle   = waiting("ContainerCreating", ""), waiting("PodInitializing", "")
		done         = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	)
	crashed := container("shop", false, starts)
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	again, lost := container("proxy", true, starts), container("proxy", false, away)
	again.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	lost.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown"}
	kinds := map[rune]corev1.Pod{
		'r': initial(pod(container("shop", true, runs), container("proxy", true, runs)), container("migrate", true, done)),
		'u': initial(pod(container("shop", false, runs), container("proxy", true, runs)), container("migrate", true, done)),
		's': initial(pod(container("shop", false, starts), container("proxy", true, starts)), container("migrate", true, done)),
		'p': pod(container("shop", false, runs), container("proxy", false, away)),
		'P': pod(container("shop", true, runs), container("proxy", false, away)),
		'a': pod(container("shop", false, away), container("proxy", false, runs)),
		'm': pod(container("shop", false, runs), container("proxy", false, made)),
		'b': pod(container("shop", false, runs), container("proxy", true, starts)),
		'B': pod(container("shop", false, runs), again),
		'x': pod(container("shop", false, runs), container("proxy", false, missing)),
		'c': pod(crashed, container("proxy", false, away)),
		'n': initial(pod(container("shop", false, idle)), container("proxy", false, away)),
		'N': initial(pod(container("shop", false, idle)), container("proxy", false, missing)),
		'o': initial(pod(container("shop", false, runs)), lost),
		'-': {Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"}}}},
	}
	for name, test := range map[string]struct {
		pods string // one letter of kinds for each replica
		want string
	}{
		"the sidecar cannot be pulled, one replica":                                          {"p", v1alpha1.FailureImagePullBackOff},
		"the sidecar cannot be pulled, two replicas":                                         {"pp", v1alpha1.FailureImagePullBackOff},
		"the sidecar cannot be pulled, four replicas":                                        {"pppp", v1alpha1.FailureImagePullBackOff},
		"the sidecar cannot be pulled, the application is ready":                             {"PP", v1alpha1.FailureImagePullBackOff},
		"the application cannot be pulled, and its sidecar needs it":                         {"a", v1alpha1.FailureImagePullBackOff},
		"half have no sidecar, the others are ready":                                         {"rrpp", v1alpha1.FailureImagePullBackOff},
		"one of two has no sidecar, the other is ready":                                      {"rp", v1alpha1.FailureImagePullBackOff},
		"one has no sidecar, the others are ready":                                           {"rrrp", v1alpha1.FailureImagePullBackOff},
		"one has no sidecar, the others are starting":                                        {"sssp", v1alpha1.FailureImagePullBackOff},
		"one has no sidecar, the others are complete and never ready":                        {"uuup", v1alpha1.FailureReadinessFailing},
		"half are complete and never ready":                                                  {"uupp", v1alpha1.FailureReadinessFailing},
		"one of two is complete and never ready":                                             {"up", v1alpha1.FailureReadinessFailing},
		"half are complete, and one of them is never ready":                                  {"rupp", v1alpha1.FailureReadinessFailing},
		"one of four pods is complete and never ready, and may need the other pods":          {"uppp", v1alpha1.FailureImagePullBackOff},
		"half have no sidecar, the others cannot be scheduled":                               {"pp--", v1alpha1.FailureImagePullBackOff},
		"the image of the sidecar does not exist":                                            {"x", v1alpha1.FailureImageNotFound},
		"for one of four pods, the registry reports that the sidecar's image does not exist": {"pppx", v1alpha1.FailureImageNotFound},
		"the application crashes without its sidecar":                                        {"c", v1alpha1.FailureCrashLoopBackOff},
		"the application of one pod crashes without its sidecar":                             {"pppc", v1alpha1.FailureCrashLoopBackOff},
		"the sidecar is being created, with no other cause":                                  {"mm", v1alpha1.FailureReadinessFailing},
		"half of the sidecars are being created, the other pods cannot be scheduled":         {"mm--", v1alpha1.FailureUnschedulable},
		"half of the sidecars are being created, the other sidecars cannot be pulled":        {"mmpp", v1alpha1.FailureImagePullBackOff},
		"the sidecar was finally pulled, and the application still has time to start":        {"bb", ""},
		"the sidecar image of one pod was finally pulled":                                    {"pppb", v1alpha1.FailureImagePullBackOff},
		"a sidecar that starts again gives the application no more time":                     {"B", v1alpha1.FailureReadinessFailing},
		"an init container waits for its image, one replica":                                 {"n", v1alpha1.FailureImagePullBackOff},
		"an init container waits for its image, four replicas":                               {"nnnn", v1alpha1.FailureImagePullBackOff},
		"an init container of half of the pods waits, the other pods are ready":              {"rrnn", v1alpha1.FailureImagePullBackOff},
		"an init container of half of the pods waits, the other pods are never ready":        {"uunn", v1alpha1.FailureReadinessFailing},
		"an init container of all pods but one waits, the other pod is never ready":          {"unnn", v1alpha1.FailureImagePullBackOff},
		"the image of an init container does not exist":                                      {"nnnN", v1alpha1.FailureImageNotFound},
		"a native sidecar is lost, and cannot be pulled again":                               {"o", v1alpha1.FailureImagePullBackOff},
		"native sidecars are lost, and cannot be pulled again":                               {"rroo", v1alpha1.FailureImagePullBackOff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &observed{release: newRelease("default", int32(len(test.pods)))}
			for _, kind := range test.pods {
				o.pods = append(o.pods, kinds[kind])
			}
			if got := diagnose(o, rolloutState{}, noon); got.reason != test.want {
				t.Errorf("%q (%s), want %q", got.reason, got.message, test.want)
			}
		})
	}
}

// TestEndedFromOutside checks that a pod that was evicted, or ended with its node, does not count as a crash, and
// does not hide the cause that prevents its replacement from running.
func TestEndedFromOutside(t *testing.T) {
	t.Parallel()
	shop := func(c corev1.ContainerStatus) corev1.Pod {
		c.Name, c.Image = "shop", "r/shop:1"
		return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{c}}}
	}
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(noon.Add(-time.Hour))}}
	}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	gone := func(phase corev1.PodPhase, reason string, state corev1.ContainerState) corev1.Pod {
		pod := shop(corev1.ContainerStatus{State: state})
		pod.Status.Phase, pod.Status.Reason = phase, reason
		return pod
	}
	noRoom := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"}}}}
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"evicted, and its successor cannot be scheduled":                {[]corev1.Pod{gone(corev1.PodFailed, "Evicted", ended(137, "ContainerStatusUnknown")), noRoom}, v1alpha1.FailureUnschedulable},
		"evicted while it was being killed because of its memory usage": {[]corev1.Pod{gone(corev1.PodFailed, "Evicted", ended(137, "OOMKilled")), noRoom}, v1alpha1.FailureUnschedulable},
		"the node shut down, the pod cannot be scheduled":               {[]corev1.Pod{gone(corev1.PodFailed, "Terminated", ended(143, "Error")), noRoom}, v1alpha1.FailureUnschedulable},
		"the node shut down, and the pod ended successfully":            {[]corev1.Pod{gone(corev1.PodSucceeded, "", ended(0, "Completed")), noRoom}, v1alpha1.FailureUnschedulable},
		"evicted long ago, its successor is starting":                   {[]corev1.Pod{gone(corev1.PodFailed, "Evicted", ended(137, "Error")), shop(corev1.ContainerStatus{State: waiting("ContainerCreating")})}, ""},
		"evicted, and its successor crashes":                            {[]corev1.Pod{gone(corev1.PodFailed, "Evicted", ended(137, "Error")), shop(corev1.ContainerStatus{State: ended(1, "Error")})}, v1alpha1.FailureCrashLoopBackOff},
		"the node restarted, the container starts":                      {[]corev1.Pod{shop(corev1.ContainerStatus{State: waiting("ContainerCreating"), LastTerminationState: ended(255, "Unknown")})}, ""},
		"the container runtime lost the container":                      {[]corev1.Pod{shop(corev1.ContainerStatus{State: ended(137, "ContainerStatusUnknown")})}, ""},
		"the container is in back-off, without an observed exit":        {[]corev1.Pod{shop(corev1.ContainerStatus{State: waiting("CrashLoopBackOff"), LastTerminationState: ended(255, "Unknown")})}, v1alpha1.FailureCrashLoopBackOff},
		"the node restarted, and the container exits":                   {[]corev1.Pod{shop(corev1.ContainerStatus{State: waiting("ContainerCreating"), LastTerminationState: ended(1, "Error")})}, v1alpha1.FailureCrashLoopBackOff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &observed{release: newRelease("default", 1), pods: test.pods}
			if got := diagnose(o, rolloutState{}, noon); got.reason != test.want {
				t.Errorf("%q (%s), want %q", got.reason, got.message, test.want)
			}
		})
	}
}

// TestCauseOfARejection checks that an unavailable webhook and a server that cannot decide are external
// causes, and that a rejection of the pod is a failure of the release.
func TestCauseOfARejection(t *testing.T) {
	t.Parallel()
	const calling = `Internal error occurred: failed calling webhook "pods.example.com": failed to call webhook: Post "https://hook.infra.svc:443/mutate?timeout=10s": `
	for name, test := range map[string]struct{ message, want string }{
		"webhook refuses connections":              {calling + "dial tcp 10.96.7.7:443: connect: connection refused", v1alpha1.FailureAdmissionUnavailable},
		"webhook has no endpoints":                 {calling + `no endpoints available for service "hook"`, v1alpha1.FailureAdmissionUnavailable},
		"webhook has no Service":                   {calling + `service "hook" not found`, v1alpha1.FailureAdmissionUnavailable},
		"webhook is too slow":                      {calling + "context deadline exceeded", v1alpha1.FailureAdmissionUnavailable},
		"webhook is not trusted":                   {calling + "tls: failed to verify certificate: x509: certificate signed by unknown authority", v1alpha1.FailureAdmissionUnavailable},
		"webhook returns 503":                      {`Internal error occurred: failed calling webhook "x": an error on the server ("") has prevented the request from succeeding`, v1alpha1.FailureAdmissionUnavailable},
		"webhook returns an invalid response":      {`Internal error occurred: failed calling webhook "x": received invalid webhook response: webhook returned response.patch but not response.patchType`, v1alpha1.FailureAdmissionUnavailable},
		"webhook error without a prefix":           {`failed calling webhook "x"; no further details available`, v1alpha1.FailureAdmissionUnavailable},
		"server timeout":                           {"Timeout: request did not complete within requested timeout - context deadline exceeded", v1alpha1.FailureAdmissionUnavailable},
		"etcd has no leader":                       {"etcdserver: no leader", v1alpha1.FailureAdmissionUnavailable},
		"image policy server is down":              {`pods "shop-x1" is forbidden: Post "https://images.example.com/": dial tcp: lookup images.example.com: no such host`, v1alpha1.FailureAdmissionUnavailable},
		"webhook denies":                           {`admission webhook "pods.example.com" denied the request: runAsNonRoot is required`, v1alpha1.FailurePodRejected},
		"webhook denies without explanation":       {`admission webhook "pods.example.com" denied the request without explanation`, v1alpha1.FailurePodRejected},
		"webhook denies, and quotes another error": {`admission webhook "x" denied the request: failed calling webhook "y": connection refused`, v1alpha1.FailurePodRejected},
		"policy denies":                            {`pods "shop-x1" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'all' denied request: connection refused by policy`, v1alpha1.FailurePodRejected},
		"no ServiceAccount":                        {`pods "shop-x1" is forbidden: error looking up service account shop/web: serviceaccount "web" not found`, v1alpha1.FailurePodRejected},
		"invalid pod":                              {`Pod "shop-x1" is invalid: spec.containers[0].image: Required value`, v1alpha1.FailurePodRejected},
		"quota":                                    {`pods "shop-x1" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`, v1alpha1.FailureQuotaExceeded},
		"a new quota":                              {`pods "shop-x1" is forbidden: status unknown for quota: small, resources: pods`, v1alpha1.FailureQuotaExceeded},
		"pod security":                             {`pods "shop-x1" is forbidden: violates PodSecurity "restricted:latest": privileged`, v1alpha1.FailurePodSecurityViolation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := classifyRefusal(test.message); got.reason != test.want || ranks[got.reason] == 0 {
				t.Errorf("%q of rank %d, want %q", got.reason, ranks[got.reason], test.want)
			}
		})
	}
}

// TestCauseOfAFailedPull checks that a missing image is a failure of the release, and that missing
// permissions and an unavailable registry are problems outside the release.
func TestCauseOfAFailedPull(t *testing.T) {
	t.Parallel()
	const image = "r.example/denied/unauthorized:1.401.0"
	for name, test := range map[string]struct{ reason, message, want string }{
		"no such tag, containerd":     {"ErrImagePull", `rpc error: code = NotFound desc = failed to pull and unpack image "` + image + `": failed to resolve reference "` + image + `": ` + image + `: not found`, v1alpha1.FailureImageNotFound},
		"no such tag, CRI-O":          {"ErrImagePull", `initializing source docker://` + image + `: reading manifest 1.401.0 in r.example/shop: manifest unknown`, v1alpha1.FailureImageNotFound},
		"no such tag, HTTP status":    {"ErrImagePull", `unexpected status from HEAD request to https://r.example/v2/denied/unauthorized/manifests/1.401.0: 404 Not Found`, v1alpha1.FailureImageNotFound},
		"no such repository":          {"ImagePullBackOff", `Back-off pulling image "` + image + `": ErrImagePull: name unknown: repository not known to registry`, v1alpha1.FailureImageNotFound},
		"no credentials":              {"ErrImagePull", `failed to resolve reference "` + image + `": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`, v1alpha1.FailureImagePullBackOff},
		"wrong credentials":           {"ErrImagePull", `failed to resolve reference "` + image + `": unexpected status from HEAD request to https://r.example/v2/shop/manifests/1: 401 Unauthorized`, v1alpha1.FailureImagePullBackOff},
		"no permission":               {"ErrImagePull", `unexpected status from HEAD request to https://r.example/v2/shop/manifests/1: 403 Forbidden`, v1alpha1.FailureImagePullBackOff},
		"token server has no account": {"ErrImagePull", `failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://auth.example/token: 404 Not Found`, v1alpha1.FailureImagePullBackOff},
		"hidden without credentials":  {"ErrImagePull", `denied: requested access to the resource is denied: r/shop:1: not found`, v1alpha1.FailureImagePullBackOff},
		"registry unreachable":        {"ErrImagePull", `failed to do request: Head "https://r.example/v2/shop/manifests/1": dial tcp 10.0.0.1:443: i/o timeout`, v1alpha1.FailureImagePullBackOff},
		"registry host not found":     {"ErrImagePull", `dial tcp: lookup r.example on 10.96.0.10:53: no such host`, v1alpha1.FailureImagePullBackOff},
		"registry limits":             {"ErrImagePull", `unexpected status from HEAD request to https://r.example/v2/shop/manifests/404: 429 Too Many Requests`, v1alpha1.FailureImagePullBackOff},
		"registry fails":              {"RegistryUnavailable", `received unexpected HTTP status: 503 Service Unavailable`, v1alpha1.FailureImagePullBackOff},
		"layer lost on the node":      {"ErrImagePull", `failed to pull and unpack image "` + image + `": failed to extract layer sha256:1f: failed to get reader from content store: blob sha256:1f expected at /var/lib/containerd/1f: blob not found: not found`, v1alpha1.FailureImagePullBackOff},
		"digest lost on the node":     {"ErrImagePull", `failed to pull and unpack image "` + image + `": content digest sha256:1f: not found`, v1alpha1.FailureImagePullBackOff},
		"snapshot lost on the node":   {"ErrImagePull", `failed to prepare extraction snapshot "extract-1f": parent snapshot sha256:1f does not exist: not found`, v1alpha1.FailureImagePullBackOff},
		"layer not in the registry":   {"ErrImagePull", `failed to copy: httpReadSeeker: failed open: content at https://r.example/v2/shop/blobs/sha256:1f not found: not found`, v1alpha1.FailureImageNotFound},
		"other platform":              {"ErrImagePull", `failed to pull and unpack image "` + image + `": no match for platform in manifest: not found`, v1alpha1.FailureImageUnusable},
		"signature":                   {"SignatureValidationFailed", `image pull failed for r.example because the signature validation failed: source image rejected`, v1alpha1.FailureImageUnusable},
		"signature later":             {"ImagePullBackOff", `Back-off pulling image "` + image + `": SignatureValidationFailed: source image rejected: unauthorized`, v1alpha1.FailureImageUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pullFailure(`container "shop"`, image, &corev1.ContainerStateWaiting{Reason: test.reason, Message: test.message})
			if got.reason != test.want || ranks[got.reason] == 0 {
				t.Errorf("%q of rank %d, want %q", got.reason, ranks[got.reason], test.want)
			}
		})
	}
}

// TestCauseOfAFailedCreation checks that an overloaded or full node that cannot create a container is a problem outside the
// release, with a message that does not change with each attempt, and that other causes are failures of the release.
func TestCauseOfAFailedCreation(t *testing.T) {
	t.Parallel()
	const outside, config, creation = v1alpha1.FailureContainerCreating, v1alpha1.FailureCreateContainerConfigError, v1alpha1.FailureCreateContainerError
	for name, test := range map[string]struct{ reason, message, want, why string }{
		"slow runtime":                     {"CreateContainerError", `context deadline exceeded`, outside, "context deadline exceeded"},
		"name reserved by a slow creation": {"CreateContainerError", `failed to reserve container name "shop_shop-x1_shop_uid_0": name "shop_shop-x1_shop_uid_0" is reserved for "1f"`, outside, "failed to reserve container name"},
		"slow start":                       {"RunContainerError", `failed to start containerd task "shop": context deadline exceeded`, outside, "context deadline exceeded"},
		"slow kubelet":                     {"CreateContainerConfigError", `failed to sync configmap cache: timed out waiting for the condition`, outside, "failed to sync configmap cache"},
		"slow Secret":                      {"CreateContainerConfigError", `failed to sync secret cache: timed out waiting for the condition`, outside, "failed to sync secret cache"},
		"lost layer":                       {"CreateContainerError", `failed to create containerd container: error unpacking image: failed to extract layer sha256:1f: not found`, outside, "error unpacking image"},
		"full disk":                        {"CreateContainerError", `mkdir /var/lib/containerd/1f: no space left on device`, outside, "no space left on device"},
		"missing ConfigMap":                {"CreateContainerConfigError", `configmap "shop" not found`, config, `configmap "shop" not found`},
		"missing command":                  {"RunContainerError", `exec: "/app": stat /app: no such file or directory`, creation, "no such file or directory"},
		"output of the release":            {"PostStartHookError", `Exec lifecycle hook ([/warm]) failed: context deadline exceeded`, creation, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := notRunning(corev1.ContainerStatus{Name: "shop", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: test.reason, Message: test.message}}}, "container")
			if got.reason != test.want || !strings.Contains(got.message, `container "shop"`) || !strings.Contains(got.message, test.why) {
				t.Errorf("%s: %s, want %s: %s", got.reason, got.message, test.want, test.why)
			}
			if got.reason == outside && strings.Contains(got.message, "1f") {
				t.Errorf("the message contains a value that changes: %s", got.message)
			}
		})
	}
	restarted := corev1.ContainerStatus{Name: "shop", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: "failed to create containerd task: context deadline exceeded"},
	}}
	if got := notRunning(restarted, "container"); got.reason != outside {
		t.Errorf("while the kubelet waits for its next attempt: %s: %s", got.reason, got.message)
	}
	started := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	running := restarted
	running.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	if got := notRunning(running, "container"); got != (failure{}) {
		t.Errorf("after a successful attempt, although the container is not ready: %s: %s", got.reason, got.message)
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}}}
	if since, ok := complete(pod); !ok || !since.Equal(started.Time) {
		t.Errorf("the containers have been running since %s, %t, want since the successful attempt", since, ok)
	}
	restarted.LastTerminationState.Terminated.Reason = "Error"
	if got := notRunning(restarted, "container"); got.reason != v1alpha1.FailureCrashLoopBackOff {
		t.Errorf("a container that ran and wrote this message: %s: %s", got.reason, got.message)
	}
}
