// Package imagepolicy reconciles ImagePolicies: it looks at a registry, and offers
// the versions that exist and are allowed.
//
// A reconcile observes the cluster, scans the registry, decides, and reports. What
// is a version, and in which order, is internal/version; how a registry is read,
// internal/registry.
package imagepolicy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager of all writes of this controller.
const FieldOwner = "heighliner-imagepolicy"

// Scanner reads registries.
type Scanner interface {
	// List gives the tags of a repository.
	List(context.Context, registry.Request) (registry.Scan, error)
	// Resolve gives the digest and platforms of a tag.
	Resolve(ctx context.Context, r registry.Request, tag string) (registry.Image, error)
	// Gone says that tag and digest do not exist, while witness does.
	Gone(ctx context.Context, r registry.Request, tag, digest, witness string) (bool, error)
}

// Options of the controller.
type Options struct {
	// Scanner reads registries; required.
	Scanner Scanner
	// Workers that reconcile at the same time. Default: 8.
	Workers int
	// Clock is the only source of time stamps. Default: the real one.
	Clock clock.PassiveClock
	// Platform that images must be there for where a policy names none. Default:
	// linux on the manager's own architecture.
	Platform string
}

// Reconciler reconciles ImagePolicies.
type Reconciler struct {
	client.Client
	scanner  Scanner
	events   status.Recorder
	clock    clock.PassiveClock
	platform string
	// proofs of absence seen once, by policy and tag.
	proofs proofs
}

// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices;networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller with its watches and indexes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Platform == "" {
		o.Platform = "linux/" + runtime.GOARCH
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		scanner:  o.Scanner,
		events:   status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:    o.Clock,
		platform: o.Platform,
	}
	if err := setupIndexes(context.Background(), mgr); err != nil {
		return fmt.Errorf("index ImagePolicies: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("imagepolicy").
		For(&v1alpha1.ImagePolicy{}, builderPredicates()).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(forMicroservice)).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.forNetworkPolicy), pinsChanged()).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
}

// Reconcile looks at one ImagePolicy's source, and reports what it offers.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var policy v1alpha1.ImagePolicy
	if err := r.Get(ctx, req.NamespacedName, &policy); err != nil {
		r.proofs.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !policy.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if policy.Spec.Suspend {
		return ctrl.Result{}, r.reportSuspended(ctx, &policy)
	}
	o, err := r.observe(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	s := r.scan(ctx, o)
	outcome := decide(o, s, r.clock.Now())
	if err := r.report(ctx, o, s, outcome); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.next(o, s)}, nil
}

// next look: an interval after the registry was asked, so that policies that share
// a list look at the same time, up to a tenth earlier, so that all of them do not
// ask in the same second; after a failure as late as the registry says.
func (r *Reconciler) next(o *observed, s scanned) time.Duration {
	now := r.clock.Now()
	if !s.retryAt.IsZero() {
		return max(time.Second, s.retryAt.Sub(now))
	}
	at := now
	if !s.time.IsZero() {
		at = s.time
	}
	interval := o.interval()
	early := time.Duration(rand.Int64N(int64(interval/10) + 1))
	return max(time.Second, at.Add(interval-early).Sub(now))
}
