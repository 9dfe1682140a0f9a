// Package networkpolicy is the controller of networkpolicies.hlnr.io: it writes the
// Services and routes that lead to the releases of a Microservice, and reports what
// they are known to carry. Which objects carry a route is for a provider to say.
//
// A pass observes (observe.go, kinds.go), decides (decide.go and what it calls: pure), writes
// (apply.go) and reports (report.go, accept.go, conditions.go: pure).
package networkpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/status"
)

// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes;grpcroutes;tlsroutes;tcproutes;udproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=listenersets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.x-k8s.io,resources=xlistenersets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apisix.apache.org,resources=apisixroutes;apisixtlses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=gateways.gateway.networking.k8s.io;httproutes.gateway.networking.k8s.io;grpcroutes.gateway.networking.k8s.io;tlsroutes.gateway.networking.k8s.io;tcproutes.gateway.networking.k8s.io;udproutes.gateway.networking.k8s.io;listenersets.gateway.networking.k8s.io,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldOwner of all that this controller writes.
const fieldOwner = "heighliner-networkpolicy"

// lookAgain is when a policy looks for what no watch tells of.
const lookAgain = time.Minute

// Writer writes the children of a policy. It is apply.Writer but for tests.
type Writer interface {
	Apply(ctx context.Context, owner, desired client.Object) (apply.Outcome, error)
	Delete(ctx context.Context, owner, obj client.Object) error
}

// Reconciler makes what policies say true.
type Reconciler struct {
	// Client reads through the cache, and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Writer of Services and routes.
	Writer Writer
	// Events of policies.
	Events status.Recorder
	// Now is the clock.
	Now func() time.Time

	// list of domains; nil: none is looked for.
	list *domainList
	// users watches routes of others; nil: none.
	users   *userRoutes
	kinds   *kinds
	journal status.Journal
	written writeTimes
	// given is when Services were given back, by policy.
	given writeTimes
	// setBacks of routes of others.
	setBacks setBacks
	// probes of routes.
	probes  *probe.Pool
	metrics *metrics
	// wakes keeps when to look again when a pass ends in an error.
	wakes status.Wakes
}

// Options of the controller. The zero value has defaults.
type Options struct {
	// Concurrency is the number of policies that are looked at at a time. Default: 2.
	Concurrency int
	// Namespace of the manager, in which the list of domains is looked for. Default:
	// none is looked for, and every namespace may have every host.
	Namespace string
	// Namespaces that the manager watches. Default: all.
	Namespaces []string
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Outbound says which addresses of Gateways may be probed; nil: what is not refused
	// by default.
	Outbound *outbound.Policy
	// UserAgent of probes. Default: heighliner.
	UserAgent string
	// Metrics to register with. Default: those that the manager serves.
	Metrics prometheus.Registerer

	// lookAgain is when to look for what no watch tells of. Default: lookAgain.
	lookAgain time.Duration
}

// SetupWithManager registers the controller. Where the API server does not know a kind
// of a provider yet, policies that need it say so, and it is looked for each minute.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	for field, index := range indexes {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.NetworkPolicy{}, field, index); err != nil {
			return fmt.Errorf("index %s: %w", field, err)
		}
	}
	for _, o := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), o, indexPolicy, labelledPolicy); err != nil {
			return fmt.Errorf("index %T: %w", o, err)
		}
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Writer: apply.Writer{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Owner: fieldOwner, Deletions: &apply.Deletions{}},
		Events: status.Recorder{Events: mgr.GetEventRecorder("heighliner")},
		Now:    opts.Now,
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if opts.Metrics == nil {
		opts.Metrics = ctrlmetrics.Registry
	}
	var err error
	if r.metrics, err = newMetrics(opts.Metrics); err != nil {
		return fmt.Errorf("register metrics of routes: %w", err)
	}
	r.probes = probe.New(probe.Options{Outbound: opts.Outbound, UserAgent: cmp.Or(opts.UserAgent, "heighliner"), Observe: r.metrics.probed, Now: r.Now})
	b := ctrl.NewControllerManagedBy(mgr).Named("networkpolicy").
		For(&v1alpha1.NetworkPolicy{}).
		Owns(&corev1.Service{}).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.byLabel)). // Adopted ones have no owner.
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.byLabel)).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(r.byMicroservice)).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.byHosts), builder.WithPredicates(claimsChanged)).
		WatchesRawSource(answered(r.probes)).
		WatchesRawSource(&r.wakes).
		WithOptions(controller.Options{MaxConcurrentReconciles: cmp.Or(opts.Concurrency, 2), RateLimiter: status.RateLimiter()})
	if opts.Namespace != "" {
		if r.list, err = newDomainList(mgr, opts.Namespace, cmp.Or(opts.lookAgain, lookAgain)); err != nil {
			return err
		}
		b = b.WatchesRawSource(source.Kind(r.list.cache, client.Object(&corev1.ConfigMap{}), handler.EnqueueRequestsFromMapFunc(r.byList)))
	}
	users, err := newUserRoutes(mgr, opts.Namespaces)
	if err != nil {
		return err
	}
	r.users = users
	c, err := b.Build(r)
	if err != nil {
		return fmt.Errorf("build controller networkpolicy: %w", err)
	}
	users.watch = func(gvk schema.GroupVersionKind) error { return r.watchUsers(c, gvk) }
	r.kinds = &kinds{every: cmp.Or(opts.lookAgain, lookAgain), mapper: mgr.GetRESTMapper(), channel: r.channel, watch: func(gvk schema.GroupVersionKind, written bool) error {
		return r.watchKind(mgr, c, opts.Namespaces, gvk, written)
	}}
	r.kinds.look(allKinds())
	return nil
}

// Reconcile makes one pass over a policy.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var policy v1alpha1.NetworkPolicy
	if err := r.Client.Get(ctx, request.NamespacedName, &policy); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err) // What it owned is collected.
	}
	if policy.DeletionTimestamp != nil {
		return r.leave(ctx, &policy)
	}
	if changed, err := r.holdBack(ctx, &policy); err != nil || changed {
		return status.Again(ctx, err) // The event of our own write brings the next pass.
	}
	if r.journal.Behind(&policy) {
		return ctrl.Result{}, nil // The event of our own last report comes, and with it the next pass.
	}
	if unread := r.unread(&policy); unread != nil {
		if err := r.save(ctx, &policy, blind(&policy, unread)); err != nil {
			return status.Again(ctx, err)
		}
		return ctrl.Result{RequeueAfter: r.kinds.every}, nil
	}
	f, err := r.observe(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	wake, failed := r.carryOut(ctx, f)
	if givesBack(f) {
		left, err := r.restore(ctx, f)
		wake, failed = cmp.Or(min(wake, left), wake, left), errors.Join(failed, err)
	}
	return r.wakes.Again(ctx, request, wake, failed)
}

// carryOut decides, writes and reports, and says when to look again without being woken,
// with an error too.
func (r *Reconciler) carryOut(ctx context.Context, f *facts) (time.Duration, error) {
	out := decide(f)
	if now, more := foretell(f, out); more {
		return 0, r.save(ctx, f.policy, now) // The event of our own write brings the next pass.
	}
	w, failed := r.write(ctx, f, out)
	now, wake := report(f, out, w)
	r.probes.Ask(client.ObjectKeyFromObject(f.policy), probes(f, out, w))
	r.metrics.observe(f, out, w)
	wake = r.again(f, out, w, wake)
	if err := r.save(ctx, f.policy, now); err != nil {
		return wake, errors.Join(failed, err)
	}
	if class := status.Classify(failed); class != nil && class.Class == status.Transient {
		return wake, failed
	}
	return wake, nil
}

// unread looks for the kinds of what a policy has or needs, and names one of them that
// cannot be read; nil: all can that there are. A pass that saw nothing of what is live
// would take it for gone.
func (r *Reconciler) unread(policy *v1alpha1.NetworkPolicy) *providers.Problem {
	kinds := rests(policy)
	r.kinds.look(kinds)
	return r.kinds.problem(kinds)
}

// forget a policy that is gone, or about to go with all that it owns.
func (r *Reconciler) forget(policy types.NamespacedName) {
	r.probes.Forget(policy)
	r.metrics.forget(policy)
}

// save writes the status, once and only if it changed, and tells of transitions.
func (r *Reconciler) save(ctx context.Context, policy *v1alpha1.NetworkPolicy, now v1alpha1.NetworkPolicyStatus) error {
	before := policy.DeepCopy()
	policy.Status = now
	wrote, err := status.Patch(ctx, r.Client, fieldOwner, policy, before, status.AtResourceVersion)
	if err != nil || !wrote {
		return client.IgnoreNotFound(err)
	}
	r.journal.Wrote(before, policy, r.Now())
	r.announce(policy, before.Status, now)
	return nil
}

// again is when to look at a policy without being woken.
func (r *Reconciler) again(f *facts, out *decision, w writes, wake time.Duration) time.Duration {
	earlier := func(after time.Duration) {
		if after > 0 && (wake == 0 || after < wake) {
			wake = after
		}
	}
	for _, err := range w.refused {
		if earlier(err.After); missingKind(err.Reason) {
			earlier(r.kinds.every)
		}
	}
	if r.kinds.lacks(needs(f.policy)) {
		earlier(r.kinds.every)
	}
	if f.owned != nil {
		earlier(f.owned.until.Sub(f.now)) // No watch tells of the labels of namespaces.
	}
	if a := out.adoption; a != nil && (a.reason == reasonAdoptedMissing || a.reason == reasonAdoptedUnsuitable) {
		earlier(lookAgain) // No watch knows of a Service that is not marked.
	}
	return wake
}

// writeTimes remembers when this process last wrote a route, for as long as that
// matters: after a restart a route that nobody has answered on is a fault at once.
type writeTimes struct {
	mu sync.Mutex
	at map[client.ObjectKey]time.Time
}

func (w *writeTimes) note(key client.ObjectKey, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[client.ObjectKey]time.Time{}
	}
	for other, at := range w.at {
		if now.Sub(at) > providers.Grace {
			delete(w.at, other)
		}
	}
	w.at[key] = now
}

func (w *writeTimes) last(key client.ObjectKey) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at[key]
}

// watchKind returns when the cache holds the objects of a kind: a pass that saw none
// of them would take them for gone. A kind that cannot be listed does not get into the
// cache, which would wait for it, and all else with it.
func (r *Reconciler) watchKind(mgr ctrl.Manager, c controller.Controller, namespaces []string, gvk schema.GroupVersionKind, written bool) error {
	o, err := newObject(mgr.GetScheme(), gvk)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookAgain/2)
	defer cancel()
	if err := tryList(ctx, mgr, namespaces, gvk, written); err != nil {
		return err
	}
	if err := fillCache(ctx, mgr, o, written); err != nil {
		return errors.Join(err, mgr.GetCache().RemoveInformer(ctx, o)) // With its index: the next try makes both anew.
	}
	enqueue, filter := handler.EventHandler(handler.EnqueueRequestsFromMapFunc(r.byReferent(gvk.Kind))), predicate.Predicate(referentChanged)
	if written {
		enqueue = handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.NetworkPolicy{}, handler.OnlyControllerOwner())
		filter = predicate.Funcs{}
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), o, enqueue, filter)); err != nil {
		return fmt.Errorf("watch %ss: %w", gvk.Kind, err)
	}
	return nil
}

// tryFor is how long a list may take that tries whether a kind can be listed.
const tryFor = 5 * time.Second

// tryList lists what the cache would hold of a kind, past the cache: a watch that is
// forbidden, or whose objects cannot be converted, would only wait.
func tryList(ctx context.Context, mgr ctrl.Manager, namespaces []string, gvk schema.GroupVersionKind, written bool) error {
	namespaced, err := apiutil.IsGVKNamespaced(gvk, mgr.GetRESTMapper())
	if err != nil {
		return fmt.Errorf("find scope of %s: %w", gvk.Kind, err)
	}
	if !namespaced || len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	for _, namespace := range namespaces {
		options := []client.ListOption{client.InNamespace(namespace)}
		if written {
			options = append(options, client.HasLabels{v1alpha1.LabelPolicy})
		}
		some := &metav1.PartialObjectMetadataList{}
		some.SetGroupVersionKind(gvk)
		if err := mgr.GetAPIReader().List(ctx, some, options...); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

// fillCache returns when the cache holds the objects of a kind, with an index of the
// policies of those that are written. One that has not started yet fills itself later.
func fillCache(ctx context.Context, mgr ctrl.Manager, o client.Object, written bool) error {
	if written {
		if err := mgr.GetFieldIndexer().IndexField(ctx, o, indexPolicy, labelledPolicy); err != nil {
			return fmt.Errorf("index %T: %w", o, err)
		}
	}
	if _, err := mgr.GetCache().GetInformer(ctx, o); err != nil {
		return fmt.Errorf("fill cache of %T: %w", o, err)
	}
	return nil
}

// referentChanged leaves out the counters that each route of a Gateway moves.
var referentChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, ok := e.ObjectOld.(*gatewayv1.Gateway)
		now, also := e.ObjectNew.(*gatewayv1.Gateway)
		return !ok || !also || old.Generation != now.Generation || !equality.Semantic.DeepEqual(old.Status.Conditions, now.Status.Conditions) ||
			!slices.EqualFunc(old.Status.Listeners, now.Status.Listeners, func(a, b gatewayv1.ListenerStatus) bool {
				return a.Name == b.Name && equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
			}) ||
			!equality.Semantic.DeepEqual(old.Status.Addresses, now.Status.Addresses)
	},
}

// claimsChanged lets through what may free or take a host.
var claimsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, now := e.ObjectOld.(*v1alpha1.NetworkPolicy), e.ObjectNew.(*v1alpha1.NetworkPolicy)
		return !slices.Equal(claimed(old), claimed(now)) || !equality.Semantic.DeepEqual(old.Spec.Listeners, now.Spec.Listeners) || !equality.Semantic.DeepEqual(old.Spec.Provider, now.Spec.Provider) ||
			(old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil)
	},
}

func claimed(p *v1alpha1.NetworkPolicy) []string {
	var out []string
	for _, d := range p.Status.Domains {
		out = append(out, fmt.Sprint(d.Domain, d.Path, d.Programmed, d.Reason == reasonPending))
	}
	for _, l := range p.Status.Listeners {
		out = append(out, fmt.Sprint(l.Name, l.Programmed, l.Reason == reasonPending))
	}
	return out
}
