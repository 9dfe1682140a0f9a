package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// largestObject is approximately the maximum size of an object in the API server, in bytes.
const largestObject = 1500 << 10

// TestLargestPoliciesAreAdmitted checks that the largest policies that can be stored, with the maximum number and
// length of canary matches, remain within the server's cost limit for expressions.
func TestLargestPoliciesAreAdmitted(t *testing.T) {
	values := func(n int) []hlnr.MatchValue {
		var out []hlnr.MatchValue
		for i := range n {
			out = append(out, hlnr.MatchValue{Name: fmt.Sprintf("%s%d", strings.Repeat("A", 127), i), Value: "1"})
		}
		return out
	}
	parents := func(prefix string) []hlnr.ParentReference {
		var out []hlnr.ParentReference
		for i := range 8 {
			out = append(out, hlnr.ParentReference{Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%s%s%d", prefix, strings.Repeat("g", 253-len(prefix)-1), i), SectionName: strings.Repeat("s", 253)})
		}
		return out
	}
	for name, match := range map[string]func(m *hlnr.CanaryMatch, d *hlnr.Domain){
		"headers and parameters": func(m *hlnr.CanaryMatch, _ *hlnr.Domain) { m.Headers, m.QueryParams = values(8), values(8) },
		"cookies, paths and gateways": func(m *hlnr.CanaryMatch, d *hlnr.Domain) {
			m.Cookie = &hlnr.MatchCookie{Name: strings.Repeat("c", 128), Value: strings.Repeat("v", 1024)}
			m.Path = &hlnr.MatchPath{Value: "/" + strings.Repeat("p", 511)}
			d.ParentRefs = parents("a")
		},
		"methods of services": func(m *hlnr.CanaryMatch, _ *hlnr.Domain) {
			m.GRPC = &hlnr.MatchGRPC{Service: strings.Repeat("s", 1024), Method: strings.Repeat("m", 1024)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := typed[hlnr.NetworkPolicy](t, "NetworkPolicy", "shop")
			p.Namespace = env.Namespace(t)
			p.Spec.Domains = nil
			for i := range 64 {
				d := hlnr.Domain{Domain: fmt.Sprintf("{{.ReleaseGroupName}}.%s.shop-%02d.example.com", strings.Repeat("{{.StreamName}}.", 13), i)}
				for range 8 {
					var m hlnr.CanaryMatch
					match(&m, &d)
					d.CanaryMatches = append(d.CanaryMatches, m)
				}
				raw, err := json.Marshal(append(p.Spec.Domains, d))
				if err != nil {
					t.Fatal(err)
				}
				if len(raw) > largestObject {
					break
				}
				p.Spec.Domains = append(p.Spec.Domains, d)
			}
			t.Logf("%d domains", len(p.Spec.Domains))
			if err := env.Client.Create(t.Context(), p, client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
}
