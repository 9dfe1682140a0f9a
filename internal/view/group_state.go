package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// groupState returns the state of a group. If none of the active release's pods is ready, this is the state of the active release. Otherwise,
// it is the state of the rollout in progress or, if there is none, of the failed release. If there is no failed release either, it is the state of
// the active release.
func (s *service) groupState(g *v1alpha1.ReleaseGroup, r *rollout) State {
	active := g.ActiveRelease()
	switch {
	case g.Phase == v1alpha1.GroupClosing, g.Phase == v1alpha1.GroupExpired && s.endHooks(g) != "":
		return s.endState(g)
	case g.Phase == v1alpha1.GroupExpired:
		return s.expired(g)
	case active != nil && s.down(active) && s.successor(g) == nil:
		return s.downState(g, active, r)
	case r != nil:
		return r.state()
	}
	if row := s.pausedReturn(g); row != nil {
		x := s.releaseState(g, row, nil)
		s.identify(&x, row)
		return x
	}
	if active != nil && pinnedTo(g, active) {
		x := s.activeInGroup(g, active)
		if x.Word == WordPinned {
			x.Detail = s.failedBehind(g)
		}
		return x
	}
	if failed := newestFailure(g); failed != nil {
		x := s.failure(g, failed)
		s.identify(&x, failed)
		return x
	}
	if active == nil {
		return s.withoutActive(g)
	}
	return s.activeInGroup(g, active)
}

// activeInGroup returns the state of the active release as the state of its group. If the release is not available, the state contains its
// version, because another group of the service may be available.
func (s *service) activeInGroup(g *v1alpha1.ReleaseGroup, active *v1alpha1.Release) State {
	x := s.activeState(g, active)
	if x.Class == Failed {
		s.identify(&x, active)
	}
	return x
}

// identify records the release that a state of a group or service is about.
func (s *service) identify(x *State, row *v1alpha1.Release) {
	x.Version = row.SemVer.Version
	if name := s.nameOf(row); name != x.Version {
		x.Release = name
	}
}

// downState returns the state of a group whose active release has no ready pod. The state also describes a rollout in progress.
func (s *service) downState(g *v1alpha1.ReleaseGroup, active *v1alpha1.Release, r *rollout) State {
	x := s.activeInGroup(g, active)
	if r == nil {
		return x
	}
	other := r.state()
	x.Detail += fmt.Sprintf("; %s is being rolled out: %s", status.Short(r.row.SemVer.Version), other.sentence(s.now))
	adopt := slices.ContainsFunc(x.Next, func(a Action) bool { return a.Verb == "adopt" })
	for _, a := range other.Next {
		if (a.Verb == "continue" || a.Verb == "resume") && !adopt {
			x.Next = append(x.Next, a)
		}
	}
	return x
}

// withoutActive returns the state of a group without an active release and without a rollout in progress.
func (s *service) withoutActive(g *v1alpha1.ReleaseGroup) State {
	x := State{Word: WordEmpty, Class: Moving, Detail: "no active release"}
	if c := meta.FindStatusCondition(s.ms.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse && namesGroup(c.Message, g.Name) {
		x.Reason, x.Detail = c.Reason, c.Message
	}
	return x
}

// namesGroup reports whether a message contains the word "group" followed by the name of a group, rather than by a longer name.
func namesGroup(message, name string) bool {
	const inNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/"
	for _, rest := range strings.Split(message, "group "+name)[1:] {
		rest = strings.TrimLeft(rest, ".") // a period at the end of a sentence, or in a longer name
		if rest == "" || !strings.ContainsRune(inNames, rune(rest[0])) {
			return true
		}
	}
	return false
}

// pinned returns the state of a group whose active release is pinned.
func (s *service) pinned(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) State {
	x := State{Word: WordPinned, Class: Stable, Since: micros(&row.LastTransitionTime), Next: []Action{s.unpin(g)}}
	s.identify(&x, row)
	x.Version = status.Short(x.Version)
	if p := PinOf(s.ms, g, s.now); p != nil {
		x.Until, x.Note, x.By = p.Until, p.Reason, p.By
	}
	return x
}

// failedBehind describes the release that failed most recently in a pinned group. It returns "" if none failed, or if a user aborted the release.
func (s *service) failedBehind(g *v1alpha1.ReleaseGroup) string {
	row := newestFailure(g)
	if row == nil {
		return ""
	}
	x := s.failure(g, row)
	if x.Class != Failed {
		return ""
	}
	return strings.TrimSuffix(status.Short(row.SemVer.Version)+" failed: "+cmp.Or(x.Detail, x.Reason), ": ")
}

// newestFailure returns the release that failed most recently, or nil.
func newestFailure(g *v1alpha1.ReleaseGroup) (out *v1alpha1.Release) {
	for i := range g.Releases {
		r := &g.Releases[i]
		if r.Status == v1alpha1.ReleaseError && (out == nil || r.LastTransitionTime.After(out.LastTransitionTime.Time)) {
			out = r
		}
	}
	return out
}

// activeState returns the state of the active release of a group.
func (s *service) activeState(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) State {
	x := State{Word: WordActive, Class: Stable, Since: micros(&row.LastTransitionTime)}
	if to := s.successor(g); to != nil {
		x.Class, x.Detail = Moving, fmt.Sprintf("its pods were stopped for %s, which is being rolled out", status.Short(to.SemVer.Version))
		if s.outage(g) {
			x.Class, x.Outage = Failed, true
		}
		return x
	}
	down, o := s.down(row), s.release(row.VersionedMicroservice)
	switch rep := s.unserved(g.Slug); {
	case down || !row.Available && !s.complete(row, o):
		x.Word, x.Class = WordUnavailable, Failed
		if p := s.podsOf(row, o); p != nil {
			x.Detail = fmt.Sprintf("%d of %d pods", p.Available, p.Wanted)
		}
		if o != nil && o.Status.Failure != "" {
			x.Reason, x.Detail = o.Status.Failure, cmp.Or(o.Status.Message, o.Status.Failure)
			x.Next = s.logs(row, o)
		}
		if down {
			x.Next = append(x.Next, s.replacements(g)...)
		}
	case rep != nil:
		x.Word, x.Class, x.Reason = WordUnavailable, Failed, rep.Reason
		x.Detail = rep.cause()
	case pinnedTo(g, row):
		return s.pinned(g, row)
	}
	if x.Word == WordUnavailable && pinnedTo(g, row) {
		x.Detail = strings.TrimPrefix(x.Detail+"; "+s.pinned(g, row).sentence(s.now), "; ")
	}
	return x
}

// successor returns the release that is to replace the active release of an exclusive group, if the pods of the active release were stopped for this
// purpose. It returns nil if the active release has pods or should have pods.
func (s *service) successor(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	active := g.ActiveRelease()
	if active == nil || active.Available {
		return nil
	}
	if o := s.release(active.VersionedMicroservice); o != nil && o.Spec.Replicas > 0 {
		return nil
	}
	return s.ms.Successor(g)
}

// outage reports whether an exclusive group has no serving pod because the pods of its active release were stopped for a successor. This is the case
// if the successor has failed, or has had no ready pod or no traffic for longer than recordLag. The same limit applies to active releases without a
// successor (see down).
func (s *service) outage(g *v1alpha1.ReleaseGroup) bool {
	to := s.successor(g)
	if to == nil {
		return false
	}
	o := s.release(to.VersionedMicroservice)
	if o == nil {
		return false
	}
	if p := s.podsOf(to, o); p == nil || p.Available > 0 && (to.Weight > 0 || len(s.policies) == 0) {
		return false
	}
	if f := o.Status.Failure; f != "" && f != v1alpha1.FailureOtherReleaseRunning {
		return true
	}
	since := availableOf(o)
	if active := s.release(g.ActiveRelease().VersionedMicroservice); active != nil {
		if c := availableOf(active); c != nil && (since == nil || c.LastTransitionTime.After(since.LastTransitionTime.Time)) {
			since = c
		}
	}
	return since != nil && s.now.Sub(since.LastTransitionTime.Time) > recordLag
}

// availableOf returns the Available condition of a release, or nil.
func availableOf(o *v1alpha1.VersionedMicroservice) *metav1.Condition {
	return meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionAvailable)
}

// replacements returns the actions that replace an active release without ready pods: adopt the release of the rollout in progress if its pods are
// ready, end the pause or the pin that prevents another release from becoming active, or roll back to a previously active release. During a pause or
// a freeze, only a pin makes a retained release active.
func (s *service) replacements(g *v1alpha1.ReleaseGroup) (out []Action) {
	r := s.rollout(g)
	if r != nil && r.available() && r.adoptable() {
		out = append(out, s.actOn("adopt", r.row))
	}
	if s.pausedReturn(g) != nil {
		out = append(out, s.act("resume"))
	}
	if row := s.newestReturn(g); row != nil && s.startsNothing() {
		out = append(out, s.act("rollback", "--to", s.nameOf(row)))
	}
	if active := g.ActiveRelease(); active != nil && pinnedTo(g, active) && !s.startsNothing() {
		out = append(out, s.unpin(g))
	}
	if g.Phase != v1alpha1.GroupLive || isPreview(g) {
		return out
	}
	for _, to := range targetsOf(g, s.image()) {
		if to.Last && to.Release != g.Target.Release && (r == nil || to.Release != r.run.release) {
			for i := range g.Releases {
				if row := &g.Releases[i]; row.VersionedMicroservice == to.Release {
					out = append(out, s.act("rollback", "--to", s.nameOf(row)))
				}
			}
		}
	}
	return out
}

// startsNothing reports whether a pause or a freeze applies. In that case, only pinned releases start or become active again.
func (s *service) startsNothing() bool { return s.ms.Spec.Paused || s.freezesDecisions() }

// newestReturn returns the retained release with the highest version if it is above the active release and a rollback to it is possible.
// Otherwise, it returns nil.
func (s *service) newestReturn(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	row := newestRetained(g)
	if row == nil || g.Phase != v1alpha1.GroupLive || isPreview(g) || !aboveActive(g, row) || pinnedTo(g, row) || Denied(s.image(), g, row.SemVer.Version) {
		return nil
	}
	return row
}

// pausedReturn returns the retained release to which a group would return if spec.paused were not set, or nil if there is none.
// A pause does not prevent the return to a pinned release, or the replacement of a denied release.
func (s *service) pausedReturn(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	if !s.ms.Spec.Paused || g.Target.Reason == "Pinned" || Denied(s.image(), g, g.Active) {
		return nil
	}
	for i := range g.Releases {
		if r := &g.Releases[i]; retained(r) && r.VersionedMicroservice == g.Target.Release {
			return r
		}
	}
	return nil
}

// HeldBy returns the failed release that prevents an exclusive group from starting an older offered version, or nil if there is none.
// Starting the older version would stop the pods of the active release again.
func HeldBy(ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup, offered string) *v1alpha1.Release {
	if !ms.Spec.Availability.Exclusive || isPreview(g) || g.Active == "" || g.Target.Reason != "Held" {
		return nil
	}
	for i := range g.Releases {
		if r := &g.Releases[i]; r.Status == v1alpha1.ReleaseError && r.RetryTime == nil && version.Compare(r.SemVer.Version, offered) > 0 {
			return r
		}
	}
	return nil
}

// retained reports whether a release was active and is retained for a rollback.
func retained(r *v1alpha1.Release) bool {
	return r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0
}

// complete reports whether all pods of a release are available. It uses the pods and the object of the release, which are more recent than the
// availability in the rollout state. Shortly after a promotion, or after the last pod became ready, the rollout state lags behind by a few seconds.
func (s *service) complete(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice) bool {
	if o == nil || o.Status.Failure != "" || o.Spec.Replicas == 0 {
		return false
	}
	p := s.podsOf(row, o)
	return p != nil && p.Available >= o.Spec.Replicas
}

// unserved returns one policy's report if none of the service's policies has programmed the group. It returns nil if a policy has
// programmed the group, or if there are no policies.
func (s *service) unserved(slug string) (out *report) {
	for _, rep := range s.reports(slug) {
		if rep.Revision > 0 && !rep.Unrouted {
			return nil
		}
		out = &rep
	}
	return out
}

// logs returns the command that shows the logs of a release. It returns nil if the release has no pods because its Deployment
// was rejected or has a name conflict.
func (s *service) logs(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice) []Action {
	switch o.Status.Failure {
	case v1alpha1.FailureInvalidTemplate, v1alpha1.FailureForbidden, v1alpha1.FailureNameConflict:
		if o.Status.Replicas == 0 {
			return nil
		}
	}
	return []Action{s.actOn("logs", row)}
}

// failure returns the state of a release with the status error.
func (s *service) failure(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) State {
	o := s.release(row.VersionedMicroservice)
	x := State{Word: WordFailed, Class: Failed, Reason: row.Reason, Since: micros(&row.LastTransitionTime)}
	if hadTraffic(row) {
		x.Word = WordRolledBack
	}
	if d := row.Decision; row.Reason == "Aborted" || row.Reason == "TurnedDown" {
		x.Word = WordAborted
		x.Class = Stable
		if d != nil && d.Action == v1alpha1.DecisionDeprecate {
			x.By, x.Note = d.By, reasonOf(o, d)
		}
	} else {
		x.Detail = s.cause(row, o)
	}
	if o != nil && o.Status.Failure != "" && o.Spec.Replicas > 0 {
		x.Next = append(x.Next, s.logs(row, o)...)
	}
	if Retryable(s.ms, s.image(), g, row) && (row.Promoted > 0 || !s.freezesDecisions()) {
		x.Next = append(x.Next, s.actOn("retry", row))
	}
	return x
}

// Retryable reports whether a failed release would be the target of its group if a user retried it. It applies the rules by which the planner
// chooses a target. If the policy is nil, no version counts as withdrawn. Retryable does not check whether the version is still offered with the same
// configuration, whether it failed in another Microservice, or whether the rollout in progress must finish first because the active release
// has no ready pod.
func Retryable(ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) bool {
	from := ""
	if g.Internal != nil {
		from = g.Internal.ResolvedFrom
	}
	switch {
	case g.Target.Release == row.VersionedMicroservice:
		return true
	case g.Target.Reason == "Pinned":
		return false
	case from != "": // The pinned release failed.
		return pinnedFailure(g, from) == row.VersionedMicroservice
	}
	switch g.Target.Reason {
	case "PinnedVersionMissing", "PinsConflict", "GroupExcluded", "FinishFirst":
		return false
	case "PinnedReleaseFailed":
		return true // The status does not show which release is pinned.
	}
	if Withdrawn(policy, g, row.SemVer.Version) {
		return false
	}
	if isPreview(g) { // Commits have no order, so only the head commit can start.
		return g.Head == "" || g.Head == row.SemVer.Version
	}
	return !passedOver(ms, policy, g, row)
}

// passedOver reports whether a retry of a failed release would not make it the target of its group, because another release takes precedence, or
// because its version is below the active version or, in an exclusive group, below another failed version. The group must not be pinned.
func passedOver(ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) bool {
	active := g.ActiveRelease()
	if finishesFirst(ms, policy, g) {
		return true
	}
	free := active != nil && Withdrawn(policy, g, active.SemVer.Version)
	if active != nil && !free && version.Compare(row.SemVer.Version, active.SemVer.Version) < 0 {
		return true
	}
	denied := active != nil && Denied(policy, g, active.SemVer.Version)
	stopped := ms.Spec.Paused || frozenOf(ms) != nil
	for i := range g.Releases {
		r := &g.Releases[i]
		above := version.Compare(r.SemVer.Version, row.SemVer.Version)
		switch {
		case r.VersionedMicroservice == row.VersionedMicroservice || Withdrawn(policy, g, r.SemVer.Version) && r != active:
			continue
		case r.VersionedMicroservice == g.Target.Release && g.Target.Reason != "Held" && above >= 0:
			return true
		case free && retained(r) && (above == 0 || denied && stopped):
			return true // The retained release becomes active again instead.
		case ms.Spec.Availability.Exclusive && active != nil && !denied && above > 0 && r.Status == v1alpha1.ReleaseError && r.RetryTime == nil:
			return true // An exclusive group does not try versions below a failed version.
		}
	}
	return false
}

// finishesFirst reports whether the rollout in progress must finish before a newer release of its group starts. It returns false if the pods
// of the rollout are not available, because such a rollout may be past its deadline.
func finishesFirst(ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, g *v1alpha1.ReleaseGroup) bool {
	run := g.Rollout
	if run == nil || run.Release != g.Target.Release || run.WaitsFor != "" || run.Gate == v1alpha1.GateTogether || run.Gate == v1alpha1.GateConfirmRollout {
		return false
	}
	steps := 0
	if c := ms.Spec.UpdateStrategy.Canary; c != nil {
		steps = len(c.Steps)
	}
	last := run.Step > 0 && int(run.Step) >= steps
	if !last && (g.Internal == nil || g.Internal.Superseded < release.MaxSuperseded) {
		return false
	}
	return slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool {
		return r.VersionedMicroservice == run.Release && r.Available && r.RetryTime == nil && !Withdrawn(policy, g, r.SemVer.Version)
	})
}

// pinnedFailure returns the name of the failed release that a pin selects. The from parameter describes the pin in
// the format of ResolvedFrom in the status: a release, or a version and the current configuration.
func pinnedFailure(g *v1alpha1.ReleaseGroup, from string) string {
	if name, is := strings.CutPrefix(from, "release/"); is {
		return name
	}
	pin, config, _ := strings.Cut(from, "@")
	wanted, which, _ := strings.Cut(pin, "/")
	var lastActive, current, other *v1alpha1.Release
	for i := range g.Releases {
		switch r := &g.Releases[i]; {
		case r.SemVer.Version != wanted || which == "current" && r.Config != config:
		case r.Promoted > 0 && (lastActive == nil || r.Promoted > lastActive.Promoted):
			lastActive = r
		case r.Promoted == 0 && r.Config == config && current == nil:
			current = r
		case r.Promoted == 0 && other == nil:
			other = r
		}
	}
	if which == "current" {
		lastActive, current = current, lastActive
	}
	if r := cmp.Or(lastActive, current, other); r != nil {
		return r.VersionedMicroservice
	}
	return ""
}

// cause returns the description of a failure: the failed metrics, the message of the object, the answer of the hook, or the reason.
func (s *service) cause(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice) string {
	if row.Reason == "AnalysisFailed" {
		if a := s.analysis(o); a != nil {
			text := cmp.Or(strings.Join(a.metrics(true), ", "), a.Message)
			if c := s.ms.Spec.UpdateStrategy.Canary; c != nil && a.Step >= 1 && int(a.Step) <= len(c.Steps) && text != "" {
				text += fmt.Sprintf(" at %d%%", c.Steps[a.Step-1].Weight)
			}
			return cmp.Or(text, row.Reason)
		}
	}
	if o != nil && o.Status.Message != "" {
		return o.Status.Message
	}
	if o != nil {
		for _, h := range o.Status.Hooks {
			if row.Reason == "HookFailed" && h.Phase == v1alpha1.HookFailed || row.Reason == "RollbackRequested" && h.Type == v1alpha1.HookRollback && h.Phase == v1alpha1.HookOpen {
				return fmt.Sprintf("hook %s: %s", h.Name, cmp.Or(h.Message, row.Reason))
			}
		}
	}
	return row.Reason
}

// reasonOf returns the reason that a user gave for a decision if the object still contains that decision.
func reasonOf(o *v1alpha1.VersionedMicroservice, d *v1alpha1.HandledDecision) string {
	if o == nil || o.Spec.Decision == nil || d == nil || o.Spec.Decision.ID != d.ID {
		return ""
	}
	return o.Spec.Decision.Reason
}
