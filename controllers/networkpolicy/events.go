package networkpolicy

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// stepwise reports that what a domain routes to had a part of it before.
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
