// Package feedback tells GitHub what became of pull requests and releases: it keeps
// a Deployment for each head commit and environment, and one comment on each pull
// request.
//
// A pass observes (observe.go), judges each release (judge.go: pure), plans what is
// to be written (plan.go: pure), and records what was (report.go). Nothing here
// waits for GitHub: writes run beside the reconciles (writer.go), a bounded number at
// a time, and wake the GitHubRepository when they are done. Nothing waits for this
// controller either: a Microservice does not know of it.
//
// A Deployment is recorded before it is made, and found again at GitHub by a marker,
// so that no crash makes two of it or forgets one.
package feedback

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager of all writes of this controller.
const FieldOwner = "heighliner-feedback"

// leaveDeadline bounds how long a GitHubRepository that is deleted is held back.
const leaveDeadline = 10 * time.Minute

// behind is when to look again at an object that the cache shows as it was; its event
// comes before that.
const behind = time.Second

// Options of the controller.
type Options struct {
	// Pool has the clients of GitHub; required. Share it with all that talks to
	// GitHub: limits are kept in it.
	Pool *github.Pool
	// Workers that reconcile at the same time. Default: 8.
	Workers int
	// Tasks that write to GitHub at the same time, one for a repository; a half of
	// them at most for one host, and a quarter for one namespace. Default: 16.
	Tasks int
	// Clock is the only source of time. Default: the real one.
	Clock clock.PassiveClock
	// Metrics is where metrics are registered. Default: the manager's registry.
	Metrics prometheus.Registerer
}

// Reconciler reconciles what GitHubRepositories are told.
type Reconciler struct {
	client.Client
	live    client.Reader
	pool    *github.Pool
	events  status.Recorder
	clock   clock.PassiveClock
	writer  *writer
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
		return fmt.Errorf("register metrics of feedback: %w", err)
	}
	r := &Reconciler{
		Client: mgr.GetClient(), live: mgr.GetAPIReader(), pool: o.Pool, clock: o.Clock, metrics: m,
		events: status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		writer: newWriter(o.Clock, o.Tasks),
	}
	if err := setupIndexes(context.Background(), mgr); err != nil {
		return fmt.Errorf("index what feedback reads: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("feedback").
		For(&v1alpha1.GitHubRepository{}, repositoryChanged).
		Watches(&v1alpha1.ImagePolicy{}, handler.EnqueueRequestsFromMapFunc(forPolicy), policyChanged).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(r.forMicroservice), microserviceChanged).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.forNetworkPolicy), networkPolicyChanged).
		Watches(&v1alpha1.VersionedMicroservice{}, handler.EnqueueRequestsFromMapFunc(r.forRelease), releaseChanged).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			r.writer.start(ctx, func(repository types.NamespacedName) { q.Add(ctrl.Request{NamespacedName: repository}) })
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
}

// Reconcile records what was written for one GitHubRepository, and has the next
// writes begun.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ghr v1alpha1.GitHubRepository
	if err := r.Get(ctx, req.NamespacedName, &ghr); apierrors.IsNotFound(err) {
		r.writer.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get GitHubRepository: %w", err)
	}
	if r.journal.Behind(&ghr) {
		return ctrl.Result{RequeueAfter: behind}, nil
	}
	leaving := !ghr.DeletionTimestamp.IsZero()
	if leaving {
		if let, err := r.let(ctx, &ghr); let || err != nil {
			return r.end(ctx, &ghr, err)
		}
	}
	if ghr.Spec.Suspend || (ghr.Spec.Feedback == nil || leaving) && !traces(&ghr) {
		return ctrl.Result{}, nil
	}
	known := r.writer.of(req.NamespacedName, ghr.UID)
	if known.task != nil {
		return ctrl.Result{RequeueAfter: r.untilDeadline(&ghr)}, nil // its end wakes us
	}
	r.writer.retry(req.NamespacedName, fmt.Sprint(ghr.Generation, ghr.Annotations[v1alpha1.AnnotationRequestedAt]))
	return r.pass(ctx, &ghr, &known)
}

// traces says that something was, or may have been, written.
func traces(ghr *v1alpha1.GitHubRepository) bool {
	return controllerutil.ContainsFinalizer(ghr, v1alpha1.FinalizerFeedback) || len(ghr.Status.Feedback) > 0 || len(ghr.Status.Comments) > 0 ||
		meta.FindStatusCondition(ghr.Status.Conditions, v1alpha1.ConditionFeedbackReady) != nil
}

// pass is one pass over a repository that nothing is written for at the moment.
func (r *Reconciler) pass(ctx context.Context, ghr *v1alpha1.GitHubRepository, known *remembered) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(ghr)
	before := ghr.DeepCopy()
	if known.outcome != nil {
		record(ghr, known.outcome)
	}
	now := r.clock.Now()
	search := !known.searched && lost(before)
	var p plan
	f := &facts{}
	if !search {
		var err error
		if f, err = r.observe(ctx, ghr); err != nil {
			return ctrl.Result{}, err
		}
		f.abandoned, f.locked = known.abandoned(), known.locked()
		p = makePlan(f)
		if wrote, err := r.hold(ctx, before, f, &p); wrote || err != nil {
			return status.Again(ctx, err) // The event of our own write brings the next pass.
		}
		ghr.Status.Feedback, ghr.Status.Comments = p.records, p.comments
	}
	report(ghr, &p, known, search)
	if wrote, err := status.Patch(ctx, r.Client, FieldOwner, ghr, before, status.AtResourceVersion); err != nil {
		return status.Again(ctx, client.IgnoreNotFound(err))
	} else if wrote {
		r.journal.Wrote(before, ghr, now)
		for _, name := range p.forsaken {
			r.events.Warning(ghr, "FeedbackNotTakenBack", "TellGitHub", fmt.Sprintf("what was written at %s, which this GitHubRepository named before, stays there: GitHub did not let it be taken back in %d tries", name, maxVisits))
		}
		r.events.Transitions(ghr, before.Status.Conditions, ghr.Status.Conditions, "TellGitHub", status.Told{Kind: v1alpha1.ConditionFeedbackReady, Good: "True"})
	}
	r.writer.recorded(key)
	if !search && len(p.writes) == 0 {
		if ghr.Spec.Feedback == nil || !ghr.DeletionTimestamp.IsZero() {
			_, err := apply.SetFinalizer(ctx, r.Client, FieldOwner, ghr, v1alpha1.FinalizerFeedback, false)
			return status.Again(ctx, err)
		}
		return ctrl.Result{RequeueAfter: f.again}, nil
	}
	wait := r.begin(ghr, &p, known, search, now)
	if f.again > 0 && (wait == 0 || f.again < wait) {
		wait = f.again
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// lost says that no record tells of Deployments: there never was one, or the status
// was taken away. It costs one request after each start of the manager to know.
func lost(ghr *v1alpha1.GitHubRepository) bool {
	if f := ghr.Spec.Feedback; f != nil && !enabled(f.Deployments.PullRequests) && !f.Deployments.Releases {
		return false // who writes comments alone may not be permitted to look
	}
	return len(ghr.Status.Feedback) == 0
}

// hold gives the repository the finalizer before anything is made that must be taken
// back, and takes it off when there is nothing. It says whether it wrote.
func (r *Reconciler) hold(ctx context.Context, ghr *v1alpha1.GitHubRepository, f *facts, p *plan) (bool, error) {
	if f.feedback == nil {
		return false, nil // until all is taken back
	}
	return apply.SetFinalizer(ctx, r.Client, FieldOwner, ghr, v1alpha1.FinalizerFeedback, p.binds())
}

// begin has the next batch written, and says when to look again; 0: when woken.
func (r *Reconciler) begin(ghr *v1alpha1.GitHubRepository, p *plan, known *remembered, search bool, now time.Time) time.Duration {
	if pause := known.failures[""].next.Sub(now); pause > 0 {
		return r.soonest(ghr, pause)
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
			batch[len(batch)-1].lost = known.lost(w.key, now)
		}
	}
	if !search && len(batch) == 0 {
		return r.soonest(ghr, wait)
	}
	facts, last := ghr.DeepCopy(), known.access
	r.writer.begin(client.ObjectKeyFromObject(ghr), ghr.Spec.BaseURL, func(ctx context.Context) outcome {
		return r.carryOut(ctx, facts, last, search, batch)
	})
	return r.untilDeadline(ghr)
}

// soonest is the sooner one of a wait and the deadline of a deletion.
func (r *Reconciler) soonest(ghr *v1alpha1.GitHubRepository, wait time.Duration) time.Duration {
	if deadline := r.untilDeadline(ghr); deadline > 0 {
		return min(wait, deadline)
	}
	return wait
}

// untilDeadline is the time until a repository that is deleted goes in any case; 0
// for others.
func (r *Reconciler) untilDeadline(ghr *v1alpha1.GitHubRepository) time.Duration {
	if ghr.DeletionTimestamp.IsZero() {
		return 0
	}
	return max(time.Second, ghr.DeletionTimestamp.Add(leaveDeadline).Sub(r.clock.Now())+time.Second)
}

// let says that a repository that is deleted goes at once, whatever is left: after
// the deadline, with its namespace, and while it is suspended.
func (r *Reconciler) let(ctx context.Context, ghr *v1alpha1.GitHubRepository) (bool, error) {
	if !controllerutil.ContainsFinalizer(ghr, v1alpha1.FinalizerFeedback) {
		return true, nil
	}
	late := r.clock.Now().Sub(ghr.DeletionTimestamp.Time) > leaveDeadline
	if late || ghr.Spec.Suspend {
		why := fmt.Sprintf("what was written to GitHub was not taken back within %s: the GitHubRepository goes without", leaveDeadline)
		if !late {
			why = "what was written to GitHub is not taken back, because spec.suspend is true"
		}
		r.events.Warning(ghr, "FeedbackNotTakenBack", "Delete", why)
		return true, nil
	}
	return apply.NamespaceGoes(ctx, r.live, ghr.Namespace)
}

// end takes the finalizer off.
func (r *Reconciler) end(ctx context.Context, ghr *v1alpha1.GitHubRepository, err error) (ctrl.Result, error) {
	if err == nil {
		r.writer.forget(client.ObjectKeyFromObject(ghr))
		_, err = apply.SetFinalizer(ctx, r.Client, FieldOwner, ghr, v1alpha1.FinalizerFeedback, false)
	}
	return status.Again(ctx, err)
}
