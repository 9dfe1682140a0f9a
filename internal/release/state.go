package release

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/version"
)

// Status of a release.
type Status string

// The statuses. Pending is the only one in addition to the four of the original design, for a
// release that has not taken its first step yet.
const (
	Pending    Status = "pending"
	Canary     Status = "canary"
	Active     Status = "active"
	Error      Status = "error"
	Deprecated Status = "deprecated"
)

// Phase of a group.
type Phase string

// The phases of a group.
const (
	Live    Phase = "Live"
	Closing Phase = "Closing"
	// Expired is the phase of a preview that has no releases although its pull request is open (rule
	// 26).
	Expired Phase = "Expired"
)

// preview is the level of groups that are pull requests: they take no canary steps
// and keep one release (rule 25).
const preview = "Preview"

// State is the persisted record of a Microservice.
type State struct {
	// Sequence grows with every write.
	Sequence int64
	// Groups, newest first; previews after all others.
	Groups []Group
}

// Group is a release group: versions that replace each other.
type Group struct {
	Slug, Name, Level string
	// PullRequest is the number of the group's pull request; 0 if the group is not a preview.
	PullRequest int64
	// Head is the commit of the pull request that was offered last, and HeadTime when it was pushed, as
	// far as known.
	Head     string
	HeadTime time.Time
	Phase    Phase
	Target   Target
	// TrafficRevision is the sequence of the last write that changed the required content of the
	// routes, and TrafficTime its time (rule 1).
	TrafficRevision int64
	TrafficTime     time.Time
	// SettledRevision remained unconfirmed for the duration of the deadline while the group was stable:
	// policies behind it block nothing (rule 10).
	SettledRevision int64
	// Superseded counts displaced releases since the last promotion (rule 28).
	Superseded int
	// Failed marks failures that were dropped because there was no room.
	Failed  Failed
	Rollout *Rollout
	// End is the wait for the hooks that are called when the pods of a preview that ends are gone.
	End      End
	Releases []Row
}

// End is the wait for the hooks of the end of a preview, since Time; zero if they are not called.
type End struct {
	// Release that calls them.
	Release string
	Time    time.Time
}

// Target is the release that a group moves to.
type Target struct {
	Release      string
	Reason       Reason
	ResolvedFrom string
}

// Rollout is the rollout of one release in progress.
type Rollout struct {
	// Release that is rolled out.
	Release string
	// Sequence of the rollout state write in which it began, which identifies the rollout. A Retry is
	// another rollout.
	Sequence int64
	// Step from 1; 0 before the first.
	Step int
	// Started is when the rollout or the step began.
	Started time.Time
	// StepRevision is the traffic revision with the step's weight.
	StepRevision int64
	// StepsHash shows whether the steps were edited (rule 32).
	StepsHash string
	// Waited is the total time that the step waited while healthy; WaitingSince is the start of the
	// current wait if that is not the confirmation; Interrupted shows that the wait is interrupted
	// (rule 23).
	Waited       time.Duration
	WaitingSince time.Time
	Interrupted  bool
	// Floor is the number of replicas that the active release had at the start (rule 6).
	Floor int
	// Continued is the step that no longer waits: a user continued it, or its waits were over before
	// there were replicas for the next one.
	Continued int
	// Approvals of the step, each by a different user.
	Approvals []Approval
	// Grace is until when the step may be unhealthy beyond its deadline, because the manager was down
	// when that passed; zero if it was not.
	Grace time.Time
	// Gate is the point at which the rollout waits for hooks, since GateTime; "" for none. Without
	// GateTime hooks are not asked yet.
	Gate     Point
	GateTime time.Time
	// From is the slug of the group from which the newest domains move to this release; "" if it takes
	// over the traffic of the group that it belongs to.
	From string
	// WaitsFor is the cause outside of the release that the rollout waits for, with its clock stopped;
	// "" for none (rule 29).
	WaitsFor Reason
}

// Approval of a step by a user, as a member of a group; "" if the step requires none.
type Approval struct {
	By    string
	Group string
	Time  time.Time
}

// Row is one release of a group.
type Row struct {
	Release string
	Name    string
	Version string
	Config  string
	Status  Status
	Weight  int
	// Match: it gets the requests that a policy's matches select. Mirror is the percentage of requests
	// that are copied to it.
	Match  bool
	Mirror int
	// Available: it is active or canary and has all its replicas.
	Available bool
	// Promoted is the order of activation; 0 if it was never active (rules 24 and 39).
	Promoted int64
	// FirstActive is when it became active for the first time; zero if it was never active, or if that is
	// not known.
	FirstActive time.Time
	// Routed: a route has named it (rules 10 and 18).
	Routed bool
	// Adopted: a user skips the steps.
	Adopted bool
	// Attempt counts the starts after failures, and how often it gave its traffic back. RetryTime is
	// when it may get traffic again (rule 29).
	Attempt   int
	RetryTime time.Time
	// Zero records since when it must be in no route.
	Zero *Zero
	// Reason of the status, and Since when.
	Reason Reason
	Since  time.Time
	// Decision that was handled last.
	Decision *Handled
}

// Zero marks the write that takes a release out of the routes.
type Zero struct {
	Revision int64
	Time     time.Time
	// Named: an object of a policy that never confirmed the group still names it, for example the route
	// of a canary domain, or may name it, because the policy has no status. Time is set when it no longer
	// does.
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

// Failed marks the failures that a full group has forgotten.
type Failed struct {
	// Version up to which nothing without a row is tried automatically.
	Version string
	// Config with which they failed. With another one the mark has no effect.
	Config string
}

// DecisionApplied is the outcome of a decision that was applied; any other
// outcome starts with DecisionNotApplicable.
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

// leave removes the traffic of a release.
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

// clone copies a group deeply, with times as they are stored: in UTC, to the
// microsecond.
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

// cloneGroups copies groups deeply, in the order in which they are stored.
func cloneGroups(groups []Group) []Group {
	out := make([]Group, len(groups))
	for i := range groups {
		out[i] = groups[i].clone()
		sortRows(out[i].Releases)
	}
	sortGroups(out)
	return out
}

// copyGroups copies what a pass may change in place.
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

// sameGroups compares what is stored of groups.
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

// sameGroup compares what is stored of two groups.
func sameGroup(a, b *Group) bool {
	return a.Slug == b.Slug && a.Name == b.Name && a.Level == b.Level && a.PullRequest == b.PullRequest && a.Head == b.Head && a.HeadTime.Equal(b.HeadTime) && a.Phase == b.Phase && a.Target == b.Target &&
		a.TrafficRevision == b.TrafficRevision && a.TrafficTime.Equal(b.TrafficTime) && a.SettledRevision == b.SettledRevision && a.Superseded == b.Superseded && a.Failed == b.Failed && a.End.Release == b.End.Release && a.End.Time.Equal(b.End.Time) &&
		sameRollout(a.Rollout, b.Rollout) && sameRows(a.Releases, b.Releases)
}

func sameRows(a, b []Row) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !sameRow(a[i], b[i]) { // most have the same pointers
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

// same compares what two pointers point to; times are as they are stored.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

var noTime time.Time

func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// sortRows sorts the highest version first. Usually the rows are in order already.
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

// sortGroups sorts the newest first, previews after all others. Usually the groups are in order
// already.
func sortGroups(groups []Group) {
	for i := 1; i < len(groups); i++ {
		if byNewest(&groups[i-1], &groups[i]) > 0 {
			slices.SortFunc(groups, func(x, y Group) int { return byNewest(&x, &y) })
			return
		}
	}
}

// byNewest orders groups: the newest first, previews after all others.
func byNewest(x, y *Group) int {
	switch px, py := x.Level == preview, y.Level == preview; {
	case px && !py:
		return 1
	case py && !px:
		return -1
	}
	return cmp.Or(cmp.Compare(y.PullRequest, x.PullRequest), compareNames(y.Name, x.Name), cmp.Compare(x.Slug, y.Slug))
}

// byOffer orders candidates: the highest version first, and after all versions the commits of pull
// requests, the newest push first.
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

// byPush orders previews, the newest push first.
func byPush(x, y *Group) int {
	return cmp.Or(y.HeadTime.Compare(x.HeadTime), cmp.Compare(y.PullRequest, x.PullRequest), cmp.Compare(x.Slug, y.Slug))
}

// last orders two booleans: true comes last.
func last(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

func or[T ~string](a, b T) T {
	if a != "" {
		return a
	}
	return b
}

// compare orders two versions as their ImagePolicy does.
func compare(a, b string) int { return version.Compare(a, b) }

// compareNames orders streams: "10.x" above "9.x".
func compareNames(a, b string) int {
	if a == b {
		return 0
	}
	return compare(streamVersion(a), streamVersion(b))
}

// streamVersion parses the name of a stream: "1.x" as 1.0, and "1.2.x" as 1.2.
func streamVersion(name string) string {
	text := strings.TrimSuffix(name, ".x")
	if text != name && !strings.Contains(text, ".") {
		return text + ".0"
	}
	return text
}
