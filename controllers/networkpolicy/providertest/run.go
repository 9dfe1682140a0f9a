// Package providertest is the conformance suite for NetworkPolicy providers. [Run] runs the suite in memory, where a [World]
// replaces the API server, the endpoints of Services, and the gateways. [Play] and [PlaySwitch] run the scenarios of the suite
// on any [Stage], such as an API server with the controller. The guide docs/how-to/add-a-provider.md uses this package.
//
// The files of the package refer only to files further down in this list:
//
//	run.go     the whole suite in memory
//	rules.go   the rules that every provider must follow
//	memory.go  the Stage in memory
//	cases.go   the cases of the project's providers
//	suite.go   the scenarios, and the properties of a provider
//	world.go   reconciles in a World, and checks after each reconcile
//	write.go   writes of a reconcile
//	answer.go  the status that gateways report
//	state.go   the World
//	read.go    functions that read live routes and Services
package providertest

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// Run runs the suite for a provider in memory. Each rule and scenario is a subtest. If the provider is not one of the
// project's providers, it is added to them for the duration of the test. For this reason, tests that call Run must not run in
// parallel.
func Run(t *testing.T, p providers.Provider, c Case) {
	known := slices.IndexFunc(traffic.Known, func(k providers.Provider) bool { return k.Name() == p.Name() })
	if known >= 0 && reflect.TypeOf(traffic.Known[known]) != reflect.TypeOf(p) {
		t.Fatalf("traffic.Known already contains another provider with the name %q, of type %T: choose another name", p.Name(), traffic.Known[known])
	}
	if known < 0 {
		before := traffic.Known
		t.Cleanup(func() { traffic.Known = before })
		traffic.Known = slices.Concat([]providers.Provider{p}, before)
	}
	if c.AddToScheme != nil {
		t.Run("Go types of the provider's kinds", func(t *testing.T) { checkTypes(t, p, c.AddToScheme) })
	}
	t.Run("rollouts of a service", func(t *testing.T) { Play(t, c, inMemory(t, c)) })
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

// checkTypes checks that a provider registers an object type and a list type for each version of the
// kinds that it writes. The controller needs these types to list the objects.
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
