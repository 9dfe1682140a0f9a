package web

// abouts are what the acts do, for their buttons and forms.
var abouts = map[string]string{
	"continue":  "Completes the current step: approves it, or ends its pause. The next steps still follow.",
	"adopt":     "Skips the remaining steps: the release becomes active as soon as all its pods are available.",
	"deprecate": "Aborts this rollout: the active release gets all traffic, and this version does not start again until someone retries it.",
	"retry":     "Starts the failed release again, from its first step.",
	"pin":       "Keeps the group at one version. Newer versions wait until the pin ends or is removed.",
	"unpin":     "Removes the pin: the group moves to the newest version, with the canary steps.",
	"rollback":  "Returns to a version that was active before, with its configuration and without canary steps. The group is pinned to it.",
	"pause":     "Stops what starts automatically: new releases, steps and promotions. Rollbacks and decisions still work.",
	"resume":    "Ends the pause: releases start and continue again.",
	"freeze":    "No new release starts and no canary gets more traffic until the freeze ends. Rollbacks still work.",
	"thaw":      "Ends the freeze: what waits for its end continues.",
}
