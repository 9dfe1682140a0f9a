package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// TestSmokeTestReachesTheRelease tests a smoke test, which is called before a release gets traffic. The smoke test must
// receive a URL and Services that reach only this release. It must not be called before the Gateway has accepted the domain
// of the canary.
func TestSmokeTestReachesTheRelease(t *testing.T) {
	t.Parallel()
	const try = "try.shop.example.com"
	namespace := env.Namespace(t)
	var closed atomic.Bool // While this is true, the Gateway accepts no change to the domain of the canary.
	env.PlayKubelet(t, namespace, nil)
	env.PlayGateway(t, namespace, func(r *gatewayv1.HTTPRoute) bool {
		return !closed.Load() || !slices.Contains(r.Spec.Hostnames, try)
	})
	_, kubeconfig := watched(t)

	bodies, wrong := make(chan hook.Body, 16), make(chan error, 16)
	smoke := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body hook.Body
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if body.Version == "1.1.0" {
			bodies <- body
			wrong <- reached(r.Context(), body)
		}
	}))
	t.Cleanup(smoke.Close)

	images := registrytest.New(t)
	images.Push(t, "team/shop", "1.0.0")
	shop := metav1.ObjectMeta{Namespace: namespace, Name: "shop"}
	policy := &v1alpha1.ImagePolicy{ObjectMeta: shop}
	policy.Spec.Image, policy.Spec.Interval = images.Repository("team/shop"), "5s"
	policy.Spec.Platforms = []string{"linux/amd64"}
	ms := &v1alpha1.Microservice{ObjectMeta: shop}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{MinimumAvailable: 1, DrainDelay: "1s", Canary: &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 50}},
		Hooks: []v1alpha1.Hook{{Name: "smoke", Type: v1alpha1.HookPreRollout, URL: smoke.URL}},
	}}
	routes := &v1alpha1.NetworkPolicy{ObjectMeta: shop}
	routes.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
	routes.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}}
	routes.Spec.Domains = []v1alpha1.Domain{
		{Domain: "shop.example.com", Port: "http"},
		{Domain: try, Port: "http", Release: &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary}},
	}
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"}}
	gateway.Spec.GatewayClassName = "test"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	for _, obj := range []client.Object{gateway, policy, ms} {
		create(t, obj)
	}
	// After another test deletes its list of domains, the list might remain in effect for a moment.
	await.Nil(t, func(ctx context.Context) error { return env.Client.Create(ctx, routes) })
	startManager(t, "v1.0.0", kubeconfig, namespace)

	active := func(version string) {
		t.Helper()
		await.Nil(t, func(ctx context.Context) error {
			if err := errors.Join(env.Client.Get(ctx, client.ObjectKeyFromObject(ms), ms), env.Client.Get(ctx, client.ObjectKeyFromObject(routes), routes)); err != nil {
				return err
			}
			if ms.Status.Summary.Active != version || routes.Status.Summary.Domains != "2/2" {
				return fmt.Errorf("active %q, domains %q: %+v", ms.Status.Summary.Active, routes.Status.Summary.Domains, ms.Status.Conditions)
			}
			return nil
		})
	}
	active("1.0.0")

	closed.Store(true)
	images.Push(t, "team/shop", "1.1.0")
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(ms), ms); err != nil {
			return err
		}
		if status := fmt.Sprint(ms.Status.Conditions, ms.Status.ReleaseGroups); !strings.Contains(status, "its PreRollout hooks cannot be called yet") {
			return fmt.Errorf("1.1.0 does not wait for its domain: %s", status)
		}
		return nil
	})
	if n := len(bodies); n > 0 {
		t.Errorf("%d calls before the release could be reached, the first: %+v", n, <-bodies)
	}
	closed.Store(false)
	body := await.Receive(t, "the smoke test", bodies)
	if err := await.Receive(t, "the result of the smoke test", wrong); err != nil {
		t.Errorf("the smoke test of %s cannot reach the release: %v", body.Release, err)
	}
	if body.URL != "http://"+try || len(body.Services) != 1 {
		t.Errorf("URL %q, Services %q", body.URL, body.Services)
	}
	active("1.1.0")
}

// reached returns an error unless the URL and the Services in a body belong to the release: the domain with this URL must be
// programmed and serve only this release, and its route must refer only to these Services.
func reached(ctx context.Context, body hook.Body) error {
	var policy v1alpha1.NetworkPolicy
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: body.Namespace, Name: body.Microservice}, &policy); err != nil {
		return err
	}
	i := slices.IndexFunc(policy.Status.Domains, func(d v1alpha1.DomainStatus) bool { return d.URL == body.URL })
	if i < 0 {
		return fmt.Errorf("no domain has URL %q", body.URL)
	}
	d := policy.Status.Domains[i]
	if !d.Programmed || len(d.Backends) != 1 || d.Backends[0].Release != body.Release {
		return fmt.Errorf("the domain is %+v", d)
	}
	var routes gatewayv1.HTTPRouteList
	if err := env.Client.List(ctx, &routes, client.InNamespace(body.Namespace)); err != nil {
		return err
	}
	i = slices.IndexFunc(routes.Items, func(r gatewayv1.HTTPRoute) bool {
		return slices.Contains(r.Spec.Hostnames, gatewayv1.Hostname(d.Domain))
	})
	if i < 0 {
		return fmt.Errorf("no route has host %q", d.Domain)
	}
	for _, rule := range routes.Items[i].Spec.Rules {
		for _, to := range rule.BackendRefs {
			if !slices.Contains(body.Services, string(to.Name)) {
				return fmt.Errorf("the route refers to Service %q, and the body to %q", to.Name, body.Services)
			}
			var service corev1.Service
			if err := env.Client.Get(ctx, client.ObjectKey{Namespace: body.Namespace, Name: string(to.Name)}, &service); err != nil {
				return err
			}
			if service.Spec.Selector[v1alpha1.LabelRelease] != body.Release {
				return fmt.Errorf("Service %q selects %v", to.Name, service.Spec.Selector)
			}
		}
	}
	return nil
}
