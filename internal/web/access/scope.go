package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/web"
)

// kind is a kind of object that pages show.
type kind int

const (
	services kind = iota
	releases
	networks
	images
	repositories
	freezes
	clusterFreezes
	templates
	clusterTemplates
	pods
	events
	kinds // the number of kinds
)

// resources lists the resources of each kind. To see objects of a kind, a reader must be able to
// list at least one of its resources.
var resources = [kinds][]struct{ group, resource string }{
	services:     {{v1alpha1.GroupVersion.Group, "microservices"}},
	releases:     {{v1alpha1.GroupVersion.Group, "versionedmicroservices"}},
	networks:     {{v1alpha1.GroupVersion.Group, "networkpolicies"}},
	images:       {{v1alpha1.GroupVersion.Group, "imagepolicies"}},
	repositories: {{v1alpha1.GroupVersion.Group, "githubrepositories"}},
	freezes:      {{v1alpha1.GroupVersion.Group, "freezes"}},
	// ClusterFreezes are cluster-scoped. Readers who are not allowed to list them see only that a freeze blocks a service.
	clusterFreezes:   {{v1alpha1.GroupVersion.Group, "clusterfreezes"}},
	templates:        {{v1alpha1.GroupVersion.Group, "analysistemplates"}},
	clusterTemplates: {{v1alpha1.GroupVersion.Group, "clusteranalysistemplates"}},
	pods:             {{corev1.GroupName, "pods"}},
	events:           {{eventsv1.GroupName, "events"}, {corev1.GroupName, "events"}}, // two API groups for the same objects
}

// clusterScoped reports whether objects of the kind have no namespace. Readers may list either all or none of these objects.
func (k kind) clusterScoped() bool { return k == clusterFreezes || k == clusterTemplates }

// seen contains the namespaces in which a reader may see a kind.
type seen struct {
	all bool
	in  map[string]bool
	// unknown is the sorted list of namespaces for which there is no answer, not even a cached one. Their
	// objects are hidden.
	unknown []string
}

func (s seen) has(namespace string) bool { return s.all || s.in[namespace] }

// Scope determines which objects a reader sees. It first checks whether the reader may list each kind in all namespaces. If this is denied, it
// checks services in each namespace, and the other kinds in the namespaces whose services are visible. A namespace without an answer, such as one that
// was created shortly before an outage, is hidden. If there is no answer at all, Scope fails.
func (a *Access) Scope(ctx context.Context, r web.Reader, namespaces []string) (web.Scope, error) {
	var all [kinds]seen
	g, gctx := errgroup.WithContext(ctx)
	for k := range kinds {
		g.Go(func() (err error) {
			all[k].all, err = a.lists(gctx, r, "", k)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return web.Scope{}, err
	}
	var err error
	if all[services], err = a.in(ctx, r, services, all[services], namespaces); err != nil {
		return web.Scope{}, err
	}
	visible := slices.DeleteFunc(slices.Clone(namespaces), func(n string) bool { return !all[services].has(n) })
	g, gctx = errgroup.WithContext(ctx)
	for k := releases; k < kinds; k++ {
		if k.clusterScoped() {
			continue
		}
		g.Go(func() (err error) {
			all[k], err = a.in(gctx, r, k, all[k], visible)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return web.Scope{}, err
	}
	return scopeOf(r, all, visible), nil
}

// in determines in which of the given namespaces a reader may list a kind that they are not allowed to list in all namespaces.
func (a *Access) in(ctx context.Context, r web.Reader, k kind, known seen, namespaces []string) (seen, error) {
	if known.all {
		return known, nil
	}
	allowed, failures := make([]bool, len(namespaces)), make([]error, len(namespaces))
	var g errgroup.Group
	g.SetLimit(maxReviews)
	for i, n := range namespaces {
		g.Go(func() error {
			allowed[i], failures[i] = a.lists(ctx, r, n, k)
			return nil
		})
	}
	_ = g.Wait()
	known.in = map[string]bool{}
	for i, n := range namespaces {
		switch {
		case failures[i] != nil:
			known.unknown = append(known.unknown, n)
		case allowed[i]:
			known.in[n] = true
		}
	}
	if err := ctx.Err(); err != nil {
		return seen{}, err
	}
	if n := len(namespaces); n > 0 && len(known.unknown) == n {
		return seen{}, failures[0]
	}
	return known, nil
}

// lists reports whether a reader may list at least one resource of a kind.
func (a *Access) lists(ctx context.Context, r web.Reader, namespace string, k kind) (bool, error) {
	for _, x := range resources[k] {
		if allowed, err := a.Allowed(ctx, r, namespace, "list", x.group, x.resource); err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

// scopeOf returns a scope with its key, its filter, and messages about the objects that are hidden.
func scopeOf(r web.Reader, all [kinds]seen, visible []string) web.Scope {
	if !slices.ContainsFunc(all[:], func(s seen) bool { return !s.all }) {
		return web.Scope{}
	}
	h := sha256.New()
	for k, s := range all {
		fmt.Fprintf(h, "%d %t", k, s.all)
		for _, n := range visible {
			if s.in[n] {
				fmt.Fprintf(h, " %s", n)
			}
		}
		fmt.Fprintln(h)
	}
	out := web.Scope{Key: hex.EncodeToString(h.Sum(nil)), Filter: func(o cluster.Objects) cluster.Objects { return filter(o, all) }}
	unknown := slices.Clone(all[services].unknown)
	for k := releases; k < kinds; k++ {
		unknown = append(unknown, all[k].unknown...)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		out.Missing = []string{"the API server did not report whether you (" + r.User + ") may list objects in " + some(slices.Compact(unknown)) + "; the check is repeated"}
	}
	if !all[services].all && len(visible) == 0 && len(unknown) == 0 {
		out.Missing = []string{fmt.Sprintf("you (%s) may not list Microservices in any namespace with a service: ask an administrator for the ClusterRole heighliner-view, or for the ClusterRole view in a namespace", r.User)}
		return out
	}
	for k := releases; k < kinds; k++ {
		var hidden []string
		for _, n := range visible {
			if !k.clusterScoped() && !all[k].has(n) && !slices.Contains(all[k].unknown, n) {
				hidden = append(hidden, n)
			}
		}
		if len(hidden) > 0 {
			out.Missing = append(out.Missing, fmt.Sprintf("you (%s) may not list %s in %s", r.User, resources[k][0].resource, some(hidden)))
		}
	}
	return out
}

// some returns the first namespaces of a list and the number of remaining namespaces.
func some(namespaces []string) string {
	const most = 3
	switch n := len(namespaces); {
	case n == 1:
		return "namespace " + namespaces[0]
	case n <= most:
		return "namespaces " + strings.Join(namespaces, ", ")
	}
	return fmt.Sprintf("namespaces %s and %d more", strings.Join(namespaces[:most], ", "), len(namespaces)-most)
}

// filter returns the visible objects, and the namespaces whose services are visible: the selectors of ClusterFreezes match the labels of namespaces.
// filter drops all kinds that it does not list. A kind that is not visible in any namespace becomes nil, as if it had not been read.
func filter(o cluster.Objects, all [kinds]seen) cluster.Objects {
	return cluster.Objects{
		Input: view.Input{
			Namespace: o.Namespace, Program: o.Program,
			Microservices:    only(o.Microservices, all[services], func(x *v1alpha1.Microservice) string { return x.Namespace }),
			Releases:         only(o.Releases, all[releases], func(x *v1alpha1.VersionedMicroservice) string { return x.Namespace }),
			NetworkPolicies:  only(o.NetworkPolicies, all[networks], func(x *v1alpha1.NetworkPolicy) string { return x.Namespace }),
			ImagePolicies:    only(o.ImagePolicies, all[images], func(x *v1alpha1.ImagePolicy) string { return x.Namespace }),
			Repositories:     only(o.Repositories, all[repositories], func(x *v1alpha1.GitHubRepository) string { return x.Namespace }),
			Freezes:          only(o.Freezes, all[freezes], func(x *v1alpha1.Freeze) string { return x.Namespace }),
			ClusterFreezes:   only(o.ClusterFreezes, all[clusterFreezes], func(*v1alpha1.ClusterFreeze) string { return "" }),
			Templates:        only(o.Templates, all[templates], func(x *v1alpha1.AnalysisTemplate) string { return x.Namespace }),
			ClusterTemplates: only(o.ClusterTemplates, all[clusterTemplates], func(*v1alpha1.ClusterAnalysisTemplate) string { return "" }),
			Namespaces:       only(o.Namespaces, all[services], func(x *corev1.Namespace) string { return x.Name }),
			Pods:             only(o.Pods, all[pods], func(x *corev1.Pod) string { return x.Namespace }),
			PodNamespaces:    all[pods].namespaces(),
		},
		Events: only(o.Events, all[events], func(x *eventsv1.Event) string { return x.Namespace }),
	}
}

// namespaces returns the namespaces in which a reader may see a kind; nil means all namespaces.
func (s seen) namespaces() map[string]bool {
	if s.all {
		return nil
	}
	return s.in
}

func only[T any](list []T, s seen, namespace func(*T) string) []T {
	if s.all || list == nil {
		return list
	}
	if len(s.in) == 0 {
		return nil
	}
	out := make([]T, 0, len(list))
	for i := range list {
		if s.in[namespace(&list[i])] {
			out = append(out, list[i])
		}
	}
	return out
}
