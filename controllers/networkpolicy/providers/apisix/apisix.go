// Package apisix implements the provider that writes ApisixRoutes of apisix.apache.org/v2. Its
// files refer only to files further down in this list:
//
//	apisix.go  the provider
//	types.go   the types of the API
package apisix

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

var (
	kind    = providers.Kind{Group: GroupVersion.Group, Kind: "ApisixRoute", Versions: []string{GroupVersion.Version}}
	tlsKind = providers.Kind{Group: GroupVersion.Group, Kind: "ApisixTls", Versions: []string{GroupVersion.Version}}
)

// The names of a route's rules.
const (
	weightsRule = "weights"
	canaryRule  = "canary-%d"
)

// Provider writes ApisixRoutes.
type Provider struct{}

var (
	_ interface {
		providers.Provider
		providers.Selective
	} = Provider{}
	_ interface {
		providers.View
		providers.Switcher
		providers.Certificates
		providers.SharedObjects
		providers.Configurable
		providers.Dependent
		providers.ConflictChecker
	} = (*view)(nil)
)

// Name returns "apisix".
func (Provider) Name() string { return "apisix" }

// Writes returns the ApisixRoute and ApisixTls kinds.
func (Provider) Writes() []providers.Kind { return []providers.Kind{kind, tlsKind} }

// Chosen reports whether spec.provider.apisix is set.
func (Provider) Chosen(p *v1alpha1.NetworkPolicy) bool { return settings(p) != nil }

// Needs returns the ApisixRoute kind, and the ApisixTls kind if a domain has TLS.
func (Provider) Needs(p *v1alpha1.NetworkPolicy) []providers.Kind {
	if slices.ContainsFunc(p.Spec.Domains, func(d v1alpha1.Domain) bool { return d.TLS != nil }) {
		return []providers.Kind{kind, tlsKind}
	}
	return []providers.Kind{kind}
}

// settings returns spec.provider.apisix, or nil if it is not set.
func settings(p *v1alpha1.NetworkPolicy) *v1alpha1.APISIXProvider {
	if p.Spec.Provider == nil {
		return nil
	}
	return p.Spec.Provider.APISIX
}

// NewView returns the view of one reconcile.
func (Provider) NewView(s providers.Input) providers.View {
	v := &view{Input: s, live: map[string]*providers.Live{}}
	if own := settings(s.Policy); own != nil {
		v.class = own.ClassName
	}
	for _, o := range s.Objects {
		if r, ok := o.(*ApisixRoute); ok {
			v.live[r.Name] = read(r)
		}
	}
	return v
}

// read returns a managed ApisixRoute, whose last rule splits requests by weight, as a Live route.
func read(r *ApisixRoute) *providers.Live {
	out := &providers.Live{
		Name: r.Name, Objects: []resources.Object{r}, Deleting: r.DeletionTimestamp != nil, Path: "/", Weights: map[string]int{},
	}
	_, out.Accepted = answer(r)
	out.Acknowledged = out.Accepted
	services := map[string]bool{}
	for i, rule := range r.Spec.HTTP {
		last := i == len(r.Spec.HTTP)-1
		for _, b := range rule.Backends {
			services[b.ServiceName] = true
			if last {
				out.Weights[b.ServiceName] = int(b.Weight)
			}
		}
		if last && len(rule.Match.Paths) > 0 {
			out.Hostnames = slices.Clone(rule.Match.Hosts)
			out.Path = cmp.Or(strings.TrimSuffix(rule.Match.Paths[0], "*"), "/")
		}
	}
	out.Services = providers.Sorted(services)
	return out
}

type view struct {
	providers.Input
	class string
	live  map[string]*providers.Live
}

// Live returns the routes by name.
func (v *view) Live() map[string]*providers.Live { return v.live }

// Missing returns a problem if the API server does not serve ApisixRoutes, or if ApisixRoutes do not
// support the protocol.
func (v *view) Missing(protocol v1alpha1.PortProtocol) *providers.Problem {
	if _, served := v.Served[kind.Kind]; !served {
		return &providers.Problem{Reason: providers.ReasonProviderAPIMissing, Message: fmt.Sprintf(
			"spec.provider.apisix: the API server does not have %s of %s: install the CustomResourceDefinitions of the APISIX ingress controller, or omit spec.provider", kind.Kind, GroupVersion)}
	}
	if protocol == "" || protocol == v1alpha1.ProtocolHTTP {
		return nil
	}
	return notSupported("spec.provider.apisix: ApisixRoutes route only to ports with protocol HTTP, not %s: use spec.provider.gateway, or remove the domains of this port", protocol)
}

func notSupported(format string, args ...any) *providers.Problem {
	return &providers.Problem{Reason: providers.ReasonNotSupported, Message: fmt.Sprintf(format, args...)}
}

var (
	// plainPath matches the paths that an ApisixRoute supports. It excludes "*", which matches any
	// suffix in an ApisixRoute.
	plainPath = regexp.MustCompile(`^/[a-zA-Z0-9\-._~%!$&'()+,;=:@/]*$`)
	// plainHeader matches header names that are unambiguous: APISIX treats "-" and "_" as equal.
	plainHeader = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
)

// Unsupported returns a problem if the route has a setting that an ApisixRoute cannot express, and nil otherwise.
func (v *view) Unsupported(r providers.Route) *providers.Problem {
	if _, served := v.Served[tlsKind.Kind]; len(r.TLS) > 0 && !served {
		return &providers.Problem{Reason: providers.ReasonProviderAPIMissing, Message: fmt.Sprintf(
			"tls: the API server does not have %s of %s: install the CustomResourceDefinitions of the APISIX ingress controller, or omit tls", tlsKind.Kind, GroupVersion)}
	}
	if r.Path != "" && !plainPath.MatchString(r.Path) {
		return notSupported("path: an ApisixRoute allows only letters, digits and -._~%%!$&'()+,;=:@/")
	}
	for i, m := range r.Matches {
		if m.GRPC != nil {
			return notSupported("canaryMatches[%d].grpc requires a port with protocol GRPC: use path", i)
		}
		if m.Path != nil && !plainPath.MatchString(m.Path.Value) {
			return notSupported("canaryMatches[%d].path.value: an ApisixRoute allows only letters, digits and -._~%%!$&'()+,;=:@/", i)
		}
		for j, h := range m.Headers {
			if !plainHeader.MatchString(h.Name) {
				return notSupported("canaryMatches[%d].headers[%d].name: APISIX allows only letters, digits and -", i, j)
			}
		}
	}
	return nil
}

// Unapplied returns a problem that names a setting that has no effect on these routes, and nil if there is no
// such setting.
func (v *view) Unapplied(routes []providers.Route) *providers.Problem {
	if len(routes) == 0 {
		return nil
	}
	a := v.Policy.Spec.SessionAffinity
	switch {
	case a != nil && a.ClientIP != nil:
		return notSupported("spec.sessionAffinity.clientIP applies only to clients of the Services: APISIX selects pods itself")
	case a != nil:
		return notSupported("spec.sessionAffinity.cookie has no effect on ApisixRoutes: use spec.provider.gateway, or remove the field")
	case v.Policy.Spec.Timeouts != nil:
		return notSupported("spec.timeouts has no effect on ApisixRoutes, whose timeouts apply between two successive reads or writes: use spec.provider.gateway, or remove the field")
	case slices.ContainsFunc(routes, func(r providers.Route) bool { return r.Mirror != "" }):
		return notSupported("mirrorPercent of a step has no effect on ApisixRoutes: use spec.provider.gateway, or remove mirrorPercent from the steps of the Microservice")
	case slices.ContainsFunc(routes, func(r providers.Route) bool { return r.RecordTTL > 0 }):
		return notSupported("spec.domains[].recordTTLSeconds has no effect on ApisixRoutes, which external-dns does not read: remove the field")
	}
	return nil
}

// Shared returns the ApisixTlses for the hosts with TLS, one for each Secret.
func (v *view) Shared(routes []providers.Route) []providers.Shared {
	had := map[string][]string{}
	for _, o := range v.Objects {
		if t, ok := o.(*ApisixTls); ok {
			had[t.Spec.Secret.Name] = t.Spec.Hosts
		}
	}
	hosts := providers.BySecret(routes)
	var out []providers.Shared
	for _, secret := range providers.Sorted(hosts) {
		all := slices.Concat(hosts[secret], providers.Undecided(had[secret], routes, v.live))
		slices.Sort(all)
		out = append(out, providers.Shared{Hosts: hosts[secret], Object: &ApisixTls{
			TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: tlsKind.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: v.Policy.Namespace, Name: resources.TLSName(v.Policy.Name, secret), Labels: resources.Labels(v.Policy, v.Microservice, "")},
			Spec:       TLSSpec{IngressClassName: v.class, Hosts: slices.Compact(all), Secret: Secret{Name: secret, Namespace: v.Policy.Namespace}},
		}})
	}
	return out
}

// LiveTLS returns the settings in the ApisixTls for a host, or nil.
func (v *view) LiveTLS(host string) *providers.TLS {
	for _, o := range v.Objects {
		if t, ok := o.(*ApisixTls); ok && t.DeletionTimestamp == nil && slices.Contains(t.Spec.Hosts, host) {
			return &providers.TLS{Mode: v1alpha1.TLSApisix, Secret: t.Spec.Secret.Name}
		}
	}
	return nil
}

// Holds reports whether a live ApisixTls must stay because it contains hosts that a live
// route has but no desired route has.
func (v *view) Holds(o resources.Object, decided []providers.Route) bool {
	t, ok := o.(*ApisixTls)
	return ok && len(providers.Undecided(t.Spec.Hosts, decided, v.live)) > 0
}

// Build returns the ApisixRoute of a route: a rule for each match, and then the rule that splits
// all requests by weight.
func (v *view) Build(r providers.Route) []resources.Object {
	r.RecordTTL = 0 // The TTL has no effect, and Unapplied reports this.
	labels, annotations := r.Metadata(v.Policy, v.Microservice)
	out := &ApisixRoute{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Policy.Namespace, Name: r.Name, Labels: labels, Annotations: annotations},
		Spec:       RouteSpec{IngressClassName: v.class},
	}
	if r.Canary != "" {
		for i, m := range r.Matches {
			out.Spec.HTTP = append(out.Spec.HTTP, Rule{
				Name: fmt.Sprintf(canaryRule, i), Priority: 1, WebSocket: true, Match: chosen(r, m),
				Backends: []Backend{{ServiceName: r.Canary, ServicePort: r.Port, Weight: 100}},
			})
		}
	}
	all := Rule{Name: weightsRule, WebSocket: true, Match: Match{Hosts: r.Hostnames, Paths: prefix(r.Path)}}
	for _, b := range r.Backends {
		all.Backends = append(all.Backends, Backend{ServiceName: b.Service, ServicePort: r.Port, Weight: b.Weight})
	}
	out.Spec.HTTP = append(out.Spec.HTTP, all)
	return []resources.Object{out}
}

// Carry returns a live ApisixRoute with its Services replaced by those of a desired route.
func (v *view) Carry(live *providers.Live, r providers.Route) []resources.Object {
	old := live.Objects[0].(*ApisixRoute)
	if len(old.Spec.HTTP) == 0 {
		return nil // This package did not write the route, so there is nothing to change.
	}
	last := old.Spec.HTTP[len(old.Spec.HTTP)-1]
	r.Path = live.Path
	if len(r.Hostnames) == 0 {
		r.Hostnames = live.Hostnames
	}
	if r.Port == 0 && len(last.Backends) > 0 {
		r.Port = last.Backends[0].ServicePort
	}
	if v.Unsupported(r) != nil {
		r.Canary = "" // Unsupported matches get no rule.
	}
	next := v.Build(r)[0].(*ApisixRoute)
	next.ObjectMeta = r.Kept(v.Policy, v.Microservice, old)
	next.Spec.IngressClassName = old.Spec.IngressClassName
	if maps.Equal(old.Labels, next.Labels) && Same(old, next) {
		return nil
	}
	return []resources.Object{next}
}

// chosen returns the part of an ApisixRoute rule that selects, among the requests to a route, those that
// a canary match selects. The path of the match replaces the path of the route.
func chosen(r providers.Route, m v1alpha1.CanaryMatch) Match {
	out := Match{Hosts: r.Hostnames, Paths: prefix(r.Path)}
	switch {
	case m.Path == nil:
	case m.Path.Type == v1alpha1.PathExact:
		out.Paths = []string{m.Path.Value}
	default:
		out.Paths = prefix(m.Path.Value)
	}
	if m.Method != "" {
		out.Methods = []string{m.Method}
	}
	add := func(scope string, values []v1alpha1.MatchValue) {
		values = slices.SortedFunc(slices.Values(values), func(a, b v1alpha1.MatchValue) int { return cmp.Compare(a.Name, b.Name) })
		for _, value := range values {
			op := "Equal"
			if value.Type == v1alpha1.MatchRegularExpression {
				op = "RegexMatch"
			}
			out.Exprs = append(out.Exprs, Expr{Subject: Subject{Scope: scope, Name: value.Name}, Op: op, Value: value.Value})
		}
	}
	add("Header", m.Headers)
	if c := m.Cookie; c != nil {
		add("Cookie", []v1alpha1.MatchValue{{Name: c.Name, Value: c.Value}})
	}
	add("Query", m.QueryParams)
	return out
}

// prefix returns the patterns that match all paths that begin with the elements of path. A single
// pattern such as "/a*" would be wrong, because it also matches "/ab". The first pattern is path
// itself, or "/*" for "/".
func prefix(path string) []string {
	short := strings.TrimRight(path, "/")
	switch short {
	case "":
		return []string{"/*"}
	case path:
		return []string{path, path + "/*"}
	}
	return []string{path, short, short + "/*"}
}

// conditions are the types of the conditions that controllers set: Accepted since version 2, and
// ResourcesAvailable in earlier versions.
var conditions = []string{"Accepted", "ResourcesAvailable"}

// answer returns a controller's report about a live route: the first condition for the current
// generation or, if there is none, a condition for an earlier generation. It returns nil if there is
// no report yet.
func answer(r *ApisixRoute) (c *metav1.Condition, accepted bool) {
	for _, name := range conditions {
		found := meta.FindStatusCondition(r.Status.Conditions, name)
		switch {
		case found == nil || found.Status == metav1.ConditionUnknown:
		case found.ObservedGeneration != r.Generation:
			c = found
		default:
			return found, found.Status == metav1.ConditionTrue
		}
	}
	return c, false
}

// Verdict reports whether the live route matches the object that Build returned, and whether a
// controller has accepted its current generation.
func (v *view) Verdict(r providers.Route, built []resources.Object) providers.Verdict {
	live := v.live[r.Name]
	if live == nil || live.Deleting || !Same(live.Objects[0], built[0]) {
		return providers.Verdict{Pending: true, Reason: providers.ReasonPending, Message: fmt.Sprintf("ApisixRoute %q is being written", r.Name)}
	}
	route := live.Objects[0].(*ApisixRoute)
	older := false
	switch c, accepted := answer(route); {
	case accepted:
		return providers.Verdict{Accepted: true}
	case c == nil:
	case c.ObservedGeneration != route.Generation:
		older = true
	default:
		return providers.Verdict{Reason: providers.ReasonNotAccepted, Message: fmt.Sprintf(
			"APISIX does not accept ApisixRoute %q: %s: %s: see its status", r.Name, c.Reason, strings.TrimSuffix(c.Message, "."))}
	}
	what, fix := "no controller has reported the status of ApisixRoute %q", "check that the APISIX ingress controller serves spec.provider.apisix.className %q"
	if older {
		what, fix = "the status of ApisixRoute %q is for an earlier generation", "check that the APISIX ingress controller is running with class %q and is version 2 or later: earlier versions do not report when they have applied a change"
	}
	return providers.Verdict{Pending: true, Late: providers.ReasonNotAccepted, Reason: providers.ReasonPending, Message: fmt.Sprintf(what+": "+fix, r.Name, v.class)}
}

// Same reports whether a live ApisixRoute has the desired content.
func Same(old, want resources.Object) bool {
	had, ok := old.(*ApisixRoute)
	has, also := want.(*ApisixRoute)
	if !ok || !also {
		return false
	}
	a, _ := resources.StampOf(had)
	b, _ := resources.StampOf(has)
	return a == b && equality.Semantic.DeepEqual(had.Spec, has.Spec)
}

// Serves returns the URL of a host. An ApisixRoute does not report whether the host's certificate
// exists. Only cert-manager reports this.
func (v *view) Serves(r providers.Route, host string) (string, *providers.Problem) {
	scheme := "http"
	if _, tls := r.TLS[host]; tls {
		scheme = "https"
	}
	return scheme + "://" + host + strings.TrimSuffix(r.Path, "/"), nil
}

// Referent returns a problem if the API server does not serve ApisixRoutes.
func (v *view) Referent() *providers.Problem {
	if _, served := v.Served[kind.Kind]; !served {
		return v.Missing(v1alpha1.ProtocolHTTP)
	}
	return nil
}

// Health returns nil, because APISIX itself reports no status.
func (v *view) Health() *providers.Problem { return nil }

// MayConflict reports whether the same APISIX instance could serve both policies. A policy without
// a class is served by every APISIX instance.
func (v *view) MayConflict(other *v1alpha1.NetworkPolicy) bool {
	theirs := settings(other)
	return theirs != nil && (theirs.ClassName == v.class || theirs.ClassName == "" || v.class == "")
}
