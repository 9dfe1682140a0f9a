// Package githubrepository reconciles GitHubRepositories: it polls GitHub, and writes the results to the
// status, for ImagePolicies and for users.
//
// A reconcile observes the cluster, starts a poll if one is due, and reports the results of the latest poll. It
// never waits for GitHub: a bounded number of polls, in total and for each tenant, run in the background, and
// enqueue the repository when they are done. Webhook deliveries only make the next poll happen earlier; they
// are not a source of data. The GitHub client is internal/github.
//
//	controller.go        setup, RBAC, Reconcile
//	observe.go           the input of a reconcile
//	plan.go              decides what to report and when to requeue, pure
//	apply.go             writes the status
//	status.go            status and conditions, pure
//	events.go            constructors of events
//	index.go             indexes, watches and predicates
//	metrics.go           metrics of polls and webhooks
//	poll.go              one poll of GitHub
//	poll_cache.go        runs polls in the background, and keeps their results
//	poll_errors.go       reasons for failed polls
//	request_cache.go     responses shared by repositories with the same credentials
//	pull_requests.go     merges a poll into the known pull requests, pure
//	releases.go          releases and tags for the status, pure
//	webhook_handler.go   accepts or rejects deliveries; internal/github/webhook_signatures.go checks their signatures
//	webhook_listener.go  listens for deliveries on every replica
//	webhook_slots.go     limits concurrent deliveries
//	delivery_notice.go   changes that deliveries announce before GitHub's responses contain them
package githubrepository

import (
	"context"
	"fmt"
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager for all writes by this controller.
const FieldOwner = "heighliner-githubrepository"

// Options of the controller.
type Options struct {
	// Pool is the pool of GitHub clients. It is required.
	Pool *github.Pool
	// Workers is the number of concurrent reconciles. Defaults to 8.
	Workers int
	// Polls is the number of concurrent polls. One host gets at most half of them, one namespace
	// a quarter, and one namespace at one host an eighth. Defaults to 16.
	Polls int
	// Clock is the source of all timestamps. Defaults to the real clock.
	Clock clock.WithDelayedExecution
	// Metrics registers the metrics of the controller. Defaults to the manager's registry.
	Metrics prometheus.Registerer
	// WebhookAddress is the address at which every replica accepts webhook deliveries, over plain
	// HTTP. If it is "" or "0", no deliveries are accepted.
	WebhookAddress string
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards
}

// Reconciler reconciles GitHubRepositories.
type Reconciler struct {
	client.Client
	uncached client.Reader
	pool     *github.Pool
	events   status.Recorder
	clock    clock.PassiveClock
	polls    *pollCache
	requests *requestCache
	metrics  *metrics
	// servesWebhooks reports whether webhook deliveries are accepted.
	servesWebhooks bool
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
	if o.Polls == 0 {
		o.Polls = defaultPolls
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	ls := newPollCache(o.Polls)
	m, err := newMetrics(o.Metrics, ls, o.Pool)
	if err != nil {
		return fmt.Errorf("register GitHubRepository metrics: %w", err)
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		uncached: mgr.GetAPIReader(),
		pool:     o.Pool,
		events:   status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:    o.Clock,
		polls:    ls,
		requests: newRequestCache(o.Clock),
		metrics:  m,
	}
	if err := index.Add(context.Background(), mgr, index.ImagePoliciesByRepository); err != nil {
		return err
	}
	if o.WebhookAddress != "" && o.WebhookAddress != "0" {
		r.servesWebhooks = true
		if err := r.setupWebhooks(mgr, o); err != nil {
			return fmt.Errorf("set up webhooks: %w", err)
		}
	}
	gate := o.Shards.Gate(mgr.GetCache(), &v1alpha1.GitHubRepositoryList{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("githubrepository").
		For(&v1alpha1.GitHubRepository{}, requestChanged()).
		Watches(&v1alpha1.GitHubRepository{}, r.delivered(o.Shards.Holds)).
		Watches(&v1alpha1.ImagePolicy{}, handler.EnqueueRequestsFromMapFunc(forImagePolicy), sourceChanged()).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			ls.run(ctx, func(key types.NamespacedName) { q.Add(ctrl.Request{NamespacedName: key}) })
			return nil
		})).
		WatchesRawSource(gate).
		WithOptions(queue.Options(o.Workers)).
		Complete(gate.Reconciler(r))
}

// setupWebhooks adds the webhook server to a manager.
func (r *Reconciler) setupWebhooks(mgr ctrl.Manager, o Options) error {
	// Controllers start informers only on the leader, but the webhook server needs the informer for GitHubRepositories on every replica.
	if _, err := mgr.GetCache().GetInformer(context.Background(), &v1alpha1.GitHubRepository{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch GitHubRepositories: %w", err)
	}
	return mgr.Add(&webhookServer{address: o.WebhookAddress, handler: (&webhookHandler{
		repositories: mgr.GetClient(), secrets: r.uncached, writer: mgr.GetClient(), clock: o.Clock,
		elected: mgr.Elected(), holds: o.Shards.Holds, hint: r.polls.hint, count: r.metrics.delivered,
	}).init()})
}

// Reconcile reports the results of the latest poll of one repository, and starts a poll if one
// is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var repository v1alpha1.GitHubRepository
	if err := r.Get(ctx, req.NamespacedName, &repository); apierrors.IsNotFound(err) {
		r.polls.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get GitHubRepository: %w", err)
	}
	if !repository.DeletionTimestamp.IsZero() {
		r.polls.stop(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	r.polls.belong(req.NamespacedName, repository.UID)
	o, err := r.observe(ctx, &repository)
	if err != nil {
		return ctrl.Result{}, err
	}
	// The next poll depends on the reported results of the previous poll.
	if known := r.polls.entry(req.NamespacedName); known.unreported(o.query) {
		if err := r.writeStatus(ctx, o, known); err != nil {
			return status.Again(ctx, err)
		}
	}
	if err := r.ensurePoll(ctx, o); err != nil {
		return ctrl.Result{}, err
	}
	known := r.polls.entry(req.NamespacedName)
	if reportable(o, known, r.clock.Now()) {
		if err := r.writeStatus(ctx, o, known); err != nil {
			return status.Again(ctx, err)
		}
	}
	return ctrl.Result{RequeueAfter: requeueAfter(o, known, r.clock.Now())}, nil
}

// ensurePoll starts a poll, unless a poll for the current query is running, or the latest poll is up to date and
// no webhook delivery has reported changes since it started. If GitHub must not be called, ensurePoll stops the
// current poll instead.
func (r *Reconciler) ensurePoll(ctx context.Context, o *observed) error {
	key := client.ObjectKeyFromObject(o.repository)
	known := r.polls.entry(key)
	if o.paused() {
		r.polls.stop(key)
		return nil
	}
	if known.task != nil && known.task.poll.query.isSame(o.query) {
		return nil // the running poll enqueues the repository; later deliveries then start another poll
	}
	now := r.clock.Now()
	if known.task == nil && len(known.hints) == 0 && known.poll.answers(o.query, now) {
		return nil
	}
	if err := r.observeSecrets(ctx, o); err != nil {
		return err
	}
	if o.paused() {
		r.polls.stop(key)
		return nil
	}
	immediate := len(known.hints) > 0 || known.task != nil && known.task.poll.immediate || known.poll.isBehind(o.query) || o.query.requested != o.repository.Status.LastHandledRequest
	l := newPoll(o.query, known, immediate, now)
	at := deliveredAt(o.repository)
	if at.After(now) {
		at = now // The clocks of the replicas differ.
	}
	if at.After(l.after) {
		l.after = at // If the delivery was passed on before this replica held the shard, no hint exists.
	}
	l.webhook = o.webhook
	current, client, offered := o.repository.Status.DeepCopy(), o.client, maps.Clone(o.offered) // copies, because this reconcile continues to change the status
	r.polls.start(key, l, func(ctx context.Context, l *poll) {
		started := r.clock.Now()
		(&poller{poll: l, offered: offered, reconciler: r, client: client, ctx: ctx}).runContained(current)
		r.metrics.seconds.Observe(r.clock.Since(started).Seconds())
	})
	return nil
}
