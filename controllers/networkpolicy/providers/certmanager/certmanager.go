// Package certmanager builds the cert-manager Certificates of domains, for all providers: one
// Certificate for each Secret. Except for AddToScheme, its functions are pure.
//
// The package does not use the annotations from which cert-manager can create Certificates, because
// the annotations of an Ingress or ListenerSet do not cover the hosts of other objects that share
// the Secret, and only a few versions of cert-manager read ListenerSets. The files of the package
// refer only to files further down in this list:
//
//	certmanager.go  Certificates of domains, and their status
//	types.go        the types of the API
package certmanager

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Kind is the Certificate kind.
var Kind = providers.Kind{Group: GroupVersion.Group, Kind: "Certificate", Versions: []string{GroupVersion.Version}}

// Needed reports whether a policy requires certificates from cert-manager.
func Needed(p *v1alpha1.NetworkPolicy) bool {
	return slices.ContainsFunc(p.Spec.Domains, func(d v1alpha1.Domain) bool { return d.TLS != nil && d.TLS.IssuerRef != nil })
}

// Issuer returns the issuer of a domain's certificate, with defaults. It returns the zero value if
// the domain has no issuerRef.
func Issuer(t *v1alpha1.DomainTLS) v1alpha1.IssuerReference {
	if t.IssuerRef == nil {
		return v1alpha1.IssuerReference{}
	}
	return v1alpha1.IssuerReference{
		Name: t.IssuerRef.Name, Kind: cmp.Or(t.IssuerRef.Kind, "Issuer"), Group: cmp.Or(t.IssuerRef.Group, GroupVersion.Group),
	}
}

// Missing returns a problem if a host requires a Certificate and the API server does not serve
// Certificates; otherwise, it returns nil. The message begins with the path of the field, relative
// to the domain.
func Missing(s providers.Input, t providers.TLS) *providers.Problem {
	if _, served := s.Served[Kind.Kind]; served || t.Issuer.Name == "" {
		return nil
	}
	return &providers.Problem{Reason: providers.ReasonProviderAPIMissing, Message: fmt.Sprintf(
		"tls.issuerRef: the API server does not have %s of %s: install cert-manager, or omit issuerRef and create the Secret yourself", Kind.Kind, GroupVersion)}
}

// Shared returns the Certificates for the hosts of the routes, one for each Secret whose certificate
// has an issuer. Like the Certificates that cert-manager creates, each Certificate has the same name
// as its Secret. A Certificate also keeps each host that it already contains if a live route, but no
// desired route, has the host.
func Shared(s providers.Input, routes []providers.Route, live map[string]*providers.Live) []providers.Shared {
	issuers, had, hosts := map[string]v1alpha1.IssuerReference{}, map[string][]string{}, providers.BySecret(routes)
	for _, r := range routes {
		for _, host := range r.Hostnames {
			t := r.TLS[host]
			if t.Issuer.Name != "" {
				issuers[t.Secret] = t.Issuer
			}
			if t.Until != "" {
				hosts[t.Secret] = append(hosts[t.Secret], host)
			}
		}
	}
	for _, o := range s.Objects {
		if c, ok := o.(*Certificate); ok {
			had[c.Spec.SecretName] = c.Spec.DNSNames
		}
	}
	var out []providers.Shared
	for _, secret := range providers.Sorted(issuers) {
		all := slices.Concat(hosts[secret], providers.Undecided(had[secret], routes, live))
		out = append(out, providers.Shared{Hosts: hosts[secret], Object: &Certificate{
			TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: Kind.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Policy.Namespace, Name: secret, Labels: resources.Labels(s.Policy, s.Microservice, "")},
			Spec:       CertificateSpec{SecretName: secret, DNSNames: names(all), IssuerRef: IssuerRef(issuers[secret])},
		}})
	}
	return out
}

// Holds reports whether a live Certificate must stay because it contains hosts that a live
// route has but no desired route has, or because it serves hosts until another Certificate is ready.
func Holds(o resources.Object, decided []providers.Route, live map[string]*providers.Live) bool {
	c, ok := o.(*Certificate)
	return ok && (len(providers.Undecided(c.Spec.DNSNames, decided, live)) > 0 || slices.ContainsFunc(decided, func(r providers.Route) bool {
		return slices.ContainsFunc(r.Hostnames, func(host string) bool { return r.TLS[host].Until == c.Spec.SecretName })
	}))
}

// names returns the sorted DNS names of a certificate for the given hosts. Hosts that a wildcard
// covers are omitted, so that previews whose hosts the wildcard covers can start and end without a
// new certificate.
func names(hosts []string) []string {
	var out []string
	for _, host := range hosts {
		if strings.HasPrefix(host, "*.") || !slices.Contains(hosts, wildcard(host)) {
			out = append(out, host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// wildcard returns the wildcard that covers a host.
func wildcard(host string) string {
	_, parent, _ := strings.Cut(host, ".")
	return "*." + parent
}

// Unready returns a problem if the certificate of a host is not ready yet, and nil if it is ready or
// has no issuer. A Certificate that is being renewed counts as ready.
func Unready(s providers.Input, host string, t providers.TLS) *providers.Problem {
	if t.Issuer.Name == "" {
		return nil
	}
	problem := func(format string, args ...any) *providers.Problem {
		return &providers.Problem{Reason: providers.ReasonCertificateNotReady, Message: fmt.Sprintf(format, args...)}
	}
	for _, o := range s.Objects {
		c, ok := o.(*Certificate)
		if !ok || c.Name != t.Secret {
			continue
		}
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		switch {
		case ready == nil || ready.ObservedGeneration != c.Generation:
			return problem("cert-manager has not reported the status of Certificate %q: check that cert-manager is running", c.Name)
		case ready.Status != metav1.ConditionTrue:
			return problem("Certificate %q is not ready: %s: %s", c.Name, ready.Reason, strings.TrimSuffix(ready.Message, "."))
		case !slices.Contains(c.Spec.DNSNames, host) && !slices.Contains(c.Spec.DNSNames, wildcard(host)):
			return problem("Certificate %q does not include %q yet", c.Name, host)
		}
		return nil
	}
	return problem("Certificate %q is being written", t.Secret)
}
