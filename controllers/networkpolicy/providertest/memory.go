package providertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// memory is a Stage without an API server.
type memory struct {
	t *testing.T
	w *World
}

func inMemory(t *testing.T, c Case) Stage { return &memory{t, c.world(t)} }

func (s *memory) Host(name string) string { return name + ".example.com" }

func (s *memory) Rollout(groups ...v1alpha1.ReleaseGroup) { s.w.Rollout(groups...) }

func (s *memory) Serve(releases ...string) {
	for _, r := range releases {
		s.w.Ready[r] = 1
	}
}

func (s *memory) Edit(change func(*v1alpha1.NetworkPolicySpec)) {
	change(&s.w.Policy.Spec)
	s.w.Policy.Generation++
}

func (s *memory) Confirmed(slug string, revision int64, references ...string) {
	s.t.Helper()
	s.w.Settle()
	g := s.w.GroupTraffic(slug)
	if g.Revision != revision || !slices.Equal(g.References, references) {
		s.t.Fatalf("group %s: revision %d with references %v, want revision %d with references %v: %s", slug, g.Revision, g.References, revision, references, mustJSON(s.w.Policy.Status))
	}
}

func (s *memory) Active(slug string) string { return ActiveVersion(s.w.Observed(), slug) }

func (s *memory) Split(entry, provider string) string {
	return SplitOf(s.w.Observed(), entry, provider)
}

func (s *memory) Providers() []string { return ProvidersOf(s.w.Observed()) }

func (s *memory) Switching(step, wanted string) {
	s.t.Helper()
	want(s.t, step+": switching", s.w.Condition(v1alpha1.ConditionProviderSwitching), wanted)
}

func (s *memory) Drain() {
	s.t.Helper()
	s.w.Now = s.w.Now.Add(time.Hour)
	s.w.Settle()
}

func (s *memory) objects() []string {
	out := slices.Concat(providers.Sorted(s.w.Services), providers.Sorted(s.w.Routes), providers.Sorted(s.w.Others))
	for name, u := range s.w.Users {
		if Changed(u) {
			out = append(out, name)
		}
	}
	return out
}

func (s *memory) User(route *unstructured.Unstructured) {
	s.w.Users[providers.UserRoute(route.GetKind(), route.GetName())] = route
}

// Remove deletes the groups. It then deletes the policy's own Service, because the in-memory stage
// has no garbage collection.
func (s *memory) Remove() {
	var closing []v1alpha1.ReleaseGroup
	for _, g := range s.w.Microservice.Status.ReleaseGroups {
		g = Group(g.Slug, g.TrafficRevision+1)
		g.Phase = v1alpha1.GroupClosing
		closing = append(closing, g)
	}
	s.w.Rollout(closing...)
	s.w.Settle()
	s.w.Rollout()
	s.w.Settle()
	delete(s.w.Services, "shop") // The policy's own Service exists as long as the policy does.
	want(s.t, "objects that remain after the removal", strings.Join(s.objects(), " "), "")
}
