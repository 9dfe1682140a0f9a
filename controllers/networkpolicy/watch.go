package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/queue"
)

// answered returns an event source that enqueues the policies whose probes succeeded. No address is
// probed before the source has started.
func answered(pool *probe.Pool) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		pool.Start(ctx, func(policy types.NamespacedName) { queue.Add(ctrl.Request{NamespacedName: policy}) })
		return nil
	})
}

// watchKind starts the watch for a kind, and returns when the cache contains the objects of the kind, because a reconcile
// that does not see these objects would treat them as deleted. A kind that cannot be listed is not added to the cache,
// because the cache would wait for this kind and block everything else.
func (r *Reconciler) watchKind(mgr ctrl.Manager, c controller.Controller, namespaces []string, gvk schema.GroupVersionKind, written bool) error {
	o, err := newObject(mgr.GetScheme(), gvk)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pollInterval/2)
	defer cancel()
	if err := tryList(ctx, mgr, namespaces, gvk, written); err != nil {
		return err
	}
	if err := fillCache(ctx, mgr, o, written); err != nil {
		return errors.Join(err, mgr.GetCache().RemoveInformer(ctx, o)) // This also removes the index. The next attempt creates the informer and the index again.
	}
	enqueue, filter := handler.EventHandler(handler.EnqueueRequestsFromMapFunc(r.byReferent(gvk.Kind))), predicate.Predicate(referentChanged)
	if written {
		enqueue = handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.NetworkPolicy{}, handler.OnlyControllerOwner())
		filter = predicate.Funcs{}
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), o, enqueue, filter)); err != nil {
		return fmt.Errorf("watch objects of kind %s: %w", gvk.Kind, err)
	}
	if written {
		if err := c.Watch(source.Kind(mgr.GetCache(), o, queue.Continue(r.byLabel))); err != nil {
			return fmt.Errorf("watch objects of kind %s: %w", gvk.Kind, err)
		}
	}
	if gvk.Kind == kindGateway {
		if err := c.Watch(source.Kind(mgr.GetCache(), o, handler.EventHandler(handler.EnqueueRequestsFromMapFunc(r.byGateway)), predicate.Predicate(referentChanged))); err != nil {
			return fmt.Errorf("watch the Gateways of user-managed routes: %w", err)
		}
	}
	return nil
}

// lostKinds returns an event source for kinds that the API server no longer serves. These kinds are removed from the cache and
// from the known kinds, and all policies are reconciled. The source emits no events if the manager's cache was not created by
// NewCache.
func (r *Reconciler) lostKinds(all cache.Cache) source.Source {
	events := make(chan event.GenericEvent, 1)
	if c, ok := all.(kindCache); ok {
		c.whenLost(func(ctx context.Context, kind string) {
			if !r.started.Load() {
				return // A replica that is not the leader has not started its watches. If a kind were removed here, its watch would never start.
			}
			o := r.kinds.lose(r.Client.Scheme(), kind, func(o client.Object) {
				if err := all.RemoveInformer(ctx, o); err != nil {
					log.FromContext(ctx).Error(err, "failed to stop the watch for a kind that the API server no longer serves", "kind", kind)
				}
			})
			if o == nil {
				return
			}
			select {
			case events <- event.GenericEvent{Object: o}:
			default: // The previous event has not been handled yet.
			}
		})
	}
	return source.Channel(events, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return r.requests(ctx) }))
}

// tryFor is the total timeout of the list requests that check whether a kind can be listed.
const tryFor = 5 * time.Second

// tryList lists the objects of a kind that the cache would contain. It sends the request to the API
// server, because a watch that is forbidden, or whose objects cannot be converted, would wait
// without reporting an error.
func tryList(ctx context.Context, mgr ctrl.Manager, namespaces []string, gvk schema.GroupVersionKind, written bool) error {
	namespaced, err := apiutil.IsGVKNamespaced(gvk, mgr.GetRESTMapper())
	if err != nil {
		return fmt.Errorf("find scope of %s: %w", gvk.Kind, err)
	}
	if !namespaced || len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	for _, namespace := range namespaces {
		options := []client.ListOption{client.InNamespace(namespace)}
		if written {
			options = append(options, client.HasLabels{v1alpha1.LabelPolicy})
		}
		some := &metav1.PartialObjectMetadataList{}
		some.SetGroupVersionKind(gvk)
		if err := mgr.GetAPIReader().List(ctx, some, options...); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

// fillCache returns when the cache contains the objects of a kind. Kinds that the controller writes
// have an index by policy. If the cache has not started yet, it is filled when it starts.
func fillCache(ctx context.Context, mgr ctrl.Manager, o client.Object, written bool) error {
	if written {
		if err := index.AddAgain(ctx, mgr.GetCache(), index.ByPolicy(o)); err != nil {
			return err
		}
	}
	if _, err := mgr.GetCache().GetInformer(ctx, o); err != nil {
		return fmt.Errorf("fill cache of %T: %w", o, err)
	}
	return nil
}

// referentChanged ignores changes to the numbers of attached routes in the status of a Gateway, which
// change whenever a route is attached or detached.
var referentChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, ok := e.ObjectOld.(*gatewayv1.Gateway)
		now, also := e.ObjectNew.(*gatewayv1.Gateway)
		return !ok || !also || old.Generation != now.Generation || !equality.Semantic.DeepEqual(old.Status.Conditions, now.Status.Conditions) ||
			!slices.EqualFunc(old.Status.Listeners, now.Status.Listeners, func(a, b gatewayv1.ListenerStatus) bool {
				return a.Name == b.Name && equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
			}) ||
			!equality.Semantic.DeepEqual(old.Status.Addresses, now.Status.Addresses)
	},
}

// claimsChanged selects events that may free or claim a host.
var claimsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, now := e.ObjectOld.(*v1alpha1.NetworkPolicy), e.ObjectNew.(*v1alpha1.NetworkPolicy)
		return !slices.Equal(claimed(old), claimed(now)) || !equality.Semantic.DeepEqual(old.Spec.Listeners, now.Spec.Listeners) || !equality.Semantic.DeepEqual(old.Spec.Provider, now.Spec.Provider) ||
			!equality.Semantic.DeepEqual(old.Spec.Domains, now.Spec.Domains) || // While a route is pending, the status does not reflect changed parentRefs.
			(old.DeletionTimestamp == nil) != (now.DeletionTimestamp == nil)
	},
}

// claimed returns the values that [traffic.ClaimsOf] reads from the status of a policy.
func claimed(p *v1alpha1.NetworkPolicy) []string {
	var out []string
	for _, d := range p.Status.Domains {
		out = append(out, fmt.Sprint(d.Domain, d.Path, d.Programmed, traffic.Holds(d), strings.HasPrefix(d.URL, "tls://")))
	}
	for _, l := range p.Status.Listeners {
		out = append(out, fmt.Sprint(l.Name, traffic.HoldsListener(l)))
	}
	if s := p.Status.ProviderSwitch; s != nil {
		out = append(out, s.From...)
	}
	return out
}

// channel reports whether the definition of a kind is from the experimental channel, according to
// the channel annotation of the definition.
func (r *Reconciler) channel(gvk schema.GroupVersionKind) (bool, error) {
	if gvk.Group != gatewayv1.GroupName {
		return false, nil // Only the Gateway API has channels.
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	name := strings.ToLower(gvk.Kind) + "s." + gvk.Group
	ctx, cancel := context.WithTimeout(context.Background(), pollInterval/2)
	defer cancel()
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsForbidden(err) {
		return false, nil // A manager with permissions only in individual namespaces cannot read CustomResourceDefinitions.
	}
	if err != nil {
		return false, fmt.Errorf("get CustomResourceDefinition %q: %w", name, err)
	}
	return crd.Annotations["gateway.networking.k8s.io/channel"] == "experimental", nil
}

// watchUsers starts the watch for one kind of user-managed route. The watch enqueues the policies that refer to a changed
// route.
func (r *Reconciler) watchUsers(c controller.Controller, gvk schema.GroupVersionKind) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	enqueue := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexRoute: providers.UserRoute(gvk.Kind, o.GetName())})
	})
	if err := c.Watch(source.Kind(r.users.cache, client.Object(o), enqueue)); err != nil {
		return fmt.Errorf("watch user-managed %ss: %w", gvk.Kind, err)
	}
	return nil
}
