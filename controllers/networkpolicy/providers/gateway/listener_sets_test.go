package gateway

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// fullSets returns a route in which each host has its own listener.
func fullSets() providers.Route {
	r := providers.Route{Name: "shop", Path: "/", Port: 80, TLS: map[string]providers.TLS{}}
	for i := range providers.MaxHostnames {
		host := fmt.Sprintf("h%02d.example.com", i)
		r.Hostnames = append(r.Hostnames, host)
		r.TLS[host] = providers.TLS{Mode: v1alpha1.TLSListenerSet, Secret: "shop-tls", Port: 443}
	}
	return r
}

// TestParentsFit replaces a Gateway of a route that has the maximum number of ListenerSets: the
// route keeps as many of the previous parents as fit, in addition to all new parents.
func TestParentsFit(t *testing.T) {
	p, r := policy(), fullSets()
	refs := func(names ...string) (out []v1alpha1.ParentReference) {
		for _, name := range names {
			out = append(out, v1alpha1.ParentReference{Name: name})
		}
		return out
	}
	p.Spec.Provider.Gateway.ParentRefs = refs("a", "b")
	before := see(p).Build(r)[0]
	if n := len(before.(*gatewayv1.HTTPRoute).Spec.ParentRefs); n != maxParents {
		t.Fatalf("%d parents, want %d", n, maxParents)
	}
	p.Spec.Provider.Gateway.ParentRefs = refs("b", "c")
	parents := see(p, before).Build(r)[0].(*gatewayv1.HTTPRoute).Spec.ParentRefs
	if len(parents) != maxParents {
		t.Errorf("%d parents, want %d", len(parents), maxParents)
	}
	named := map[gatewayv1.ObjectName]bool{}
	for _, ref := range parents {
		named[ref.Name] = true
	}
	for _, s := range providers.SharedOf(see(p), []providers.Route{r}) {
		if !named[gatewayv1.ObjectName(s.GetName())] {
			t.Errorf("ListenerSet %s is not a parent", s.GetName())
		}
	}
	p.Spec.Provider.Gateway.ParentRefs = refs("b")
	if n := len(see(p, before).Build(r)[0].(*gatewayv1.HTTPRoute).Spec.ParentRefs); n != maxParents {
		t.Errorf("%d parents when all previous parents fit, want %d", n, maxParents)
	}
}

// TestListenerProblem checks which problems a listener's conditions show.
func TestListenerProblem(t *testing.T) {
	condition := func(kind, reason string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "reported.", ObservedGeneration: 3}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		reason     string
		message    string
	}{
		"no conditions":       {nil, "", ""},
		"no problem":          {[]metav1.Condition{condition("Accepted", "Accepted", "True"), condition("Programmed", "Programmed", "True"), condition("Conflicted", "NoConflicts", "False")}, "", ""},
		"unknown":             {[]metav1.Condition{condition("Programmed", "Pending", "Unknown")}, "", ""},
		"conflict":            {[]metav1.Condition{condition("Conflicted", "HostnameConflict", "True")}, providers.ReasonListenerNotReady, "it is not ready: HostnameConflict: reported: see its status"},
		"no Secret":           {[]metav1.Condition{condition("ResolvedRefs", "InvalidCertificateRef", "False"), condition("Programmed", "Invalid", "False")}, providers.ReasonCertificateNotReady, "it is not ready: InvalidCertificateRef: reported: check that the Secret exists, has type kubernetes.io/tls and contains a certificate with its key"},
		"no grant":            {[]metav1.Condition{condition("ResolvedRefs", "RefNotPermitted", "False")}, providers.ReasonCertificateNotReady, "it is not ready: RefNotPermitted: reported: in the namespace of the Secret, create a ReferenceGrant that permits the reference"},
		"invalid route kinds": {[]metav1.Condition{condition("ResolvedRefs", "InvalidRouteKinds", "False")}, providers.ReasonListenerNotReady, "it is not ready: InvalidRouteKinds: reported: see its status"},
		"port unavailable":    {[]metav1.Condition{condition("Accepted", "PortUnavailable", "False")}, providers.ReasonListenerNotReady, "it is not ready: PortUnavailable: reported: see its status"},
	} {
		t.Run(name, func(t *testing.T) {
			var got providers.Problem
			if p := listenerProblem(tc.conditions, 3, "it"); p != nil {
				got = *p
			}
			if want := (providers.Problem{Reason: tc.reason, Message: tc.message}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if p := listenerProblem(tc.conditions, 4, "it"); p != nil {
				t.Errorf("conditions of an earlier generation are not ignored: %+v", p)
			}
		})
	}
}

// TestListenersOfOtherClients checks that a listener that another client adds to a ListenerSet is neither probed nor used to determine the certificate of
// the host.
func TestListenersOfOtherClients(t *testing.T) {
	t.Parallel()
	host := gatewayv1.Hostname("shop.example.com")
	listener := func(name gatewayv1.SectionName, secret gatewayv1.ObjectName) gatewayv1.ListenerEntry {
		return gatewayv1.ListenerEntry{Name: name, Hostname: &host, Port: 443, TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: secret}}}}
	}
	set := &gatewayv1.ListenerSet{Spec: gatewayv1.ListenerSetSpec{Listeners: []gatewayv1.ListenerEntry{listener("foreign", "other"), listener(listenerName, "shop-tls")}}}
	if got := see(policy(), set).(*view).LiveTLS(string(host)); got == nil || got.Secret != "shop-tls" {
		t.Errorf("certificate %+v", got)
	}
	if l := ownListener(set); l == nil || l.Name != listenerName {
		t.Errorf("own listener %+v", l)
	}
	set.Spec.Listeners = set.Spec.Listeners[:1]
	if l := ownListener(set); l != nil {
		t.Errorf("own listener %+v", l)
	}
}
