package networkpolicy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// TestChangedClaimEnqueuesOtherPolicies checks that a younger policy is enqueued whenever an older policy claims or
// releases a host that both policies specify.
func TestChangedClaimEnqueuesOtherPolicies(t *testing.T) {
	at := func(age time.Duration, name string) *v1alpha1.NetworkPolicy {
		p := newWorld(t).Policy.DeepCopy()
		p.Name, p.UID = name, "uid-"+p.UID+"-"
		p.UID += "x"
		p.Namespace = name
		p.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
		p.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}}}
		p.Spec.Domains = []v1alpha1.Domain{{Domain: "www.example.com", Port: "http"}}
		return p
	}
	younger := at(0, "younger")
	younger.UID = "younger"
	older := at(time.Hour, "older")
	older.UID = "older"
	older.Status.Domains = []v1alpha1.DomainStatus{{Domain: "www.example.com", URL: "http://www.example.com", Programmed: true}}
	claims := func(o *v1alpha1.NetworkPolicy) int {
		f := &traffic.Observed{Policy: younger}
		f.SetViews(providers.Input{Policy: younger})
		return len(traffic.ClaimsOf(f, []v1alpha1.NetworkPolicy{*o}))
	}
	for name, test := range map[string]struct {
		before, after func(p *v1alpha1.NetworkPolicy)
	}{
		"the domain leaves this Gateway": {func(p *v1alpha1.NetworkPolicy) {
			p.Spec.Provider.Gateway.ParentRefs[0].Name = "internal"
			p.Spec.Domains[0].ParentRefs = []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}
		}, func(p *v1alpha1.NetworkPolicy) {
			p.Generation++
			p.Spec.Domains[0].ParentRefs = nil // The status does not change: the route to the other Gateway is pending, and then programmed.
		}},
		"the domain moves to this Gateway": {func(p *v1alpha1.NetworkPolicy) {
			p.Spec.Provider.Gateway.ParentRefs[0].Name = "internal"
		}, func(p *v1alpha1.NetworkPolicy) {
			p.Generation++
			p.Spec.Domains[0].ParentRefs = []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}
		}},
		"a domain without a certificate loses its Gateway": {func(p *v1alpha1.NetworkPolicy) {
			p.Status.Domains[0].Programmed, p.Status.Domains[0].Reason = false, traffic.ReasonCertificateNotReady
		}, func(p *v1alpha1.NetworkPolicy) {
			p.Status.Domains[0].Programmed, p.Status.Domains[0].Reason = false, "ParentNotFound"
		}},
		"a domain that was not accepted waits for its certificate": {func(p *v1alpha1.NetworkPolicy) {
			p.Status.Domains[0].Programmed, p.Status.Domains[0].Reason = false, "ParentNotFound"
		}, func(p *v1alpha1.NetworkPolicy) {
			p.Status.Domains[0].Programmed, p.Status.Domains[0].Reason = false, traffic.ReasonCertificateNotReady
		}},
	} {
		t.Run(name, func(t *testing.T) {
			old := older.DeepCopy()
			if test.before != nil {
				test.before(old)
			}
			next := old.DeepCopy()
			test.after(next)
			was, is := claims(old), claims(next)
			if enqueued := claimsChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: next}); was != is && !enqueued {
				t.Errorf("other policies claim %d hosts, then %d, but the younger policy is not enqueued", was, is)
			}
		})
	}
}
