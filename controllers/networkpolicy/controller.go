// Package networkpolicy implements the controller of networkpolicies.hlnr.io. It writes the
// Services and routes that send traffic to the releases of a Microservice, and reports which routes
// are programmed. A provider determines the objects of a route.
//
// A reconcile observes, plans (package traffic, which is pure), applies and reports. The files of the
// package refer only to files further down in this list:
//
//	controller.go  options, permissions, setup, and Reconcile
//	delete.go      deletion policies
//	apply.go       the plan, apply and report steps, and writes of objects
//	observe.go     the observe step, which reads objects
//	status.go      status writes, and the status while objects cannot be read
//	events.go      events, and the status changes that they report
//	watch.go       watches for kinds that the API server serves now or later
//	cached.go      the content of the cache
//	index.go       indexes of policies, and the policies that a change affects
//	reconciler.go  the type Reconciler
//	userroutes.go  the cache of user-managed routes, and the delays after other clients revert changes to them
//	domainlist.go  the list of domains that namespaces may use
//	discovery.go   discovery of the kinds that providers use, and the cache for these kinds
//	lost.go        a cache that reports kinds that the API server no longer serves
//	journal.go     times of writes and conflicts
//	metrics.go     metrics
package networkpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
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

// Options are the options of the controller. The zero value selects the defaults.
type Options struct {
	// Concurrency is the maximum number of policies that are reconciled concurrently. Defaults to 2.
	Concurrency int
	// Namespace is the namespace of the manager, which contains the list of domains. If it is
	// empty, no list is read, and every namespace can use every host.
	Namespace string
	// Namespaces are the namespaces that the manager watches. Defaults to all.
	Namespaces []string
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Outbound decides which Gateway addresses may be probed; nil means the default policy.
	Outbound *outbound.Policy
	// UserAgent is the user agent of probes. Defaults to heighliner.
	UserAgent string
	// Metrics is the registry of the controller's metrics. Defaults to the registry that the
	// manager serves.
	Metrics prometheus.Registerer
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards

	// pollInterval is the interval at which objects that are not watched are read. Defaults to
	// one minute.
	pollInterval time.Duration
}

// SetupWithManager registers the controller. If the API server does not yet serve a kind that a
// provider uses, policies that need the kind report that it is missing, and the controller checks for
// the kind again every minute.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if err := index.Add(context.Background(), mgr, indexes...); err != nil {
		return fmt.Errorf("index objects of routes: %w", err)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Writer: apply.Writer{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Owner: fieldOwner, Deletions: &apply.Deletions{Now: opts.Now}, Matches: &apply.Matches{}},
		Events: status.Recorder{Events: mgr.GetEventRecorder("heighliner")},
		Now:    opts.Now, namespaces: opts.Namespaces,
	}
	if opts.Metrics == nil {
		opts.Metrics = ctrlmetrics.Registry
	}
	var err error
	if r.metrics, err = newMetrics(opts.Metrics, certificates{mgr.GetCache(), func() bool { return r.kinds.knows(certmanager.Kind.Kind) }}); err != nil {
		return fmt.Errorf("register route metrics: %w", err)
	}
	r.probes = probe.New(probe.Options{Outbound: opts.Outbound, UserAgent: cmp.Or(opts.UserAgent, "heighliner"), Observe: r.metrics.probed, Now: r.Now})
	gate := opts.Shards.Gate(mgr.GetCache(), &v1alpha1.NetworkPolicyList{})
	b := ctrl.NewControllerManagedBy(mgr).Named("networkpolicy").
		For(&v1alpha1.NetworkPolicy{}).
		Watches(&v1alpha1.NetworkPolicy{}, gate.Resume(splits)).
		Owns(&corev1.Service{}).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.byLabel)). // Adopted Services have no owner.
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.byLabel)).
		Watches(&discoveryv1.EndpointSlice{}, queue.Continue(r.byLabel)).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(r.byMicroservice)).
		Watches(&v1alpha1.Microservice{}, queue.Prefer(rolledBack, r.byMicroservice)).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.byHosts), builder.WithPredicates(claimsChanged)).
		WatchesRawSource(answered(r.probes)).
		WatchesRawSource(r.lostKinds(mgr.GetCache())).
		WatchesRawSource(&r.requeues).
		WatchesRawSource(gate).
		WithOptions(queue.Options(cmp.Or(opts.Concurrency, 2)))
	if opts.Namespace != "" {
		if r.list, err = newDomainList(mgr, opts.Namespace, cmp.Or(opts.pollInterval, pollInterval)); err != nil {
			return err
		}
		b = b.WatchesRawSource(source.Kind(r.list.cache, client.Object(&corev1.ConfigMap{}), handler.EnqueueRequestsFromMapFunc(r.byList))).WatchesRawSource(r.labelChanges())
	}
	users, err := newUserRoutes(mgr, opts.Namespaces)
	if err != nil {
		return err
	}
	r.users = users
	c, err := b.Build(gate.Reconciler(r))
	if err != nil {
		return fmt.Errorf("build controller networkpolicy: %w", err)
	}
	users.watch = func(gvk schema.GroupVersionKind) error { return r.watchUsers(c, gvk) }
	r.kinds = &kinds{now: r.Now, every: cmp.Or(opts.pollInterval, pollInterval), mapper: mgr.GetRESTMapper(), channel: r.channel, watch: func(gvk schema.GroupVersionKind, written bool) error {
		return r.watchKind(mgr, c, opts.Namespaces, gvk, written)
	}}
	r.kinds.discover(traffic.AllKinds())
	return nil
}

// Reconcile reconciles one policy.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.started.Store(true)
	var policy v1alpha1.NetworkPolicy
	if err := r.Client.Get(ctx, request.NamespacedName, &policy); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err) // The objects of a deleted policy are garbage collected.
	}
	if policy.DeletionTimestamp != nil {
		return r.finalize(ctx, &policy)
	}
	if changed, err := r.ensureFinalizer(ctx, &policy); err != nil || changed {
		return status.Again(ctx, err) // The event for this write triggers the next reconcile.
	}
	if r.journal.Behind(&policy) {
		return ctrl.Result{}, nil // The event for the latest status write triggers the next reconcile.
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
	requeueAfter, failed := r.carryOut(ctx, f)
	if restoresService(f) {
		left, err := r.restore(ctx, f)
		requeueAfter, failed = cmp.Or(min(requeueAfter, left), requeueAfter, left), errors.Join(failed, err)
	}
	return r.requeues.Again(ctx, request, requeueAfter, failed)
}
