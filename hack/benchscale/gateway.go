package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// These constants identify the stand-in; routes refer to gatewayNamespace and gatewayName.
const (
	gatewayName      = "public"
	gatewayNamespace = "infra"
	gatewayAgent     = "gateway"
	gatewayPort      = 80

	gatewayController gatewayv1.GatewayController = "bench.hlnr.io/gateway"
)

// gatewayWriters is the number of concurrent status writes.
const gatewayWriters = 8

// gateway is a stand-in for the controller of a Gateway: it accepts each generation of an HTTPRoute with one
// status write, as real controllers do. It does not route requests.
type gateway struct {
	plane  *plane
	client client.WithWatch
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// start creates the Gateway, and accepts routes until stop is called.
func (g *gateway) start(ctx context.Context) error {
	var err error
	if g.client, err = g.plane.newClient(gatewayAgent, g.plane.config); err != nil {
		return err
	}
	if err := g.create(ctx); err != nil {
		return err
	}
	ctx, g.cancel = context.WithCancel(ctx)
	routes := make(chan *gatewayv1.HTTPRoute, 1024)
	for range gatewayWriters {
		g.done.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case route := <-routes:
					g.acceptUntilWritten(ctx, route)
				}
			}
		})
	}
	g.done.Go(func() {
		follow(ctx, g.client, &gatewayv1.HTTPRouteList{}, func(o client.Object) {
			select {
			case routes <- o.(*gatewayv1.HTTPRoute):
			case <-ctx.Done():
			}
		}, nil)
	})
	return nil
}

func (g *gateway) stop() {
	if g.cancel != nil {
		g.cancel()
		g.done.Wait()
	}
}

// create creates the GatewayClass and a programmed Gateway.
func (g *gateway) create(ctx context.Context) error {
	all := gatewayv1.NamespacesFromAll
	gw := &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: gatewayNamespace, Name: gatewayName},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "bench", Listeners: []gatewayv1.Listener{{
			Name: "web", Port: gatewayPort, Protocol: gatewayv1.HTTPProtocolType,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
		}}},
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gatewayNamespace}},
		&gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayController}},
		gw,
	} {
		if err := g.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s %q: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
		}
	}
	gw.Status.Conditions = conditions(nil, gw.Generation, string(gatewayv1.GatewayConditionAccepted), string(gatewayv1.GatewayConditionProgrammed))
	gw.Status.Listeners = []gatewayv1.ListenerStatus{{
		Name: "web", SupportedKinds: []gatewayv1.RouteGroupKind{{Kind: "HTTPRoute"}},
		Conditions: conditions(nil, gw.Generation, string(gatewayv1.ListenerConditionAccepted), string(gatewayv1.ListenerConditionProgrammed), string(gatewayv1.ListenerConditionResolvedRefs)),
	}}
	if err := g.client.Status().Update(ctx, gw); err != nil {
		return fmt.Errorf("write status of Gateway %q: %w", gw.Name, err)
	}
	return nil
}

// retryAccept is the time between two attempts to write a route's status.
const retryAccept = time.Second

// acceptUntilWritten repeats accept until it succeeds or the context is done. Without repetition, a write that a busy API server rejects
// would stop the rollout of the service, and with it the phase.
func (g *gateway) acceptUntilWritten(ctx context.Context, route *gatewayv1.HTTPRoute) {
	for err := g.accept(ctx, route); err != nil && ctx.Err() == nil; err = g.accept(ctx, route) {
		fmt.Fprintf(os.Stderr, "gateway: %v; trying again\n", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryAccept):
		}
	}
}

// accept writes a route's status, unless the status is up to date. After a conflict, the watch reports the
// route again.
func (g *gateway) accept(ctx context.Context, route *gatewayv1.HTTPRoute) error {
	next := route.DeepCopy()
	next.Status.Parents = nil
	changed := len(route.Status.Parents) != len(route.Spec.ParentRefs)
	for i, ref := range route.Spec.ParentRefs {
		parent := gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: gatewayController}
		if i < len(route.Status.Parents) {
			parent.Conditions = route.Status.Parents[i].DeepCopy().Conditions
		}
		for _, c := range parent.Conditions {
			changed = changed || c.ObservedGeneration != route.Generation
		}
		changed = changed || len(parent.Conditions) == 0
		parent.Conditions = conditions(parent.Conditions, route.Generation, string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteConditionResolvedRefs))
		next.Status.Parents = append(next.Status.Parents, parent)
	}
	if !changed {
		return nil
	}
	err := g.client.Status().Update(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of HTTPRoute %q: %w", route.Name, err)
	}
	return nil
}

// conditions returns conditions with status True for a generation. Each condition's reason is its type.
func conditions(before []metav1.Condition, generation int64, kinds ...string) []metav1.Condition {
	for _, kind := range kinds {
		meta.SetStatusCondition(&before, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: generation})
	}
	return before
}
