package microservice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// conditions are the types of all conditions of a Microservice. Conditions of other types, which an
// earlier version may have written, are removed.
var conditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionProgressing,
	v1alpha1.ConditionPinned, v1alpha1.ConditionBlocked, v1alpha1.ConditionFrozen, v1alpha1.ConditionReleaseFailed, v1alpha1.ConditionAnalysisInconclusive,
	v1alpha1.ConditionTrafficDegraded, v1alpha1.ConditionConfigurationLost, v1alpha1.ConditionPreviewsReady, v1alpha1.ConditionDeploymentAdopted,
}

// Reasons for the TrafficDegraded condition that come from the specification, in addition to the plan's
// reasons.
const (
	reasonNoNetworkPolicy     = "NoNetworkPolicy"
	reasonWeightsNotSupported = "WeightsNotSupported"
)

// setConditions sets the conditions from the plan and the rollout state. It performs no I/O.
func setConditions(w *pass, problem *status.Error) {
	ms := w.ms
	ms.Status.Conditions = slices.DeleteFunc(ms.Status.Conditions, func(c metav1.Condition) bool { return !slices.Contains(conditions, c.Type) })
	setFromPlan(w, release.ConditionPinned)
	setFromPlan(w, release.ConditionBlocked)
	setFromPlan(w, release.ConditionFrozen)
	setFromPlan(w, release.ConditionAnalysisInconclusive)
	setFromPlan(w, release.ConditionTrafficDegraded, noNetworkPolicy(w), weightsNotSupported(w))
	setFromPlan(w, release.ConditionReleaseFailed, failed(w))
	setAdopted(w)
	setConfigurationLost(w)
	setPreviews(w)
	setProgressing(ms, w.plan.Result)
	setReady(w, problem)
}

// state is the reason and message of a condition that is True; empty if the condition is not True.
type state struct{ reason, message string }

// setFromPlan sets a condition from the plan's notes, most severe first, and from further states. If there
// is neither, it removes the condition. Otherwise, the condition is True, except that Pinned is False while
// any pin is not in effect.
func setFromPlan(w *pass, kind release.Condition, more ...state) {
	var states []state
	for _, reason := range release.Conditions[kind] {
		for _, n := range w.plan.Notes {
			// An inconclusive analysis without a warning is expected, for example while a queue contains no work.
			expected := kind == release.ConditionAnalysisInconclusive && !n.Warning
			if n.Reason == reason && !n.Event && !expected {
				states = append(states, state{string(reason), n.Message})
			}
		}
	}
	reason, lines := "", []string(nil)
	for _, x := range append(states, more...) {
		if x.reason != "" && !slices.Contains(lines, x.message) {
			reason, lines = cmp.Or(reason, x.reason), append(lines, x.message)
		}
	}
	if reason == "" {
		status.Remove(&w.ms.Status.Conditions, string(kind))
		return
	}
	holds := kind != release.ConditionPinned || reason == string(release.Pinned)
	status.Set(&w.ms.Status.Conditions, w.ms.Generation, string(kind), status.True(holds), reason, strings.Join(lines, "; "))
}

// setReady sets Ready. It is True if this generation is accepted and each group has an active release
// that is available and, if there are policies, programmed. A canary, a pause, a failed newer release
// or a preview does not change Ready: versions appear without a commit in Git, and must not cause an error for
// a user who is waiting for the result of a commit.
func setReady(w *pass, problem *status.Error) {
	ms, plan := w.ms, w.plan
	conds, gen := &ms.Status.Conditions, ms.Generation
	if problem != nil {
		if problem.Class == status.Terminal {
			status.Stalled(conds, gen, problem.Reason, problem.Error())
			return
		}
		status.Reconciling(conds, gen, problem.Reason, problem.Error())
		return
	}
	for _, n := range plan.Notes {
		if n.Warning && !ofPreview(ms, n.Slug) && n.Condition() == release.ConditionPinned {
			status.Stalled(conds, gen, string(n.Reason), n.Message)
			return
		}
	}
	ready, reason, message := serves(w)
	switch {
	case ready && w.facts.SourceStale && !w.sourceFresh && !w.inLine:
		status.Reconciling(conds, gen, reasonSourcePending, sourcePending)
	case ready:
		status.Ready(conds, gen, status.ReasonSucceeded, message)
	case reason == "ReleaseFailed":
		status.Stalled(conds, gen, reason, message)
	default:
		status.Reconciling(conds, gen, reason, message)
	}
}

// reasonSourcePending is the reason that is used while new versions that an ImagePolicy offers are ignored, because the offer is
// not based on the policy's current specification.
const (
	reasonSourcePending = "SourcePending"
	sourcePending       = "the ImagePolicy has not completed a scan with its current specification yet"
)

// withoutReplicas reports whether a release should have no pods.
func withoutReplicas(w *pass, row *v1alpha1.Release) bool {
	return !slices.ContainsFunc(w.facts.Objects, func(c release.Object) bool { return c.Release == row.VersionedMicroservice && c.Replicas > 0 })
}

// serves reports whether each live group serves traffic. A group whose domains still route to an older group may have
// no active release yet. Previews have a separate condition.
func serves(w *pass) (ok bool, reason, message string) {
	groups := groupsWithoutPreviews(w.ms)
	if len(groups) == 0 && ofPullRequests(w.policy) {
		return true, "", "all release groups are previews of pull requests"
	}
	if why := frozenBy(w); len(groups) == 0 && why != "" {
		return false, string(release.Frozen), why
	}
	o, ended := w.ms.NextOffered(w.policy)
	switch {
	case len(groups) > 0:
	case o != nil && ended:
		return false, string(release.GroupEnded), fmt.Sprintf("%s does not start: spec.endedGroups names its group %s", o.SemVer.Version, o.SemVer.Name)
	case o != nil && w.ms.Spec.Paused:
		return false, string(release.Paused), fmt.Sprintf("%s does not start: spec.paused is true", o.SemVer.Version)
	case o != nil && w.inLine:
		return false, v1alpha1.ReasonStartDelayed, fmt.Sprintf("%s is waiting to start: the manager's --max-starting-rollouts flag limits how many rollouts start at the same time", o.SemVer.Version)
	case o != nil && w.facts.SourceStale:
		return false, reasonSourcePending, sourcePending
	default:
		return false, "NoVersions", fmt.Sprintf("ImagePolicy %q offers no version yet", w.ms.Spec.ImagePolicyRef.Name)
	}
	var lines []string
	for _, g := range groups {
		if g.Phase != v1alpha1.GroupLive {
			continue
		}
		row := g.ActiveRelease()
		if row == nil && arrives(w, &g) {
			continue
		}
		switch {
		case row == nil && g.Rollout == nil && len(failures(g)) > 0:
			return false, "ReleaseFailed", fmt.Sprintf("group %s has no active release: retry a failed release, or push a newer version; failed: %s", g.Name, strings.Join(failures(g), ", "))
		case row == nil:
			return false, "NoActiveRelease", fmt.Sprintf("group %s has no active release yet", g.Name) + blocked(w, g.Slug)
		case !row.Available && w.ms.Successor(&g) != nil && withoutReplicas(w, row):
			next := w.ms.Successor(&g)
			if !next.Available {
				return false, "ActiveStopped", fmt.Sprintf("in group %s, the pods of %s were stopped so that %s can run; %s %s", g.Name, row.SemVer.Version, next.SemVer.Version, next.SemVer.Version, nextRelease(w, g.Slug, next))
			}
			lines = append(lines, fmt.Sprintf("%s in group %s (%s runs instead)", row.SemVer.Version, g.Name, next.SemVer.Version))
			continue
		case !row.Available:
			return false, "ActiveUnavailable", fmt.Sprintf("the active release %s of group %s has fewer available replicas than desired", row.SemVer.Version, g.Name)
		case !programmed(w.facts.Policies, g.Slug):
			return false, "NotProgrammed", fmt.Sprintf("no networkpolicies.hlnr.io object has programmed routes to group %s yet", g.Name)
		}
		lines = append(lines, fmt.Sprintf("%s in group %s", row.SemVer.Version, g.Name))
	}
	if len(lines) == 0 {
		return true, "", "all release groups except previews are ending"
	}
	return true, "", "active: " + strings.Join(lines, ", ")
}

// nextRelease describes the state of an exclusive group's next release, for which the pods of the active
// release were stopped.
func nextRelease(w *pass, slug string, next *v1alpha1.Release) string {
	ready := slices.ContainsFunc(w.facts.Objects, func(c release.Object) bool {
		return c.Release == next.VersionedMicroservice && c.Replicas > 0 && c.Available >= c.Replicas
	})
	if !ready {
		return "is starting"
	}
	for _, n := range w.plan.Notes {
		if n.Slug == slug && waits[n.Reason] != "" && !n.Event {
			return "is available but has no traffic yet: " + n.Message
		}
	}
	return "is available but has no traffic yet"
}

// frozenBy describes the releases that a freeze prevents from starting, or returns "".
func frozenBy(w *pass) string {
	for _, n := range w.plan.Notes {
		if n.Reason == release.Frozen && !n.Event {
			return n.Message
		}
	}
	return ""
}

// blocked describes the problem outside the release that blocks the rollout of a group, or returns
// "".
func blocked(w *pass, slug string) string {
	for _, n := range w.plan.Notes {
		if n.Slug == slug && n.Reason == release.Blocked && !n.Event {
			return ": " + n.Message
		}
	}
	return ""
}

// programmed reports whether a policy routes to the group. It returns true if there are no policies.
func programmed(policies []release.Policy, slug string) bool {
	if len(policies) == 0 {
		return true
	}
	for _, p := range policies {
		for _, g := range p.Groups {
			if g.Slug == slug && g.Revision > 0 {
				return true
			}
		}
	}
	return false
}

// noNetworkPolicy returns the state for canary steps without routes: such steps have no effect
// (protocol rule 18), unless the group splits its work by pods (rule 46).
func noNetworkPolicy(w *pass) state {
	split := slices.ContainsFunc(w.facts.State.Groups, func(g release.Group) bool { return !release.ByPods(&w.facts, &g) })
	if w.ms.Spec.UpdateStrategy.Canary == nil || len(w.facts.Policies) > 0 || !split {
		return state{}
	}
	return state{reasonNoNetworkPolicy, "no networkpolicies.hlnr.io object routes to this Microservice: weights have no effect, and steps do not shift traffic"}
}

// weightsNotSupported returns the state for groups whose traffic no policy can split. The weights of steps
// are recorded, but have no effect (protocol rule 19).
func weightsNotSupported(w *pass) state {
	if w.ms.Spec.UpdateStrategy.Canary == nil {
		return state{}
	}
	var whole []string
	for _, g := range groupsWithoutPreviews(w.ms) {
		reported, split := false, false
		for i := range w.policies {
			for _, r := range w.policies[i].Status.Groups {
				if r.Slug == g.Slug {
					reported, split = true, split || r.Split == v1alpha1.SplitWeighted
				}
			}
		}
		pods := slices.ContainsFunc(w.facts.State.Groups, func(s release.Group) bool { return s.Slug == g.Slug && release.ByPods(&w.facts, &s) })
		if reported && !split && !pods {
			whole = append(whole, g.Name)
		}
	}
	if len(whole) == 0 {
		return state{}
	}
	noun := "group"
	if len(whole) > 1 {
		noun = "groups"
	}
	return state{reasonWeightsNotSupported, fmt.Sprintf(
		"on promotion, the traffic of %s %s moves as a whole, and steps do not shift traffic: set spec.domains of the networkpolicies.hlnr.io object, and a spec.provider that splits traffic by weight", noun, strings.Join(whole, ", "))}
}

// failed returns the state for versions that failed.
func failed(w *pass) state {
	var lines []string
	for _, g := range groupsWithoutPreviews(w.ms) {
		for _, r := range g.Releases {
			if r.Status == v1alpha1.ReleaseError {
				lines = append(lines, fmt.Sprintf("%s (%s)", status.Short(r.SemVer.Version), failureOf(w, &r)))
			}
		}
	}
	if len(lines) == 0 {
		return state{}
	}
	return state{string(release.ReleaseFailed), strings.Join(lines, ", ")}
}

// failureOf returns the reason why a release failed, and the cause in the status of its object.
func failureOf(w *pass, r *v1alpha1.Release) string {
	for i := range w.facts.Objects {
		if c := &w.facts.Objects[i]; c.Release == r.VersionedMicroservice && c.Message != "" && (c.Failure == "" || string(c.Failure) == r.Reason) {
			return r.Reason + ": " + status.Line(c.Message)
		}
	}
	return r.Reason
}

// failures returns the failures of a group, for example "1.2.0 (CrashLoopBackOff)".
func failures(g v1alpha1.ReleaseGroup) []string {
	var lines []string
	for _, r := range g.Releases {
		if r.Status == v1alpha1.ReleaseError {
			lines = append(lines, fmt.Sprintf("%s (%s)", status.Short(r.SemVer.Version), r.Reason))
		}
	}
	return lines
}

// progress contains the reasons for the Progressing condition, in ascending order of precedence. For example,
// waiting for an approval takes precedence over waiting for a window. Only one reason is reported.
var progress = []string{"Idle", "Draining", "Canary", "Analysis", "Paused", "Window", "Frozen", "Group", "Together", "Gate", "Blocked", "TrafficLost", "Inconclusive", "Approval"}

// waits maps a plan's reasons for waiting to the corresponding reasons for the Progressing condition.
var waits = map[release.Reason]string{
	release.Unhealthy: "Canary", release.AnalysisRunning: "Analysis", release.AnalysisNoTraffic: "Analysis", release.Waiting: "Paused", release.Paused: "Paused", release.Frozen: "Frozen",
	release.TrafficLost: "TrafficLost", release.Blocked: "Blocked", release.AwaitingGroup: "Group",
	release.AwaitingTogether: "Together", release.TogetherHeld: "Together", release.AwaitingWindow: "Window",
	release.AwaitingJobs: "Draining", release.AwaitingGate: "Gate", release.AnalysisInconclusive: "Inconclusive", release.AwaitingApproval: "Approval",
}

// progressOf returns a note's reason for the Progressing condition, or "". A freeze is not a reason while the
// same group would wait even without the freeze: for the end of a pause, or for the pods of an unhealthy
// release.
func progressOf(notes []release.Note, n release.Note) string {
	first := func(x release.Note) bool {
		return x.Slug == n.Slug && !x.Event && (x.Reason == release.Unhealthy || x.Reason == release.Paused)
	}
	if n.Event || n.Reason == release.Frozen && slices.ContainsFunc(notes, first) {
		return ""
	}
	return waits[n.Reason]
}

// waitOf returns the reason for the Progressing condition that shows what the rollout of a group is waiting
// for, or "".
func waitOf(notes []release.Note, slug string) string {
	last := slices.Index(progress, "Canary")
	for _, n := range notes {
		if n.Slug == slug {
			last = max(last, slices.Index(progress, progressOf(notes, n)))
		}
	}
	if progress[last] == "Canary" {
		return ""
	}
	return progress[last]
}

// setProgressing sets the Progressing condition. The PROGRESSING column shows the reason of this condition.
func setProgressing(ms *v1alpha1.Microservice, plan release.Result) {
	reason, message := "Idle", "no rollout is in progress"
	rank := map[string]int{}
	for i, r := range progress {
		rank[r] = i
	}
	say := func(r, m string) {
		if cmp.Compare(rank[r], rank[reason]) > 0 {
			reason, message = r, m
		}
	}
	for _, g := range ms.Status.ReleaseGroups {
		for _, r := range g.Releases {
			if g.Phase != v1alpha1.GroupLive || r.Status == v1alpha1.ReleaseDeprecated && r.Promoted == 0 {
				say("Draining", fmt.Sprintf("%s of group %s is draining", r.SemVer.Version, g.Name))
			}
		}
		if g.Rollout != nil {
			say("Canary", fmt.Sprintf("the rollout of %s in group %s is in progress", version(&g, g.Rollout.Release), g.Name))
		}
	}
	for _, n := range plan.Notes {
		if r := progressOf(plan.Notes, n); r != "" {
			if r == "Canary" && reason == r { // the new message is more specific than "is in progress"
				message = n.Message
			}
			say(r, n.Message)
		}
	}
	status.Set(&ms.Status.Conditions, ms.Generation, v1alpha1.ConditionProgressing, status.True(reason != "Idle"), reason, message)
}

// arrives reports whether domains that follow the newest group still route to a group that is older than g. It is
// called only for a group g that has no active release yet: the domains route to the older group until the first
// release of g has completed its steps. While a policy has no status, its domains are assumed to route to an older
// group.
func arrives(w *pass, g *v1alpha1.ReleaseGroup) bool {
	c := w.ms.Spec.UpdateStrategy.Canary
	if c == nil || len(c.Steps) == 0 {
		return false
	}
	groups := groupsWithoutPreviews(w.ms)
	at := slices.IndexFunc(groups, func(x v1alpha1.ReleaseGroup) bool { return x.Slug == g.Slug })
	for _, older := range groups[at+1:] {
		for _, p := range w.facts.Policies {
			follows := p.Unreported || slices.ContainsFunc(p.Groups, func(r release.Report) bool { return r.Slug == older.Slug && r.Newest })
			if follows && older.Phase == v1alpha1.GroupLive && older.ActiveRelease() != nil {
				return true
			}
		}
	}
	return false
}
