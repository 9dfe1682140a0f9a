package main

import (
	"fmt"
	"strings"
)

// Observation is what is found of a cluster in its run folder and among the
// processes of the machine.
type Observation struct {
	// Config is the record of the cluster, nil without one.
	Config *Config
	// Answers is true when the supervisor answers on its socket.
	Answers bool
	// State is the supervisor's, when it answers.
	State State
	// Processes and Mounts count what belongs to the cluster.
	Processes, Mounts int
	// RunDir is true when the run folder exists.
	RunDir bool
}

// Action is what up does about what it found.
type Action string

// The actions of up.
const (
	ActionStart   Action = "Start"   // nothing is there
	ActionRebuild Action = "Rebuild" // ruins, or a cluster of other parts: clear all and start
	ActionRepair  Action = "Repair"  // start the parts that died
	ActionKeep    Action = "Keep"    // all runs
)

// Decision is an action with its reason in words.
type Decision struct {
	Action Action
	Reason string
	// Parts are those to start by a repair.
	Parts []string
	// Gateway is true when the gateway must restart with a new throttle.
	Gateway bool
	// From is the checkout that owned the cluster until now, when another takes it over.
	From string
}

// decide compares what is found with what is wanted.
func decide(found Observation, want Config) Decision {
	if !found.RunDir && found.Processes == 0 && found.Mounts == 0 {
		return Decision{Action: ActionStart, Reason: "no cluster"}
	}
	if found.Config == nil {
		return Decision{Action: ActionRebuild, Reason: "ruins without a record"}
	}
	if !found.Answers {
		return Decision{Action: ActionRebuild, Reason: fmt.Sprintf(
			"the supervisor does not answer (%d processes and %d mounts of it remain)", found.Processes, found.Mounts)}
	}
	if found.Config.Fingerprint != want.Fingerprint {
		return Decision{Action: ActionRebuild, Reason: "the running cluster was made with other settings or binaries, by " + found.Config.Owner.Checkout}
	}
	d := Decision{Action: ActionKeep, Reason: "the cluster runs", Gateway: found.Config.GatewayThrottle != want.GatewayThrottle}
	if found.Config.Owner.Checkout != want.Owner.Checkout {
		d.From = found.Config.Owner.Checkout
	}
	if dead := found.State.dead(); len(dead) > 0 {
		d.Action, d.Parts = ActionRepair, dead
		d.Reason = "not running: " + strings.Join(dead, ", ")
	}
	return d
}
