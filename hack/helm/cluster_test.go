package helm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, apiserver.Options{Empty: true, GatewayAPI: true, ControllerManager: true}, &env))
}

// kinds returns the plural names of hlnr.io's kinds. Such a name is the first part of a CRD's name.
func kinds(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(chartPath + "/files/crds/hlnr.io_*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d definitions, %v", len(paths), err)
	}
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "hlnr.io_"), ".yaml")
	}
	return paths
}

// helmRelease is the release of the chart in the API server.
type helmRelease struct {
	*testing.T
	config *action.Configuration
	chart  *chartv2.Chart
}

// newRelease connects to the API server in the same way as the helm command.
func newRelease(t *testing.T) *helmRelease {
	t.Helper()
	chart, err := loader.LoadDir(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	settings := cli.New()
	settings.KubeConfig = env.Kubeconfig()
	settings.SetNamespace(system)
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := config.Init(settings.RESTClientGetter(), system, "secret"); err != nil {
		t.Fatal(err)
	}
	return &helmRelease{T: t, config: config, chart: chart}
}

func (r *helmRelease) install(values map[string]any) {
	r.Helper()
	r.run(action.NewInstall(r.config), values)
}

// takeOver installs the release with --take-ownership and --force-conflicts.
func (r *helmRelease) takeOver(values map[string]any) {
	r.Helper()
	install := action.NewInstall(r.config)
	install.TakeOwnership, install.ForceConflicts = true, true
	r.run(install, values)
}

func (r *helmRelease) run(install *action.Install, values map[string]any) {
	r.Helper()
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.WaitStrategy = "heighliner", system, true, kube.HookOnlyStrategy
	if _, err := install.Run(r.chart, with(values)); err != nil {
		r.Fatalf("install: %v", err)
	}
}

// refused tries to install the chart with values that do not fit the cluster, and checks that the error
// contains want and that nothing is installed.
func (r *helmRelease) refused(values map[string]any, want string) {
	r.Helper()
	install := action.NewInstall(r.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = "heighliner", system, true
	if _, err := install.Run(r.chart, with(values)); err == nil || !strings.Contains(err.Error(), want) {
		r.Errorf("install %v: got %v, want an error with %q", values, err, want)
	}
	if releases, err := action.NewList(r.config).Run(); err != nil || len(releases) > 0 {
		r.Errorf("%d releases: %v", len(releases), err)
	}
}

func (r *helmRelease) upgrade(values map[string]any) {
	r.Helper()
	upgrade := action.NewUpgrade(r.config)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.ServerSideApply = system, kube.HookOnlyStrategy, "auto"
	if _, err := upgrade.Run("heighliner", r.chart, with(values)); err != nil {
		r.Fatalf("upgrade: %v", err)
	}
}

func (r *helmRelease) uninstall() {
	r.Helper()
	uninstall := action.NewUninstall(r.config)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run("heighliner"); err != nil {
		r.Fatalf("uninstall: %v", err)
	}
}

// definition returns the CRD of a kind, or nil if the CRD does not exist.
func definition(t *testing.T, plural string) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := env.Client.Get(t.Context(), client.ObjectKey{Name: plural + ".hlnr.io"}, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// removeDefinitions deletes the CRDs, and thus all objects of their kinds, and waits until the CRDs are removed.
func removeDefinitions(t *testing.T) {
	t.Helper()
	for _, plural := range kinds(t) {
		if d := definition(t, plural); d != nil {
			if err := env.Client.Delete(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	await.Until(t, "the definitions to be deleted", func() bool {
		for _, plural := range kinds(t) {
			if definition(t, plural) != nil {
				return false
			}
		}
		return true
	})
}

// namespace creates a namespace if it does not exist.
func namespace(t *testing.T, name string) {
	t.Helper()
	if err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// service creates an ImagePolicy, a Microservice, and a NetworkPolicy with routes to the Gateway infra/public.
func service(t *testing.T, namespace, repository string) {
	t.Helper()
	about := metav1.ObjectMeta{Namespace: namespace, Name: "shop"}
	policy := &v1alpha1.ImagePolicy{ObjectMeta: about}
	policy.Spec.Image, policy.Spec.Interval, policy.Spec.Platforms = repository, "5s", []string{"linux/amd64"}
	policy.Spec.ImagePullSecrets = []v1alpha1.Reference{{Name: "registry"}}
	ms := &v1alpha1.Microservice{ObjectMeta: about}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{DrainDelay: "5s", Canary: &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 50}}}}
	routes := &v1alpha1.NetworkPolicy{ObjectMeta: about}
	routes.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
	routes.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public", Namespace: "infra"}}}}
	routes.Spec.Domains = []v1alpha1.Domain{{Domain: namespace + ".example.com", Port: "http"}}
	for _, o := range []client.Object{policy, ms, routes} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// credentials creates the Secret that the ImagePolicies created by the service function refer to.
func credentials(t *testing.T, namespace, repository string) {
	t.Helper()
	host, _, _ := strings.Cut(repository, "/")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson}
	secret.StringData = map[string]string{".dockerconfigjson": fmt.Sprintf(`{"auths": {%q: {"username": "robot", "password": "secret"}}}`, host)}
	if err := env.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// gateway creates a Gateway that accepts routes from all namespaces.
func gateway(t *testing.T) {
	t.Helper()
	from := gatewayv1.NamespacesFromAll
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public"}}
	g.Spec.GatewayClassName = "test"
	g.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType, AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from}}}}
	if err := env.Client.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// serves waits until a version is active and its domain is programmed.
func serves(t *testing.T, namespace, version string) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		key := client.ObjectKey{Namespace: namespace, Name: "shop"}
		var ms v1alpha1.Microservice
		var routes v1alpha1.NetworkPolicy
		var policy v1alpha1.ImagePolicy
		if err := errors.Join(env.Client.Get(ctx, key, &ms), env.Client.Get(ctx, key, &routes), env.Client.Get(ctx, key, &policy)); err != nil {
			return err
		}
		if ms.Status.Summary.Active != version || routes.Status.Summary.Domains != "1/1" {
			return fmt.Errorf("active is %q, domains %q; %+v %+v %+v", ms.Status.Summary.Active, routes.Status.Summary.Domains, policy.Status.Conditions, ms.Status.Conditions, routes.Status.Conditions)
		}
		return nil
	})
}

// workloads returns the UIDs and generations of all objects that serve traffic in a namespace, by kind and name.
func workloads(t *testing.T, namespace string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}, &corev1.ServiceList{}, &gatewayv1.HTTPRouteList{},
		&v1alpha1.ImagePolicyList{}, &v1alpha1.MicroserviceList{}, &v1alpha1.NetworkPolicyList{}, &v1alpha1.VersionedMicroserviceList{},
	} {
		if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		raw, err := items(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range raw {
			deleted := ""
			if o.GetDeletionTimestamp() != nil {
				deleted = " is being deleted"
			}
			found[fmt.Sprintf("%T %s", list, o.GetName())] = fmt.Sprintf("%s %d%s", o.GetUID(), o.GetGeneration(), deleted)
		}
	}
	return found
}

// TestUpgradesBetweenVariants tests that a real API server accepts an installation with the default values, a
// series of upgrades to other sets of values, and a final upgrade back to the default values.
func TestUpgradesBetweenVariants(t *testing.T) {
	defer removeDefinitions(t)
	for _, name := range []string{"shop", "infra"} {
		namespace(t, name)
	}
	r := newRelease(t)
	values := maps.Clone(variants["everything"])
	metrics := maps.Clone(values["metrics"].(map[string]any))
	delete(metrics, "serviceMonitor") // The CRDs of these kinds are not installed.
	delete(metrics, "alerts")
	values["metrics"] = metrics
	r.install(nil)
	for _, next := range []map[string]any{values, variants["granted secrets"], variants["namespaces"], variants["shards"], variants["no receiver"], variants["shards"], nil} {
		r.upgrade(next)
		for _, plural := range kinds(t) {
			if definition(t, plural) == nil {
				t.Errorf("the definition of %s no longer exists", plural)
			}
		}
	}
	r.uninstall()
}

// TestTakeOwnership tests that a release that takes over the objects of a kustomize installation loses the permissions that its
// values do not include.
func TestTakeOwnership(t *testing.T) {
	defer removeDefinitions(t)
	for _, name := range []string{"shop", "infra"} {
		namespace(t, name)
	}
	before := kustomized(t, map[string]any{"resources": []string{"config/default"}, "components": []string{"config/components/web"}})
	var items []object
	for _, name := range []string{"heighliner-read-secrets", "heighliner-web-impersonate"} {
		items = append(items, before["ClusterRole <nil> "+name], before["ClusterRoleBinding <nil> "+name])
	}
	manifest, err := yaml.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := env.Kubectl(t, string(manifest), "apply", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	secrets := authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + system + ":heighliner",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "get", Resource: "secrets"},
	}
	users := authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + system + ":heighliner-web",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users"},
	}
	allowed(t, secrets, true)
	allowed(t, users, true)
	r := newRelease(t)
	values := maps.Clone(variants["granted secrets"])
	values["web"] = behindProxy
	r.takeOver(values)
	allowed(t, secrets, false)
	allowed(t, users, false)
	r.uninstall()
}

// allowed waits until the authorizer allows or denies a request.
func allowed(t *testing.T, request authorizationv1.SubjectAccessReviewSpec, want bool) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: request}
		if err := env.Client.Create(ctx, review); err != nil {
			return err
		}
		if review.Status.Allowed != want {
			return fmt.Errorf("%+v: allowed is %t", request.ResourceAttributes, review.Status.Allowed)
		}
		return nil
	})
}

// changedChart returns the chart with a change in each CRD.
func changedChart(t *testing.T) *chartv2.Chart {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(chartPath)); err != nil {
		t.Fatal(err)
	}
	crds := os.DirFS(dir + "/files/crds")
	paths, err := fs.Glob(crds, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := fs.ReadFile(crds, path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), "    helm.sh/resource-policy: keep\n", "    helm.sh/resource-policy: keep\n    example.com/next: \"true\"\n", 1)
		if err := os.WriteFile(dir+"/files/crds/"+path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chart, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// TestSomeNamespaces installs the chart for some namespaces, and runs a manager with the permissions of this
// Helm release. The manager reconciles these namespaces without denied requests, and ignores other
// namespaces. An upgrade of the chart changes the CRDs but no workload. The uninstall keeps CRDs, objects,
// and workloads. A second install continues with them. Finally, everything is removed.
func TestSomeNamespaces(t *testing.T) {
	defer removeDefinitions(t)
	binary := buildManager(t)
	images := registrytest.New(t)
	images.RequireBasic("robot", "secret")
	images.Push(t, "team/shop", "1.0.0")
	repository := images.Repository("team/shop")
	for _, name := range []string{"shop", "infra", "bank", "closed"} {
		namespace(t, name)
	}
	gateway(t)
	env.PlayKubelet(t, "shop", nil)
	env.PlayGateway(t, "shop", nil)

	values := map[string]any{
		"namespaces": []any{"shop", "infra", "closed"}, "secrets": map[string]any{"access": "Granted", "read": []any{"shop"}},
		"flags": map[string]any{"min-drain-delay": "100ms", "outbound-allow": []any{"127.0.0.1"}},
	}
	r := newRelease(t)
	for want, wrong := range map[string]map[string]any{
		`namespaces has "missing", which does not exist`:    {"namespaces": []any{"shop", "missing"}},
		`secrets.read has "missing", which does not exist`:  {"secrets": map[string]any{"read": []any{"missing"}}},
		`secrets.track has "missing", which does not exist`: {"secrets": map[string]any{"track": []any{"shop", "missing"}}},
		`metrics.serviceMonitor.enabled needs the CRDs`:     {"metrics": map[string]any{"serviceMonitor": map[string]any{"enabled": true}}},
	} {
		r.refused(wrong, want)
	}
	r.install(values)
	established(t)
	for _, name := range []string{"shop", "bank", "closed"} {
		credentials(t, name, repository)
		service(t, name, repository)
	}
	m := startManager(t, binary)
	serves(t, "shop", "1.0.0")
	m.check()
	images.Push(t, "team/shop", "1.1.0")
	serves(t, "shop", "1.1.0")
	forbidden(t, "closed")
	untouched(t, "bank")
	clusterFreeze(t)

	before := workloads(t, "shop")
	r.chart = changedChart(t)
	values["podLabels"] = map[string]any{"next": "true"}
	r.upgrade(values)
	for _, plural := range kinds(t) {
		if definition(t, plural).GetAnnotations()["example.com/next"] != "true" {
			t.Errorf("the definition of %s was not upgraded", plural)
		}
	}
	same(t, "upgrade", before)
	m.stop()
	m.refused(map[string]bool{"GET /api/v1/namespaces/closed/secrets/registry": true})

	r.uninstall()
	same(t, "uninstall", before)
	for _, plural := range kinds(t) {
		if definition(t, plural) == nil {
			t.Errorf("the definition of %s no longer exists", plural)
		}
	}
	r.install(values)
	again := startManager(t, binary)
	images.Push(t, "team/shop", "1.2.0")
	serves(t, "shop", "1.2.0")
	again.stop()

	// If the CRDs are removed before the release, the uninstall succeeds. The garbage collector deletes the
	// owned objects only if it is notified of the deletion of their owners before the API server closes the
	// watches on the CRDs' objects. Some Deployments may therefore remain.
	removeDefinitions(t)
	r.uninstall()
}

// established waits until the API server serves the kinds of the objects that the test creates next. The API
// server starts to serve these kinds shortly after the installation.
func established(t *testing.T) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		for _, list := range []client.ObjectList{&v1alpha1.ImagePolicyList{}, &v1alpha1.MicroserviceList{}, &v1alpha1.NetworkPolicyList{}} {
			if err := env.Client.List(ctx, list); err != nil {
				return err
			}
		}
		return nil
	})
}

// same fails the test if the workloads of shop have changed.
func same(t *testing.T, after string, before map[string]string) {
	t.Helper()
	now := workloads(t, "shop")
	for name, state := range before {
		if now[name] != state {
			t.Errorf("after the %s, %s is %q, want %q", after, name, now[name], state)
		}
	}
	if len(before) < 8 {
		t.Errorf("there are only %d objects", len(before))
	}
}

// forbidden waits until the ImagePolicy of a namespace reports that the manager is not permitted to read its Secret.
func forbidden(t *testing.T, namespace string) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		var policy v1alpha1.ImagePolicy
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "shop"}, &policy); err != nil {
			return err
		}
		if !strings.Contains(fmt.Sprint(policy.Status.Conditions), "SecretsForbidden") {
			return fmt.Errorf("conditions are %+v", policy.Status.Conditions)
		}
		return nil
	})
}

// clusterFreeze creates a ClusterFreeze that selects no Microservice, and waits until an event reports that it began.
func clusterFreeze(t *testing.T) {
	t.Helper()
	const user = "ana@example.com"
	f := &v1alpha1.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: "upgrade", Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: user}}}
	f.Spec.FreezeRules = v1alpha1.FreezeRules{Reason: "upgrade of the cluster", Indefinite: true}
	f.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/frozen": "true"}}
	if err := env.As(t, user, "system:masters").Create(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(ctx context.Context) error {
		var events eventsv1.EventList
		if err := env.Client.List(ctx, &events, client.InNamespace(corev1.NamespaceDefault)); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == f.Name && e.Reason == "FreezeBegan" }) {
			return errors.New("there is no event FreezeBegan")
		}
		return nil
	})
}

// untouched fails the test if the manager changed or created an object in a namespace.
func untouched(t *testing.T, namespace string) {
	t.Helper()
	var policy v1alpha1.ImagePolicy
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "shop"}, &policy); err != nil {
		t.Fatal(err)
	}
	if len(policy.Status.Conditions) > 0 {
		t.Errorf("%s: the ImagePolicy has conditions %+v", namespace, policy.Status.Conditions)
	}
	for name := range workloads(t, namespace) {
		if strings.Contains(name, "Deployment") || strings.Contains(name, "VersionedMicroservice") {
			t.Errorf("%s: unexpected object %s", namespace, name)
		}
	}
}
