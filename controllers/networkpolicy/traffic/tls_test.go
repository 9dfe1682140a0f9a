package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/allowedhosts"
)

const (
	firstHost  = "1-x.shop.example.com"
	secondHost = "2-x.shop.example.com"
)

// ownListener returns TLS settings with mode ListenerSet and a Secret that cert-manager creates.
func ownListener(secret string) *v1alpha1.DomainTLS {
	return &v1alpha1.DomainTLS{Mode: v1alpha1.TLSListenerSet, SecretName: secret, IssuerRef: &v1alpha1.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}}
}

// encrypted returns a world with two groups, each of which has its own TLS domain.
func encrypted(t *testing.T, provider v1alpha1.NetworkProvider, tls *v1alpha1.DomainTLS) *world {
	w := newWorld(t, group("2-x", 1, "c 2.0.0 active 100"), group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.policy.Spec.Provider = &provider
	w.policy.Spec.Domains[0].TLS = tls
	w.ready["a"], w.ready["b"], w.ready["c"] = 1, 1, 1
	return w
}

// certificates returns the DNS names and the issuer of each Certificate, by the name of the Certificate.
func (w *world) certificates() map[string]string {
	out := map[string]string{}
	for _, o := range w.others {
		if c, ok := o.(*certmanager.Certificate); ok {
			out[c.Name] = fmt.Sprint(c.Spec.DNSNames, " ", c.Spec.IssuerRef)
		}
	}
	return out
}

// sets returns the port, the Secret and the Gateway of each host of a ListenerSet.
func (w *world) sets() map[string]string {
	out := map[string]string{}
	for _, o := range w.others {
		s, ok := o.(*gatewayv1.ListenerSet)
		if !ok {
			continue
		}
		for _, l := range s.Spec.Listeners {
			out[string(*l.Hostname)] = fmt.Sprint(l.Port, " ", l.TLS.CertificateRefs[0].Name, " at ", *s.Spec.ParentRef.Namespace, "/", s.Spec.ParentRef.Name)
		}
	}
	return out
}

// domain returns the report of a host.
func (w *world) domain(host string) v1alpha1.DomainStatus {
	i := slices.IndexFunc(w.policy.Status.Domains, func(d v1alpha1.DomainStatus) bool { return d.Domain == host })
	if i < 0 {
		return v1alpha1.DomainStatus{}
	}
	return w.policy.Status.Domains[i]
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestOwnListeners checks that each host has its own listener, and that each group has its own
// certificate if the name of the Secret is a template. When a group closes, its listener and its
// certificate are deleted after its routes.
func TestOwnListeners(t *testing.T) {
	w := encrypted(t, byGateway, ownListener("{{.ReleaseGroupName}}-tls"))
	w.settle()
	same(t, "listeners", w.sets(), map[string]string{firstHost: "443 1-x-tls at infra/public", secondHost: "443 2-x-tls at infra/public"})
	same(t, "certificates", w.certificates(), map[string]string{
		"1-x-tls": "[" + firstHost + "] {ca ClusterIssuer cert-manager.io}", "2-x-tls": "[" + secondHost + "] {ca ClusterIssuer cert-manager.io}",
	})
	want(t, "url", w.domain(firstHost).URL, "https://"+firstHost)
	want(t, "programmed", w.domain(firstHost).Programmed, true)
	want(t, "Ready", w.condition("Ready"), "True Programmed")
	for _, route := range w.routes {
		set := resources.ListenerSetName("shop", "infra/public", string(route.Spec.Hostnames[0]), 443)
		same(t, "parents", route.Spec.ParentRefs, []gatewayv1.ParentReference{{
			Group: new(gatewayv1.Group("gateway.networking.k8s.io")), Kind: new(gatewayv1.Kind("ListenerSet")), Name: gatewayv1.ObjectName(set),
		}})
	}

	closing := group("2-x", 2, "c 2.0.0 deprecated 0")
	closing.Phase = v1alpha1.GroupClosing
	w.rollout(closing, group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.pass()
	same(t, "listeners while the routes exist", len(w.sets()), 2)
	w.settle()
	same(t, "listeners", w.sets(), map[string]string{firstHost: "443 1-x-tls at infra/public"})
	want(t, "certificates", len(w.certificates()), 1)
}

// TestCertificateNotReady checks that a host without a certificate is not programmed and reports
// the cause, and that its group is nevertheless confirmed.
func TestCertificateNotReady(t *testing.T) {
	for name, provider := range map[string]v1alpha1.NetworkProvider{"gateway": byGateway, "ingress": byNginx, "APISIX": byAPISIX} {
		t.Run(name, func(t *testing.T) {
			tls := ownListener("{{.ReleaseGroupName}}-tls")
			if name != "gateway" {
				tls.Mode = ""
			}
			w := encrypted(t, provider, tls)
			w.uncertain["1-x-tls"] = "DoesNotExist"
			w.settle()
			d := w.domain(firstHost)
			want(t, "programmed", d.Programmed, false)
			want(t, "reason", d.Reason, ReasonCertificateNotReady)
			want(t, "message", d.Message, `spec.domains[0].domain: Certificate "1-x-tls" is not ready: DoesNotExist: see the order`)
			want(t, "url", d.URL, "https://"+firstHost)
			want(t, "the other domain", w.domain(secondHost).Programmed, true)
			want(t, "revision", w.groupTraffic("1-x").Revision, 1)
			want(t, "Ready", w.condition("Ready"), "False CertificateNotReady")
			want(t, "Reconciling", w.condition("Reconciling"), "True CertificateNotReady")
			w.uncertain = nil
			w.settle()
			want(t, "programmed", w.domain(firstHost).Programmed, true)
			want(t, "Ready", w.condition("Ready"), "True Programmed")
		})
	}
}

// secrets returns the name of the TLS Secret of each host.
func (w *world) secrets() map[string]string {
	out := map[string]string{}
	for _, o := range w.others {
		switch o := o.(type) {
		case *gatewayv1.ListenerSet:
			out[string(*o.Spec.Listeners[0].Hostname)] = string(o.Spec.Listeners[0].TLS.CertificateRefs[0].Name)
		case *networkingv1.Ingress:
			for _, t := range o.Spec.TLS {
				for _, host := range t.Hosts {
					out[host] = t.SecretName
				}
			}
		case *apisix.ApisixTls:
			for _, host := range o.Spec.Hosts {
				out[host] = o.Spec.Secret.Name
			}
		}
	}
	return out
}

// TestSecretServesUntilTheNextHasACertificate checks that a host keeps its Secret and Certificate
// until the next Secret contains a certificate, which never happens if the name of the next Secret
// contains a typo.
func TestSecretServesUntilTheNextHasACertificate(t *testing.T) {
	for name, provider := range map[string]v1alpha1.NetworkProvider{"gateway": byGateway, "ingress": byNginx, "APISIX": byAPISIX} {
		t.Run(name, func(t *testing.T) {
			tls := func(secret string) *v1alpha1.DomainTLS {
				out := ownListener(secret)
				if name != "gateway" {
					out.Mode = ""
				}
				return out
			}
			w := encrypted(t, provider, tls("shop-tls"))
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: firstHost, TLS: tls("shop-tls")}, {Domain: secondHost, TLS: tls("shop-tls")}}
			w.settle()
			both := "[" + firstHost + " " + secondHost + "] {ca ClusterIssuer cert-manager.io}"
			first := "[" + firstHost + "] {ca ClusterIssuer cert-manager.io}"
			second := "[" + secondHost + "] {ca ClusterIssuer cert-manager.io}"

			w.uncertain["shop-tsl"] = "Pending"
			w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].TLS = tls("shop-tsl") })
			w.settle()
			same(t, "Secrets", w.secrets(), map[string]string{firstHost: "shop-tls", secondHost: "shop-tls"})
			same(t, "certificates", w.certificates(), map[string]string{"shop-tls": both, "shop-tsl": first})
			d := w.domain(firstHost)
			want(t, "reason", d.Reason, ReasonCertificateNotReady)
			want(t, "message", d.Message, `spec.domains[0].domain: Certificate "shop-tsl" is not ready: Pending: see the order; in the meantime, the host uses the certificate in Secret "shop-tls"`)
			want(t, "the other domain", w.domain(secondHost).Programmed, true)
			before := w.writes
			w.settle()
			want(t, "writes in the stable state", w.writes, before)

			w.uncertain = map[string]string{}
			w.settle()
			same(t, "Secrets", w.secrets(), map[string]string{firstHost: "shop-tsl", secondHost: "shop-tls"})
			same(t, "certificates", w.certificates(), map[string]string{"shop-tls": second, "shop-tsl": first})
			want(t, "Ready", w.condition("Ready"), "True Programmed")

			// A Certificate that does not contain the host yet does not count.
			w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[1].TLS = tls("shop-tsl") })
			w.pass()
			same(t, "Secrets", w.secrets(), map[string]string{firstHost: "shop-tsl", secondHost: "shop-tls"})
			same(t, "certificates", w.certificates(), map[string]string{"shop-tls": second, "shop-tsl": both})
			w.settle()
			same(t, "Secrets", w.secrets(), map[string]string{firstHost: "shop-tsl", secondHost: "shop-tsl"})
			same(t, "certificates", w.certificates(), map[string]string{"shop-tsl": both})
		})
	}
}

// TestSecretOfANewerGroup checks that a domain that moves to a newer group with another Secret
// keeps its certificate until the certificate in the other Secret is ready.
func TestSecretOfANewerGroup(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "www.example.com", TLS: ownListener("{{.ReleaseGroupName}}-tls")}}
	w.settle()
	w.ready["c"] = 1
	w.uncertain["2-x-tls"] = "Pending"
	w.rollout(group("2-x", 1, "c 2.0.0 active 100"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "traffic", w.split("www.example.com"), "2.0.0=100")
	same(t, "Secrets", w.secrets(), map[string]string{"www.example.com": "1-x-tls"})
	want(t, "certificates", len(w.certificates()), 2)
	w.uncertain = nil
	w.settle()
	same(t, "Secrets", w.secrets(), map[string]string{"www.example.com": "2-x-tls"})
	want(t, "certificates", len(w.certificates()), 1)
}

// TestSharedSecret checks that domains that share a Secret share a Certificate, in which wildcards
// cover the hosts below them.
func TestSharedSecret(t *testing.T) {
	w := encrypted(t, byGateway, ownListener("shop-tls"))
	w.settle()
	same(t, "certificates", w.certificates(), map[string]string{"shop-tls": "[" + firstHost + " " + secondHost + "] {ca ClusterIssuer cert-manager.io}"})
	without := ownListener("shop-tls")
	without.IssuerRef = nil
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains = append(s.Domains, v1alpha1.Domain{Domain: "shop.example.com", TLS: without}, v1alpha1.Domain{Domain: "*.shop.example.com", TLS: ownListener("shop-tls")})
	})
	w.settle()
	same(t, "certificates", w.certificates(), map[string]string{"shop-tls": "[*.shop.example.com shop.example.com] {ca ClusterIssuer cert-manager.io}"})
	want(t, "listeners", len(w.sets()), 4)
	before := w.writes
	w.settle()
	want(t, "writes in the stable state", w.writes, before)

	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		for i := range s.Domains {
			s.Domains[i].TLS = without
		}
	})
	w.settle()
	want(t, "certificates that no domain requests", len(w.certificates()), 0)
	want(t, "programmed", w.domain(firstHost).Programmed, true)
}

// TestForbiddenHostHasNoCertificate checks that a host that is not allowed for the namespace gets
// no listener and no certificate.
func TestForbiddenHostHasNoCertificate(t *testing.T) {
	w := encrypted(t, byGateway, ownListener("shop-tls"))
	w.settle()
	rules, err := allowedhosts.Parse(map[string]string{"prod": "*.shop.example.com", "infra": secondHost})
	if err != nil {
		t.Fatal(err)
	}
	w.owned = &Ownership{Hosts: rules.For("prod", nil)}
	w.settle()
	want(t, "reason", w.domain(secondHost).Reason, ReasonDomainNotAllowed)
	same(t, "listeners", w.sets(), map[string]string{firstHost: "443 shop-tls at infra/public"})
	same(t, "certificates", w.certificates(), map[string]string{"shop-tls": "[" + firstHost + "] {ca ClusterIssuer cert-manager.io}"})
}

// TestKindOfTLSMissing checks that a kind that the API server lacks is reported in a condition, and
// that live objects stay.
func TestKindOfTLSMissing(t *testing.T) {
	for kind, reason := range map[string]string{"ListenerSet": ReasonGatewayAPIMissing, "Certificate": providers.ReasonProviderAPIMissing} {
		t.Run(kind, func(t *testing.T) {
			w := encrypted(t, byGateway, nil)
			w.settle()
			w.lacks = map[string]bool{kind: true}
			w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].TLS = ownListener("shop-tls") })
			w.settle()
			want(t, "reason", w.domain(firstHost).Reason, reason)
			if m := w.domain(firstHost).Message; !strings.HasPrefix(m, "spec.domains[0].tls.") || !strings.Contains(m, kind) {
				t.Errorf("message: %s", m)
			}
			want(t, "Accepted", w.condition("Accepted"), "False "+reason)
			want(t, "live routes", w.split(firstHost), "1.0.0=90 1.1.0=10")
			w.lacks = nil
			w.settle()
			want(t, "url", w.domain(firstHost).URL, "https://"+firstHost)
			want(t, "Ready", w.condition("Ready"), "True Programmed")
		})
	}
}

// TestPreviousListenerSets checks that ListenerSets are written with their previous kind,
// XListenerSet, if the API server serves only this kind.
func TestPreviousListenerSets(t *testing.T) {
	w := encrypted(t, byGateway, ownListener("shop-tls"))
	w.served = map[string]providers.Served{"ListenerSet": {Group: "gateway.networking.x-k8s.io", Kind: "XListenerSet", Version: "v1alpha1"}}
	w.settle()
	found := 0
	for _, o := range w.others {
		if s, ok := o.(*gatewayapi.XListenerSet); ok {
			found++
			want(t, "kind", s.APIVersion+" "+s.Kind, "gateway.networking.x-k8s.io/v1alpha1 XListenerSet")
		}
	}
	want(t, "sets", found, 2)
	for _, route := range w.routes {
		want(t, "parent", string(*route.Spec.ParentRefs[0].Group)+" "+string(*route.Spec.ParentRefs[0].Kind), "gateway.networking.x-k8s.io XListenerSet")
	}
	want(t, "Ready", w.condition("Ready"), "True Programmed")
}

// TestOwnListenerTakesOver checks that a domain that gets its own listener is served by the
// previous listener until the certificate of the new listener exists. If the domain no longer has
// its own listener, this listener stays while routes refer to it.
func TestOwnListenerTakesOver(t *testing.T) {
	w := encrypted(t, byGateway, nil)
	w.settle()
	w.uncertain["shop-tls"] = "Pending"
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].TLS = ownListener("shop-tls") })
	w.settle()
	toGateway := func() (n int) {
		for _, route := range w.routes {
			if *route.Spec.ParentRefs[0].Kind == "Gateway" {
				n++
			}
		}
		return n
	}
	want(t, "routes attached to the Gateway", toGateway(), 2)
	want(t, "routes", len(w.routes), 4)
	// In the meantime, both routes follow decisions, such as an abort.
	w.rollout(group("2-x", 1, "c 2.0.0 active 100"), group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.settle()
	want(t, "split", w.split(firstHost), "1.0.0=100 1.0.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	w.uncertain = nil
	w.settle()
	want(t, "routes attached to the Gateway", toGateway(), 0)
	want(t, "routes", len(w.routes), 2)

	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].TLS = nil })
	w.pass()
	want(t, "listeners that routes refer to", len(w.sets()), 2)
	w.settle()
	want(t, "routes attached to the Gateway", toGateway(), 2)
	want(t, "remaining objects", len(w.others), 0)
}

// TestListenerSetRefused checks that, if a Gateway does not accept ListenerSets, the message states
// the fix.
func TestListenerSetRefused(t *testing.T) {
	w := encrypted(t, byGateway, ownListener("shop-tls"))
	w.pass()
	w.pass()
	for _, o := range w.others {
		if s, ok := o.(*gatewayv1.ListenerSet); ok {
			s.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionFalse, Reason: "NotAllowed", Message: "not allowed", ObservedGeneration: s.Generation}}
		}
	}
	w.pass()
	d := w.domain(firstHost)
	want(t, "reason", d.Reason, ReasonNotAccepted)
	if !strings.Contains(d.Message, `allow namespace "prod" in spec.allowedListeners of the Gateway`) {
		t.Errorf("message: %s", d.Message)
	}
}

// TestContradictoryTLS checks that the second of two contradictory entries is rejected, and that the
// first entry applies.
func TestContradictoryTLS(t *testing.T) {
	for name, tc := range map[string]struct {
		second v1alpha1.Domain
		want   string
	}{
		"one host, two Secrets":   {v1alpha1.Domain{Domain: "shop.example.com", Path: "/b", TLS: ownListener("b")}, "use the same settings"},
		"one Secret, two issuers": {v1alpha1.Domain{Domain: "b.example.com", TLS: &v1alpha1.DomainTLS{Mode: v1alpha1.TLSListenerSet, SecretName: "a", IssuerRef: &v1alpha1.IssuerReference{Name: "other"}}}, "has a different issuer in spec.domains[0]"},
		"a name that is too long": {v1alpha1.Domain{Domain: "b.example.com", TLS: ownListener(strings.Repeat("{{.ReleaseGroupName}}", 90))}, "is not a valid Secret name"},
	} {
		t.Run(name, func(t *testing.T) {
			w := encrypted(t, byGateway, nil)
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "shop.example.com", TLS: ownListener("a")}, tc.second}
			w.settle()
			want(t, "first", w.policy.Status.Domains[0].Programmed, true)
			want(t, "second", w.policy.Status.Domains[1].Reason, ReasonNotSupported)
			if m := w.policy.Status.Domains[1].Message; !strings.HasPrefix(m, "spec.domains[1].tls") || !strings.Contains(m, tc.want) {
				t.Errorf("message: %s", m)
			}
			want(t, "certificates", len(w.certificates()), 1)
		})
	}
}

// TestCertificateOfOthers checks that a Certificate of another owner is not overwritten, and that
// the host reports the conflict.
func TestCertificateOfOthers(t *testing.T) {
	w := encrypted(t, byNginx, &v1alpha1.DomainTLS{SecretName: "shop-tls", IssuerRef: &v1alpha1.IssuerReference{Name: "ca"}})
	w.foreign["shop-tls"] = true
	w.settle()
	want(t, "reason", w.domain(firstHost).Reason, ReasonNameConflict)
	want(t, "NameConflict", w.condition("NameConflict"), "True NameConflict")
	want(t, "revision", w.groupTraffic("1-x").Revision, 1)
}

// TestIngressTLS checks that Ingresses refer to the Secret with the certificate of a host.
func TestIngressTLS(t *testing.T) {
	w := encrypted(t, byNginx, &v1alpha1.DomainTLS{SecretName: "shop-tls"})
	w.policy.Spec.Domains[0].RecordTTLSeconds = 300
	w.settle()
	for _, o := range w.others {
		i := o.(*networkingv1.Ingress)
		var hosts []networkingv1.IngressTLS
		if !strings.HasSuffix(i.Name, "-canary") {
			hosts = []networkingv1.IngressTLS{{Hosts: []string{i.Spec.Rules[0].Host}, SecretName: "shop-tls"}}
		}
		same(t, "tls of "+i.Name, i.Spec.TLS, hosts)
		want(t, "ttl", i.Annotations["external-dns.kubernetes.io/ttl"]+" "+i.Annotations["external-dns.alpha.kubernetes.io/ttl"], "300 300")
	}
	want(t, "url", w.domain(firstHost).URL, "https://"+firstHost)
	want(t, "programmed", w.domain(firstHost).Programmed, true)
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].TLS.SecretName = "{{.ReleaseGroupName}}-tls" })
	w.settle()
	for _, o := range w.others {
		if i := o.(*networkingv1.Ingress); len(i.Spec.TLS) > 0 {
			want(t, "secret of "+i.Name, i.Spec.TLS[0].SecretName, strings.Split(i.Spec.Rules[0].Host, ".")[0]+"-tls")
		}
	}
}

// TestIngressClassMissing checks that a missing IngressClass is reported like a missing Gateway.
func TestIngressClassMissing(t *testing.T) {
	w := routedBy(t, byNginx)
	w.classes = nil
	w.settle()
	want(t, "ResolvedRefs", w.condition("ResolvedRefs"), "False "+reasonParentNotFound)
	want(t, "domain", w.policy.Status.Domains[0].Reason, reasonParentNotFound)
	want(t, "live routes", w.splitOf(shopHost), "1.0.0=90 1.1.0=10")
	w.lacks = map[string]bool{"IngressClass": true} // The manager has no permission to read IngressClasses.
	w.settle()
	want(t, "Ready", w.condition("Ready"), "True Programmed")
}

// TestWrongIngressClass checks that live Ingresses keep their class while the class in the
// specification does not exist, that they have the new weights after an abort, and that nothing is confirmed meanwhile.
func TestWrongIngressClass(t *testing.T) {
	w := routedBy(t, byNginx)
	classes := func() string {
		var out []string
		for _, o := range w.others {
			out = append(out, deref(o.(*networkingv1.Ingress).Spec.IngressClassName))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	want(t, "before", classes(), "nginx nginx")
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "ngnix", AnnotationPrefix: byNginx.Ingress.AnnotationPrefix}}
	})
	w.settle()
	want(t, "with a wrong name", classes(), "nginx nginx")
	want(t, "live routes", w.splitOf(shopHost), "1.0.0=90 1.1.0=10")
	want(t, "ResolvedRefs", w.condition("ResolvedRefs"), "False "+reasonParentNotFound)
	w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.settle()
	want(t, "after an abort", w.splitOf(shopHost), "1.0.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 1)
	w.classes["ngnix"] = true
	w.settle()
	want(t, "after the class is created", classes(), "ngnix")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
}

// TestApisixTLS checks that one ApisixTls contains all hosts that share a Secret.
func TestApisixTLS(t *testing.T) {
	w := encrypted(t, byAPISIX, &v1alpha1.DomainTLS{SecretName: "shop-tls"})
	w.policy.Spec.Domains[0].RecordTTLSeconds = 300
	w.settle()
	tls, ok := w.others[resources.TLSName("shop", "shop-tls")].(*apisix.ApisixTls)
	if !ok {
		t.Fatalf("no ApisixTls among %v", providers.Sorted(w.others))
	}
	same(t, "ApisixTls", tls.Spec, apisix.TLSSpec{Hosts: []string{firstHost, secondHost}, Secret: apisix.Secret{Name: "shop-tls", Namespace: "prod"}})
	want(t, "url", w.domain(firstHost).URL, "https://"+firstHost)
	want(t, "SettingsNotApplied", w.condition("SettingsNotApplied"), "True NotSupported")
	for _, o := range w.others {
		if r, ok := o.(*apisix.ApisixRoute); ok {
			want(t, "annotation without effect", r.Annotations["external-dns.kubernetes.io/ttl"], "")
		}
	}
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Provider, s.Domains[0].TLS = &byGateway, nil })
	w.settle()
	want(t, "TLS of the serving route", w.others[resources.TLSName("shop", "shop-tls")] != nil, true)
	w.now = w.now.Add(time.Hour)
	w.settle()
	want(t, "routes of the previous provider", len(w.others), 0)
}

// TestRecordTTL checks that hosts whose DNS records have different TTLs are in separate routes,
// because the TTL applies to a whole route.
func TestRecordTTL(t *testing.T) {
	w := encrypted(t, byGateway, nil)
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "a.example.com", RecordTTLSeconds: 60}, {Domain: "b.example.com"}, {Domain: "c.example.com", RecordTTLSeconds: 60}}
	w.settle()
	got := map[string]string{}
	for _, route := range w.routes {
		got[fmt.Sprint(route.Spec.Hostnames)] = route.Annotations["external-dns.kubernetes.io/ttl"] + " " + route.Annotations["external-dns.alpha.kubernetes.io/ttl"]
	}
	same(t, "records", got, map[string]string{"[a.example.com c.example.com]": "60 60", "[b.example.com]": " "})
}

// TestListenersOfTheGateway checks that the URL reflects the listener that serves a host, and that
// HTTPS is not reported as served before the listener has its certificate.
func TestListenersOfTheGateway(t *testing.T) {
	https := gatewayv1.Listener{Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType}
	bad := []gatewayv1.ListenerStatus{{Name: "https", Conditions: []metav1.Condition{
		{Type: "ResolvedRefs", Status: metav1.ConditionFalse, Reason: "InvalidCertificateRef", Message: "no such Secret.", ObservedGeneration: 1},
	}}}
	shut, other := https, https // The policy is not in the namespace of the Gateway.
	shut.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSame)}}
	other.AllowedRoutes = &gatewayv1.AllowedRoutes{Kinds: []gatewayv1.RouteGroupKind{{Kind: "GRPCRoute"}}}
	stale := slices.Clone(bad)
	stale[0].Conditions = slices.Clone(bad[0].Conditions)
	stale[0].Conditions[0].ObservedGeneration = 0
	conflicted := []gatewayv1.ListenerStatus{{Name: "https", Conditions: []metav1.Condition{
		{Type: "Conflicted", Status: metav1.ConditionTrue, Reason: "HostnameConflict", Message: "taken", ObservedGeneration: 1},
	}}}
	for name, tc := range map[string]struct {
		tls       *v1alpha1.DomainTLS
		listeners []gatewayv1.Listener
		status    []gatewayv1.ListenerStatus
		url       string
		reason    string
	}{
		"http only":                              {nil, nil, nil, "http://" + firstHost, ""},
		"http only, TLS requested":               {&v1alpha1.DomainTLS{}, nil, nil, "https://" + firstHost, reasonNoMatchingListener},
		"https":                                  {nil, []gatewayv1.Listener{https}, nil, "https://" + firstHost, ""},
		"https requested":                        {&v1alpha1.DomainTLS{Mode: v1alpha1.TLSGateway}, []gatewayv1.Listener{https}, nil, "https://" + firstHost, ""},
		"https without a certificate":            {nil, []gatewayv1.Listener{https}, bad, "http://" + firstHost, ""},
		"https requested, without a certificate": {&v1alpha1.DomainTLS{}, []gatewayv1.Listener{https}, bad, "https://" + firstHost, ReasonCertificateNotReady},
		"https for another namespace":            {nil, []gatewayv1.Listener{shut}, nil, "http://" + firstHost, ""},
		"https requested, another namespace":     {&v1alpha1.DomainTLS{}, []gatewayv1.Listener{shut}, nil, "https://" + firstHost, reasonNoMatchingListener},
		"https for another kind":                 {nil, []gatewayv1.Listener{other}, nil, "http://" + firstHost, ""},
		"https requested, another kind":          {&v1alpha1.DomainTLS{}, []gatewayv1.Listener{other}, nil, "https://" + firstHost, reasonNoMatchingListener},
		"status of an earlier generation":        {&v1alpha1.DomainTLS{}, []gatewayv1.Listener{https}, stale, "https://" + firstHost, ""},
		"https in conflict":                      {&v1alpha1.DomainTLS{}, []gatewayv1.Listener{https}, conflicted, "https://" + firstHost, ReasonListenerNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			w := encrypted(t, byGateway, tc.tls)
			g := w.gateways["infra/public"]
			g.Spec.Listeners = append(g.Spec.Listeners, tc.listeners...)
			g.Status.Listeners = tc.status
			w.settle()
			d := w.domain(firstHost)
			want(t, "url", d.URL, tc.url)
			want(t, "reason", d.Reason, tc.reason)
			want(t, "programmed", d.Programmed, tc.reason == "")
			want(t, "revision", w.groupTraffic("1-x").Revision, 1)
		})
	}
}

// TestRouteRefusedForItsCertificate checks that the message is about the certificate if a gateway
// rejects routes because their listener has no certificate.
func TestRouteRefusedForItsCertificate(t *testing.T) {
	w := encrypted(t, byGateway, &v1alpha1.DomainTLS{})
	g := w.gateways["infra/public"]
	g.Spec.Listeners[0] = gatewayv1.Listener{Name: "https", Port: 8443, Protocol: gatewayv1.HTTPSProtocolType}
	w.settle()
	want(t, "url", w.domain(firstHost).URL, "https://"+firstHost+":8443")
	g.Status.Listeners = []gatewayv1.ListenerStatus{{Name: "https", Conditions: []metav1.Condition{
		{Type: "ResolvedRefs", Status: metav1.ConditionFalse, Reason: "InvalidCertificateRef", Message: "secret not found", ObservedGeneration: 1},
	}}}
	for _, route := range w.routes {
		for i, p := range route.Status.Parents {
			route.Status.Parents[i] = answer(p.ParentRef, route.Generation, metav1.ConditionFalse, "NoMatchingParent")
		}
	}
	w.pass()
	want(t, "reason", w.domain(firstHost).Reason, ReasonCertificateNotReady)
	if m := w.domain(firstHost).Message; !strings.Contains(m, "secret not found") || strings.Contains(m, "sectionName") {
		t.Errorf("message: %s", m)
	}
}
