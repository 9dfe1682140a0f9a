package traffic

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
)

// httpsPort is the default port of HTTPS.
const httpsPort = 443

// defaultModes contains the default TLS modes of domains, by provider name.
var defaultModes = map[string]v1alpha1.TLSMode{
	"gateway": v1alpha1.TLSGateway, "ingress": v1alpha1.TLSIngress, "apisix": v1alpha1.TLSApisix,
}

// askedTLS returns the TLS settings of a domain, with defaults and with template fields replaced by
// their values for a group, which may be nil. It returns nil if the domain has no TLS settings.
func (d *planner) askedTLS(t *v1alpha1.DomainTLS, g *v1alpha1.ReleaseGroup) *providers.TLS {
	if t == nil {
		return nil
	}
	out := &providers.TLS{Mode: cmp.Or(t.Mode, defaultModes[ProviderOf(d.Policy).Name()]), Issuer: certmanager.Issuer(t)}
	out.Secret, _ = fill(t.SecretName, d.Policy, g) // This fails only if the host is not rendered either, because there is no group.
	if out.Mode == v1alpha1.TLSListenerSet {
		out.Port = cmp.Or(t.Port, httpsPort)
	}
	return out
}

// settleTLS rejects rows whose TLS settings contradict those of an earlier row: a host has one
// certificate, and a Secret has one issuer.
func settleTLS(rows []*DomainRow) {
	hosts, secrets := map[string]*DomainRow{}, map[string]*DomainRow{}
	for _, r := range rows {
		if r.tls == nil || r.reason != "" {
			continue
		}
		first, issuer := hosts[r.host], secrets[r.tls.Secret]
		switch problems := validation.IsDNS1123Subdomain(r.tls.Secret); {
		case r.tls.Secret != "" && len(problems) > 0:
			r.fail(ReasonNotSupported, fmt.Sprintf("%s.tls.secretName: %q is not a valid Secret name: shorten it", r.field, r.tls.Secret))
		case first != nil && *first.tls != *r.tls:
			r.fail(ReasonNotSupported, fmt.Sprintf("%s.tls: %q has different TLS settings in %s: use the same settings", r.field, r.host, first.field))
		case issuer != nil && r.tls.Issuer.Name != "" && issuer.tls.Issuer != r.tls.Issuer:
			r.fail(ReasonNotSupported, fmt.Sprintf("%s.tls.issuerRef: Secret %q has a different issuer in %s: use the same issuer, or another secretName", r.field, r.tls.Secret, issuer.field))
		default:
			hosts[r.host] = r
			if r.tls.Issuer.Name != "" {
				secrets[r.tls.Secret] = r
			}
		}
	}
}

// keepSecrets lets hosts keep their current Secret until the requested Secret has a certificate for
// them, so that invalid input does not remove a certificate. A requested Secret without an issuer is used
// immediately, because its contents are not known.
func (d *planner) keepSecrets(rows []*DomainRow) {
	for _, r := range rows {
		if r.tls == nil || certmanager.Unready(d.Input, r.host, *r.tls) == nil {
			continue
		}
		if now := providers.LiveTLS(d.View, r.host); now != nil && now.Secret != r.tls.Secret {
			r.tls.Until = now.Secret
		}
	}
}

// meanwhile returns the row that serves a host until the host's own listeners are ready. This row
// belongs to the host's existing route, which is attached to the listeners of the Gateway.
func (d *planner) meanwhile(r *DomainRow) []*DomainRow {
	if !ofSet(r.tls) {
		return nil
	}
	before := *r
	before.tls = nil
	asked := providers.Route{Protocol: r.port.Protocol, Path: r.path, Parents: r.parents, TLS: r.tlsByHost()}
	if d.placed(keyOf(&before), r.host) < 0 || d.unready(asked, r.host) == nil {
		return nil
	}
	return []*DomainRow{&before}
}

// liveTLS returns the TLS settings of a host that stays in its live route although row r no longer
// requests this route. like is another row of the route. If r has a route, the settings of r
// apply to both routes. Otherwise, the live settings remain.
func (d *planner) liveTLS(r, like *DomainRow) *providers.TLS {
	out := r.tls
	if out == nil || ofSet(out) != ofSet(like.tls) || !r.routable() || d.unsupported(r) != nil {
		if out = providers.LiveTLS(d.View, r.host); out != nil {
			out.Until = out.Secret // The Certificate of the Secret stays.
		}
	}
	if ofSet(out) != ofSet(like.tls) {
		return nil // These settings belong to listeners to which the route is not attached.
	}
	return out
}

// unsupported returns a problem if the provider does not support the row, and nil otherwise.
func (d *planner) unsupported(r *DomainRow) *providers.Problem {
	asked := providers.Route{Protocol: r.port.Protocol, Path: r.path, Matches: r.matches, TLS: r.tlsByHost()}
	if problem := d.View.Unsupported(asked); problem != nil || r.tls == nil {
		return problem
	}
	return certmanager.Missing(d.Input, *r.tls)
}

// addShared determines the desired additional objects on which routes depend. Objects on which live
// routes depend are deleted after these routes.
func (d *planner) addShared(out *Decision) {
	routes := make([]providers.Route, 0, len(out.Routes))
	for _, r := range out.Routes {
		routes = append(routes, r.Route)
	}
	staying, previous := map[string]*providers.Live{}, map[string]*providers.Live{}
	for name, live := range d.Live {
		if !slices.Contains(out.DeleteRoutes, name) {
			if staying[name] = live; d.previous(live) {
				previous[name] = live
			}
		}
	}
	out.Shared = append(certmanager.Shared(d.Input, routes, staying), providers.SharedOf(d.View, routes)...)
	for _, o := range d.Rest {
		wanted := slices.ContainsFunc(out.Shared, func(s providers.Shared) bool { return SharedKey(s) == SharedKey(o) })
		held := certmanager.Holds(o, routes, staying) || certmanager.Holds(o, nil, previous)
		for _, v := range d.views {
			decided := routes
			if v != d.View {
				decided = nil // The remaining routes of another provider depend on that provider's existing objects.
			}
			held = held || providers.Holds(v, o, decided)
		}
		if !wanted && !held && o.GetDeletionTimestamp() == nil {
			out.DeleteShared = append(out.DeleteShared, o)
		}
	}
}

// address returns the URL of a route's host, and a problem if the host is accepted but not served.
func (d *planner) address(r providers.Route, host string) (url string, problem *providers.Problem) {
	url, problem = d.View.Serves(r, host)
	t := r.TLS[host]
	if unready := certmanager.Unready(d.Input, host, t); unready != nil {
		if problem = unready; t.Until != "" { // The certificate that is not ready also causes the listener's problem.
			problem.Message += fmt.Sprintf("; in the meantime, the host uses the certificate in Secret %q", t.Until)
		}
	}
	return url, problem
}

// unready returns the reason why a host is not served with TLS; nil if there is none.
func (d *planner) unready(r providers.Route, host string) *providers.Problem {
	if _, asked := r.TLS[host]; !asked {
		return nil
	}
	_, problem := d.address(r, host)
	return problem
}
