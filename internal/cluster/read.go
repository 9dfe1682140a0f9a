// Package cluster reads the objects that views are made from, and keeps them up to date by watches.
//
//	read.go    the kinds, and how they are listed once
//	watch.go   watches, with changes that are collected
//	outage.go  whether the requests of the watches succeed
//	store.go   the newest objects, for many readers
package cluster

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/view"
)

// Query chooses the objects that are read.
type Query struct {
	// Namespace; "" for all.
	Namespace string
	// Selector of Microservices; nil for all.
	Selector labels.Selector
	// Service is the Microservice whose releases and pods are read; "" for those of all. Of the other kinds all are read: a
	// service may wait together with others.
	Service string
	// Pods of releases, and Events of objects of hlnr.io, are read too.
	Pods, Events bool
	// Notifications are the NotificationPolicies, which are read too.
	Notifications bool
	// Namespaces are read for their labels; else only where a ClusterFreeze selects by them.
	Namespaces bool
}

// Objects are what views are made from. A list that is nil was not read; an empty one was.
type Objects struct {
	view.Input
	// Events of objects of hlnr.io.
	Events []eventsv1.Event
}

// lists are the kinds as they are listed.
type lists struct {
	services     v1alpha1.MicroserviceList
	releases     v1alpha1.VersionedMicroserviceList
	policies     v1alpha1.NetworkPolicyList
	images       v1alpha1.ImagePolicyList
	repositories v1alpha1.GitHubRepositoryList
	freezes      v1alpha1.FreezeList
	cluster      v1alpha1.ClusterFreezeList
	namespaces   corev1.NamespaceList
	messages     v1alpha1.NotificationPolicyList
	pods         corev1.PodList
	events       eventsv1.EventList
}

// ofHeighliner chooses the events of objects of hlnr.io.
var ofHeighliner = client.MatchingFields{"regarding.apiVersion": v1alpha1.GroupVersion.String()}

// Read lists all kinds at the same time. Microservices have to be readable; of the other kinds, what
// the user may not read is omitted, and the refusals are returned. Those of ClusterFreezes and Namespaces are not: rights in a
// namespace do not contain them, and a service that waits for a freeze reports it.
func Read(ctx context.Context, c client.Reader, q Query) (Objects, []error, error) {
	var l lists
	optional := []client.ObjectList{&l.releases, &l.policies, &l.images, &l.repositories, &l.freezes, &l.cluster}
	if q.Namespaces {
		optional = append(optional, &l.namespaces)
	}
	if q.Notifications {
		optional = append(optional, &l.messages)
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
		if err := c.List(gctx, &l.services, options...); err != nil {
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
			case client.ObjectList(&l.events):
				options = append(options, ofHeighliner)
			}
			err := c.List(gctx, list, options...)
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
		case apierrors.IsForbidden(err) && !ofCluster(optional[i]):
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

// ofCluster reports whether the objects of a list belong to no namespace.
func ofCluster(list client.ObjectList) bool {
	switch list.(type) {
	case *v1alpha1.ClusterFreezeList, *corev1.NamespaceList:
		return true
	}
	return false
}

// isOlder reports that the definitions of the cluster are of a version without freezes or notifications.
func isOlder(list client.ObjectList, err error) bool {
	switch list.(type) {
	case *v1alpha1.FreezeList, *v1alpha1.ClusterFreezeList, *v1alpha1.NotificationPolicyList:
		return apierrors.IsNotFound(err)
	}
	return false
}

// readLabels of namespaces, if a ClusterFreeze selects by them. Without the right to it they stay unread.
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

// ofService chooses the releases, or the pods, of a service; "" those of all.
func ofService(name string, pods bool) client.ListOption {
	switch {
	case name != "":
		return client.MatchingLabels{v1alpha1.LabelMicroservice: name}
	case pods:
		return client.HasLabels{v1alpha1.LabelRelease}
	}
	return client.MatchingLabels{}
}

// read makes an empty list of what was read different from one that was not.
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
	case client.ObjectList(&l.messages):
		l.messages.Items = present(l.messages.Items)
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
			ImagePolicies: l.images.Items, Repositories: l.repositories.Items, Pods: l.pods.Items,
			Freezes: l.freezes.Items, ClusterFreezes: l.cluster.Items, Namespaces: l.namespaces.Items,
			Notifications: l.messages.Items,
		},
		Events: l.events.Items,
	}
}
