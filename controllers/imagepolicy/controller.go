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
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

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
	// Metrics is where metrics are registered. Default: the manager's registry.
	Metrics prometheus.Registerer
}

// Reconciler reconciles ImagePolicies.
type Reconciler struct {
	client.Client
	scanner  Scanner
	events   status.Recorder
	clock    clock.PassiveClock
	platform string
	memory   memory
	metrics  *metrics
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
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return fmt.Errorf("register metrics of ImagePolicies: %w", err)
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		scanner:  counted{o.Scanner, m},
		metrics:  m,
		events:   status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:    o.Clock,
		platform: o.Platform,
	}
	if err := setupIndexes(context.Background(), mgr); err != nil {
		return fmt.Errorf("index ImagePolicies: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("imagepolicy").
		For(&v1alpha1.ImagePolicy{}, asked()).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(forMicroservice), holdsChanged()).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.forNetworkPolicy), pinsChanged()).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
}

// Reconcile looks at one ImagePolicy's source, if it is due, and reports what is
// offered.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var policy v1alpha1.ImagePolicy
	if err := r.Get(ctx, req.NamespacedName, &policy); apierrors.IsNotFound(err) {
		r.memory.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get ImagePolicy: %w", err)
	}
	if !policy.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	started := r.clock.Now()
	s := r.scan(ctx, o)
	r.metrics.scan(s, r.clock.Since(started))
	now := r.clock.Now()
	if err := r.report(ctx, o, s, decide(o, s, now)); err != nil {
		return status.Again(ctx, err)
	}
	return ctrl.Result{RequeueAfter: r.next(o, now)}, nil
}

// next is the time until the policy is due again. A problem of the specification
// or of a Secret, which is not watched, is looked at with the interval.
func (r *Reconciler) next(o *observed, now time.Time) time.Duration {
	switch l := r.memory.of(client.ObjectKeyFromObject(o.policy)).look; {
	case o.policy.Spec.Suspend:
		return 0
	case o.problem != nil || l == nil:
		return o.question.interval
	default:
		return max(time.Second, l.due.Sub(now))
	}
}
