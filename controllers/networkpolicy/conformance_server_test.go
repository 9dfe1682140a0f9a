package networkpolicy

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// TestServerKindsInstalledLater installs the route kinds while the manager is running, and then runs the suite for
// every provider and protocol. It checks that the API server accepts the objects that the controller writes.
func TestServerKindsInstalledLater(t *testing.T) {
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", p.namespace+".later.example.com", func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Ports = append(h.Spec.Ports, v1alpha1.NetworkPort{Name: "udp", Port: 53, Protocol: v1alpha1.ProtocolUDP})
		h.Spec.Domains[0].Port = "http"
		h.Spec.Listeners = []v1alpha1.Listener{listener("udp", "first")}
	})
	now := p.eventually("shop", "without UDPRoute", has("Accepted", traffic.ReasonGatewayAPIMissing))
	want(t, "reason", now.Status.Listeners[0].Reason, traffic.ReasonGatewayAPIMissing)
	p.eventually("shop", "the domain next to it", func(p *v1alpha1.NetworkPolicy) bool { return p.Status.Domains[0].Programmed })

	p.policy("other", p.namespace+".apisix.example.com", func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Provider = &v1alpha1.NetworkProvider{APISIX: &v1alpha1.APISIXProvider{}}
	})
	now = p.eventually("other", "without ApisixRoute", has("Accepted", providers.ReasonProviderAPIMissing))
	want(t, "reason", now.Status.Domains[0].Reason, providers.ReasonProviderAPIMissing)

	dir, err := apiserver.GatewayAPI(apiserver.GatewayAPIVersion, "experimental")
	if err != nil {
		t.Fatal(err)
	}
	var definitions []string
	for _, kind := range []string{"tlsroutes", "tcproutes", "udproutes"} {
		definitions = append(definitions, filepath.Join(dir, "gateway.networking.k8s.io_"+kind+".yaml"))
	}
	if dir, err = apiserver.APISIX(); err != nil {
		t.Fatal(err)
	}
	definitions = append(definitions, filepath.Join(dir, "ApisixRoute.yaml"))
	if _, err := envtest.InstallCRDs(serverConfig, envtest.CRDInstallOptions{Paths: definitions, ErrorIfPathMissing: true, MaxTime: await.Limit}); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "with UDPRoute", has("Ready", "Programmed"))
	p.eventually("other", "with ApisixRoute", has("Ready", "Programmed"))
	conditionIsRemoved(t, p)

	known := allKnown() // All kinds are discovered once, because discovering each kind takes longer than a step.
	for name, c := range providertest.Cases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Play(t, c, newOnServer(t, known))
		})
	}
	for name, c := range providertest.Switches() {
		if strings.Contains(name, "nginx") || strings.Contains(name, "gateway") && !strings.Contains(name, "HTTP") && !strings.Contains(name, "TCP") {
			continue // This switch is tested only in memory, because other switches use the same kinds.
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.PlaySwitch(t, c[0], c[1], newOnServer(t, known))
		})
	}
}

// conditionIsRemoved checks that a condition that a user adds to a rule of an ApisixRoute is removed.
func conditionIsRemoved(t *testing.T, p *place) {
	t.Helper()
	read := func() *apisix.ApisixRoute {
		var all apisix.ApisixRouteList
		if err := server.List(t.Context(), &all, client.InNamespace(p.namespace)); err != nil || len(all.Items) != 1 {
			t.Fatal(len(all.Items), err)
		}
		return &all.Items[0]
	}
	route := read()
	before := mustJSON(route.Spec)
	route.Spec.HTTP[0].Match.Methods = []string{"POST"}
	if err := server.Update(t.Context(), route); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(context.Context) error {
		if now := mustJSON(read().Spec); now != before {
			return fmt.Errorf("not reverted: %s, want %s", now, before)
		}
		return nil
	})
}

// onServer is a Stage on an API server, with the controller as the manager runs it.
type onServer struct {
	*place
	kinds *kinds
	// seen contains the facts that observed has read since the last change.
	seen *traffic.Observed
}

func newOnServer(t *testing.T, known *kinds) *onServer {
	p := newPlace(t)
	p.microservice()
	policy := &v1alpha1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec:       v1alpha1.NetworkPolicySpec{Ports: []v1alpha1.NetworkPort{{Name: "main", Port: 8080}}},
	}
	gateway := openGateway()
	gateway.ObjectMeta = metav1.ObjectMeta{Name: "public"}
	p.create(gateway, policy)
	return &onServer{place: p, kinds: known}
}

func (s *onServer) Host(name string) string { return name + "." + s.namespace + ".example.com" }

func (s *onServer) Rollout(groups ...v1alpha1.ReleaseGroup) {
	s.t.Helper()
	s.seen = nil
	s.place.rollout(groups...)
}

func (s *onServer) User(route *unstructured.Unstructured) {
	s.seen = nil
	route = route.DeepCopy()
	unstructured.RemoveNestedField(route.Object, "metadata", "generation")
	s.create(route)
}

func (s *onServer) Serve(releases ...string) {
	s.seen = nil
	for _, r := range releases {
		s.pod(r)
	}
}

func (s *onServer) Edit(change func(*v1alpha1.NetworkPolicySpec)) {
	s.t.Helper()
	s.seen = nil
	var policy v1alpha1.NetworkPolicy
	s.get("shop", &policy)
	before := policy.DeepCopy()
	change(&policy.Spec)
	if err := server.Patch(s.t.Context(), &policy, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *onServer) Confirmed(slug string, revision int64, references ...string) {
	s.t.Helper()
	s.eventually("shop", fmt.Sprintf("revision %d with %v", revision, references), func(p *v1alpha1.NetworkPolicy) bool {
		g := traffic.Find(p.Status.Groups, slug)
		return p.Status.ObservedGeneration == p.Generation && g.Revision == revision && slices.Equal(g.References, references)
	})
	s.seen = nil
}

// observed returns the facts as a reconcile observes them. They are read once after each change and
// each wait.
func (s *onServer) observed() *traffic.Observed {
	s.t.Helper()
	if s.seen != nil {
		return s.seen
	}
	r := &Reconciler{Client: indexed(), Live: server, Now: time.Now, kinds: s.kinds}
	var policy v1alpha1.NetworkPolicy
	s.get("shop", &policy)
	f := &traffic.Observed{Policy: &policy, Now: time.Now()}
	for _, read := range []func(context.Context, *traffic.Observed) error{r.readServices, r.readRoutes, r.readMicroservice} {
		if err := read(s.t.Context(), f); err != nil {
			s.t.Fatal(err)
		}
	}
	s.seen = f
	return f
}

func (s *onServer) Split(entry, provider string) string {
	return providertest.SplitOf(s.observed(), entry, provider)
}

func (s *onServer) Providers() []string { return providertest.ProvidersOf(s.observed()) }

func (s *onServer) Switching(step, wanted string) {
	s.t.Helper()
	s.eventually("shop", step+": switching "+wanted, func(p *v1alpha1.NetworkPolicy) bool {
		now := ""
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProviderSwitching); c != nil {
			now = string(c.Status) + " " + c.Reason
		}
		return now == wanted
	})
}

// Drain shortens the drain delay, so that replaced routes are deleted.
func (s *onServer) Drain() {
	s.t.Helper()
	s.Edit(func(spec *v1alpha1.NetworkPolicySpec) { spec.DrainDelay = "0s" })
	s.eventually("shop", "the end of the switch", func(p *v1alpha1.NetworkPolicy) bool {
		return p.Status.ObservedGeneration == p.Generation && p.Status.ProviderSwitch == nil
	})
	s.seen = nil
}

func (s *onServer) Active(slug string) string { return providertest.ActiveVersion(s.observed(), slug) }

func (s *onServer) objects() (names []string) {
	s.t.Helper()
	var services corev1.ServiceList
	if err := server.List(s.t.Context(), &services, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	for _, o := range services.Items {
		names = append(names, o.Name)
	}
	for _, kind := range s.kinds.known() {
		if !traffic.Written(kind.gvk.Kind) {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.gvk)
		if err := server.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
			s.t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.Name != "web" {
				names = append(names, o.Name)
				continue
			}
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind.gvk)
			s.get(o.Name, u)
			if providertest.Changed(u) {
				names = append(names, o.Name)
			}
		}
	}
	return names
}

// Remove deletes the policy, and waits until the garbage collector has deleted its objects. A reconcile that began
// before the deletion might still write an object, which the garbage collector also deletes. For this reason, tests
// must not assert anything after the wait.
func (s *onServer) Remove() {
	s.t.Helper()
	var policy v1alpha1.NetworkPolicy
	s.get("shop", &policy)
	want(s.t, "the Service of the group exists", slices.Contains(s.objects(), resources.GroupServiceName("shop", "1-x")), true)
	if err := server.Delete(s.t.Context(), &policy); err != nil {
		s.t.Fatal(err)
	}
	await.Nil(s.t, func(context.Context) error {
		if left := s.objects(); len(left) > 0 {
			return fmt.Errorf("still exists: %v", left)
		}
		return nil
	})
}
