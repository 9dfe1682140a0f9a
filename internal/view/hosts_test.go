package view

import (
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
