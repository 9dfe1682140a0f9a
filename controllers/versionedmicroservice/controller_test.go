package versionedmicroservice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

const releaseName = "shop-1-0-0-abc"

func newRelease(namespace string, replicas int32) *v1alpha1.VersionedMicroservice {
	return &v1alpha1.VersionedMicroservice{
		ObjectMeta: metav1.ObjectMeta{Name: releaseName, Namespace: namespace, Annotations: map[string]string{v1alpha1.AnnotationAttempt: "1"}},
		Spec: v1alpha1.VersionedMicroserviceSpec{
			MicroserviceName: "shop", Group: "1-x",
			SemVer:   v1alpha1.SemVer{Name: "1.x", Version: "1.0.0"},
			Images:   []v1alpha1.ReleaseImage{{Image: "registry.example.com/shop:1.0.0", Digest: "sha256:0"}},
			Replicas: replicas,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRelease: releaseName, v1alpha1.LabelMicroservice: "shop"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "registry.example.com/shop:1.0.0"}}},
			},
		},
	}
}

// create creates the release as the Microservice controller does.
func create(t *testing.T, release *v1alpha1.VersionedMicroservice) *v1alpha1.VersionedMicroservice {
	t.Helper()
	if err := world.Create(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	return release
}

// change updates a fresh copy of obj.
func change[T client.Object](t *testing.T, obj T, edit func(T)) {
	t.Helper()
	eventually(t, func() string {
		if text := fetch(t, obj); text != "" {
			return text
		}
		edit(obj)
		if err := world.Update(t.Context(), obj); err != nil {
			return err.Error()
		}
		return ""
	})
}

func deploymentOf(release *v1alpha1.VersionedMicroservice) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: release.Name, Namespace: release.Namespace}}
}

// reads waits until the release's status, in the form "<ready> <condition>=<status>/<reason> … <failure>",
// equals the expected text.
func reads(t *testing.T, release *v1alpha1.VersionedMicroservice, want string) {
	t.Helper()
	eventually(t, func() string {
		if text := fetch(t, release); text != "" {
			return text
		}
		if release.Status.ObservedGeneration != release.Generation {
			return fmt.Sprintf("generation %d observed, not %d", release.Status.ObservedGeneration, release.Generation)
		}
		parts := []string{release.Status.Ready}
		for _, c := range release.Status.Conditions {
			parts = append(parts, c.Type+"="+string(c.Status)+"/"+c.Reason)
		}
		if release.Status.Failure != "" {
			parts = append(parts, release.Status.Failure)
		}
		return cmp.Diff(want, strings.Join(parts, " "))
	})
}

// play simulates the kubelet for all of a release's pods, as soon as there are n pods.
func play(t *testing.T, release *v1alpha1.VersionedMicroservice, n int, edit func(*corev1.Pod)) {
	t.Helper()
	eventually(t, func() string {
		var pods corev1.PodList
		if err := world.List(t.Context(), &pods, client.InNamespace(release.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: release.Name}); err != nil {
			return err.Error()
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if len(pods.Items) != n {
			return fmt.Sprintf("%d pods, want %d", len(pods.Items), n)
		}
		for i := range pods.Items {
			edit(&pods.Items[i])
			if err := world.Status().Update(context.WithoutCancel(t.Context()), &pods.Items[i]); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

func readyPod(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "shop", Ready: true, Image: "x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
}

func waitingPod(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "shop", Image: "registry.example.com/shop:1.0.0",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}
	}
}

const (
	isAvailable = "Available=True/Available Progressing=False/Available Ready=True/Available"
	isStarting  = "Available=False/Starting Progressing=True/Starting Ready=False/Starting Reconciling=True/Starting"
	isZero      = "Available=False/ScaledToZero Progressing=False/ScaledToZero Ready=True/ScaledToZero"
)

func failing(reason string) string {
	return strings.ReplaceAll("Available=False/X Progressing=False/X Ready=False/X Reconciling=True/X X", "X", reason)
}

func TestLifeOfARelease(t *testing.T) {
	t.Parallel()
	release := create(t, newRelease(namespace(t, nil), 2))
	reads(t, release, "0/2 "+isStarting)
	play(t, release, 2, readyPod)
	reads(t, release, "2/2 "+isAvailable)
	if release.Status.Image != "registry.example.com/shop:1.0.0" || release.Status.Selector != "hlnr.io/release="+releaseName || release.Status.Replicas != 2 {
		t.Errorf("status: %+v", release.Status)
	}
	// The expected writes are those at the start and at the end of the rollout. The Deployment might report its two pods one
	// after the other.
	steady(t, release)
	writes := world.writes.in(release.Namespace)
	if diff := cmp.Diff([]string{"create", "patch status"}, slices.Compact(slices.Clone(writes))); diff != "" || len(writes) > 6 {
		t.Errorf("writes from the creation until the release is available: %v (-want +got):\n%s", writes, diff)
	}

	d := deploymentOf(release)
	fetch(t, d)
	template, generation := d.Spec.Template, d.Generation
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 3 })
	play(t, release, 3, readyPod)
	reads(t, release, "3/3 "+isAvailable)
	fetch(t, d)
	if diff := cmp.Diff(template, d.Spec.Template); diff != "" || d.Generation != generation+1 {
		t.Errorf("scaling changed the template (generation %d, was %d):\n%s", d.Generation, generation, diff)
	}

	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 0 })
	reads(t, release, "0/0 "+isZero)
}

func TestAvailabilityLost(t *testing.T) {
	t.Parallel()
	release := create(t, newRelease(namespace(t, nil), 1))
	play(t, release, 1, readyPod)
	reads(t, release, "1/1 "+isAvailable)
	play(t, release, 1, func(pod *corev1.Pod) {
		waitingPod("CrashLoopBackOff", "back-off 5m0s restarting failed container")(pod)
		pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	})
	reads(t, release, "0/1 "+failing(v1alpha1.FailureCrashLoopBackOff))
	if want := `container "shop" exited with code 137 (OOMKilled)`; release.Status.Message != want {
		t.Errorf("message %q, want %q", release.Status.Message, want)
	}
	play(t, release, 1, readyPod)
	reads(t, release, "1/1 "+isAvailable)
}

func TestImageFailures(t *testing.T) {
	t.Parallel()
	release := create(t, newRelease(namespace(t, nil), 1))
	play(t, release, 1, waitingPod("ErrImagePull", `failed to resolve reference "registry.example.com/shop:1.0.0": registry.example.com/shop:1.0.0: not found`))
	reads(t, release, "0/1 "+failing(v1alpha1.FailureImageNotFound))
	steady(t, release)
	written := len(world.writes.in(release.Namespace))
	play(t, release, 1, waitingPod("ImagePullBackOff", `Back-off pulling image "registry.example.com/shop:1.0.0": ErrImagePull: failed to resolve reference "registry.example.com/shop:1.0.0": registry.example.com/shop:1.0.0: not found`))
	pass(t, release, 2)
	if n := len(world.writes.in(release.Namespace)); n != written {
		t.Errorf("the back-off of the kubelet caused %d writes", n-written)
	}
}

func TestPodsRefused(t *testing.T) {
	t.Parallel()
	t.Run("by Pod Security", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		refused(t, trialPod(ns))
		release := create(t, newRelease(ns, 1))
		reads(t, release, "0/1 "+failing(v1alpha1.FailurePodSecurityViolation))
		if strings.Contains(release.Status.Message, releaseName) || !strings.HasPrefix(release.Status.Message, "violates PodSecurity") {
			t.Errorf("message %q contains the name of a pod that never existed", release.Status.Message)
		}
	})
	t.Run("by a quota", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t, nil)
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: ns}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
		quota.Spec.Hard["pods"] = resource.MustParse("0")
		if err := world.Create(t.Context(), quota); err != nil {
			t.Fatal(err)
		}
		quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
		if err := world.Status().Update(t.Context(), quota); err != nil {
			t.Fatal(err)
		}
		refused(t, trialPod(ns))
		release := create(t, newRelease(ns, 1))
		reads(t, release, "0/1 "+failing(v1alpha1.FailureQuotaExceeded))
	})
}

func TestDeploymentIsKept(t *testing.T) {
	t.Parallel()
	release := create(t, newRelease(namespace(t, nil), 1))
	play(t, release, 1, readyPod)
	reads(t, release, "1/1 "+isAvailable)
	d := deploymentOf(release)
	if text := fetch(t, d); text != "" {
		t.Fatal(text)
	}
	template := d.Spec.Template.DeepCopy()

	for name, edit := range map[string]func(*appsv1.Deployment){
		"template extended": func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DEBUG", Value: "1"}}
		},
		"template with a restart annotation": func(d *appsv1.Deployment) {
			resources.Annotate(&d.Spec.Template, "kubectl.kubernetes.io/restartedAt", "now")
		},
		"image changed": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other" },
		"image changed, with the hash of the change": func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = "other"
			if err := annotateTemplate(d, d); err != nil {
				t.Error(err)
			}
		},
		"scaled manually": func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) },
		"paused":          func(d *appsv1.Deployment) { d.Spec.Paused = true },
		"labels removed":  func(d *appsv1.Deployment) { d.Labels = nil },
		"strategy changed": func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		},
		"readiness changed": func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 7 },
	} {
		change(t, d, edit)
		eventually(t, func() string {
			if text := fetch(t, d); text != "" {
				return name + ": " + text
			}
			want := resources.Amend(d, release)
			want.Spec.Template, want.Spec.Replicas = *template, &release.Spec.Replicas
			if text := fetch(t, release); text != "" || release.Status.TemplateHash == "" {
				return name + ": no hash of the template " + text
			}
			if diff := cmp.Diff(want, d); diff != "" {
				return name + ": " + diff
			}
			return ""
		})
	}

	if err := world.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	old := d.UID
	eventually(t, func() string {
		if text := fetch(t, d); text != "" {
			return text
		}
		if d.UID == old {
			return "not deleted yet"
		}
		return cmp.Diff(template, &d.Spec.Template)
	})
}

// TestRevivedReleaseRefusesOldScaleDown checks that a scale-down by an old leader fails after the release has
// been revived (protocol rule 2).
func TestRevivedReleaseRefusesOldScaleDown(t *testing.T) {
	t.Parallel()
	release := create(t, newRelease(namespace(t, nil), 1))
	play(t, release, 1, readyPod)
	reads(t, release, "1/1 "+isAvailable)
	old := deploymentOf(release)
	fetch(t, old)
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Annotations[v1alpha1.AnnotationAttempt] = "2" })
	d := deploymentOf(release)
	eventually(t, func() string {
		fetch(t, d)
		return cmp.Diff("2", d.Annotations[v1alpha1.AnnotationAttempt])
	})
	late := &reconciler{client: world.Client}
	if err := late.scale(t.Context(), old, 0); !apierrors.IsConflict(err) {
		t.Errorf("the late scale-down: %v, want a conflict", err)
	}
}

// TestDifferentHashCausesNoRollout checks that pods are not restarted if a new version of Heighliner or of its
// libraries computes a different hash for the same template.
func TestDifferentHashCausesNoRollout(t *testing.T) {
	t.Parallel()
	release := create(t, newRelease(namespace(t, nil), 1))
	play(t, release, 1, readyPod)
	reads(t, release, "1/1 "+isAvailable)
	d := deploymentOf(release)
	fetch(t, d)
	fetch(t, release)
	hash := release.Status.TemplateHash
	if hash == "" {
		t.Fatal("no hash of the template")
	}
	for _, other := range []string{"another", "a third"} {
		change(t, d, func(d *appsv1.Deployment) { resources.Annotate(d, resources.AnnotationTemplate, other) })
		eventually(t, func() string {
			if text := fetch(t, d); text != "" {
				return text
			}
			if d.Status.ObservedGeneration != d.Generation {
				return "not observed"
			}
			return cmp.Diff(hash, d.Annotations[resources.AnnotationTemplate])
		})
	}
	if revision := d.Annotations["deployment.kubernetes.io/revision"]; revision != "1" {
		t.Errorf("revision %s: the pods were restarted", revision)
	}
	reads(t, release, "1/1 "+isAvailable)
}

func TestForeignDeployment(t *testing.T) {
	t.Parallel()
	ns := namespace(t, nil)
	theirs := resources.Deployment(newRelease(ns, 1))
	theirs.Labels = nil
	theirs.Spec.Template.Spec.Containers[0].Image = "theirs"
	if err := world.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	release := create(t, newRelease(ns, 2))
	reads(t, release, strings.ReplaceAll("0/2 Available=False/X Progressing=False/X Ready=False/X Stalled=True/X X", "X", v1alpha1.FailureNameConflict))
	if !strings.Contains(release.Status.Message, `Deployment "`+releaseName+`" exists`) {
		t.Errorf("message %q does not contain the name of the object", release.Status.Message)
	}
	live := deploymentOf(release)
	fetch(t, live)
	if diff := cmp.Diff(theirs.Spec, live.Spec); diff != "" || len(live.OwnerReferences) > 0 || len(live.Labels) > 0 {
		t.Errorf("the foreign Deployment was changed: %s", diff)
	}
	if diff := cmp.Diff([]string{"patch status"}, world.writes.in(ns)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	release := newRelease(namespace(t, nil), 2)
	one := intstr.FromInt32(1)
	release.Spec.Availability.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: &one}
	create(t, release)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: release.Name, Namespace: release.Namespace}}
	wait := func(want policyv1.PodDisruptionBudgetSpec) {
		t.Helper()
		eventually(t, func() string {
			if text := fetch(t, budget); text != "" {
				return text
			}
			always := policyv1.AlwaysAllow
			want.UnhealthyPodEvictionPolicy, want.Selector = &always, resources.Selector(release)
			return cmp.Diff(want, budget.Spec)
		})
	}
	wait(policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one})
	half := intstr.FromString("50%")
	change(t, release, func(r *v1alpha1.VersionedMicroservice) {
		r.Spec.Availability.DisruptionBudget = &v1alpha1.DisruptionBudget{MinAvailable: &half}
	})
	wait(policyv1.PodDisruptionBudgetSpec{MinAvailable: &half})
	change(t, budget, func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = &one })
	wait(policyv1.PodDisruptionBudgetSpec{MinAvailable: &half})
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Availability.DisruptionBudget = nil })
	eventually(t, func() string {
		if err := world.Get(t.Context(), client.ObjectKeyFromObject(budget), budget); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Sprintf("the budget still exists: %v", err)
		}
		return ""
	})
}

func TestRolloutStateIsMirrored(t *testing.T) {
	t.Parallel()
	release := create(t, newRelease(namespace(t, nil), 1))
	play(t, release, 1, waitingPod("CreateContainerConfigError", `configmap "shop" not found`))
	reads(t, release, "0/1 "+failing(v1alpha1.FailureCreateContainerConfigError))

	ms := microserviceOf(release.Namespace)
	if err := world.Create(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	write := func(value v1alpha1.ReleaseStatus, run *v1alpha1.Rollout) {
		t.Helper()
		ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Rollout: run, Releases: []v1alpha1.Release{{
			VersionedMicroservice: release.Name, SemVer: release.Spec.SemVer, Status: value, LastTransitionTime: metav1.NowMicro(), Reason: "ProgressDeadlineExceeded",
			Decision: &v1alpha1.HandledDecision{ID: "a", Action: v1alpha1.DecisionRetry, Time: metav1.NowMicro()}}}}}
		if err := world.Status().Update(t.Context(), ms); err != nil {
			t.Fatal(err)
		}
	}
	write(v1alpha1.ReleaseCanary, &v1alpha1.Rollout{Release: release.Name, Step: 2, StartedTime: metav1.NowMicro()})
	eventually(t, func() string { // The status is written with the next change, or after a limited time.
		fetch(t, release)
		return cmp.Diff("canary 2/2 Paused", fmt.Sprintf("%s %s", release.Status.Release, release.Status.Step))
	})
	if release.Status.LastHandledDecision == nil || release.Status.LastHandledDecision.ID != "a" {
		t.Errorf("decision: %v", release.Status.LastHandledDecision)
	}

	// The failure remains in the status after the pods are deleted.
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 0 })
	write(v1alpha1.ReleaseError, nil)
	eventually(t, func() string {
		fetch(t, release)
		ready := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionReady)
		return cmp.Diff(lines("error 0/0", v1alpha1.FailureCreateContainerConfigError, v1alpha1.FailureCreateContainerConfigError, `container "shop": configmap "shop" not found`),
			lines(string(release.Status.Release)+" "+release.Status.Ready, release.Status.Failure, ready.Reason, release.Status.Message))
	})
}

// TestReadinessFailing checks that a release whose container runs but never becomes ready reports the failed
// probe and the probe's answer before the deadline, and also after the pods of the release are deleted.
func TestReadinessFailing(t *testing.T) {
	t.Parallel()
	ns := namespace(t, nil)
	ms := microserviceOf(ns)
	ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = 30
	if err := world.Create(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	release := create(t, newRelease(ns, 1))
	play(t, release, 1, func(pod *corev1.Pod) {
		for name, message := range map[string]string{"unready": "Readiness probe failed: HTTP probe failed with statuscode: 503", "unstarted": "(combined from similar events): Startup probe errored and resulted in unknown state: refused"} {
			event := &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Type: corev1.EventTypeWarning, Reason: "Unhealthy", Message: message,
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: pod.Name, UID: pod.UID, FieldPath: "spec.containers{shop}"},
			}
			if err := world.Create(t.Context(), event); client.IgnoreAlreadyExists(err) != nil {
				t.Error(err)
			}
		}
		readyPod(pod)
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
		pod.Status.ContainerStatuses[0].Ready = false
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(time.Now().Add(-16 * time.Second))
	})
	reads(t, release, "0/1 "+failing(v1alpha1.FailureReadinessFailing))
	const want = `container "shop" is running, but its readiness probe fails: HTTP probe failed with statuscode: 503`
	if release.Status.Message != want {
		t.Errorf("message %q, want %q", release.Status.Message, want)
	}
	// The message of another probe is replaced together with its answer.
	release.Status.Message = `container "shop" is running, but its startup probe fails: refused`
	if err := world.Status().Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if text := fetch(t, release); text != "" || release.Status.Message == want {
			return text
		}
		return fmt.Sprintf("message %q, want %q", release.Status.Message, want)
	})
	// The rollback is written before the release is scaled down, as in the Microservice controller.
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Releases: []v1alpha1.Release{{
		VersionedMicroservice: release.Name, SemVer: release.Spec.SemVer, Status: v1alpha1.ReleaseError, LastTransitionTime: metav1.NowMicro(), Reason: v1alpha1.FailureReadinessFailing}}}}
	if err := world.Status().Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	cached(t, ms)
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 0 })
	reads(t, release, strings.ReplaceAll("0/0 Available=False/ScaledToZero Progressing=False/ScaledToZero Ready=False/X Stalled=True/X X", "X", v1alpha1.FailureReadinessFailing))
	if release.Status.Message != want {
		t.Errorf("message %q after the pods were deleted, want %q", release.Status.Message, want)
	}
}

func microserviceOf(namespace string) *v1alpha1.Microservice {
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop"}}}}
	ms.Spec.Availability.Replicas = 1
	ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{MinimumAvailable: 3, ProgressDeadlineSeconds: 600, DrainDelay: "30s", Canary: &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{
		{Weight: 10}, {Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "1m"}}}}}
	return ms
}
