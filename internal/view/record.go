package view

import (
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// run is the rollout of a group, as recorded in the rollout state. Only this file reads fields that
// are not meant for users.
type run struct {
	release               string
	step                  int32
	started, waitingSince time.Time
	stepRevision          int64
	waited                time.Duration
	interrupted           bool
	continued             int32
	sequence              int64
	gate                  v1alpha1.Gate
	gateTime, grace       time.Time
	from, waitsFor        string
	approvals             []v1alpha1.StepApproval
}

// runOf returns the rollout of a group, or nil.
func runOf(g *v1alpha1.ReleaseGroup) *run {
	r := g.Rollout
	if r == nil || r.Release == "" {
		return nil
	}
	out := &run{
		release: r.Release, step: max(0, r.Step), started: r.StartedTime.Time, waitingSince: micro(r.WaitingSince),
		interrupted: r.Interrupted, continued: r.Continued, sequence: r.Sequence, gate: r.Gate, gateTime: micro(r.GateTime), from: r.From, waitsFor: r.WaitsFor, approvals: r.Approvals,
	}
	if in := r.Internal; in != nil {
		out.stepRevision, out.grace = in.StepRevision, micro(in.GraceTime)
		if in.Waited != nil {
			out.waited = max(0, in.Waited.Duration)
		}
	}
	return out
}

// settledOf returns the revision before which policies of a group block nothing.
func settledOf(g *v1alpha1.ReleaseGroup) int64 {
	if g.Internal == nil {
		return 0
	}
	return g.Internal.SettledRevision
}

// hadTraffic reports whether a route has ever targeted a release.
func hadTraffic(r *v1alpha1.Release) bool { return r.Internal != nil && r.Internal.Routed }
