package networkpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/index"
)

// observe reads all facts on which a decision is based. It writes nothing to the API server. In memory, it records when Services
// became ready.
func (r *Reconciler) observe(ctx context.Context, policy *v1alpha1.NetworkPolicy) (*traffic.Observed, error) {
	f := &traffic.Observed{Policy: policy, Now: r.Now()}
	for _, read := range []func(context.Context, *traffic.Observed) error{
		r.readServices, r.readAdopted, r.readEndpoints, r.readRivals, r.readRoutes, r.readMicroservice, r.readOwnership, r.readClaims,
	} {
		if err := read(ctx, f); err != nil {
			return nil, err
		}
	}
	r.ready.note(client.ObjectKeyFromObject(policy), traffic.StartingServices(f), f.Endpoints, f.Now)
	return f, nil
}

func (r *Reconciler) readServices(ctx context.Context, f *traffic.Observed) error {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list, append(ownObjects(f), client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	f.Services = map[string]*corev1.Service{}
	for i := range list.Items {
		if s := &list.Items[i]; metav1.IsControlledBy(s, f.Policy) {
			f.Services[s.Name] = s
		}
	}
	return nil
}

// readEndpoints reads the EndpointSlices of the policy's Services. The EndpointSlices have the
// labels of the Services.
func (r *Reconciler) readEndpoints(ctx context.Context, f *traffic.Observed) error {
	var list discoveryv1.EndpointSliceList
	if err := r.Client.List(ctx, &list, append(ownObjects(f), client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("list EndpointSlices: %w", err)
	}
	f.Endpoints = map[string]traffic.Endpoints{}
	for i := range list.Items {
		s := &list.Items[i]
		name := s.Labels[discoveryv1.LabelServiceName]
		_, ours := f.Services[name]
		if ours = ours || f.Adopted != nil && f.Adopted.Name == name; !ours || s.DeletionTimestamp != nil {
			continue
		}
		e := f.Endpoints[name]
		for _, endpoint := range s.Endpoints {
			id := identity(endpoint)
			if id == "" {
				continue
			}
			e.All = append(e.All, id)
			if serving(endpoint) {
				e.Ready = append(e.Ready, id)
			}
		}
		f.Endpoints[name] = e
	}
	return nil
}

// serving reports whether gateways send requests to an endpoint, that is, whether it is ready and not terminating.
// If a condition is absent, the endpoint counts as ready and not terminating.
func serving(e discoveryv1.Endpoint) bool {
	if e.Conditions.Serving != nil && !*e.Conditions.Serving {
		return false // If the Service sets publishNotReadyAddresses, the ready condition is true nevertheless.
	}
	return (e.Conditions.Ready == nil || *e.Conditions.Ready) && (e.Conditions.Terminating == nil || !*e.Conditions.Terminating)
}

// readClaims reads the other policies, in all namespaces, that use one of the policy's hosts and paths. It
// finds them by the hosts in their status, so that it does not render the templates of other users.
func (r *Reconciler) readClaims(ctx context.Context, f *traffic.Observed) error {
	var others []v1alpha1.NetworkPolicy
	for _, key := range traffic.ClaimKeys(f) {
		var list v1alpha1.NetworkPolicyList
		if err := r.Client.List(ctx, &list, client.MatchingFields{indexHost: key}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
		}
		others = append(others, list.Items...)
	}
	f.Claims = traffic.ClaimsOf(f, others)
	return nil
}

// readMicroservice reads the rollout state. If it is older than the state from which routes were
// written, the cache lags, and the state is read from the API server, so that no decision is based
// on an old state. If the state on the API server is also older, the rollout state was lost and
// recovered, and the state in the routes no longer counts.
func (r *Reconciler) readMicroservice(ctx context.Context, f *traffic.Observed) error {
	key := client.ObjectKey{Namespace: f.Policy.Namespace, Name: f.Policy.MicroserviceName()}
	var m v1alpha1.Microservice
	err := r.Client.Get(ctx, key, &m, client.UnsafeDisableDeepCopy)
	if err == nil && traffic.Behind(&m, f) {
		m = v1alpha1.Microservice{}
		err = r.Live.Get(ctx, key, &m)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get Microservice %q: %w", key.Name, err)
	}
	m.Status = *m.Status.DeepCopy() // The status is shared with the cache.
	m.Status.Convert()
	f.Microservice = &m
	return nil
}

// ownObjects returns the options that select a policy's objects in the cache through an index.
// Listing by labels would examine the objects of all policies in the namespace.
func ownObjects(f *traffic.Observed) []client.ListOption {
	return []client.ListOption{client.InNamespace(f.Policy.Namespace), client.MatchingFields{index.FieldPolicy: f.Policy.Name}}
}

// labelled returns the options that select the objects of a policy on the API server.
func labelled(f *traffic.Observed) []client.ListOption {
	return []client.ListOption{client.InNamespace(f.Policy.Namespace), client.MatchingLabels{v1alpha1.LabelPolicy: f.Policy.Name}}
}

// readAdopted reads the Service that the policy adopts. Until the Service is labeled, it is not
// watched, so it is read from the API server.
func (r *Reconciler) readAdopted(ctx context.Context, f *traffic.Observed) error {
	name := traffic.AdoptedName(f.Policy)
	if name == "" {
		return nil
	}
	key := client.ObjectKey{Namespace: f.Policy.Namespace, Name: name}
	var s corev1.Service
	err := r.Client.Get(ctx, key, &s)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, &s)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get Service %q: %w", name, err)
	}
	if !metav1.IsControlledBy(&s, f.Policy) {
		f.Adopted = &s
	}
	return nil
}

// unread checks the kinds of the objects that a policy has or needs. It returns a problem if a kind
// cannot be read, and nil otherwise. A reconcile that does not see the live objects would treat
// them as deleted.
func (r *Reconciler) unread(policy *v1alpha1.NetworkPolicy) *providers.Problem {
	kinds := traffic.ReadKinds(policy)
	r.kinds.discover(kinds)
	return r.kinds.problem(kinds)
}

// readRoutes reads the route objects of all providers, and the objects to which the policy's
// provider refers.
func (r *Reconciler) readRoutes(ctx context.Context, f *traffic.Observed) error {
	f.Live, f.Written = map[string]*providers.Live{}, map[string]time.Time{}
	input := providers.Input{
		Policy: f.Policy, Microservice: f.Policy.MicroserviceName(),
		Served: map[string]providers.Served{}, Referents: map[providers.Reference]resources.Object{}, Unwatched: map[string]bool{},
	}
	seen := r.kinds.known()
	for _, kind := range seen {
		input.Served[kind.name] = kind.Served
		if !kind.written {
			continue
		}
		list, err := newList(r.Client.Scheme(), kind.gvk)
		if err != nil {
			return err
		}
		if err := r.Client.List(ctx, list, append(ownObjects(f), client.UnsafeDisableDeepCopy)...); err != nil {
			return fmt.Errorf("list objects of kind %s: %w", kind.gvk.Kind, err)
		}
		if meta.LenList(list) > 0 && traffic.OfAnother(f.Policy, kind.name) {
			// If the kind was removed in the meantime, the cache still contains its previous
			// objects. Read into a new list, because the first list shares its objects with the cache.
			if list, err = newList(r.Client.Scheme(), kind.gvk); err != nil {
				return err
			}
			if err := r.Live.List(ctx, list, labelled(f)...); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return fmt.Errorf("list objects of kind %s: %w", kind.gvk.Kind, err)
			}
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			if o := o.(client.Object); metav1.IsControlledBy(o, f.Policy) {
				o.GetObjectKind().SetGroupVersionKind(kind.gvk) // The items of a typed list have no kind.
				input.Objects = append(input.Objects, o)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if err := r.readReferents(ctx, f, &input, seen); err != nil {
		return err
	}
	if err := r.readUsers(ctx, f, &input, seen); err != nil {
		return err
	}
	if err := r.readProbed(ctx, f, &input); err != nil {
		return err
	}
	f.SetViews(input)
	for name := range f.Live {
		f.Written[name] = r.written.last(client.ObjectKey{Namespace: f.Policy.Namespace, Name: name})
	}
	return nil
}

func (r *Reconciler) readReferents(ctx context.Context, f *traffic.Observed, input *providers.Input, seen []seenKind) error {
	for _, ref := range providers.Refers(traffic.ProviderOf(f.Policy), f.Policy) {
		if err := r.readReferent(ctx, ref, input, seen); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) readReferent(ctx context.Context, ref providers.Reference, input *providers.Input, seen []seenKind) error {
	i := slices.IndexFunc(seen, func(k seenKind) bool { return k.name == ref.Kind })
	if i < 0 {
		return nil
	}
	if ref.Namespace != "" && len(r.namespaces) > 0 && !slices.Contains(r.namespaces, ref.Namespace) {
		input.Unwatched[ref.Namespace] = true
		return nil
	}
	o, err := newObject(r.Client.Scheme(), seen[i].gvk)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	switch err := r.Client.Get(ctx, key, o); {
	case err == nil:
		input.Referents[ref] = o
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get %s %q: %w", ref.Kind, key, err)
	}
	return nil
}

// readOwnership reads the hosts that the list of domains allows for the policy's namespace.
func (r *Reconciler) readOwnership(ctx context.Context, f *traffic.Observed) error {
	if r.list == nil || len(f.Policy.Spec.Domains) == 0 && len(f.Live) == 0 {
		return nil
	}
	rules, unread, found, err := r.list.read(ctx)
	if err != nil || !found {
		return err
	}
	f.Owned = &traffic.Ownership{Unread: unread}
	var labels map[string]string
	if rules.ByLabels() {
		if labels, err = r.list.labelsOf(ctx, r.Live, f.Policy.Namespace); err != nil {
			return err
		}
	}
	f.Owned.Hosts = rules.For(f.Policy.Namespace, labels)
	return nil
}

// readProbed reads the results of the policy's probes, and the labels of its namespace if a Gateway
// selects namespaces by labels.
func (r *Reconciler) readProbed(ctx context.Context, f *traffic.Observed, input *providers.Input) error {
	if p := f.Policy.Spec.Provider; p == nil || p.Gateway == nil || p.Gateway.Confirm != v1alpha1.ConfirmProbe {
		return nil
	}
	f.Probed = r.probes.Known(client.ObjectKeyFromObject(f.Policy))
	input.Probed = f.Probed
	selects := func(l gatewayv1.Listener) bool {
		return l.AllowedRoutes != nil && l.AllowedRoutes.Namespaces != nil && l.AllowedRoutes.Namespaces.Selector != nil
	}
	for _, o := range input.Referents {
		if g, ok := o.(*gatewayv1.Gateway); !ok || !slices.ContainsFunc(g.Spec.Listeners, selects) {
			continue
		}
		var namespace corev1.Namespace
		if err := r.Live.Get(ctx, client.ObjectKey{Name: f.Policy.Namespace}, &namespace); err != nil {
			return fmt.Errorf("get Namespace %q: %w", f.Policy.Namespace, err)
		}
		input.Namespace = namespace.Labels
		return nil
	}
	return nil
}

// readRivals reads the older policies that name the same user-managed route.
func (r *Reconciler) readRivals(ctx context.Context, f *traffic.Observed) error {
	host := traffic.RouteHost(f.Policy)
	if host == "" {
		return nil
	}
	var list v1alpha1.NetworkPolicyList
	if err := r.Client.List(ctx, &list, client.MatchingFields{indexHost: host}); err != nil {
		return fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
	}
	for i := range list.Items {
		if o := &list.Items[i]; o.Namespace == f.Policy.Namespace && o.UID != f.Policy.UID && o.DeletionTimestamp == nil && traffic.Older(o, f.Policy) {
			f.Older = append(f.Older, o)
		}
	}
	slices.SortFunc(f.Older, func(a, b *v1alpha1.NetworkPolicy) int {
		if traffic.Older(a, b) {
			return -1
		}
		return 1
	})
	return nil
}

// readUsers reads complete user-managed routes from the API server, because writes to them depend
// on their current state. It also reads the Gateways that serve them.
func (r *Reconciler) readUsers(ctx context.Context, f *traffic.Observed, input *providers.Input, seen []seenKind) error {
	input.Older, input.Services, input.Releases = f.Older, map[string]bool{}, map[string]bool{}
	for name, s := range f.Services {
		input.Services[name], input.Releases[name] = true, traffic.OfRelease(s)
	}
	for _, name := range traffic.UserNames(f.Policy) {
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
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: f.Policy.Namespace, Name: object}, u)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get %s %q: %w", kind, object, err)
		}
		input.Users = append(input.Users, u)
		for _, ref := range gatewayapi.GatewaysOf(u) {
			if err := r.readReferent(ctx, ref, input, seen); err != nil {
				return err
			}
		}
	}
	return nil
}
