package follower

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// managed contains a CronJob that a user applies with server-side apply, as Flux and Argo CD do.
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

// apply simulates the user's tool.
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

// follow simulates the controller.
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

// TestRenamedContainer checks that the old container does not remain after a user renames the container of a CronJob.
func TestRenamedContainer(t *testing.T) {
	s := newManaged(t)
	s.apply(`{"restartPolicy":"Never","containers":[{"name":"shop","image":"shop","command":["/shop","report"]}]}`)
	s.follow()
	s.apply(`{"restartPolicy":"Never","containers":[{"name":"report","image":"shop","command":["/shop","report"]}]}`)
	s.follow()
	if all := podSpec(s.live()).Containers; len(all) != 1 || all[0].Name != "report" || all[0].Image != "shop@sha256:1" {
		t.Errorf("containers %+v, want only the container of the manifest with the release's image: a leftover container would also run in each Job", all)
	}
}

// TestRemovedVariableAndVolume checks that a variable and a volume that a user removes are deleted, and can
// be added again with another kind of source. Removing and adding them in one step is not possible, because
// the controller owns the name of the copy.
func TestRemovedVariableAndVolume(t *testing.T) {
	s := newManaged(t)
	const pod = `{"restartPolicy":"Never","containers":[{"name":"shop","image":"shop"%s}]%s}`
	reference, config := `,"env":[{"name":"DB","valueFrom":{"configMapKeyRef":{"name":"settings","key":"db"}}}]`, `,"volumes":[{"name":"data","configMap":{"name":"settings"}}]`
	s.apply(fmt.Sprintf(pod, reference, config))
	s.follow()
	first := podSpec(s.live())
	if v := first.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Name; v == "settings" || first.Volumes[0].ConfigMap.Name != v {
		t.Fatalf("the variable is from %s, and the volume is from %s", v, first.Volumes[0].ConfigMap.Name)
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

// TestLabelRemoved checks that a CronJob that the controller suspended starts Jobs again after its label is
// removed. Without the label, the CronJob is not in the cache, and its manifest does not contain the
// suspend field, so nothing else would resume it.
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
			t.Fatalf("the cache contains the CronJob: %v", now.Labels)
		}
	}
	if now.Spec.Suspend != nil && *now.Spec.Suspend {
		t.Errorf("the CronJob is suspended permanently, with the message %q", now.Annotations[v1alpha1.AnnotationFollowMessage])
	}
}

const withProxy = `{"restartPolicy":"Never","containers":[{"name":"shop","image":"shop:1"},{"name":"proxy","image":"proxy:1"}]}`

// images returns the images of the CronJob, by container.
func (s *managed) images() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	for _, c := range podSpec(s.live()).Containers {
		found[c.Name] = c.Image
	}
	return found
}

// wantImages compares the images of the CronJob.
func (s *managed) wantImages(when, shop, proxy string) {
	s.t.Helper()
	if diff := cmp.Diff(map[string]string{"shop": shop, "proxy": proxy}, s.images()); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// TestAdditionalImageEnds covers a release that has an additional image for a container of the CronJob,
// followed by a release without this image. The container gets the image of the manifest again, because the
// API server rejects a container without an image. After that, the user can change the image in the manifest.
func TestAdditionalImageEnds(t *testing.T) {
	s := newManaged(t)
	s.apply(withProxy)
	s.release.Spec.Images = append(s.release.Spec.Images, v1alpha1.ReleaseImage{ContainerName: "proxy", Image: "proxy@sha256:2"})
	s.follow()
	s.wantImages("with an additional image", "shop@sha256:1", "proxy@sha256:2")
	s.apply(strings.ReplaceAll(withProxy, "proxy:1", "proxy:2"))
	s.follow()
	s.wantImages("after a change to the manifest", "shop@sha256:1", "proxy@sha256:2")
	s.release.Spec.Images = s.release.Spec.Images[:1]
	s.follow()
	s.wantImages("without the additional image", "shop@sha256:1", "proxy:2")
	s.follow()
	s.wantImages("later", "shop@sha256:1", "proxy:2")
	s.apply(strings.ReplaceAll(withProxy, "proxy:1", "proxy:3"))
	s.follow()
	s.wantImages("after another change to the manifest", "shop@sha256:1", "proxy:3")
	if got := stateOf(s.live()); !slices.Equal(got.Containers, []string{"shop"}) || len(got.Images) != 1 {
		t.Errorf("the state is %+v", got)
	}
}

// TestOtherContainerFollows checks that a user can select another container for the image of the release.
func TestOtherContainerFollows(t *testing.T) {
	s := newManaged(t)
	s.label = `,"labels":{"hlnr.io/follow":"shop"},"annotations":{"hlnr.io/follow-container":"proxy"}`
	s.apply(withProxy)
	s.follow()
	s.wantImages("first", "shop:1", "shop@sha256:1")
	job := s.live()
	job.Annotations[v1alpha1.AnnotationFollowContainer] = "shop" // as kubectl annotate does, without another apply of the manifest
	if err := s.client.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	s.follow()
	s.wantImages("then", "shop@sha256:1", "proxy:1")
}

// TestRejectedCronJob checks that the annotation and one event show why the API server or a policy rejects a change to a CronJob, and that the change is retried.
func TestRejectedCronJob(t *testing.T) {
	s := newManaged(t)
	s.apply(withProxy)
	if err := v1alpha1.AddToScheme(s.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10)
	refuses := interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "cronjobs"}, "report", errors.New("denied by policy"))
	}})
	r := &reconciler{Client: refuses, live: refuses, events: status.Recorder{Events: recorder}, writer: apply.Writer{Client: refuses, Owner: FieldOwner}}
	for range 2 {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "report"}})
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		if got := s.live().Annotations[v1alpha1.AnnotationFollowMessage]; !strings.Contains(got, "denied by policy") || !strings.Contains(got, `Microservice "shop" does not exist`) {
			t.Errorf("the message is %q", got)
		}
	}
	if n := len(recorder.Events); n != 1 {
		t.Errorf("%d events", n)
	}
	r.writer.Client = s.client
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "report"}}); err != nil {
		t.Fatal(err)
	}
	if got := s.live().Annotations[v1alpha1.AnnotationFollowMessage]; strings.Contains(got, "denied by policy") {
		t.Errorf("after the change was accepted, the message is %q", got)
	}
}
