// Package providertest plays what every provider of NetworkPolicies must keep. [Run] plays it in memory, where a [World] stands in
// for the API server, for the endpoints of Services, and for what serves routes; [Play] and [PlaySwitch] play its stories on any [Stage],
// such as an API server with the controller. The guide docs/how-to/add-a-provider.md uses it.
//
// Its files, each of which refers only to those after it:
//
//	run.go     all of it in memory
//	rules.go   what holds in every state
//	memory.go  the Stage in memory
//	cases.go   the providers of the project, as cases
//	suite.go   the stories, and what they need to know of a provider
//	world.go   reconciles in a World, and what must be true after each
//	write.go   writes of a reconcile
//	answer.go  answers of what serves routes
//	state.go   the World
//	read.go    the split of live routes, and other answers
package providertest

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// Run plays in memory all that a provider must keep. Each rule and story is a subtest. A provider that policies do not know yet is
// known until the test ends, so that tests that call Run with one are not parallel.
func Run(t *testing.T, p providers.Provider, c Case) {
	if !slices.ContainsFunc(traffic.Known, func(k providers.Provider) bool { return k.Name() == p.Name() }) {
		before := traffic.Known
		t.Cleanup(func() { traffic.Known = before })
		traffic.Known = slices.Concat([]providers.Provider{p}, before)
	}
	if c.AddToScheme != nil {
		t.Run("Go types of its kinds", func(t *testing.T) { checkTypes(t, p, c.AddToScheme) })
	}
	t.Run("story of a service", func(t *testing.T) { Play(t, c, inMemory(t, c)) })
	for rule, keep := range rules {
		t.Run(rule, func(t *testing.T) { keepRule(t, c, keep) })
	}
	if _, ok := p.NewView(providers.Input{Policy: &v1alpha1.NetworkPolicy{}}).(providers.Switcher); !ok || c.User != nil {
		return
	}
	for name, other := range Cases() {
		if (name == "services" || name == "gateway HTTP" || name == "ingress") && other.Name != c.Name {
			t.Run("from "+name, func(t *testing.T) { PlaySwitch(t, other, c, inMemory(t, c)) })
			t.Run("to "+name, func(t *testing.T) { PlaySwitch(t, c, other, inMemory(t, c)) })
		}
	}
}

// checkTypes checks that a provider registers an object and a list type of each version of the kinds that
// it writes: the controller lists its objects by them.
func checkTypes(t *testing.T, p providers.Provider, add func(*runtime.Scheme) error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range p.Writes() {
		for _, version := range kind.Versions {
			for _, name := range []string{kind.Kind, kind.Kind + "List"} {
				if gvk := (schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: name}); !scheme.Recognizes(gvk) {
					t.Errorf("AddToScheme does not register %s", gvk)
				}
			}
		}
	}
}
