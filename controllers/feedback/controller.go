// Package feedback reports the state of pull requests and releases to GitHub: it writes a
// Deployment for each head commit and environment, and one comment on each pull request.
//
// A reconcile reads the objects (observe.go), derives the state of each release
// (release_state.go), plans the writes (plan.go), and records the results of earlier writes
// (status.go). No reconcile waits for GitHub: a bounded number of tasks write in the background
// (task_queue.go, apply.go), and enqueue the GitHubRepository when they are done. No other
// controller depends on the feedback controller.
//
//	controller.go         setup, RBAC, Reconcile
//	observe.go            the input of a reconcile
//	release_state.go      the reported state of a release (pure functions)
//	plan.go               the plan of the writes to GitHub (pure functions)
//	apply.go              the writes to GitHub
//	status.go             records of writes, and the condition
//	task_queue.go         the queue of tasks that write in the background
//	github_repository.go  the previous repository of a GitHubRepository that now refers to another repository
//	comment.go            text of comments, and names of environments
//	delete.go             cleanup and the finalizer
//	events.go             constructors of events
//	index.go              indexes, watches and predicates
//	metrics.go            metrics of writes
package feedback

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager for all writes by this controller.
const FieldOwner = "heighliner-feedback"

// staleCacheDelay is the time until the next reconcile if the cache does not contain the latest status
// write yet. Usually the event for that write arrives first.
const staleCacheDelay = time.Second

// Options of the controller.
type Options struct {
	// Pool is the pool of GitHub clients. It is required. Share it with all other components that call
	// GitHub, because it tracks rate limits.
	Pool *github.Pool
	// Workers is the number of concurrent reconciles. Defaults to 8.
	Workers int
	// Tasks is the maximum number of repositories that are written to concurrently. One host gets at most
	// half of these tasks, and one namespace a quarter. Defaults to 16.
	Tasks int
	// Clock is the source of all timestamps. Defaults to the real clock.
	Clock clock.PassiveClock
	// Metrics registers the metrics of the controller. Defaults to the manager's registry.
	Metrics prometheus.Registerer
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards
}

// Reconciler writes the feedback for GitHubRepositories to GitHub.
type Reconciler struct {
	client.Client
	live    client.Reader
	pool    *github.Pool
	events  status.Recorder
	clock   clock.PassiveClock
	tasks   *taskQueue
	journal status.Journal
	metrics *metrics
}

// +kubebuilder:rbac:groups=hlnr.io,resources=githubrepositories,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hlnr.io,resources=githubrepositories/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=githubrepositories/finalizers,verbs=update
// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies;microservices;networkpolicies;versionedmicroservices,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller with its watches and indexes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Tasks == 0 {
		o.Tasks = defaultTasks
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return fmt.Errorf("register feedback metrics: %w", err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), live: mgr.GetAPIReader(), pool: o.Pool, clock: o.Clock, metrics: m,
		events: status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		tasks:  newTaskQueue(o.Clock, o.Tasks),
	}
	if err := index.Add(context.Background(), mgr, indexes...); err != nil {
		return fmt.Errorf("index objects for feedback: %w", err)
	}
	gate := o.Shards.Gate(mgr.GetCache(), &v1alpha1.GitHubRepositoryList{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("feedback").
		For(&v1alpha1.GitHubRepository{}, repositoryChanged).
		Watches(&v1alpha1.ImagePolicy{}, handler.EnqueueRequestsFromMapFunc(forPolicy), policyChanged).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(r.forMicroservice), microserviceChanged).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.forNetworkPolicy), networkPolicyChanged).
		Watches(&v1alpha1.VersionedMicroservice{}, handler.EnqueueRequestsFromMapFunc(r.forRelease), releaseChanged).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			r.tasks.run(ctx, func(repository types.NamespacedName) { q.Add(ctrl.Request{NamespacedName: repository}) })
			return nil
		})).
		WatchesRawSource(gate).
		WithOptions(queue.Options(o.Workers)).
		Complete(gate.Reconciler(r))
}

// Reconcile records the results of the previous task of one GitHubRepository, and starts the
// next task.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ghr v1alpha1.GitHubRepository
	if err := r.Get(ctx, req.NamespacedName, &ghr); apierrors.IsNotFound(err) {
		r.tasks.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get GitHubRepository: %w", err)
	}
	if r.journal.Behind(&ghr) {
		return ctrl.Result{RequeueAfter: staleCacheDelay}, nil
	}
	deleting := !ghr.DeletionTimestamp.IsZero()
	if deleting {
		if skip, err := r.skipsCleanup(ctx, &ghr); skip || err != nil {
			return r.removeFinalizer(ctx, &ghr, err)
		}
	}
	if ghr.Spec.Suspend || (ghr.Spec.Feedback == nil || deleting) && !hasFeedback(&ghr) {
		return ctrl.Result{}, nil
	}
	known := r.tasks.entry(req.NamespacedName, ghr.UID)
	if known.task != nil {
		return ctrl.Result{RequeueAfter: r.untilDeadline(&ghr)}, nil // enqueued again when the task is done
	}
	r.tasks.retryAll(req.NamespacedName, ghr.Generation, ghr.Annotations[v1alpha1.AnnotationRequestedAt])
	return r.reconcileFeedback(ctx, &ghr, &known)
}

// reconcileFeedback reconciles a GitHubRepository that has no running task.
func (r *Reconciler) reconcileFeedback(ctx context.Context, ghr *v1alpha1.GitHubRepository, known *repositoryEntry) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(ghr)
	before := ghr.DeepCopy()
	if known.outcome != nil {
		recordResults(ghr, known.outcome)
	}
	now := r.clock.Now()
	search := !known.searched && needsSearch(before)
	var p plan
	f := &observed{}
	if !search {
		var err error
		if f, err = r.observe(ctx, ghr); err != nil {
			return ctrl.Result{}, err
		}
		f.abandoned, f.locked = known.abandoned(), known.locked()
		p = newPlan(f)
		if wrote, err := r.ensureFinalizer(ctx, before, f, &p); wrote || err != nil {
			return status.Again(ctx, err) // the event for the write enqueues the repository again
		}
		ghr.Status.Feedback, ghr.Status.Comments = p.records, p.comments
	}
	setCondition(ghr, &p, known, search)
	if wrote, err := status.Patch(ctx, r.Client, FieldOwner, ghr, before, status.AtResourceVersion); err != nil {
		return status.Again(ctx, client.IgnoreNotFound(err))
	} else if wrote {
		r.journal.Wrote(before, ghr, now)
		for _, name := range p.abandoned {
			r.events.Record(ghr, abandonedEvent(name))
		}
		r.events.Transitions(ghr, before.Status.Conditions, ghr.Status.Conditions, "Report", status.TransitionRule{Kind: v1alpha1.ConditionFeedbackReady, Good: "True"})
	}
	r.tasks.clearResult(key)
	if !search {
		// The plan depends on the failures. They are therefore kept until the plan is recorded in the status.
		r.tasks.retainFailures(key, p.writes)
	}
	if !search && len(p.writes) == 0 {
		if ghr.Spec.Feedback == nil || !ghr.DeletionTimestamp.IsZero() {
			_, err := apply.SetFinalizer(ctx, r.Client, FieldOwner, ghr, v1alpha1.FinalizerFeedback, false)
			return status.Again(ctx, err)
		}
		return ctrl.Result{RequeueAfter: f.requeueAfter}, nil
	}
	wait := r.startTask(ghr, &p, known, search, now)
	if f.requeueAfter > 0 && (wait == 0 || f.requeueAfter < wait) {
		wait = f.requeueAfter
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// needsSearch reports whether to search for existing Deployments. The search is necessary if there are no records,
// either because no Deployment was ever created or because the status was lost. The search costs one request
// after each start of the manager.
func needsSearch(ghr *v1alpha1.GitHubRepository) bool {
	if f := ghr.Spec.Feedback; f != nil && !enabled(f.Deployments.PullRequests) && !f.Deployments.Releases {
		return false // credentials that permit comments might not permit listing Deployments
	}
	return len(ghr.Status.Feedback) == 0
}

// startTask starts the next batch of writes. It returns the time until the next reconcile; 0 means
// that an event enqueues the repository.
func (r *Reconciler) startTask(ghr *v1alpha1.GitHubRepository, p *plan, known *repositoryEntry, search bool, now time.Time) time.Duration {
	if pause := known.failures[""].next.Sub(now); pause > 0 {
		return r.untilNext(ghr, pause)
	}
	var batch []write
	var wait time.Duration
	for i := range p.writes {
		w := &p.writes[i]
		if due, next := known.due(w, now); !due {
			if left := next.Sub(now); wait == 0 || left < wait {
				wait = left
			}
		} else if len(batch) < maxBatch {
			batch = append(batch, *w)
			batch[len(batch)-1].deleted = known.isDeleted(w.key, now)
		}
	}
	if !search && len(batch) == 0 {
		return r.untilNext(ghr, wait)
	}
	repository, last := ghr.DeepCopy(), known.access
	r.tasks.start(client.ObjectKeyFromObject(ghr), ghr.Spec.BaseURL, func(ctx context.Context) applied {
		return r.apply(ctx, repository, last, search, batch)
	})
	return r.untilDeadline(ghr)
}

// untilNext returns wait, or the time until a deletion's deadline if that is shorter.
func (r *Reconciler) untilNext(ghr *v1alpha1.GitHubRepository, wait time.Duration) time.Duration {
	if deadline := r.untilDeadline(ghr); deadline > 0 {
		return min(wait, deadline)
	}
	return wait
}
