// Package githubrepository reconciles GitHubRepositories: it looks at GitHub, and
// writes what it read into the status, for ImagePolicies and for people.
//
// A reconcile observes the cluster, has GitHub looked at where that is due, and
// reports what the last look learned. It never waits for GitHub: looks run beside the
// reconciles, a bounded number at a time and for each tenant, and wake the repository
// when they are done. Deliveries of webhooks bring the next look forward, and are never
// taken for facts. How GitHub is asked is internal/github.
package githubrepository

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager of all writes of this controller.
const FieldOwner = "heighliner-githubrepository"

// Options of the controller.
type Options struct {
	// Pool of clients that ask GitHub; required.
	Pool *github.Pool
	// Workers that reconcile at the same time. Default: 8.
	Workers int
	// Looks at GitHub that are under way at the same time; one host has at most a half
	// of them, one namespace a quarter, and an eighth at one host. Default: 16.
	Looks int
	// Clock is the only source of time stamps. Default: the real one.
	Clock clock.PassiveClock
	// Metrics is where metrics are registered. Default: the manager's registry.
	Metrics prometheus.Registerer
	// WebhookAddress takes deliveries of webhooks over plain HTTP, on every replica;
	// "" and "0": none are taken.
	WebhookAddress string
	// Packages is told of each delivery about a package, with the GitHubRepository and
	// the name of the package, on the leader only: who waits for an image in that
	// repository may look now. It is called from any goroutine, at most six times in a
	// row and then every ten seconds for each of both, and must not block. Default:
	// nobody is told.
	Packages func(repository types.NamespacedName, name string)
}

// Reconciler reconciles GitHubRepositories.
type Reconciler struct {
	client.Client
	uncached client.Reader
	pool     *github.Pool
	events   status.Recorder
	clock    clock.PassiveClock
	looks    *looks
	shared   *shared
	metrics  *metrics
	// serves says that deliveries of webhooks are taken.
	serves bool
}

// +kubebuilder:rbac:groups=hlnr.io,resources=githubrepositories,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hlnr.io,resources=githubrepositories/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller with its watches and indexes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Looks == 0 {
		o.Looks = defaultLooks
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	ls := newLooks(o.Looks)
	m, err := newMetrics(o.Metrics, ls, o.Pool)
	if err != nil {
		return fmt.Errorf("register metrics of GitHubRepositories: %w", err)
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		uncached: mgr.GetAPIReader(),
		pool:     o.Pool,
		events:   status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:    o.Clock,
		looks:    ls,
		shared:   newShared(o.Clock),
		metrics:  m,
	}
	if err := setupIndexes(context.Background(), mgr); err != nil {
		return err
	}
	if o.WebhookAddress != "" && o.WebhookAddress != "0" {
		r.serves = true
		if err := r.serve(mgr, o); err != nil {
			return fmt.Errorf("set up webhooks: %w", err)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("githubrepository").
		For(&v1alpha1.GitHubRepository{}, asked()).
		Watches(&v1alpha1.ImagePolicy{}, handler.EnqueueRequestsFromMapFunc(forReader), wantsChanged()).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			ls.start(ctx, func(key types.NamespacedName) { q.Add(ctrl.Request{NamespacedName: key}) })
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
}

// serve adds the server of webhooks to a manager.
func (r *Reconciler) serve(mgr ctrl.Manager, o Options) error {
	// Controllers have informers on the leader only.
	if _, err := mgr.GetCache().GetInformer(context.Background(), &v1alpha1.GitHubRepository{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch GitHubRepositories: %w", err)
	}
	return mgr.Add(&server{address: o.WebhookAddress, handler: (&hooks{
		repositories: mgr.GetClient(), secrets: r.uncached, writer: mgr.GetClient(), clock: clock.RealClock{},
		elected: mgr.Elected(), hint: r.looks.hint, packages: o.Packages, count: r.metrics.delivered,
	}).ready()})
}

// Reconcile reports what is known of one repository, and has GitHub looked at, if that
// is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var repository v1alpha1.GitHubRepository
	if err := r.Get(ctx, req.NamespacedName, &repository); apierrors.IsNotFound(err) {
		r.looks.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get GitHubRepository: %w", err)
	}
	if !repository.DeletionTimestamp.IsZero() {
		r.looks.stop(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, &repository)
	if err != nil {
		return ctrl.Result{}, err
	}
	// What a look learned is told before the next one begins, which goes by it.
	if known := r.looks.of(req.NamespacedName); known.fresh(o.question) {
		if err := r.report(ctx, o, known); err != nil {
			return status.Again(ctx, err)
		}
	}
	if err := r.look(ctx, o); err != nil {
		return ctrl.Result{}, err
	}
	known := r.looks.of(req.NamespacedName)
	if reportable(o, known, r.clock.Now()) {
		if err := r.report(ctx, o, known); err != nil {
			return status.Again(ctx, err)
		}
	}
	return ctrl.Result{RequeueAfter: next(o, known, r.clock.Now())}, nil
}

// look begins one if there is none of the present question that answers or is under
// way, or if somebody hinted that it is out of date.
func (r *Reconciler) look(ctx context.Context, o *observed) error {
	key := client.ObjectKeyFromObject(o.repository)
	known := r.looks.of(key)
	if o.quiet() {
		r.looks.stop(key)
		return nil
	}
	if known.task != nil && known.task.look.question == o.question {
		return nil // it wakes the repository, and hints that came meanwhile lead to another
	}
	now := r.clock.Now()
	if known.task == nil && len(known.hints) == 0 && known.look.answers(o.question, now) {
		return nil
	}
	if err := r.observeSecrets(ctx, o); err != nil {
		return err
	}
	if o.quiet() {
		r.looks.stop(key)
		return nil
	}
	impatient := len(known.hints) > 0 || known.look.lags(o.question) || o.question.requested != o.repository.Status.LastHandledRequest
	l := newLook(o.question, known, impatient, now)
	l.webhook = o.webhook
	facts, client, held := o.repository.Status.DeepCopy(), o.client, maps.Clone(o.held) // the reconcile goes on to write the status
	r.looks.begin(key, l, func(ctx context.Context, l *look) {
		started := r.clock.Now()
		(&asker{look: l, held: held, reconciler: r, client: client, ctx: ctx}).fill(facts)
		l.close(r.clock.Now())
		r.metrics.seconds.Observe(r.clock.Since(started).Seconds())
	})
	return nil
}

// quiet says that GitHub is not to be asked.
func (o *observed) quiet() bool { return o.problem != nil || o.repository.Spec.Suspend }

// fresh says that a look of this question is done that was not reported.
func (m remembered) fresh(q question) bool {
	return m.look != nil && !m.reported && m.look.question == q
}

// answered says that a look of this question is done, and that time alone changes
// nothing about its answer.
func (m remembered) answered(q question) bool {
	return m.look != nil && m.look.question == q && (m.look.err == nil || !transient(m.look.err))
}

// slowLook is how long a new repository stays silent while its first look is not done.
const slowLook = 10 * time.Second

// reportable says that there is something to say that the last report did not: about a
// look, about what somebody must change, or that the first look takes long.
func reportable(o *observed, known remembered, now time.Time) bool {
	if o.quiet() || known.fresh(o.question) {
		return true
	}
	if known.answered(o.question) && o.repository.Status.ObservedGeneration != o.repository.Generation {
		return true // what changed is nothing that is asked
	}
	return silent(o) && known.task != nil && now.Sub(known.task.since) >= slowLook
}

// silent says that nothing was ever reported.
func silent(o *observed) bool {
	return meta.FindStatusCondition(o.repository.Status.Conditions, v1alpha1.ConditionReady) == nil
}

// next is the time until the repository is due again; a look that is under way wakes it
// before. A problem of the specification or of a Secret, which is not watched, is
// looked at with the interval.
func next(o *observed, known remembered, now time.Time) time.Duration {
	switch {
	case o.repository.Spec.Suspend:
		return 0
	case o.problem != nil:
		return o.question.interval
	case known.task != nil && silent(o):
		return slowLook
	case known.task != nil || known.look == nil:
		return 0
	default:
		return max(time.Second, known.look.due.Sub(now))
	}
}
