package networkpolicy

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// answered is the source of the controller that tells of probes which were answered.
// Nobody is asked before it has started.
func answered(pool *probe.Pool) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		pool.Start(ctx, func(policy types.NamespacedName) { queue.Add(ctrl.Request{NamespacedName: policy}) })
		return nil
	})
}

// readProbed reads what is known of the policy's probes, and by which labels a Gateway
// may choose its namespace.
func (r *Reconciler) readProbed(ctx context.Context, f *facts, scene *providers.Scene) error {
	if p := f.policy.Spec.Provider; p == nil || p.Gateway == nil || p.Gateway.Confirm != v1alpha1.ConfirmProbe {
		return nil
	}
	f.probed = r.probes.Known(client.ObjectKeyFromObject(f.policy))
	scene.Probed = f.probed
	selects := func(l gatewayv1.Listener) bool {
		return l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil && l.AllowedRoutes.Namespaces.Selector != nil
	}
	for _, o := range scene.Referents {
		if g, ok := o.(*gatewayv1.Gateway); !ok || !slices.ContainsFunc(g.Spec.Listeners, selects) {
			continue
		}
		var namespace corev1.Namespace
		if err := r.Live.Get(ctx, client.ObjectKey{Name: f.policy.Namespace}, &namespace); err != nil {
			return fmt.Errorf("get Namespace %q: %w", f.policy.Namespace, err)
		}
		scene.Namespace = namespace.Labels
		return nil
	}
	return nil
}

// probesOf are the probes without which a decided route is not accepted.
func (f *facts) probesOf(route *routeDecision) []providers.Probe {
	if p, ok := f.view.(providers.Prober); ok {
		return p.Probes(route.Route, route.objects)
	}
	return nil
}

// probes of all routes that this pass left as they were read: what it wrote is probed
// once it has been read.
func probes(f *facts, out *decision, w writes) []providers.Probe {
	var all []providers.Probe
	for _, route := range out.routes {
		if !w.touched(routeName(route.Name)) {
			all = append(all, f.probesOf(route)...)
		}
	}
	return all
}

// asked is since when the addresses that have not answered yet are asked; zero: there
// are none. What this pass finds first is asked from now on, so that a manager that
// was just started takes nothing for unanswered that it never asked.
func (r *reporter) asked(route *routeDecision) time.Time {
	var since time.Time
	for _, p := range r.probesOf(route) {
		known, ok := r.probed[p]
		switch {
		case !ok:
			return r.now
		case !known.Served:
			since = later(since, known.Since)
		}
	}
	return since
}
