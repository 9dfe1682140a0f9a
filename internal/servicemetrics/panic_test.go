package servicemetrics

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestAnyService checks that no specification and no state of a service makes a scrape fail or changes the
// objects, which belong to the cache.
func TestAnyService(t *testing.T) {
	t.Parallel()
	all := viewtest.Stories()
	rapid.Check(t, func(r *rapid.T) {
		story := all[rapid.IntRange(0, len(all)-1).Draw(r, "story")]
		s := scrapedAt(story.Now, 500)
		s.cached.Input = copied(r, story.Input)
		for i := range s.cached.Microservices {
			ms := &s.cached.Microservices[i]
			if canary := ms.Spec.UpdateStrategy.Canary; canary != nil {
				canary.Steps = canary.Steps[:rapid.IntRange(0, len(canary.Steps)).Draw(r, "steps")]
				if rapid.Bool().Draw(r, "no canary") {
					ms.Spec.UpdateStrategy.Canary = nil
				}
			}
			for j := range ms.Status.ReleaseGroups {
				g := &ms.Status.ReleaseGroups[j]
				if g.Rollout != nil {
					g.Rollout.Step = rapid.Int32Range(-1, 40).Draw(r, "step")
					if rapid.Bool().Draw(r, "no internal") {
						g.Rollout.Internal = nil
					}
				}
				if n := len(g.Releases); n > 0 && rapid.Bool().Draw(r, "lost") {
					g.Releases = g.Releases[:rapid.IntRange(0, n-1).Draw(r, "releases")]
				}
			}
		}
		if rapid.Bool().Draw(r, "no releases") {
			s.cached.Releases = nil
		}
		before := copied(r, s.cached.Input)
		for range 2 {
			if _, err := s.gather.Gather(); err != nil {
				r.Fatal(err)
			}
			s.clock.SetTime(s.clock.Now().Add(1e9))
		}
		if diff := cmp.Diff(before, copied(r, s.cached.Input)); diff != "" {
			r.Errorf("the objects of the cache were changed: %s", diff)
		}
	})
}

// copied returns a copy of the objects that a scrape reads.
func copied(r *rapid.T, in view.Input) (out view.Input) {
	for from, to := range map[any]any{&in.Microservices: &out.Microservices, &in.Releases: &out.Releases, &in.NetworkPolicies: &out.NetworkPolicies, &in.ImagePolicies: &out.ImagePolicies} {
		raw, err := json.Marshal(from)
		if err != nil {
			r.Fatal(err)
		}
		if err := json.Unmarshal(raw, to); err != nil {
			r.Fatal(err)
		}
	}
	return out
}

// broken is a cache that contains objects that no view expects.
type broken struct{ client.Reader }

func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error {
	var none *v1alpha1.Microservice
	_ = none.Name
	return nil
}

// TestPanicOfAScrape checks that a panic in the view of one service neither stops the manager nor affects its other
// metrics.
func TestPanicOfAScrape(t *testing.T) {
	t.Parallel()
	s := scrapedAt(viewtest.Stories()[0].Now, 500)
	s.Collector.Cache = broken{}
	if _, err := s.gather.Gather(); err != nil {
		t.Errorf("scrape: %v, want other metrics to be reported", err)
	}
	if !strings.Contains(s.log.String(), "service metrics") {
		t.Errorf("log %q, want the reason why there are no service metrics", s.log)
	}
}
