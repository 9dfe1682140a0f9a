package release

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/version"
)

// Status is the status of a release.
type Status string

// The statuses. Active, canary, error and deprecated come from the original design. Pending is the status of a
// release that has not begun its first step yet.
const (
	Pending    Status = "pending"
	Canary     Status = "canary"
	Active     Status = "active"
	Error      Status = "error"
	Deprecated Status = "deprecated"
)

// Phase is the phase of a group.
type Phase string

// The phases of a group.
const (
	Live    Phase = "Live"
	Closing Phase = "Closing"
	// Expired is the phase of a preview that has no releases although its pull request is open (rule
	// 26).
	Expired Phase = "Expired"
)

// preview is the level of groups that belong to pull requests: previews skip the canary steps
// and keep one release (rule 25).
const preview = "Preview"

// State is the persisted rollout state of a Microservice.
type State struct {
	// Sequence increases with every write.
	Sequence int64
	// Groups are sorted by version, newest first. Previews follow all other groups.
	Groups []Group
}

// Group is a release group, which consists of versions that replace each other.
type Group struct {
	Slug, Name, Level string
	// PullRequest is the number of the group's pull request. 0 means that the group is not a preview.
	PullRequest int64
	// Head is the most recently offered commit of the pull request. HeadTime is when the commit was pushed or, if
	// that time is unknown, when the commit was first seen.
	Head     string
	HeadTime time.Time
	Phase    Phase
	Target   Target
	// TrafficRevision is the sequence number of the latest write that changed the required content of the
	// routes, and TrafficTime is the time of that write (rule 1).
	TrafficRevision int64
	TrafficTime     time.Time
	// SettledRevision is a traffic revision that was still unconfirmed when the deadline passed in a stable group.
	// Policies that have not confirmed this revision do not block a rollout (rule 10).
	SettledRevision int64
	// Superseded is the number of releases that have been superseded since the last promotion (rule 28).
	Superseded int
	// LastSuperseded is the latest release that one plan both superseded and dropped. A promotion, or another start of this
	// release, clears the field.
	LastSuperseded string
	// Failed marks failed releases that were dropped because the group was full.
	Failed  Failed
	Rollout *Rollout
	// End records the wait for the hooks that are called after a preview has ended and its pods are gone.
	End      End
	Releases []Row
}

// label returns the name of the group in messages. For a preview, this is the slug, because several previews may have the name of the same branch.
func (g *Group) label() string {
	if g.Level == preview {
		return g.Slug
	}
	return g.Name
}

// End records the wait for the hooks that are called at the end of a preview. Time is the start of the wait, or zero if no hooks
// are called.
type End struct {
	// Release is the release that calls the hooks.
	Release string
	Time    time.Time
}

// Target is the release that a group moves to.
type Target struct {
	Release      string
	Reason       Reason
	ResolvedFrom string
}

// Rollout is the rollout of a release.
type Rollout struct {
	// Release is the name of the release.
	Release string
	// Sequence is the sequence number of the rollout state in which the rollout began. It identifies the rollout. The
	// decision Retry starts another rollout.
	Sequence int64
	// Step is the number of the current step, counted from 1. 0 means that the first step has not begun.
	Step int
	// Started is when the clock of the current step started. Before the first step, it is when the clock of the rollout
	// started.
	Started time.Time
	// StepRevision is the traffic revision that contains the step's weight.
	StepRevision int64
	// StepsHash identifies the steps, so that an edit of the steps is detected (rule 32).
	StepsHash string
	// Waited is the total time that the step waited while it was healthy. WaitingSince is the start of the
	// current wait, if that differs from the time at which the step was confirmed. Interrupted reports whether
	// the wait is interrupted (rule 23).
	Waited       time.Duration
	WaitingSince time.Time
	Interrupted  bool
	// Floor is the number of replicas that the active release had when the rollout started (rule 6).
	Floor int
	// Continued is the number of a step that no longer waits, because a user continued it, or because its waits
	// ended before the replicas for the next step existed.
	Continued int
	// Approvals are the approvals of the step, each by a different user.
	Approvals []Approval
	// Grace is a later deadline for the step. It is set if the manager had only just started when it found that the
	// deadline had passed, or if the rollout of another group with which this rollout shares domains ended because of
	// unprogrammed routes. Zero means that there is no later deadline.
	Grace time.Time
	// Gate is the point at which the rollout is waiting for hooks, or empty if it is not waiting for hooks.
	// GateTime is when this wait began. While GateTime is zero, no hooks are called.
	Gate     Point
	GateTime time.Time
	// From is the slug of the group from which the newest domains move to this release. From is empty if the release
	// takes over the traffic of the group that it belongs to.
	From string
	// WaitsFor is the problem outside the release that blocks the rollout and stops its clock. It is
	// empty if there is none (rule 29).
	WaitsFor Reason
}

// Approval is the approval of a step by a user who is a member of Group. Group is empty if the step requires no group.
type Approval struct {
	By    string
	Group string
	Time  time.Time
}

// Row is the record of a release in a group.
type Row struct {
	Release string
	Name    string
	Version string
	Config  string
	Status  Status
	Weight  int
	// Match reports whether the release gets the requests that a policy's matches select. Mirror is the percentage
	// of requests that are copied to the release.
	Match  bool
	Mirror int
	// Available reports whether the release is active or a canary, and has all its replicas.
	Available bool
	// Promoted is the position of the release in the order of activation. 0 means that the release has
	// never been active (rules 24 and 39).
	Promoted int64
	// FirstActive is when the release became active for the first time. Zero means that the release has never been active,
	// or that the time is unknown.
	FirstActive time.Time
	// Routed reports whether a route has ever referred to the release (rules 10 and 18).
	Routed bool
	// Adopted reports whether a user decided to skip the steps.
	Adopted bool
	// Attempt counts how often the release was restarted after a failure, and how often it lost its traffic.
	// RetryTime is when the release may get traffic again (rule 29).
	Attempt   int
	RetryTime time.Time
	// Zero records the traffic revision that requires routes without the release, and the time at which this
	// requirement began.
	Zero *Zero
	// Reason is the reason for the status, and Since is when the release got this status.
	Reason Reason
	Since  time.Time
	// Decision is the most recently handled decision.
	Decision *Handled
}

// Zero records the write that removes a release from the routes.
type Zero struct {
	Revision int64
	Time     time.Time
	// Named reports whether a policy that never confirmed traffic of the group has an object that still refers to the
	// release, such as the route of a canary domain. Named is also true while any policy has no status, because its objects
	// may refer to the release. When Named becomes false, Time is set to the current time.
	Named bool
}

// Handled is a decision that was applied or rejected.
type Handled struct {
	ID      string
	Action  Action
	Time    time.Time
	By      string
	Outcome string
}

// Failed marks failed releases that were dropped because the group was full.
type Failed struct {
	// Version is the highest version that the mark covers. This version and all lower versions are not tried
	// automatically unless they have a row.
	Version string
	// Config is the configuration with which these versions failed. With another configuration, the mark has no effect.
	Config string
}

// DecisionApplied is the outcome of a decision that was applied. Any other outcome starts with
// DecisionNotApplicable.
const (
	DecisionApplied       = "Applied"
	DecisionNotApplicable = "DecisionNotApplicable"
)

// Row returns the row of a release, or nil.
func (g *Group) Row(release string) *Row {
	for i := range g.Releases {
		if g.Releases[i].Release == release {
			return &g.Releases[i]
		}
	}
	return nil
}

// leave removes all traffic from a release.
func (r *Row) leave() {
	r.Weight, r.Match, r.Mirror, r.Available, r.Adopted = 0, false, 0, false, false
}

// ActiveRow returns the active row, or nil.
func (g *Group) ActiveRow() *Row {
	for i := range g.Releases {
		if g.Releases[i].Status == Active {
			return &g.Releases[i]
		}
	}
	return nil
}

// clone returns a deep copy of a group. Times are converted to their stored form, which is UTC with microsecond
// precision.
func (g Group) clone() Group {
	g.TrafficTime = stored(g.TrafficTime)
	g.HeadTime = stored(g.HeadTime)
	if g.Rollout != nil {
		run := *g.Rollout
		run.Started = stored(run.Started)
		run.WaitingSince = stored(run.WaitingSince)
		run.GateTime = stored(run.GateTime)
		run.Grace = stored(run.Grace)
		run.Approvals = slices.Clone(run.Approvals)
		for i := range run.Approvals {
			run.Approvals[i].Time = stored(run.Approvals[i].Time)
		}
		g.Rollout = &run
	}
	rows := make([]Row, len(g.Releases))
	copy(rows, g.Releases)
	for i := range rows {
		rows[i].Since = stored(rows[i].Since)
		rows[i].RetryTime = stored(rows[i].RetryTime)
		if z := rows[i].Zero; z != nil {
			rows[i].Zero = &Zero{Revision: z.Revision, Time: stored(z.Time), Named: z.Named}
		}
		if d := rows[i].Decision; d != nil {
			c := *d
			c.Time = stored(c.Time)
			rows[i].Decision = &c
		}
	}
	g.Releases = rows
	return g
}

// cloneGroups returns deep copies of groups, in the order in which they are stored.
func cloneGroups(groups []Group) []Group {
	out := make([]Group, len(groups))
	for i := range groups {
		out[i] = groups[i].clone()
		sortRows(out[i].Releases)
	}
	sortGroups(out)
	return out
}

// copyGroups copies the parts of groups that a pass over the rules may change in place.
func copyGroups(groups []Group) []Group {
	out, n := slices.Clone(groups), 0
	for i := range out {
		n += len(out[i].Releases)
	}
	rows := make([]Row, 0, n)
	for i := range out {
		from := len(rows)
		rows = append(rows, out[i].Releases...)
		out[i].Releases = rows[from:len(rows):len(rows)]
		if run := out[i].Rollout; run != nil {
			c := *run
			out[i].Rollout = &c
		}
	}
	return out
}

// sameGroups reports whether the stored parts of two lists of groups are equal.
func sameGroups(a, b []Group) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameGroup(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// sameGroup reports whether the stored parts of two groups are equal.
func sameGroup(a, b *Group) bool {
	return a.Slug == b.Slug && a.Name == b.Name && a.Level == b.Level && a.PullRequest == b.PullRequest && a.Head == b.Head && a.HeadTime.Equal(b.HeadTime) && a.Phase == b.Phase && a.Target == b.Target &&
		a.TrafficRevision == b.TrafficRevision && a.TrafficTime.Equal(b.TrafficTime) && a.SettledRevision == b.SettledRevision && a.Superseded == b.Superseded && a.LastSuperseded == b.LastSuperseded && a.Failed == b.Failed && a.End.Release == b.End.Release && a.End.Time.Equal(b.End.Time) &&
		sameRollout(a.Rollout, b.Rollout) && sameRows(a.Releases, b.Releases)
}

func sameRows(a, b []Row) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !sameRow(a[i], b[i]) { // In most cases, the pointers in the rows are equal, so sameRow is not called.
			return false
		}
	}
	return true
}

func sameRollout(a, b *Rollout) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Release == b.Release && a.Sequence == b.Sequence && a.Step == b.Step && a.Started.Equal(b.Started) && a.StepRevision == b.StepRevision && a.StepsHash == b.StepsHash &&
		a.Waited == b.Waited && a.WaitingSince.Equal(b.WaitingSince) && a.Interrupted == b.Interrupted && a.Floor == b.Floor && a.Continued == b.Continued && slices.Equal(a.Approvals, b.Approvals) &&
		a.Grace.Equal(b.Grace) && a.Gate == b.Gate && a.GateTime.Equal(b.GateTime) && a.From == b.From && a.WaitsFor == b.WaitsFor
}

func sameRow(a, b Row) bool {
	if !same(a.Zero, b.Zero) || !same(a.Decision, b.Decision) {
		return false
	}
	a.Zero, a.Decision, b.Zero, b.Decision = nil, nil, nil, nil
	return a == b
}

// same reports whether two pointers are both nil or refer to equal values. Times must be in their stored
// form.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

var noTime time.Time

func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// sortRows sorts rows by version, highest first. Usually the rows are already in order.
func sortRows(rows []Row) {
	order := func(x, y *Row) int {
		return cmp.Or(compare(y.Version, x.Version), cmp.Compare(y.Promoted, x.Promoted), cmp.Compare(x.Release, y.Release))
	}
	for i := 1; i < len(rows); i++ {
		if order(&rows[i-1], &rows[i]) > 0 {
			slices.SortFunc(rows, func(x, y Row) int { return order(&x, &y) })
			return
		}
	}
}

// sortGroups sorts groups by version, newest first, and previews after all others. Usually the groups
// are already in order.
func sortGroups(groups []Group) {
	for i := 1; i < len(groups); i++ {
		if byNewest(&groups[i-1], &groups[i]) > 0 {
			slices.SortFunc(groups, func(x, y Group) int { return byNewest(&x, &y) })
			return
		}
	}
}

// byNewest orders groups by version, newest first, and previews after all others.
func byNewest(x, y *Group) int {
	switch px, py := x.Level == preview, y.Level == preview; {
	case px && !py:
		return 1
	case py && !px:
		return -1
	}
	return cmp.Or(cmp.Compare(y.PullRequest, x.PullRequest), compareNames(y.Name, x.Name), cmp.Compare(x.Slug, y.Slug))
}

// byOffer orders candidates by version, highest first. Commits of pull requests follow all versions,
// most recent push first.
func byOffer(x, y Candidate) int {
	switch px, py := x.Level == preview, y.Level == preview; {
	case px && py:
		if c := cmp.Or(y.Time.Compare(x.Time), cmp.Compare(y.PullRequest, x.PullRequest)); c != 0 {
			return c
		}
	case px:
		return 1
	case py:
		return -1
	}
	return cmp.Or(compare(y.Version, x.Version), cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release))
}

// byPush orders previews, most recent push first.
func byPush(x, y *Group) int {
	return cmp.Or(y.HeadTime.Compare(x.HeadTime), cmp.Compare(y.PullRequest, x.PullRequest), cmp.Compare(x.Slug, y.Slug))
}

// last orders two booleans. true comes last.
func last(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// compare orders two versions in the same way as their ImagePolicy does.
func compare(a, b string) int { return version.Compare(a, b) }

// compareNames orders the names of groups: "10.x" is above "9.x".
func compareNames(a, b string) int {
	if a == b {
		return 0
	}
	return compare(groupVersion(a), groupVersion(b))
}

// groupVersion parses the name of a group: "1.x" as 1.0, and "1.2.x" as 1.2.
func groupVersion(name string) string {
	text := strings.TrimSuffix(name, ".x")
	if text != name && !strings.Contains(text, ".") {
		return text + ".0"
	}
	return text
}

// setStatus sets the status of a row and the reason for that status.
func (s *scope) setStatus(r *Row, to Status, reason Reason) {
	if r.Status == to && r.Reason == reason {
		return
	}
	if r.Status != to {
		r.Since = s.now
	}
	r.Status, r.Reason = to, reason
}
