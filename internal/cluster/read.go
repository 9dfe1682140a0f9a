// Package cluster reads the objects from which views are built, and uses watches to keep them up to date.
//
// read.go    the kinds of objects, and the requests that list them
// watch.go   watches, which collect changes before they report them
// outage.go  whether the requests of the watches succeed
// store.go   the latest objects, for many readers
package cluster

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/view"
)

// Query selects the objects to read.
type Query struct {
	// Namespace limits the query to one namespace; empty for all namespaces.
	Namespace string
	// Selector selects Microservices; nil selects all.
	Selector labels.Selector
	// Service is the Microservice whose releases, pods and CronJobs are read; empty for all Microservices. It does not limit the objects of
	// other kinds, because a service may depend on other services.
	Service string
	// Pods and Events specify whether the pods of releases, and Events about hlnr.io objects, are also read.
	Pods, Events bool
	// CronJobs specifies whether the CronJobs that follow releases are read. Heighliner's roles do not include permission to read CronJobs.
	// Without that permission, CronJobs are omitted without an error.
	CronJobs bool
	// Notifications specifies whether NotificationPolicies are read.
	Notifications bool
	// Namespaces specifies whether the labels of namespaces are always read. Otherwise, they are read only if a ClusterFreeze selects namespaces
	// by labels.
	Namespaces bool
}

// Objects are the input to views. A list that was not read is nil. A list that was read is not nil, even if it is empty.
type Objects struct {
	view.Input
	// Events contains the Events about hlnr.io objects.
	Events []eventsv1.Event
}

// lists contains one list of objects for each kind.
type lists struct {
	services     v1alpha1.MicroserviceList
	releases     v1alpha1.VersionedMicroserviceList
	policies     v1alpha1.NetworkPolicyList
	images       v1alpha1.ImagePolicyList
	repositories v1alpha1.GitHubRepositoryList
	freezes      v1alpha1.FreezeList
	cluster      v1alpha1.ClusterFreezeList
	namespaces   corev1.NamespaceList
	templates    v1alpha1.AnalysisTemplateList
	shared       v1alpha1.ClusterAnalysisTemplateList
	messages     v1alpha1.NotificationPolicyList
	pods         corev1.PodList
	cronJobs     batchv1.CronJobList
	events       eventsv1.EventList
}

// ofHeighliner selects the events about hlnr.io objects.
var ofHeighliner = client.MatchingFields{"regarding.apiVersion": v1alpha1.GroupVersion.String()}

// Read lists all kinds concurrently. The user must be able to read Microservices. Other kinds that the user cannot read are omitted, and the
// corresponding errors are returned. Errors about cluster-scoped kinds are not returned: permissions in a namespace do not include these kinds,
// and the status of a service reports the freeze that blocks it.
func Read(ctx context.Context, c client.Reader, q Query) (Objects, []error, error) {
	var l lists
	optional := []client.ObjectList{&l.releases, &l.policies, &l.images, &l.repositories, &l.freezes, &l.cluster, &l.templates, &l.shared}
	if q.Namespaces {
		optional = append(optional, &l.namespaces)
	}
	if q.Notifications {
		optional = append(optional, &l.messages)
	}
	if q.CronJobs {
		optional = append(optional, &l.cronJobs)
	}
	if q.Pods {
		optional = append(optional, &l.pods)
	}
	if q.Events {
		optional = append(optional, &l.events)
	}
	refused := make([]error, len(optional))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		options := []client.ListOption{client.InNamespace(q.Namespace)}
		if q.Selector != nil {
			options = append(options, client.MatchingLabelsSelector{Selector: q.Selector})
		}
		if err := pages(gctx, c, &l.services, q.Service, options); err != nil {
			return fmt.Errorf("list microservices: %w", err)
		}
		return nil
	})
	for i, list := range optional {
		g.Go(func() error {
			options := []client.ListOption{client.InNamespace(q.Namespace)}
			switch list {
			case client.ObjectList(&l.releases), client.ObjectList(&l.pods):
				options = append(options, ofService(q.Service, list == client.ObjectList(&l.pods)))
			case client.ObjectList(&l.cronJobs):
				options = append(options, followersOf(q.Service))
			case client.ObjectList(&l.events):
				options = append(options, ofHeighliner)
			}
			err := pages(gctx, c, list, q.Service, options)
			if apierrors.IsForbidden(err) || isOlder(list, err) {
				refused[i] = err
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return Objects{}, nil, err
	}
	var missing []error
	for i, err := range refused {
		switch {
		case err == nil:
			l.read(optional[i])
		case apierrors.IsForbidden(err) && !ofCluster(optional[i]) && optional[i] != client.ObjectList(&l.cronJobs):
			missing = append(missing, err)
		}
	}
	if err := l.readLabels(ctx, c); err != nil {
		return Objects{}, nil, err
	}
	for i := range l.services.Items {
		l.services.Items[i].Status.Convert()
	}
	return l.objects(), missing, nil
}

// page is the number of objects per list request. Paging keeps the memory usage proportional to the size of the result.
const page = 100

// pages lists objects in pages. If only one service is read, it removes unneeded fields from the objects of each page. If the continue
// token expires before all pages are read, the whole list is read again.
func pages(ctx context.Context, c client.Reader, list client.ObjectList, service string, options []client.ListOption) error {
	var all []runtime.Object
	for limit, next := int64(page), ""; ; {
		one, ok := list.DeepCopyObject().(client.ObjectList) // A new list is needed, because the items of the previous list are still in use.
		if !ok {
			return fmt.Errorf("%T is not a list", list)
		}
		err := c.List(ctx, one, append(options[:len(options):len(options)], client.Limit(limit), client.Continue(next))...)
		if apierrors.IsResourceExpired(err) && next != "" {
			all, limit, next = nil, 0, ""
			continue
		}
		if err != nil {
			return err
		}
		items, err := meta.ExtractList(one)
		if err != nil {
			return fmt.Errorf("read %T: %w", list, err)
		}
		for _, item := range items {
			trim(item, service)
		}
		if all = append(all, items...); one.GetContinue() == "" {
			return meta.SetList(list, all)
		}
		next = one.GetContinue()
	}
}

// ofCluster reports whether the objects of a list are cluster-scoped.
func ofCluster(list client.ObjectList) bool {
	switch list.(type) {
	case *v1alpha1.ClusterFreezeList, *v1alpha1.ClusterAnalysisTemplateList, *corev1.NamespaceList:
		return true
	}
	return false
}

// isOlder reports whether the CRDs in the cluster are too old to include the kind of the list.
func isOlder(list client.ObjectList, err error) bool {
	switch list.(type) {
	case *v1alpha1.FreezeList, *v1alpha1.ClusterFreezeList, *v1alpha1.NotificationPolicyList, *v1alpha1.AnalysisTemplateList, *v1alpha1.ClusterAnalysisTemplateList:
		return apierrors.IsNotFound(err)
	}
	return false
}

// readLabels reads the labels of namespaces if a ClusterFreeze selects namespaces by labels. Without permission to list namespaces, it reads
// nothing.
func (l *lists) readLabels(ctx context.Context, c client.Reader) error {
	needed := slices.ContainsFunc(freeze.All(nil, l.cluster.Items), freeze.Freeze.NeedsNamespaceLabels)
	if !needed || l.namespaces.Items != nil {
		return nil
	}
	err := c.List(ctx, &l.namespaces)
	if err == nil {
		l.read(&l.namespaces)
	}
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// ofService selects the releases or the pods of a service. If the name is empty, it selects the releases or the pods of all services.
func ofService(name string, pods bool) client.ListOption {
	switch {
	case name != "":
		return client.MatchingLabels{v1alpha1.LabelMicroservice: name}
	case pods:
		return client.HasLabels{v1alpha1.LabelRelease}
	}
	return client.MatchingLabels{}
}

// followersOf selects the CronJobs that follow a service. If the name is empty, it selects all CronJobs that follow a service.
func followersOf(name string) client.ListOption {
	if name == "" {
		return client.HasLabels{v1alpha1.LabelFollow}
	}
	return client.MatchingLabels{v1alpha1.LabelFollow: name}
}

// read replaces a nil slice of items with an empty slice, to show that the list was read.
func (l *lists) read(list client.ObjectList) {
	switch list {
	case client.ObjectList(&l.releases):
		l.releases.Items = present(l.releases.Items)
	case client.ObjectList(&l.policies):
		l.policies.Items = present(l.policies.Items)
	case client.ObjectList(&l.images):
		l.images.Items = present(l.images.Items)
	case client.ObjectList(&l.repositories):
		l.repositories.Items = present(l.repositories.Items)
	case client.ObjectList(&l.freezes):
		l.freezes.Items = present(l.freezes.Items)
	case client.ObjectList(&l.cluster):
		l.cluster.Items = present(l.cluster.Items)
	case client.ObjectList(&l.namespaces):
		l.namespaces.Items = present(l.namespaces.Items)
	case client.ObjectList(&l.templates):
		l.templates.Items = present(l.templates.Items)
	case client.ObjectList(&l.shared):
		l.shared.Items = present(l.shared.Items)
	case client.ObjectList(&l.messages):
		l.messages.Items = present(l.messages.Items)
	case client.ObjectList(&l.cronJobs):
		l.cronJobs.Items = present(l.cronJobs.Items)
	case client.ObjectList(&l.pods):
		l.pods.Items = present(l.pods.Items)
	case client.ObjectList(&l.events):
		l.events.Items = present(l.events.Items)
	}
}

func present[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

func (l *lists) objects() Objects {
	return Objects{
		Input: view.Input{
			Microservices: l.services.Items, Releases: l.releases.Items, NetworkPolicies: l.policies.Items,
			ImagePolicies: l.images.Items, Repositories: l.repositories.Items, CronJobs: l.cronJobs.Items, Pods: l.pods.Items,
			Freezes: l.freezes.Items, ClusterFreezes: l.cluster.Items, Namespaces: l.namespaces.Items,
			Notifications: l.messages.Items, Templates: l.templates.Items, ClusterTemplates: l.shared.Items,
		},
		Events: l.events.Items,
	}
}
