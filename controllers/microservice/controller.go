// Package microservice reconciles Microservices: it creates releases for the versions that an
// ImagePolicy offers.
//
// A reconcile observes, plans, and applies the plan. It applies the plan in three parts: creations, the write of the status, and
// deletions. Package internal/release is the planner, which makes the decisions. This package reads the planner's input and
// applies the plans.
//
//	controller.go            options, watches, and Reconcile
//	observe.go               observed: the objects that are read, and the input of the planner
//	plan.go                  plan: the actions of a reconcile; pure
//	apply.go                 applied: the writes for a plan, except that of the status
//	status.go                the only write of the status, and its summary
//	conditions.go            conditions from the observed state and the plan; pure
//	events.go                events; the texts of the planner's events are in internal/release
//	delete.go                the finalizer and the deletionPolicy
//	index.go                 indexes of the cache, and the Microservices that a change affects
//	metrics.go               metrics of releases
//
//	spec.go                  converts the specification for the planner
//	state.go                 converts the rollout state in the status for the planner and back
//	hook_answers.go          which hook answers and measurement results count
//	preview_status.go        the number of available previews
//	peers.go                 the Microservices that are rolled out together
//	freezes.go               the Freezes and ClusterFreezes that apply; internal/release/freezes_and_step_waits.go enforces them
//	fork_secrets.go          Secrets that releases from forks do not get
//	configuration.go         ConfigMaps and Secrets that are part of a release
//	configuration_copies.go  copies of ConfigMaps and Secrets for a release
//	adoption.go              the Deployment that a Microservice takes over from
package microservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/startlimit"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager for all writes by this controller.
const FieldOwner = "heighliner-microservice"

// minDrainDelay is the default of [Options.MinDrainDelay].
const minDrainDelay = 5 * time.Second

// Options of the controller.
type Options struct {
	// MinDrainDelay is the minimum time between the removal of the last route and the removal of the pods,
	// regardless of the specification. Defaults to 5s, because a gateway may accept a change to a route
	// before it applies the change (protocol rule 36).
	MinDrainDelay time.Duration
	// Workers is the number of concurrent reconciles. Defaults to 8.
	Workers int
	// Clock is the only source of timestamps. Defaults to the real clock.
	Clock clock.PassiveClock
	// Metrics is where metrics are registered. Defaults to the manager's registry.
	Metrics prometheus.Registerer
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards
	// MaxStarting is the maximum number of rollouts that start at the same time; others wait for their turn. 0 means no limit.
	MaxStarting int
}

// startAge is how long a rollout is considered to be starting, measured from its start or its last change to the rollout state. A rollout that has
// ended, or that is waiting, for example for a hook, is not considered to be starting.
const startAge = 20 * time.Second

// Reconciler reconciles Microservices.
type Reconciler struct {
	client.Client
	// live reads from the API server instead of the cache, to prove that an object does not exist.
	live     client.Reader
	events   status.Recorder
	clock    clock.PassiveClock
	minDrain time.Duration
	// began is the time of the first reconcile. Earlier changes to releases are not known.
	began first
	// taken returns the time at which this process took the shard of a namespace; nil means that there are no shards.
	taken func(namespace string) time.Time
	// journal recognizes a rollout state that is older than the last write by this process.
	journal status.Journal
	// resizes recognizes releases that are older than the last resize by this process.
	resizes status.Journal
	// restored contains the start times of the drain delays that follow the restoration of previous Deployments,
	// keyed by the UID of the Microservice.
	restored sync.Map
	metrics  *metrics
	// stale contains the times at which the offers of ImagePolicies were first seen to be based on an older specification,
	// keyed by the name of the Microservice.
	stale sync.Map
	// configs caches the hash of each Microservice's template, as a knownConfig keyed by the name of the Microservice, because
	// the template changes rarely.
	configs sync.Map
	// guest reports whether objects are read with the permissions of a user, who may lack access to
	// freezes.
	guest bool
	// requeues keeps the requeue time of the plan if a reconcile ends with an error.
	requeues status.Requeues
	// starts limits how many rollouts start at the same time; nil means no limit.
	starts *startlimit.Limit
}

// first records the time of the first call.
type first struct {
	once sync.Once
	time time.Time
}

func (f *first) at(now time.Time) time.Time {
	f.once.Do(func() { f.time = now })
	return f.time
}

// observesSince returns the time at which this process began to observe the releases of a namespace. Before that time, there may have
// been no process that wrote the statuses of these releases.
func (r *Reconciler) observesSince(namespace string) time.Time {
	began := r.began.at(r.clock.Now())
	if r.taken == nil {
		return began
	}
	if taken := r.taken(namespace); taken.After(began) {
		return taken
	}
	return began
}

// +kubebuilder:rbac:groups=hlnr.io,resources=microservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices/finalizers,verbs=update
// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies;networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=analysistemplates;clusteranalysistemplates;freezes;clusterfreezes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller with its watches and indexes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.MinDrainDelay == 0 {
		o.MinDrainDelay = minDrainDelay
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	m, err := newMetrics(o.Metrics, mgr.GetClient())
	if err != nil {
		return fmt.Errorf("register metrics of Microservices: %w", err)
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		events:   status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:    o.Clock,
		minDrain: o.MinDrainDelay,
		metrics:  m,
		taken:    o.Shards.Since,
		starts:   &startlimit.Limit{Max: o.MaxStarting, Age: startAge, Clock: o.Clock},
	}
	if err := o.Metrics.Register(starting{r.starts}); err != nil {
		return fmt.Errorf("register metrics of starting rollouts: %w", err)
	}
	if err := index.Add(context.Background(), mgr, indexes...); err != nil {
		return fmt.Errorf("index Microservices: %w", err)
	}
	gate := o.Shards.Gate(mgr.GetCache(), &v1alpha1.MicroserviceList{})
	return r.watchFreezes(ctrl.NewControllerManagedBy(mgr)).
		Named("microservice").
		For(&v1alpha1.Microservice{}).
		Owns(&v1alpha1.VersionedMicroservice{}).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(r.forPeers), builder.WithPredicates(stateChanged())).
		Watches(&v1alpha1.Microservice{}, gate.Resume(inProgress)).
		Watches(&v1alpha1.Microservice{}, queue.Prefer(queue.Edited, queue.Itself)).
		Watches(&v1alpha1.VersionedMicroservice{}, queue.Prefer(decidedOrFailed, forRelease)).
		Watches(&v1alpha1.ImagePolicy{}, handler.EnqueueRequestsFromMapFunc(r.forImagePolicy)).
		Watches(&v1alpha1.ImagePolicy{}, queue.Prefer(withdrew, r.forImagePolicy)).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(forNetworkPolicy)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.forConfigMap), builder.WithPredicates(configMapChanged())).
		Watches(&v1alpha1.AnalysisTemplate{}, handler.EnqueueRequestsFromMapFunc(r.forTemplate)).
		Watches(&v1alpha1.ClusterAnalysisTemplate{}, handler.EnqueueRequestsFromMapFunc(r.forTemplate)).
		WatchesRawSource(&r.requeues).
		WatchesRawSource(r.starts).
		WatchesRawSource(gate).
		WithOptions(queue.Options(o.Workers)).
		Complete(gate.Reconciler(r))
}

// Reconcile reconciles one Microservice.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ms v1alpha1.Microservice
	if err := r.Get(ctx, req.NamespacedName, &ms, client.UnsafeDisableDeepCopy); err != nil {
		r.stale.Delete(req.NamespacedName)
		r.configs.Delete(req.NamespacedName)
		r.starts.Done(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The specification is shared with the cache, and is never changed.
	ms.ObjectMeta, ms.Status = *ms.ObjectMeta.DeepCopy(), *ms.Status.DeepCopy()
	convertStatus(&ms.Status)
	if !ms.DeletionTimestamp.IsZero() {
		r.starts.Done(req)
		return r.reconcileDelete(ctx, &ms)
	}
	if wrote, err := r.ensureFinalizer(ctx, &ms); err != nil || wrote {
		if err != nil {
			return r.fail(ctx, err)
		}
		return ctrl.Result{}, nil // The event for this write triggers the next reconcile.
	}
	if r.journal.Behind(&ms) {
		return ctrl.Result{}, nil // the watch will deliver the last write of this process (protocol rule 2)
	}
	o, err := r.observe(ctx, &ms)
	if err != nil {
		return r.fail(ctx, err)
	}
	w := &pass{observed: *o}
	r.noteSource(w)
	refused, err := r.planAndCreate(ctx, w)
	switch {
	case outdated(err):
		return r.fail(ctx, err)
	case err != nil:
		return r.fail(ctx, errors.Join(err, r.reportProblem(ctx, w, status.Classify(err))))
	}
	copied := r.applyCopies(ctx, w)
	if outdated(copied) {
		return r.fail(ctx, copied)
	}
	problem := status.Classify(errors.Join(refused, copied))
	if err := r.report(ctx, w, problem); err != nil {
		if stuck := new(status.Error); errors.As(err, &stuck) {
			return ctrl.Result{RequeueAfter: stuck.After}, nil
		}
		return r.fail(ctx, err)
	}
	ended := r.applyEnds(ctx, w)
	if outdated(ended) {
		return r.fail(ctx, ended)
	}
	requeue, failed := r.next(w, problem)
	return r.requeues.Again(ctx, req, requeue, errors.Join(failed, ended))
}

// next returns the time until the next reconcile: until the requeue time of the plan, or until a
// rejected write may be retried. err is an error that requires a retry with back-off. The requeue time of the plan applies in
// any case, because pauses, deadlines and drains end even if a write is rejected.
func (r *Reconciler) next(w *pass, refused *status.Error) (requeue time.Duration, err error) {
	requeue = until(w.plan.RequeueTime, r.clock.Now())
	if a := w.plan.adoption; a != nil && !a.requeue.IsZero() {
		after := until(a.requeue, r.clock.Now())
		requeue = cmp.Or(min(requeue, after), requeue, after)
	}
	if w.requeue > 0 && (requeue == 0 || w.requeue < requeue) {
		requeue = w.requeue
	}
	switch {
	case refused == nil:
	case refused.Class == status.Transient:
		return requeue, refused
	case requeue == 0 || refused.After > 0 && refused.After < requeue:
		requeue = refused.After
	}
	return requeue, nil
}

// fail drops a plan. It returns no error if the plan was based on outdated facts.
func (r *Reconciler) fail(ctx context.Context, err error) (ctrl.Result, error) {
	if apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("plan dropped: an object was deleted", "cause", err.Error())
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return status.Again(ctx, err)
}

// outdated reports whether a write found a newer object, or no object. In that case, the plan was
// based on an outdated cache.
func outdated(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

func until(requeue, now time.Time) time.Duration {
	if requeue.IsZero() {
		return 0
	}
	return max(time.Millisecond, requeue.Sub(now))
}
