package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// sharedHost is the host to which all entries of sharingEntries render: literally, for a preview, and for a namespace.
const sharedHost = "www.example.com"

// sharingEntries returns domains that render to sharedHost, with each path and protocol.
func sharingEntries() (out []v1alpha1.Domain) {
	for _, domain := range []string{sharedHost, "{{.StreamName}}.example.com", "{{.Namespace}}.example.com"} {
		for _, path := range []string{"", "/", "/a", "/b"} {
			out = append(out, v1alpha1.Domain{Domain: domain, Path: path, Port: "http"})
		}
		out = append(out, v1alpha1.Domain{Domain: domain, Port: "grpc"}, v1alpha1.Domain{Domain: domain, Port: "tls"})
	}
	return out
}

// sharing returns a world whose policy has a domain of sharingEntries, a preview and a release.
func sharing(t *testing.T, entry v1alpha1.Domain) *world {
	pr := group("www-17", 1, "p 0.0.0-abc active 100")
	pr.Name, pr.Level, pr.PullRequest = "www", v1alpha1.LevelPreview, 17
	w := newWorld(t, pr, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"], w.ready["p"] = 1, 1
	w.gateways["infra/public"] = openGateway()
	w.policy.Namespace, w.ms.Namespace = "www", "www"
	w.policy.CreationTimestamp = metav1.NewTime(w.now)
	w.policy.Spec.Ports = nil
	for i, p := range []v1alpha1.PortProtocol{v1alpha1.ProtocolHTTP, v1alpha1.ProtocolGRPC, v1alpha1.ProtocolTLS} {
		w.policy.Spec.Ports = append(w.policy.Spec.Ports, v1alpha1.NetworkPort{Name: strings.ToLower(string(p)), Port: int32(80 + i), Protocol: p})
	}
	w.policy.Spec.Domains = []v1alpha1.Domain{entry}
	return w
}

// sharer returns another policy of any age, whose domain of sharingEntries is programmed or pending.
func sharer(w *world, entry v1alpha1.Domain, age time.Duration, programmed bool) v1alpha1.NetworkPolicy {
	p := w.policy.DeepCopy()
	p.Name, p.UID, p.CreationTimestamp = "other", "other", metav1.NewTime(w.now.Add(-age))
	p.Spec.Domains = []v1alpha1.Domain{entry}
	url := "http://"
	if entry.Port == "tls" {
		url = "tls://"
	}
	row := v1alpha1.DomainStatus{Domain: sharedHost, Path: strings.TrimSuffix(entry.Path, "/"), URL: url + sharedHost, Programmed: programmed}
	if !programmed {
		row.Reason = ReasonPending
	}
	p.Status = v1alpha1.NetworkPolicyStatus{Domains: []v1alpha1.DomainStatus{row}}
	return *p
}

// decisionWith describes the decision of a policy while other policies exist.
func decisionWith(w *world, others ...v1alpha1.NetworkPolicy) string {
	f := w.facts()
	f.Claims = ClaimsOf(f, others)
	out := Plan(f)
	var text []string
	for _, r := range out.rows {
		text = append(text, fmt.Sprint(r.field, r.host, r.path, r.reason, r.message, r.kept))
	}
	for _, route := range out.Routes {
		text = append(text, fmt.Sprint(route.Name, route.Hostnames, route.Path))
	}
	return strings.Join(append(text, out.DeleteRoutes...), "\n")
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// TestClaimsAreFoundByHostAndPath checks, for pairs of policies that share a host, that a claim that changes a decision is
// found by the keys of the index, and that a changed claim enqueues the policies whose decisions it changes.
func TestClaimsAreFoundByHostAndPath(t *testing.T) {
	changed, separate := 0, 0
	for _, before := range sharingEntries() {
		w := sharing(t, before)
		w.settle()
		for _, other := range sharingEntries() {
			for _, age := range []time.Duration{-time.Hour, time.Hour} {
				for _, programmed := range []bool{false, true} {
					c := sharer(w, other, age, programmed)
					name := fmt.Sprintf("%v, other %v, %v old, programmed %v", before, other, age, programmed)
					refused := sharing(t, before)
					refused.claims = ClaimsOf(refused.facts(), []v1alpha1.NetworkPolicy{c})
					refused.settle()
					for what, w := range map[string]*world{"served": w, "new": refused} {
						differs := decisionWith(w) != decisionWith(w, c)
						if differs {
							changed++
						}
						if found := intersect(ClaimKeys(w.facts()), HostKeys(&c)); differs && !found {
							t.Fatalf("%s: %s: the claim is not found: %q, %q", what, name, ClaimKeys(w.facts()), HostKeys(&c))
						} else if !found {
							separate++
						}
						if differs && !intersect(AffectedKeys(&c), HostKeys(w.policy)) {
							t.Fatalf("%s: %s: the policy is not enqueued: %q, %q", what, name, AffectedKeys(&c), HostKeys(w.policy))
						}
					}
				}
			}
		}
	}
	if changed < 100 || separate < 100 {
		t.Errorf("%d claims change a decision, and %d are not found, want at least 100 of each", changed, separate)
	}
}

// TestClaimsOfLiveRoutesAreFound checks the same while a live route still has the host and path that a domain had before an
// edit.
func TestClaimsOfLiveRoutesAreFound(t *testing.T) {
	changed := 0
	for _, before := range sharingEntries() {
		second := before // This host stays in the route.
		second.Domain = strings.Replace(second.Domain, "example.com", "example.org", 1)
		for _, after := range append(sharingEntries(), v1alpha1.Domain{Domain: "{{.Number}}.example.com", Port: "http"}) {
			w := sharing(t, before)
			w.policy.Spec.Domains = append(w.policy.Spec.Domains, second)
			w.settle()
			w.policy = w.policy.DeepCopy()
			w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains = []v1alpha1.Domain{second, after} })
			for _, reconciled := range []bool{false, true} {
				if reconciled {
					w.pass()
				}
				for _, other := range sharingEntries() {
					for _, age := range []time.Duration{-time.Hour, time.Hour} {
						c := sharer(w, other, age, true)
						if decisionWith(w) == decisionWith(w, c) {
							continue
						}
						changed++
						name := fmt.Sprintf("%v, edited to %v, reconciled %v, other %v, %v old", before, after, reconciled, other, age)
						if !intersect(ClaimKeys(w.facts()), HostKeys(&c)) {
							t.Fatalf("%s: the claim is not found: %q, %q", name, ClaimKeys(w.facts()), HostKeys(&c))
						}
						// The edit itself enqueues the policy.
						if reconciled && !intersect(AffectedKeys(&c), HostKeys(w.policy)) {
							t.Fatalf("%s: the policy is not enqueued: %q, %q", name, AffectedKeys(&c), HostKeys(w.policy))
						}
					}
				}
			}
		}
	}
	if changed < 100 {
		t.Errorf("%d claims change a decision, want at least 100", changed)
	}
}

// TestPathsOfASharedHostAreSeparate checks that policies that share a host, but no path, do not find each other, even if the
// host depends on the namespace or on the name of a group.
func TestPathsOfASharedHostAreSeparate(t *testing.T) {
	for _, domain := range []string{sharedHost, "{{.StreamName}}.example.com", "{{.Namespace}}.example.com"} {
		w := sharing(t, v1alpha1.Domain{Domain: domain, Path: "/a", Port: "http"})
		w.settle()
		c := sharer(w, v1alpha1.Domain{Domain: domain, Path: "/b", Port: "http"}, time.Hour, true)
		want(t, "found: "+domain, intersect(ClaimKeys(w.facts()), HostKeys(&c)), false)
		want(t, "enqueued: "+domain, intersect(AffectedKeys(&c), HostKeys(w.policy)), false)
	}
}
