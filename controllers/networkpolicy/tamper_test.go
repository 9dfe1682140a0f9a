package networkpolicy

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/test/await"
)

// TestServerFixesTampering edits a route or Service manually so that it would route requests to
// other releases, and waits until the controller reverts the edit.
func TestServerFixesTampering(t *testing.T) {
	for name, edit := range map[string]func(*gatewayv1.HTTPRoute){
		"filter": func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: &gatewayv1.HTTPHeaderFilter{Remove: []string{"x"}}}}
		},
		"match": func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].Matches[0].Headers = []gatewayv1.HTTPHeaderMatch{{Name: "never", Value: "sent"}}
		},
		"timeout": func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].Timeouts = &gatewayv1.HTTPRouteTimeouts{Request: new(gatewayv1.Duration("1ms"))}
		},
		"listener": func(r *gatewayv1.HTTPRoute) { r.Spec.ParentRefs[0].SectionName = new(gatewayv1.SectionName("web")) },
		"port":     func(r *gatewayv1.HTTPRoute) { r.Spec.ParentRefs[0].Port = new(gatewayv1.PortNumber(80)) },
		"hostname": func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = append(r.Spec.Hostnames, "other.example.com") },
		"weight":   func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].BackendRefs[0].Weight = new(int32(0)) },
		"labels":   func(r *gatewayv1.HTTPRoute) { r.Labels = nil },
	} {
		t.Run("route's "+name, func(t *testing.T) {
			t.Parallel()
			tamper(t, func(p *place) client.Object { return p.route() }, func(o client.Object) { edit(o.(*gatewayv1.HTTPRoute)) },
				func(o client.Object) string {
					r := o.(*gatewayv1.HTTPRoute)
					return mustJSON(r.Spec) + mustJSON(r.Labels)
				})
		})
	}
	for name, edit := range map[string]func(*corev1.Service){
		"selector":                 func(s *corev1.Service) { s.Spec.Selector["app"] = "none" },
		"publishNotReadyAddresses": func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
		"targetPort":               func(s *corev1.Service) { s.Spec.Ports[0].TargetPort.IntVal = 1 },
	} {
		t.Run("Service's "+name, func(t *testing.T) {
			t.Parallel()
			tamper(t, func(p *place) client.Object {
				s := &corev1.Service{}
				p.get(resources.ReleaseServiceName("shop", "shop", "a"), s)
				return s
			}, func(o client.Object) { edit(o.(*corev1.Service)) }, func(o client.Object) string { return mustJSON(o.(*corev1.Service).Spec) })
		})
	}
}

func tamper(t *testing.T, read func(*place) client.Object, edit func(client.Object), sum func(client.Object) string) {
	t.Helper()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.policy("shop", p.namespace+".tamper.example.com")
	p.pod("a")
	p.eventually("shop", "confirmed", confirmed("1-x", 1, "a"))
	o := read(p)
	before := sum(o)
	edit(o)
	if err := server.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(context.Context) error {
		if now := sum(read(p)); now != before {
			return fmt.Errorf("not reverted: %s, want %s", now, before)
		}
		return nil
	})
}

// TestServerClaimsNeedARoute checks that an older policy whose host no Gateway serves does not
// prevent a younger policy from using the host.
func TestServerClaimsNeedARoute(t *testing.T) {
	for name, change := range map[string]struct {
		pods   int
		policy func(*v1alpha1.NetworkPolicy)
	}{
		"rejected by the Gateway": {1, func(p *v1alpha1.NetworkPolicy) { p.Spec.Provider.Gateway.ParentRefs[0].SectionName = refusedSection }},
		"without endpoints":       {0, func(*v1alpha1.NetworkPolicy) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := newPlace(t), newPlace(t)
			host := first.namespace + ".claim.example.com"
			for _, p := range []*place{first, second} {
				p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
			}
			for range change.pods {
				first.pod("a")
			}
			second.pod("a")
			first.policy("shop", host, change.policy)
			older := first.eventually("shop", "reported", func(p *v1alpha1.NetworkPolicy) bool {
				return len(p.Status.Domains) > 0 && p.Status.Domains[0].Reason != ""
			})
			time.Sleep(time.Until(older.CreationTimestamp.Add(time.Second))) // Creation timestamps have a resolution of one second.
			second.policy("shop", host)
			second.eventually("shop", "the only served policy", has("Ready", "Programmed"))
		})
	}
}
