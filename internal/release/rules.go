package release

// rule is a named decision about one group. Rules apply in order. Each rule reads the facts, and the
// group as changed by the previous rules.
type rule struct {
	name  string
	apply func(*scope)
}

// rules are the rules of a group, in the order in which they apply. The headings name the files that contain the rules. The other comments list the
// status changes that the rules make; "none" means that the release has no row. If a group is full, some rules also drop the row of a failed release. A
// test removes one rule at a time, and expects at least one history to fail without it.
var rules = []rule{
	// lost_state.go: existing objects.
	{"Rebuild the rollout state", rebuildState},      // none to active, deprecated or pending: the rollout state is lost
	{"Record referenced releases", recordReferenced}, // none to deprecated: a route refers to the release
	{"Record routes", recordRoutes},
	{"Replace a lost active release", replaceLostActive}, // deprecated or canary to active, active to none: the object is gone
	{"Drop lost releases", dropLost},                     // any to none: the object is gone

	// decisions.go, groups.go
	{"Apply decisions", decide},     // pending or canary to error (Deprecate), error to pending (Retry)
	{"Close the group", closeGroup}, // any to deprecated: the group ends; deprecated to active: the group is offered again

	// target.go
	{"Choose the target", chooseTarget},
	{"Finish first", finishFirst},
	{"Supersede", supersede}, // pending or canary to deprecated: another release is the target

	// steps_and_promotion.go
	{"Start", start}, // none, deprecated or error to pending: the release is the target
	{"Open the gate", openGate},

	// fail_and_retry.go
	{"Count healthy time", countHealthyTime},
	{"Fail", fail}, // pending or canary to error, or back to pending because of a problem outside the release; deprecated to error: a rollback failed

	// steps_and_promotion.go
	{"Apply edited steps", editedSteps},
	{"Promote the first release", promoteFirst}, // pending to active: no other release is active
	{"Roll back", promoteRetained},              // deprecated to active: the release was active before
	{"Adopt", promoteAdopted},                   // pending or canary to active: a user skips the steps
	{"Step", step},                              // pending to canary, canary to active: the current step is complete

	// freezes_and_step_waits.go
	{"Report the freeze", noteFreeze},

	// confirmed_and_drained.go, replicas.go
	{"Stop waiting for policies", stopWaiting},
	{"Record availability", recordAvailability},
	{"Raise the traffic revision", raiseRevision},

	// retain_and_remove.go, previews.go: rows that are dropped.
	{"Forget failures", forgetFailures}, // error to none: the release cannot be chosen again; error to deprecated: hooks of type PostPreview have not ended
	{"End preview", endPreview},
	{"Drop drained releases", dropDrained},   // deprecated to none: the release is drained, and not retained; error to none: only failed releases remain
	{"Stay within limits", stayWithinLimits}, // error to none: the group is full
}
