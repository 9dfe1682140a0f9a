//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestAdoption adopts a Deployment with its Service and HTTPRoute under load, releases a version, and then
// removes Heighliner's objects. After that, either the previous Deployment serves again, or the last
// release keeps serving. No request fails.
func TestAdoption(t *testing.T) {
	for _, test := range []struct {
		policy v1alpha1.DeletionPolicy
		after  string // The version that serves after all of Heighliner's objects are deleted.
	}{
		{v1alpha1.DeletionRestore, "0.9.0"},
		{v1alpha1.DeletionOrphan, "1.1.0"},
	} {
		t.Run(string(test.policy), func(t *testing.T) {
			s := newService(t, "adoption-"+strings.ToLower(string(test.policy)))
			u := s.userOwned("0.9.0")
			l := u.load()
			s.ms.Spec.AdoptFrom = &v1alpha1.AdoptDeployment{DeploymentName: u.deployment.Name}
			s.ms.Spec.DeletionPolicy = test.policy
			s.network.Spec.AdoptFrom = &v1alpha1.AdoptService{ServiceName: u.service.Name}
			s.network.Spec.DeletionPolicy = test.policy

			began := time.Now()
			l.Mark("adoption")
			s.start("1.0.0")
			s.sees(l, "1.0.0")
			u.scaled(0)
			t.Logf("1.0.0 serves the user's Service, and the user's Deployment has no pods, after %s", time.Since(began).Round(100*time.Millisecond))
			l.Mark("a release")
			s.push("1.1.0")
			s.active("1.1.0")
			s.sees(l, "1.1.0")

			began = time.Now()
			l.Mark("exit")
			objects := []client.Object{s.ms, s.network, s.images}
			for _, o := range objects {
				if err := env.Client.Delete(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			for _, o := range objects {
				wait(t, fmt.Sprintf("%T to be deleted", o), func(ctx context.Context) (bool, string, error) { return gone(ctx, o) })
			}
			s.sees(l, test.after)
			t.Logf("%s serves, and Heighliner's objects are deleted, after %s", test.after, time.Since(began).Round(100*time.Millisecond))
			if test.policy == v1alpha1.DeletionRestore {
				u.scaled(2)
				u.asItWas()
			}
			s.serves(l, 5*time.Second)
			verdict(t, l)
		})
	}
}

// userOwned contains a user's original objects: a Deployment, its Service, and an HTTPRoute to the Service.
type userOwned struct {
	s          *service
	deployment *appsv1.Deployment
	service    *corev1.Service
	route      *gatewayv1.HTTPRoute
	host       string
}

func (s *service) userOwned(version string) *userOwned {
	s.t.Helper()
	labels := map[string]string{"app": "legacy"}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.namespace, Name: name} }
	repository := s.repository + "-legacy"
	image := harness.Image{Registry: env.Registry, Repository: repository, Tag: version, Binary: sampleApp()}
	if _, err := image.Push(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	pod := podSpec()
	pod.Containers[0].Image = env.RegistryInternal + "/" + repository + ":" + version
	u := &userOwned{s: s, host: "front." + s.name + ".localhost"}
	u.deployment = &appsv1.Deployment{ObjectMeta: meta("legacy"), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
	}}
	u.service = &corev1.Service{ObjectMeta: meta("front"), Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	infra, port := gatewayv1.Namespace("infra"), gatewayv1.PortNumber(80)
	u.route = &gatewayv1.HTTPRoute{ObjectMeta: meta("front"), Spec: gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "public", Namespace: &infra}}},
		Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(u.host)},
		Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
			BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(u.service.Name), Port: &port},
		}}}}},
	}}
	s.create(u.deployment, u.service, u.route)
	u.scaled(2)
	return u
}

// load starts sending requests to the user's route.
func (u *userOwned) load() *harness.Load {
	t := u.s.t
	t.Helper()
	answers(t, u.host)
	l, err := harness.StartLoad(context.Background(), harness.LoadConfig{Gateway: env.Gateway, Host: u.host, Rate: 50, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop() })
	return l
}

// scaled waits until the user's Deployment has the given number of replicas, all of which are
// ready.
func (u *userOwned) scaled(want int32) {
	u.s.t.Helper()
	wait(u.s.t, fmt.Sprintf("the user's Deployment to have %d replicas", want), func(ctx context.Context) (bool, string, error) {
		d := &appsv1.Deployment{}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(u.deployment), d); err != nil {
			return false, "", err
		}
		return *d.Spec.Replicas == want && d.Status.Replicas == want && d.Status.ReadyReplicas == want, fmt.Sprintf("%d of %d ready", d.Status.ReadyReplicas, *d.Spec.Replicas), nil
	})
}

// asItWas checks that the user's objects are unchanged.
func (u *userOwned) asItWas() {
	t := u.s.t
	t.Helper()
	d, service := &appsv1.Deployment{}, &corev1.Service{}
	for want, got := range map[client.Object]client.Object{u.deployment: d, u.service: service} {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
			t.Fatal(err)
		}
		annotations := got.GetAnnotations()
		for _, key := range []string{v1alpha1.AnnotationAdoptedReplicas, v1alpha1.AnnotationAdoptedSelector} {
			if v, ok := annotations[key]; ok {
				t.Errorf("%T %s still has the annotation %s: %s", got, got.GetName(), key, v)
			}
		}
	}
	if diff := cmp.Diff(u.service.Spec, service.Spec); diff != "" {
		t.Errorf("the user's Service (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(u.deployment.Spec, d.Spec); diff != "" {
		t.Errorf("the user's Deployment (-before +after):\n%s", diff)
	}
}
