package versionedmicroservice

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// exclusiveRelease returns a release of version 1.n.0 in an exclusive group.
func exclusiveRelease(namespace string, n int, replicas int32) *v1alpha1.VersionedMicroservice {
	release := newRelease(namespace, replicas)
	release.Name = fmt.Sprintf("shop-1-%d-0-abc", n)
	release.Spec.SemVer.Version = fmt.Sprintf("1.%d.0", n)
	release.Spec.Availability.Exclusive = true
	release.Labels = map[string]string{v1alpha1.LabelMicroservice: "shop", v1alpha1.LabelGroup: "1-x", v1alpha1.LabelRelease: release.Name}
	release.Spec.Template.Labels = map[string]string{v1alpha1.LabelMicroservice: "shop", v1alpha1.LabelGroup: "1-x", v1alpha1.LabelRelease: release.Name}
	return release
}

// podsOf returns a release's pods.
func podsOf(t *testing.T, release *v1alpha1.VersionedMicroservice) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := world.List(t.Context(), &pods, client.InNamespace(release.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: release.Name}); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func TestExclusive(t *testing.T) {
	t.Parallel()
	ns := namespace(t, nil)
	old := create(t, exclusiveRelease(ns, 0, 1))
	reads(t, old, "0/1 "+isStarting)
	play(t, old, 1, readyPod)
	reads(t, old, "1/1 "+isAvailable)
	pod := podsOf(t, old)[0]
	change(t, &pod, func(p *corev1.Pod) { p.Finalizers = []string{"test.example.com/ends-slowly"} })

	next := create(t, exclusiveRelease(ns, 1, 1))
	reads(t, next, "0/1 "+failing(v1alpha1.FailureOtherReleaseRunning))
	if want := `the release is exclusive, and pods of release "shop-1-0-0-abc" are still running`; next.Status.Message != want {
		t.Errorf("message %q, want %q", next.Status.Message, want)
	}
	withoutPods(t, next)
	steady(t, old)

	change(t, old, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 0 })
	reads(t, old, "0/0 "+isZero)
	eventually(t, func() string {
		if text := fetch(t, &pod); text != "" {
			return text
		}
		if pod.DeletionTimestamp == nil {
			return "the pod is not terminating"
		}
		return ""
	})
	eventually(t, func() string { // The grace period of the pod ends.
		if text := fetch(t, next); text != "" {
			return text
		}
		if want := fmt.Sprintf("pod %q of release", pod.Name); !strings.Contains(next.Status.Message, want) {
			return fmt.Sprintf("message %q, want it to contain %q", next.Status.Message, want)
		}
		return ""
	})
	withoutPods(t, next)
	change(t, &pod, func(p *corev1.Pod) { p.Finalizers = nil })
	play(t, next, 1, readyPod)
	reads(t, next, "1/1 "+isAvailable)
	d := deploymentOf(next)
	if text := fetch(t, d); text != "" || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("%s strategy of the Deployment: %q, want Recreate", text, d.Spec.Strategy.Type)
	}

	// Then the first release starts again.
	change(t, next, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 0 })
	change(t, old, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 1 })
	play(t, old, 1, readyPod)
	reads(t, old, "1/1 "+isAvailable)
}

// withoutPods checks that a waiting release has a Deployment without replicas, which means that the API server has
// accepted the template.
func withoutPods(t *testing.T, release *v1alpha1.VersionedMicroservice) {
	t.Helper()
	eventually(t, func() string {
		d := deploymentOf(release)
		if text := fetch(t, d); text != "" {
			return text
		}
		if n := *d.Spec.Replicas; n != 0 {
			return fmt.Sprintf("the Deployment of a waiting release has %d replicas", n)
		}
		return ""
	})
}

// TestExclusiveInvalidTemplate checks that a release whose Deployment the API server rejects reports this
// error, and not that it waits for the other release. The other release therefore keeps its pods.
func TestExclusiveInvalidTemplate(t *testing.T) {
	t.Parallel()
	ns := namespace(t, nil)
	old := create(t, exclusiveRelease(ns, 0, 1))
	play(t, old, 1, readyPod)
	reads(t, old, "1/1 "+isAvailable)
	next := exclusiveRelease(ns, 1, 1)
	next.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 70000}}
	create(t, next)
	eventually(t, func() string {
		if text := fetch(t, next); text != "" {
			return text
		}
		if next.Status.Failure != v1alpha1.FailureInvalidTemplate {
			return fmt.Sprintf("failure %q (%s), want InvalidTemplate", next.Status.Failure, next.Status.Message)
		}
		return ""
	})
}

// TestExclusiveEvictedPod checks that a release does not wait for a pod whose containers have terminated, even if the Pod
// object still exists.
func TestExclusiveEvictedPod(t *testing.T) {
	t.Parallel()
	ns := namespace(t, nil)
	old := create(t, exclusiveRelease(ns, 0, 1))
	play(t, old, 1, readyPod)
	reads(t, old, "1/1 "+isAvailable)
	pod := podsOf(t, old)[0]
	change(t, &pod, func(p *corev1.Pod) { p.Finalizers = []string{"test.example.com/remains"} })
	t.Cleanup(func() {
		pod.Finalizers = nil
		_ = world.Update(context.WithoutCancel(t.Context()), &pod)
	})
	next := create(t, exclusiveRelease(ns, 1, 1))
	reads(t, next, "0/1 "+failing(v1alpha1.FailureOtherReleaseRunning))
	change(t, old, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 0 })
	eventually(t, func() string {
		if text := fetch(t, &pod); text != "" {
			return text
		}
		pod.Status.Phase = corev1.PodFailed
		if err := world.Status().Update(t.Context(), &pod); err != nil {
			return err.Error()
		}
		return ""
	})
	play(t, next, 1, readyPod)
	reads(t, next, "1/1 "+isAvailable)
}

// TestExclusiveNeverOverlaps checks that pods of two releases of a group never exist at the same time,
// regardless of the order in which three releases are scaled, and even if plans that are based on outdated
// facts scale up two releases.
func TestExclusiveNeverOverlaps(t *testing.T) {
	t.Parallel()
	ns := namespace(t, nil)
	var releases []*v1alpha1.VersionedMicroservice
	for n := range 3 {
		releases = append(releases, create(t, exclusiveRelease(ns, n, 0)))
	}
	w, err := world.env.Client.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var mu sync.Mutex
	overlaps, started := []string(nil), map[string]int{}
	go func() {
		exist := map[string]string{} // existing pods, with their releases
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			release := pod.Labels[v1alpha1.LabelRelease]
			mu.Lock()
			if e.Type == watch.Added {
				started[release]++
			}
			exist[pod.Name] = release
			if e.Type == watch.Deleted {
				delete(exist, pod.Name)
			}
			for name, other := range exist {
				if other != release && e.Type != watch.Deleted {
					overlaps = append(overlaps, pod.Name+" and "+name)
				}
			}
			mu.Unlock()
		}
	}()
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	scale := func(release *v1alpha1.VersionedMicroservice, n int32) {
		change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = n })
	}
	for i := range 25 {
		a, b := releases[random.IntN(3)], releases[random.IntN(3)]
		awaited := random.IntN(3) == 0
		// On a slow machine, a release gets pods only if the test waits for them. It waits at least once for each release.
		if i%8 == 0 {
			b, awaited = releases[i/8%3], true
		}
		scale(a, int32(1+random.IntN(2)))
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		scale(b, int32(1+random.IntN(2)))
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		for _, x := range releases {
			if x != b {
				scale(x, 0)
			}
		}
		if awaited {
			eventually(t, func() string {
				if n := len(podsOf(t, b)); n == 0 {
					return "the only release that should have pods has no pods"
				}
				return ""
			})
		}
	}
	eventually(t, func() string { // The event for the last pod might not have arrived yet.
		mu.Lock()
		defer mu.Unlock()
		if len(started) < 3 {
			return fmt.Sprintf("seed %d: pods started: %v", seed, started)
		}
		return ""
	})
	mu.Lock()
	defer mu.Unlock()
	if len(overlaps) > 0 {
		t.Errorf("seed %d: pods started: %v; pods of two releases existed at the same time %d times: %v", seed, started, len(overlaps), overlaps[:min(5, len(overlaps))])
	}
}

// TestExclusiveReads checks that, in an exclusive group, only a release that is about to get its first pods lists the
// other releases.
func TestExclusiveReads(t *testing.T) {
	release := exclusiveRelease("shop", 0, 1)
	scaled, kept := int32(0), int32(1)
	for name, c := range map[string]struct {
		replicas  int32
		exclusive bool
		live      *appsv1.Deployment
		want      bool
	}{
		"a first pod":                     {1, true, nil, true},
		"a first pod after a scale-down":  {1, true, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &scaled}}, true},
		"more pods":                       {2, true, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &kept}}, false},
		"no pods":                         {0, true, nil, false},
		"a release that is not exclusive": {1, false, nil, false},
		"a foreign Deployment ":           {1, true, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{}}, Spec: appsv1.DeploymentSpec{Replicas: &scaled}}, false},
	} {
		r := release.DeepCopy()
		r.UID, r.Spec.Replicas, r.Spec.Availability.Exclusive = "1", c.replicas, c.exclusive
		if c.live != nil && c.live.OwnerReferences == nil {
			c.live.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(r, v1alpha1.GroupVersion.WithKind("VersionedMicroservice"))}
		}
		if got := (&observed{release: r, deployment: c.live}).startsExclusive(); got != c.want {
			t.Errorf("%s: lists other releases: %t, want %t", name, got, c.want)
		}
	}
}
