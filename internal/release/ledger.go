package release

import "time"

// Status of a release.
type Status string

// The statuses. Pending is the only one besides the four of the original
// design: a release that is not healthy yet is none of those.
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
	// Expired is a preview that is taken down, or has not begun, while its pull
	// request is open (rule 26).
	Expired Phase = "Expired"
)

// preview is the level of groups that are pull requests: they take no canary steps
// and keep one release (rule 25).
const preview = "Preview"

// Ledger is the persisted record of a Microservice.
type Ledger struct {
	// Sequence grows with every write.
	Sequence int64
	// Groups, newest first; previews after all others.
	Groups []Group
}

// Group is a stream of versions that replace each other.
type Group struct {
	Slug, Name, Level string
	// PullRequest is the number of the pull request that the group is; 0: it is none.
	PullRequest int64
	// Head is the commit of a pull request that was offered last, and HeadTime when it
	// was pushed, as far as it is known.
	Head     string
	HeadTime time.Time
	Phase    Phase
	Target   Target
	// TrafficRevision is raised by every change of what routes must carry, to the
	// sequence of that write, and TrafficTime is when (rule 1).
	TrafficRevision int64
	TrafficTime     time.Time
	// SettledRevision was left unconfirmed for the deadline at rest: policies
	// behind it hold nothing up (rule 10).
	SettledRevision int64
	// Overtaken counts displaced releases since the last promotion (rule 28).
	Overtaken int
	// Failed marks the failures that were forgotten for want of room.
	Failed   Failed
	Run      *Run
	Releases []Row
}

// Target is the release that a group moves to.
type Target struct {
	Release, Reason, ResolvedFrom string
}

// Run is the way of one release to active.
type Run struct {
	// Release that runs.
	Release string
	// Sequence of the ledger write in which it began: the name of the run. A Retry is
	// another run.
	Sequence int64
	// Step from 1; 0 before the first.
	Step int
	// Started is when the run or the step began.
	Started time.Time
	// StepRevision carries the step's weight.
	StepRevision int64
	// StepsHash tells whether the steps were edited (rule 32).
	StepsHash string
	// Waited adds up the healthy waiting of the step; WaitingSince is the start of
	// the present wait where that is not the confirmation; Interrupted says that
	// the wait is broken off (rule 23).
	Waited       time.Duration
	WaitingSince time.Time
	Interrupted  bool
	// Floor is what the active release had at the start (rule 6).
	Floor int
	// Continued is the step that has nothing to wait for any more: a person released
	// it, or its waits were over before there were replicas for the next one.
	Continued int
	// Grace is until when the step may be unhealthy beyond its deadline, because the
	// manager was away when that passed; zero: it was not.
	Grace time.Time
	// Gate is the point at which the run waits for hooks, since GateTime; "": none. Without
	// GateTime hooks are not asked yet.
	Gate     Point
	GateTime time.Time
	// From is the slug of the group from which the newest domains move to this release;
	// "": it takes the traffic of its own group.
	From string
	// WaitsFor is the cause outside of the release that the run waits for, with its clock
	// stopped; "": none (rule 29).
	WaitsFor string
}

// Row is one release of a group.
type Row struct {
	Release string
	Name    string
	Version string
	Config  string
	Status  Status
	Weight  int
	// Match: it gets the requests that a policy's matches choose. Mirror is the
	// percentage of requests that it gets copies of.
	Match  bool
	Mirror int
	// Available: it is active or canary and has all its replicas.
	Available bool
	// Promoted is the order of activation; 0: never (rules 24 and 39).
	Promoted int64
	// Routed: a route named it once (rules 10 and 18).
	Routed bool
	// Adopted: a person asked to skip the steps.
	Adopted bool
	// Attempt counts the starts after failures, and the times at which it gave its traffic
	// back. RetryTime is when it may have some again (rule 29).
	Attempt   int
	RetryTime time.Time
	// Zero says since when it is to be in no route.
	Zero *Zero
	// Reason of the status, and Since when.
	Reason string
	Since  time.Time
	// Decision that was handled last.
	Decision *Handled
}

// Zero marks the write that takes a release out of the routes.
type Zero struct {
	Revision int64
	Time     time.Time
}

// Handled is a decision that was honoured or turned down.
type Handled struct {
	ID      string
	Action  Action
	Time    time.Time
	By      string
	Outcome string
}

// DecisionApplied is the outcome of a decision that was honoured; any other
// outcome starts with DecisionNotApplicable.
const (
	DecisionApplied       = "Applied"
	DecisionNotApplicable = "DecisionNotApplicable"
)

// clone copies a group deeply, with times as they are stored: in UTC, to the
// microsecond.
func (g Group) clone() Group {
	g.TrafficTime = stored(g.TrafficTime)
	g.HeadTime = stored(g.HeadTime)
	if g.Run != nil {
		run := *g.Run
		run.Started = stored(run.Started)
		run.WaitingSince = stored(run.WaitingSince)
		run.GateTime = stored(run.GateTime)
		run.Grace = stored(run.Grace)
		g.Run = &run
	}
	rows := make([]Row, len(g.Releases))
	copy(rows, g.Releases)
	for i := range rows {
		rows[i].Since = stored(rows[i].Since)
		rows[i].RetryTime = stored(rows[i].RetryTime)
		if z := rows[i].Zero; z != nil {
			rows[i].Zero = &Zero{Revision: z.Revision, Time: stored(z.Time)}
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

// Row finds the row of a release.
func (g *Group) Row(release string) *Row {
	for i := range g.Releases {
		if g.Releases[i].Release == release {
			return &g.Releases[i]
		}
	}
	return nil
}

// leave takes the traffic of a release away.
func (r *Row) leave() {
	r.Weight, r.Match, r.Mirror, r.Available, r.Adopted = 0, false, 0, false, false
}

// ActiveRow finds the active row.
func (g *Group) ActiveRow() *Row {
	for i := range g.Releases {
		if g.Releases[i].Status == Active {
			return &g.Releases[i]
		}
	}
	return nil
}

func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
