package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// run starts a manager with the controller for the test's namespace.
func (s *story) run() {
	s.Helper()
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme:     env.Client.Scheme(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		s.Fatal(err)
	}
	err = SetupWithManager(mgr, Options{
		Scanner: registry.New(registry.Options{Outbound: registrytest.Outbound()}), Platform: "linux/amd64", Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
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
}

// TestSlowRegistryDoesNotBlockOthers checks that policies whose registry sends its response very slowly block
// neither policies in their namespace that use another registry nor changes to the slow policies, even if
// there are more policies than workers.
func TestSlowRegistryDoesNotBlockOthers(t *testing.T) {
	s := begin(t)
	asked := make(chan struct{}, 100)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		asked <- struct{}{}
		io.WriteString(w, `{"name":"x","tags":[`)
		for pulse := time.NewTicker(100 * time.Millisecond); ; {
			w.(http.Flusher).Flush()
			select {
			case <-pulse.C:
				io.WriteString(w, " ")
			case <-r.Context().Done():
				pulse.Stop()
				return
			}
		}
	}))
	t.Cleanup(slow.Close) // after the manager and its scans have stopped
	for i := range 20 {
		s.policy(fmt.Sprintf("slow-%d", i), func(p *v1alpha1.ImagePolicySpec) {
			p.Image, p.Interval, p.Timeout = fmt.Sprintf("%s/x%d", strings.TrimPrefix(slow.URL, "http://"), i), "5s", "2m"
		})
	}
	s.run()
	for range 2 {
		await.Receive(t, "a request", asked)
	}
	s.push("1.0.0")
	s.policy("good")
	await.Nil(t, func(context.Context) error {
		p := &v1alpha1.ImagePolicy{}
		s.get("good", p)
		if len(p.Status.Releases) == 0 {
			return errors.New("nothing is offered")
		}
		return nil
	})
	s.edit("slow-7", func(p *v1alpha1.ImagePolicy) { p.Spec.Versioning.Range = "nonsense" })
	await.Nil(t, func(context.Context) error {
		p := &v1alpha1.ImagePolicy{}
		s.get("slow-7", p)
		if !strings.HasPrefix(condition(p, "Stalled"), "True InvalidSpec") {
			return fmt.Errorf("Stalled is %q", condition(p, "Stalled"))
		}
		return nil
	})
}

// TestWatches checks that each change on which a policy depends enqueues the policy, and that no event causes
// requests to the registry.
func TestWatches(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "1.1.0", "1.2.0", "1.3.0")
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Interval = "1h"; p.Limits.ReleasesPerGroup = 1 })
	s.run()
	eventually := func(want ...string) {
		t.Helper()
		await.Nil(t, func(context.Context) error {
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			if diff := cmp.Diff(want, offered(p)); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	eventually("1.3.0 in release")

	s.microservice("shop", "shop", "release 1.2.0")
	eventually("1.3.0 in release", "1.2.0 in release held")

	ms := &v1alpha1.Microservice{}
	s.get("shop", ms)
	ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.1.0"}}
	if err := env.Client.Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	eventually("1.3.0 in release", "1.2.0 in release held", "1.1.0 in release held")

	lists := s.server.Requests(registrytest.List)
	heads := manifests(s.server)
	for i := range 20 {
		s.hold("shop", "release 1.2.0", fmt.Sprintf("release 0.0.%d", i))
	}
	s.hold("shop", "release 1.0.0")
	eventually("1.3.0 in release", "1.1.0 in release held", "1.0.0 in release held")
	same(t, "lists because of events", s.server.Requests(registrytest.List), lists)
	same(t, "digests because of events: only the unknown digest", manifests(s.server), heads+1)

	s.push("1.4.0")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationRequestedAt, time.Now().String())
	})
	eventually("1.4.0 in release", "1.1.0 in release held", "1.0.0 in release held")
	same(t, "lists because of a request", s.server.Requests(registrytest.List), lists+1)

	s.get("shop", ms)
	if err := env.Client.Delete(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	eventually("1.4.0 in release")
}

// TestGitHubRepositoryRequeuesPolicies checks that a change to the status of a GitHubRepository takes effect
// immediately.
func TestGitHubRepositoryRequeuesPolicies(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "one", sha("1")))
	s.push("sha-1111111", "sha-2222222")
	s.policy("shop", pulls(nil), func(p *v1alpha1.ImagePolicySpec) { p.Interval = "24h" })
	s.run()
	offers := func(want ...string) {
		t.Helper()
		await.Nil(t, func(context.Context) error {
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			if diff := cmp.Diff(want, previews(p)); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	offers("one-1 1111 sha-1111111")
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("2") })
	offers("one-1 2222 sha-2222222")
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.State = v1alpha1.PullRequestClosed })
	offers()
}
