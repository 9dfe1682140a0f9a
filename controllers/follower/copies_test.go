package follower

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
)

const withSettings = `{"restartPolicy":"Never","containers":[{"name":"shop","image":"shop","envFrom":[{"configMapRef":{"name":"settings"}}]}]}`

// configMap returns the name of the ConfigMap that provides the environment variables of the first
// container.
func configMap(job *batchv1.CronJob) string {
	return podSpec(job).Containers[0].EnvFrom[0].ConfigMapRef.Name
}

// startable checks that Jobs of the CronJob can start, that is, that the ConfigMap to which the CronJob
// refers exists.
func (s *managed) startable(when string) {
	s.t.Helper()
	name := configMap(s.live())
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &corev1.ConfigMap{}); err != nil {
		s.t.Errorf("%s: pods of the CronJob cannot start: %v", when, err)
	}
}

// withCopies returns a CronJob that follows a release with a copy of the CronJob's ConfigMap. collect deletes
// the release and the copy, as the garbage collector does.
func withCopies(t *testing.T) (s *managed, collect func()) {
	s = newManaged(t)
	s.apply(withSettings)
	s.follow()
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: configMap(s.live())}}
	for _, obj := range []client.Object{copied, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}}} {
		if err := s.client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	s.startable("following")
	return s, func() {
		if err := s.client.Delete(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMicroserviceDeleted checks that a CronJob can start Jobs with the configuration of its manifest after the
// Microservice and the copies are deleted, even if hack/uninstall.sh, for example, removes the manager before the
// release is deleted.
func TestMicroserviceDeleted(t *testing.T) {
	for _, followedExists := range []bool{false, true} {
		s, collect := withCopies(t)
		if !followedExists {
			collect()
		}
		job := s.live()
		intent, err := intentOf(job, decide(&observed{cronJob: job, microservice: "shop", followedExists: followedExists}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (apply.Writer{Client: s.client, Owner: FieldOwner}).Share(t.Context(), job, intent); err != nil {
			t.Fatal(err)
		}
		if followedExists {
			collect()
		}
		s.startable("the Microservice is deleted")
	}
}

// TestLabelRemovedBeforeTheRelease checks that a CronJob without the label can start Jobs even if the release that it followed and
// the copies are deleted.
func TestLabelRemovedBeforeTheRelease(t *testing.T) {
	s, collect := withCopies(t)
	s.label = ""
	s.apply(withSettings)
	r := &reconciler{Client: s.client, live: s.client, writer: apply.Writer{Client: s.client, Owner: FieldOwner}}
	if err := r.resume(t.Context(), client.ObjectKeyFromObject(s.live())); err != nil {
		t.Fatal(err)
	}
	s.startable("without the label")
	collect()
	s.startable("after the release was removed")
}

// TestGroupEnded checks that a CronJob whose annotation selects a group remains suspended after the group has ended.
func TestGroupEnded(t *testing.T) {
	job := &batchv1.CronJob{}
	job.Annotations = map[string]string{v1alpha1.AnnotationFollowGroup: "2.x", v1alpha1.AnnotationFollows: "shop-2"}
	podSpec(job).Containers = []corev1.Container{{Name: "shop"}}
	closing := group("2.x", "", 0)
	closing.Phase = v1alpha1.GroupClosing
	if p := decide(&observed{cronJob: job, microservice: "shop", exists: true, groups: []v1alpha1.ReleaseGroup{closing, group("1.x", "shop-1", 0)}}); !p.suspend {
		t.Fatalf("while the group is ending: %+v", p)
	}
	if p := decide(&observed{cronJob: job, microservice: "shop", exists: true, groups: []v1alpha1.ReleaseGroup{group("1.x", "shop-1", 0)}}); !p.suspend {
		t.Errorf("after the group has ended, the CronJob starts Jobs of release %s again: %s", job.Annotations[v1alpha1.AnnotationFollows], p.message)
	}
}

// TestGroupAppears checks that the creation and the end of a group enqueue the CronJobs of the Microservice.
func TestGroupAppears(t *testing.T) {
	before, now := &v1alpha1.Microservice{}, &v1alpha1.Microservice{}
	before.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{group("1.x", "shop-1", 0)}
	now.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{group("2.x", "", 0), group("1.x", "shop-1", 0)}
	if !activeChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}) {
		t.Error("a CronJob that selects group 2.x is not reconciled when the group appears: its message still reports that there is no such group")
	}
	if !activeChanged().Update(event.UpdateEvent{ObjectOld: now, ObjectNew: before}) {
		t.Error("a CronJob that selects group 2.x is not reconciled when the group no longer exists")
	}
}

// TestSuspendedByKubectl covers a client-side apply of suspend: true while a CronJob is suspended by the
// controller. The apply changes neither the fields nor their managers. The CronJob must nevertheless remain suspended when
// there is an active release.
func TestSuspendedByKubectl(t *testing.T) {
	s := newManaged(t)
	s.apply(withSettings)
	job := s.live()
	intent, err := intentOf(job, decide(&observed{cronJob: job, microservice: "shop", exists: true}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (apply.Writer{Client: s.client, Owner: FieldOwner}).Share(t.Context(), job, intent); err != nil {
		t.Fatal(err)
	}
	if job = s.live(); job.Spec.Suspend == nil || !*job.Spec.Suspend {
		t.Fatal("the CronJob is not suspended without an active release")
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"suspend\":true}}"}},"spec":{"suspend":true}}`))
	if err := s.client.Patch(t.Context(), job, patch, client.FieldOwner("kubectl-client-side-apply")); err != nil {
		t.Fatal(err)
	}
	s.follow()
	if job = s.live(); job.Spec.Suspend == nil || !*job.Spec.Suspend {
		t.Error("the CronJob starts Jobs, although its manifest has suspend: true")
	}
}
