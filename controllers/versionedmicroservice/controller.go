// Package versionedmicroservice runs releases. Each VersionedMicroservice owns one Deployment and, if
// configured, a HorizontalPodAutoscaler, a PodDisruptionBudget, and hook Jobs. Its status reports
// whether the release is available, or why it is not.
//
// During a release's rollout, its analyses and hooks run in the background: a reconcile records the available
// results, and requests missing results. The Microservice controller reads the results from the release's
// status.
//
//	controller.go        setup, RBAC, Reconcile
//	observe.go           the input of a reconcile
//	plan.go              the plan of the writes to child objects, except Jobs; pure functions
//	apply.go             writes the status, and child objects except Jobs
//	status.go            status and conditions; pure functions
//	events.go            events, and when they are recorded
//	cached.go            the content of the cache
//	index.go             the index of the cache; handlers and predicates of watches
//	metrics.go           metrics of hook calls
//	check_inputs.go      input of analyses and hooks
//	rollout_state.go     the rollout state that a release copies from its Microservice
//	checks.go            results of analyses and hooks
//	jobs.go              observes, plans, and writes hook Jobs
//	pools.go             the background workers of analyses and hooks
//	secrets.go           credentials of analyses and hooks
//	packed.go            the smaller form of ready pods and Deployments in the cache
//	pod_failures.go      causes of unavailable pods; internal/release/fail_and_retry.go decides which causes are problems outside the release,
//	                     and whether a step has passed its deadline
//	replicaset_retry.go  retries of pods that a quota or admission rejected
//	waits_for_pods.go    releases that wait for pods in their group to terminate, and previews that are ending
//	exclusive.go         releases of exclusive groups, which start when the pods of the group's other releases have terminated
package versionedmicroservice

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/status"
)

// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=versionedmicroservices/finalizers,verbs=update
// +kubebuilder:rbac:groups=hlnr.io,resources=analysistemplates;clusteranalysistemplates;microservices;networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments/scale,verbs=update
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;services,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;list

// The name of the controller, and the field manager of its writes.
const (
	name       = "versionedmicroservice"
	fieldOwner = "heighliner-" + name
)

// statusInterval is the minimum time between a release's last status write and a status write that does not
// report a transition.
const statusInterval = time.Second

// Options are the options of the controller.
type Options struct {
	// Workers is the number of concurrent reconciles. Defaults to 4.
	Workers int
	// Clock is the source of all timestamps. Defaults to the real clock.
	Clock clock.PassiveClock
	// PrometheusAddress is the address of the server for analyses that do not specify an
	// address. If it is empty, such analyses cannot be measured.
	PrometheusAddress string
	// Outbound restricts the addresses that analyses and hooks may call. If nil, the
	// default restrictions apply.
	Outbound *outbound.Policy
	// UserAgent is the user agent for the requests of analyses and hooks. Defaults to heighliner.
	UserAgent string
	// Metrics is where metrics are registered. Defaults to the manager's registry.
	Metrics prometheus.Registerer
	// Shards define which namespaces this replica reconciles; nil means all namespaces.
	Shards *shard.Shards
}

type reconciler struct {
	client  client.Client
	live    client.Reader
	writer  apply.Writer
	events  status.Recorder
	journal *status.Journal
	checks  checker
	// created contains the Deployments that this process created, by the name of their release.
	created sync.Map
	// exclusive contains the releases that are waiting for the pods of other releases to terminate.
	exclusive exclusiveGroups
	// ending contains the releases that are waiting for the pods of their previews to terminate.
	ending podWaits
	// differs contains the times at which the computed status of releases began to differ from the stored
	// status, by the name of the release.
	differs sync.Map
	// probed contains the latest probeRead of each release whose probe fails, by the name of the release.
	probed sync.Map
	// requeues requeues releases after a given time if a reconcile returns an error.
	requeues status.Requeues
	clock    clock.PassiveClock
}

// SetupWithManager adds the controller to the manager. Configure the manager's cache with
// CacheByObject.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if opts.Workers == 0 {
		opts.Workers = 4
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	pools, err := newPools(mgr, opts)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", name, err)
	}
	r := &reconciler{
		client:  mgr.GetClient(),
		live:    mgr.GetAPIReader(),
		writer:  apply.Writer{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Owner: fieldOwner, Deletions: &apply.Deletions{Now: opts.Clock.Now}, Matches: &apply.Matches{}},
		events:  status.Recorder{Events: mgr.GetEventRecorder(fieldOwner)},
		journal: &status.Journal{Interval: statusInterval},
		checks:  pools,
		clock:   opts.Clock,
	}
	if err := index.Add(context.Background(), mgr, indexes...); err != nil {
		return fmt.Errorf("index objects of releases: %w", err)
	}
	gate := opts.Shards.Gate(mgr.GetCache(), &v1alpha1.VersionedMicroserviceList{})
	err = ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(&v1alpha1.VersionedMicroservice{}, builder.WithPredicates(changed())).
		Watches(&v1alpha1.VersionedMicroservice{}, gate.Resume(rollsOut)).
		Watches(&v1alpha1.VersionedMicroservice{}, queue.Prefer(revived, queue.Itself)).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(changed())).
		Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(budgetChanged())).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(autoscalerChanged())).
		Owns(&batchv1.Job{}, builder.WithPredicates(changed())).
		Watches(&batchv1.Job{}, queue.Continue(labeledRelease)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(labeledRelease), builder.WithPredicates(podChanged())).
		Watches(&v1alpha1.VersionedMicroservice{}, r.othersToWaiting()).
		Watches(&appsv1.Deployment{}, r.othersToWaiting()).
		Watches(&corev1.Pod{}, r.othersToWaiting()).
		Watches(&corev1.ResourceQuota{}, r.quotaToReleases(), builder.WithPredicates(quotaRelaxed())).
		Watches(&v1alpha1.Microservice{}, statesToReleases()).
		Watches(&v1alpha1.AnalysisTemplate{}, r.templateToReleases()).
		Watches(&v1alpha1.ClusterAnalysisTemplate{}, r.templateToReleases()).
		WatchesRawSource(pools.source()).
		WatchesRawSource(&r.requeues).
		WatchesRawSource(gate).
		WithOptions(queue.Options(opts.Workers)).
		Complete(gate.Reconciler(r))
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", name, err)
	}
	return nil
}

// Reconcile creates and updates the child objects of one release, and writes its status.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	observed, err := r.observe(ctx, req.NamespacedName)
	if err != nil || observed == nil {
		return ctrl.Result{}, err
	}
	if wait := r.awaitsDeployment(observed); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	pods, err := r.awaitExclusive(ctx, observed)
	if err != nil {
		return status.Again(ctx, err)
	}
	defer pods()
	plan := newPlan(observed, r.clock.Now())
	done := r.apply(ctx, observed, plan)
	if err := done.outdated(); err != nil {
		return status.Again(ctx, err)
	}
	results := runChecks(r.checks, observed, r.clock.Now())
	outcomes, err := r.applyJobs(ctx, observed, results.jobs)
	done.jobs = status.Classify(err)
	results.record(observed, outcomes, r.clock.Now())
	next, requeueAt := newStatus(observed, done, results, r.clock.Now())
	paced, err := r.writeStatus(ctx, observed, next)
	if err != nil {
		return status.Again(ctx, err)
	}
	return r.requeues.Again(ctx, req, r.requeueAfter(done, paced, requeueAt, results.requeueAt, plan.retryAt, observed.probesDue), done.transient())
}

// requeueAfter returns the time until the next change that no watch reports; 0 means never.
func (r *reconciler) requeueAfter(done applied, paced time.Duration, times ...time.Time) time.Duration {
	var soonest time.Duration
	consider := func(d time.Duration) {
		if d > 0 && (soonest == 0 || d < soonest) {
			soonest = d
		}
	}
	consider(paced)
	for _, at := range times {
		if !at.IsZero() {
			consider(max(at.Sub(r.clock.Now()), time.Millisecond))
		}
	}
	for _, err := range done.errors() {
		if err != nil {
			consider(err.After)
		}
	}
	return soonest
}
