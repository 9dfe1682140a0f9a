package githubrepository

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

// TestDeliveriesAreWatched checks that a running manager polls a repository again, long before its interval ends, after another
// replica has received a delivery for it.
func TestDeliveriesAreWatched(t *testing.T) {
	s := begin(t)
	s.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	s.repository("shop", func(r *v1alpha1.GitHubRepositorySpec) { r.Interval = "1h" })
	s.policy("previews", "shop", ofPulls)
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme:     env.Client.Scheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := SetupWithManager(mgr, Options{Pool: github.NewPool(github.Options{Outbound: allowed}), Metrics: prometheus.NewRegistry()}); err != nil {
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
	})
	open := func(want ...int64) {
		t.Helper()
		await.Nil(t, func(context.Context) error {
			if got := numbers(s.get("shop"), v1alpha1.PullRequestOpen); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("open pull requests are %v, want %v: %w", got, want, errors.New(condition(s.get("shop"), "Ready")))
			}
			return nil
		})
	}
	open(1)
	s.repo.Open(githubtest.PullRequest{HeadRef: "another"})
	r := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"10:00"}}}`, v1alpha1.AnnotationDeliveredAt))
	if err := env.Client.Patch(t.Context(), r, patch); err != nil {
		t.Fatal(err)
	}
	open(2, 1)
}
