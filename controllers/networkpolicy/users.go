package networkpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/internal/status"
)

// userRoutes watches routes of others for that they change, and no more: they bear no
// label by which a cache could tell those that matter, and their content is read from
// the server when it is needed. The watch of a kind begins with the first policy that
// names a route of it.
type userRoutes struct {
	cache cache.Cache
	watch func(schema.GroupVersionKind) error

	mu   sync.Mutex
	seen map[string]bool
}

// newUserRoutes adds the cache to a manager.
func newUserRoutes(mgr ctrl.Manager, namespaces []string) (*userRoutes, error) {
	within := map[string]cache.Config{}
	for _, name := range namespaces {
		within[name] = cache.Config{}
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultNamespaces: within, DefaultTransform: bare,
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of routes: %w", err)
	}
	return &userRoutes{cache: c, seen: map[string]bool{}}, mgr.Add(c)
}

// bare leaves of an object what tells it from others, and when it changed.
func bare(o any) (any, error) {
	if o, ok := o.(*metav1.PartialObjectMetadata); ok {
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	return o, nil
}

// follow begins the watch of a kind.
func (u *userRoutes) follow(gvk schema.GroupVersionKind) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[gvk.Kind] {
		return nil
	}
	if err := u.watch(gvk); err != nil {
		return err
	}
	u.seen[gvk.Kind] = true
	return nil
}

// watchUsers starts the watch of a kind, which wakes the policies that name one of its
// objects.
func (r *Reconciler) watchUsers(c controller.Controller, gvk schema.GroupVersionKind) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	enqueue := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexRoute: providers.UserRoute(gvk.Kind, o.GetName())})
	})
	if err := c.Watch(source.Kind(r.users.cache, client.Object(o), enqueue)); err != nil {
		return fmt.Errorf("watch %ss of others: %w", gvk.Kind, err)
	}
	return nil
}

// userNames are the routes of others that a policy names, or may have rules in.
func userNames(p *v1alpha1.NetworkPolicy) []string {
	var out []string
	if ref := gatewayapi.UserRef(p); ref != nil {
		out = append(out, providers.UserRoute(ref.Kind, ref.Name))
	}
	for _, s := range p.Status.Routes {
		out = append(out, providers.UserRoute(s.Kind, s.Name))
	}
	return union(out, nil)
}

// routeHost is the route that a policy names in the form of a host, which no host has.
func routeHost(p *v1alpha1.NetworkPolicy) string {
	ref := gatewayapi.UserRef(p)
	if ref == nil {
		return ""
	}
	return "route " + p.Namespace + "/" + providers.UserRoute(ref.Kind, ref.Name)
}

// readRivals finds the older policies that name the same route.
func (r *Reconciler) readRivals(ctx context.Context, f *facts) error {
	host := routeHost(f.policy)
	if host == "" {
		return nil
	}
	var list v1alpha1.NetworkPolicyList
	if err := r.Client.List(ctx, &list, client.InNamespace(f.policy.Namespace), client.MatchingFields{indexHost: host}); err != nil {
		return fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
	}
	for i := range list.Items {
		if o := &list.Items[i]; o.UID != f.policy.UID && o.DeletionTimestamp == nil && older(o, f.policy) {
			f.older = append(f.older, o)
		}
	}
	slices.SortFunc(f.older, func(a, b *v1alpha1.NetworkPolicy) int {
		if older(a, b) {
			return -1
		}
		return 1
	})
	return nil
}

// readUsers reads routes of others from the server, whole: what is written to them
// rests on what they are now. The Gateways that serve them come with them.
func (r *Reconciler) readUsers(ctx context.Context, f *facts, scene *providers.Scene, seen []seenKind) error {
	scene.Older, scene.Services, scene.Releases = f.older, map[string]bool{}, map[string]bool{}
	for name, s := range f.services {
		scene.Services[name], scene.Releases[name] = true, ofRelease(s)
	}
	for _, name := range userNames(f.policy) {
		kind, object, _ := strings.Cut(name, "/")
		i := slices.IndexFunc(seen, func(k seenKind) bool { return k.gvk.Kind == kind })
		if i < 0 {
			continue
		}
		if err := r.users.follow(seen[i].gvk); err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(seen[i].gvk)
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: f.policy.Namespace, Name: object}, u)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get %s %q: %w", kind, object, err)
		}
		scene.Users = append(scene.Users, u)
		for _, ref := range gatewayapi.GatewaysOf(u) {
			if err := r.readReferent(ctx, ref, scene, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// patchUser makes a route of somebody else what it is to be: only what differs is
// written, and only onto the state that was read. It says whether anything was.
func (r *Reconciler) patchUser(ctx context.Context, read, next *unstructured.Unstructured) (bool, error) {
	patch := gatewayapi.Patch(read, next)
	if patch == nil {
		return false, nil
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(read.GroupVersionKind())
	o.SetNamespace(read.GetNamespace())
	o.SetName(read.GetName())
	if err := r.Client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return false, fmt.Errorf("patch %s: %w", objectName(read), err)
	}
	return true, nil
}

// putUser writes the rules of a decided route, or gives them back where next is nil. Where
// somebody sets the same back again and again it waits longer each time.
func (r *Reconciler) putUser(ctx context.Context, f *facts, name string, next client.Object) (bool, error) {
	read := f.live[name].Objects[0].(*unstructured.Unstructured)
	if next == nil {
		return r.giveBack(ctx, f, read)
	}
	to := next.(*unstructured.Unstructured)
	route, wanted := client.ObjectKeyFromObject(f.policy).String()+" "+name, gatewayapi.Led(to, f.policy.Name, f.scene.Releases)
	if wait := r.setBacks.wait(route, wanted, f.now); wait > 0 && gatewayapi.Patch(read, to) != nil {
		return false, setBackError(read, wait)
	}
	wrote, err := r.patchUser(ctx, read, to)
	if wrote && err == nil {
		r.setBacks.note(route, wanted, f.now)
	}
	return wrote, err
}

// giveBack gives a route its rules back as they were.
func (r *Reconciler) giveBack(ctx context.Context, f *facts, read *unstructured.Unstructured) (bool, error) {
	next, missing := gatewayapi.GiveBack(read, f.policy.Name, f.scene.Releases)
	wrote, err := r.patchUser(ctx, read, next)
	if !wrote || err != nil {
		return wrote, err
	}
	r.Events.Normal(f.policy, "RouteGivenBack", "Route", fmt.Sprintf("the rules of %s have their former backendRefs", objectName(read)))
	if len(missing) > 0 {
		r.Events.Warning(f.policy, "RuleNotGivenBack", "Route", fmt.Sprintf("%s has no rules %q any more: see that no other one leads to Services of networkpolicies.hlnr.io %q, which go", objectName(read), missing, f.policy.Name))
	}
	return true, nil
}

// leaveUsers gives all routes of others back as the deletionPolicy says, and says how
// long to wait before the next look. With Restore it waits, unless forced, for a ready
// endpoint of what the rules led to before, then for the parents of the route, and then
// for the gateways to see it.
func (r *Reconciler) leaveUsers(ctx context.Context, f *facts, forced bool) (time.Duration, error) {
	var wait time.Duration
	key := client.ObjectKeyFromObject(f.policy)
	for _, name := range sortedKeys(f.live) {
		live := f.live[name]
		if !live.User || live.Leaving {
			continue
		}
		read := live.Objects[0].(*unstructured.Unstructured)
		if f.policy.Spec.DeletionPolicy == v1alpha1.DeletionOrphan {
			if _, err := r.patchUser(ctx, read, gatewayapi.Leave(read, f.policy.Name)); client.IgnoreNotFound(err) != nil {
				return 0, err
			}
			continue
		}
		if live.Led == nil {
			if !forced && !gatewayapi.Settled(read) {
				wait = max(wait, leaveLook)
			}
			continue
		}
		if !forced {
			ready, err := r.formerReady(ctx, f, read)
			if err != nil {
				return 0, err
			}
			if !ready {
				wait = max(wait, leaveLook)
				continue
			}
		}
		_, err := r.giveBack(ctx, f, read)
		if class := status.Classify(err); class != nil && class.Class == status.Terminal {
			r.Events.Warning(f.policy, "RuleNotGivenBack", "Delete", err.Error())
			continue // Nobody but a person can mend it: nothing waits for that.
		}
		if client.IgnoreNotFound(err) != nil {
			return 0, err
		}
		r.given.note(key, r.Now())
		wait = max(wait, leaveDrain)
	}
	if f.policy.Spec.DeletionPolicy == v1alpha1.DeletionOrphan || len(userNames(f.policy)) == 0 {
		return 0, nil
	}
	return max(wait, r.drainLeft(f)), nil
}

// formerReady says whether any Service that rules led to before has a ready endpoint,
// where they led to Services at all.
func (r *Reconciler) formerReady(ctx context.Context, f *facts, read *unstructured.Unstructured) (bool, error) {
	former := gatewayapi.Former(read, f.policy.Name)
	for _, name := range former {
		var list discoveryv1.EndpointSliceList
		if err := r.Live.List(ctx, &list, client.InNamespace(f.policy.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
			return false, fmt.Errorf("list EndpointSlices of Service %q: %w", name, err)
		}
		for i := range list.Items {
			if slices.ContainsFunc(list.Items[i].Endpoints, serving) {
				return true, nil
			}
		}
	}
	return len(former) == 0, nil
}
