package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/internal/status"
)

// problem is the reason why a condition is not True.
type problem struct {
	reason, message string
}

// stalls reports whether a user must change the specification or an object to which it refers.
func (p problem) stalls() bool {
	return !slices.Contains(PassingReasons(), p.reason) && !slices.Contains(retriedReasons, p.reason)
}

// retriedReasons are the reasons that apply when a write fails and is retried.
var retriedReasons = []string{status.ReasonFailed, status.ReasonTerminating, status.ReasonConflict}

// PassingReasons returns the condition reasons that can disappear without a change by a user.
func PassingReasons() []string {
	return []string{ReasonPending, reasonNoReadyEndpoints, reasonNoActiveRelease, reasonGatewayUnprogrammed, reasonFrozen, ReasonCertificateNotReady, ReasonListenerNotReady}
}

// If the status of a domain, listener or route contains one of specReasons or refReasons, the Accepted condition or
// the ResolvedRefs condition, respectively, is False.
var (
	specReasons = []string{reasonInvalidDomain, reasonDomainConflict, ReasonDomainNotAllowed, ReasonDomainsUnreadable, reasonNotRoutable, ReasonNotSupported, providers.ReasonRuleConflict, reasonTooManyDomains, ReasonGatewayAPIMissing, providers.ReasonProviderAPIMissing, status.ReasonInvalid, status.ReasonForbidden}
	refReasons  = []string{reasonParentNotFound, providers.ReasonRouteNotFound, providers.ReasonRuleNotFound, reasonPinnedUnavailable, reasonFrozen, reasonGroupNotFound}
)

// conditions sets all conditions of a status whose other fields are already set.
func (r *reporter) conditions(now *v1alpha1.NetworkPolicyStatus) {
	generation := r.Policy.Generation
	spec, refs, traffic := r.specProblem(now), r.refProblem(now), r.trafficProblem(now)
	set := func(kind string, p *problem, reason, good string) {
		if p != nil {
			status.Set(&now.Conditions, generation, kind, metav1.ConditionFalse, p.reason, p.message)
			return
		}
		status.Set(&now.Conditions, generation, kind, metav1.ConditionTrue, reason, good)
	}
	set(v1alpha1.ConditionAccepted, spec, v1alpha1.ConditionAccepted, "the specification is valid, and there are no host conflicts")
	set(v1alpha1.ConditionResolvedRefs, refs, v1alpha1.ConditionResolvedRefs, "all references are resolved")
	programmed, good := r.programmed(now)
	if f := r.Microservice; f != nil || traffic != nil {
		set(v1alpha1.ConditionProgrammed, traffic, programmed, good)
	}
	r.nameConflict(now)
	r.domainShared(now)
	r.canaryUnmatched(now)
	r.settingsNotApplied(now)
	r.serviceAdopted(now)
	r.providerSwitching(now)
	first := spec
	for _, p := range []*problem{refs, traffic} {
		if first == nil {
			first = p
		}
	}
	switch {
	case first == nil:
		status.Ready(&now.Conditions, generation, programmed, good)
	case first.stalls():
		status.Stalled(&now.Conditions, generation, first.reason, first.message)
	default:
		status.Reconciling(&now.Conditions, generation, first.reason, first.message)
	}
}

// programmed returns the reason and message that the Programmed condition has when its status is
// True.
func (r *reporter) programmed(now *v1alpha1.NetworkPolicyStatus) (reason, message string) {
	switch {
	case r.idle():
		return reasonNoPreviews, fmt.Sprintf("Microservice %q deploys only previews of pull requests, and no preview exists now", r.Policy.MicroserviceName())
	case now.Summary.Domains == "" && len(now.Listeners) > 0:
		message = "the listeners route to the active releases"
	case now.Summary.Domains == "" && len(now.Routes) > 0:
		message = fmt.Sprintf("the rules of %s %q route to the active releases", now.Routes[0].Kind, now.Routes[0].Name)
	case now.Summary.Domains == "":
		message = "the Services route to the active releases"
	default:
		message = fmt.Sprintf("%s domains are programmed", now.Summary.Domains)
	}
	return v1alpha1.ConditionProgrammed, message
}

// idle reports whether the policy is expected to have nothing to route to: the Microservice
// deploys only previews, none of them is live, and the Microservice is ready. A Microservice without
// releases is ready only if its ImagePolicy offers pull requests.
func (r *reporter) idle() bool {
	m := r.Microservice
	if m == nil || m.Status.ObservedGeneration != m.Generation || !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
		return false
	}
	return !slices.ContainsFunc(r.rollout.groups, func(g *v1alpha1.ReleaseGroup) bool { return live(g) || g.Level != v1alpha1.LevelPreview })
}

func (r *reporter) specProblem(now *v1alpha1.NetworkPolicyStatus) *problem {
	if p := providers.Referent(r.View); p != nil && MissingKind(p.Reason) {
		return &problem{p.Reason, p.Message}
	}
	for _, key := range providers.Sorted(r.writes.Refused) {
		if err := r.writes.Refused[key]; err.Reason == status.ReasonInvalid || err.Reason == status.ReasonForbidden || MissingKind(err.Reason) {
			return &problem{err.Reason, err.Error()}
		}
	}
	return domainProblem(now, specReasons)
}

func (r *reporter) refProblem(now *v1alpha1.NetworkPolicyStatus) *problem {
	if r.Microservice == nil {
		return &problem{reasonNoMicroservice, fmt.Sprintf("spec.microserviceRef.name: Microservice %q does not exist: create it, or correct the name; existing routes remain", r.Policy.MicroserviceName())}
	}
	if p := providers.Referent(r.View); p != nil && slices.Contains(refReasons, p.Reason) {
		return &problem{p.Reason, p.Message}
	}
	if p := domainProblem(now, refReasons); p != nil {
		return p
	}
	return r.adoptedMissing()
}

func domainProblem(now *v1alpha1.NetworkPolicyStatus, reasons []string) *problem {
	for _, d := range now.Domains {
		if slices.Contains(reasons, d.Reason) {
			return &problem{d.Reason, d.Message}
		}
	}
	for _, l := range now.Listeners {
		if slices.Contains(reasons, l.Reason) {
			return &problem{l.Reason, l.Message}
		}
	}
	for _, u := range now.Routes {
		if slices.Contains(reasons, u.Reason) {
			return &problem{u.Reason, u.Message}
		}
	}
	return nil
}

// trafficProblem returns the reason why traffic is not routed as required, or nil if it is. A group without
// an active release is not a problem while another group is serving, because versions and previews
// can start and fail without a change to this policy.
func (r *reporter) trafficProblem(now *v1alpha1.NetworkPolicyStatus) *problem {
	if r.Microservice == nil {
		if meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionProgrammed) != nil {
			return r.samePast(now)
		}
		return &problem{reasonNoMicroservice, fmt.Sprintf("Microservice %q does not exist", r.Policy.MicroserviceName())}
	}
	idle := r.idle()
	serving := idle || slices.ContainsFunc(now.Domains, func(d v1alpha1.DomainStatus) bool { return d.Programmed })
	for _, d := range now.Domains {
		if d.Reason == "" || d.Reason == reasonNoCanary || d.Programmed && d.Reason != reasonNoReadyEndpoints || d.Reason == reasonNoActiveRelease && serving {
			continue
		}
		return &problem{d.Reason, d.Message}
	}
	for _, l := range now.Listeners {
		if l.Reason != "" && l.Reason != reasonNoCanary && !(idle && l.Reason == reasonNoActiveRelease) {
			return &problem{l.Reason, l.Message}
		}
	}
	for _, u := range now.Routes {
		if u.Reason != "" && !u.Programmed && !(idle && u.Reason == reasonNoActiveRelease) {
			return &problem{u.Reason, u.Message}
		}
	}
	active := false
	for _, g := range r.out.groups {
		report := Find(now.Groups, g.slug)
		if live(g.group) && g.group.ActiveRelease() != nil {
			active = true
			if !g.routed && report.Reason != "" {
				return &problem{report.Reason, report.Message}
			}
		}
	}
	if !active && !idle {
		return &problem{reasonNoActiveRelease, fmt.Sprintf("Microservice %q has no active release yet", r.Policy.MicroserviceName())}
	}
	if p := providers.Health(r.View); p != nil {
		return &problem{p.Reason, p.Message}
	}
	return nil
}

// samePast returns the problem that the previous Programmed condition reported, or nil if the condition was
// True. Without a Microservice, nothing is written, so the condition remains unchanged.
func (r *reporter) samePast(now *v1alpha1.NetworkPolicyStatus) *problem {
	c := meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionProgrammed)
	if c.Status == metav1.ConditionTrue {
		return nil
	}
	return &problem{c.Reason, c.Message}
}

// Find returns the group with the given slug, or the zero value.
func Find(groups []v1alpha1.GroupTraffic, slug string) v1alpha1.GroupTraffic {
	for _, g := range groups {
		if g.Slug == slug {
			return g
		}
	}
	return v1alpha1.GroupTraffic{}
}

// nameConflict reports which object names are already used by objects of another owner.
func (r *reporter) nameConflict(now *v1alpha1.NetworkPolicyStatus) {
	var texts []string
	for _, key := range providers.Sorted(r.writes.Refused) {
		if err := r.writes.Refused[key]; err.Reason == status.ReasonNameConflict {
			texts = append(texts, err.Error())
		}
	}
	switch {
	case len(texts) > 0:
		status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionNameConflict, metav1.ConditionTrue, ReasonNameConflict, strings.Join(texts, "; "))
	case r.Microservice != nil:
		status.Remove(&now.Conditions, v1alpha1.ConditionNameConflict)
	}
}

// domainShared reports that a domain moves between groups without canary steps (rule 9 in
// docs/explanation/protocol.md), because the Microservice has no steps, or because the host depends on
// the group. It reports this before the first move if possible.
func (r *reporter) domainShared(now *v1alpha1.NetworkPolicyStatus) {
	if r.Microservice == nil {
		return
	}
	groups := r.liveGroups()
	moves := len(groups) > 1 ||
		len(groups) == 1 && r.Microservice.Spec.UpdateStrategy.Canary != nil && !wholeLevel(groups[0])
	c := r.Microservice.Spec.UpdateStrategy.Canary
	steps := c != nil && len(c.Steps) > 0 && !slices.ContainsFunc(groups, func(g *v1alpha1.ReleaseGroup) bool { return g.Level == v1alpha1.LevelPreview })
	if moves {
		for i, d := range r.Policy.Spec.Domains {
			if d.Release == nil && groupsPolicy(d) == v1alpha1.GroupsNewest && (!steps || templated(d.Domain)) {
				status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionDomainShared, metav1.ConditionTrue, v1alpha1.ConditionDomainShared, fmt.Sprintf(
					"spec.domains[%d].domain %q moves to a newer release group immediately, without canary steps: %s%s", i, d.Domain, fix(d, groups[0]), orWiderGroups(groups)))
				return
			}
		}
	}
	if moves && !steps {
		for i, l := range r.Policy.Spec.Listeners {
			if l.Release == nil && (l.Groups == nil || l.Groups.Policy == v1alpha1.GroupsNewest) {
				status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionDomainShared, metav1.ConditionTrue, v1alpha1.ConditionDomainShared, fmt.Sprintf(
					"spec.listeners[%d] %q moves to a newer release group immediately, without canary steps: set spec.updateStrategy.canary.steps of the Microservice, or set groups.policy to Named and list the groups of the listener%s", i, l.Name, orWiderGroups(groups)))
				return
			}
		}
	}
	if ref := gatewayapi.UserRef(r.Policy); moves && !steps && ref != nil && ref.Release == nil && (ref.Groups == nil || ref.Groups.Policy == v1alpha1.GroupsNewest) {
		status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionDomainShared, metav1.ConditionTrue, v1alpha1.ConditionDomainShared, fmt.Sprintf(
			"spec.provider.routeRef: the rules of %s %q move to a newer release group immediately, without canary steps: set spec.updateStrategy.canary.steps of the Microservice, or set groups.policy to Named and list the groups of the route%s", ref.Kind, ref.Name, orWiderGroups(groups)))
		return
	}
	status.Remove(&now.Conditions, v1alpha1.ConditionDomainShared)
}

// orWiderGroups returns advice to use groups that contain more versions than the existing groups.
// The advice depends on the names of the existing groups: "1.2.x" can be part of "1.x", and all
// groups except previews can be part of one group.
func orWiderGroups(groups []*v1alpha1.ReleaseGroup) string {
	switch name := groups[0].Name; {
	case groups[0].PullRequest > 0:
		return ""
	case strings.Count(name, ".") > 1:
		return ", or set versioning.groupBy of the ImagePolicy to Major or All"
	default:
		return ", or set versioning.groupBy of the ImagePolicy to All"
	}
}

// fix returns the advice for a domain that moves between groups immediately.
func fix(d v1alpha1.Domain, first *v1alpha1.ReleaseGroup) string {
	switch {
	case templated(d.Domain):
		return "do not use groups.policy Newest"
	case first.PullRequest > 0:
		return "use {{.ReleaseGroupName}} in the domain" // Previews have no steps.
	}
	return "set spec.updateStrategy.canary.steps of the Microservice, use {{.ReleaseGroupName}} in the domain"
}

// canaryUnmatched reports that a step has match: true, but no domain has canaryMatches.
func (r *reporter) canaryUnmatched(now *v1alpha1.NetworkPolicyStatus) {
	if r.Microservice == nil {
		return
	}
	chooses := slices.ContainsFunc(r.Policy.Spec.Domains, func(d v1alpha1.Domain) bool { return len(d.CanaryMatches) > 0 })
	for _, row := range r.rollout.rows {
		if row.Match && row.Status == v1alpha1.ReleaseCanary && !chooses {
			fix := fmt.Sprintf("set spec.domains[].canaryMatches of networkpolicies.hlnr.io %q", r.Policy.Name)
			if gatewayapi.UserRef(r.Policy) != nil {
				fix = "spec.provider.routeRef does not add rules to a route: set a weight for the step, or use spec.provider.gateway"
			}
			status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionCanaryUnmatched, metav1.ConditionTrue, v1alpha1.ConditionCanaryUnmatched,
				"the canary step has match: true, but no domain selects requests: "+fix)
			return
		}
	}
	status.Remove(&now.Conditions, v1alpha1.ConditionCanaryUnmatched)
}

// settingsNotApplied reports a setting that has no effect on the routes.
func (r *reporter) settingsNotApplied(now *v1alpha1.NetworkPolicyStatus) {
	if r.Microservice == nil {
		return
	}
	var routes []providers.Route
	for _, route := range r.out.Routes {
		routes = append(routes, route.Route)
	}
	if p := providers.Unapplied(r.View, routes); p != nil {
		status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionSettingsNotApplied, metav1.ConditionTrue, p.Reason, p.Message)
		return
	}
	status.Remove(&now.Conditions, v1alpha1.ConditionSettingsNotApplied)
}

// serviceAdopted reports the progress of the adoption of the user's Service.
func (r *reporter) serviceAdopted(now *v1alpha1.NetworkPolicyStatus) {
	switch a := r.out.Adoption; {
	case AdoptedName(r.Policy) == "":
		status.Remove(&now.Conditions, v1alpha1.ConditionServiceAdopted)
	case a == nil: // Without a Microservice, the condition stays as it is.
	case a.Reason != "":
		status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionServiceAdopted, metav1.ConditionFalse, a.Reason, a.message)
	case now.Adopted.AdoptedTime == nil:
		status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionServiceAdopted, metav1.ConditionFalse, ReasonPending, fmt.Sprintf("the selector of Service %q is being changed to select the active release", AdoptedName(r.Policy)))
	default:
		status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionServiceAdopted, metav1.ConditionTrue, ReasonAdopted, fmt.Sprintf("Service %q follows the active release", AdoptedName(r.Policy)))
	}
}

// wholeLevel reports whether a group contains all versions of its level. Such a group exists with
// groupBy All, and has the name of its level.
func wholeLevel(g *v1alpha1.ReleaseGroup) bool {
	return g.Level != "" && strings.EqualFold(g.Name, string(g.Level))
}

// adoptedMissing returns a problem if the Service to be adopted does not exist; otherwise, it
// returns nil.
func (r *reporter) adoptedMissing() *problem {
	if a := r.out.Adoption; a != nil && a.Reason == ReasonAdoptedMissing {
		return &problem{a.Reason, a.message}
	}
	return nil
}

// providerSwitching reports why routes of previous providers still exist.
func (r *reporter) providerSwitching(now *v1alpha1.NetworkPolicyStatus) {
	if r.Microservice == nil {
		return
	}
	s := now.ProviderSwitch
	if s == nil {
		status.Remove(&now.Conditions, v1alpha1.ConditionProviderSwitching)
		return
	}
	reason, message := reasonReplacing, fmt.Sprintf("the routes of provider %s keep serving until those of provider %s serve: %s", strings.Join(s.From, " and "), now.Provider, cmp.Or(r.out.waits, "the new routes are being written"))
	if s.ReplacedTime != nil {
		reason, message = ReasonDraining, fmt.Sprintf("the routes of provider %s stay until %s, for clients that still use them (spec.drainDelay)",
			strings.Join(s.From, " and "), s.ReplacedTime.Add(r.drain()).UTC().Format(time.RFC3339))
	}
	for _, route := range r.out.Previous {
		if err := r.writes.Refused[AppliedRouteKey(route.Name)]; err != nil {
			message += "; " + err.Error()
			break
		}
	}
	status.Set(&now.Conditions, r.Policy.Generation, v1alpha1.ConditionProviderSwitching, metav1.ConditionTrue, reason, message)
}
