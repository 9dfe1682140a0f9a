// Package imagepolicy reconciles ImagePolicies: it looks at a registry, and offers
// the versions that exist and are allowed.
//
// A reconcile observes the cluster, scans what is known of the registry, decides, and
// reports. It never waits for a registry: looks run beside the reconciles, a bounded
// number at a time and for each tenant, and wake the policy when they are done. What
// is a version, and in which order, is internal/version; how a registry is read,
// internal/registry.
package imagepolicy

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign"
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
	// Inspect gives what an image, by its digest, says of itself for a platform.
	Inspect(ctx context.Context, r registry.Request, digest, platform string) (registry.Image, error)
	// Gone says that tag and digest do not exist, while witness does.
	Gone(ctx context.Context, r registry.Request, tag, digest, witness string) (bool, error)
}

// Verifier tells whether images are signed.
type Verifier interface {
	// Verify looks for a signature by one of the keys. An error is no verdict.
	Verify(ctx context.Context, r registry.Request, digest string, keys cosign.Keys) (cosign.Result, error)
}

// Options of the controller.
type Options struct {
	// Scanner reads registries; required.
	Scanner Scanner
	// Verifier verifies signatures. Default: one that reads them through Scanner, which
	// is to be a cosign.Registry then.
	Verifier Verifier
	// Workers that reconcile at the same time. Default: 8.
	Workers int
	// Looks at registries that are under way at the same time; one registry has at
	// most a half of them, one credential at it a quarter, one namespace a quarter, and
	// an eighth at one registry. Default: 16.
	Looks int
	// Clock is the only source of time stamps. Default: the real one.
	Clock clock.PassiveClock
	// Platform that images must be there for where a policy names none. Default:
	// linux on the manager's own architecture.
	Platform string
	// Metrics is where metrics are registered. Default: the manager's registry.
	Metrics prometheus.Registerer
	// Packages names GitHubRepositories of whose packages there is a new version:
	// ImagePolicies that read one look now. Who sends bounds how often. Default: none.
	Packages <-chan types.NamespacedName
}

// Reconciler reconciles ImagePolicies.
type Reconciler struct {
	client.Client
	scanner    Scanner
	verifier   Verifier
	namespaces client.Reader // past the cache
	events     status.Recorder
	clock      clock.PassiveClock
	platform   string
	looks      *looks
	metrics    *metrics
}

// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=imagepolicies/status,verbs=patch
// +kubebuilder:rbac:groups=hlnr.io,resources=githubrepositories;microservices;networkpolicies,verbs=get;list;watch
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
	if o.Platform == "" {
		o.Platform = "linux/" + runtime.GOARCH
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	if o.Looks == 0 {
		o.Looks = defaultLooks
	}
	if o.Verifier == nil {
		signatures, ok := o.Scanner.(cosign.Registry)
		if !ok {
			return fmt.Errorf("set up ImagePolicies: %T reads no signatures: set Verifier", o.Scanner)
		}
		o.Verifier = cosign.New(signatures, o.Clock)
	}
	ls := newLooks(o.Clock, o.Looks)
	m, err := newMetrics(o.Metrics, ls)
	if err != nil {
		return fmt.Errorf("register metrics of ImagePolicies: %w", err)
	}
	r := &Reconciler{
		Client:     mgr.GetClient(),
		scanner:    counted{o.Scanner, m},
		verifier:   countedVerifier{o.Verifier, m},
		namespaces: mgr.GetAPIReader(),
		looks:      ls,
		metrics:    m,
		events:     status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:      o.Clock,
		platform:   o.Platform,
	}
	if err := setupIndexes(context.Background(), mgr); err != nil {
		return fmt.Errorf("index ImagePolicies: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("imagepolicy").
		For(&v1alpha1.ImagePolicy{}, asked()).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(forMicroservice), holdsChanged()).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.forNetworkPolicy), pinsChanged()).
		Watches(&v1alpha1.GitHubRepository{}, handler.EnqueueRequestsFromMapFunc(r.forRepository), saysChanged()).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			ls.start(ctx, func(policy types.NamespacedName) { q.Add(ctrl.Request{NamespacedName: policy}) })
			go r.follow(ctx, o.Packages, q.Add)
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
}

// Reconcile reports what is offered by one ImagePolicy, as far as it is known, and
// has its registry looked at, if that is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var policy v1alpha1.ImagePolicy
	if err := r.Get(ctx, req.NamespacedName, &policy); apierrors.IsNotFound(err) {
		r.looks.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get ImagePolicy: %w", err)
	}
	if !policy.DeletionTimestamp.IsZero() {
		r.looks.stop(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.look(ctx, o); err != nil {
		return ctrl.Result{}, err
	}
	known := r.looks.of(req.NamespacedName)
	s := scan(o, known.asker(o, r.clock), known.absent, known.seen)
	if s.looked {
		r.looks.sees(req.NamespacedName, s.seen)
	}
	if s.unasked && known.task == nil {
		r.begin(o, known.look.more(), known)
		known = r.looks.of(req.NamespacedName)
	}
	now := r.clock.Now()
	if out := decide(o, s, now); reportable(o, s, out, known, now) {
		if err := r.report(ctx, o, s, out); err != nil {
			return status.Again(ctx, err)
		}
	}
	return ctrl.Result{RequeueAfter: next(o, s, known, now)}, nil
}

// look begins one if there is none of the present question that answers or is under
// way.
func (r *Reconciler) look(ctx context.Context, o *observed) error {
	key := client.ObjectKeyFromObject(o.policy)
	known := r.looks.of(key)
	if !o.quiet() {
		if known.task != nil && known.task.look.question == o.question || known.task == nil && !known.hinted && known.look.answers(o.question, r.clock.Now()) {
			return nil
		}
		if err := r.observeAccess(ctx, o); err != nil {
			return err
		}
	}
	if o.quiet() {
		r.looks.stop(key)
		return nil
	}
	impatient := known.hinted || o.question.requested != o.policy.Status.LastHandledRequest
	r.looks.followed(key)
	r.begin(o, newLook(o.question, o.access, impatient).after(known.look), known)
	return nil
}

// follow hints at new versions of packages until ctx ends.
func (r *Reconciler) follow(ctx context.Context, packages <-chan types.NamespacedName, enqueue func(ctrl.Request)) {
	for {
		select {
		case <-ctx.Done():
			return
		case repository := <-packages:
			r.hint(ctx, repository, enqueue)
		}
	}
}

// hint makes the ImagePolicies that read a GitHubRepository look again now.
func (r *Reconciler) hint(ctx context.Context, repository types.NamespacedName, enqueue func(ctrl.Request)) {
	named := &v1alpha1.GitHubRepository{}
	named.Namespace, named.Name = repository.Namespace, repository.Name
	for _, request := range r.forRepository(ctx, named) {
		r.looks.hint(request.NamespacedName)
		enqueue(request)
	}
}

// begin has a look filled with all that a scan of the present facts asks. The scan
// itself is done again when the answers are there, on the facts of that time.
func (r *Reconciler) begin(o *observed, l *look, known remembered) {
	facts, absent := *o, maps.Clone(known.absent)
	facts.policy = o.policy.DeepCopy() // the reconcile goes on to write its status
	r.looks.begin(client.ObjectKeyFromObject(o.policy), l, func(ctx context.Context, l *look) {
		started := r.clock.Now()
		s := scan(&facts, &asker{look: l, clock: r.clock, scanner: r.scanner, verifier: r.verifier, ctx: ctx, counts: facts.selector.Chooses, timeable: maxTimed}, absent, known.seen)
		l.close(s.err, r.clock.Now())
		r.metrics.seconds.Observe(r.clock.Since(started).Seconds())
	})
}

// asker gives the answers that are known, if they are of the present origin.
func (m remembered) asker(o *observed, c clock.PassiveClock) *asker {
	if m.look == nil || m.look.question.origin != o.question.origin {
		return &asker{look: newLook(o.question, access{}, false), clock: c}
	}
	return &asker{look: m.look, clock: c}
}

// slowLook is how long a new policy stays silent while its first look is not done.
const slowLook = 10 * time.Second

// reportable says that there is something to say: all that a pass needs is known, or
// the rules take something back, which never waits for a registry, or the first look
// takes long. Of pull requests, of which one look asks for a part only, what is known
// is said before all is.
func reportable(o *observed, s scanned, out outcome, known remembered, now time.Time) bool {
	return !s.unasked || s.pulled != nil && s.looked || out.decided && takes(o.policy.Status.Releases, out.releases) ||
		silent(o) && known.task != nil && now.Sub(known.task.since) >= slowLook
}

// silent says that nothing was ever reported.
func silent(o *observed) bool {
	return meta.FindStatusCondition(o.policy.Status.Conditions, v1alpha1.ConditionReady) == nil
}

// takes says that not all that was offered still is.
func takes(before, now []v1alpha1.OfferedRelease) bool {
	return slices.ContainsFunc(before, func(b v1alpha1.OfferedRelease) bool {
		return !slices.ContainsFunc(now, func(n v1alpha1.OfferedRelease) bool { return n.Group == b.Group && n.SemVer == b.SemVer })
	})
}

// next is the time until the policy is due again; a look that is under way wakes it
// before. A problem of the specification or of a Secret, which is not watched, is
// looked at with the interval.
func next(o *observed, s scanned, known remembered, now time.Time) time.Duration {
	due := time.Time{}
	if known.look != nil {
		due = known.look.due
	}
	if !s.ripe.IsZero() && s.ripe.Before(due) {
		due = s.ripe // what was too young is offered
	}
	switch {
	case o.policy.Spec.Suspend:
		return 0
	case o.problem != nil:
		return o.question.interval
	case known.task != nil && silent(o):
		return slowLook
	case known.task != nil:
		return 0
	default:
		return max(time.Second, due.Sub(now))
	}
}
