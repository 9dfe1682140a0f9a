package microservice

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// fair creates a Freeze in the namespace that ends after the given duration.
func (s *story) fair(d time.Duration, exceptions ...v1alpha1.FreezeException) *v1alpha1.Freeze {
	s.Helper()
	end := metav1.NewTime(s.clock.Now().Add(d))
	f := &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "fair"}}
	f.Spec.FreezeRules = v1alpha1.FreezeRules{Reason: "trade fair", Until: &end}
	f.Spec.Exceptions = exceptions
	s.create(f)
	return f
}

// TestFreezeHoldsACanary checks that a freeze stops a canary at its weight, with one write and one event, and
// that the canary continues automatically when the freeze ends.
func TestFreezeHoldsACanary(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play(s.until("1.1.0 canary 10%"))
	s.gateway()
	s.pass()
	s.fair(time.Hour)
	end := s.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)

	writes, events := len(s.writes), len(s.events)
	for range 50 {
		s.clock.Step(time.Minute)
		s.pass()
	}
	same(t, "writes while it is frozen", len(s.writes)-writes, 1)
	text := `1.1.0 is waiting at 10%: frozen until ` + end + ` by Freeze "fair" ("trade fair")`
	same(t, "events", s.events[events:], []string{"Frozen: " + text})
	ms := s.ms()
	same(t, "Frozen", condition(ms, "Frozen"), "True Frozen: "+text)
	same(t, "Progressing", condition(ms, "Progressing"), "True Frozen: "+text)
	same(t, "Ready", condition(ms, "Ready"), "True Succeeded: active: 1.0.0 in group release")
	same(t, "canary", ms.Status.Summary.Canary, "1.1.0 10% step 1/2 Frozen")
	result, _ := s.pass()
	same(t, "requeue", result.RequeueAfter, 10*time.Minute)

	s.clock.Step(10 * time.Minute)
	s.play(s.until("1.1.0 active 100%"))
	same(t, "Frozen at the end", condition(s.ms(), "Frozen"), "")
	if !strings.Contains(strings.Join(s.events, "\n"), "Thawed: ") {
		t.Errorf("no event reports the end of the freeze: %q", s.events)
	}
}

// TestFreezeOfAStableService checks that a freeze causes no write for a service without a waiting release, and that
// waiting releases start after the freeze is deleted.
func TestFreezeOfAStableService(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	s.play()
	writes := len(s.writes)
	f := s.fair(time.Hour)
	s.play()
	same(t, "writes while stable", s.writes[writes:], []string{})

	s.offer("1.1.0", "1.0.0")
	s.pass()
	s.pass()
	same(t, "writes for a version that waits", len(s.writes)-writes, 1)
	if got := condition(s.ms(), "Frozen"); !strings.HasPrefix(got, "True Frozen: 1.1.0 is waiting: frozen until ") {
		t.Errorf("Frozen is %q", got)
	}
	if err := env.Client.Delete(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	s.play(s.until("1.1.0 active 100%"))
}

// TestFreezeOfANewService checks that a new service in a frozen namespace reports why it does not start.
func TestFreezeOfANewService(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.fair(time.Hour)
	s.offer("1.0.0")
	s.clock.SetTime(s.ms().CreationTimestamp.Add(time.Minute))
	s.pass()
	if got := condition(s.ms(), "Ready"); !strings.HasPrefix(got, "False Frozen: the first release of group release is waiting: frozen until ") {
		t.Errorf("Ready is %q", got)
	}
	s.play(s.until("1.0.0 active 100%"))
}

// TestFreezeSelects checks that excepted services, and services in namespaces whose labels a ClusterFreeze
// does not select, are not frozen.
func TestFreezeSelects(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	s.play()
	s.fair(time.Hour, v1alpha1.FreezeException{Name: "shop", Reason: "hotfix for the cart"})
	end := metav1.NewTime(s.clock.Now().Add(time.Hour))
	night := &v1alpha1.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	night.Spec.FreezeRules = v1alpha1.FreezeRules{Reason: "cluster upgrade", Until: &end}
	night.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
	s.create(night)
	t.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), night); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	s.offer("1.1.0", "1.0.0")
	s.pass()
	if got := condition(s.ms(), "Frozen"); !strings.Contains(got, `by ClusterFreeze "`+s.namespace+`" ("cluster upgrade")`) {
		t.Errorf("Frozen is %q", got)
	}
	night.Spec.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] = "other"
	if err := env.Client.Update(t.Context(), night); err != nil {
		t.Fatal(err)
	}
	s.play(s.until("1.1.0 active 100%"))
}

// TestFactsWithoutTheRightToReadFreezes checks that Facts omits freezes that a user is not permitted to read.
func TestFactsWithoutTheRightToReadFreezes(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.offer("1.0.0")
	s.fair(time.Hour)
	facts, _, _, err := Facts(t.Context(), s.client, s.ms(), s.clock.Now())
	if err != nil || facts.Spec.Freeze == nil {
		t.Fatalf("freeze = %v, %v", facts.Spec.Freeze, err)
	}
	same(t, "name", *facts.Spec.Freeze, release.Freeze{Name: `Freeze "fair"`, Until: facts.Spec.Freeze.Until, Reason: "trade fair"})
	other := errors.New("the API server is unavailable")
	for name, tc := range map[string]struct{ refused, want error }{
		"forbidden":     {apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")), nil},
		"not installed": {apierrors.NewNotFound(schema.GroupResource{}, ""), nil},
		"another error": {other, other},
	} {
		c := interceptor.NewClient(s.client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				switch list.(type) {
				case *v1alpha1.FreezeList, *v1alpha1.ClusterFreezeList:
					return tc.refused
				}
				return c.List(ctx, list, opts...)
			},
		})
		facts, _, _, err := Facts(t.Context(), c, s.ms(), s.clock.Now())
		if !errors.Is(err, tc.want) || facts.Spec.Freeze != nil {
			t.Errorf("%s: freeze = %v, %v", name, facts.Spec.Freeze, err)
		}
	}
}

// TestFreezeEnqueues checks that a Microservice is enqueued only by changes that can start or end its wait for the
// end of a freeze.
func TestFreezeEnqueues(t *testing.T) {
	t.Parallel()
	s := begin(t)
	f := s.fair(time.Hour)
	count := func(o client.Object) int { return len(s.reconciler.forFreeze(t.Context(), o)) }
	same(t, "a freeze in the namespace", count(f), 1)
	f.Spec.Exceptions = []v1alpha1.FreezeException{{Name: "shop", Reason: "hotfix"}}
	same(t, "an exception", count(f), 0)
	f.Spec.Exceptions, f.Spec.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}
	same(t, "other labels", count(f), 0)
	all := &v1alpha1.ClusterFreeze{}
	if count(all) == 0 {
		t.Error("a ClusterFreeze enqueues no Microservice")
	}
}
