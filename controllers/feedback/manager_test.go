package feedback

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

// run starts a manager with the controller for the namespaces, and returns the manager's cache.
func (s *story) run(namespaces ...string) client.Reader {
	s.Helper()
	watched := map[string]cache.Config{s.namespace: {}}
	for _, namespace := range namespaces {
		watched[namespace] = cache.Config{}
	}
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme:     env.Client.Scheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: watched, ReaderFailOnMissingInformer: true},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		s.Fatal(err)
	}
	allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		s.Fatal(err)
	}
	if err := SetupWithManager(mgr, Options{Pool: github.NewPool(github.Options{Outbound: allowed}), Metrics: prometheus.NewRegistry()}); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("run manager: %v", err)
		}
	})
	return mgr.GetCache()
}

// eventually waits until the Deployments on GitHub match want.
func (s *story) eventually(want ...string) {
	s.Helper()
	await.Nil(s, func(context.Context) error {
		if got := s.deployments(); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("deployments %q, want %q, condition %q", got, want, s.condition())
		}
		return nil
	})
}

// TestEventsWithoutTimers checks, with real caches, that each relevant change enqueues the repository
// without a timer.
func TestEventsWithoutTimers(t *testing.T) {
	s := begin(t)
	other := env.Namespace(t)
	cached := s.run(other)
	sha := s.open(feature())
	line := envName + " " + short(sha) + ":"
	s.eventually(line + " queued")
	s.route(groupName, sha, false)
	await.Nil(t, func(ctx context.Context) error { // Otherwise, the manager could read the release before its route.
		p := &v1alpha1.NetworkPolicy{}
		if err := cached.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: msName}, p); err != nil {
			return err
		}
		if len(p.Status.Groups) == 0 {
			return errors.New("the manager has not read the status of the NetworkPolicy")
		}
		return nil
	})
	s.rolloutState(1, groupName, sha+" +active")
	s.eventually(line + " queued in_progress")
	s.route(groupName, sha, true)
	s.eventually(line + " queued in_progress success")

	// An ImagePolicy in another namespace counts as soon as the namespace is allowed.
	s.create(&v1alpha1.ImagePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "api"},
		Spec: v1alpha1.ImagePolicySpec{Image: "registry.example.com/api", Source: &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{
			RepositoryRef: v1alpha1.NamespacedReference{Namespace: s.namespace, Name: ghrName}, PullRequests: &v1alpha1.GitHubPullRequests{},
		}}},
	})
	api := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "api"}}
	api.Spec.ImagePolicyRef.Name = "api"
	api.Spec.Template.Spec.Containers = []corev1.Container{{Name: "api"}}
	s.create(api)
	two := s.push(1) // shows that the reconcile has ended
	s.eventually(line+" queued in_progress success", envName+" "+short(two)+": queued")
	s.edit(func(g *v1alpha1.GitHubRepository) {
		g.Spec.AllowedNamespaces = &v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": other},
		}}
	})
	apiLine := "api/" + groupName + " " + short(two) + ":"
	s.eventually(line+" queued in_progress success", envName+" "+short(two)+": queued", apiLine+" queued")
	s.commented("both", 1, "`"+other+"/api`", "`"+s.namespace+"/web`")

	// The environment of a deleted Microservice is removed.
	if err := env.Client.Delete(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	s.eventually(line+" queued in_progress success", envName+" "+short(two)+": queued", apiLine+" queued inactive")

	s.repo.Close(1, false)
	s.poll()
	s.eventually(line+" queued in_progress success inactive", envName+" "+short(two)+": queued inactive", apiLine+" queued inactive")
	if err := env.Client.Delete(t.Context(), s.get()); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(context.Context) error {
		if s.get() != nil {
			return fmt.Errorf("the GitHubRepository still exists")
		}
		return nil
	})
}
