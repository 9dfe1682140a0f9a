package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// New returns the board of all services at a time, in the time zone of now.
func New(in Input, now time.Time) Board {
	x := newIndex(in, now)
	b := Board{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindBoard}, Time: metav1.Time{Time: now.UTC()}, Services: make([]Service, 0, len(in.Microservices))}
	for i := range in.Microservices {
		b.Services = append(b.Services, x.service(&in.Microservices[i]).view())
	}
	slices.SortFunc(b.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.State.Class.rank(), b.State.Class.rank()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	b.count()
	b.Freezes, b.Notifications = x.frozen.board(x.Input, x.Program, now), notificationProblems(in.Notifications)
	return b
}

// notificationProblems returns the policies whose condition Ready is False, by namespace and name.
func notificationProblems(policies []v1alpha1.NotificationPolicy) (out []NotificationProblem) {
	for i := range policies {
		p := &policies[i]
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
			out = append(out, NotificationProblem{Namespace: p.Namespace, Name: p.Name, Reason: c.Reason, Message: status.LineOf(c.Message, 1024), Since: timeOf(c.LastTransitionTime.Time)})
		}
	}
	slices.SortFunc(out, func(a, b NotificationProblem) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// NewService returns one service as a separate object, and false if the input does not contain it.
func NewService(in Input, namespace, name string, now time.Time) (Service, bool) {
	x := newIndex(in, now)
	for i := range in.Microservices {
		if ms := &in.Microservices[i]; ms.Namespace == namespace && ms.Name == name {
			out := x.service(ms).view()
			out.TypeMeta = metav1.TypeMeta{APIVersion: APIVersion, Kind: KindService}
			out.Time = timeOf(now)
			return out, true
		}
	}
	return Service{}, false
}

// rank returns the order of a class; unknown ones come last.
func (c Class) rank() int {
	if i := slices.Index([]Class{Waiting, Failed, Moving, Stable}, c); i >= 0 {
		return i
	}
	return 4
}

// view returns the view of a service.
func (s *service) view() Service {
	ms := s.ms
	out := Service{Namespace: ms.Namespace, Name: ms.Name, Paused: ms.Spec.Paused, Pins: pinsOf(ms, s.now), Freezes: s.freezesOf(), Followers: s.followers(), Problems: s.problems(), Discovery: s.discovery()}
	for i := range ms.Status.ReleaseGroups {
		g := s.group(&ms.Status.ReleaseGroups[i])
		if g.PullRequest != nil {
			out.Previews = append(out.Previews, g)
			continue
		}
		out.Groups = append(out.Groups, g)
	}
	out.Previews = append(out.Previews, s.unapproved(out.Previews)...)
	slices.SortStableFunc(out.Previews, func(a, b Group) int { return cmp.Compare(b.PullRequest.Number, a.PullRequest.Number) })
	out.State = s.gravest(out)
	return out
}

// gravest returns the state of a service: its own problem, or the state of the group or preview that needs most attention.
func (s *service) gravest(out Service) State {
	var states []State
	if own := s.problem(); own != nil {
		states = append(states, s.said(*own))
	}
	for _, g := range slices.Concat(out.Groups, out.Previews) {
		states = append(states, g.State)
	}
	if own := s.waitsForStart(); own != nil {
		states = append(states, s.said(*own))
	}
	if len(states) == 0 {
		return s.said(s.empty())
	}
	best := 0
	for i := range states {
		if states[i].Class.rank() < states[best].Class.rank() {
			best = i
		}
	}
	return states[best]
}

// said returns a state with its sentence.
func (s *service) said(x State) State {
	x.Detail, x.Note, x.By = status.Line(x.Detail), status.Line(x.Note), status.Line(x.By)
	x.Sentence = x.say(s.now)
	return x
}

// reasonNotReconciled is the reason of the state of a service that the manager has not seen yet.
const reasonNotReconciled = "NotReconciled"

// empty returns the state of a service without groups.
func (s *service) empty() State {
	x := State{Word: WordEmpty, Class: Moving, Detail: "no version yet"}
	if len(s.ms.Status.Conditions) == 0 {
		x.Reason, x.Detail = reasonNotReconciled, "not reconciled yet"
		return x
	}
	if d := s.discovery(); d != nil && !d.Ready && d.Message != "" {
		x.Class, x.Reason, x.Detail = Failed, d.Reason, "no version yet: "+d.Message
	}
	return x
}

// problem returns the state of the service itself, or nil: what a user must change in its specification, or what blocks it.
func (s *service) problem() *State {
	conds := s.ms.Status.Conditions
	if c := meta.FindStatusCondition(conds, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue && c.Reason != "ReleaseFailed" {
		x := &State{Word: WordProblem, Class: Failed, Reason: c.Reason, Detail: c.Message, Since: timeOf(c.LastTransitionTime.Time)}
		if strings.HasPrefix(c.Reason, "Pin") {
			x.Next = s.unpins()
		}
		return x
	}
	if c := meta.FindStatusCondition(conds, v1alpha1.ConditionPinned); c != nil && c.Status == metav1.ConditionFalse {
		return &State{Word: WordProblem, Class: Failed, Reason: c.Reason, Detail: c.Message, Since: timeOf(c.LastTransitionTime.Time), Next: s.unpins()}
	}
	c := meta.FindStatusCondition(conds, v1alpha1.ConditionBlocked)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason == "Blocked" || c.Reason == "TogetherHeld" || c.Reason == "FinishFirst" {
		return nil
	}
	return &State{Word: WordProblem, Class: Failed, Reason: c.Reason, Detail: c.Message, Since: timeOf(c.LastTransitionTime.Time)}
}

// problems returns the conditions of a service that need attention.
func (s *service) problems() (out []Problem) {
	kinds := []string{v1alpha1.ConditionStalled, v1alpha1.ConditionBlocked, v1alpha1.ConditionFrozen, v1alpha1.ConditionTrafficDegraded, v1alpha1.ConditionAnalysisInconclusive, v1alpha1.ConditionConfigurationLost, v1alpha1.ConditionReleaseFailed}
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(s.ms.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			out = append(out, problemOf("Microservice/"+s.ms.Name, c))
		}
	}
	for _, kind := range []string{v1alpha1.ConditionPinned, v1alpha1.ConditionDeploymentAdopted} {
		if c := meta.FindStatusCondition(s.ms.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			out = append(out, problemOf("Microservice/"+s.ms.Name, c))
		}
	}
	for _, p := range s.policies {
		for _, c := range p.Status.Conditions {
			bad := slices.Contains([]string{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed}, c.Type) && c.Status == metav1.ConditionFalse ||
				slices.Contains([]string{v1alpha1.ConditionNameConflict, v1alpha1.ConditionCanaryUnmatched, v1alpha1.ConditionSettingsNotApplied, v1alpha1.ConditionDomainShared}, c.Type) && c.Status == metav1.ConditionTrue
			if bad {
				out = append(out, problemOf("NetworkPolicy/"+p.Name, &c))
			}
		}
	}
	return out
}

func problemOf(object string, c *metav1.Condition) Problem {
	return Problem{Object: object, Condition: c.Type, Reason: c.Reason, Message: status.Line(c.Message), Since: timeOf(c.LastTransitionTime.Time)}
}

// pinsOf returns the pins of a service that have not expired.
func pinsOf(ms *v1alpha1.Microservice, now time.Time) (out []Pin) {
	m := ms.Spec.UpdateStrategy.Manual
	if m == nil {
		return nil
	}
	add := func(p Pin) {
		if p.Until == nil || p.Until.After(now) {
			out = append(out, p)
		}
	}
	if m.SemVer != nil {
		add(Pin{Group: m.SemVer.Name, Version: m.SemVer.Version, Until: metas(m.ExpireTime), Reason: m.Reason, By: m.Author.Of(m.SemVer.Version)})
	}
	if m.Release != "" {
		add(Pin{Release: m.Release, Until: metas(m.ExpireTime), Reason: m.Reason, By: m.Author.Of(m.Release)})
	}
	for _, g := range m.Groups {
		add(Pin{Group: g.Name, Version: g.Version, Release: g.Release, Until: metas(g.ExpireTime), Reason: g.Reason, By: g.Author.Of(g.Version + g.Release)})
	}
	return out
}

// PinOf returns the pin that a group has now: the one by its name, else the one for any group, if the group has its version or release;
// nil if there is none.
func PinOf(ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup, now time.Time) *Pin {
	m := ms.Spec.UpdateStrategy.Manual
	if m == nil {
		return nil
	}
	named := func(name string) bool {
		return name == g.Name || name == g.Slug || g.PullRequest > 0 && name == strconv.FormatInt(g.PullRequest, 10)
	}
	current := func(end *metav1.Time) bool { return end == nil || now.Before(end.Time) }
	for _, p := range m.Groups {
		if named(p.Name) && current(p.ExpireTime) {
			return &Pin{Group: p.Name, Version: p.Version, Release: p.Release, Until: metas(p.ExpireTime), Reason: p.Reason, By: p.Author.Of(p.Version + p.Release)}
		}
	}
	for _, r := range g.Releases {
		switch {
		case !current(m.ExpireTime):
		case m.Release != "" && m.Release == r.VersionedMicroservice:
			return &Pin{Release: m.Release, Until: metas(m.ExpireTime), Reason: m.Reason, By: m.Author.Of(m.Release)}
		case m.SemVer != nil && (m.SemVer.Name == "" || named(m.SemVer.Name)) && version.Names(m.SemVer.Version, r.SemVer.Version):
			return &Pin{Group: m.SemVer.Name, Version: m.SemVer.Version, Until: metas(m.ExpireTime), Reason: m.Reason, By: m.Author.Of(m.SemVer.Version)}
		}
	}
	return nil
}

// unpin returns the command that removes the pin of a group, which it names if several groups are pinned.
func (s *service) unpin(g *v1alpha1.ReleaseGroup) Action {
	pinned := 0
	for i := range s.ms.Status.ReleaseGroups {
		if PinOf(s.ms, &s.ms.Status.ReleaseGroups[i], s.now) != nil {
			pinned++
		}
	}
	a := s.act("unpin")
	if pinned > 1 {
		a.Group = g.Name
		a.Command += " --group " + g.Name
	}
	return a
}

// unpins returns the commands that remove the pins of groups which are not at the release that their pin selects.
func (s *service) unpins() (out []Action) {
	for i := range s.ms.Status.ReleaseGroups {
		g := &s.ms.Status.ReleaseGroups[i]
		active := activeOf(g)
		if PinOf(s.ms, g, s.now) != nil && (active == nil || !pinnedTo(g, active)) {
			out = append(out, s.unpin(g))
		}
	}
	return out
}

// group returns the view of a group.
func (s *service) group(g *v1alpha1.ReleaseGroup) Group {
	out := Group{Name: cmp.Or(g.Name, g.Slug), Slug: g.Slug, Phase: string(g.Phase), Hosts: s.hosts(g)}
	if isPreview(g) {
		out.PullRequest = s.pullRequest(g)
	}
	r := s.rollout(g)
	for i := range g.Releases {
		row := &g.Releases[i]
		switch {
		case row.Status == v1alpha1.ReleaseActive:
			out.Active = status.Short(row.SemVer.Version)
		case r != nil && r.row == row:
			out.Canary = status.Short(row.SemVer.Version)
			if row.Status == v1alpha1.ReleaseCanary {
				out.CanaryWeight = &row.Weight
			}
		}
		out.Releases = append(out.Releases, s.releaseOf(g, row, r))
	}
	out.State = s.said(s.groupState(g, r))
	return out
}

// groupState returns the state of a group: of the active release if none of its pods is ready, else of the rollout in progress,
// else of the failed release, else of the active one.
func (s *service) groupState(g *v1alpha1.ReleaseGroup, r *rollout) State {
	active := activeOf(g)
	switch {
	case g.Phase == v1alpha1.GroupClosing:
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
		x.Version = row.SemVer.Version
		return x
	}
	if active != nil && pinnedTo(g, active) {
		x := s.activeState(g, active)
		if x.Word == WordPinned {
			x.Detail = s.failedBehind(g)
		}
		return x
	}
	if failed := newestFailure(g); failed != nil {
		x := s.failure(g, failed)
		x.Version = failed.SemVer.Version
		return x
	}
	if active == nil {
		return s.withoutActive(g)
	}
	return s.activeState(g, active)
}

// activeOf returns the active release of a group, or nil.
func activeOf(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	for i := range g.Releases {
		if r := &g.Releases[i]; r.Status == v1alpha1.ReleaseActive {
			return r
		}
	}
	return nil
}

// downState returns the state of a group whose active release has no ready pod, with what a rollout in progress waits for.
func (s *service) downState(g *v1alpha1.ReleaseGroup, active *v1alpha1.Release, r *rollout) State {
	x := s.activeState(g, active)
	x.Version = active.SemVer.Version
	if r == nil {
		return x
	}
	other := r.state()
	x.Detail += fmt.Sprintf("; %s is being rolled out: %s", status.Short(r.row.SemVer.Version), other.say(s.now))
	adopt := slices.ContainsFunc(x.Next, func(a Action) bool { return a.Verb == "adopt" })
	for _, a := range other.Next {
		if (a.Verb == "continue" || a.Verb == "resume") && !adopt {
			x.Next = append(x.Next, a)
		}
	}
	return x
}

// withoutActive returns the state of a group with neither an active release nor one in progress.
func (s *service) withoutActive(g *v1alpha1.ReleaseGroup) State {
	x := State{Word: WordEmpty, Class: Moving, Detail: "no active release"}
	if c := meta.FindStatusCondition(s.ms.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "group "+g.Name+" ") {
		x.Reason, x.Detail = c.Reason, c.Message
	}
	return x
}

// pinned returns the state of a group whose active release is pinned.
func (s *service) pinned(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) State {
	x := State{Word: WordPinned, Class: Stable, Version: status.Short(row.SemVer.Version), Since: micros(&row.LastTransitionTime), Next: []Action{s.unpin(g)}}
	if p := PinOf(s.ms, g, s.now); p != nil {
		x.Until, x.Note, x.By = p.Until, p.Reason, p.By
	}
	return x
}

// failedBehind describes the release that failed most recently in a pinned group; "" if none did, or a user aborted it.
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
		x.Class, x.Detail = Moving, fmt.Sprintf("its pods ended for %s, which is being rolled out", status.Short(to.SemVer.Version))
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
			x.Next = []Action{s.actOn("logs", row)}
		}
		if pinnedTo(g, row) {
			x.Detail = strings.TrimPrefix(x.Detail+"; "+s.pinned(g, row).say(s.now), "; ")
		}
		if down {
			x.Next = append(x.Next, s.replacements(g)...)
		}
	case pinnedTo(g, row):
		return s.pinned(g, row)
	case rep != nil:
		x.Word, x.Class, x.Reason = WordUnavailable, Failed, rep.Reason
		x.Detail = "networkpolicy " + rep.policy.Name + ": " + cmp.Or(rep.Message, rep.Reason, "not programmed")
	}
	return x
}

// successor returns the release for which the pods of the active release of an exclusive group ended; nil if it has pods, or is to have some.
func (s *service) successor(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	active := activeOf(g)
	if active == nil || active.Available {
		return nil
	}
	if o := s.release(active.VersionedMicroservice); o != nil && o.Spec.Replicas > 0 {
		return nil
	}
	return s.ms.Successor(g)
}

// replacements returns what gives a group whose active release has no ready pod another release: to adopt the release of the rollout in
// progress, whose pods are ready, to end the pause or the pin that keeps another release from being active, and to roll back to the
// release that was active last.
func (s *service) replacements(g *v1alpha1.ReleaseGroup) (out []Action) {
	r := s.rollout(g)
	if r != nil && r.row.Promoted == 0 && r.available() && !r.signed() && len(s.frozen.of(s.ms)) == 0 && frozenOf(s.ms) == nil { // A freeze rejects other decisions (protocol rule 45).
		out = append(out, s.actOn("adopt", r.row))
	}
	if s.pausedReturn(g) != nil {
		out = append(out, s.act("resume"))
	}
	if active := activeOf(g); active != nil && pinnedTo(g, active) {
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

// image returns the ImagePolicy of the service; nil if it does not exist, or was not read.
func (s *service) image() *v1alpha1.ImagePolicy {
	return s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]
}

// pausedReturn returns the retained release to which a group would return, and for which spec.paused waits; nil if there is none. A pause
// does not stop the return to a pinned release, or from a denied one.
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

// retained reports whether a release was active, and is retained for a rollback.
func retained(r *v1alpha1.Release) bool {
	return r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0
}

// complete reports whether all pods of a release are available by newer facts than its recorded availability: right after a
// promotion, and when the last pod became ready, the record is some seconds old.
func (s *service) complete(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice) bool {
	if o == nil || o.Status.Failure != "" || o.Spec.Replicas == 0 {
		return false
	}
	p := s.podsOf(row, o)
	return p != nil && p.Available >= o.Spec.Replicas
}

// unserved returns the report of a policy if none of the service's policies has programmed the group; nil if one has, or there
// are none.
func (s *service) unserved(slug string) (out *report) {
	for _, rep := range s.reports(slug) {
		if rep.Revision > 0 && !rep.Unrouted {
			return nil
		}
		out = &rep
	}
	return out
}

// failure returns the state of a release in error.
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
		x.Next = append(x.Next, s.actOn("logs", row))
	}
	if Retryable(g, row) && (row.Promoted > 0 || len(s.frozen.of(s.ms)) == 0 && frozenOf(s.ms) == nil) { // A freeze rejects other decisions (protocol rule 45).
		x.Next = append(x.Next, s.actOn("retry", row))
	}
	return x
}

// Retryable reports whether a failed release would be the target of its group if it were tried again: the group is not pinned to
// another release, and none above it is active or being rolled out. The planner rejects a Retry otherwise.
func Retryable(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) bool {
	if g.Target.Reason == "Pinned" {
		return g.Target.Release == row.VersionedMicroservice
	}
	for i := range g.Releases { // sorted by version
		switch r := &g.Releases[i]; {
		case r.VersionedMicroservice == row.VersionedMicroservice:
			return true
		case r.Status == v1alpha1.ReleaseActive || r.VersionedMicroservice == g.Target.Release:
			return isPreview(g) // commits have no order
		}
	}
	return true
}

// cause describes a failure: by the failed metrics, by the report of the object, or by the reason.
func (s *service) cause(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice) string {
	if row.Reason == "AnalysisFailed" {
		if a := s.analysis(o); a != nil {
			text := cmp.Or(strings.Join(a.metrics(true), ", "), a.Message)
			if c := s.ms.Spec.UpdateStrategy.Canary; c != nil && a.Step >= 1 && int(a.Step) <= len(c.Steps) && text != "" {
				text += fmt.Sprintf(" at %d %%", c.Steps[a.Step-1].Weight)
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

// reasonOf returns the reason that a user gave for a decision, if the object still has that decision.
func reasonOf(o *v1alpha1.VersionedMicroservice, d *v1alpha1.HandledDecision) string {
	if o == nil || o.Spec.Decision == nil || d == nil || o.Spec.Decision.ID != d.ID {
		return ""
	}
	return o.Spec.Decision.Reason
}

// releaseOf returns the view of a release.
func (s *service) releaseOf(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release, r *rollout) Release {
	o := s.release(row.VersionedMicroservice)
	out := Release{
		Name: row.VersionedMicroservice, Version: row.SemVer.Version, Status: string(row.Status), Reason: row.Reason,
		Since: micros(&row.LastTransitionTime), FirstActive: micros(row.FirstActiveTime), Share: s.share(g, row), Pods: s.podsOf(row, o),
		Retained: retained(row), Attempts: row.Attempt, Analysis: s.analysis(o),
	}
	if d := row.Decision; d != nil {
		out.Decision = &Decision{Action: string(d.Action), By: d.By, Time: metav1.Time{Time: d.Time.UTC()}, Reason: reasonOf(o, d), Outcome: d.Outcome}
	}
	if o != nil {
		out.Created, out.Commit = timeOf(o.CreationTimestamp.Time), o.Annotations[v1alpha1.AnnotationCommit]
		out.Failure, out.Message = o.Status.Failure, status.Line(o.Status.Message)
		for _, image := range o.Spec.Images {
			out.Images = append(out.Images, image.Image)
		}
	}
	if r != nil && r.row == row {
		out.Rollout = r.progress()
	}
	out.State = s.said(s.releaseState(g, row, r))
	return out
}

// releaseState returns the state of a release of a group.
func (s *service) releaseState(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release, r *rollout) (x State) {
	switch {
	case r != nil && r.row == row:
		x = r.state()
		x.Version = ""
	case row.Status == v1alpha1.ReleaseActive:
		x = s.activeState(g, row)
	case row.Status == v1alpha1.ReleaseError:
		x = s.failure(g, row)
	case row == s.pausedReturn(g):
		x = State{Word: WordPaused, Class: Waiting, Detail: status.Short(row.SemVer.Version) + " waits before it returns", Next: []Action{s.act("resume")}}
	case retained(row) && g.Phase == v1alpha1.GroupLive:
		x = State{Word: WordRetained, Class: Stable, Since: micros(&row.LastTransitionTime), Next: []Action{s.act("rollback", "--to", s.nameOf(row))}}
		if g.Target.Reason == "Pinned" && aboveActive(g, row) && row == newestRetained(g) {
			x.Next = []Action{s.unpin(g)} // Without the pin it would be active.
		}
		if Denied(s.image(), g, row.SemVer.Version) {
			x.Detail, x.Next = "its version is denied", nil
		}
	case g.End != nil && g.End.Release == row.VersionedMicroservice:
		x = s.endState(g)
	case row.Status == v1alpha1.ReleaseDeprecated && row.Reason == "Superseded":
		x = State{Word: WordSuperseded, Class: Stable, Since: micros(&row.LastTransitionTime)}
	case row.Status == v1alpha1.ReleaseDeprecated:
		x = State{Word: WordDraining, Class: Moving, Since: micros(&row.LastTransitionTime)}
	default:
		x = State{Word: WordEmpty, Class: Moving, Detail: string(row.Status)}
	}
	return x
}

// newestRetained returns the retained release of a group with the highest version, or nil; releases are sorted by version.
func newestRetained(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	for i := range g.Releases {
		if r := &g.Releases[i]; retained(r) {
			return r
		}
	}
	return nil
}

// targetOf returns the version of the target of a group, or its name if no release has that version.
func targetOf(g *v1alpha1.ReleaseGroup) string {
	for i := range g.Releases {
		if r := &g.Releases[i]; r.VersionedMicroservice == g.Target.Release {
			return status.Short(r.SemVer.Version)
		}
	}
	return g.Target.Release
}

// pinnedTo reports whether a group is pinned to a release.
func pinnedTo(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) bool {
	return g.Target.Reason == "Pinned" && g.Target.Release == row.VersionedMicroservice
}

// aboveActive reports whether a release precedes the active one of its group, whose releases are sorted by version.
func aboveActive(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) bool {
	for i := range g.Releases {
		switch r := &g.Releases[i]; {
		case r.VersionedMicroservice == row.VersionedMicroservice:
			return true
		case r.Status == v1alpha1.ReleaseActive:
			return false
		}
	}
	return false
}

// Only returns the board of the services with these names, or of all if there are no names.
func (b Board) Only(names []string) Board {
	if len(names) == 0 {
		return b
	}
	b.Services = slices.DeleteFunc(slices.Clone(b.Services), func(s Service) bool { return !slices.Contains(names, s.Name) })
	b.count()
	return b
}

// Where returns the board of the services for which chosen returns true.
func (b Board) Where(chosen func(Service) bool) Board {
	out := b
	out.Services = make([]Service, 0, len(b.Services))
	for _, s := range b.Services {
		if chosen(s) {
			out.Services = append(out.Services, s)
		}
	}
	out.count()
	return out
}

// Of returns the board of the services whose state, or that of a group or preview, is in one of the classes; without classes, of
// all services. A pinned group in which a release failed is among the failed ones too. The counts remain those of all services.
func (b Board) Of(classes []Class) Board {
	if len(classes) == 0 {
		return b
	}
	b.Services = slices.DeleteFunc(slices.Clone(b.Services), func(s Service) bool { return !s.Is(classes...) })
	return b
}

// Is reports whether the service or one of its groups has one of the classes.
func (s *Service) Is(classes ...Class) bool {
	of := func(g Group) bool {
		return slices.Contains(classes, g.State.Class) || slices.Contains(classes, Failed) && g.State.Word == WordPinned && g.State.Detail != ""
	}
	return slices.Contains(classes, s.State.Class) || slices.ContainsFunc(s.Groups, of) || slices.ContainsFunc(s.Previews, of)
}

// count counts the services by class.
func (b *Board) count() {
	b.Counts = Counts{Services: len(b.Services)}
	for i := range b.Services {
		switch s := b.Services[i].State; {
		case s.Reason == reasonNotReconciled:
			b.Counts.Unreconciled++
		case s.Class == Waiting:
			b.Counts.Waiting++
		case s.Class == Failed:
			b.Counts.Failed++
		case s.Class == Moving:
			b.Counts.Moving++
		}
	}
}

// followers returns the CronJobs that follow the service, by name.
func (s *service) followers() (out []Follower) {
	for i := range s.CronJobs {
		job := &s.CronJobs[i]
		if job.Namespace != s.ms.Namespace || job.Labels[v1alpha1.LabelFollow] != s.ms.Name {
			continue
		}
		f := Follower{
			Name: job.Name, Release: job.Annotations[v1alpha1.AnnotationFollows], Message: status.Line(job.Annotations[v1alpha1.AnnotationFollowMessage]),
			Suspended: job.Spec.Suspend != nil && *job.Spec.Suspend,
		}
		if r := s.index.releases[key(job.Namespace, f.Release)]; r != nil {
			f.Version = r.Spec.SemVer.Version
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Follower) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
