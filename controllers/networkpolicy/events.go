package networkpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/status"
)

// The following functions construct the events for policies. The event for a condition change has
// the reason and message of the condition.

// actionRoute and actionDelete are the actions of events.
const (
	actionRoute  = "Route"
	actionDelete = "Delete"
)

// movedWithoutStepsEvent returns the event for a domain, a listener, or the rules of a user-managed
// route that moved to another release group without canary steps.
func movedWithoutStepsEvent(what, from, to string) status.Event {
	return status.WarningEvent(v1alpha1.ConditionDomainShared, actionRoute, fmt.Sprintf("%s moved from release group %q to %q without canary steps", what, from, to))
}

func routeRestoredEvent(route string) status.Event {
	return status.NormalEvent("RouteRestored", actionRoute, fmt.Sprintf("the previous backendRefs of the rules of %s are restored", route))
}

func rulesMissingEvent(route string, rules []string, policy string) status.Event {
	return status.WarningEvent("RuleNotRestored", actionRoute, fmt.Sprintf("%s no longer has rules named %q: check that no other rule routes to Services of networkpolicies.hlnr.io %q, which are being deleted", route, rules, policy))
}

func ruleNotRestoredEvent(err error) status.Event {
	return status.WarningEvent("RuleNotRestored", actionDelete, err.Error())
}

func serviceRestoredEvent(service string) status.Event {
	return status.NormalEvent("ServiceRestored", actionDelete, fmt.Sprintf("Service %q routes to its previous pods again", service))
}

func serviceNotRestoredEvent(err error) status.Event {
	return status.WarningEvent(traffic.ReasonAdoptedUnsuitable, actionDelete, err.Error())
}

func deletionPolicyNotDoneEvent(policy v1alpha1.DeletionPolicy, limit time.Duration) status.Event {
	return status.WarningEvent("DeletionPolicyNotDone", actionDelete, fmt.Sprintf("deletionPolicy %s was not completely applied within %s: the policy is deleted anyway", cmp.Or(policy, v1alpha1.DeletionRestore), limit))
}

func orphanedUnconfirmedEvent(limit time.Duration, waits string) status.Event {
	return status.WarningEvent("OrphanedUnconfirmed", actionDelete, fmt.Sprintf("it was not confirmed within %s that the remaining objects route only to active releases: %s", limit, waits))
}

// stepwise reports whether any release to which a domain now routes already received part of the
// domain's traffic before the change.
func stepwise(before, now []v1alpha1.DomainBackend) bool {
	return slices.ContainsFunc(now, func(b v1alpha1.DomainBackend) bool {
		return slices.ContainsFunc(before, func(o v1alpha1.DomainBackend) bool { return o.Release == b.Release })
	})
}

// announce records the events for the changes in a status that was written. It does not report how
// the traffic changes during a rollout, because the Microservice's events and status.summary.split
// show these changes.
func (r *Reconciler) announce(policy *v1alpha1.NetworkPolicy, before, now v1alpha1.NetworkPolicyStatus) {
	r.Events.Transitions(policy, before.Conditions, now.Conditions, actionRoute,
		status.TransitionRule{Kind: v1alpha1.ConditionAccepted, Good: metav1.ConditionTrue, Worry: true},
		status.TransitionRule{Kind: v1alpha1.ConditionResolvedRefs, Good: metav1.ConditionTrue, Worry: true},
		status.TransitionRule{Kind: v1alpha1.ConditionProgrammed, Good: metav1.ConditionTrue, Worry: true, Passing: traffic.PassingReasons()},
		status.TransitionRule{Kind: v1alpha1.ConditionNameConflict, Good: metav1.ConditionFalse},
		status.TransitionRule{Kind: v1alpha1.ConditionDomainShared, Good: metav1.ConditionFalse},
		status.TransitionRule{Kind: v1alpha1.ConditionServiceAdopted, Good: metav1.ConditionTrue},
		status.TransitionRule{Kind: v1alpha1.ConditionSettingsNotApplied, Good: metav1.ConditionFalse},
		status.TransitionRule{Kind: v1alpha1.ConditionProviderSwitching, Good: metav1.ConditionTrue},
	)
	for _, d := range now.Domains {
		for _, old := range before.Domains {
			if old.Domain == d.Domain && old.Path == d.Path && old.Group != d.Group && old.Group != "" && d.Programmed && !stepwise(old.Backends, d.Backends) {
				r.Events.Record(policy, movedWithoutStepsEvent(fmt.Sprintf("domain %q", d.Domain), old.Group, d.Group))
			}
		}
	}
	for _, l := range now.Listeners {
		for _, old := range before.Listeners {
			if old.Name == l.Name && old.Group != l.Group && old.Group != "" && l.Programmed && !stepwise(old.Backends, l.Backends) {
				r.Events.Record(policy, movedWithoutStepsEvent(fmt.Sprintf("listener %q", l.Name), old.Group, l.Group))
			}
		}
	}
	for _, u := range now.Routes {
		for _, old := range before.Routes {
			if old.Kind == u.Kind && old.Name == u.Name && old.Group != u.Group && old.Group != "" && u.Programmed && !stepwise(old.Backends, u.Backends) && len(now.Domains) == 0 {
				r.Events.Record(policy, movedWithoutStepsEvent(fmt.Sprintf("the rules of %s %q", u.Kind, u.Name), old.Group, u.Group))
			}
		}
	}
}
