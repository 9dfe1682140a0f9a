// Package imagepolicy reconciles ImagePolicies: it scans registries, and offers the existing versions that
// the policies admit.
//
// A reconcile observes the cluster, selects releases from the last scan, plans the status, and writes it. It
// never waits for a registry: scans run in the background, and enqueue the policy when they are done. The
// number of concurrent scans is limited, in total and for each namespace, registry and credential. Package
// internal/version defines versions and their order. The registry client is internal/registry.
//
//	controller.go     setup, RBAC, Reconcile
//	observe.go        the input of a reconcile
//	github_source.go  reads the GitHubRepository of a policy
//	plan.go           pure functions that determine the offered and withdrawn versions
//	status.go         pure functions that set conditions
//	apply.go          writes the status
//	events.go         constructors of events
//	index.go          indexes, watches and predicates
//	metrics.go        metrics of scans
//	scan_cache.go     runs scans in the background, and keeps their results
//	scan_record.go    the results of one scan
//	next_scan.go      the time of the next scan, including after a failure
//	selection.go      selects releases from a scan
//	pull_requests.go  selects pull requests
//	image_checks.go   checks that images exist and have the required platforms, labels and signatures
//	build_times.go    orders tags by the build times of their images
//	first_seen.go     the times at which versions were first seen, for spec.minAge
//	explain.go        explains a policy without a cluster, for hlnr
package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"

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
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager for all writes by this controller.
const FieldOwner = "heighliner-imagepolicy"

// Scanner reads registries.
type Scanner interface {
	// List returns the tags of a repository.
	List(context.Context, registry.Request) (registry.Scan, error)
	// Resolve returns the digest and platforms of a tag.
	Resolve(ctx context.Context, r registry.Request, tag string) (registry.Image, error)
	// Inspect returns the metadata of an image, by digest, for a platform.
	Inspect(ctx context.Context, r registry.Request, digest, platform string) (registry.Image, error)
	// Gone reports whether tag and digest are both absent while witness exists.
	Gone(ctx context.Context, r registry.Request, tag, digest, witness string) (bool, error)
}

// Verifier verifies image signatures.
type Verifier interface {
	// Verify searches for a signature made with one of the keys. If it returns an error, there is no result.
	Verify(ctx context.Context, r registry.Request, digest string, keys cosign.Keys) (cosign.Result, error)
}

// Options are the options of the controller.
type Options struct {
	// Scanner reads registries. It is required.
	Scanner Scanner
	// Verifier verifies signatures. The default verifier reads signatures with Scanner, which
	// must then implement cosign.Registry.
	Verifier Verifier
	// Identity provides credentials, for the registries that it supports, to policies that have no
	// imagePullSecrets. The Scanner must use it too. If it is nil, access for such policies is
	// anonymous.
	Identity registry.Identity
	// IdentityNamespaces are the namespaces whose policies may use Identity; empty means all.
	IdentityNamespaces []string
	// Workers is the number of concurrent reconciles. Defaults to 8.
	Workers int
	// Scans is the maximum number of concurrent scans. The maximum for each registry is half of
	// this number. It is a quarter for each credential at a registry and for each namespace, and
	// an eighth for each namespace at one registry. Defaults to 32.
	Scans int
	// Clock is the source of all timestamps. Defaults to the real clock.
	Clock clock.PassiveClock
	// Platform is the default for spec.platforms. Platform itself defaults to linux with the manager's
	// architecture.
	Platform string
	// Metrics is where metrics are registered. Defaults to the manager's registry.
	Metrics prometheus.Registerer
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards
	// Namespaces are the namespaces that the manager watches; empty means all.
	Namespaces []string
}

// Reconciler reconciles ImagePolicies.
type Reconciler struct {
	client.Client
	scanner    Scanner
	verifier   Verifier
	identity   identity
	namespaces client.Reader // reads from the API server
	watched    []string      // namespaces; empty means all
	events     status.Recorder
	clock      clock.PassiveClock
	platform   string
	scans      *scanCache
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
	if o.Scans == 0 {
		o.Scans = defaultScans
	}
	if o.Verifier == nil {
		signatures, ok := o.Scanner.(cosign.Registry)
		if !ok {
			return fmt.Errorf("set up ImagePolicies: %T cannot read signatures: set Verifier", o.Scanner)
		}
		o.Verifier = cosign.New(signatures, o.Clock)
	}
	ls := newScanCache(o.Clock, o.Scans)
	m, err := newMetrics(o.Metrics, ls)
	if err != nil {
		return fmt.Errorf("register ImagePolicy metrics: %w", err)
	}
	r := &Reconciler{
		Client:     mgr.GetClient(),
		scanner:    counted{o.Scanner, m},
		identity:   identity{o.Identity, o.IdentityNamespaces},
		verifier:   countedVerifier{o.Verifier, m},
		namespaces: mgr.GetAPIReader(),
		watched:    o.Namespaces,
		scans:      ls,
		metrics:    m,
		events:     status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		clock:      o.Clock,
		platform:   o.Platform,
	}
	if err := index.Add(context.Background(), mgr, indexes...); err != nil {
		return fmt.Errorf("index ImagePolicies: %w", err)
	}
	gate := o.Shards.Gate(mgr.GetCache(), &v1alpha1.ImagePolicyList{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("imagepolicy").
		For(&v1alpha1.ImagePolicy{}, requestChanged()).
		Watches(&v1alpha1.ImagePolicy{}, queue.Prefer(queue.Edited, queue.Itself)).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(forMicroservice), usageChanged()).
		Watches(&v1alpha1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.forNetworkPolicy), pinsChanged()).
		Watches(&v1alpha1.GitHubRepository{}, handler.EnqueueRequestsFromMapFunc(r.forRepository), repositoryStatusChanged()).
		Watches(&v1alpha1.GitHubRepository{}, r.packageDelivered()).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			ls.run(ctx, func(policy types.NamespacedName) { q.Add(ctrl.Request{NamespacedName: policy}) })
			return nil
		})).
		WatchesRawSource(gate).
		WithOptions(queue.Options(o.Workers)).
		Complete(gate.Reconciler(r))
}

// Reconcile reports what one ImagePolicy offers according to its last scan, and starts a scan if one is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var policy v1alpha1.ImagePolicy
	if err := r.Get(ctx, req.NamespacedName, &policy); apierrors.IsNotFound(err) {
		r.scans.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get ImagePolicy: %w", err)
	}
	if !policy.DeletionTimestamp.IsZero() {
		r.scans.stop(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	o, err := r.observe(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.ensureScan(ctx, o); err != nil {
		return ctrl.Result{}, err
	}
	known := r.scans.entry(req.NamespacedName)
	s := selectReleases(o, known.reader(o, r.clock), known.absentSince, known.firstSeen)
	if s.scanned {
		r.scans.setFirstSeen(req.NamespacedName, s.firstSeen)
	}
	if s.incomplete && known.task == nil {
		r.startScan(o, known.record.clone(), known)
		known = r.scans.entry(req.NamespacedName)
	}
	now := r.clock.Now()
	if out := newPlan(o, s, now); reportable(o, s, out, known, now) {
		if err := r.writeStatus(ctx, o, s, out); err != nil {
			return status.Again(ctx, err)
		}
	}
	return ctrl.Result{RequeueAfter: requeueAfter(o, s, known, now)}, nil
}

// ensureScan starts a scan if no scan for the current query is up to date or running.
func (r *Reconciler) ensureScan(ctx context.Context, o *observed) error {
	key := client.ObjectKeyFromObject(o.policy)
	known := r.scans.entry(key)
	if !o.paused() {
		if known.task != nil && known.task.record.query.isSame(o.query) {
			if urgent(o, known) {
				r.scans.hurry(key) // If this scan's responses are not sufficient, another scan follows.
			}
			return nil
		}
		if known.task == nil && !known.stale && known.record.answers(o.query, r.clock.Now()) {
			return nil
		}
		if err := r.observeAccess(ctx, o); err != nil {
			return err
		}
	}
	if o.paused() {
		r.scans.stop(key)
		return nil
	}
	if known.stale { // Otherwise, a delivery that has just marked the scan as stale still requires another scan.
		r.scans.markScanned(key)
	}
	r.startScan(o, newScanRecord(o.query, o.access, immediate(o, known)).continueFrom(known.record), known)
	return nil
}

// immediate reports whether a user or an event requested a scan.
func immediate(o *observed, known cacheEntry) bool {
	return known.stale || o.query.requested != o.policy.Status.LastHandledRequest
}

// urgent reports whether a scan was requested, or whether the policy or its list from GitHub has changed.
func urgent(o *observed, known cacheEntry) bool {
	return immediate(o, known) || o.policy.Status.ObservedGeneration != o.policy.Generation ||
		known.record != nil && known.record.query.listed != o.query.listed
}

// startScan starts a scan. The scan sends all requests that are necessary to select releases based on the
// current state. After the scan, a reconcile repeats the selection with the results of the scan and the state
// at that time.
func (r *Reconciler) startScan(o *observed, l *scanRecord, known cacheEntry) {
	current, absent := *o, maps.Clone(known.absentSince)
	current.policy = withStatus(o.policy) // a copy, because this reconcile continues to change the status
	r.scans.start(client.ObjectKeyFromObject(o.policy), l, urgent(o, known), func(ctx context.Context, l *scanRecord) {
		started := r.clock.Now()
		reader := &recordReader{scanRecord: l, clock: r.clock, scanner: r.scanner, verifier: r.verifier, ctx: ctx, counts: current.selector.Chooses, timesLeft: maxTimes}
		err := contain.Panics(func() error { return selectReleases(&current, reader, absent, known.firstSeen).err })
		if errors.Is(err, contain.ErrPanic) {
			l.failed = err
		}
		l.finish(err, r.clock.Now())
		r.metrics.seconds.Observe(r.clock.Since(started).Seconds())
	})
}

// reader returns a reader for the last scan, or for an empty record if the last scan does not have the current origin.
func (m cacheEntry) reader(o *observed, c clock.PassiveClock) *recordReader {
	if m.record == nil || m.record.query.origin != o.query.origin {
		return &recordReader{scanRecord: newScanRecord(o.query, access{}, false), clock: c}
	}
	return &recordReader{scanRecord: m.record, clock: c}
}
