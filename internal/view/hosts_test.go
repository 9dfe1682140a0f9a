package view

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestWhyOfAHostWithTwoWildcards checks that the more specific of two wildcards applies to a host, as in a Gateway, whichever policy contains that wildcard.
func TestWhyOfAHostWithTwoWildcards(t *testing.T) {
	t.Parallel()
	policy := func(name, domain string) v1alpha1.NetworkPolicy {
		p := v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
		p.Status.Domains = []v1alpha1.DomainStatus{{Domain: domain, Programmed: true, Backends: []v1alpha1.DomainBackend{{Release: name, Version: name, Weight: 100}}}}
		return p
	}
	in := Input{NetworkPolicies: []v1alpha1.NetworkPolicy{policy("wide", "*.example.com"), policy("narrow", "*.shop.example.com"), policy("wider", "*.com")}}
	for host, want := range map[string]string{"a.shop.example.com": "narrow", "A.SHOP.example.com.": "narrow", "shop.example.com": "wide", "*.shop.example.com": "narrow"} {
		a, err := WhyHost(in, host, "/", time.Unix(0, 0))
		if err != nil || !strings.Contains(a.Summary, " is served by "+want+" (100%)") {
			t.Errorf("%s: %v, %q; want it served by %s", host, err, a.Summary, want)
		}
		if namespaces, _ := HostNamespaces(in.NetworkPolicies, host, "/"); len(namespaces) != 1 || namespaces[0] != want {
			t.Errorf("%s: namespaces %v, want %s", host, namespaces, want)
		}
	}
}

// TestWhyOfABlockedService checks that the answer about a service, like hlnr status, shows the cause that blocks the service, even though its active
// version is live.
func TestWhyOfABlockedService(t *testing.T) {
	t.Parallel()
	ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "ContainerNotFound", Message: "set spec.containerName"}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{pinnedGroup("1.x", "1.0.0", "1.1.0")}
	in := Input{Microservices: []v1alpha1.Microservice{ms}}
	if s := New(in, time.Unix(0, 0)).Services[0].State; s.Sentence != "set spec.containerName" {
		t.Fatalf("the state of the service: %+v", s)
	}
	for _, version := range []string{"1.0.0", "7.0.0"} {
		a, err := WhyVersion(in, "shop", "shop", version, time.Unix(0, 0))
		if want := (Line{"stalled", "ContainerNotFound: set spec.containerName", "Microservice shop/shop"}); err != nil || !slices.Contains(a.Lines, want) || a.Do != "set spec.containerName" {
			t.Errorf("%s: %v, %s %+v %s", version, err, a.Summary, a.Lines, a.Do)
		}
	}
}

// TestWhyOfAHostWithSeveralRoutes checks that the answer about a host is ambiguous only if several namespaces have the host.
func TestWhyOfAHostWithSeveralRoutes(t *testing.T) {
	t.Parallel()
	row := func(url, version string, programmed bool, reason string) v1alpha1.DomainStatus {
		return v1alpha1.DomainStatus{Domain: "shop.example.com", URL: url, Programmed: programmed, Reason: reason, Backends: []v1alpha1.DomainBackend{{Release: version, Version: version, Weight: 100}}}
	}
	policy := func(namespace, name string, rows ...v1alpha1.DomainStatus) v1alpha1.NetworkPolicy {
		p := v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Status.Domains = rows
		return p
	}
	const plain, tls = "http://shop.example.com", "tls://shop.example.com"
	http, passthrough := row(plain, "1.0.0", true, ""), row(tls, "2.0.0", true, "")
	down, conflict := row(plain, "1.0.0", false, "NotAccepted"), row(plain, "2.0.0", false, reasonDomainConflict)
	for name, c := range map[string]struct {
		scheme   string
		policies []v1alpha1.NetworkPolicy
		version  string // "" if the host is ambiguous
		also     []Line
	}{
		"HTTP and TLS":                     {"", []v1alpha1.NetworkPolicy{policy("shop", "shop", http, passthrough)}, "1.0.0", []Line{{"also", tls + ": programmed", "NetworkPolicy shop/shop"}}},
		"HTTP and TLS, http":               {"http", []v1alpha1.NetworkPolicy{policy("shop", "shop", passthrough, http)}, "1.0.0", nil},
		"HTTP and TLS, https":              {"https", []v1alpha1.NetworkPolicy{policy("shop", "shop", http, passthrough)}, "2.0.0", nil},
		"HTTP and TLS, unknown":            {"ftp", []v1alpha1.NetworkPolicy{policy("shop", "shop", passthrough, http)}, "2.0.0", []Line{{"also", plain + ": programmed", "NetworkPolicy shop/shop"}}},
		"listed twice":                     {"", []v1alpha1.NetworkPolicy{policy("shop", "shop", conflict, down)}, "1.0.0", nil},
		"an older policy has the host":     {"https", []v1alpha1.NetworkPolicy{policy("shop", "a", conflict), policy("shop", "b", down)}, "1.0.0", nil},
		"two policies conflict":            {"", []v1alpha1.NetworkPolicy{policy("shop", "a", conflict), policy("shop", "b", conflict)}, "2.0.0", []Line{{"also", plain + ": not programmed: DomainConflict", "NetworkPolicy shop/b"}}},
		"two namespaces":                   {"", []v1alpha1.NetworkPolicy{policy("shop", "a", http), policy("cart", "a", http)}, "", nil},
		"two namespaces, one has the host": {"", []v1alpha1.NetworkPolicy{policy("shop", "a", conflict), policy("cart", "a", down)}, "1.0.0", nil},
	} {
		a, err := WhyURL(Input{NetworkPolicies: c.policies}, c.scheme, "shop.example.com", "/", time.Unix(0, 0))
		var ambiguous *Ambiguous
		if c.version == "" {
			if !errors.As(err, &ambiguous) || len(ambiguous.Objects) != 2 {
				t.Errorf("%s: %v, want an ambiguous host", name, err)
			}
			continue
		}
		also := slices.DeleteFunc(slices.Clone(a.Lines), func(l Line) bool { return l.Name != "also" })
		if err != nil || !strings.Contains(a.Summary, c.version+" (100%)") || !slices.Equal(also, c.also) {
			t.Errorf("%s: %v, %q, %+v; want %s and %+v", name, err, a.Summary, also, c.version, c.also)
		}
	}
}
