package networkpolicy

import (
	"context"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/index"
)

// The names of the policy indexes.
const (
	indexHost     = "networkpolicy.host"
	indexReferent = "networkpolicy.referent"
	indexRoute    = "networkpolicy.route"
)

// indexes find the policies that refer to a changed object, and the objects of a policy.
var indexes = []index.Index{
	index.ServicesByPolicy,
	index.ByPolicy(&discoveryv1.EndpointSlice{}),
	index.NetworkPoliciesByMicroservice,
	{AllNamespaces: true, Object: &v1alpha1.NetworkPolicy{}, Field: indexHost, Values: func(o client.Object) []string {
		return traffic.HostKeys(o.(*v1alpha1.NetworkPolicy))
	}},
	{Object: &v1alpha1.NetworkPolicy{}, Field: indexRoute, Values: func(o client.Object) []string {
		return traffic.UserNames(o.(*v1alpha1.NetworkPolicy))
	}},
	{AllNamespaces: true, Object: &v1alpha1.NetworkPolicy{}, Field: indexReferent, Values: func(o client.Object) []string {
		p := o.(*v1alpha1.NetworkPolicy)
		var keys []string
		for _, ref := range providers.Refers(traffic.ProviderOf(p), p) {
			keys = append(keys, referenceKey(ref))
		}
		if len(traffic.UserNames(p)) > 0 {
			keys = append(keys, anyGateway)
		}
		return traffic.Union(keys, nil)
	}},
}

// anyGateway is the key that the index of referents uses for policies with user-managed routes. The index cannot contain the
// Gateways of these policies, because only the routes contain the names of the Gateways.
var anyGateway = referenceKey(providers.Reference{Kind: kindGateway})

// kindGateway is the Gateway kind.
const kindGateway = "Gateway"

// byMicroservice enqueues the policies that refer to a Microservice.
func (r *Reconciler) byMicroservice(ctx context.Context, m client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(m.GetNamespace()), client.MatchingFields{index.NetworkPoliciesByMicroservice.Field: m.GetName()})
}

// splits reports whether a policy routes requests for a host to several releases.
func splits(o client.Object) bool {
	return slices.ContainsFunc(o.(*v1alpha1.NetworkPolicy).Status.Domains, func(d v1alpha1.DomainStatus) bool { return len(d.Backends) > 1 })
}

// rolledBack reports whether a canary failed or no longer gets requests, or whether a retained release is active again.
func rolledBack(before, now client.Object) bool {
	is := map[string]v1alpha1.Release{}
	for _, g := range now.(*v1alpha1.Microservice).Status.ReleaseGroups {
		for _, r := range g.Releases {
			is[r.VersionedMicroservice] = r
		}
	}
	for _, g := range before.(*v1alpha1.Microservice).Status.ReleaseGroups {
		for _, old := range g.Releases {
			switch r := is[old.VersionedMicroservice]; {
			case old.Status == v1alpha1.ReleaseCanary && (r.Status == v1alpha1.ReleaseError || requested(old) && !requested(r)),
				old.Status == v1alpha1.ReleaseDeprecated && r.Status == v1alpha1.ReleaseActive:
				return true
			}
		}
	}
	return false
}

// requested reports whether a release gets requests.
func requested(r v1alpha1.Release) bool {
	return r.Weight > 0 || r.Match || r.MirrorPercent > 0
}

// byReferent returns a function that enqueues the policies that refer to an object of a kind.
func (r *Reconciler) byReferent(kind string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		key := referenceKey(providers.Reference{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()})
		return r.requests(ctx, client.MatchingFields{indexReferent: key})
	}
}

// byGateway enqueues the policies with user-managed routes, which may be attached to any Gateway.
func (r *Reconciler) byGateway(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{indexReferent: anyGateway})
}

// byHosts enqueues the other policies whose decisions may depend on the hosts that the changed policy uses.
func (r *Reconciler) byHosts(ctx context.Context, o client.Object) []reconcile.Request {
	self := client.ObjectKeyFromObject(o)
	seen := map[types.NamespacedName]bool{self: true}
	var out []reconcile.Request
	for _, key := range traffic.AffectedKeys(o.(*v1alpha1.NetworkPolicy)) {
		for _, request := range r.requests(ctx, client.MatchingFields{indexHost: key}) {
			if !seen[request.NamespacedName] {
				seen[request.NamespacedName] = true
				out = append(out, request)
			}
		}
	}
	return out
}

// byLabel enqueues the policy that is named in the label of a Service or EndpointSlice.
func (r *Reconciler) byLabel(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelPolicy]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var list v1alpha1.NetworkPolicyList
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // List fails only if the cache has not started. When it starts, all policies are enqueued.
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// referenceKey returns the index key of a reference.
func referenceKey(ref providers.Reference) string {
	return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
}

// byList enqueues the policies to which the list of domains applies.
func (r *Reconciler) byList(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.NetworkPolicyList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // List fails only if the cache has not started. When it starts, all policies are enqueued.
	}
	var out []reconcile.Request
	for i := range list.Items {
		if p := &list.Items[i]; len(p.Spec.Domains)+len(p.Status.Domains) > 0 {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		}
	}
	return out
}

// labelChanges enqueues the policies of a namespace when its labels, on which the list of domains depends, have changed.
func (r *Reconciler) labelChanges() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		policies := func(namespace string) []reconcile.Request { return r.requests(ctx, client.InNamespace(namespace)) }
		go r.list.poll(ctx, r.Live, func(namespace string) bool { return len(policies(namespace)) > 0 }, func(namespace string) {
			for _, request := range policies(namespace) {
				queue.Add(request)
			}
		})
		return nil
	})
}
