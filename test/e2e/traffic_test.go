//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// gatewayAway is the phase in which requests may fail, because the gateway is not running.
const gatewayAway = "gateway not running"

// TestTraffic makes every kind of change to a service's traffic under load in every protocol. Each second, it
// sends 100 requests each over HTTP/1.1 and h2c, makes 20 gRPC calls, opens 20 connections each over TCP and
// TLS through the gateway, and sends 20 datagrams through the group's Service. No request fails, except while
// the gateway is not running. Datagrams in transit while the Service moves are another exception, and are
// counted separately: kube-proxy deletes the connection tracking entries of removed endpoints, so a response
// in transit is lost.
func TestTraffic(t *testing.T) {
	s := newService(t, "traffic").steps(pausing(10, 5*time.Second), asking("half", 50)).everyProtocol()
	// HTTP/1.1 has a separate policy, whose provider changes. The other protocols need another policy,
	// because listeners require a Gateway.
	web := s.secondPolicy("web", "web-{{.ReleaseGroupName}}.traffic.localhost")
	web.Spec.DrainDelay = v1alpha1.DurationOf(10 * time.Second)
	s.start("1.0.0")
	s.create(web)
	loads := s.everyLoad()
	moved := s.moves(appName)
	phase := func(name string) {
		t.Log(name)
		for _, l := range loads {
			l.Mark(name)
		}
	}
	sees := func(version string) {
		t.Helper()
		for _, l := range loads {
			s.sees(l, version)
		}
	}

	phase("canary 1.1.0")
	s.push("1.1.0")
	s.weight("1.1.0", 10)
	s.weight("1.1.0", 50)
	s.serves(loads[0], 3*time.Second)
	phase("promotion")
	s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
	s.active("1.1.0")
	sees("1.1.0")
	s.serves(loads[0], 8*time.Second) // Wait until the drain of 1.0.0 has ended.

	phase("abort")
	s.push("1.2.0")
	s.weight("1.2.0", 10)
	s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.2.0", v1alpha1.ReleaseError)
	sees("1.1.0")

	phase("pin")
	s.pin("1.0.0")
	s.active("1.0.0")
	sees("1.0.0")
	phase("unpin")
	s.pin("")
	s.active("1.1.0")
	sees("1.1.0")

	phase("manager restart during a canary")
	s.push("1.3.0")
	s.weight("1.3.0", 10)
	if err := new(killer).kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.weight("1.3.0", 50)
	s.decide("1.3.0", v1alpha1.DecisionContinue, "half")
	s.active("1.3.0")
	sees("1.3.0")

	phase("to Ingress")
	s.provider(web, &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "traefik"}})
	s.serves(loads[0], 10*time.Second)
	phase("back to the Gateway")
	s.provider(web, gateway("public", "infra"))
	s.serves(loads[0], 10*time.Second)

	phase("preview closed")
	closePreview(t)

	phase(gatewayAway)
	for _, l := range loads {
		awaitEarlier(t, l)
	}
	localcluster(t, "gateway-restart")
	for _, l := range loads {
		stable(t, l, 3*time.Second)
	}
	phase("gateway running again")
	s.serves(loads[0], 5*time.Second)
	sees("1.3.0")

	var reports []harness.Report
	for _, l := range loads {
		reports = append(reports, l.Stop())
	}
	if err := harness.WriteTable(os.Stdout, reports...); err != nil {
		t.Fatal(err)
	}
	moves := moved()
	for _, r := range reports {
		away, moving := 0, map[string]int{}
		for _, f := range r.Failures {
			if r.Host == datagrams && near(moves, f.At) {
				moving[f.Phase]++
			}
		}
		for _, p := range r.Phases {
			if p.Name == gatewayAway {
				away = p.Failed
			} else if p.Failed > moving[p.Name] {
				t.Errorf("%s: %d of %d requests failed in %q", r.Host, p.Failed-moving[p.Name], p.Sent, p.Name)
			}
		}
		t.Logf("%s: %d of %d requests failed, and %d while the gateway was not running", r.Host, r.Total.Failed-away, r.Total.Sent, away)
		if r.Host == datagrams {
			t.Logf("%s: requests that failed while the Service moved, by phase: %v; the Service moved %d times", r.Host, moving, len(moves))
		}
		if r.Total.Sent == 0 {
			t.Errorf("%s: nothing was sent", r.Host)
		}
	}
}

// datagrams is the name of the load over UDP.
const datagrams = "UDP"

// near reports whether a time is within half a second of one of the given times.
func near(all []time.Time, at time.Time) bool {
	return slices.ContainsFunc(all, func(t time.Time) bool { return at.Sub(t).Abs() < 500*time.Millisecond })
}

// moves starts watching a Service. The returned function returns the times at which the Service moved to
// other pods.
func (s *service) moves(name string) func() []time.Time {
	s.t.Helper()
	w, err := env.Client.Watch(s.t.Context(), &corev1.ServiceList{}, client.InNamespace(s.namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan []time.Time, 1)
	go func() {
		var times []time.Time
		var last map[string]string
		for e := range w.ResultChan() {
			if svc, ok := e.Object.(*corev1.Service); ok {
				if last != nil && !maps.Equal(last, svc.Spec.Selector) {
					times = append(times, time.Now())
				}
				last = svc.Spec.Selector
			}
		}
		ended <- times
	}()
	return func() []time.Time {
		w.Stop()
		return <-ended
	}
}

// everyProtocol adds a port for each protocol to the policy, with domains, and a listener for TCP. UDP uses
// the group's Service, because this gateway does not support UDPRoutes.
func (s *service) everyProtocol() *service {
	target := func(port int32) *intstr.IntOrString { p := intstr.FromInt32(port); return &p }
	s.network.Spec.Ports = []v1alpha1.NetworkPort{
		{Name: "http", Port: 80, TargetPort: target(8080), AppProtocol: "kubernetes.io/h2c"},
		{Name: "grpc", Port: 81, TargetPort: target(8081), Protocol: v1alpha1.ProtocolGRPC},
		{Name: "tls", Port: 443, TargetPort: target(8443), Protocol: v1alpha1.ProtocolTLS},
		{Name: "tcp", Port: 9000, Protocol: v1alpha1.ProtocolTCP},
		{Name: "udp", Port: 9000, Protocol: v1alpha1.ProtocolUDP},
	}
	s.network.Spec.Domains = []v1alpha1.Domain{
		{Domain: "{{.ReleaseGroupName}}." + s.name + ".localhost", Port: "http"},
		{Domain: "grpc-{{.ReleaseGroupName}}." + s.name + ".localhost", Port: "grpc"},
		{Domain: "tls-{{.ReleaseGroupName}}." + s.name + ".localhost", Port: "tls", ParentRefs: []v1alpha1.ParentReference{edge("tls")}},
	}
	s.network.Spec.Listeners = []v1alpha1.Listener{{Name: "lines", Port: "tcp", ParentRef: edge("tcp-2")}}
	return s
}

// edge returns a listener of the Gateway for protocols other than HTTP.
func edge(listener string) v1alpha1.ParentReference {
	return v1alpha1.ParentReference{Namespace: "infra", Name: "edge", SectionName: listener}
}

// secondPolicy describes another policy of the Microservice, with one port for HTTP/1.1 and one domain.
func (s *service) secondPolicy(name, domain string) *v1alpha1.NetworkPolicy {
	target := intstr.FromInt32(8080)
	return &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: v1alpha1.NetworkPolicySpec{
		MicroserviceRef: &v1alpha1.Reference{Name: appName},
		Ports:           []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: &target}},
		Provider:        gateway("public", "infra"),
		Domains:         []v1alpha1.Domain{{Domain: domain}},
	}}
}

// everyLoad starts a load for each protocol. The first load uses HTTP/1.1.
func (s *service) everyLoad() []*harness.Load {
	s.t.Helper()
	web := "web-" + s.host()
	answers(s.t, web)
	answers(s.t, s.host())
	var group corev1.Service
	if err := env.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: appName}, &group); err != nil {
		s.t.Fatal(err)
	}
	inside := func(port int) string { return net.JoinHostPort(env.GatewayInternal, strconv.Itoa(port)) }
	var loads []*harness.Load
	for _, c := range []harness.LoadConfig{
		{Protocol: harness.HTTP1, Host: web, Gateway: env.Gateway, Rate: 100},
		{Protocol: harness.H2C, Host: s.host(), Gateway: env.Gateway, Rate: 100},
		{Protocol: harness.GRPC, Host: "grpc-" + s.host(), Gateway: env.Gateway, Rate: 20},
		{Protocol: harness.TLS, Host: "tls-" + s.host(), Gateway: inside(8444), Network: env.Network(), Rate: 20, NoKeepAlive: true},
		{Protocol: harness.TCP, Host: "TCP", Gateway: inside(9001), Network: env.Network(), Rate: 20},
		{Protocol: harness.UDP, Host: datagrams, Gateway: net.JoinHostPort(group.Spec.ClusterIP, "9000"), Network: env.Network(), Rate: 20},
	} {
		c.Duration = time.Hour
		s.ready(c)
		l, err := harness.StartLoad(context.Background(), c)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { l.Stop() })
		loads = append(loads, l)
	}
	return loads
}

// ready waits until the service has responded to a request like those of a load.
func (s *service) ready(c harness.LoadConfig) {
	s.t.Helper()
	c.Rate, c.Count, c.Timeout = 10, 1, 2*time.Second
	wait(s.t, c.Host+" to answer", func(ctx context.Context) (bool, string, error) {
		l, err := harness.StartLoad(ctx, c)
		if err != nil {
			return false, "", harness.Permanent(err)
		}
		report := l.Wait()
		return report.Total.Answered == 1, fmt.Sprint(report.Failures), nil
	})
}

// provider changes a policy's provider, and waits until the policy's domains are programmed with the new
// provider and nothing from the previous provider remains.
func (s *service) provider(p *v1alpha1.NetworkPolicy, to *v1alpha1.NetworkProvider) {
	s.t.Helper()
	change(s.t, p, func(p *v1alpha1.NetworkPolicy) { p.Spec.Provider = to })
	generation := p.Generation
	mine := []client.ListOption{client.InNamespace(p.Namespace), client.MatchingLabels{v1alpha1.LabelPolicy: p.Name}}
	wait(s.t, "the provider to be changed", func(ctx context.Context) (bool, string, error) {
		var routes gatewayv1.HTTPRouteList
		var ingresses networkingv1.IngressList
		if err := errors.Join(env.Client.List(ctx, &routes, mine...), env.Client.List(ctx, &ingresses, mine...)); err != nil {
			return false, "", err
		}
		if (len(routes.Items) > 0) != (to.Gateway != nil) || (len(ingresses.Items) > 0) != (to.Ingress != nil) {
			return false, fmt.Sprintf("%d HTTPRoutes, %d Ingresses", len(routes.Items), len(ingresses.Items)), nil
		}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return false, "", err
		}
		for _, d := range p.Status.Domains {
			if !d.Programmed {
				return false, fmt.Sprintf("%s: %s %s", d.Domain, d.Reason, d.Message), nil
			}
		}
		return p.Status.ObservedGeneration >= generation && len(p.Status.Domains) > 0, "not observed", nil
	})
}

// closePreview ends a preview. The preview responds to requests until its host has no route, so no request
// reaches a terminating pod.
func closePreview(t *testing.T) {
	s := newService(t, "closing")
	h := newHub(t, "")
	repo, n, host := s.openPreview(h)
	l, err := harness.StartLoad(t.Context(), harness.LoadConfig{Gateway: env.Gateway, Host: host, Rate: 50, Duration: 5 * time.Minute, KeepFailures: 50 * 300})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop() })
	s.serves(l, 2*time.Second)
	l.Mark("closed")
	repo.Close(n, true)
	s.until("the preview to be removed", func(ms *v1alpha1.Microservice) (bool, string) {
		return len(ms.Status.ReleaseGroups) == 0, fmt.Sprintf("%d groups", len(ms.Status.ReleaseGroups))
	})
	report, other := l.Stop(), 0
	for _, f := range report.Failures {
		if f.Status != http.StatusNotFound {
			other++
			t.Errorf("a request to the preview got neither a response from it nor 404: %+v", f)
		}
	}
	t.Logf("a preview that is being closed: of %d requests, %d were answered, %d got 404, and %d failed otherwise", report.Total.Sent, report.Total.Answered, report.Total.Failed-other, other)
}
