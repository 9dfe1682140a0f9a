// Package versionedmicroservice runs releases: each VersionedMicroservice owns one
// Deployment and, where it asks for them, a HorizontalPodAutoscaler and a
// PodDisruptionBudget, and says whether it is available or what keeps it from that.
//
// A release that is under way is measured, and its hooks are called, beside the
// reconcile; a pass only takes in what is there and has the rest asked. What is said
// stands in the release's status, and the Microservice controller decides by it.
package versionedmicroservice

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/status"
)

// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices/finalizers,verbs=update
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments/scale,verbs=update
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;services,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;list

// name of the controller, and the field manager of what it writes.
const (
	name       = "versionedmicroservice"
	fieldOwner = "heighliner-" + name
)

// statusInterval is the least time between two status writes of one release that
// tell of no transition.
const statusInterval = time.Second

// Options of the controller.
type Options struct {
	// MaxConcurrentReconciles is the number of releases that are worked on at a
	// time. Default: 4.
	MaxConcurrentReconciles int
	// PrometheusAddress is asked by analyses that name no server; empty: none.
	PrometheusAddress string
	// Outbound says which addresses analyses and hooks may ask; nil: what is refused by
	// default is refused.
	Outbound *outbound.Policy
	// UserAgent of requests to them. Default: heighliner.
	UserAgent string
	// Metrics is where metrics are registered. Default: the manager's registry.
	Metrics prometheus.Registerer
}

type reconciler struct {
	client  client.Client
	live    client.Reader
	writer  apply.Writer
	events  status.Recorder
	journal *status.Journal
	ask     asker
	// wakes keeps the time of the next pass when one ends in an error.
	wakes status.Wakes
	now   func() time.Time
}

// SetupWithManager adds the controller to the manager. The manager's cache should be
// made with CacheByObject.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if opts.MaxConcurrentReconciles == 0 {
		opts.MaxConcurrentReconciles = 4
	}
	asks, err := newAsks(mgr, opts)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", name, err)
	}
	r := &reconciler{
		client:  mgr.GetClient(),
		live:    mgr.GetAPIReader(),
		writer:  apply.Writer{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Owner: fieldOwner, Deletions: &apply.Deletions{}},
		events:  status.Recorder{Events: mgr.GetEventRecorder(fieldOwner)},
		journal: &status.Journal{Interval: statusInterval},
		ask:     asks,
		now:     time.Now,
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(&hlnr.VersionedMicroservice{}, builder.WithPredicates(changed())).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(changed())).
		Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(budgetChanged())).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(autoscalerChanged())).
		Watches(&corev1.Pod{}, podToRelease(), builder.WithPredicates(podChanged())).
		Watches(&corev1.ResourceQuota{}, r.roomToReleases(), builder.WithPredicates(roomGrew())).
		Watches(&hlnr.Microservice{}, rowsToReleases()).
		WatchesRawSource(asks.answers()).
		WatchesRawSource(&r.wakes).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.MaxConcurrentReconciles, RateLimiter: status.RateLimiter()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", name, err)
	}
	return nil
}

// Reconcile makes one release run as it says, and reports on it.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.observe(ctx, req.NamespacedName)
	if err != nil || seen == nil {
		return ctrl.Result{}, err
	}
	todo := decide(seen, r.now())
	did := r.apply(ctx, seen, todo)
	if err := did.outdated(); err != nil {
		return status.Again(ctx, err)
	}
	said := listen(r.ask, seen, r.now())
	next, look := report(seen, did, said, r.now())
	paced, err := r.write(ctx, seen.release, next)
	if err != nil {
		return status.Again(ctx, err)
	}
	return r.wakes.Again(ctx, req, r.wake(did, paced, look, said.next, todo.retry), did.transient())
}

// write writes the status if it differs, and says how long a difference that is no
// transition has to wait.
func (r *reconciler) write(ctx context.Context, release *hlnr.VersionedMicroservice, next hlnr.VersionedMicroserviceStatus) (time.Duration, error) {
	before := release.Status
	if equality.Semantic.DeepEqual(before, next) {
		return 0, nil
	}
	if !transition(before, next) {
		if wait := r.journal.Wait(release, r.now()); wait > 0 {
			return wait, nil
		}
	}
	now := release.DeepCopy()
	now.Status = next
	// A report of an older state, or of an older leader, must not pass for one of now.
	if _, err := status.Patch(ctx, r.client, fieldOwner, now, release, status.AtResourceVersion); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	r.journal.Wrote(release, now, r.now())
	announce(r.events, release, before, next)
	return 0, nil
}

// wake is the earliest time at which something may be seen that no watch tells of.
func (r *reconciler) wake(did outcome, paced time.Duration, looks ...time.Time) time.Duration {
	var soonest time.Duration
	consider := func(d time.Duration) {
		if d > 0 && (soonest == 0 || d < soonest) {
			soonest = d
		}
	}
	consider(paced)
	for _, look := range looks {
		if !look.IsZero() {
			consider(max(look.Sub(r.now()), time.Millisecond))
		}
	}
	for _, err := range did.errors() {
		if err != nil {
			consider(err.After)
		}
	}
	return soonest
}
