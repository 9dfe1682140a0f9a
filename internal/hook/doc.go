// Package hook calls the HTTP endpoints that are asked, or told, on the way of a
// release to active.
//
// Questions says, without any side effect, what the hooks of a release are to be
// asked where it is; a Pool asks it, beside everything else; Fold turns the outcomes
// into the release's status, where the Microservice controller reads them.
// docs/explanation/hooks.md tells what is sent, how often, and why so.
//
//	question.go  Questions: what the hooks of a release are asked (pure)
//	call.go      one HTTP call
//	pool.go      calls next to the reconcile
//	status.go    Fold: the outcome in the status (pure)
package hook

import (
	"cmp"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// The defaults of hooks.
const (
	defaultTimeout  = 10 * time.Second
	defaultInterval = 10 * time.Second
	defaultRetries  = 3 // of messages; checks are not repeated
)

// gates says that a hook's answer holds a run at a point.
func gates(t v1alpha1.HookType) bool {
	switch t {
	case v1alpha1.HookConfirmRollout, v1alpha1.HookPreRollout, v1alpha1.HookConfirmTrafficIncrease, v1alpha1.HookConfirmPromotion:
		return true
	}
	return false
}

// polled says that a hook is asked again and again until it says yes.
func polled(t v1alpha1.HookType) bool {
	return t == v1alpha1.HookRollback || gates(t) && t != v1alpha1.HookPreRollout
}

// checks says that a hook judges a release once, so that its no counts against it.
func checks(t v1alpha1.HookType) bool {
	return t == v1alpha1.HookPreRollout || t == v1alpha1.HookRollout
}

// refuses reports whether a hook can end a rollout for good, by an answer of
// StatusRefused: a gate that waits otherwise.
func refuses(t v1alpha1.HookType) bool { return gates(t) && polled(t) }

// message says that a hook is told something, and decides nothing.
func message(t v1alpha1.HookType) bool {
	return t == v1alpha1.HookPostRollout || t == v1alpha1.HookEvent
}

func timeout(h *v1alpha1.Hook) time.Duration { return min(h.Timeout.Std(defaultTimeout), maxTimeout) }

func interval(h *v1alpha1.Hook) time.Duration {
	return max(time.Second, cmp.Or(h.Interval.Std(0), defaultInterval))
}

func retries(h *v1alpha1.Hook) int {
	switch {
	case polled(h.Type):
		return 0
	case h.Retries != nil:
		return int(*h.Retries)
	case message(h.Type):
		return defaultRetries
	}
	return 0
}
