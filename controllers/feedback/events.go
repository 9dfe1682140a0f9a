package feedback

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/status"
)

// The functions below construct all feedback events except those about changes to the FeedbackReady
// condition, which have the condition's reason and message.

func cleanupTimedOutEvent() status.Event {
	return status.WarningEvent("FeedbackNotRemoved", "Delete",
		fmt.Sprintf("feedback was not removed from GitHub within %s: the GitHubRepository is deleted, and the feedback remains", cleanupDeadline))
}

func cleanupSuspendedEvent() status.Event {
	return status.WarningEvent("FeedbackNotRemoved", "Delete", "feedback is not removed from GitHub, because spec.suspend is true")
}

func abandonedEvent(repository string) status.Event {
	return status.WarningEvent("FeedbackNotRemoved", "Report",
		fmt.Sprintf("feedback at %s, the previous repository of this GitHubRepository, remains: GitHub rejected %d attempts to remove it", repository, maxAbandonTries))
}
