package microservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestConflictAtEachWrite tests row 38 of the known failures: just before each object is written, either a
// user changes the object, so that the API server responds with a conflict, or the API server fails.
// Nothing is lost, and the result is the same.
func TestConflictAtEachWrite(t *testing.T) {
	t.Parallel()
	for _, every := range []int{3, 5} { // a reconcile makes two writes, and each of them fails in turn
		t.Run(fmt.Sprintf("one of %d writes", every), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			count, met := 0, 0
			s.before = func(what string) error {
				if count++; count%every == 0 && s.meddle(what, count) {
					met++
				}
				return nil
			}
			s.upgrade(func(version, rolloutState string) {
				same(t, "rollout state after "+version, rolloutState, rests[version])
			})
			if met < 3 {
				t.Errorf("only %d of %d writes encountered a newer object", met, count)
			}
		})
	}
	t.Run("the server fails", func(t *testing.T) {
		t.Parallel()
		s := begin(t)
		count, lost := 0, 0
		s.before = func(string) error {
			if count++; count%3 != 0 {
				return nil
			}
			lost++
			// The queue retries after this error, which play treats as a crash.
			return errors.Join(errCrash, apierrors.NewInternalError(errors.New("etcd is unavailable")))
		}
		s.upgrade(func(version, rolloutState string) {
			same(t, "rollout state after "+version, strings.ReplaceAll(rolloutState, "Rebuilt", "First"), rests[version])
		})
		if lost < 5 {
			t.Errorf("only %d of %d writes were lost", lost, count)
		}
	})
}

// meddle changes the object that is about to be written, and reports whether the object exists.
func (s *story) meddle(what string, n int) bool {
	s.Helper()
	var o client.Object = s.ms()
	if verb, name, _ := strings.Cut(what, " "); verb == "patch" || verb == "delete" {
		object := s.objects()[name]
		if object == nil {
			return false
		}
		o = object
	} else if verb != "status" {
		return false
	}
	before := o.DeepCopyObject().(client.Object)
	note := map[string]string{"example.com/note": fmt.Sprint(n)}
	for k, v := range o.GetAnnotations() {
		if _, there := note[k]; !there {
			note[k] = v
		}
	}
	o.SetAnnotations(note)
	if err := env.Client.Patch(s.Context(), o, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
	return true
}

// TestReadsOfAReconcile tests row 50: a reconcile reads from the cache only a few times, regardless of the
// number of releases, and reads nothing from the API server while nothing is missing.
func TestReadsOfAReconcile(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	reads := map[string]int{}
	count := func(from string, c client.WithWatch) client.WithWatch {
		return interceptor.NewClient(c, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				reads[from]++
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				reads[from]++
				return c.List(ctx, l, opts...)
			},
		})
	}
	cached := 0
	for i, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		s.offer(version)
		s.play()
		rest := s.reconciler
		s.reconciler = s.make(count("cache", s.client), count("server", s.client))
		clear(reads)
		s.pass()
		s.reconciler = rest
		if reads["server"] > 0 {
			t.Errorf("%s: a reconcile in the stable state reads from the server %d times", version, reads["server"])
		}
		if i == 0 {
			cached = reads["cache"]
		}
		if reads["cache"] > cached || cached > 8 {
			t.Errorf("%s: a reconcile in the stable state reads %d times, the first reconcile %d times", version, reads["cache"], cached)
		}
	}
}

// TestObjectsHaveOnlyOwnLabels tests rows 47 and 69: created objects have no finalizers, and no labels or
// annotations other than Heighliner's, so that a GitOps tool does not manage them.
func TestObjectsHaveOnlyOwnLabels(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Labels = map[string]string{"app.kubernetes.io/instance": "shop", "argocd.argoproj.io/instance": "shop"}
		ms.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "shop", "kustomize.toolkit.fluxcd.io/checksum": "1"}
	})
	s.offer("1.0.0")
	s.play()
	object := s.release("1.0.0")
	for _, keys := range []map[string]string{object.Labels, object.Annotations, object.Spec.Template.Labels, object.Spec.Template.Annotations} {
		for key := range keys {
			if !strings.HasPrefix(key, "hlnr.io/") {
				t.Errorf("the release has %q", key)
			}
		}
	}
	if len(object.Finalizers)+len(s.ms().Finalizers) > 0 {
		t.Errorf("finalizers: %v of the release, %v of the Microservice", object.Finalizers, s.ms().Finalizers)
	}
	if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != s.ms().UID {
		t.Errorf("the controller of the object is %v", owner)
	}
}

// TestConfigurationOfUsersIsNotTouched tests row 48: a ConfigMap that is part of a release is not written,
// and gets no owner, so it is not garbage collected.
func TestConfigurationOfUsersIsNotTouched(t *testing.T) {
	t.Parallel()
	s := begin(t, names("settings"))
	s.write("settings", "blue")
	before := &corev1.ConfigMap{}
	s.get("settings", before)
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play()
	now := &corev1.ConfigMap{}
	s.get("settings", now)
	same(t, "the user's ConfigMap", now, before)
	for name, c := range s.copies() {
		for _, owner := range c.OwnerReferences {
			if owner.APIVersion != v1alpha1.GroupVersion.String() || s.objects()[owner.Name] == nil || s.objects()[owner.Name].UID != owner.UID {
				t.Errorf("copy %s is owned by %v, which is not a release of its namespace", name, owner)
			}
		}
		if len(c.OwnerReferences) != 1 {
			t.Errorf("copy %s has owners %v", name, c.OwnerReferences)
		}
	}
}

// TestDeploymentIsRestored tests row 25: a Deployment that was taken over is restored with its replicas and
// without any of Heighliner's fields.
func TestDeploymentIsRestored(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionRestore))
	before := s.previous(3)
	before.Annotations = map[string]string{"example.com/note": "mine"}
	before.Labels = map[string]string{"team": "shop"}
	if err := env.Client.Update(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	s.run(3)
	s.get("web", before)
	s.offer("1.0.0")
	s.play(func() bool { return s.previousReplicas() == 0 })
	s.run(0)
	s.play()
	s.remove()
	for range 20 {
		result, err := s.pass()
		if err != nil {
			t.Fatal(err)
		}
		if s.removed() {
			break
		}
		s.run(s.previousReplicas())
		s.clock.Step(result.RequeueAfter)
	}
	same(t, "gone", s.removed(), true)
	now := &appsv1.Deployment{}
	s.get("web", now)
	same(t, "specification", now.Spec, before.Spec)
	for _, d := range []*appsv1.Deployment{before, now} {
		d.ResourceVersion, d.Generation, d.ManagedFields = "", 0, nil
	}
	same(t, "metadata", now.ObjectMeta, before.ObjectMeta)
}
