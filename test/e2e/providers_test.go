//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// switchDrain is the drain delay for a change of the provider.
const switchDrain = 15 * time.Second

// TestProviders moves a service from one provider to the next, each time in the middle of a canary: from the
// Gateway to plain Ingresses, to only its Services, and back. One load uses the service's domain while the
// domain exists, and another load uses its Service all the time. No request fails, and nothing from a
// previous provider remains.
func TestProviders(t *testing.T) {
	s := newService(t, "providers").steps(pausing(10, 3*time.Second), asking("half", 50))
	s.network.Spec.DrainDelay = v1alpha1.DurationOf(switchDrain)
	domains := s.network.Spec.Domains
	s.start("1.0.0")
	var group corev1.Service
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: appName}, &group); err != nil {
		t.Fatal(err)
	}
	inside := harness.LoadConfig{Gateway: net.JoinHostPort(group.Spec.ClusterIP, "80"), Network: env.Network(), Host: "Service", Rate: 50, Duration: time.Hour,
		NoKeepAlive: true} // A reused connection stays with its pod, and the retained release has a pod.
	s.ready(inside)
	service, err := harness.StartLoad(context.Background(), inside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { service.Stop() })
	domain := s.load(50, true)
	both := func(phase string) {
		t.Log(phase)
		service.Mark(phase)
		domain.Mark(phase)
	}
	canary := func(version string) {
		t.Helper()
		both("canary " + version)
		s.push(version)
		s.weight(version, 50)
	}
	promote := func(version string) {
		t.Helper()
		both("promotion of " + version)
		s.decide(version, v1alpha1.DecisionContinue, "half")
		s.active(version)
		s.sees(service, version)
	}
	abort := func(version, active string) {
		t.Helper()
		both("abort of " + version)
		s.decide(version, v1alpha1.DecisionDeprecate, "")
		s.status(version, v1alpha1.ReleaseError)
		s.confirmed()
		s.sees(service, active)
	}

	canary("1.1.0")
	promote("1.1.0")
	s.sees(domain, "1.1.0")
	canary("1.2.0")
	abort("1.2.0", "1.1.0")

	canary("1.3.0")
	both("from the Gateway to Ingresses")
	s.goes(&v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "traefik"}}, domains)
	s.hasRoutes(1, 1)
	s.sees(domain, "1.1.0") // Traffic that cannot be split moves as a whole, even on the previous routes.
	promote("1.3.0")
	s.drained()
	s.hasRoutes(0, 1)
	s.sees(domain, "1.3.0")
	s.serves(domain, 3*time.Second)
	canary("1.4.0")
	abort("1.4.0", "1.3.0")
	canary("1.5.0")
	promote("1.5.0")
	s.sees(domain, "1.5.0")

	both("back in the middle")
	s.goes(gateway("public", "infra"), domains)
	s.hasRoutes(1, 1)
	s.goes(&v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "traefik"}}, domains)
	s.drained()
	s.hasRoutes(0, 1)

	canary("1.6.0")
	both("from Ingresses to Services")
	s.goes(nil, nil)
	s.hasRoutes(0, 1)
	promote("1.6.0")
	s.sees(domain, "1.6.0")
	while := domain.Stop() // The domain is removed after the drain.
	s.drained()
	s.hasRoutes(0, 0)
	s.push("1.7.0")
	s.weight("1.7.0", 50)
	s.decide("1.7.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.7.0", v1alpha1.ReleaseError)

	service.Mark("from Services to the Gateway")
	s.goes(gateway("public", "infra"), domains)
	domain = s.load(50, true)
	canary("1.8.0")
	promote("1.8.0")
	s.sees(domain, "1.8.0")
	s.serves(domain, 8*time.Second) // Wait until the drain of 1.6.0 has ended.
	s.hasRoutes(1, 0)

	if while.Total.Failed > 0 || while.Total.Sent == 0 {
		t.Errorf("%d of %d requests to the first domain failed: %v", while.Total.Failed, while.Total.Sent, while.Failures)
	}
	t.Logf("%d of %d requests failed until the domain was removed", while.Total.Failed, while.Total.Sent)
	verdict(t, domain, service)
}

// goes changes the provider and the domains in the service's policy, and waits until the next provider serves
// everything that the previous provider served.
func (s *service) goes(to *v1alpha1.NetworkProvider, domains []v1alpha1.Domain) {
	s.t.Helper()
	change(s.t, s.network, func(p *v1alpha1.NetworkPolicy) { p.Spec.Provider, p.Spec.Domains = to, domains })
	s.switched("the next provider to serve", func(p *v1alpha1.NetworkPolicy) bool {
		for _, d := range p.Status.Domains {
			if !d.Programmed {
				return false
			}
		}
		return len(p.Status.Domains) == len(domains) && (p.Status.ProviderSwitch == nil || p.Status.ProviderSwitch.ReplacedTime != nil)
	})
}

// drained waits until nothing from the previous provider remains.
func (s *service) drained() {
	s.t.Helper()
	s.switched("the previous provider's objects to be removed", func(p *v1alpha1.NetworkPolicy) bool { return p.Status.ProviderSwitch == nil })
}

func (s *service) switched(what string, done func(*v1alpha1.NetworkPolicy) bool) {
	s.t.Helper()
	wait(s.t, what, func(ctx context.Context) (bool, string, error) {
		var p v1alpha1.NetworkPolicy
		if err := env.Client.Get(ctx, s.key(), &p); err != nil {
			return false, "", err
		}
		var texts []string
		for _, c := range p.Status.Conditions {
			texts = append(texts, c.Type+": "+c.Message)
		}
		return p.Status.ObservedGeneration == p.Generation && done(&p), strings.Join(texts, "; "), nil
	})
}

// hasRoutes checks how many HTTPRoutes and Ingresses the service has.
func (s *service) hasRoutes(gatewayRoutes, ingresses int) {
	s.t.Helper()
	mine := []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelPolicy: s.app}}
	var routes gatewayv1.HTTPRouteList
	var ing networkingv1.IngressList
	if err := errors.Join(env.Client.List(s.t.Context(), &routes, mine...), env.Client.List(s.t.Context(), &ing, mine...)); err != nil {
		s.t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%d HTTPRoutes, %d Ingresses", len(routes.Items), len(ing.Items)), fmt.Sprintf("%d HTTPRoutes, %d Ingresses", gatewayRoutes, ingresses); got != want {
		s.t.Errorf("%s, want %s", got, want)
	}
}
