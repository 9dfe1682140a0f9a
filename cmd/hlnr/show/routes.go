package show

import (
	"context"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
)

// addRoutes reads the routes of a namespace and the Gateways of its NetworkPolicies. It omits objects that the user is not allowed to
// read, and kinds that the cluster does not have. These omissions are acceptable, because the status of NetworkPolicies
// contains the same facts.
func addRoutes(ctx context.Context, f *cli.Factory, in *view.Input, namespace string) error {
	c, err := f.Client()
	if err != nil {
		return err
	}
	var wanted [][2]string
	seen := map[[2]string]bool{}
	for i := range in.NetworkPolicies {
		for _, name := range view.GatewaysOf(&in.NetworkPolicies[i]) {
			if !seen[name] {
				wanted, seen[name] = append(wanted, name), true
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	gateways, found := make([]gatewayv1.Gateway, len(wanted)), make([]bool, len(wanted))
	var g errgroup.Group
	g.SetLimit(10)
	g.Go(func() error {
		var list gatewayv1.HTTPRouteList
		if c.List(ctx, &list, client.InNamespace(namespace)) == nil {
			in.Routes = list.Items
		}
		return nil
	})
	for i, name := range wanted {
		g.Go(func() error {
			found[i] = c.Get(ctx, client.ObjectKey{Namespace: name[0], Name: name[1]}, &gateways[i]) == nil
			return nil
		})
	}
	_ = g.Wait() // None of the functions returns an error.
	for i := range gateways {
		if found[i] {
			in.Gateways = append(in.Gateways, gateways[i])
		}
	}
	return ctx.Err()
}
