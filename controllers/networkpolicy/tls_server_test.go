package networkpolicy

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// TestServerTLS tests a domain that has a listener and its own certificate. The ListenerSet and
// Certificate kinds are installed while the manager is running. The test acts in place of the
// gateway and cert-manager.
func TestServerTLS(t *testing.T) {
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	host := p.namespace + ".tls.example.com"
	p.policy("shop", host, func(h *v1alpha1.NetworkPolicy) { h.Spec.Domains[0].TLS = ownListener("shop-tls") })
	p.eventually("shop", "without ListenerSets", has("Accepted", traffic.ReasonGatewayAPIMissing))

	newest, err := apiserver.GatewayAPI("v1.6.3", "standard")
	if err != nil {
		t.Fatal(err)
	}
	issued, err := apiserver.CertManager()
	if err != nil {
		t.Fatal(err)
	}
	installed := func(file string) {
		t.Helper()
		if _, err := envtest.InstallCRDs(serverConfig, envtest.CRDInstallOptions{Paths: []string{file}, ErrorIfPathMissing: true, MaxTime: await.Limit}); err != nil {
			t.Fatal(err)
		}
	}
	installed(filepath.Join(newest, "gateway.networking.k8s.io_listenersets.yaml"))
	p.eventually("shop", "without Certificates", has("Accepted", providers.ReasonProviderAPIMissing))
	installed(filepath.Join(issued, "cert-manager.io_certificates.yaml"))
	p.eventually("shop", "without a certificate", has("Ready", traffic.ReasonCertificateNotReady))

	// Nothing is written while the policy is blocked by cert-manager or the gateway.
	p.eventually("shop", "the group's revision", confirmed("1-x", 1, "a"))
	p.quiet()
	answer := func(o client.Object, conditions *[]metav1.Condition, reported ...metav1.Condition) {
		t.Helper()
		for _, c := range reported {
			c.ObservedGeneration, c.Message = o.GetGeneration(), "reported"
			meta.SetStatusCondition(conditions, c)
		}
		if err := server.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	certificate := &certmanager.Certificate{}
	p.get("shop-tls", certificate)
	answer(certificate, &certificate.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "DoesNotExist"})
	p.eventually("shop", "the report from cert-manager", func(h *v1alpha1.NetworkPolicy) bool {
		return strings.Contains(h.Status.Domains[0].Message, "DoesNotExist: reported")
	})
	answer(certificate, &certificate.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"})
	p.eventually("shop", "the listener", has("Ready", traffic.ReasonListenerNotReady))

	set := &gatewayv1.ListenerSet{}
	p.get(resources.ListenerSetName("shop", "infra/public", host, 443), set)
	set.Status.Listeners = []gatewayv1.ListenerEntryStatus{{Name: "https", Conditions: []metav1.Condition{}}}
	answer(set, &set.Status.Listeners[0].Conditions,
		metav1.Condition{Type: "ResolvedRefs", Status: metav1.ConditionFalse, Reason: "InvalidCertificateRef"}, metav1.Condition{Type: "Programmed", Status: metav1.ConditionFalse, Reason: "Invalid"})
	p.eventually("shop", "the listener's certificate", has("Ready", traffic.ReasonCertificateNotReady))
	answer(set, &set.Status.Listeners[0].Conditions,
		metav1.Condition{Type: "ResolvedRefs", Status: metav1.ConditionTrue, Reason: "ResolvedRefs"}, metav1.Condition{Type: "Programmed", Status: metav1.ConditionTrue, Reason: "Programmed"})
	now := p.eventually("shop", "ready", has("Ready", "Programmed"))
	want(t, "url", now.Status.URL, "https://"+host)
	p.quiet()

	p.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	p.pod("b")
	p.eventually("shop", "a canary on the same listener", confirmed("1-x", 2, "a", "b"))
	for _, o := range []client.Object{certificate, set} {
		before := o.GetResourceVersion()
		p.get(o.GetName(), o)
		want(t, "resource version of an unchanged object", o.GetResourceVersion(), before)
	}
}
