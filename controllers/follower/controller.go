// Package follower updates CronJobs with the label hlnr.io/follow so that they match the active release
// of a group: the CronJobs use the images of this release and its copies of ConfigMaps and Secrets.
// After a promotion or a rollback, the CronJobs follow the new active release. They are suspended while
// the group has no active release. The controller changes no other fields of CronJobs.
//
//	controller.go  setup, RBAC, Reconcile, and the CronJobs that a change affects
//	observe.go     the input of a reconcile
//	plan.go        the release that a CronJob follows, pure
//	intent.go      the applied fields, pure
package follower

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager for all writes by this controller.
const FieldOwner = "heighliner-follower"

// Options of the controller.
type Options struct {
	// Workers is the number of concurrent reconciles. Defaults to 1.
	Workers int
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards
}

type reconciler struct {
	client.Client
	// live reads from the API server instead of the cache.
	live   client.Reader
	events status.Recorder
	writer apply.Writer
}

// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hlnr.io,resources=microservices;versionedmicroservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// CacheByObject configures a manager's cache for this controller. The cache contains only CronJobs with the
// label hlnr.io/follow, without their status.
func CacheByObject() map[client.Object]cache.ByObject {
	follows, err := labels.NewRequirement(v1alpha1.LabelFollow, selection.Exists, nil)
	if err != nil {
		return nil // cannot happen: the label is a constant
	}
	return map[client.Object]cache.ByObject{
		&batchv1.CronJob{}: {Label: labels.NewSelector().Add(*follows), Transform: trimCronJob},
	}
}

func trimCronJob(obj any) (any, error) {
	if job, ok := obj.(*batchv1.CronJob); ok {
		job.Status = batchv1.CronJobStatus{} // The managed fields remain, because they show which containers the user owns.
	}
	return obj, nil
}

// SetupWithManager registers the controller.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := &reconciler{
		Client: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		events: status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		writer: apply.Writer{Client: mgr.GetClient(), Owner: FieldOwner},
	}
	gate := o.Shards.Gate(mgr.GetCache(), &batchv1.CronJobList{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("follower").
		For(&batchv1.CronJob{}, builder.WithPredicates(edited())).
		Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(r.ofMicroservice), builder.WithPredicates(activeChanged())).
		// This watch is necessary because the cache may show that a release is active before it contains the release,
		// and because deleting a release also deletes its copies of ConfigMaps and Secrets.
		Watches(&v1alpha1.VersionedMicroservice{}, handler.EnqueueRequestsFromMapFunc(r.ofRelease), builder.WithPredicates(createdOrDeleted())).
		WatchesRawSource(gate).
		WithOptions(queue.Options(max(1, o.Workers))).
		Complete(gate.Reconciler(r))
}

// edited admits all events except updates that change neither the specification, the labels nor the annotations.
// Otherwise, each start of a Job would cause a reconcile, because it changes the status.
func edited() predicate.Predicate {
	return predicate.Or(queue.SpecChanged(), predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// activeChanged admits creations and deletions of Microservices, and updates that add or remove a group, or change
// the active release of a group.
func activeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Microservice)
		now, is := e.ObjectNew.(*v1alpha1.Microservice)
		return ok && is && !maps.Equal(actives(before), actives(now))
	}}
}

// actives returns the name of each group's active release. The keys are the slugs of the groups. The name is
// empty if the group has no active release.
func actives(ms *v1alpha1.Microservice) map[string]string {
	active := map[string]string{}
	for i := range ms.Status.ReleaseGroups {
		active[ms.Status.ReleaseGroups[i].Slug] = activeOf(&ms.Status.ReleaseGroups[i])
	}
	return active
}

// createdOrDeleted admits only creations and deletions.
func createdOrDeleted() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

func (r *reconciler) ofMicroservice(ctx context.Context, ms client.Object) []reconcile.Request {
	return r.followers(ctx, ms.GetNamespace(), ms.GetName())
}

func (r *reconciler) ofRelease(ctx context.Context, o client.Object) []reconcile.Request {
	release, ok := o.(*v1alpha1.VersionedMicroservice)
	if !ok {
		return nil
	}
	return r.followers(ctx, release.Namespace, release.Spec.MicroserviceName)
}

// followers returns the CronJobs that follow a Microservice.
func (r *reconciler) followers(ctx context.Context, namespace, microservice string) []reconcile.Request {
	var list batchv1.CronJobList
	err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelFollow: microservice})
	var early *cache.ErrResourceNotCached
	if errors.As(err, &early) {
		return nil // CronJobs are not watched yet. When the watch starts, each CronJob is reconciled.
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the CronJobs that follow a Microservice", "microservice", microservice)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// resume ends the suspension of a CronJob that is no longer in the cache because its label was removed. The
// CronJob keeps its images. Its references to ConfigMaps and Secrets are restored to those in its manifest, because
// a release's copies of these objects are deleted with the release.
func (r *reconciler) resume(ctx context.Context, key client.ObjectKey) error {
	job := &batchv1.CronJob{}
	if err := r.live.Get(ctx, key, job); err != nil {
		return client.IgnoreNotFound(err)
	}
	if job.Labels[v1alpha1.LabelFollow] != "" || job.Annotations[v1alpha1.AnnotationFollowMessage] == "" {
		return nil // The CronJob will be in the cache soon, or it never followed a release.
	}
	intent, err := intentOf(job, plan{restore: true, message: "it does not follow a Microservice, because it has no label " + v1alpha1.LabelFollow})
	if err != nil {
		return err
	}
	if _, err := r.writer.Share(ctx, job, intent); err != nil {
		return fmt.Errorf("resume CronJob %q: %w", job.Name, err)
	}
	return nil
}

// Reconcile updates one CronJob to match the release that it follows.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o == nil {
		return ctrl.Result{}, r.resume(ctx, req.NamespacedName)
	}
	p := decide(o)
	intent, err := intentOf(o.cronJob, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	if _, err := r.writer.Share(ctx, o.cronJob, intent); err != nil {
		err = fmt.Errorf("follow Microservice %q: %w", o.microservice, err)
		if class := status.Classify(err); class.Class == status.Terminal {
			return ctrl.Result{RequeueAfter: class.After}, r.reject(ctx, o.cronJob, p, err)
		}
		return status.Again(ctx, err)
	}
	if o.cronJob.Annotations[v1alpha1.AnnotationFollowMessage] != p.message {
		r.report(o.cronJob, p)
	}
	return ctrl.Result{}, nil
}

// reject reports that the API server rejects the intended state of a CronJob. The CronJob does not change.
func (r *reconciler) reject(ctx context.Context, job *batchv1.CronJob, p plan, why error) error {
	cause := fmt.Sprintf("the CronJob cannot be changed (%s); its intended state: %s", status.Classify(why).Reason, p.message)
	rejected := plan{reason: applyRejected, message: status.Line(fmt.Sprintf("%s; %v", cause, why))}
	if strings.HasPrefix(job.Annotations[v1alpha1.AnnotationFollowMessage], status.Line(cause)) {
		return nil // The rest of the message, such as a request ID, may differ each time.
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": job.UID, "annotations": map[string]string{v1alpha1.AnnotationFollowMessage: rejected.message}}})
	if err != nil {
		return fmt.Errorf("encode the message of CronJob %q: %w", job.Name, err)
	}
	r.report(job, rejected)
	err = r.Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner))
	if class := status.Classify(client.IgnoreNotFound(err)); class != nil && class.Class != status.Terminal {
		return fmt.Errorf("report the rejected change to CronJob %q: %w", job.Name, err)
	}
	return nil // If the API server also rejects the annotation, the message is only in the event.
}

// report records an event that shows which release a CronJob follows, or what prevents it from following a release.
func (r *reconciler) report(job *batchv1.CronJob, p plan) {
	if p.reason == following || p.reason == noActiveRelease {
		r.events.Normal(job, string(p.reason), "Follow", p.message)
		return
	}
	r.events.Warning(job, string(p.reason), "Follow", p.message)
}
