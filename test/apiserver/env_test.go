package apiserver_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	if os.Getenv(asKilled) != "" {
		waitToBeKilled()
	}
	os.Exit(apiserver.Run(m, apiserver.Options{GatewayAPI: true, ControllerManager: true}, &env))
}

func TestStartNamesTheMissingBinaries(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	_, err := apiserver.Start(apiserver.Options{})
	if err == nil || !strings.Contains(err.Error(), "make test") {
		t.Errorf("Start without binaries: %v, want an error with the fix", err)
	}
}

func TestPodsOfADeploymentBecomeEndpoints(t *testing.T) {
	t.Parallel()
	ctx, namespace := t.Context(), env.Namespace(t)
	labels := map[string]string{"app": "shop"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop:1.0.0"}}},
			},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	create(t, deployment, service)
	env.PlayKubelet(t, namespace, nil)

	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if got := deployment.Status.AvailableReplicas; got != 2 {
			return fmt.Errorf("available replicas = %d, want 2", got)
		}
		return readyEndpoints(ctx, service, 2)
	})
	if err := env.Client.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := env.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods remain after the deletion of their Deployment", len(pods.Items))
		}
		return nil
	})
}

func TestMarkDeployment(t *testing.T) {
	t.Parallel()
	ctx, namespace := t.Context(), env.Namespace(t)
	labels := map[string]string{"app": "paused"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "paused", Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop:1.0.0"}}},
			},
		},
	}
	create(t, deployment)
	// The real Deployment controller also writes this status: retry after conflicts.
	await.Nil(t, func(context.Context) error {
		return env.MarkDeploymentAvailable(ctx, client.ObjectKeyFromObject(deployment))
	})
}

func TestMarkEndpointsReady(t *testing.T) {
	t.Parallel()
	ctx, namespace := t.Context(), env.Namespace(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	create(t, service)
	for _, ready := range []int{2, 0, 1} {
		if err := env.MarkEndpointsReady(ctx, client.ObjectKeyFromObject(service), ready); err != nil {
			t.Fatal(err)
		}
		if err := readyEndpoints(ctx, service, ready); err != nil {
			t.Error(err)
		}
	}
}

func TestPlayGatewayAcceptsEachGeneration(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	route := &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "public"}}},
			Hostnames:       []gatewayv1.Hostname{"shop.example.com"},
		},
	}
	create(t, route)
	if err := env.RefuseRoute(t.Context(), client.ObjectKeyFromObject(route), "NotAllowedByListeners", "not in this namespace"); err != nil {
		t.Fatal(err)
	}
	env.PlayGateway(t, namespace, nil)
	acceptedNow := func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(route), route); err != nil {
			return err
		}
		for _, parent := range route.Status.Parents {
			for _, c := range parent.Conditions {
				if c.Type == "Accepted" && c.Status == metav1.ConditionTrue && c.ObservedGeneration == route.Generation {
					return nil
				}
			}
		}
		return fmt.Errorf("generation %d is not accepted", route.Generation)
	}
	await.Nil(t, acceptedNow)
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(route), route); err != nil {
			return err
		}
		route.Spec.Hostnames = []gatewayv1.Hostname{"other.example.com"}
		return env.Client.Update(ctx, route)
	})
	await.Nil(t, acceptedNow)
}

func TestNamespaceIsEmptiedAfterATest(t *testing.T) {
	t.Parallel()
	var namespace string
	t.Run("inner", func(t *testing.T) {
		namespace = env.Namespace(t)
	})
	await.Nil(t, func(ctx context.Context) error {
		err := env.Client.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("namespace %q still exists: %v", namespace, err)
	})
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %q: %v", object, object.GetName(), err)
		}
	}
}

func readyEndpoints(ctx context.Context, service *corev1.Service, want int) error {
	slices := &discoveryv1.EndpointSliceList{}
	labels := client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}
	if err := env.Client.List(ctx, slices, client.InNamespace(service.Namespace), labels); err != nil {
		return err
	}
	got := 0
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, false) {
				got++
			}
		}
	}
	if got != want {
		return fmt.Errorf("ready endpoints of %q = %d, want %d", service.Name, got, want)
	}
	return nil
}
