package networkpolicy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// observe reads all that a decision rests on; it writes nothing.
func (r *Reconciler) observe(ctx context.Context, policy *v1alpha1.NetworkPolicy) (*facts, error) {
	f := &facts{policy: policy, now: r.Now()}
	for _, read := range []func(context.Context, *facts) error{
		r.readServices, r.readAdopted, r.readEndpoints, r.readRivals, r.readRoutes, r.readMicroservice, r.readOwnership, r.readClaims,
	} {
		if err := read(ctx, f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (r *Reconciler) readServices(ctx context.Context, f *facts) error {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list, ownObjects(f)...); err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	f.services = map[string]*corev1.Service{}
	for i := range list.Items {
		if s := &list.Items[i]; metav1.IsControlledBy(s, f.policy) {
			f.services[s.Name] = s
		}
	}
	return nil
}

// readEndpoints reads the EndpointSlices of the policy's Services: they bear the
// Services' labels.
func (r *Reconciler) readEndpoints(ctx context.Context, f *facts) error {
	var list discoveryv1.EndpointSliceList
	if err := r.Client.List(ctx, &list, ownObjects(f)...); err != nil {
		return fmt.Errorf("list EndpointSlices: %w", err)
	}
	f.endpoints = map[string]endpoints{}
	for i := range list.Items {
		s := &list.Items[i]
		name := s.Labels[discoveryv1.LabelServiceName]
		_, ours := f.services[name]
		if ours = ours || f.adopted != nil && f.adopted.Name == name; !ours || s.DeletionTimestamp != nil {
			continue
		}
		e := f.endpoints[name]
		for _, endpoint := range s.Endpoints {
			id := identity(endpoint)
			if id == "" {
				continue
			}
			e.all = append(e.all, id)
			if serving(endpoint) {
				e.ready = append(e.ready, id)
			}
		}
		f.endpoints[name] = e
	}
	return nil
}

// identity of an endpoint: its pod, whatever the address family.
func identity(e discoveryv1.Endpoint) string {
	if e.TargetRef != nil && e.TargetRef.UID != "" {
		return string(e.TargetRef.UID)
	}
	return cmp.Or(slices.Concat(e.Addresses, []string{""})...)
}

// serving says whether gateways send requests to an endpoint: it is ready, and not
// on its way out. An absent condition means ready.
func serving(e discoveryv1.Endpoint) bool {
	if e.Conditions.Serving != nil && !*e.Conditions.Serving {
		return false // Ready only because its Service publishes what is not.
	}
	return (e.Conditions.Ready == nil || *e.Conditions.Ready) && (e.Conditions.Terminating == nil || !*e.Conditions.Terminating)
}

// readClaims finds other policies, of all namespaces, that hold a host which the
// policy renders. They are asked by what they report, so that nobody renders
// the templates of somebody else.
func (r *Reconciler) readClaims(ctx context.Context, f *facts) error {
	if !routed(f.policy) || f.microservice == nil {
		return nil
	}
	seen := map[string]bool{"": true}
	var others []v1alpha1.NetworkPolicy
	for _, row := range newDecider(f).rows() {
		host, _ := row.holds()
		if seen[host] {
			continue
		}
		seen[host] = true
		var list v1alpha1.NetworkPolicyList
		if err := r.Client.List(ctx, &list, client.MatchingFields{indexHost: host}); err != nil {
			return fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
		}
		others = append(others, list.Items...)
	}
	f.claims = claimsOf(f, others)
	return nil
}

// claimsOf are the claims of policies whose routes could meet the policy's: the hosts that
// are served for older ones, or are about to be, and those that are served for younger ones
// as their specification names them. One that is being deleted holds its hosts until it is
// gone, and its routes with it.
func claimsOf(f *facts, others []v1alpha1.NetworkPolicy) []claim {
	var out []claim
	p := f.policy
	for i := range others {
		o := &others[i]
		if o.UID == p.UID || !f.view.Shares(o) {
			continue
		}
		younger := !older(o, p)
		for _, d := range o.Status.Domains {
			// Who only names a host, and has no route that the Gateway took, holds nothing:
			// else anybody could keep a host from its owner.
			literal := slices.ContainsFunc(o.Spec.Domains, func(entry v1alpha1.Domain) bool { return entry.Domain == d.Domain })
			if younger && !(literal && d.Programmed) {
				continue
			}
			if d.URL != "" && (d.Programmed || d.Reason == reasonPending || d.Reason == reasonCertificateNotReady || d.Reason == reasonListenerNotReady) {
				path := cmp.Or(d.Path, "/")
				if strings.HasPrefix(d.URL, "tls://") {
					path = pathOfTLS
				}
				out = append(out, claim{host: d.Domain, path: path, policy: o.Namespace + "/" + o.Name, literal: literal, younger: younger})
			}
		}
		for _, s := range o.Status.Listeners {
			i := slices.IndexFunc(o.Spec.Listeners, func(l v1alpha1.Listener) bool { return l.Name == s.Name })
			if i >= 0 && !younger && (s.Programmed || s.Reason == reasonPending) {
				out = append(out, claim{host: listenerHost(o, o.Spec.Listeners[i]), policy: o.Namespace + "/" + o.Name})
			}
		}
	}
	slices.SortFunc(out, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.host, b.host), cmp.Compare(a.path, b.path))
	})
	return slices.Compact(out)
}

// older orders policies by age, then by name, as routes are.
func older(a, b *v1alpha1.NetworkPolicy) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
}

// readMicroservice reads the ledger. One that is behind what was written to routes
// comes from a cache that lags, and is read from the server: nothing is ever
// decided on it. If the server's is behind as well, the ledger was made anew, and
// what was written counts no longer.
func (r *Reconciler) readMicroservice(ctx context.Context, f *facts) error {
	key := client.ObjectKey{Namespace: f.policy.Namespace, Name: microserviceName(f.policy)}
	var m v1alpha1.Microservice
	err := r.Client.Get(ctx, key, &m)
	if err == nil && behind(&m, f) {
		m = v1alpha1.Microservice{}
		err = r.Live.Get(ctx, key, &m)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get Microservice %q: %w", key.Name, err)
	}
	f.microservice = &m
	return nil
}

// behind says whether a live object was written from a later state of the ledger.
func behind(m *v1alpha1.Microservice, f *facts) bool {
	late := func(s resources.Stamp, ok bool) bool {
		if !ok {
			return false
		}
		if s.Ledger != m.UID {
			return s.Sequence > 0 // Another Microservice: which of the two is there, the server knows.
		}
		return s.Sequence > m.Status.Sequence || slices.ContainsFunc(m.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool {
			return g.Slug == s.Group && s.Revision > g.TrafficRevision
		})
	}
	for _, s := range f.services {
		if late(resources.StampOf(s)) {
			return true
		}
	}
	if f.adopted != nil && late(resources.StampOf(f.adopted)) {
		return true
	}
	for _, route := range f.live {
		if late(route.Stamp()) || !route.User && slices.ContainsFunc(route.Objects, func(o client.Object) bool { return late(resources.StampOf(o)) }) {
			return true
		}
	}
	return false
}

// ownObjects selects the children of a policy in the cache, by an index: a list by labels
// would look at those of all policies of the namespace.
func ownObjects(f *facts) []client.ListOption {
	return []client.ListOption{client.InNamespace(f.policy.Namespace), client.MatchingFields{indexPolicy: f.policy.Name}}
}

// labelled selects them at the server.
func labelled(f *facts) []client.ListOption {
	return []client.ListOption{client.InNamespace(f.policy.Namespace), client.MatchingLabels{v1alpha1.LabelPolicy: f.policy.Name}}
}
