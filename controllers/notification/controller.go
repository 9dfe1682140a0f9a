// Package notification notifies the receivers in NotificationPolicies of release transitions. It makes no
// decisions about releases, and no other controller waits for it. docs/explanation/notifications.md explains
// which transitions are reported, and how often.
//
// A reconcile observes the cluster (observe.go), plans the due messages and the status that records accepted messages (plan.go,
// pure), writes the status, and starts tasks, which send the messages in the background and enqueue the policy again
// (send_and_retry.go).
//
//	controller.go      setup, RBAC, Reconcile
//	observe.go         the input of a reconcile
//	plan.go            due messages, and the record of accepted messages; pure
//	status.go          conditions and the state of receivers; pure
//	send_and_retry.go  sending in the background, and how often and when a message is sent again
//	send_slots.go      limits on concurrent messages
//	secrets.go         credentials of receivers
//	events.go          constructors of events
//	watch.go           watches and predicates
//	metrics.go         metrics of messages
package notification

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager for all writes by this controller.
const FieldOwner = "heighliner-notification"

const (
	// staleCacheDelay is the time until the next reconcile if the cache does not contain the last status write yet.
	staleCacheDelay = time.Second
	// pollInterval is the time after which rollouts in progress are checked again. Such rollouts may be waiting for
	// changes to objects that are not watched.
	pollInterval = 10 * time.Second
)

// Options are the options of the controller.
type Options struct {
	// Namespace is the manager's namespace. Only policies in this namespace may select other namespaces. If
	// it is empty, no policy may do so.
	Namespace string
	// Namespaces are the namespaces that the manager watches; empty means all.
	Namespaces []string
	// Outbound defines which addresses may be called.
	Outbound *outbound.Policy
	// GitHub is the pool of GitHub clients. It is required. Share it with all other components that call
	// GitHub, because it tracks rate limits.
	GitHub *github.Pool
	// UserAgent is the user agent of all calls.
	UserAgent string
	// Clock is the source of all timestamps. Defaults to the real clock.
	Clock clock.PassiveClock
	// Metrics is where metrics are registered. Defaults to the manager's registry.
	Metrics prometheus.Registerer
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards
}

// reconciler reconciles NotificationPolicies.
type reconciler struct {
	client.Client
	secrets   secretReader
	events    status.Recorder
	clock     clock.PassiveClock
	namespace string
	watched   []string
	tasks     *tasks
	journal   status.Journal
	// took contains the duration of the last evaluation of each policy. It maps a types.NamespacedName to a time.Duration.
	took sync.Map
}

// +kubebuilder:rbac:groups=hlnr.io,resources=notificationpolicies;microservices;versionedmicroservices;networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=githubrepositories,verbs=get
// +kubebuilder:rbac:groups=hlnr.io,resources=notificationpolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the controller with its watches.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	sender, err := notify.NewSender(o.Outbound, o.GitHub, o.UserAgent)
	if err != nil {
		return fmt.Errorf("create a client for notifications: %w", err)
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return fmt.Errorf("register notification metrics: %w", err)
	}
	r := &reconciler{
		Client: mgr.GetClient(), secrets: secretReader{mgr.GetAPIReader()}, clock: o.Clock, namespace: o.Namespace, watched: o.Namespaces,
		events: status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		tasks:  newTasks(o.Clock, sender.Send, m),
	}
	gate := o.Shards.Gate(mgr.GetCache(), &v1alpha1.NotificationPolicyList{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("notification").
		For(&v1alpha1.NotificationPolicy{}, builder.WithPredicates(queue.SpecChanged())).
		Watches(&v1alpha1.Microservice{}, r.soon(), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesMetadata(&corev1.Namespace{}, r.soon(), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			r.tasks.run(ctx, func(policy types.NamespacedName) { q.Add(ctrl.Request{NamespacedName: policy}) })
			return nil
		})).
		WatchesRawSource(gate).
		WithOptions(queue.Options(1)).
		Complete(gate.Reconciler(r))
}

// Reconcile records the messages that one policy's receivers accepted, and starts sending the due messages.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var policy v1alpha1.NotificationPolicy
	if err := r.Get(ctx, req.NamespacedName, &policy); apierrors.IsNotFound(err) {
		r.tasks.forget(req.NamespacedName)
		r.took.Delete(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get NotificationPolicy: %w", err)
	}
	if !policy.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if r.journal.Behind(&policy) {
		return ctrl.Result{RequeueAfter: staleCacheDelay}, nil
	}
	began := r.clock.Now()
	o, err := r.observe(ctx, &policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := policy.DeepCopy()
	now := r.clock.Now()
	r.tasks.renew(req.NamespacedName, &policy.Spec)
	o.state = r.tasks.state(req.NamespacedName, policy.UID)
	p := newPlan(o, now)
	r.took.Store(req.NamespacedName, r.clock.Since(began))
	policy.Status = p.status
	wrote, err := status.Patch(ctx, r.Client, FieldOwner, &policy, before, status.AtResourceVersion, status.KnownFields)
	if err != nil {
		return status.Again(ctx, client.IgnoreNotFound(err))
	}
	if wrote {
		r.journal.Wrote(before, &policy, now)
		for _, d := range p.dropped {
			r.events.Record(&policy, droppedEvent(d))
		}
		r.events.Record(&policy, readyEvents(before.Status.Conditions, policy.Status.Conditions)...)
	}
	r.tasks.recorded(req.NamespacedName, o.state)
	r.tasks.keep(req.NamespacedName, &policy.Spec)
	for name, jobs := range p.jobs {
		receiver := o.receiver(name).DeepCopy()
		namespace := policy.Namespace
		r.tasks.start(req.NamespacedName, receiver, jobs, func(ctx context.Context) (notify.Credentials, error) {
			return r.secrets.credentials(ctx, namespace, receiver)
		})
	}
	return ctrl.Result{RequeueAfter: p.requeueAfter}, nil
}
