package follower

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// observed is a CronJob with the objects that determine which release it follows.
type observed struct {
	cronJob *batchv1.CronJob
	// microservice is the name of the Microservice in the label of the CronJob.
	microservice string
	// exists reports whether the Microservice exists and is not being deleted.
	exists bool
	// groups are the Microservice's groups, newest first.
	groups []v1alpha1.ReleaseGroup
	// followedExists reports whether the release that the CronJob follows exists.
	followedExists bool
	// releases contains the groups' active releases whose objects exist. The keys are the names of the releases.
	releases map[string]*v1alpha1.VersionedMicroservice
}

// observe reads the cluster and writes nothing. It returns nil if the CronJob does not exist or is being deleted.
func (r *reconciler) observe(ctx context.Context, req ctrl.Request) (*observed, error) {
	job := &batchv1.CronJob{}
	if err := r.Get(ctx, req.NamespacedName, job); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	o := &observed{cronJob: job, microservice: job.Labels[v1alpha1.LabelFollow], releases: map[string]*v1alpha1.VersionedMicroservice{}}
	if job.DeletionTimestamp != nil {
		return nil, nil
	}
	if name := job.Annotations[v1alpha1.AnnotationFollows]; name != "" {
		release, err := r.release(ctx, job.Namespace, name)
		if err != nil {
			return nil, err
		}
		o.followedExists = release != nil
	}
	ms := &v1alpha1.Microservice{}
	switch err := r.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: o.microservice}, ms); {
	case apierrors.IsNotFound(err):
		return o, nil
	case err != nil:
		return nil, fmt.Errorf("get Microservice %q: %w", o.microservice, err)
	case ms.DeletionTimestamp != nil:
		return o, nil
	}
	o.exists, o.groups = true, ms.Status.ReleaseGroups
	for _, active := range actives(ms) {
		release, err := r.release(ctx, job.Namespace, active)
		if err != nil {
			return nil, err
		}
		if release != nil {
			o.releases[active] = release
		}
	}
	return o, nil
}

// release returns a release, or nil if it does not exist.
func (r *reconciler) release(ctx context.Context, namespace, name string) (*v1alpha1.VersionedMicroservice, error) {
	if name == "" {
		return nil, nil
	}
	release := &v1alpha1.VersionedMicroservice{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, release); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get release %q: %w", name, err)
	}
	return release, nil
}
