package wait

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/frozen"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view"
)

// The values of --for. forStep is the prefix of step=NAME.
const (
	forActive   = "active"
	forCanary   = "canary"
	forApproval = "approval"
	forStep     = "step="
)

// question is the condition for which the command waits.
type question struct {
	version string
	// followed distinguishes releases of the same version: a change to the configuration starts another release of the version while the
	// previous release is still active. followed is the name of that release of the version whose rollout the command most recently
	// observed in progress.
	// It is empty if the command has not observed such a rollout.
	followed string
	// state is active, canary, approval or step=NAME.
	state string
	// throughApprovals reports whether the command keeps waiting while the version is waiting for a user or for the end of a
	// freeze.
	throughApprovals bool
	// command is [cli.Factory.Command].
	command func(namespace, verb string, args ...string) string
}

// next returns a command about the Microservice, for messages.
func (q question) next(verb string, s snapshot, args ...string) string {
	return q.command(s.ms.Namespace, verb, append([]string{s.ms.Name}, args...)...)
}

// snapshot contains the objects of the Microservice at one point in time.
type snapshot struct {
	ms *v1alpha1.Microservice
	// policy is the ImagePolicy of the Microservice, or nil if it does not exist.
	policy *v1alpha1.ImagePolicy
	// release is the release of the version, or nil if it does not exist or cannot be read.
	release *v1alpha1.VersionedMicroservice
	// routing contains those NetworkPolicies of the Microservice that the user is allowed to read.
	routing []v1alpha1.NetworkPolicy
	now     time.Time
}

// outdated reports whether the manager has not yet observed the latest change to the specification of the Microservice.
func (s snapshot) outdated() bool { return s.ms.Status.ObservedGeneration < s.ms.Generation }

// policyOutdated reports whether the manager has not yet observed the latest change to the specification of the ImagePolicy.
func (s snapshot) policyOutdated() bool {
	return s.policy != nil && s.policy.Status.ObservedGeneration < s.policy.Generation
}

// unrouted describes why no NetworkPolicy routes to a group yet. The text is empty if a NetworkPolicy routes to the group, or if there
// is no NetworkPolicy. The first release of an unrouted group becomes active when it is available, even if it gets no
// traffic yet.
func (s snapshot) unrouted(g *v1alpha1.ReleaseGroup) (text string) {
	for i := range s.routing {
		p := &s.routing[i]
		text = fmt.Sprintf("waits for the routes of networkpolicies.hlnr.io %q", p.Name)
		for _, r := range p.Status.Groups {
			if r.Slug != g.Slug {
				continue
			}
			if r.Revision > 0 {
				return ""
			}
			if why := cmp.Or(r.Message, r.Reason); why != "" {
				text += ": " + why
			}
		}
	}
	return text
}

// withoutPods describes why a release has no ready pod. The text is empty if the release has a ready pod, or if its pods are not known.
func (s snapshot) withoutPods(row *v1alpha1.Release) string {
	o := s.release
	if o != nil && s.ms.Spec.Availability.Exclusive && o.Spec.Replicas == 0 && s.rolling(row) {
		return "waits for a ready pod: the pods of the release were stopped for another release, which is being rolled out"
	}
	if row.Available || o == nil || o.Spec.Replicas == 0 || o.Status.ObservedGeneration != o.Generation || o.Status.Available > 0 {
		return ""
	}
	text := "waits for a ready pod"
	if why := cmp.Or(o.Status.Message, o.Status.Failure); why != "" {
		text += ": " + why
	}
	return text
}

// rolling reports whether the group of a release is rolling out another release.
func (s snapshot) rolling(row *v1alpha1.Release) bool {
	return slices.ContainsFunc(s.ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool {
		return g.Rollout != nil && g.Rollout.Release != row.VersionedMicroservice && slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.VersionedMicroservice == row.VersionedMicroservice })
	})
}

// line is a fact that the command prints when it changes.
type line struct {
	What, Text string
	// Since is the time at which the fact became true, or zero if the objects do not record it.
	Since time.Time
}

// answer is the result that ends the wait.
type answer struct {
	code cli.Code
	text string
}

// judge returns the facts about a version, and the answer. The answer is nil while the command has to wait.
func (q question) judge(s snapshot) ([]line, *answer) {
	var lines []line
	if s.offered(q.version) {
		lines = append(lines, line{What: "found", Text: "version " + q.version + ", offered by ImagePolicy " + s.policy.Name})
	}
	g, row := q.row(s)
	if row == nil {
		return lines, q.judgeAbsent(s, g)
	}
	run := g.Rollout
	if run != nil && run.Release != row.VersionedMicroservice {
		run = nil
	}
	lines = append(lines, s.started(g, row))
	if l, is := s.available(row); is {
		lines = append(lines, l)
	}
	switch row.Status {
	case v1alpha1.ReleaseActive:
		if s.outdated() && !s.ends(g) {
			return lines, nil // The latest change might start another release of the version.
		}
		lines = append(lines, line{"active", fmt.Sprintf("%d%%", row.Weight), row.LastTransitionTime.Time})
		if s.ends(g) {
			return lines, &answer{cli.ExitNo, fmt.Sprintf("%s is losing its traffic: its group %s is ending", q.version, g.Name)}
		}
		if q.state == forApproval {
			return lines, &answer{cli.ExitNo, fmt.Sprintf("%s is active, and does not wait for approval", q.version)}
		}
		if text := s.unrouted(g); text != "" {
			return append(lines, line{What: "routes", Text: text}), nil
		}
		if text := s.withoutPods(row); text != "" {
			return append(lines, line{What: "pods", Text: text}), nil
		}
		if len(s.routing) > 0 {
			lines = append(lines, line{What: "routes", Text: "programmed"})
		}
		return lines, &answer{cli.ExitYes, ""}
	case v1alpha1.ReleaseError:
		if s.outdated() {
			return lines, nil // The latest change might start another release of the version.
		}
		return lines, &answer{cli.ExitNo, q.failed(s, g, row)}
	case v1alpha1.ReleaseDeprecated:
		if s.ends(g) {
			return lines, &answer{cli.ExitNo, fmt.Sprintf("%s is being removed: its group %s is ending", q.version, g.Name)}
		}
		if view.Denied(s.policy, g, row.SemVer.Version) {
			return lines, &answer{cli.ExitNo, fmt.Sprintf("%s is denied by ImagePolicy %s: it gets no traffic while another release can serve traffic", q.version, s.policy.Name)}
		}
		if g.Target.Release == row.VersionedMicroservice || s.pinnedTo(g, q.version) || row.Promoted > 0 && run != nil {
			return lines, q.halted(s, g, row) // The release becomes active, unless a pause or a freeze stops it.
		}
		if s.outdated() {
			return lines, nil // The latest change might make the release active again.
		}
		text := fmt.Sprintf("%s is retained, and was replaced by %s", q.version, cmp.Or(g.Active, "another release"))
		if g.Level == v1alpha1.LevelPreview {
			text = fmt.Sprintf("%s was replaced by %s, and will be deleted after it is drained", q.version, cmp.Or(g.Active, "another release"))
		}
		if row.Promoted == 0 {
			text = fmt.Sprintf("%s was superseded before it was active: %s", q.version, replacement(g))
		}
		if to, words := s.pinOf(g); to != "" && !s.pinnedTo(g, q.version) {
			text += fmt.Sprintf("; group %s is %s", g.Name, words)
		}
		return lines, &answer{cli.ExitNo, text}
	}
	if run != nil && run.Step > 0 {
		progress, wait := q.step(s.ms, g, row)
		if wait != "" {
			progress += ", " + wait
		}
		lines = append(lines, line{"step " + strconv.Itoa(int(run.Step)), progress, run.StartedTime.Time})
	}
	if s.outdated() {
		return lines, nil // The latest change might supersede this rollout.
	}
	return lines, q.judgeRollout(s, g, row, run)
}

// judgeRollout returns the answer for a release whose rollout is in progress.
func (q question) judgeRollout(s snapshot, g *v1alpha1.ReleaseGroup, row *v1alpha1.Release, run *v1alpha1.Rollout) *answer {
	if run != nil && row.Status == v1alpha1.ReleaseCanary && (q.state == forCanary || q.reached(s.ms, int(run.Step))) {
		return &answer{cli.ExitYes, ""}
	}
	approval := run != nil && waitsForApproval(s.ms, row, run)
	if approval && q.state == forApproval {
		return &answer{cli.ExitYes, ""}
	}
	if q.throughApprovals {
		return nil
	}
	if approval {
		return &answer{cli.ExitWaits, fmt.Sprintf("%s waits for approval: %s", q.version, q.next("continue", s, q.version))}
	}
	if a := q.halted(s, g, row); a != nil {
		return a
	}
	if text := heldTogether(s.ms, row, run); text != "" {
		return &answer{cli.ExitWaits, text}
	}
	switch c := meta.FindStatusCondition(s.ms.Status.Conditions, v1alpha1.ConditionAnalysisInconclusive); {
	case run != nil && c != nil && c.Status == "True" && c.Reason == v1alpha1.ConditionAnalysisInconclusive && isInconclusive(s.release, run):
		why := ""
		if s.release.Status.Analysis.Message != "" {
			why = " (" + s.release.Status.Analysis.Message + ")"
		}
		return &answer{cli.ExitWaits, fmt.Sprintf("%s waits for a decision, because its analysis is inconclusive%s: to continue, %s; to abort, %s", q.version, why, q.next("continue", s, q.version), q.next("deprecate", s, q.version))}
	case s.pinnedElsewhere(g, q.version) != "":
		return &answer{cli.ExitNo, s.pinnedElsewhere(g, q.version)}
	}
	return nil
}

// heldTogether returns the message of the Blocked condition if a rollout is waiting for a user because its version failed in a Microservice
// that is rolled out together with this one. Otherwise, it returns an empty string.
func heldTogether(ms *v1alpha1.Microservice, row *v1alpha1.Release, run *v1alpha1.Rollout) string {
	c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked)
	if run == nil || run.Gate != v1alpha1.GateTogether || c == nil || c.Status != "True" || c.Reason != "TogetherHeld" || !frozen.IsAtWeight(c.Message, row.SemVer.Version) {
		return ""
	}
	return c.Message
}

// isInconclusive reports whether the analysis of the current step of a release is inconclusive.
func isInconclusive(release *v1alpha1.VersionedMicroservice, run *v1alpha1.Rollout) bool {
	if release == nil || release.Status.Analysis == nil {
		return false
	}
	a := release.Status.Analysis
	return a.Phase == v1alpha1.AnalysisInconclusive && a.Run == run.Sequence && a.Step == run.Step
}

// halted returns the answer for a pause or a freeze that stops a release. The answer is nil if nothing stops the release, or if
// throughApprovals is set. Neither a pause nor a freeze stops the return to a release that is pinned or that replaces a denied release. A
// pause does not stop an adopted release.
func (q question) halted(s snapshot, g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) *answer {
	switch {
	case q.throughApprovals, row.Promoted > 0 && (s.pinnedTo(g, q.version) || view.Denied(s.policy, g, g.Active)):
	case s.ms.Spec.Paused && !view.Adopted(row):
		return &answer{cli.ExitWaits, fmt.Sprintf("%s is paused: %s", s.ms.Name, q.next("resume", s))}
	case s.release != nil && s.release.Status.Failure != "": // The release can fail even during a freeze.
	case waitsFrozen(s.ms, func(w frozen.Wait) bool {
		return w.Of(row.SemVer.Version) || w.Clause == frozen.Rollback(row.SemVer.Version)
	}):
		return &answer{cli.ExitWaits, frozenMessage(s.ms)}
	}
	return nil
}

// judgeAbsent returns the answer for a version without a release.
func (q question) judgeAbsent(s snapshot, g *v1alpha1.ReleaseGroup) *answer {
	if text, final := s.filtered(q.version); final {
		return &answer{cli.ExitNo, text}
	}
	if c := meta.FindStatusCondition(s.ms.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == "True" && c.ObservedGeneration == s.ms.Generation {
		return &answer{cli.ExitNo, fmt.Sprintf("no release of %s can start: %s: %s", s.ms.Name, c.Reason, c.Message)}
	}
	o := s.offer(q.version)
	if o != nil && s.ms.EndsGroup(o.SemVer.Name, o.Group, o.PullRequest) {
		return &answer{cli.ExitNo, fmt.Sprintf("%s does not start: spec.endedGroups ends its group %s; to let %s start, run %q", q.version, o.SemVer.Name, q.version, q.next("end-group", s, s.ms.EndedGroup(o.SemVer.Name, o.Group, o.PullRequest), "--undo"))}
	}
	if g == nil {
		if o == nil {
			return nil
		}
		if oldest := view.OldestAbove(s.ms, s.policy, o); oldest != nil {
			return &answer{cli.ExitNo, fmt.Sprintf("%s does not start: its group %s is older than %s, the oldest live group; push a version of group %s or of a newer group", q.version, cmp.Or(o.SemVer.Name, o.Group), oldest.Name, oldest.Name)}
		}
		return q.stopped(s)
	}
	if text := s.pinnedElsewhere(g, q.version); text != "" {
		return &answer{cli.ExitNo, text}
	}
	if g.Active != "" && g.Level != v1alpha1.LevelPreview && version.Compare(g.Active, q.version) > 0 && !s.pinnedTo(g, q.version) {
		return &answer{cli.ExitNo, fmt.Sprintf("%s is superseded: %s is active in group %s; to return to %s, run %q", q.version, g.Active, g.Name, q.version, q.next("pin", s, q.version))}
	}
	if o != nil {
		if failed := view.HeldBy(s.ms, g, o.SemVer.Version); failed != nil {
			return &answer{cli.ExitNo, fmt.Sprintf("%s does not start: %s failed, and an exclusive group does not try older versions; to start %s, run %q", q.version, failed.SemVer.Version, q.version, q.next("pin", s, q.version))}
		}
	}
	return q.stopped(s)
}

// stopped returns the answer if the Microservice does not start new releases because of a pause or a freeze. The answer is nil if new releases
// start, or if throughApprovals is set.
func (q question) stopped(s snapshot) *answer {
	switch {
	case q.throughApprovals:
	case s.ms.Spec.Paused:
		return &answer{cli.ExitWaits, fmt.Sprintf("%s is paused: %s", s.ms.Name, q.next("resume", s))}
	case s.offered(q.version) && frozenMessage(s.ms) != "":
		return &answer{cli.ExitWaits, fmt.Sprintf("%s does not start: %s", q.version, frozenMessage(s.ms))}
	}
	return nil
}

// frozenMessage returns the message of the Frozen condition, or an empty string if the condition is not True.
func frozenMessage(ms *v1alpha1.Microservice) string {
	c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionFrozen)
	if c == nil || c.Status != "True" {
		return ""
	}
	return c.Message
}

// waitsFrozen reports whether the Frozen condition describes a wait for which match returns true.
func waitsFrozen(ms *v1alpha1.Microservice, match func(frozen.Wait) bool) bool {
	return slices.ContainsFunc(frozen.Parse(frozenMessage(ms)), match)
}

// offer returns the offer of a version in the ImagePolicy, or nil if the version is not offered.
func (s snapshot) offer(wanted string) *v1alpha1.OfferedRelease {
	if s.policy == nil {
		return nil
	}
	for i := range s.policy.Status.Releases {
		if o := &s.policy.Status.Releases[i]; version.Matches(wanted, o.SemVer.Version) {
			return o
		}
	}
	return nil
}

func (s snapshot) offered(wanted string) bool { return s.offer(wanted) != nil }

// row returns the release to judge, and the group of the version. If the command follows a release, row returns this release or, if
// another release of the same version replaced it, the other release.
func (q question) row(s snapshot) (group *v1alpha1.ReleaseGroup, row *v1alpha1.Release) {
	for i := range s.ms.Status.ReleaseGroups {
		g := &s.ms.Status.ReleaseGroups[i]
		r := g.Release(q.followed)
		if r == nil {
			continue
		}
		var next *v1alpha1.Release
		if g.Rollout != nil {
			next = g.Release(g.Rollout.Release)
		} else if r.Status == v1alpha1.ReleaseDeprecated {
			next = g.Release(g.Target.Release)
		}
		if next != nil && version.Matches(q.version, next.SemVer.Version) {
			return g, next
		}
		return g, r
	}
	return s.row(q.version)
}

// follows returns the name of the release to follow after a snapshot.
func (q question) follows(s snapshot) string {
	if g, row := q.row(s); row != nil && g.Rollout != nil && g.Rollout.Release == row.VersionedMicroservice {
		return row.VersionedMicroservice
	}
	return q.followed
}

// row returns the release with the given version or name, and the group of the version. If the version has several releases, row returns
// the active release or the release whose rollout is in progress; if both exist, it returns the one that the status lists last. If neither
// exists, row returns the release whose status changed most recently.
func (s snapshot) row(wanted string) (group *v1alpha1.ReleaseGroup, row *v1alpha1.Release) {
	for i := range s.ms.Status.ReleaseGroups {
		g := &s.ms.Status.ReleaseGroups[i]
		for j := range g.Releases {
			r := &g.Releases[j]
			if !version.Matches(wanted, r.SemVer.Version) && r.VersionedMicroservice != wanted {
				continue
			}
			inProgress := g.Rollout != nil && g.Rollout.Release == r.VersionedMicroservice
			if row == nil || inProgress || r.Status == v1alpha1.ReleaseActive || r.LastTransitionTime.After(row.LastTransitionTime.Time) && row.Status != v1alpha1.ReleaseActive && (group.Rollout == nil || group.Rollout.Release != row.VersionedMicroservice) {
				group, row = g, r
			}
		}
	}
	if row != nil {
		return group, row
	}
	if o := s.offer(wanted); o != nil {
		for i := range s.ms.Status.ReleaseGroups {
			if g := &s.ms.Status.ReleaseGroups[i]; g.Slug == o.Group {
				return g, nil
			}
		}
	}
	return nil, nil
}

// passing contains the verdicts that a later scan can change, for example because the image exists or is signed by then.
var passing = map[version.Verdict]bool{
	version.VerdictMinAge: true, version.VerdictExists: true, version.VerdictLimits: true, version.VerdictPlatform: true, version.VerdictVerify: true,
}

// filtered describes why the ImagePolicy does not offer a version. The text is empty if the ImagePolicy offers the version or has not found
// it. final reports whether only a change to the ImagePolicy can change the result: a later scan cannot change it, and the manager has
// observed the latest change to the ImagePolicy.
func (s snapshot) filtered(wanted string) (text string, final bool) {
	if s.policy == nil || s.offered(wanted) {
		return "", false
	}
	for _, c := range s.policy.Status.Candidates {
		if !version.Matches(wanted, c.Version) {
			continue
		}
		text = fmt.Sprintf("%s is not offered by ImagePolicy %s: %s", wanted, s.policy.Name, strings.Join(nonEmpty(c.Verdict, c.Reason), ": "))
		if !passing[version.Verdict(c.Verdict)] {
			return text, !s.policyOutdated()
		}
	}
	for _, w := range s.policy.Status.Withdrawn {
		if version.Matches(wanted, w.Version) {
			return fmt.Sprintf("%s is withdrawn by ImagePolicy %s: %s", wanted, s.policy.Name, w.Reason), !s.policyOutdated()
		}
	}
	return text, false
}

func nonEmpty(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}

// ends reports whether a group is ending, which means that all its releases are being removed.
func (s snapshot) ends(g *v1alpha1.ReleaseGroup) bool {
	return s.ms.EndsGroup(g.Name, g.Slug, g.PullRequest) || g.Phase == v1alpha1.GroupClosing
}

// pinOf returns the version to which a group is pinned, and a description of the pin. Both are empty if the group is not pinned.
func (s snapshot) pinOf(g *v1alpha1.ReleaseGroup) (to, words string) {
	p := view.PinOf(s.ms, g, s.now)
	if p == nil {
		return "", ""
	}
	to = p.Version + p.Release
	for _, r := range g.Releases {
		if r.VersionedMicroservice == p.Release {
			to = r.SemVer.Version
		}
	}
	words = "pinned to " + to
	if p.Until != nil {
		words += " until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.Reason != "" {
		words += fmt.Sprintf(": %q", p.Reason)
	}
	return to, words
}

// pinnedTo reports whether a group is pinned to wanted, which is the name of a version or a release. A pin to a version selects the release that is the
// target of the group. A pin to a release selects only this release, and no other release of the same version.
func (s snapshot) pinnedTo(g *v1alpha1.ReleaseGroup, wanted string) bool {
	p := view.PinOf(s.ms, g, s.now)
	if p == nil {
		return false
	}
	versions := map[string]string{} // The keys are the names of releases.
	for _, r := range g.Releases {
		versions[r.VersionedMicroservice] = r.SemVer.Version
	}
	named, byName := versions[wanted]
	pinned := cmp.Or(p.Version, versions[p.Release], p.Release)
	switch target := g.Target.Release; {
	case byName && p.Release != "":
		return wanted == p.Release
	case byName && target != wanted && versions[target] == named && !s.outdated():
		return false
	}
	wanted = cmp.Or(named, wanted)
	return version.Names(pinned, wanted) || version.Matches(wanted, pinned)
}

// pinnedElsewhere describes the pin if the group of a version is pinned to another version. The text is empty if there
// is no such pin.
func (s snapshot) pinnedElsewhere(g *v1alpha1.ReleaseGroup, wanted string) string {
	to, words := s.pinOf(g)
	if to == "" || s.pinnedTo(g, wanted) {
		return ""
	}
	return fmt.Sprintf("%s does not start: group %s is %s", wanted, g.Name, words)
}

// reached reports whether the rollout is in the step that --for specifies, or in a later step.
func (q question) reached(ms *v1alpha1.Microservice, number int) bool {
	name, is := strings.CutPrefix(q.state, forStep)
	if !is {
		return false
	}
	wanted, ok := stepNumber(ms, name)
	return ok && number >= wanted
}

// stepNumber returns the number of the step that has the given name or number, and whether the step exists.
func stepNumber(ms *v1alpha1.Microservice, name string) (int, bool) {
	c := ms.Spec.UpdateStrategy.Canary
	if c == nil {
		return 0, false
	}
	for i, st := range c.Steps {
		if st.Name == name {
			return i + 1, true
		}
	}
	n, err := strconv.Atoi(name)
	return n, err == nil && n >= 1 && n <= len(c.Steps)
}

// stepNames returns the name of each step, or its number if the step has no name.
func stepNames(ms *v1alpha1.Microservice) []string {
	var names []string
	if c := ms.Spec.UpdateStrategy.Canary; c != nil {
		for i, st := range c.Steps {
			names = append(names, cmp.Or(st.Name, strconv.Itoa(i+1)))
		}
	}
	return names
}

// waitsForApproval reports whether the current step of a rollout is waiting for the Continue
// decision. An adopted release does not wait for it.
func waitsForApproval(ms *v1alpha1.Microservice, row *v1alpha1.Release, run *v1alpha1.Rollout) bool {
	c := ms.Spec.UpdateStrategy.Canary
	if c == nil || int(run.Step) > len(c.Steps) || run.Step < 1 || run.Gate != "" || run.Interrupted || view.Adopted(row) {
		return false
	}
	return c.Steps[run.Step-1].Approval != nil && run.Continued < run.Step
}

// started returns the line for the start of a release, with the active version of its group.
func (s snapshot) started(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) line {
	l := line{What: "started", Text: "in group " + g.Name}
	if g.Active != "" && g.Active != row.SemVer.Version {
		l.Text += fmt.Sprintf(", where %s is active", g.Active)
	}
	if s.release != nil {
		l.Since = s.release.CreationTimestamp.Time
	}
	return l
}

// available returns the line about the pods of a release, and whether the release is available. It also checks the
// status of the release's object, because a release with traffic might have lost its pods.
func (s snapshot) available(row *v1alpha1.Release) (line, bool) {
	l := line{What: "available"}
	if !row.Available || s.release != nil && s.release.Status.Available == 0 {
		return l, false
	}
	if s.release != nil && s.release.Status.Ready != "" {
		l.Text = s.release.Status.Ready + " pods"
	}
	if s.release != nil {
		if c := meta.FindStatusCondition(s.release.Status.Conditions, v1alpha1.ConditionAvailable); c != nil && c.Status == "True" {
			l.Since = c.LastTransitionTime.Time
		}
	}
	return l, true
}

// step describes the current step of a release, and separately what the release waits for, for example "waits for approval". If the release
// does not wait, or waits for the end of a pause, wait is empty.
func (q question) step(ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) (progress, wait string) {
	run := g.Rollout
	progress = fmt.Sprintf("%d%%", row.Weight)
	c := ms.Spec.UpdateStrategy.Canary
	if c == nil || int(run.Step) > len(c.Steps) {
		return progress, ""
	}
	st := c.Steps[run.Step-1]
	if st.Name != "" {
		progress = st.Name + ", " + progress
	}
	progress += fmt.Sprintf(" (%d of %d)", run.Step, len(c.Steps))
	switch {
	case run.WaitsFor != "":
		wait = "waits for " + view.ProblemInWords(run.WaitsFor)
	case waitsFrozen(ms, func(w frozen.Wait) bool { return w.Of(row.SemVer.Version) && w.HasRollout() }):
		wait = "waits for the end of a freeze"
	case view.Adopted(row):
		progress += ", adopted"
	case heldTogether(ms, row, run) != "":
		wait = "waits for a decision because the version failed in another Microservice"
	case run.Gate == v1alpha1.GateTogether:
		wait = "waits for the Microservices that roll out together"
	case run.Gate != "":
		wait = "waits for the " + string(run.Gate) + " hooks"
	case waitsForApproval(ms, row, run):
		wait = "waits for approval"
	case st.Pause != nil && run.Continued < run.Step:
		progress += ", pause " + string(st.Pause.Duration)
	}
	return progress, wait
}

// failed describes why a release failed, and which release now has the traffic of the group.
func (q question) failed(s snapshot, g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) string {
	wanted, active := q.version, g.Active
	if g.Active == row.SemVer.Version { // The failed and the active release have the same version, so the text also contains their names.
		if wanted != row.VersionedMicroservice {
			wanted += " (" + row.VersionedMicroservice + ")"
		}
		for _, r := range g.Releases {
			if r.Status == v1alpha1.ReleaseActive {
				active = fmt.Sprintf("%s (%s)", g.Active, r.VersionedMicroservice)
			}
		}
	}
	text := fmt.Sprintf("%s failed: %s", wanted, row.Reason)
	if by := decided(s.release, row); by != "" {
		text += by
	} else if s.release != nil && s.release.Status.Message != "" {
		text += ": " + s.release.Status.Message
	} else if s.release != nil && s.release.Status.Analysis != nil && s.release.Status.Analysis.Message != "" {
		text += ": " + s.release.Status.Analysis.Message
	}
	switch {
	case g.Active == "":
	case s.ms.Spec.Availability.Exclusive && slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive && !r.Available }):
		text += fmt.Sprintf("; the pods of %s, which is active in group %s, start again", active, g.Name)
	default:
		text += fmt.Sprintf("; %s has all traffic of group %s", active, g.Name)
	}
	return text
}

// decided describes which user aborted a release. The text includes the user's reason if the release's object still contains this
// decision. The text is empty if no user aborted the release.
func decided(release *v1alpha1.VersionedMicroservice, row *v1alpha1.Release) string {
	d := row.Decision
	if d == nil || d.Action != v1alpha1.DecisionDeprecate || d.By == "" || row.Reason != "Aborted" {
		return ""
	}
	text := " by " + d.By
	if release != nil && release.Spec.Decision != nil && release.Spec.Decision.ID == d.ID && release.Spec.Decision.Reason != "" {
		text += fmt.Sprintf(": %q", release.Spec.Decision.Reason)
	}
	return text
}

// late returns the message about the expired timeout, with the state of the version.
func (q question) late(s snapshot, timeout time.Duration) string {
	text := fmt.Sprintf("%s is not %s after %s", q.version, q.state, timeout)
	if name, is := strings.CutPrefix(q.state, forStep); is {
		text = fmt.Sprintf("%s is not in step %s after %s", q.version, name, timeout)
	} else if q.state == forApproval {
		text = fmt.Sprintf("%s is not waiting for approval after %s", q.version, timeout)
	} else if q.state == forCanary {
		text = fmt.Sprintf("%s is not a canary after %s", q.version, timeout)
	}
	g, row := q.row(s)
	filtered, _ := s.filtered(q.version)
	switch {
	case row != nil:
		text = fmt.Sprintf("%s: its status is %s", text, row.Status)
		if s.outdated() {
			text += fmt.Sprintf(", and the manager has not observed the latest change to %s: %s", s.ms.Name, q.command(s.ms.Namespace, "doctor"))
		}
		if why := cmp.Or(s.unrouted(g), s.withoutPods(row)); row.Status == v1alpha1.ReleaseActive && why != "" {
			text += ", and the release " + why
		}
		why := ""
		if row.Status != v1alpha1.ReleaseActive {
			why = s.cause(row)
		}
		if g.Rollout != nil && g.Rollout.Release == row.VersionedMicroservice && g.Rollout.Step > 0 {
			progress, wait := q.step(s.ms, g, row)
			text += ", step " + progress
			if !strings.HasPrefix(why, wait) { // Otherwise, why begins with the same words.
				text += ", " + wait
			}
		}
		if why != "" {
			text += "; " + why
		}
	case s.offered(q.version):
		text += ": the version is offered, but has not started"
	case s.policy == nil:
		text += fmt.Sprintf(": ImagePolicy %s does not exist", s.ms.Spec.ImagePolicyRef.Name)
	case filtered != "":
		text += ": " + filtered
	case s.policy.Status.Latest == "":
		text += fmt.Sprintf(": ImagePolicy %s has not found the version, and offers no version", s.policy.Name)
	default:
		text += fmt.Sprintf(": ImagePolicy %s has not found the version; the latest version is %s", s.policy.Name, s.policy.Status.Latest)
	}
	if row == nil && s.policyOutdated() {
		text += fmt.Sprintf("; the manager has not observed the latest change to ImagePolicy %s: %s", s.policy.Name, q.command(s.ms.Namespace, "doctor"))
	}
	return text
}

// cause describes what blocks a release, as hlnr why does. The text is empty if the release's object contains no cause, or if the text
// about the current step already contains the cause.
func (s snapshot) cause(row *v1alpha1.Release) string {
	in := view.Input{Microservices: []v1alpha1.Microservice{*s.ms}, NetworkPolicies: s.routing}
	if s.policy != nil {
		in.ImagePolicies = []v1alpha1.ImagePolicy{*s.policy}
	}
	if s.release != nil {
		in.Releases = []v1alpha1.VersionedMicroservice{*s.release}
	}
	svc, _ := view.NewService(in, s.ms.Namespace, s.ms.Name, s.now)
	for _, g := range slices.Concat(svc.Groups, svc.Previews) {
		for _, r := range g.Releases {
			if r.Name != row.VersionedMicroservice {
				continue
			}
			if x := r.State; x.Detail != "" && x.Word != view.WordFrozen && x.Word != view.WordApproval && x.Word != view.WordPause {
				return strings.TrimPrefix(x.Sentence, x.StepText())
			}
		}
	}
	return ""
}

// replacement describes the release that a group runs instead of a superseded release.
func replacement(g *v1alpha1.ReleaseGroup) string {
	if g.Rollout != nil {
		for _, r := range g.Releases {
			if r.VersionedMicroservice == g.Rollout.Release {
				return r.SemVer.Version + " is being rolled out"
			}
		}
	}
	if g.Active != "" {
		return g.Active + " is active"
	}
	return "another release was selected"
}
