package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// NewService returns the view of one service, with its own API version, kind and time. It returns false if the input does not contain the service.
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
	out.State = s.mostUrgent(out)
	return out
}

// mostUrgent returns the state of a service. This is the state that needs the most attention: the state of the service
// itself, of a group, or of a preview.
func (s *service) mostUrgent(out Service) State {
	var states []State
	if own := s.problem(); own != nil {
		states = append(states, s.withSentence(*own))
	}
	for _, g := range slices.Concat(out.Groups, out.Previews) {
		states = append(states, g.State)
	}
	if own := s.waitsForStart(); own != nil {
		states = append(states, s.withSentence(*own))
	}
	if len(states) == 0 {
		return s.withSentence(s.empty())
	}
	best := 0
	for i := range states {
		if states[i].Class.rank() < states[best].Class.rank() {
			best = i
		}
	}
	return states[best]
}

// withSentence returns a state with its sentence.
func (s *service) withSentence(x State) State {
	x.Detail, x.Note, x.By = status.Line(x.Detail), status.Line(x.Note), status.Line(x.By)
	x.Sentence = x.sentence(s.now)
	return x
}

// reasonNotReconciled is the reason for the state of a service that the manager has not reconciled yet.
const reasonNotReconciled = "NotReconciled"

// empty returns the state of a service without groups.
func (s *service) empty() State {
	x := State{Word: WordEmpty, Class: Moving, Detail: "no version yet"}
	if len(s.ms.Status.Conditions) == 0 {
		x.Reason, x.Detail = reasonNotReconciled, "not reconciled yet"
		return x
	}
	o, ended := s.ms.NextOffered(s.image())
	ready := meta.FindStatusCondition(s.ms.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case o == nil:
	case ready != nil && ready.Reason == v1alpha1.ReasonStartDelayed:
		return State{Word: WordEmpty, Class: Moving, Reason: ready.Reason, Version: o.SemVer.Version, Detail: ready.Message}
	case ended:
		return State{Word: WordEmpty, Class: Waiting, Version: o.SemVer.Version, Detail: fmt.Sprintf("%s waits: spec.endedGroups names its group %s", status.Short(o.SemVer.Version), o.SemVer.Name), Next: []Action{s.act("end-group", s.ms.EndedGroup(o.SemVer.Name, o.Group, 0), "--undo")}}
	case s.ms.Spec.Paused:
		return State{Word: WordPaused, Class: Waiting, Version: o.SemVer.Version, Detail: status.Short(o.SemVer.Version) + " waits to start", Next: []Action{s.act("resume")}}
	}
	if d := s.discovery(); d != nil && !d.Ready && d.Message != "" {
		x.Class, x.Reason, x.Detail = Failed, d.Reason, "no version yet: "+d.Message
	}
	return x
}

// problem returns the state of the service itself if a user must change its specification, or if the service is blocked. Otherwise, it returns nil.
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

// PinOf returns the effective pin of a group, or nil if there is none. A pin that names the group takes
// precedence. A pin that does not name a group applies only to a group that has the version or release of the pin.
func PinOf(ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup, now time.Time) *Pin {
	m := ms.Spec.UpdateStrategy.Manual
	if m == nil {
		return nil
	}
	current := func(end *metav1.Time) bool { return end == nil || now.Before(end.Time) }
	for _, p := range m.Groups {
		if g.HasName(p.Name) && current(p.ExpireTime) {
			return &Pin{Group: p.Name, Version: p.Version, Release: p.Release, Until: metas(p.ExpireTime), Reason: p.Reason, By: p.Author.Of(p.Version + p.Release)}
		}
	}
	for _, r := range g.Releases {
		switch {
		case !current(m.ExpireTime):
		case m.Release != "" && m.Release == r.VersionedMicroservice:
			return &Pin{Release: m.Release, Until: metas(m.ExpireTime), Reason: m.Reason, By: m.Author.Of(m.Release)}
		case m.SemVer != nil && (m.SemVer.Name == "" || g.HasName(m.SemVer.Name)) && version.Names(m.SemVer.Version, r.SemVer.Version):
			return &Pin{Group: m.SemVer.Name, Version: m.SemVer.Version, Until: metas(m.ExpireTime), Reason: m.Reason, By: m.Author.Of(m.SemVer.Version)}
		}
	}
	return nil
}

// unpin returns the command that removes the pin of a group. The command contains the group if several groups are pinned.
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

// unpins returns the commands that remove the pins of groups whose active release is not the release that the pin selects.
func (s *service) unpins() (out []Action) {
	for i := range s.ms.Status.ReleaseGroups {
		g := &s.ms.Status.ReleaseGroups[i]
		active := g.ActiveRelease()
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
	out.State = s.withSentence(s.groupState(g, r))
	return out
}

// image returns the ImagePolicy of the service. It returns nil if the ImagePolicy does not exist or was not read.
func (s *service) image() *v1alpha1.ImagePolicy {
	return s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]
}

// releaseOf returns the view of a release.
func (s *service) releaseOf(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release, r *rollout) Release {
	o := s.release(row.VersionedMicroservice)
	out := Release{
		Name: row.VersionedMicroservice, Version: row.SemVer.Version, Status: string(row.Status), Reason: row.Reason,
		Since: micros(&row.LastTransitionTime), FirstActive: micros(row.FirstActiveTime), Share: s.share(g, row), Pods: s.podsOf(row, o),
		Retained: retained(row) && !isPreview(g), Attempts: row.Attempt, Analysis: s.analysis(o),
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
	out.State = s.withSentence(s.releaseState(g, row, r))
	return out
}

// releaseState returns the state of a release in a group.
func (s *service) releaseState(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release, r *rollout) (x State) {
	switch {
	case r != nil && r.row == row:
		x = r.state()
		x.Version, x.Release = "", ""
	case row.Status == v1alpha1.ReleaseActive:
		x = s.activeState(g, row)
	case row.Status == v1alpha1.ReleaseError:
		x = s.failure(g, row)
	case row == s.pausedReturn(g):
		x = State{Word: WordPaused, Class: Waiting, Detail: status.Short(row.SemVer.Version) + " waits to become active again", Next: []Action{s.act("resume")}}
	case s.frozenReturn(g, row) != "":
		c := frozenOf(s.ms)
		x = State{Word: WordFrozen, Class: Moving, Reason: c.Reason, Since: timeOf(c.LastTransitionTime.Time), Detail: s.frozenReturn(g, row), Next: []Action{s.act("rollback", "--to", s.nameOf(row))}}
	case retained(row) && g.Phase == v1alpha1.GroupLive && !isPreview(g):
		x = State{Word: WordRetained, Class: Stable, Since: micros(&row.LastTransitionTime), Next: []Action{s.act("rollback", "--to", s.nameOf(row))}}
		if g.Target.Reason == "Pinned" && row == s.newestReturn(g) && !s.startsNothing() {
			x.Next = []Action{s.unpin(g)} // Without the pin, the release would be active.
		}
		if Denied(s.image(), g, row.SemVer.Version) {
			x.Detail, x.Next = "its version is denied", nil
		}
	case g.End != nil && g.End.Release == row.VersionedMicroservice:
		x = s.endState(g)
	case row.Status == v1alpha1.ReleaseDeprecated && row.Reason == "Superseded":
		x = State{Word: WordSuperseded, Class: Stable, Since: micros(&row.LastTransitionTime)}
	case row.Status == v1alpha1.ReleaseDeprecated:
		x = State{Word: WordDraining, Class: Moving, Since: micros(&row.LastTransitionTime), Detail: s.activeJobs(g, row)}
	default:
		x = State{Word: WordEmpty, Class: Moving, Detail: string(row.Status)}
	}
	return x
}

// newestRetained returns the retained release of a group with the highest version, or nil. Releases are sorted by version.
func newestRetained(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	for i := range g.Releases {
		if r := &g.Releases[i]; retained(r) {
			return r
		}
	}
	return nil
}

// targetOf returns the version of a group's target, or the name of the target if no release in the group has that name.
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

// aboveActive reports whether a release comes before the active release in its group, whose releases are sorted by version.
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

// followers returns the CronJobs that follow the service, sorted by name.
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
