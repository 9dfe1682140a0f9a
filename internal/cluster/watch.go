package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// together is how long changes are collected before they are reported. One step of a rollout changes several objects, which are then reported
// together.
const together = 50 * time.Millisecond

// Options configure watches.
type Options struct {
	// Config is the client configuration for the cluster. Scheme contains the kinds that views use.
	Config *rest.Config
	Scheme *runtime.Scheme
	// Namespace limits the watches to one namespace; empty for all namespaces.
	Namespace string
	// Selector selects Microservices; nil selects all.
	Selector labels.Selector
	// Service is the service whose releases and pods are watched; empty for all services. For other services, only the fields on which this
	// service depends are kept.
	Service string
	// Clock is the only source of time.
	Clock clock.Clock
	// Changed is called after each change, with objects that must not be changed.
	Changed func(Objects)
	// Lost is called when a watch is interrupted. The watch is then resumed. Lost may be nil.
	Lost func(error)
}

// Watch watches the objects until the context is done. seen contains the objects that were read before. Kinds that could not be read before
// are not watched. The objects that Changed receives have the Namespace, Program and Observed of seen.
func Watch(ctx context.Context, o Options, seen Objects) error {
	log.SetLogger(logr.Discard()) // Lost receives the errors from the watches instead.
	objects, err := newCache(o)
	if err != nil {
		return err
	}
	seen = seen.kinds()
	dirty := make(chan struct{}, 1)
	note := func(any) {
		select {
		case dirty <- struct{}{}:
		default:
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- objects.Start(ctx) }()
	for _, kind := range watched(seen) {
		informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, now any) { note(now) }, DeleteFunc: note}); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	if !objects.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-dirty:
		}
		timer := o.Clock.NewTimer(together)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
		now, err := cached(ctx, objects, o.Namespace, seen)
		if err != nil {
			return err
		}
		o.Changed(now)
	}
}

// newCache returns a cache that keeps only the object fields that views need.
func newCache(o Options) (cache.Cache, error) {
	ofReleases, err := labels.NewRequirement(v1alpha1.LabelRelease, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select pods: %w", err)
	}
	releases := labels.NewSelector()
	if o.Service != "" {
		ofName, err := labels.NewRequirement(v1alpha1.LabelMicroservice, selection.Equals, []string{o.Service})
		if err != nil {
			return nil, fmt.Errorf("select releases: %w", err)
		}
		releases = releases.Add(*ofName)
	}
	follows := labels.NewSelector()
	if r, err := labels.NewRequirement(v1alpha1.LabelFollow, selection.Exists, nil); err == nil { // This never fails, because the label is a constant.
		follows = follows.Add(*r)
	}
	objects, err := cache.New(o.Config, cache.Options{
		Scheme: o.Scheme, DefaultNamespaces: map[string]cache.Config{o.Namespace: {}},
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.Microservice{}:          {Label: o.Selector, Transform: o.convert},
			&v1alpha1.VersionedMicroservice{}: {Label: releases},
			&v1alpha1.NetworkPolicy{}:         {Transform: o.policy},
			&corev1.Namespace{}:               {Transform: onlyLabels},
			&corev1.Pod{}:                     {Label: releases.Add(*ofReleases), Transform: withoutSpec},
			&batchv1.CronJob{}:                {Label: follows, Transform: withoutTemplate},
			&eventsv1.Event{}:                 {Field: fields.Set(ofHeighliner).AsSelector()},
		},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			if o.Lost != nil {
				o.Lost(err)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return objects, nil
}

// convert converts the status of a Microservice to the current form. It removes the templates of services other than the watched service, because
// views do not need them.
func (o Options) convert(object any) (any, error) {
	if ms, ok := object.(*v1alpha1.Microservice); ok {
		ms.ManagedFields = nil
		ms.Status.Convert()
		trim(ms, o.Service)
	}
	return object, nil
}

// policy removes unneeded fields from the NetworkPolicies of services other than the watched service.
func (o Options) policy(object any) (any, error) {
	if p, ok := object.(*v1alpha1.NetworkPolicy); ok {
		p.ManagedFields = nil
		trim(p, o.Service)
	}
	return object, nil
}

// trim removes unneeded fields from the objects of services other than the given service. If service is empty, it removes nothing.
func trim(object any, service string) {
	switch o := object.(type) {
	case *v1alpha1.Microservice:
		if service != "" && o.Name != service {
			o.Annotations, o.Spec.Template = nil, corev1.PodTemplateSpec{}
		}
	case *v1alpha1.NetworkPolicy:
		if service != "" && o.MicroserviceName() != service {
			o.Annotations, o.Spec.Domains, o.Status = nil, nil, v1alpha1.NetworkPolicyStatus{}
		}
	}
}

// kinds returns Objects with the Namespace, Program and Observed of o, and with an empty list for each watched kind that was read.
func (o Objects) kinds() Objects {
	out := Objects{Input: view.Input{Namespace: o.Namespace, Program: o.Program, Observed: o.Observed}}
	if o.Releases != nil {
		out.Releases = []v1alpha1.VersionedMicroservice{}
	}
	if o.NetworkPolicies != nil {
		out.NetworkPolicies = []v1alpha1.NetworkPolicy{}
	}
	if o.ImagePolicies != nil {
		out.ImagePolicies = []v1alpha1.ImagePolicy{}
	}
	if o.Repositories != nil {
		out.Repositories = []v1alpha1.GitHubRepository{}
	}
	if o.Freezes != nil {
		out.Freezes = []v1alpha1.Freeze{}
	}
	if o.ClusterFreezes != nil {
		out.ClusterFreezes = []v1alpha1.ClusterFreeze{}
	}
	if o.Templates != nil {
		out.Templates = []v1alpha1.AnalysisTemplate{}
	}
	if o.ClusterTemplates != nil {
		out.ClusterTemplates = []v1alpha1.ClusterAnalysisTemplate{}
	}
	if o.Namespaces != nil {
		out.Namespaces = []corev1.Namespace{}
	}
	if o.CronJobs != nil {
		out.CronJobs = []batchv1.CronJob{}
	}
	if o.Pods != nil {
		out.Pods = []corev1.Pod{}
	}
	if o.Events != nil {
		out.Events = []eventsv1.Event{}
	}
	return out
}

// withoutSpec removes the fields of a pod that views do not need, such as environment variables.
func withoutSpec(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Annotations, pod.Spec = nil, nil, corev1.PodSpec{NodeName: pod.Spec.NodeName}
	}
	return o, nil
}

// withoutTemplate removes the fields of a CronJob that views do not need, such as environment variables.
func withoutTemplate(o any) (any, error) {
	if job, ok := o.(*batchv1.CronJob); ok {
		job.ManagedFields, job.Spec, job.Status = nil, batchv1.CronJobSpec{Suspend: job.Spec.Suspend}, batchv1.CronJobStatus{}
	}
	return o, nil
}

// onlyLabels removes the fields of a namespace that views do not need.
func onlyLabels(o any) (any, error) {
	if n, ok := o.(*corev1.Namespace); ok {
		n.ManagedFields, n.Annotations, n.Spec, n.Status = nil, nil, corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	}
	return o, nil
}

// watched returns the kinds to watch, which are the kinds that could be read.
func watched(seen Objects) []client.Object {
	kinds := []client.Object{&v1alpha1.Microservice{}}
	for _, k := range []struct {
		kind client.Object
		read bool
	}{
		{&v1alpha1.VersionedMicroservice{}, seen.Releases != nil}, {&v1alpha1.NetworkPolicy{}, seen.NetworkPolicies != nil},
		{&v1alpha1.ImagePolicy{}, seen.ImagePolicies != nil}, {&v1alpha1.GitHubRepository{}, seen.Repositories != nil},
		{&v1alpha1.Freeze{}, seen.Freezes != nil}, {&v1alpha1.ClusterFreeze{}, seen.ClusterFreezes != nil}, {&corev1.Namespace{}, seen.Namespaces != nil},
		{&v1alpha1.AnalysisTemplate{}, seen.Templates != nil}, {&v1alpha1.ClusterAnalysisTemplate{}, seen.ClusterTemplates != nil},
		{&corev1.Pod{}, seen.Pods != nil}, {&batchv1.CronJob{}, seen.CronJobs != nil}, {&eventsv1.Event{}, seen.Events != nil},
	} {
		if k.read {
			kinds = append(kinds, k.kind)
		}
	}
	return kinds
}

// cached returns the objects in the cache. The result shares memory with the cache.
func cached(ctx context.Context, c client.Reader, namespace string, seen Objects) (Objects, error) {
	var l lists
	for _, x := range []struct {
		list   client.ObjectList
		wanted bool
	}{
		{&l.services, true}, {&l.releases, seen.Releases != nil}, {&l.policies, seen.NetworkPolicies != nil},
		{&l.images, seen.ImagePolicies != nil}, {&l.repositories, seen.Repositories != nil},
		{&l.freezes, seen.Freezes != nil}, {&l.cluster, seen.ClusterFreezes != nil}, {&l.namespaces, seen.Namespaces != nil},
		{&l.templates, seen.Templates != nil}, {&l.shared, seen.ClusterTemplates != nil}, {&l.pods, seen.Pods != nil}, {&l.cronJobs, seen.CronJobs != nil}, {&l.events, seen.Events != nil},
	} {
		if !x.wanted {
			continue
		}
		in := client.InNamespace(namespace)
		if ofCluster(x.list) {
			in = ""
		}
		if err := c.List(ctx, x.list, in, client.UnsafeDisableDeepCopy); err != nil {
			return Objects{}, fmt.Errorf("read watched objects: %w", err)
		}
		l.read(x.list)
	}
	out := l.objects()
	out.Namespace, out.Program, out.Observed = seen.Namespace, seen.Program, seen.Observed
	return out, nil
}
