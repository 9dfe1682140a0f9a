package show

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
)

// query chooses the objects that are read.
type query struct {
	// namespace; "" for all.
	namespace string
	// selector of Microservices; nil for all.
	selector labels.Selector
	// pods are read too.
	pods bool
}

// queryOf the flags of a command.
func queryOf(f *cli.Factory, scope *cli.Scope) (query, error) {
	namespace, err := scope.Namespace(f)
	if err != nil {
		return query{}, err
	}
	selector, err := scope.Selector()
	return query{namespace: namespace, selector: selector}, err
}

// objects reads what a view is made from, all kinds at the same time. Microservices have to be
// readable; of the other kinds, what the user may not read is reported once and is left out.
func objects(ctx context.Context, f *cli.Factory, q query) (view.Input, error) {
	c, err := f.Client()
	if err != nil {
		return view.Input{}, err
	}
	home, err := f.Home()
	if err != nil {
		return view.Input{}, err
	}
	in := view.Input{Namespace: home, Program: f.Program()}
	var (
		services     v1alpha1.MicroserviceList
		releases     v1alpha1.VersionedMicroserviceList
		policies     v1alpha1.NetworkPolicyList
		images       v1alpha1.ImagePolicyList
		repositories v1alpha1.GitHubRepositoryList
		pods         corev1.PodList
	)
	optional := []client.ObjectList{&releases, &policies, &images, &repositories}
	if q.pods {
		optional = append(optional, &pods)
	}
	missing := make([]error, len(optional))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		options := []client.ListOption{client.InNamespace(q.namespace)}
		if q.selector != nil {
			options = append(options, client.MatchingLabelsSelector{Selector: q.selector})
		}
		if err := c.List(gctx, &services, options...); err != nil {
			return fmt.Errorf("list microservices: %w", err)
		}
		return nil
	})
	for i, list := range optional {
		g.Go(func() error {
			options := []client.ListOption{client.InNamespace(q.namespace)}
			if list == client.ObjectList(&pods) {
				options = append(options, client.HasLabels{v1alpha1.LabelRelease})
			}
			err := c.List(gctx, list, options...)
			if apierrors.IsForbidden(err) {
				missing[i] = err
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return view.Input{}, err
	}
	for _, err := range missing {
		if err != nil {
			fmt.Fprintln(f.ErrOut, "hlnr: not shown:", f.Explain(ctx, err))
		}
	}
	for i := range services.Items {
		services.Items[i].Status.Convert()
	}
	in.Microservices, in.Releases, in.NetworkPolicies = services.Items, releases.Items, policies.Items
	in.ImagePolicies, in.Repositories, in.Pods = images.Items, repositories.Items, pods.Items
	if q.pods && in.Pods == nil && missing[len(missing)-1] == nil {
		in.Pods = []corev1.Pod{}
	}
	return in, nil
}

// find gives the namespace of a service by its name, or an error that offers others.
func find(in view.Input, namespace, name string) (string, error) {
	var found, names []string
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		names = append(names, ms.Name)
		if ms.Name == name {
			found = append(found, ms.Namespace)
		}
	}
	where := "Microservice in namespace " + namespace
	if namespace == "" {
		where = "Microservice in any namespace"
	}
	switch len(found) {
	case 0:
		return "", cli.Unknown(where, name, names)
	case 1:
		return found[0], nil
	}
	return "", explain(&view.Ambiguous{What: "Microservice", Name: name, Objects: found, Remedy: "name one of these namespaces with -n"})
}
