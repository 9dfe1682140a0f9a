package follower

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
)

// managed has a CronJob of a user who applies it by server-side apply, as Flux and Argo CD do.
type managed struct {
	t       *testing.T
	client  client.Client
	release *v1alpha1.VersionedMicroservice
	label   string // labels of the manifest, as JSON
}

func newManaged(t *testing.T) *managed {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	release := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1"}}
	release.Spec.SemVer.Version = "1.2.0"
	release.Spec.Images = []v1alpha1.ReleaseImage{{Image: "shop@sha256:1"}}
	copied := resources.CopyName(release.Name, resources.Source{Kind: resources.KindConfigMap, Name: "settings"})
	release.Spec.Template.Spec.Containers = []corev1.Container{{Name: "shop", Image: "shop@sha256:1", EnvFrom: []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: copied}}},
	}}}
	return &managed{t, fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build(), release, `,"labels":{"hlnr.io/follow":"shop"}`}
}

// apply plays the user's tool.
func (s *managed) apply(pod string) {
	s.t.Helper()
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"namespace":"shop","name":"report"%s},
		"spec":{"schedule":"0 3 * * *","jobTemplate":{"spec":{"template":{"spec":%s}}}}}`, s.label, pod)
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Apply(s.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("kustomize-controller"), client.ForceOwnership); err != nil {
		s.t.Fatal(err)
	}
}

func (s *managed) live() *batchv1.CronJob {
	s.t.Helper()
	job := &batchv1.CronJob{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: "report"}, job); err != nil {
		s.t.Fatal(err)
	}
	return job
}

// follow plays the controller.
func (s *managed) follow() {
	s.t.Helper()
	job := s.live()
	o := &observed{cronJob: job, microservice: "shop", exists: true, groups: []v1alpha1.ReleaseGroup{group("1.x", "shop-1", 0)}, releases: map[string]*v1alpha1.VersionedMicroservice{"shop-1": s.release}}
	intent, err := intentOf(job, decide(o))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := (apply.Writer{Client: s.client, Owner: FieldOwner}).Share(s.t.Context(), job, intent); err != nil {
		s.t.Fatal(err)
	}
}

// TestRenamedContainer: a user renames the container of a CronJob. The old one must not remain.
func TestRenamedContainer(t *testing.T) {
	s := newManaged(t)
	s.apply(`{"restartPolicy":"Never","containers":[{"name":"shop","image":"shop","command":["/shop","report"]}]}`)
	s.follow()
	s.apply(`{"restartPolicy":"Never","containers":[{"name":"report","image":"shop","command":["/shop","report"]}]}`)
	s.follow()
	if all := podSpec(s.live()).Containers; len(all) != 1 || all[0].Name != "report" || all[0].Image != "shop@sha256:1" {
		t.Errorf("containers %+v, want only the one of the manifest with the image of the release: another one runs its entry point in each Job", all)
	}
}

// TestRemovedVariableAndVolume: a variable and a volume that a user removes go, and can return as another kind. In one step they cannot: the name of
// the copy belongs to the controller.
func TestRemovedVariableAndVolume(t *testing.T) {
	s := newManaged(t)
	const pod = `{"restartPolicy":"Never","containers":[{"name":"shop","image":"shop"%s}]%s}`
	reference, config := `,"env":[{"name":"DB","valueFrom":{"configMapKeyRef":{"name":"settings","key":"db"}}}]`, `,"volumes":[{"name":"data","configMap":{"name":"settings"}}]`
	s.apply(fmt.Sprintf(pod, reference, config))
	s.follow()
	first := podSpec(s.live())
	if v := first.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Name; v == "settings" || first.Volumes[0].ConfigMap.Name != v {
		t.Fatalf("variable of %s, volume of %s", v, first.Volumes[0].ConfigMap.Name)
	}
	s.follow() // What the user did not remove remains.
	if diff := cmp.Diff(first, podSpec(s.live())); diff != "" {
		t.Errorf("without a change: -before +after:\n%s", diff)
	}
	s.apply(fmt.Sprintf(pod, "", ""))
	s.follow()
	if now := podSpec(s.live()); len(now.Containers[0].Env)+len(now.Volumes) > 0 {
		t.Errorf("removed: variables %v, volumes %v", now.Containers[0].Env, now.Volumes)
	}
	s.apply(fmt.Sprintf(pod, `,"env":[{"name":"DB","value":"db.shop"}]`, `,"volumes":[{"name":"data","emptyDir":{}}]`))
	s.follow()
	now := podSpec(s.live())
	if e, v := now.Containers[0].Env[0], now.Volumes[0]; e.ValueFrom != nil || e.Value != "db.shop" || v.ConfigMap != nil || v.EmptyDir == nil {
		t.Errorf("variable %+v, volume %+v", e, v)
	}
}

// TestLabelRemoved: a CronJob that was suspended by the controller, and follows no longer, starts again. Without the label the cache does not
// have it, so nothing ever would resume it; its manifest does not have the field.
func TestLabelRemoved(t *testing.T) {
	s := newManaged(t)
	const pod = `{"restartPolicy":"Never","containers":[{"name":"shop","image":"shop"}]}`
	s.apply(pod)
	job := s.live()
	intent, err := intentOf(job, decide(&observed{cronJob: job, microservice: "shop", exists: true}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (apply.Writer{Client: s.client, Owner: FieldOwner}).Share(t.Context(), job, intent); err != nil {
		t.Fatal(err)
	}
	s.label = ""
	s.apply(pod)
	r := &reconciler{Client: s.client, live: s.client, writer: apply.Writer{Client: s.client, Owner: FieldOwner}}
	if err := r.resume(t.Context(), client.ObjectKeyFromObject(job)); err != nil {
		t.Fatal(err)
	}
	now := s.live()
	for _, by := range CacheByObject() {
		if by.Label.Matches(labels.Set(now.Labels)) {
			t.Fatalf("the cache has it: %v", now.Labels)
		}
	}
	if now.Spec.Suspend != nil && *now.Spec.Suspend {
		t.Errorf("it is suspended forever, with the message %q", now.Annotations[v1alpha1.AnnotationFollowMessage])
	}
}
