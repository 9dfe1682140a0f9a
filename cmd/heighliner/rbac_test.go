package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/allowedhosts"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/httpclient"
	"github.com/heighliner/heighliner/test/port"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	if v := os.Getenv(asManager); v != "" {
		version = v
		main()
		return
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m, apiserver.Options{Policies: true, GatewayAPI: true, ControllerManager: true}, &env))
}

// refusals collects the requests that the API server forbids.
type refusals struct {
	mu   sync.Mutex
	seen []string
}

func (r *refusals) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusForbidden {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.seen = append(r.seen, req.Method+" "+req.URL.Path)
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// shipped applies the roles of config/default and of some components over the existing roles, as a user would.
func shipped(t *testing.T, components ...string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "heighliner-system"}}
	if err := env.Client.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if out, err := env.Kubectl(t, "", "apply", "-k", overlay(t, "", []string{"rbac"}, components...)); err != nil {
		t.Fatalf("apply the roles: %v: %s", err, out)
	}
	await.Nil(t, func(ctx context.Context) error { // The authorizer applies the roles with a delay.
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "microservices"},
		}}
		if err := env.As(t, apiserver.ManagerUser).Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return errors.New("the roles of the manager are not in effect yet")
		}
		return nil
	})
}

// patient returns the options of a manager that does not exit because of a slow renewal of its Lease.
func patient(o options) ctrl.Options {
	out := managerOptions(o)
	out.LeaseDuration, out.RenewDeadline = new(2*await.Limit), new(await.Limit)
	return out
}

// overlay creates a kustomization from folders in config and from components, and returns the folder of the kustomization.
func overlay(t *testing.T, namespace string, folders []string, components ...string) string {
	t.Helper()
	dir := t.TempDir()
	config, err := filepath.Rel(dir, filepath.Join(apiserver.Root(t), "config"))
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	if namespace != "" {
		text += "namespace: " + namespace + "\n"
	}
	for _, of := range []struct {
		field, below string
		names        []string
	}{{"resources", "", folders}, {"components", "components", components}} {
		if len(of.names) > 0 {
			text += of.field + ":\n"
		}
		for _, name := range of.names {
			text += "- " + filepath.Join(config, of.below, name) + "\n"
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// install applies a folder of config. Objects without a namespace are created in the given namespace.
func install(t *testing.T, folder, namespace string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(apiserver.Root(t), "config", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find roles: %v, %d files", err, len(files))
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		objects, err := apiserver.Objects(in)
		if err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		for _, obj := range objects {
			if namespace != "" && obj.GetNamespace() == "" {
				obj.SetNamespace(namespace)
			}
			create(t, obj)
		}
	}
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := env.Client.Create(t.Context(), obj); err != nil {
		t.Fatalf("create %T: %v", obj, err)
	}
}

// alone removes the objects of other tests, which this manager would reconcile and count.
func alone(t *testing.T) {
	t.Helper()
	var namespaces corev1.NamespaceList
	if err := env.Client.List(t.Context(), &namespaces); err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces.Items {
		for _, o := range []client.Object{&v1alpha1.Microservice{}, &v1alpha1.ImagePolicy{}, &v1alpha1.NetworkPolicy{}, &v1alpha1.VersionedMicroservice{}} {
			if err := env.Client.DeleteAllOf(t.Context(), o, client.InNamespace(ns.Name)); err != nil {
				t.Fatalf("delete the remaining objects in %s: %v", ns.Name, err)
			}
		}
	}
}

// TestShippedRightsSuffice runs the manager with the permissions of config/rbac during complete rollouts, and checks that
// the manager needs no other permission.
func TestShippedRightsSuffice(t *testing.T) {
	alone(t)
	shipped(t)
	installTLS(t) // Install the CRDs before the manager starts, because it discovers the kinds when it starts.
	// Create the namespace before the manager starts, so that the namespace is deleted after the manager has stopped:
	// a namespace that is being deleted rejects events.
	namespace := env.Namespace(t)
	var refused refusals
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: apiserver.ManagerUser,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:heighliner-system", "system:authenticated"},
	}
	config.Wrap(refused.wrap)
	elsewhere := env.Namespace(t)
	metrics, webhooks := port.Take(t), port.Take(t)
	o := options{
		leaderElect: true, leaderNamespace: "heighliner-system", metricsAddress: metrics, probeAddress: "0", webhookAddress: webhooks,
		minDrain: time.Second, workers: 4, outbound: outbound.Config{Allow: []string{"127.0.0.1"}},
	}
	mgr, err := ctrl.NewManager(config, patient(o))
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(mgr, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run manager: %v", err)
		}
		if len(refused.seen) > 0 {
			slices.Sort(refused.seen)
			t.Errorf("the API server rejected these requests:\n%s", strings.Join(slices.Compact(refused.seen), "\n"))
		}
	})

	env.PlayKubelet(t, namespace, nil)
	env.PlayGateway(t, namespace, nil)
	install(t, "components/secrets", namespace)
	images := registrytest.New(t)
	images.RequireBasic("robot", "secret")
	images.Push(t, "team/shop", "1.0.0")
	shop := metav1.ObjectMeta{Namespace: namespace, Name: "shop"}

	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pull", Annotations: map[string]string{v1alpha1.AnnotationRegistry: images.Host()}},
		Type:       "kubernetes.io/basic-auth",
		StringData: map[string]string{"username": "robot", "password": "secret"},
	})
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hooks"}, StringData: map[string]string{"key": "secret"}})
	var signed atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(hook.HeaderSignature) == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		signed.Add(1)
	}))
	t.Cleanup(receiver.Close)
	called := func(kind v1alpha1.HookType) v1alpha1.Hook {
		return v1alpha1.Hook{Name: strings.ToLower(string(kind)), Type: kind, URL: receiver.URL, SecretRef: &v1alpha1.Reference{Name: "hooks"}}
	}
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"}}
	gateway.Spec.GatewayClassName = "test"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	create(t, gateway)
	// Select namespaces by labels, so that the manager must read the labels of the Namespace.
	list := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "heighliner-system", Name: allowedhosts.ConfigMapName},
		Data:       map[string]string{"shop": "namespaces: " + corev1.LabelMetadataName + "=" + namespace + "\nshop.example.com"},
	}
	create(t, list)
	t.Cleanup(func() { // While the list exists, other tests cannot use any host.
		if err := env.Client.Delete(context.Background(), list); err != nil {
			t.Errorf("delete the list of domains: %v", err)
		}
	})
	policy := &v1alpha1.ImagePolicy{ObjectMeta: shop}
	policy.Spec.Image, policy.Spec.Interval = images.Repository("team/shop"), "5s"
	policy.Spec.ImagePullSecrets = []v1alpha1.Reference{{Name: "pull"}}
	policy.Spec.Platforms = []string{"linux/amd64"}
	create(t, policy)
	ms := &v1alpha1.Microservice{ObjectMeta: shop}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	const hidden = "content-of-configuration"
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"file": hidden}})
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "licence"}, StringData: map[string]string{"file": hidden}})
	ms.Spec.Configuration = &v1alpha1.Configuration{Track: v1alpha1.TrackAll}
	ms.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "licence"}}},
	}
	ms.Spec.Availability.Replicas = 2
	ms.Spec.Availability.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 3}
	ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{
		MinimumAvailable: 1, DrainDelay: "1s",
		Canary: &v1alpha1.CanaryStrategy{
			Steps: []v1alpha1.CanaryStep{{Weight: 50}},
			Hooks: []v1alpha1.Hook{called(v1alpha1.HookPreRollout), called(v1alpha1.HookRollout), called(v1alpha1.HookConfirmPromotion), called(v1alpha1.HookPostRollout)},
		},
	}
	create(t, ms)
	notified := &v1alpha1.NotificationPolicy{ObjectMeta: shop}
	notified.Spec.Receivers = []v1alpha1.NotificationReceiver{{Name: "chat", Type: v1alpha1.ReceiverWebhook, URL: receiver.URL, SecretRef: &v1alpha1.Reference{Name: "hooks"}}}
	create(t, notified)
	routes := &v1alpha1.NetworkPolicy{ObjectMeta: shop}
	routes.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
	routes.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}}
	routes.Spec.Domains = []v1alpha1.Domain{{Domain: "shop.example.com", Port: "http"}}
	create(t, routes)

	unowned := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "shop"}, Spec: *routes.Spec.DeepCopy()}
	err = env.Client.Create(t.Context(), unowned)
	if !apierrors.IsForbidden(err) {
		t.Errorf("a host of another namespace is accepted: %v", err)
	}

	serves(t, namespace, "1.0.0")
	images.Push(t, "team/shop", "1.1.0")
	serves(t, namespace, "1.1.0")
	borrowed(t, namespace)
	copied(t, namespace, hidden)
	cached := &corev1.ConfigMap{}
	if err := mgr.GetClient().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "settings"}, cached); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(fmt.Sprint(cached), hidden) {
		t.Errorf("the cache keeps the content of a ConfigMap: %v", cached)
	}

	encrypted(t, namespace)
	pullRequests(t, namespace, elsewhere, webhooks)

	get := func(header string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+metrics+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		resp, err := insecure.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, _ := get(""); code != http.StatusUnauthorized {
		t.Errorf("metrics without credentials: %d", code)
	}
	token := serviceAccount(t, namespace, "stranger")
	if code, _ := get("Bearer " + token); code != http.StatusForbidden {
		t.Errorf("metrics for a caller without the permission: %d", code)
	}
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "heighliner-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "scraper"}},
	})
	scraper := "Bearer " + serviceAccount(t, namespace, "scraper")
	// The manager's cache observes the last deletion a moment after the API server has completed it.
	await.Nil(t, func(context.Context) error {
		code, body := get(scraper)
		if code != http.StatusOK {
			return fmt.Errorf("metrics for a scraper: %d %s", code, body)
		}
		missing := slices.DeleteFunc([]string{
			`heighliner_releases{status="active"} 1`, `heighliner_releases{status="deprecated"} 0`,
			`heighliner_release_events_total{reason="Promoted"} 2`, `heighliner_release_promotion_seconds_count 2`,
			`heighliner_hook_calls_total{result="Yes",type="PreRollout"} 2`, // One call is for the first release, and one for 1.1.0.
			`heighliner_hook_call_duration_seconds_count`,
			`heighliner_registry_lookups_total{operation="List",result="Ok"}`, `heighliner_scan_duration_seconds_count`,
			`heighliner_github_reads_total{operation="PullRequest",result="Ok"} 1`, `heighliner_github_rate_limit_remaining{host="127.0.0.1:`,
			`heighliner_notifications_total{result="Accepted",type="Webhook"}`,
			`heighliner_webhook_total{result="Accepted"} 1`, `heighliner_webhook_total{result="Unauthorized"} 1`,
		}, func(line string) bool { return strings.Contains(body, line) })
		if len(missing) > 0 {
			return fmt.Errorf("the metrics do not contain %q", missing)
		}
		return nil
	})
}

// installTLS installs the CRDs of Certificates and ListenerSets.
func installTLS(t *testing.T) {
	t.Helper()
	issued, err := apiserver.CertManager()
	if err != nil {
		t.Fatal(err)
	}
	newest, err := apiserver.GatewayAPI("v1.6.3", "standard")
	if err != nil {
		t.Fatal(err)
	}
	other, err := apiserver.APISIX()
	if err != nil {
		t.Fatal(err)
	}
	_, err = envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{ErrorIfPathMissing: true, MaxTime: await.Limit, Paths: []string{
		filepath.Join(issued, "cert-manager.io_certificates.yaml"), filepath.Join(newest, "gateway.networking.k8s.io_listenersets.yaml"),
		filepath.Join(other, "ApisixTls.yaml"), filepath.Join(other, "ApisixRoute.yaml"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	create(t, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/ingress"}})
}

// encrypted creates NetworkPolicies with three providers whose TLS needs additional objects, and checks that the manager
// creates and deletes these objects.
func encrypted(t *testing.T, namespace string) {
	t.Helper()
	tls := func(mode v1alpha1.TLSMode) *v1alpha1.DomainTLS {
		return &v1alpha1.DomainTLS{Mode: mode, SecretName: strings.ToLower(string(mode)), IssuerRef: &v1alpha1.IssuerReference{Name: "ca"}}
	}
	var policies []*v1alpha1.NetworkPolicy
	for mode, provider := range map[v1alpha1.TLSMode]v1alpha1.NetworkProvider{
		v1alpha1.TLSListenerSet: {Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}},
		v1alpha1.TLSIngress:     {Ingress: &v1alpha1.IngressProvider{ClassName: "nginx"}},
		v1alpha1.TLSApisix:      {APISIX: &v1alpha1.APISIXProvider{}},
	} {
		p := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ToLower(string(mode))}}
		p.Spec = v1alpha1.NetworkPolicySpec{
			MicroserviceRef: &v1alpha1.Reference{Name: "shop"}, Ports: []v1alpha1.NetworkPort{{Name: "http", Port: 80}}, Provider: &provider,
			Domains: []v1alpha1.Domain{{Domain: "shop.example.com", Path: "/" + p.Name, TLS: tls(mode)}},
		}
		create(t, p)
		policies = append(policies, p)
	}
	count := func(want int) {
		t.Helper()
		await.Nil(t, func(ctx context.Context) error {
			for _, gvk := range []schema.GroupVersionKind{
				{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}, {Group: "gateway.networking.k8s.io", Version: "v1", Kind: "ListenerSet"},
				{Group: "apisix.apache.org", Version: "v2", Kind: "ApisixTls"},
			} {
				list := &metav1.PartialObjectMetadataList{}
				list.SetGroupVersionKind(gvk)
				if err := env.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
					return err
				}
				if n := len(list.Items); n == 0 && want > 0 || n > 0 && want == 0 {
					return fmt.Errorf("there are %d %s", n, gvk.Kind)
				}
			}
			return nil
		})
	}
	count(1)
	for _, p := range policies {
		await.Nil(t, func(ctx context.Context) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			p.Spec.Domains = nil
			return env.Client.Update(ctx, p)
		})
	}
	count(0)
	for _, p := range policies {
		if err := env.Client.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

// pullRequests simulates the life cycle of a pull request in a repository that ImagePolicies in two namespaces read.
func pullRequests(t *testing.T, namespace, elsewhere, webhooks string) {
	t.Helper()
	hub, err := githubtest.New(githubtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	repo := hub.AddRepository("acme/shop")
	hub.AddToken("token", githubtest.Access{})
	number := repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	repo.Tag("v1.0.0")
	server := httptest.NewServer(hub)
	t.Cleanup(server.Close)

	labels := map[string]string{"team": "checkout"}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}
	if err := env.Client.Patch(t.Context(), other, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"checkout"}}}`))); err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "github"}, StringData: map[string]string{"token": "token", "secret": "signs"}})
	key := client.ObjectKey{Namespace: namespace, Name: "github"}
	repository := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "github"}}
	repository.Spec = v1alpha1.GitHubRepositorySpec{
		Owner: "acme", Repo: "shop", BaseURL: server.URL, Interval: "1h",
		CredentialsSecretRef: &v1alpha1.Reference{Name: "github"}, WebhookSecretRef: &v1alpha1.Reference{Name: "github"},
		AllowedNamespaces: &v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		Feedback:          &v1alpha1.Feedback{},
	}
	create(t, repository)
	for _, source := range []struct {
		namespace string
		from      v1alpha1.GitHubSource
	}{
		{namespace, v1alpha1.GitHubSource{PullRequests: &v1alpha1.GitHubPullRequests{}}},
		{elsewhere, v1alpha1.GitHubSource{Tags: &v1alpha1.GitHubTags{}}},
	} {
		source.from.RepositoryRef = v1alpha1.NamespacedReference{Namespace: namespace, Name: "github"}
		policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: source.namespace, Name: "from-github"}}
		policy.Spec.Image = "registry.invalid/shop"
		policy.Spec.Source = &v1alpha1.ImageSource{GitHub: &source.from}
		create(t, policy)
	}
	known := func(want string) {
		t.Helper()
		await.Nil(t, func(ctx context.Context) error {
			got := &v1alpha1.GitHubRepository{}
			if err := env.Client.Get(ctx, key, got); err != nil {
				return err
			}
			var pulls []string
			for _, pr := range got.Status.PullRequests {
				pulls = append(pulls, fmt.Sprint(pr.Number, " ", pr.State))
			}
			if is := fmt.Sprint(pulls, " ", len(got.Status.Tags), " tags at ", got.Status.WebhookPath); is != want {
				return fmt.Errorf("the status contains %q, want %q; %v", is, want, got.Status.Conditions)
			}
			return nil
		})
	}
	path := "/github/" + namespace + "/github"
	known("[1 Open] 1 tags at " + path)
	repo.Close(number, true)
	delivery := repo.PullRequestEvent(number, "closed")
	for secret, want := range map[string]int{"guesses": http.StatusUnauthorized, "signs": http.StatusAccepted} {
		if got, err := delivery.Send(t.Context(), httpclient.New(), "http://"+webhooks+path, []byte(secret)); got != want || err != nil {
			t.Errorf("delivery signed with %q: got %d, %v, want %d", secret, got, err, want)
		}
	}
	known("[1 Closed] 1 tags at " + path) // There is no delivery, and the next scan is in an hour.
}

// copied waits until the only release owns a copy of its ConfigMap and of its Secret, and the copies of previous releases
// are deleted.
func copied(t *testing.T, namespace, content string) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		var releases v1alpha1.VersionedMicroserviceList
		var configMaps corev1.ConfigMapList
		var secrets corev1.SecretList
		in, copies := client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelRelease}
		if err := errors.Join(env.Client.List(ctx, &releases, in), env.Client.List(ctx, &configMaps, in, copies), env.Client.List(ctx, &secrets, in, copies)); err != nil {
			return err
		}
		if len(releases.Items) != 1 || len(configMaps.Items) != 1 || len(secrets.Items) != 1 {
			return fmt.Errorf("%d releases have %d ConfigMaps and %d Secrets", len(releases.Items), len(configMaps.Items), len(secrets.Items))
		}
		release, c, s := &releases.Items[0], &configMaps.Items[0], &secrets.Items[0]
		if !metav1.IsControlledBy(c, release) || !metav1.IsControlledBy(s, release) {
			return fmt.Errorf("the copies are owned by %v and %v", c.OwnerReferences, s.OwnerReferences)
		}
		if c.Data["file"] != content || string(s.Data["file"]) != content {
			return errors.New("the copies have different content")
		}
		from := release.Spec.Template.Spec.Containers[0].EnvFrom
		if from[0].ConfigMapRef.Name != c.Name || from[1].SecretRef.Name != s.Name {
			return fmt.Errorf("the pods do not refer to the copies: %v", from)
		}
		return nil
	})
}

// serviceAccount creates a ServiceAccount, and returns its token.
func serviceAccount(t *testing.T, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	create(t, account)
	token := &authenticationv1.TokenRequest{}
	if err := env.Client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatalf("create a token: %v", err)
	}
	return token.Status.Token
}

// borrowed lets a policy manage a rule of a user's route, and checks that the manager restores the rule when the policy
// is deleted.
func borrowed(t *testing.T, namespace string) {
	t.Helper()
	about := metav1.ObjectMeta{Namespace: namespace, Name: "borrowed"}
	elsewhere := gatewayv1.Namespace("elsewhere")
	route := &gatewayv1.HTTPRoute{ObjectMeta: about}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "public"}}
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: "previous", Namespace: &elsewhere, Port: new(gatewayv1.PortNumber(80))},
	}}}}}
	policy := &v1alpha1.NetworkPolicy{ObjectMeta: about}
	policy.Spec.MicroserviceRef = &v1alpha1.Reference{Name: "shop"}
	policy.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
	policy.Spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: "HTTPRoute", Name: "borrowed"}}
	policy.Spec.DeletionPolicy = v1alpha1.DeletionRestore
	create(t, route)
	create(t, policy)
	until := func(what string, ok func() bool) {
		t.Helper()
		await.Nil(t, func(ctx context.Context) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(route), route); err != nil {
				return err
			}
			if !ok() {
				return fmt.Errorf("not %s: the rule routes to %v", what, route.Spec.Rules[0].BackendRefs)
			}
			return nil
		})
	}
	routesTo := func(service string) bool {
		refs := route.Spec.Rules[0].BackendRefs
		return len(refs) == 1 && strings.HasPrefix(string(refs[0].Name), service)
	}
	until("routed to the release", func() bool { return routesTo("borrowed-") })
	if err := env.Client.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	until("restored", func() bool { return routesTo("previous") })
	until("gone", func() bool {
		return apierrors.IsNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
	})
}

// serves waits until a version is the only release and is active, and its domain is programmed.
func serves(t *testing.T, namespace, version string) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		ms, hnp := &v1alpha1.Microservice{}, &v1alpha1.NetworkPolicy{}
		key := client.ObjectKey{Namespace: namespace, Name: "shop"}
		if err := errors.Join(env.Client.Get(ctx, key, ms), env.Client.Get(ctx, key, hnp)); err != nil {
			return err
		}
		var releases v1alpha1.VersionedMicroserviceList
		if err := env.Client.List(ctx, &releases, client.InNamespace(namespace)); err != nil {
			return err
		}
		s := ms.Status.Summary
		if s.Active != version || len(releases.Items) != 1 || hnp.Status.Summary.Domains != "1/1" {
			return fmt.Errorf("wait for %s: active %q, canary %q, %d releases, domains %q, conditions %v", version, s.Active, s.Canary, len(releases.Items), hnp.Status.Summary.Domains, ms.Status.Conditions)
		}
		return nil
	})
}
