package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/httpclient"
	"github.com/heighliner/heighliner/test/port"
)

// tenant is a namespace with one object of each kind that refers to a Secret.
type tenant struct {
	*testing.T
	namespace string
	repo      *githubtest.Repository
	webhooks  string // address
}

// newTenant creates the namespace and its objects: an ImagePolicy with a credential, a GitHubRepository with a
// credential and a webhook, and a Microservice whose first release waits for a hook with a key. The Microservice's
// images come from an ImagePolicy without a Secret.
func newTenant(t *testing.T, private, public *registrytest.Server, hub *githubtest.Server, github, hooks, webhooks string) *tenant {
	t.Helper()
	a := &tenant{T: t, namespace: env.Namespace(t), webhooks: webhooks}
	env.PlayKubelet(t, a.namespace, nil)
	about := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: a.namespace, Name: name} }
	credential := &corev1.Secret{ObjectMeta: about("pull"), Type: "kubernetes.io/basic-auth", StringData: map[string]string{"username": "robot", "password": "secret"}}
	credential.Annotations = map[string]string{v1alpha1.AnnotationRegistry: private.Host()}
	create(t, credential)
	create(t, &corev1.Secret{ObjectMeta: about("github"), StringData: map[string]string{"token": "token", "secret": "signs"}})
	create(t, &corev1.Secret{ObjectMeta: about("hooks"), StringData: map[string]string{"key": "secret"}})

	for name, images := range map[string]*registrytest.Server{"private": private, "shop": public} {
		policy := &v1alpha1.ImagePolicy{ObjectMeta: about(name)}
		policy.Spec.Image, policy.Spec.Interval = images.Repository("team/shop"), "5s"
		policy.Spec.Platforms = []string{"linux/amd64"}
		if images == private {
			policy.Spec.ImagePullSecrets = []v1alpha1.Reference{{Name: "pull"}}
		}
		create(t, policy)
	}

	a.repo = hub.AddRepository("acme/" + a.namespace)
	repository := &v1alpha1.GitHubRepository{ObjectMeta: about("shop")}
	repository.Spec = v1alpha1.GitHubRepositorySpec{
		Owner: "acme", Repo: a.namespace, BaseURL: github, Interval: "10s", Feedback: &v1alpha1.Feedback{},
		CredentialsSecretRef: &v1alpha1.Reference{Name: "github"}, WebhookSecretRef: &v1alpha1.Reference{Name: "github"},
	}
	create(t, repository)

	ms := &v1alpha1.Microservice{ObjectMeta: about("shop")}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 50}}, Hooks: []v1alpha1.Hook{{
		Name: "gate", Type: v1alpha1.HookConfirmRollout, URL: hooks, Interval: "10s", SecretRef: &v1alpha1.Reference{Name: "hooks"},
	}}}
	create(t, ms)
	return a
}

// words returns the status of an object, with its conditions, as JSON.
func words(obj any) string {
	text, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// granted waits until every object that needs a Secret is ready.
func (a *tenant) granted() {
	a.Helper()
	await.Nil(a, func(ctx context.Context) error {
		policy, repository, ms := &v1alpha1.ImagePolicy{}, &v1alpha1.GitHubRepository{}, &v1alpha1.Microservice{}
		for name, obj := range map[string]client.Object{"private": policy, "shop": repository} {
			if err := env.Client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, obj); err != nil {
				return err
			}
		}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: "shop"}, ms); err != nil {
			return err
		}
		for _, of := range []struct {
			conditions []metav1.Condition
			kind       string
		}{
			{policy.Status.Conditions, v1alpha1.ConditionReady}, {repository.Status.Conditions, v1alpha1.ConditionReady},
			{repository.Status.Conditions, v1alpha1.ConditionWebhookReady}, {repository.Status.Conditions, v1alpha1.ConditionFeedbackReady},
		} {
			if !meta.IsStatusConditionTrue(of.conditions, of.kind) {
				return fmt.Errorf("%s is not True: %v", of.kind, of.conditions)
			}
		}
		if ms.Status.Summary.Active != "1.0.0" {
			return fmt.Errorf("active is %q: %v", ms.Status.Summary.Active, ms.Status.Conditions)
		}
		return nil
	})
	a.delivery(http.StatusAccepted)
}

// denied waits until each object reports the missing permission, and how to grant it.
func (a *tenant) denied() {
	a.Helper()
	forbidden := fmt.Sprintf("the manager has no permission to get Secrets in namespace %q: apply config/components/read-secrets there", a.namespace)
	await.Nil(a, func(ctx context.Context) error {
		policy, repository := &v1alpha1.ImagePolicy{}, &v1alpha1.GitHubRepository{}
		for name, obj := range map[string]client.Object{"private": policy, "shop": repository} {
			if err := env.Client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, obj); err != nil {
				return err
			}
		}
		for field, of := range map[string]struct {
			conditions []metav1.Condition
			kind       string
		}{
			"spec.imagePullSecrets[0].name":  {policy.Status.Conditions, v1alpha1.ConditionReady},
			"spec.credentialsSecretRef.name": {repository.Status.Conditions, v1alpha1.ConditionReady},
			"spec.webhookSecretRef.name":     {repository.Status.Conditions, v1alpha1.ConditionWebhookReady},
		} {
			c := meta.FindStatusCondition(of.conditions, of.kind)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "SecretsForbidden" || !strings.HasPrefix(c.Message, field+": "+forbidden) {
				return fmt.Errorf("%s of objects that refer to %s: %+v", of.kind, field, c)
			}
		}
		var releases v1alpha1.VersionedMicroserviceList
		if err := env.Client.List(ctx, &releases, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		escaped := strings.ReplaceAll(forbidden, `"`, `\"`)
		if len(releases.Items) != 1 || !strings.Contains(words(&releases.Items[0]), escaped) {
			return fmt.Errorf("no release has a hook that reports the missing permission: %s", words(&releases))
		}
		return nil
	})
	a.delivery(http.StatusUnauthorized)
}

// delivery sends a delivery that is signed with the key in the Secret.
func (a *tenant) delivery(want int) {
	a.Helper()
	await.Nil(a, func(ctx context.Context) error { // The manager reuses the content of a Secret for a few seconds.
		url := "http://" + a.webhooks + "/github/" + a.namespace + "/shop"
		if got, err := a.repo.PushEvent("main", strings.Repeat("a", 40)).Send(ctx, httpclient.New(), url, []byte("signs")); got != want || err != nil {
			return fmt.Errorf("delivery: got %d, %v, want %d", got, err, want)
		}
		return nil
	})
}

// requestsOf collects the requests for Secrets, and the requests that are forbidden.
type requestsOf struct {
	refusals
	secrets refusals
}

func (r *requestsOf) wrap(next http.RoundTripper) http.RoundTripper {
	inner := r.refusals.wrap(next)
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if strings.Contains(req.URL.Path, "/secrets") {
			r.secrets.mu.Lock()
			r.secrets.seen = append(r.secrets.seen, req.Method+" "+req.URL.Path)
			r.secrets.mu.Unlock()
		}
		return inner.RoundTrip(req)
	})
}

// TestSecretsByNamespace tests the secrets-by-namespace component, with which the manager reads Secrets only in
// namespaces that grant the permission. In other namespaces, the manager reconciles everything that needs no Secret,
// and each object that refers to a Secret reports the missing permission, both before the permission is granted and
// after it is withdrawn. Uninstalling removes all grants.
func TestSecretsByNamespace(t *testing.T) {
	alone(t)
	shipped(t) // Begin with an installation whose permission applies to the whole cluster.
	shipped(t, "secrets-by-namespace")
	defer shipped(t) // Restore the roles for other tests.

	private, public := registrytest.New(t), registrytest.New(t)
	private.RequireBasic("robot", "secret")
	private.Push(t, "team/shop", "1.0.0")
	public.Push(t, "team/shop", "1.0.0")
	hub, err := githubtest.New(githubtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hub.AddToken("token", githubtest.Access{})
	github := httptest.NewServer(hub)
	t.Cleanup(github.Close)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)

	webhooks := port.Take(t)
	mine := newTenant(t, private, public, hub, github.URL, receiver.URL, webhooks)
	yours := newTenant(t, private, public, hub, github.URL, receiver.URL, webhooks)
	if out, err := env.Kubectl(t, "", "apply", "-k", overlay(t, mine.namespace, nil, "read-secrets")); err != nil {
		t.Fatalf("grant: %v: %s", err, out)
	}

	var requests requestsOf
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: apiserver.ManagerUser,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:heighliner-system", "system:authenticated"},
	}
	config.Wrap(requests.wrap)
	o := options{
		leaderElect: true, leaderNamespace: "heighliner-system", metricsAddress: "0", probeAddress: "0", webhookAddress: webhooks,
		minDrain: time.Second, workers: 4, outbound: outbound.Config{Allow: []string{"127.0.0.1"}},
	}
	// Another test in this process also runs a manager, and the names and metrics of controllers are
	// global.
	registry := ctrlmetrics.Registry
	ctrlmetrics.Registry = prometheus.NewRegistry()
	defer func() { ctrlmetrics.Registry = registry }()
	second := patient(o)
	second.Controller.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(config, second)
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(mgr, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run manager: %v", err)
		}
		for _, request := range requests.secrets.seen {
			if method, path, _ := strings.Cut(request, " "); method != http.MethodGet || strings.HasSuffix(path, "/secrets") {
				t.Errorf("Secrets are not read one by one: %s", request)
			}
		}
		slices.Sort(requests.seen)
		for _, request := range slices.Compact(requests.seen) {
			ours := strings.Contains(request, mine.namespace) || strings.Contains(request, yours.namespace)
			reads := strings.HasPrefix(request, "GET ") && strings.Contains(request, "/secrets/")
			events := strings.HasSuffix(request, "/events") // Namespaces that other tests are deleting reject events.
			if ours && !reads || !ours && !events {
				t.Errorf("rejected: %s", request)
			}
		}
	})
	t.Cleanup(stop)

	mine.granted()
	yours.denied()
	t.Log("granted with the command from the guide")
	if out, err := env.Kubectl(t, "", "-n", yours.namespace, "create", "rolebinding", "heighliner-read-secrets", "--clusterrole=heighliner-read-secrets", "--serviceaccount=heighliner-system:heighliner"); err != nil {
		t.Fatalf("grant: %v: %s", err, out)
	}
	yours.granted()
	t.Log("withdrawn")
	if out, err := env.Kubectl(t, "", "-n", mine.namespace, "delete", "rolebinding", "heighliner-read-secrets"); err != nil {
		t.Fatalf("withdraw: %v: %s", err, out)
	}
	await.Nil(t, func(ctx context.Context) error {
		policy := &v1alpha1.ImagePolicy{}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: mine.namespace, Name: "private"}, policy); err != nil {
			return err
		}
		c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
		if c.Reason != "SecretsForbidden" || policy.Status.Latest != "1.0.0" {
			return fmt.Errorf("offered is %q, and Ready %+v", policy.Status.Latest, c)
		}
		return nil
	})
	stop()
	uninstall(t, yours.namespace)
}

// uninstall removes the roles as the guide describes, and checks that no grant remains in the namespace.
func uninstall(t *testing.T, namespace string) {
	t.Helper()
	if out, err := env.Kubectl(t, "", "apply", "-k", overlay(t, namespace, nil, "secrets")); err != nil {
		t.Fatalf("grant: %v: %s", err, out)
	}
	other := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
	other.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	create(t, other)
	cmd := exec.CommandContext(t.Context(), "bash", "hack/uninstall.sh", overlay(t, "", []string{"rbac"}, "secrets-by-namespace"))
	cmd.Dir = apiserver.Root(t)
	cmd.Env = append(os.Environ(), "HLNR_UNINSTALL_SECONDS=1", "KUBECONFIG="+env.Kubeconfig(), "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("uninstall: %v: %s", err, out)
	}
	var repositories v1alpha1.GitHubRepositoryList
	if err := env.Client.List(t.Context(), &repositories); err != nil || len(repositories.Items) > 0 {
		t.Errorf("%d GitHubRepositories remain: %v", len(repositories.Items), err)
	}
	var bindings rbacv1.RoleBindingList
	if err := env.Client.List(t.Context(), &bindings, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(bindings.Items) != 1 || bindings.Items[0].Name != "other" {
		t.Errorf("RoleBindings remain: %v", bindings.Items)
	}
	for _, obj := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "heighliner-secrets"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "heighliner-read-secrets"}},
	} {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s remains: %v", obj, obj.GetName(), err)
		}
	}
}
