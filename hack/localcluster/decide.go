package main

import (
	"fmt"
	"strings"
)

// Observation describes the state of the cluster: its run folder, and its processes on the machine.
type Observation struct {
	// Config is the record of the cluster, or nil if there is no record.
	Config *Config
	// Answers is true if the supervisor is responding on its socket.
	Answers bool
	// State is the state of the supervisor, if it is responding.
	State State
	// Processes and Mounts are the numbers of the cluster's processes and mounts.
	Processes, Mounts int
	// RunDir is true if the run folder exists.
	RunDir bool
}

// Action is the action that the up command takes after an observation.
type Action string

// These are the actions of the up command.
const (
	ActionStart   Action = "Start"   // Nothing exists: start the cluster.
	ActionRebuild Action = "Rebuild" // There are remains, or a cluster with other parts: remove everything and start again.
	ActionRepair  Action = "Repair"  // Some parts have stopped: start them.
	ActionKeep    Action = "Keep"    // Everything is running: change nothing.
)

// Decision is an action with its reason.
type Decision struct {
	Action Action
	Reason string
	// Parts are the parts to start in a repair.
	Parts []string
	// Gateway is true if the gateway must restart with a new throttle.
	Gateway bool
	// From is the checkout that owned the cluster until now, if another checkout is taking it over.
	From string
}

// decide compares the observed cluster with the desired cluster.
func decide(found Observation, want Config) Decision {
	if !found.RunDir && found.Processes == 0 && found.Mounts == 0 {
		return Decision{Action: ActionStart, Reason: "no cluster"}
	}
	if found.Config == nil {
		return Decision{Action: ActionRebuild, Reason: "remains of a cluster without a record"}
	}
	if !found.Answers {
		return Decision{Action: ActionRebuild, Reason: fmt.Sprintf(
			"the supervisor is not responding (%d processes and %d mounts of the cluster remain)", found.Processes, found.Mounts)}
	}
	if found.Config.Fingerprint != want.Fingerprint {
		return Decision{Action: ActionRebuild, Reason: "the running cluster was created with other settings or binaries, by " + found.Config.Owner.Checkout}
	}
	d := Decision{Action: ActionKeep, Reason: "the cluster is running", Gateway: found.Config.GatewayThrottle != want.GatewayThrottle}
	if found.Config.Owner.Checkout != want.Owner.Checkout {
		d.From = found.Config.Owner.Checkout
	}
	if dead := found.State.dead(); len(dead) > 0 {
		d.Action, d.Parts = ActionRepair, dead
		d.Reason = "not running: " + strings.Join(dead, ", ")
	}
	return d
}
