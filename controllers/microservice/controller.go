// Package microservice reconciles Microservices: it turns what an ImagePolicy
// offers into releases, and decides which of them is active.
//
// A reconcile observes, plans, and applies in three parts: what comes into being
// before the ledger is written, the ledger, and what ends after it. The decision
// is internal/release; everything here is thin.
package microservice

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager of all writes of this controller.
const FieldOwner = "heighliner-microservice"

// Options of the controller.
type Options struct {
	// MinDrainDelay is the least time between the last route and the end of the
	// pods, whatever the specification says. Default: 5s; an accepted route is not
	// yet a served one (protocol rule 36).
	MinDrainDelay time.Duration
	// Workers that reconcile at the same time. Default: 8.
	Workers int
	// Clock is the only source of time stamps. Default: the real one.
	Clock clock.PassiveClock
}

// Reconciler reconciles Microservices.
type Reconciler struct {
	client.Client
	// live reads past the cache, where absence is to be proven.
	live     client.Reader
	events   status.Recorder
	clock    clock.PassiveClock
	minDrain time.Duration
	// written is the sequence of the last ledger that this process wrote, by UID: a
	// pass on an older one does nothing (protocol rule 2).
	written sync.Map // types.UID -> int64
}

// +kubebuilder:rbac:groups=hlnr.io,resources=microservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices/finalizers,verbs=update
// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies;networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller with its watches and indexes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.MinDrainDelay == 0 {
		o.MinDrainDelay = 5 * time.Second
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		events:   status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:    o.Clock,
		minDrain: o.MinDrainDelay,
	}
	if err := setupIndexes(context.Background(), mgr); err != nil {
		return fmt.Errorf("index Microservices: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("microservice").
		For(&v1alpha1.Microservice{}).
		Owns(&v1alpha1.VersionedMicroservice{}).
		Watches(&v1alpha1.ImagePolicy{}, handler.EnqueueRequestsFromMapFunc(r.forImagePolicy)).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(forNetworkPolicy)).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
}

// Reconcile brings one Microservice a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ms v1alpha1.Microservice
	if err := r.Get(ctx, req.NamespacedName, &ms); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !ms.DeletionTimestamp.IsZero() {
		r.written.Delete(ms.UID)
		return ctrl.Result{}, nil // owner references collect what is left
	}
	if r.stale(&ms) {
		return ctrl.Result{}, nil // the watch brings our own last write
	}
	w, err := r.observe(ctx, &ms)
	if err != nil {
		return r.conclude(ctx, err)
	}
	now := r.clock.Now()
	plan := release.Make(w.facts, now)
	if err := r.bringUp(ctx, w, plan); apierrors.IsConflict(err) {
		return r.conclude(ctx, err)
	} else if err != nil {
		return r.conclude(ctx, errors.Join(err, r.report(ctx, w, plan, err)))
	}
	if err := r.report(ctx, w, plan, nil); err != nil {
		return r.conclude(ctx, err)
	}
	if err := r.takeDown(ctx, w, plan); err != nil {
		return r.conclude(ctx, err)
	}
	return ctrl.Result{RequeueAfter: until(plan.Wake, r.clock.Now())}, nil
}

// stale says that the cache does not hold our own last write yet.
func (r *Reconciler) stale(ms *v1alpha1.Microservice) bool {
	last, ok := r.written.Load(ms.UID)
	return ok && ms.Status.Sequence < last.(int64)
}

func (r *Reconciler) wrote(uid types.UID, sequence int64) { r.written.Store(uid, sequence) }

// conclude turns an error into what is to happen next: a conflict means that the
// plan was made on old facts, and is dropped; the watch brings the new ones.
func (r *Reconciler) conclude(ctx context.Context, err error) (ctrl.Result, error) {
	if err == nil {
		return ctrl.Result{}, nil
	}
	if apierrors.IsConflict(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("plan dropped: the facts are newer", "cause", err.Error())
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	c := status.Classify(err)
	switch c.Class {
	case status.Terminal, status.Waiting:
		return ctrl.Result{RequeueAfter: c.After}, nil
	}
	return ctrl.Result{}, err
}

func until(wake, now time.Time) time.Duration {
	if wake.IsZero() {
		return 0
	}
	return max(time.Millisecond, wake.Sub(now))
}
