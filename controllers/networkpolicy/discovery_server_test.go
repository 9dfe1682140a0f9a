package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// alone is a test's own API server, with the controller.
type alone struct {
	*apiserver.Env
	t *testing.T
}

func newAlone(t *testing.T, o apiserver.Options) *alone {
	t.Helper()
	env, err := apiserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(AddToScheme(env.Client.Scheme()), apiextensionsv1.AddToScheme(env.Client.Scheme())); err != nil {
		t.Fatal(err)
	}
	return &alone{env, t}
}

// manage starts the controller as a user. An empty name means a user with all permissions.
func (a *alone) manage(user string) {
	a.t.Helper()
	as := rest.CopyConfig(a.Config)
	as.Impersonate.UserName = user
	mgr, err := ctrl.NewManager(as, ctrl.Options{
		Scheme: a.Client.Scheme(), NewCache: NewCache, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)}, // The shared manager of the tests has the same name.
	})
	if err != nil {
		a.t.Fatal(err)
	}
	if err := SetupWithManager(index.Once(mgr), Options{Metrics: prometheus.NewRegistry(), pollInterval: 2 * time.Second}); err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	a.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	})
}

// policy creates a policy in a namespace and returns its key.
func (a *alone) policy(namespace, name string, change ...func(*v1alpha1.NetworkPolicy)) client.ObjectKey {
	a.t.Helper()
	p := newWorld(a.t).Policy.DeepCopy()
	p.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name}
	p.Spec.Domains[0].Domain = name + ".example.com"
	for _, c := range change {
		c(p)
	}
	if err := a.Client.Create(a.t.Context(), p); err != nil {
		a.t.Fatal(err)
	}
	return client.ObjectKeyFromObject(p)
}

func (a *alone) eventually(key client.ObjectKey, ok func(*v1alpha1.NetworkPolicy) bool) {
	a.t.Helper()
	await.Nil(a.t, func(ctx context.Context) error {
		var now v1alpha1.NetworkPolicy
		if err := a.Client.Get(ctx, key, &now); err != nil {
			return err
		}
		if !ok(&now) {
			return fmt.Errorf("status of %s is %s", key.Name, mustJSON(now.Status))
		}
		return nil
	})
}

// definition returns the definition of a kind from a module, with an additional version in which
// objects are stored. If the conversion fails, these objects cannot be listed.
func definition(t *testing.T, module func() (string, error), file string, convert *apiextensionsv1.CustomResourceConversion) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	dir, err := module()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = false
	}
	stored := *crd.Spec.Versions[len(crd.Spec.Versions)-1].DeepCopy()
	stored.Name, stored.Storage = storedVersion, true
	crd.Spec.Versions = append(crd.Spec.Versions, stored)
	crd.Spec.Conversion = convert
	return &crd
}

const storedVersion = "v1alpha9"

// TestServerKindThatCannotBeListed checks that a kind that the API server serves but cannot list
// does not block policies that do not need it. A policy that needs the kind reports the cause, and
// continues when the kind can be listed. The test uses Certificates, which are installed before the
// manager starts and for which the manager also has no permission, and ApisixRoutes, which are
// installed later. If the definition is deleted in the meantime, the kind counts as missing.
func TestServerKindThatCannotBeListed(t *testing.T) {
	t.Parallel()
	a := newAlone(t, apiserver.Options{GatewayAPI: true})
	ctx, namespace := t.Context(), a.Namespace(t)
	create := func(o client.Object) {
		t.Helper()
		if err := a.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	permissions := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"", "hlnr.io", "gateway.networking.k8s.io", "networking.k8s.io", "discovery.k8s.io", "apiextensions.k8s.io", "events.k8s.io", "apisix.apache.org"},
		Resources: []string{"*"}, Verbs: []string{"*"},
	}}}
	create(permissions)
	create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "manager"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "manager", APIGroup: rbacv1.GroupName}},
	})
	unreachable := "https://127.0.0.1:1/convert"
	away := &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &unreachable}, ConversionReviewVersions: []string{"v1"},
	}}
	install := func(crd *apiextensionsv1.CustomResourceDefinition, spec map[string]any) {
		t.Helper()
		create(crd)
		theirs := map[string]any{
			"apiVersion": crd.Spec.Group + "/" + storedVersion, "kind": crd.Spec.Names.Kind, "spec": spec,
			"metadata": map[string]any{"name": "theirs", "namespace": namespace, "labels": map[string]any{v1alpha1.LabelPolicy: "previous"}},
		}
		await.Nil(t, func(ctx context.Context) error { // The kind is served a moment later.
			return a.Client.Create(ctx, &unstructured.Unstructured{Object: theirs})
		})
	}
	convert := func(name string) {
		t.Helper()
		var crd apiextensionsv1.CustomResourceDefinition
		if err := a.Client.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			t.Fatal(err)
		}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		if err := a.Client.Update(ctx, &crd); err != nil {
			t.Fatal(err)
		}
	}
	// A policy that does not need the kind is accepted while the kind cannot be listed.
	accepted := func(name string) {
		t.Helper()
		a.eventually(a.policy(namespace, name), has("Accepted", v1alpha1.ConditionAccepted))
	}
	note := func(text string) func(*v1alpha1.NetworkPolicy) bool {
		return func(p *v1alpha1.NetworkPolicy) bool {
			c := meta.FindStatusCondition(p.Status.Conditions, "Accepted")
			return c != nil && c.Reason == providers.ReasonProviderAPIMissing && strings.Contains(c.Message, text)
		}
	}

	install(definition(t, apiserver.CertManager, "cert-manager.io_certificates.yaml", away),
		map[string]any{"secretName": "theirs", "dnsNames": []any{"a.example.com"}, "issuerRef": map[string]any{"name": "ca"}})
	a.manage("manager")
	encrypts := a.policy(namespace, "encrypts", func(p *v1alpha1.NetworkPolicy) {
		p.Spec.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx"}}
		p.Spec.Domains[0].TLS = &v1alpha1.DomainTLS{SecretName: "tls", IssuerRef: &v1alpha1.IssuerReference{Name: "ca"}}
	})
	a.eventually(encrypts, func(p *v1alpha1.NetworkPolicy) bool {
		return note("forbidden")(p) && meta.IsStatusConditionPresentAndEqual(p.Status.Conditions, v1alpha1.ConditionProgrammed, metav1.ConditionUnknown) &&
			meta.IsStatusConditionPresentAndEqual(p.Status.Conditions, v1alpha1.ConditionResolvedRefs, metav1.ConditionUnknown)
	})
	accepted("first")
	permissions.Rules[0].APIGroups = append(permissions.Rules[0].APIGroups, "cert-manager.io")
	if err := a.Client.Update(ctx, permissions); err != nil {
		t.Fatal(err)
	}
	a.eventually(encrypts, note("conversion webhook"))
	accepted("second")

	install(definition(t, apiserver.APISIX, "ApisixRoute.yaml", away), map[string]any{"http": []any{map[string]any{
		"name": "theirs", "match": map[string]any{"paths": []any{"/*"}}, "backends": []any{map[string]any{"serviceName": "theirs", "servicePort": int64(80)}},
	}}})
	routes := a.policy(namespace, "routes", func(p *v1alpha1.NetworkPolicy) {
		p.Spec.Provider = &v1alpha1.NetworkProvider{APISIX: &v1alpha1.APISIXProvider{}}
	})
	a.eventually(routes, note("conversion webhook"))
	accepted("third")

	convert("certificates.cert-manager.io")
	a.eventually(encrypts, has("Accepted", v1alpha1.ConditionAccepted))
	convert("apisixroutes.apisix.apache.org")
	a.eventually(routes, has("Accepted", v1alpha1.ConditionAccepted))
	takesAway(a, namespace)
}

// takesAway deletes the definition of HTTPRoutes and recreates it. It checks that the kind is
// reported as missing, and that the route is created again when the kind is served again.
func takesAway(a *alone, namespace string) {
	t, ctx := a.t, a.t.Context()
	t.Helper()
	gateway := openGateway()
	gateway.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: gateway.Name}
	m := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}, Spec: v1alpha1.MicroserviceSpec{
		ImagePolicyRef: v1alpha1.Reference{Name: "shop"},
		Template:       corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop"}}}},
	}}
	for _, o := range []client.Object{gateway, m} {
		if err := a.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	m.Status.Internal, m.Status.ReleaseGroups = &v1alpha1.MicroserviceInternal{Sequence: 1}, []v1alpha1.ReleaseGroup{group("1-x", 1, "a 1.0.0 active 100")}
	m.Status.ReleaseGroups[0].Releases[0].LastTransitionTime = metav1.NowMicro()
	m.Status.ObservedGeneration = m.Generation
	if err := a.Client.Status().Update(ctx, m); err != nil {
		t.Fatal(err)
	}
	shop := a.policy(namespace, "shop", func(p *v1alpha1.NetworkPolicy) { p.Spec.Provider.Gateway.ParentRefs[0].Namespace = "" })
	service := client.ObjectKey{Namespace: namespace, Name: resources.ReleaseServiceName("shop", "shop", "a")}
	await.Nil(t, func(ctx context.Context) error { return a.MarkEndpointsReady(ctx, service, 1) })
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service.Name + "-test"}}
	labels := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"`+v1alpha1.LabelPolicy+`": "shop"}}}`)) // The Service has the same label.
	if err := a.Client.Patch(ctx, slice, labels); err != nil {
		t.Fatal(err)
	}
	routed := func(ctx context.Context) error {
		var routes gatewayv1.HTTPRouteList
		if err := a.Client.List(ctx, &routes, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(routes.Items) != 1 {
			return fmt.Errorf("there are %d routes", len(routes.Items))
		}
		return nil
	}
	await.Nil(t, routed)

	var crd apiextensionsv1.CustomResourceDefinition
	if err := a.Client.Get(ctx, client.ObjectKey{Name: "httproutes.gateway.networking.k8s.io"}, &crd); err != nil {
		t.Fatal(err)
	}
	if err := a.Client.Delete(ctx, &crd); err != nil {
		t.Fatal(err)
	}
	a.eventually(shop, has("Accepted", traffic.ReasonGatewayAPIMissing))
	await.Nil(t, func(ctx context.Context) error {
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(&crd), &apiextensionsv1.CustomResourceDefinition{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the definition still exists: %w", err)
		}
		return nil
	})
	crd.ResourceVersion, crd.UID, crd.Status = "", "", apiextensionsv1.CustomResourceDefinitionStatus{}
	time.Sleep(2500 * time.Millisecond) // The controller reconciles without the kind during this time.
	a.eventually(shop, has("Accepted", traffic.ReasonGatewayAPIMissing))
	if err := a.Client.Create(ctx, &crd); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, routed)
	a.eventually(shop, has("Accepted", v1alpha1.ConditionAccepted))
}
