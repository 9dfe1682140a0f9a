package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// ActiveVersion returns the version to which the Service of a group routes, or "" if there is no
// such Service.
func ActiveVersion(f *traffic.Observed, slug string) string {
	return VersionBehind(f, resources.GroupServiceName(f.Policy.Name, slug))
}

// VersionBehind returns the version of the release that a Service selects, or "" if there is no
// such Service. If no group contains the release, VersionBehind returns the name of the release.
func VersionBehind(f *traffic.Observed, service string) string {
	release := f.Selected(service)
	for _, g := range f.Microservice.Status.ReleaseGroups {
		for _, r := range g.Releases {
			if r.VersionedMicroservice == release {
				return r.SemVer.Version
			}
		}
	}
	return release
}

// ProvidersOf returns the names of the providers that have live routes.
func ProvidersOf(f *traffic.Observed) []string {
	out := []string{}
	for _, live := range f.Live {
		out = append(out, live.Provider)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SplitOf returns the split of a provider's live route for a host, or for the listener that
// represents the host.
func SplitOf(f *traffic.Observed, entry, provider string) string {
	var parts []string
	names := []string{}
	for _, protocol := range []v1alpha1.PortProtocol{v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP} {
		names = append(names, resources.RouteName(f.Policy.Name, "listener/"+listenerOf(entry), "", "main/"+string(protocol), 0))
	}
	for _, live := range f.Live {
		bare := live.User && len(live.Hostnames) == 0
		if live.Provider != provider || !bare && !slices.Contains(live.Hostnames, entry) && !slices.Contains(names, live.Name) {
			continue
		}
		for service, weight := range live.Weights {
			if version := VersionBehind(f, service); version != "" {
				parts = append(parts, fmt.Sprintf("%s=%d", version, weight))
			}
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// listenerOf returns the name of the listener that represents a host in the suite.
func listenerOf(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// Changed reports whether a user-managed route still contains changes made by a policy.
func Changed(u *unstructured.Unstructured) bool {
	return len(u.GetAnnotations()) > 0 || !strings.Contains(mustJSON(u.Object["spec"]), "users-old")
}

// ReadRoute returns the route that a provider reads from an object.
func ReadRoute(route resources.Object) *providers.Live {
	for _, p := range traffic.Known {
		for _, live := range p.NewView(providers.Input{Policy: &v1alpha1.NetworkPolicy{}, Objects: []resources.Object{route}}).Live() {
			return live
		}
	}
	return nil
}

// ServicesOf returns the Services to which a route refers by weight, match or mirror.
func ServicesOf(route resources.Object) map[string]bool {
	out := map[string]bool{}
	for _, s := range ReadRoute(route).Services {
		out[s] = true
	}
	return out
}

func refNamespace(p gatewayv1.ParentReference, fallback string) string {
	return cmp.Or(string(deref(p.Namespace)), fallback)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Parse reads an object from YAML. It panics if the text does not represent an object.
func Parse(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(content)
	}
	if err != nil {
		panic(err)
	}
	return u
}
