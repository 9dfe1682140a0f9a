package networkpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/compact"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// The tests of this package share an API server, the controller, a real controller-manager that
// creates EndpointSlices and collects garbage, and a stand-in for a gateway, which accepts routes.
var (
	server client.WithWatch
	// serverConfig is a client configuration for the server. Requests with this configuration are
	// not recorded.
	serverConfig *rest.Config
	namespaceOf  func(testing.TB) string
	// requests contains all writes of the controller's client, and successes those that succeeded.
	requests, successes = &record{}, &record{}
	// gauges is the registry of the controller's metrics.
	gauges = prometheus.NewRegistry()
)

// managerNamespace is the namespace in which the controller reads the list of domains.
const managerNamespace = "manager"

// record contains writes of the controller's client.
type record struct {
	mu   sync.Mutex
	seen []string
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, line)
}

// in returns the writes in a namespace, except events.
func (r *record) in(namespace string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.seen {
		if strings.Contains(line, "/namespaces/"+namespace+"/") && !strings.Contains(line, "/events") {
			out = append(out, line)
		}
	}
	return out
}

// recorded is a transport that records all requests except reads.
type recorded struct{ next http.RoundTripper }

func (t recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return t.next.RoundTrip(r)
	}
	line := r.Method + " " + r.URL.Path
	requests.add(line)
	response, err := t.next.RoundTrip(r)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		successes.add(line)
	}
	return response, err
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	if err := stopServer(); err != nil {
		fmt.Fprintln(os.Stderr, "stop API server:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// stopServer stops the processes that startServer started.
var stopServer = func() error { return nil }

// startServer starts the shared processes for the first test that needs them, so that tests of the
// pure parts run without them.
var startServer = sync.OnceValue(func() error {
	env, err := apiserver.Start(apiserver.Options{GatewayAPI: true, ControllerManager: true})
	if err != nil {
		return fmt.Errorf("start API server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	stopServer = func() error {
		cancel()
		return errors.Join(<-done, env.Stop())
	}
	namespaceOf, serverConfig = env.Namespace, env.Config
	scheme := env.Client.Scheme()
	if err := AddToScheme(scheme); err != nil {
		done <- nil
		return err
	}
	if server, err = client.NewWithWatch(env.Config, client.Options{Scheme: scheme}); err != nil {
		done <- nil
		return err
	}
	public, class := openGateway(), networkingv1.IngressClassSpec{Controller: "example.com/ingress"}
	for _, o := range []client.Object{
		// EndpointSlices omit endpoints on a Node that does not exist.
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "none"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "infra"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}},
		public,
		&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "traefik"}, Spec: class},
		&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}, Spec: class},
		&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx-https"}, Spec: class},
	} {
		if err := server.Create(ctx, o); err != nil {
			done <- nil
			return err
		}
	}
	if err := startManager(ctx, env.Config, server.Scheme(), done); err != nil {
		done <- nil
		return err
	}
	acceptRoutes(ctx)
	return nil
})

func startManager(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, done chan<- error) error {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorded{next} })
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, NewCache: NewCache, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{ReaderFailOnMissingInformer: true, DefaultTransform: compact.Transform, ByObject: CacheByObject()},
	})
	if err != nil {
		return err
	}
	loopback, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		return err
	}
	if err := SetupWithManager(mgr, Options{Namespace: managerNamespace, Outbound: loopback, Metrics: gauges, pollInterval: 2 * time.Second}); err != nil {
		return err
	}
	go func() { done <- mgr.Start(ctx) }()
	return nil
}

// indexed returns a client for the server. Like the cache, the client supports the index by which
// the objects of a policy are found.
func indexed() client.WithWatch {
	return apiserver.Indexed(server, apiserver.Index{Field: index.FieldPolicy, Values: index.ServicesByPolicy.Values})
}

// refusedSection is the name of a listener for which the gateway rejects all routes.
const refusedSection = "closed"

// acceptRoutes acts in place of a gateway: it accepts the current generation of every route on each
// existing Gateway.
func acceptRoutes(ctx context.Context) {
	for _, routes := range []client.ObjectList{
		&gatewayv1.HTTPRouteList{}, &gatewayv1.GRPCRouteList{}, &gatewayv1alpha2.TLSRouteList{}, &gatewayv1alpha2.TCPRouteList{}, &gatewayv1alpha2.UDPRouteList{},
	} {
		go followRoutes(ctx, routes, acceptRoute)
	}
	go followRoutes(ctx, &apisix.ApisixRouteList{}, acceptApisixRoute)
}

// relistEvery is the interval at which routes are listed again. If the kind or the Gateway of a
// route is created later than the route, the route is accepted when the routes are listed again.
const relistEvery = 500 * time.Millisecond

// followRoutes accepts the routes of a kind when they change, and all of them periodically. After a
// conflict, it retries on the next change.
func followRoutes(ctx context.Context, routes client.ObjectList, accept func(context.Context, client.Object)) {
	_ = wait.PollUntilContextCancel(ctx, relistEvery, true, func(ctx context.Context) (bool, error) {
		if err := server.List(ctx, routes); err != nil {
			return false, nil // The API server does not serve the kind.
		}
		_ = meta.EachListItem(routes, func(o runtime.Object) error { accept(ctx, o.(client.Object)); return nil })
		changes, err := server.Watch(ctx, routes, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: routes.GetResourceVersion()}})
		if err != nil {
			return false, nil
		}
		defer changes.Stop()
		for again := time.After(relistEvery); ; {
			select {
			case <-ctx.Done():
				return false, nil
			case <-again:
				return false, nil
			case change, ok := <-changes.ResultChan():
				if !ok {
					return false, nil
				}
				if route, is := change.Object.(client.Object); is && change.Type != watch.Deleted {
					accept(ctx, route)
				}
			}
		}
	})
}

func acceptApisixRoute(ctx context.Context, o client.Object) {
	r, ok := o.(*apisix.ApisixRoute)
	if !ok {
		return
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, "ResourcesAvailable"); c == nil || c.ObservedGeneration != r.Generation {
		r.Status.Conditions = []metav1.Condition{providertest.Taken(r)}
		_ = server.Status().Update(ctx, r)
	}
}

func acceptRoute(ctx context.Context, route client.Object) {
	parents := parentsOf(route)
	if mustJSON(answersTo(route, parents)) == mustJSON(answersOf(route)) {
		return // The status of the route is complete, so no Gateway needs to be read.
	}
	parents = slices.DeleteFunc(slices.Clone(parents), func(p gatewayv1.ParentReference) bool {
		key := client.ObjectKey{Namespace: cmp.Or(string(deref(p.Namespace)), route.GetNamespace()), Name: string(p.Name)}
		var parent client.Object = &gatewayv1.Gateway{}
		if deref(p.Kind) == "ListenerSet" {
			parent = &gatewayv1.ListenerSet{}
		}
		return server.Get(ctx, key, parent) != nil
	})
	next := route.DeepCopyObject().(client.Object)
	setAnswers(next, answersTo(route, parents))
	if mustJSON(answersOf(next)) != mustJSON(answersOf(route)) {
		_ = server.Status().Update(ctx, next)
	}
}

// answersTo returns the status that existing parents set on a route.
func answersTo(route client.Object, parents []gatewayv1.ParentReference) []gatewayv1.RouteParentStatus {
	answers := []gatewayv1.RouteParentStatus{}
	for _, p := range parents {
		a := answer(p, route.GetGeneration(), metav1.ConditionTrue, "Accepted")
		if deref(p.SectionName) == refusedSection {
			a = answer(p, route.GetGeneration(), metav1.ConditionFalse, string(gatewayv1.RouteReasonNotAllowedByListeners))
		}
		for i := range a.Conditions {
			a.Conditions[i].LastTransitionTime = route.GetCreationTimestamp()
		}
		answers = append(answers, a)
	}
	return answers
}

// place is a namespace with a Microservice and policies.
type place struct {
	t         *testing.T
	namespace string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	if err := startServer(); err != nil {
		t.Fatal(err)
	}
	return &place{t, namespaceOf(t)}
}

func (p *place) create(objects ...client.Object) {
	p.t.Helper()
	for _, o := range objects {
		o.SetNamespace(p.namespace)
		if err := server.Create(p.t.Context(), o); err != nil {
			p.t.Fatal(err)
		}
	}
}

// microservice creates a Microservice. No pods are created from its template.
func (p *place) microservice(groups ...v1alpha1.ReleaseGroup) {
	p.t.Helper()
	p.create(&v1alpha1.Microservice{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: v1alpha1.MicroserviceSpec{
			ImagePolicyRef: v1alpha1.Reference{Name: "shop"},
			Template:       corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop"}}}},
		},
	})
	p.rollout(groups...)
}

func (p *place) rollout(groups ...v1alpha1.ReleaseGroup) {
	p.t.Helper()
	var m v1alpha1.Microservice
	p.get("shop", &m)
	m.Status.Internal = &v1alpha1.MicroserviceInternal{Sequence: m.Status.Sequence() + 1}
	for i := range groups {
		for j := range groups[i].Releases {
			groups[i].Releases[j].LastTransitionTime = metav1.NowMicro()
		}
	}
	m.Status.ObservedGeneration, m.Status.ReleaseGroups = m.Generation, groups
	if err := server.Status().Update(p.t.Context(), &m); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) get(name string, o client.Object) {
	p.t.Helper()
	if err := server.Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, o); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) policy(name, domain string, change ...func(*v1alpha1.NetworkPolicy)) {
	p.t.Helper()
	policy := newWorld(p.t).Policy.DeepCopy()
	policy.ObjectMeta = metav1.ObjectMeta{Name: name}
	policy.Spec.MicroserviceRef = &v1alpha1.Reference{Name: "shop"}
	policy.Spec.Domains[0].Domain = domain
	for _, c := range change {
		c(policy)
	}
	p.create(policy)
}

// addresses contains the number of the most recently assigned pod address.
var addresses struct {
	sync.Mutex
	last int
}

func (p *place) pod(release string, ports ...corev1.ContainerPort) *corev1.Pod {
	p.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: release + "-", Labels: map[string]string{v1alpha1.LabelRelease: release}},
		Spec:       corev1.PodSpec{NodeName: "none", Containers: []corev1.Container{{Name: "shop", Image: "shop", Ports: ports}}},
	}
	p.create(pod)
	addresses.Lock()
	addresses.last++
	ip := fmt.Sprintf("10.1.%d.%d", addresses.last/250, addresses.last%250+1)
	addresses.Unlock()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}
	if err := server.Status().Update(p.t.Context(), pod); err != nil {
		p.t.Fatal(err)
	}
	return pod
}

// eventually waits until a policy meets a condition.
func (p *place) eventually(name, what string, ok func(*v1alpha1.NetworkPolicy) bool) *v1alpha1.NetworkPolicy {
	p.t.Helper()
	var policy v1alpha1.NetworkPolicy
	await.Nil(p.t, func(ctx context.Context) error {
		if err := server.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, &policy); err != nil {
			return err
		}
		if !ok(&policy) {
			return fmt.Errorf("%s: status is %s", what, mustJSON(policy.Status))
		}
		return nil
	})
	return &policy
}

func confirmed(slug string, revision int64, references ...string) func(*v1alpha1.NetworkPolicy) bool {
	return func(p *v1alpha1.NetworkPolicy) bool {
		g := traffic.Find(p.Status.Groups, slug)
		return g.Revision == revision && slices.Equal(g.References, references)
	}
}

func has(kind, reason string) func(*v1alpha1.NetworkPolicy) bool {
	return func(p *v1alpha1.NetworkPolicy) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, kind)
		return c != nil && c.Reason == reason
	}
}

// TestServerTakenNameEndsWriting checks that a policy reports only once that an object with the name of its
// Service belongs to another owner.
func TestServerTakenNameEndsWriting(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if err := server.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: p.namespace},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "other"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}); err != nil {
		t.Fatal(err)
	}
	g := group("release", 1, "a 1.0.0 active 100")
	g.Name = "release"
	p.microservice(g)
	p.pod("a")
	p.policy("shop", "", func(h *v1alpha1.NetworkPolicy) { h.Spec.Provider, h.Spec.Domains = nil, nil })
	p.eventually("shop", "the name is taken", has(v1alpha1.ConditionNameConflict, traffic.ReasonNameConflict))
	p.quiet()
}

// quiet waits until the controller has not written to the namespace for a while. A test can observe the expected
// state before the last write of a reconcile.
func (p *place) quiet() {
	p.t.Helper()
	await.Nil(p.t, func(context.Context) error {
		before := requests.in(p.namespace)
		time.Sleep(1500 * time.Millisecond) // The test checks that nothing is written during this time.
		if writes := requests.in(p.namespace)[len(before):]; len(writes) > 0 {
			return fmt.Errorf("writes in the stable state: %q", writes)
		}
		return nil
	})
}
