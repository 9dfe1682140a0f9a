package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// write carries out a decision: Services and what else routes rest on, then the routes
// that name them, then deletions of routes, then those of what they rested on. What one
// object is refused does not keep the others from being written: where something that a
// route rests on could not be, only the weights of what is live change. Nothing is deleted
// in a pass in which a write failed that may succeed when it is repeated.
func (r *Reconciler) write(ctx context.Context, f *facts, out *decision) (writes, error) {
	w := writes{changed: map[string]bool{}, refused: map[string]*status.Error{}}
	var failed []error
	put := func(key string, obj client.Object) {
		outcome, err := r.Writer.Apply(ctx, f.policy, obj)
		if err == nil {
			if outcome != apply.Unchanged {
				w.changed[key] = true
			}
			return
		}
		class := classify(err, obj)
		w.refused[key] = class
		if class.Class == status.Transient {
			failed = append(failed, err)
		}
	}
	adopt := func(next *corev1.Service) {
		if equality.Semantic.DeepEqual(f.adopted, next) {
			return
		}
		if err := r.patchAdopted(ctx, f.adopted, next); err != nil {
			w.refused[serviceKey(next.Name)] = status.Classify(err)
			if w.refused[serviceKey(next.Name)].Class == status.Transient {
				failed = append(failed, err)
			}
			return
		}
		w.changed[serviceKey(next.Name)] = true
	}
	if out.adoption != nil && out.adoption.mark != nil {
		adopt(out.adoption.mark)
	}
	for _, s := range out.services {
		if s.Adopted {
			adopt(s.Adopt(f.adopted))
			continue
		}
		put(serviceKey(s.Name), s.Build(f.policy, microserviceName(f.policy)))
	}
	for _, s := range out.shared {
		put(sharedKey(s), s.Object)
	}
	user := func(name string, next client.Object) {
		wrote, err := r.putUser(ctx, f, name, next)
		if class := status.Classify(err); class != nil {
			w.refused[routeName(name)] = class
			if class.Class == status.Transient {
				failed = append(failed, err)
			}
			return
		}
		if wrote {
			w.changed[routeName(name)] = true
			r.written.note(client.ObjectKey{Namespace: f.policy.Namespace, Name: name}, f.now)
		}
	}
	putRoute := func(name string, objects []client.Object) (refused *status.Error) {
		for _, want := range objects {
			obj := want.DeepCopyObject().(client.Object)
			if old := liveObject(f.live[name], want); old != nil {
				// A pass that read an older route must not write over a newer one.
				obj.SetUID(old.GetUID())
				obj.SetResourceVersion(old.GetResourceVersion())
			}
			put(routeName(name), obj)
			if refused = w.refused[routeName(name)]; refused != nil {
				break // A canary without its route would be that of somebody else's.
			}
		}
		return refused
	}
	rests := len(failed)
	for _, route := range slices.Concat(out.routes, out.former) {
		if err := ctx.Err(); err != nil {
			return w, errors.Join(append(failed, err)...)
		}
		live := f.live[route.Name]
		cause, missing := f.restsOnFailed(route, out, w)
		switch {
		case missing:
		case live != nil && live.User:
			if len(route.objects) > 0 {
				user(route.Name, route.objects[0])
			}
		case cause != nil:
			as := *route
			as.Port = 0 // The Services have the ports that they had.
			putRoute(route.Name, f.weightsAlone(&as))
		default:
			if refused := putRoute(route.Name, route.objects); refused != nil && refused.Class == status.Terminal {
				cause = refused
				delete(w.refused, routeName(route.Name))
				putRoute(route.Name, f.weightsAlone(route))
			}
		}
		if w.changed[routeName(route.Name)] {
			r.written.note(client.ObjectKey{Namespace: f.policy.Namespace, Name: route.Name}, f.now)
		}
		if cause != nil {
			w.refused[routeName(route.Name)] = cause // What was asked for is not there.
		}
	}
	if len(failed) > rests {
		return w, errors.Join(failed...)
	}
	for _, name := range out.deleteRoutes {
		if f.live[name].User {
			user(name, nil)
		}
	}
	if len(failed) > 0 {
		return w, errors.Join(failed...)
	}
	for _, o := range slices.Concat(surplus(f, out), out.deleteShared) {
		if err := r.Writer.Delete(ctx, f.policy, o.DeepCopyObject().(client.Object)); err != nil {
			return w, fmt.Errorf("delete %s: %w", objectName(o), err)
		}
	}
	for _, name := range out.deleteServices {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.policy.Namespace, Name: name, UID: f.services[name].UID}}
		if err := r.Writer.Delete(ctx, f.policy, s); err != nil {
			return w, fmt.Errorf("delete Service %q: %w", name, err)
		}
	}
	return w, nil
}

// restsOnFailed is why a route cannot be written as decided: a Service that it names, or
// another object on which it rests, failed to be written in a way that may pass; nil: it
// can. missing says that a Service is not there at all, so that nothing may name it.
func (f *facts) restsOnFailed(route *routeDecision, out *decision, w writes) (cause *status.Error, missing bool) {
	for _, name := range route.services() {
		if err := w.refused[serviceKey(name)]; err != nil && err.Class == status.Transient {
			cause, missing = err, missing || f.service(name) == nil
		}
	}
	for _, s := range out.shared {
		err := w.refused[sharedKey(s)]
		if err != nil && err.Class == status.Transient && slices.ContainsFunc(s.Hosts, func(host string) bool { return slices.Contains(route.Hostnames, host) }) {
			cause = err
		}
	}
	return cause, missing
}

// classify the error of a write. A definition that was taken away while the manager runs
// is a kind that the API server lacks, whatever its answer is.
func classify(err error, o client.Object) *status.Error {
	if gvk := o.GetObjectKind().GroupVersionKind(); takenAway(err) {
		return status.NewTerminal(reasonMissing(gvk.Group), fmt.Errorf("the API server does not know %s of %s any more: install its definition: %w", gvk.Kind, gvk.GroupVersion(), err))
	}
	return status.Classify(err)
}

// takenAway says whether an error is that the definition of a kind is gone, or about to go.
func takenAway(err error) bool {
	switch {
	case apierrors.IsNotFound(err): // Not of an object or a namespace, but of the address.
		return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	case apierrors.IsForbidden(err): // The server has no other word for it.
		return strings.Contains(err.Error(), "while custom resource definition is terminating")
	}
	return meta.IsNoMatchError(err)
}

// weightsAlone are the objects of a live route as they are, but for the weights of the
// decided one and the hosts that it takes away. They are written where the server refuses
// what else the specification says: what is wrong with a filter must not keep traffic on a
// release that has no pods, or that was aborted. None: there is nothing to change.
func (f *facts) weightsAlone(route *routeDecision) []client.Object {
	live := f.live[route.Name]
	if live == nil || live.User || live.Leaving || f.former(live) {
		return nil
	}
	alone, scene := route.Route, f.scene
	alone.Hostnames = slices.DeleteFunc(slices.Clone(live.Hostnames), func(host string) bool { return !slices.Contains(route.Hostnames, host) })
	alone.TLS, alone.RecordTTL, alone.Parents = nil, 0, nil // What was said of them stays.
	scene.Policy = f.policy.DeepCopy()
	scene.Policy.Spec.Provider = nil // As where the policy has left the provider.
	return provider(f.policy).See(scene).Carry(live, alone)
}

// liveObject is the live one of a route's objects that has the kind and name of want;
// nil: there is none.
func liveObject(live *providers.Live, want client.Object) client.Object {
	if live == nil {
		return nil
	}
	for _, o := range live.Objects {
		if o.GetName() == want.GetName() && o.GetObjectKind().GroupVersionKind().GroupKind() == want.GetObjectKind().GroupVersionKind().GroupKind() {
			return o
		}
	}
	return nil
}

// surplus are the live objects of routes that go, and those that a route which stays
// no longer consists of. What was made last goes first.
func surplus(f *facts, out *decision) []client.Object {
	var gone []client.Object
	for _, name := range out.deleteRoutes {
		if f.live[name].User {
			continue // It is given back.
		}
		gone = append(gone, f.live[name].Objects...)
	}
	for _, route := range slices.Concat(out.routes, out.former) {
		live := f.live[route.Name]
		if live == nil || live.User || len(route.objects) == 0 {
			continue // It is new, or does not change.
		}
		for _, o := range live.Objects {
			if !slices.ContainsFunc(route.objects, func(want client.Object) bool { return liveObject(live, want) == o }) {
				gone = append(gone, o)
			}
		}
	}
	slices.Reverse(gone)
	return gone
}

// stepwise says that what a domain leads to had a part of it before.
func stepwise(before, now []v1alpha1.DomainBackend) bool {
	return slices.ContainsFunc(now, func(b v1alpha1.DomainBackend) bool {
		return slices.ContainsFunc(before, func(o v1alpha1.DomainBackend) bool { return o.Release == b.Release })
	})
}

// announce emits the events of a status that was written, from what changed in it.
func (r *Reconciler) announce(policy *v1alpha1.NetworkPolicy, before, now v1alpha1.NetworkPolicyStatus) {
	const action = "Route"
	r.Events.Transitions(policy, before.Conditions, now.Conditions, action,
		status.Told{Kind: v1alpha1.ConditionAccepted, Good: metav1.ConditionTrue},
		status.Told{Kind: v1alpha1.ConditionResolvedRefs, Good: metav1.ConditionTrue},
		status.Told{Kind: v1alpha1.ConditionProgrammed, Good: metav1.ConditionTrue},
		status.Told{Kind: v1alpha1.ConditionNameConflict, Good: metav1.ConditionFalse},
		status.Told{Kind: v1alpha1.ConditionDomainShared, Good: metav1.ConditionFalse},
		status.Told{Kind: v1alpha1.ConditionServiceAdopted, Good: metav1.ConditionTrue},
		status.Told{Kind: v1alpha1.ConditionSettingsNotApplied, Good: metav1.ConditionFalse},
		status.Told{Kind: v1alpha1.ConditionProviderSwitching, Good: metav1.ConditionTrue},
	)
	if now.Summary.Split != before.Summary.Split && now.Summary.Split != "" {
		r.Events.Normal(policy, "TrafficMoved", action, "the traffic is split "+now.Summary.Split)
	}
	for _, d := range now.Domains {
		for _, old := range before.Domains {
			if old.Domain == d.Domain && old.Path == d.Path && old.Group != d.Group && old.Group != "" && d.Programmed && !stepwise(old.Backends, d.Backends) {
				r.Events.Warning(policy, v1alpha1.ConditionDomainShared, action, fmt.Sprintf("domain %q moved from release group %q to %q without canary steps", d.Domain, old.Group, d.Group))
			}
		}
	}
	for _, l := range now.Listeners {
		for _, old := range before.Listeners {
			if old.Name == l.Name && old.Group != l.Group && old.Group != "" && l.Programmed && !stepwise(old.Backends, l.Backends) {
				r.Events.Warning(policy, v1alpha1.ConditionDomainShared, action, fmt.Sprintf("listener %q moved from release group %q to %q without canary steps", l.Name, old.Group, l.Group))
			}
		}
	}
	for _, u := range now.Routes {
		for _, old := range before.Routes {
			if old.Kind == u.Kind && old.Name == u.Name && old.Group != u.Group && old.Group != "" && u.Programmed && !stepwise(old.Backends, u.Backends) && len(now.Domains) == 0 {
				r.Events.Warning(policy, v1alpha1.ConditionDomainShared, action, fmt.Sprintf("the rules of %s %q moved from release group %q to %q without canary steps", u.Kind, u.Name, old.Group, u.Group))
			}
		}
	}
}
