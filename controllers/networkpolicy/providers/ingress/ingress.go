// Package ingress implements the provider that writes Ingresses of networking.k8s.io/v1.
//
// A route consists of an Ingress and, if the class supports the canary annotations of
// ingress-nginx, a second Ingress for its canary. The status of an Ingress does not cover the
// rules. Therefore, a route counts as programmed when the API server has accepted its Ingresses,
// even though the route might not be served yet.
package ingress

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

var (
	kind      = providers.Kind{Group: networkingv1.GroupName, Kind: "Ingress", Versions: []string{"v1"}}
	classKind = providers.Kind{Group: networkingv1.GroupName, Kind: "IngressClass", Versions: []string{"v1"}}
)

// AnnotationPrefix is an annotation of an Ingress. It contains the prefix of the canary annotations
// that the class of the Ingress supports. The annotation is needed to update the Ingress when the
// policy uses another provider and no longer contains the prefix.
const AnnotationPrefix = "hlnr.io/annotation-prefix"

// canarySuffix is the name suffix of a canary's Ingress. Route names end in a hash, so no route has
// a name with this suffix.
const canarySuffix = "-canary"

// The names of the annotations that this package writes, without their prefix.
const (
	canary          = "canary"
	canaryWeight    = "canary-weight"
	canaryTotal     = "canary-weight-total"
	canaryHeader    = "canary-by-header"
	canaryValue     = "canary-by-header-value"
	canaryPattern   = "canary-by-header-pattern"
	canaryCookie    = "canary-by-cookie"
	backendProtocol = "backend-protocol"
)

// cookieForCanary is the value of the cookie that selects the canary.
const cookieForCanary = "always"

var managed = []string{canary, canaryWeight, canaryTotal, canaryHeader, canaryValue, canaryPattern, canaryCookie, backendProtocol}

// Provider writes Ingresses.
type Provider struct{}

var (
	_ interface {
		providers.Provider
		providers.Referrer
	} = Provider{}
	_ interface {
		providers.View
		providers.Switcher
		providers.Certificates
		providers.Limited
		providers.Configurable
		providers.Dependent
		providers.ConflictChecker
	} = (*view)(nil)
)

// Name returns "ingress".
func (Provider) Name() string { return "ingress" }

// Writes returns the Ingress kind.
func (Provider) Writes() []providers.Kind { return []providers.Kind{kind} }

// Reads returns the IngressClass kind. Only the existence of the class matters, not its controller.
func (Provider) Reads() []providers.Kind { return []providers.Kind{classKind} }

// Chosen reports whether spec.provider.ingress is set.
func (Provider) Chosen(p *v1alpha1.NetworkPolicy) bool { return settings(p) != nil }

// Refers returns a reference to the IngressClass.
func (Provider) Refers(p *v1alpha1.NetworkPolicy) []providers.Reference {
	own := settings(p)
	if own == nil {
		return nil
	}
	return []providers.Reference{reference(own.ClassName)}
}

func reference(class string) providers.Reference {
	return providers.Reference{Kind: classKind.Kind, Name: class}
}

// settings returns spec.provider.ingress, or nil if it is not set.
func settings(p *v1alpha1.NetworkPolicy) *v1alpha1.IngressProvider {
	if p.Spec.Provider == nil {
		return nil
	}
	return p.Spec.Provider.Ingress
}

// NewView returns the view of one reconcile.
func (Provider) NewView(s providers.Input) providers.View {
	v := &view{Input: s, live: map[string]*providers.Live{}}
	if own := settings(s.Policy); own != nil {
		v.class, v.prefix = own.ClassName, own.AnnotationPrefix
	}
	ingresses := map[string]*networkingv1.Ingress{}
	for _, o := range s.Objects {
		if i, ok := o.(*networkingv1.Ingress); ok {
			ingresses[i.Name] = i
		}
	}
	for _, name := range providers.Sorted(ingresses) {
		if route, ok := strings.CutSuffix(name, canarySuffix); ok {
			if ingresses[route] == nil { // The canary Ingress serves nothing without the main Ingress, but must be deleted.
				v.live[route] = read(route, nil, ingresses[name])
			}
			continue
		}
		v.live[name] = read(name, ingresses[name], ingresses[name+canarySuffix])
	}
	return v
}

// read returns the route that a main Ingress and a canary Ingress represent. One of the Ingresses
// may be nil.
func read(name string, main, second *networkingv1.Ingress) *providers.Live {
	out := &providers.Live{Name: name, Weights: map[string]int{}, Accepted: true} // An Ingress has no status that reports acceptance.
	services := map[string]bool{}
	for _, i := range []*networkingv1.Ingress{main, second} {
		if i == nil {
			continue
		}
		out.Objects = append(out.Objects, i)
		out.Hostnames, out.Path = hostsAndPath(i)
		services[service(i)] = true
	}
	delete(services, "")
	out.Services = providers.Sorted(services)
	if main == nil {
		return out
	}
	out.Deleting = main.DeletionTimestamp != nil
	out.Hostnames, out.Path = hostsAndPath(main)
	rest := 100
	if second != nil && second.DeletionTimestamp == nil {
		if w := weight(second); w > 0 {
			out.Weights[service(second)] = w
			rest -= w
		}
	}
	if rest > 0 {
		out.Weights[service(main)] += rest
	}
	return out
}

// hostsAndPath returns the hosts and the path of a managed Ingress.
func hostsAndPath(i *networkingv1.Ingress) (hosts []string, path string) {
	path = "/"
	for _, rule := range i.Spec.Rules {
		hosts = append(hosts, rule.Host)
		if rule.HTTP != nil && len(rule.HTTP.Paths) > 0 {
			path = rule.HTTP.Paths[0].Path
		}
	}
	return hosts, path
}

// service returns the Service of a managed Ingress.
func service(i *networkingv1.Ingress) string {
	for _, rule := range i.Spec.Rules {
		if rule.HTTP != nil && len(rule.HTTP.Paths) > 0 && rule.HTTP.Paths[0].Backend.Service != nil {
			return rule.HTTP.Paths[0].Backend.Service.Name
		}
	}
	return ""
}

// weight returns the weight in the annotations of a canary's Ingress. The annotations can have any
// prefix.
func weight(i *networkingv1.Ingress) int {
	n, err := strconv.Atoi(ours(i)[canaryWeight])
	if err != nil {
		return 0
	}
	return min(max(n, 0), 100)
}

// ours returns those annotations of an Ingress that this package writes, without their prefix.
// Other annotations with the same prefix belong to the user. The same applies to a backend-protocol
// annotation whose prefix is not in prefixes, because it is for another ingress controller.
func ours(i *networkingv1.Ingress, prefixes ...string) map[string]string {
	out := map[string]string{}
	for key, value := range i.Annotations {
		prefix, name, ok := strings.Cut(key, "/")
		if ok && slices.Contains(managed, name) && (name != backendProtocol || slices.Contains(prefixes, prefix)) {
			out[name] = value
		}
	}
	return out
}

// prefixesOf returns the prefixes of the annotations that this package wrote to an Ingress.
func prefixesOf(i *networkingv1.Ingress) []string {
	out := []string{i.Annotations[AnnotationPrefix]}
	for key := range i.Annotations {
		if prefix, name, ok := strings.Cut(key, "/"); ok && name == canary {
			out = append(out, prefix) // The Ingress of a canary has no AnnotationPrefix.
		}
	}
	return out
}

type view struct {
	providers.Input
	class, prefix string
	live          map[string]*providers.Live
}

// Live returns the routes by name.
func (v *view) Live() map[string]*providers.Live { return v.live }

// Splits reports whether the class supports weights.
func (v *view) Splits() bool { return v.prefix != "" }

// Missing returns a problem if the API server lacks the kind, or if Ingresses do not support the
// protocol.
func (v *view) Missing(protocol v1alpha1.PortProtocol) *providers.Problem {
	if _, served := v.Served[kind.Kind]; !served {
		return &providers.Problem{Reason: providers.ReasonProviderAPIMissing, Message: fmt.Sprintf(
			"spec.provider.ingress: the API server does not have %s of %s/v1: use spec.provider.gateway, or omit spec.provider", kind.Kind, kind.Group)}
	}
	switch {
	case protocol == "" || protocol == v1alpha1.ProtocolHTTP:
		return nil
	case protocol == v1alpha1.ProtocolHTTPS && v.prefix != "":
		return nil
	case protocol == v1alpha1.ProtocolHTTPS:
		return notSupported("spec.provider.ingress: an Ingress has no field for pods that serve HTTPS: set annotationPrefix if its class supports the annotations of ingress-nginx, or use spec.provider.gateway")
	}
	return notSupported("spec.provider.ingress: Ingresses do not route to ports with protocol %s: use spec.provider.gateway, or remove the domains of this port", protocol)
}

func notSupported(format string, args ...any) *providers.Problem {
	return &providers.Problem{Reason: providers.ReasonNotSupported, Message: fmt.Sprintf(format, args...)}
}

var (
	headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	plainValue = regexp.MustCompile(`^[A-Za-z0-9._~/-]+$`)
)

// Unsupported returns a problem if the annotations cannot express the matches, and nil otherwise. The
// annotations allow one header and one cookie for each host and path. The header or the cookie
// selects the canary.
func (v *view) Unsupported(r providers.Route) *providers.Problem {
	if len(r.Matches) > 0 && v.prefix == "" {
		return notSupported("canaryMatches: an Ingress without annotations cannot select requests: set spec.provider.ingress.annotationPrefix if its class supports the annotations of ingress-nginx")
	}
	headers, cookies := 0, 0
	for i, m := range r.Matches {
		field := fmt.Sprintf("canaryMatches[%d]", i)
		headers += len(m.Headers)
		if m.Cookie != nil {
			cookies++
		}
		switch {
		case m.Path != nil || m.Method != "" || len(m.QueryParams) > 0 || m.GRPC != nil:
			return notSupported("%s: the annotations of an Ingress select only by header or cookie: omit path, method, queryParams and grpc", field)
		case len(m.Headers) > 0 && m.Cookie != nil || len(m.Headers) > 1:
			return notSupported("%s: the annotations of an Ingress cannot combine conditions: select by one header, or by a cookie", field)
		case headers > 1 || cookies > 1:
			return notSupported("%s: the annotations of an Ingress allow one header and one cookie: omit the others", field)
		case m.Cookie != nil && m.Cookie.Value != cookieForCanary:
			return notSupported("%s.cookie.value: the annotations of an Ingress allow only the value %q", field, cookieForCanary)
		case m.Cookie != nil && !plainValue.MatchString(m.Cookie.Name):
			return notSupported("%s.cookie.name: ingress-nginx allows only letters, digits and . _ ~ / -", field)
		}
		for _, h := range m.Headers {
			if !headerName.MatchString(h.Name) {
				return notSupported("%s.headers[0].name: ingress-nginx allows only letters, digits and -", field)
			}
			if providers.MatchType(h.Type) == v1alpha1.MatchExact && !plainValue.MatchString(h.Value) {
				return notSupported("%s.headers[0].value: ingress-nginx allows only letters, digits and . _ ~ / -: use type RegularExpression", field)
			}
		}
	}
	return nil
}

// Unapplied returns a problem that names a setting that has no effect on Ingresses, or nil if there is no such
// setting.
func (v *view) Unapplied(routes []providers.Route) *providers.Problem {
	if len(routes) == 0 {
		return nil
	}
	a := v.Policy.Spec.SessionAffinity
	switch {
	case a != nil && a.ClientIP != nil:
		return notSupported("spec.sessionAffinity.clientIP applies only to clients of the Services: ingress controllers select pods themselves")
	case a != nil:
		return notSupported("spec.sessionAffinity.cookie has no effect on Ingresses: use spec.provider.gateway, or remove the field")
	case v.Policy.Spec.Timeouts != nil:
		return notSupported("spec.timeouts has no effect on Ingresses: use spec.provider.gateway, or remove the field")
	case slices.ContainsFunc(routes, func(r providers.Route) bool { return r.Mirror != "" }):
		return notSupported("mirrorPercent of a step has no effect on Ingresses: use spec.provider.gateway, or remove mirrorPercent from the steps of the Microservice")
	}
	return nil
}

// shares returns the Service of the main Ingress of a route, and the Service of the canary Ingress
// with its weight in percent. exact is false if the route has more than two Services.
func shares(r providers.Route) (main, second string, weight int32, exact bool) {
	backends := slices.Clone(r.Backends)
	// The active release is first, followed by the other releases in order of decreasing weight.
	slices.SortStableFunc(backends, func(a, b providers.Backend) int {
		switch {
		case a.Service == r.Active:
			return -1
		case b.Service == r.Active:
			return 1
		}
		return int(b.Weight - a.Weight)
	})
	if len(backends) > 0 {
		main = backends[0].Service
	}
	if len(backends) > 1 {
		second, weight = backends[1].Service, backends[1].Weight
	}
	exact = len(backends) <= 2
	if r.Canary != "" && len(r.Matches) > 0 && r.Canary != main {
		exact = exact && (second == "" || second == r.Canary)
		if second == "" {
			second = r.Canary
		}
	}
	return main, second, weight, exact
}

// Build returns the Ingress of a route, and the Ingress of its canary if there is one. Each of these
// Ingresses routes to one Service. If there are additional Services, the main Ingress also receives
// their share of the traffic, and Verdict reports that the split is not supported. If the specification
// names a class that does not exist, a live Ingress keeps its class, so that a wrong name does not
// interrupt traffic.
func (v *view) Build(r providers.Route) []resources.Object {
	if live := mainOf(v.live[r.Name]); live != nil && v.missingClass() != nil {
		v = v.of(live)
	}
	main, second, weight, _ := shares(r)
	out := []resources.Object{v.build(r, r.Name, main, nil)}
	if second == "" || v.prefix == "" {
		return out
	}
	extra := map[string]string{canary: "true", canaryWeight: strconv.Itoa(int(weight)), canaryTotal: "100"}
	if r.Canary == second {
		for _, m := range r.Matches {
			for _, h := range m.Headers {
				extra[canaryHeader] = h.Name
				if providers.MatchType(h.Type) == v1alpha1.MatchExact {
					extra[canaryValue] = h.Value
				} else {
					extra[canaryPattern] = h.Value
				}
			}
			if m.Cookie != nil {
				extra[canaryCookie] = m.Cookie.Name
			}
		}
	}
	return append(out, v.build(r, r.Name+canarySuffix, second, extra))
}

func (v *view) build(r providers.Route, name, service string, extra map[string]string) *networkingv1.Ingress {
	labels, annotations := r.Metadata(v.Policy, v.Microservice)
	for key, value := range extra {
		annotations[v.prefix+"/"+key] = value
	}
	if v.prefix != "" && extra == nil {
		annotations[AnnotationPrefix] = v.prefix
	}
	if r.Protocol == v1alpha1.ProtocolHTTPS && v.prefix != "" {
		annotations[v.prefix+"/"+backendProtocol] = "HTTPS"
	}
	out := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Policy.Namespace, Name: name, Labels: labels, Annotations: annotations},
		Spec:       networkingv1.IngressSpec{IngressClassName: new(v.class)},
	}
	if name == r.Name { // The canary Ingress uses the certificate of the main Ingress.
		bySecret := providers.BySecret([]providers.Route{r})
		for _, secret := range providers.Sorted(bySecret) {
			out.Spec.TLS = append(out.Spec.TLS, networkingv1.IngressTLS{Hosts: bySecret[secret], SecretName: secret})
		}
	}
	for _, host := range r.Hostnames {
		out.Spec.Rules = append(out.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: r.Path, PathType: new(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: r.Port}}},
			}}},
		}})
	}
	return out
}

// LiveTLS returns the TLS settings for a host in the policy's Ingresses, or nil if there are none.
func (v *view) LiveTLS(host string) *providers.TLS {
	for _, name := range providers.Sorted(v.live) {
		for _, o := range v.live[name].Objects {
			for _, t := range o.(*networkingv1.Ingress).Spec.TLS {
				if slices.Contains(t.Hosts, host) {
					return &providers.TLS{Mode: v1alpha1.TLSIngress, Secret: t.SecretName}
				}
			}
		}
	}
	return nil
}

// Verdict reports whether the live Ingresses of a route match those that Build returned. It ignores
// the status of an Ingress, which does not cover the rules.
func (v *view) Verdict(r providers.Route, built []resources.Object) providers.Verdict {
	if _, second, _, exact := shares(r); !exact || second != "" && v.prefix == "" {
		return providers.Verdict{Reason: providers.ReasonNotSupported, Message: fmt.Sprintf(
			"Ingress %q cannot split traffic in this way: an Ingress routes to at most two releases with spec.provider.ingress.annotationPrefix, and to one release without annotationPrefix; use spec.provider.gateway", r.Name)}
	}
	if p := v.missingClass(); p != nil {
		return providers.Verdict{Reason: p.Reason, Message: p.Message}
	}
	live := v.live[r.Name]
	same := live != nil && slices.EqualFunc(live.Objects, built, func(old, want resources.Object) bool {
		return old.GetDeletionTimestamp() == nil && Same(old, want)
	})
	if !same {
		return providers.Verdict{Pending: true, Reason: providers.ReasonPending, Message: fmt.Sprintf("Ingress %q is being written", r.Name)}
	}
	return providers.Verdict{Accepted: true}
}

// Carry returns the live Ingresses of a route with their Services replaced by those of a desired
// route. The class, the TLS settings and the annotations of other owners remain unchanged.
func (v *view) Carry(live *providers.Live, r providers.Route) []resources.Object {
	main := mainOf(live)
	if main == nil {
		return nil // A canary Ingress without its main Ingress serves nothing.
	}
	r.Name, r.Path, r.Protocol = live.Name, live.Path, ""
	if len(r.Hostnames) == 0 {
		r.Hostnames = live.Hostnames
	}
	if r.Port == 0 {
		r.Port = port(main)
	}
	then := v.of(main)
	if then.Unsupported(r) != nil {
		r.Canary = "" // Unsupported matches get no annotations.
	}
	built := then.Build(r)
	for i, o := range built {
		if i >= len(live.Objects) {
			break // The canary Ingress is new.
		}
		next, old := o.(*networkingv1.Ingress), live.Objects[i].(*networkingv1.Ingress)
		kept := r.Kept(v.Policy, v.Microservice, old)
		for _, key := range slices.Collect(maps.Keys(kept.Annotations)) {
			if _, name, _ := strings.Cut(key, "/"); slices.Contains(managed, name) && name != backendProtocol {
				delete(kept.Annotations, key)
			}
		}
		maps.Copy(kept.Annotations, next.Annotations)
		next.Labels, next.Annotations = kept.Labels, kept.Annotations
		next.Spec.TLS, next.Spec.DefaultBackend = old.Spec.TLS, old.Spec.DefaultBackend
	}
	same := slices.EqualFunc(live.Objects, built, func(old, want resources.Object) bool {
		return maps.Equal(old.GetLabels(), want.GetLabels()) && Same(old, want)
	})
	if same {
		return nil
	}
	return built
}

// mainOf returns the main Ingress of a live route, or nil.
func mainOf(live *providers.Live) *networkingv1.Ingress {
	if live == nil {
		return nil
	}
	if main, ok := live.Objects[0].(*networkingv1.Ingress); ok && main.Name == live.Name {
		return main
	}
	return nil
}

// of returns a view with the class and the annotation prefix of a live Ingress.
func (v *view) of(main *networkingv1.Ingress) *view {
	return &view{Input: v.Input, class: deref(main.Spec.IngressClassName), prefix: main.Annotations[AnnotationPrefix], live: v.live}
}

// Apart returns true, because the controller of a class might reject a second Ingress with the same
// host and path, or serve either of the two.
func (v *view) Apart() bool { return true }

// port returns the port of the Service that a managed Ingress routes to.
func port(i *networkingv1.Ingress) int32 {
	for _, rule := range i.Spec.Rules {
		if rule.HTTP != nil && len(rule.HTTP.Paths) > 0 && rule.HTTP.Paths[0].Backend.Service != nil {
			return rule.HTTP.Paths[0].Backend.Service.Port.Number
		}
	}
	return 0
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Same reports whether a live Ingress has the desired content. It ignores additions by other owners,
// such as annotations, or TLS settings if the desired Ingress has none.
func Same(old, want resources.Object) bool {
	had, ok := old.(*networkingv1.Ingress)
	has, also := want.(*networkingv1.Ingress)
	if !ok || !also || had.Name != has.Name {
		return false
	}
	a, _ := resources.StampOf(had)
	b, _ := resources.StampOf(has)
	prefixes := append(prefixesOf(had), prefixesOf(has)...)
	secured := len(has.Spec.TLS) == 0 || equality.Semantic.DeepEqual(had.Spec.TLS, has.Spec.TLS)
	return a == b && secured && maps.Equal(ours(had, prefixes...), ours(has, prefixes...)) && prefixed(had, has) &&
		equality.Semantic.DeepEqual(had.Spec.IngressClassName, has.Spec.IngressClassName) && equality.Semantic.DeepEqual(had.Spec.Rules, has.Spec.Rules)
}

// prefixed reports whether a live Ingress has all desired annotations with the same values and the
// same keys, including the prefix.
func prefixed(had, has *networkingv1.Ingress) bool {
	for key, value := range has.Annotations {
		if got, ok := had.Annotations[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Serves returns the URL of a host. It never returns a problem, because an Ingress does not report
// whether the host's certificate exists. Only cert-manager reports this.
func (v *view) Serves(r providers.Route, host string) (string, *providers.Problem) {
	scheme := "http"
	if _, tls := r.TLS[host]; tls {
		scheme = "https"
	}
	return scheme + "://" + host + strings.TrimSuffix(r.Path, "/"), nil
}

// Referent returns a problem if the API server does not serve Ingresses, or if the class does not
// exist.
func (v *view) Referent() *providers.Problem {
	if _, served := v.Served[kind.Kind]; !served {
		return v.Missing(v1alpha1.ProtocolHTTP)
	}
	return v.missingClass()
}

// missingClass returns a problem if the class does not exist. A manager without permission to read
// classes assumes that the class exists.
func (v *view) missingClass() *providers.Problem {
	if _, visible := v.Served[classKind.Kind]; !visible || v.Referents[reference(v.class)] != nil {
		return nil
	}
	return &providers.Problem{Reason: providers.ReasonParentNotFound, Message: fmt.Sprintf(
		"spec.provider.ingress.className: IngressClass %q does not exist: create it, or correct the name", v.class)}
}

// Health returns nil, because no object reports whether a controller serves a class.
func (v *view) Health() *providers.Problem { return nil }

// MayConflict reports whether two policies use the same class.
func (v *view) MayConflict(other *v1alpha1.NetworkPolicy) bool {
	theirs := settings(other)
	return theirs != nil && theirs.ClassName == v.class
}
