package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/ingress"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/allowedhosts"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/await"
)

// addSeeds adds seeds with enough bytes for the generator.
func addSeeds(f *testing.F) {
	for i := range uint64(8) {
		r := rand.New(rand.NewPCG(i, 7))
		b := make([]byte, 24<<10)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		f.Add(b)
	}
}

// FuzzRender checks that a template renders to a valid host name without template fields, or fails
// with an error.
func FuzzRender(f *testing.F) {
	f.Add("{{.ReleaseGroupName}}.shop.example.com", "1-x", "1.x", "1.0.0", "shop", "prod", int64(0))
	f.Add("*.{{ .StreamName }}.example.com", "a", "{{.Namespace}}", "1", "shop", "prod", int64(3))
	f.Add("{{.Version}}", "1", "1", "1.2.3.4", "s", "p", int64(1))
	f.Add("*.", "", "", "", "", "", int64(1))
	f.Fuzz(func(t *testing.T, domain, slug, name, version, policy, namespace string, number int64) {
		p := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy, Namespace: namespace}}
		g := &v1alpha1.ReleaseGroup{Slug: slug, Name: name, PullRequest: number, Releases: []v1alpha1.Release{{VersionedMicroservice: "r", Status: v1alpha1.ReleaseActive, SemVer: v1alpha1.SemVer{Version: version}}}}
		defer await.Quick(t)()
		host, err := render(domain, p, g)
		if err != nil {
			return
		}
		if checkHost(host) != nil || strings.ContainsAny(host, "{} /:@\n") || len(host) > 253 || host == "" {
			t.Fatalf("%q renders to %q", domain, host)
		}
		if !templated(domain) {
			alone, err := render(domain, p, nil)
			if err != nil || alone != host {
				t.Fatalf("%q has no template field, but renders to %q and %q (%v)", domain, host, alone, err)
			}
		}
	})
}

// FuzzOwned checks that the list of domains also allows the hosts of every template that it admits.
func FuzzOwned(f *testing.F) {
	f.Add("*.shop.example.com\nwww.shop.example.com", "{{.ReleaseGroupName}}.shop.example.com", "1-x", "1.x", "1.0.0", int64(0))
	f.Add("*.example.com", "{{ .StreamName }}.{{.Number}}.example.com", "1-x", "a.b", "1.0.0", int64(3))
	f.Fuzz(func(t *testing.T, list, domain, slug, name, version string, number int64) {
		rules, err := allowedhosts.Parse(map[string]string{"prod": list, "other": "reserved.example.com\nwww.example.com"})
		if err != nil {
			return
		}
		p := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod"}}
		g := &v1alpha1.ReleaseGroup{Slug: slug, Name: name, PullRequest: number, Releases: []v1alpha1.Release{{VersionedMicroservice: "r", Status: v1alpha1.ReleaseActive, SemVer: v1alpha1.SemVer{Version: version}}}}
		host, err := render(domain, p, g)
		if err != nil || !templated(domain) {
			return
		}
		h := rules.For("prod", nil)
		o := &Ownership{Hosts: h}
		if h.Template(strings.NewReplacer("{{.Name}}", "shop", "{{.Microservice}}", "shop", "{{.Namespace}}", "prod").Replace(domain)) == nil && o.refuses(domain, host) != nil && !strings.Contains(domain, "{{ ") {
			t.Fatalf("%q is allowed, but its host %q is rejected: %v", domain, host, o.refuses(domain, host))
		}
	})
}

// FuzzTaken reads and writes the annotation that describes a policy's rules in a user-managed
// route.
func FuzzTaken(f *testing.F) {
	f.Add(`{"group":"1-x","revision":3,"ledger":"uid/7","before":{"":[{"name":"a"}],"x":null}}`)
	f.Add(`{"before":{"a":1e999}}`)
	f.Fuzz(func(t *testing.T, text string) {
		key := resources.TakenKey("shop")
		a := resources.ReadTaken(map[string]string{key: text}, "shop")
		if a == nil {
			return
		}
		b := resources.ReadTaken(map[string]string{key: a.String()}, "shop")
		if b == nil || b.String() != a.String() || b.Stamp() != a.Stamp() {
			t.Fatalf("%q, %q", a, b)
		}
		s := a.Stamp()
		a.Carry(s)
		if a.Stamp() != s {
			t.Fatalf("%+v becomes %+v", s, a.Stamp())
		}
	})
}

// FuzzGiveBack restores an adopted Service whose annotation has arbitrary content.
func FuzzGiveBack(f *testing.F) {
	f.Add(`{"a":"b"}`, "x", "y")
	f.Fuzz(func(t *testing.T, text, k, v string) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{v1alpha1.AnnotationAdoptedSelector: text}}}
		_, _ = resources.Restore(s)
		own := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{k: v}}}
		marked, err := resources.Mark(own, "shop")
		if err != nil {
			t.Fatal(err)
		}
		back, err := resources.Restore(marked)
		if err != nil || len(back.Spec.Selector) != 1 || back.Spec.Selector[k] != v && strings.ToValidUTF8(v, "\ufffd") == v && strings.ToValidUTF8(k, "\ufffd") == k {
			t.Fatalf("%v %v", back, err)
		}
	})
}

// FuzzIngress reads Ingresses with arbitrary content, because users might have changed them.
func FuzzIngress(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","annotations":{"nginx.ingress.kubernetes.io/canary-weight":"50"}},"spec":{"rules":[{"host":"a","http":{"paths":[{"backend":{"service":{"name":"s"}}}]}}]}}`), []byte(`{"metadata":{"name":"a-canary","annotations":{"x/canary-weight":"-5"}},"spec":{"rules":[{"host":"a"}]}}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var a, b networkingv1.Ingress
		if json.Unmarshal(one, &a) != nil || json.Unmarshal(two, &b) != nil {
			return
		}
		p := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod"}, Spec: v1alpha1.NetworkPolicySpec{Provider: &byNginx}}
		v := ingress.Provider{}.NewView(providers.Input{Policy: p, Microservice: "shop", Objects: []resources.Object{&a, &b}})
		for _, live := range v.Live() {
			sum := 0
			for _, w := range live.Weights {
				if w < 0 || w > 100 {
					t.Fatalf("weights %v", live.Weights)
				}
				sum += w
			}
			if sum != 0 && sum != 100 {
				t.Fatalf("weights %v", live.Weights)
			}
			live.Stamp()
			live.Group()
			live.Pinned()
		}
	})
}

// anyFacts creates a plan and a report from random facts. It checks that there is no panic, that the weights of a
// group add up to 100, and that the decision is repeatable and does not depend on the order of rows.
func anyFacts(t *rapid.T) {
	defer await.Quick(t)()
	n := func(lo, hi int, l string) int { return rapid.IntRange(lo, hi).Draw(t, l) }
	pick := func(l string, vs ...string) string { return rapid.SampledFrom(vs).Draw(t, l) }
	w := newWorld(t)
	h := history{t, w, map[string]int64{}, 10, map[string][]string{}}
	w.policy.Spec.Ports = append(w.policy.Spec.Ports,
		v1alpha1.NetworkPort{Name: "calls", Port: 81, Protocol: v1alpha1.ProtocolGRPC}, v1alpha1.NetworkPort{Name: "secret", Port: 443, Protocol: v1alpha1.ProtocolTLS},
		v1alpha1.NetworkPort{Name: "tcp", Port: 5432, Protocol: v1alpha1.ProtocolTCP}, v1alpha1.NetworkPort{Name: "udp", Port: 53, Protocol: v1alpha1.ProtocolUDP})
	groups := func() []v1alpha1.ReleaseGroup {
		var out []v1alpha1.ReleaseGroup
		for i := range n(0, 4, "groups") {
			slug := []string{"2-x", "1-x", "main-7", "release"}[i]
			g := v1alpha1.ReleaseGroup{Slug: slug, Name: pick("name", "1.x", "2.x", "main", "feature/x"), Level: v1alpha1.ReleaseLevel(pick("level", "Release", "Candidate", "Preview")), Phase: v1alpha1.GroupPhase(pick("phase", "Live", "Live", "Live", "Closing", "Expired")), TrafficRevision: int64(n(0, 9, "rev"))}
			if g.Level == "Preview" {
				g.PullRequest = int64(n(0, 9, "pr"))
			}
			for j := range n(0, 4, "rows") {
				r := v1alpha1.Release{VersionedMicroservice: slug[:1] + []string{"a", "b", "c", "d"}[j], SemVer: v1alpha1.SemVer{Version: pick("version", "1.0.0", "1.1.0", "x")}, Status: v1alpha1.ReleaseStatus(pick("status", "pending", "canary", "active", "error", "deprecated")), Weight: int32(n(0, 100, "weight")), Available: rapid.Bool().Draw(t, "av"), Match: rapid.Bool().Draw(t, "match"), MirrorPercent: int32(n(0, 100, "mirror")), Promoted: int64(n(0, 1, "promoted") * (10*i + j + 1))}
				for _, x := range g.Releases { // The planner keeps at most one active release and one canary.
					if x.Status == r.Status && (r.Status == "active" || r.Status == "canary") {
						r.Status = "deprecated"
					}
				}
				if r.Status != "active" && r.Status != "canary" {
					r.Weight, r.Match, r.MirrorPercent = 0, false, 0
				}
				g.Releases = append(g.Releases, r)
			}
			if rapid.Bool().Draw(t, "run") && len(g.Releases) > 0 {
				g.Rollout = &v1alpha1.Rollout{Release: g.Releases[0].VersionedMicroservice, From: pick("from", "", "1-x", "2-x", "gone")}
			}
			out = append(out, g)
		}
		return out
	}
	w.rollout(groups()...)
	for range n(1, 4, "reconciles") {
		for _, r := range []string{"2a", "2b", "1a", "1b", "ma", "ra"} {
			w.ready[r] = n(0, 1, "ready")
		}
		w.policy.Spec.Provider = rapid.SampledFrom([]*v1alpha1.NetworkProvider{&byGateway, &byNginx, &byPlain, &byAPISIX, nil}).Draw(t, "provider")
		if w.policy.Spec.Domains = h.domains(); w.policy.Spec.Provider == nil {
			w.policy.Spec.Domains = nil
		}
		if w.policy.Spec.Listeners = nil; w.policy.Spec.Provider == &byGateway {
			w.policy.Spec.Listeners = h.listeners()
		}
		w.policy.Generation++
		switch n(0, 5, "more") {
		case 0:
			rules, _ := allowedhosts.Parse(map[string]string{"prod": "*.shop.example.com"})
			w.owned = &Ownership{Hosts: rules.For("prod", nil)}
		case 1:
			w.owned = &Ownership{Unread: fmt.Errorf("bad")}
		case 2:
			w.claims = []Claim{{host: "shop.example.com", path: "/", policy: "other", literal: true, younger: rapid.Bool().Draw(t, "younger")}}
		case 3:
			w.ms.Status.ReleaseGroups = groups()
		case 4:
			w.noAPI = !w.noAPI
		}
		f := w.facts()
		out := Plan(f)
		if a, b := picture(out), picture(Plan(w.facts())); a != b {
			t.Fatalf("two decisions about the same input differ:\n%s\n%s", a, b)
		}
		func() {
			shuffled := *f
			shuffled.Microservice = f.Microservice.DeepCopy()
			for i := range shuffled.Microservice.Status.ReleaseGroups {
				g := &shuffled.Microservice.Status.ReleaseGroups[i]
				slices.Reverse(g.Releases)
			}
			if a, b := picture(Plan(f)), picture(Plan(&shuffled)); a != b {
				i := 0
				for i < min(len(a), len(b)) && a[i] == b[i] {
					i++
				}
				t.Fatalf("the order of rows matters:\n…%s\n…%s\n%s\n%s", a[max(0, i-80):min(len(a), i+150)], b[max(0, i-80):min(len(b), i+150)], mustJSON(f.Microservice.Status.ReleaseGroups), mustJSON(f.Policy.Spec))
			}
		}()
		for _, g := range out.groups {
			sum := 0
			for _, x := range g.weights {
				if x < 0 || x > 100 {
					t.Fatalf("weight %v", g.weights)
				}
				sum += x
			}
			if sum != 0 && sum != 100 {
				t.Fatalf("group %s: weights %v", g.slug, g.weights)
			}
		}
		for _, r := range out.Routes {
			if len(r.Hostnames) > providers.MaxHostnames {
				t.Fatalf("%d hosts", len(r.Hostnames))
			}
			sum := int32(0)
			for _, b := range r.Backends {
				sum += b.Weight
			}
			if sum != 100 {
				t.Fatalf("route %s: backends %v", r.Name, r.Backends)
			}
		}
		now, _ := Status(f, out, Applied{Changed: map[string]bool{}, Refused: map[string]*status.Error{}})
		if len(now.Domains) > maxRows {
			t.Fatal("too many domains")
		}
		text := mustJSON(now)
		var back v1alpha1.NetworkPolicyStatus
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatal(err)
		}
		for _, c := range now.Conditions {
			if c.Reason == "" || c.Message == "" && c.Status != metav1.ConditionTrue {
				t.Fatalf("condition %+v", c)
			}
		}
		if rapid.Bool().Draw(t, "carry out") {
			w.carryOut(f, out)
			w.policy.Status = now
			if rapid.Bool().Draw(t, "accept") {
				w.accept()
			}
		}
		if rapid.Bool().Draw(t, "gone") && n(0, 4, "deleted") == 0 {
			at := metav1.NewTime(w.now)
			w.policy.DeletionTimestamp = &at
		}
	}
}

func FuzzDecide(f *testing.F) { addSeeds(f); f.Fuzz(rapid.MakeFuzz(anyFacts)) }
