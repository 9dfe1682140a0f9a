// Package hook calls the HTTP endpoints of hooks during the rollout of a release, and reads the
// results of the Jobs that run instead of HTTP requests.
//
// Calls returns the calls that the state of a rollout requires, without side effects. A Pool makes these
// calls in the background. Fold writes the outcomes into the status of the release, from which the
// Microservice controller reads them. docs/explanation/hooks.md explains what is sent, how often, and why.
//
//	calls.go    Calls: the calls that the state of a rollout needs (pure)
//	request.go  one HTTP request and its response
//	retry.go    timeouts, intervals, retries within a delivery, and the wait before each retry
//	pool.go     runs calls in the background, and decides when a hook is called again
//	jobs.go     names, variables and results of Jobs (pure)
//	status.go   Fold: updates the status with the outcomes (pure)
package hook

import "github.com/heighliner/heighliner/apis/v1alpha1"

// IsGate reports whether a hook is a gate, which blocks a rollout.
func IsGate(t v1alpha1.HookType) bool {
	switch t {
	case v1alpha1.HookConfirmRollout, v1alpha1.HookPreRollout, v1alpha1.HookConfirmTrafficIncrease, v1alpha1.HookConfirmPromotion:
		return true
	}
	return false
}

// polled reports whether a hook is called periodically until it approves.
func polled(t v1alpha1.HookType) bool {
	return t == v1alpha1.HookRollback || IsGate(t) && t != v1alpha1.HookPreRollout
}

// checks reports whether a hook is a check, for which a negative response counts as a failure.
func checks(t v1alpha1.HookType) bool {
	return t == v1alpha1.HookPreRollout || t == v1alpha1.HookRollout
}

// refuses reports whether a hook is a gate that can abort a rollout by responding with
// StatusRefused.
func refuses(t v1alpha1.HookType) bool { return IsGate(t) && polled(t) }

// message reports whether a hook is a notification, which has no effect on the rollout.
func message(t v1alpha1.HookType) bool {
	return t == v1alpha1.HookPostRollout || t == v1alpha1.HookPostPreview || t == v1alpha1.HookEvent
}
