package notification

import (
	"fmt"

	"github.com/heighliner/heighliner/internal/status"
)

// Constructors of all events of NotificationPolicies that are not transitions of conditions.

func droppedEvent(r result) status.Event {
	return status.WarningEvent("NotificationDropped", "Notify", fmt.Sprintf("receiver %q does not get %q: %s", r.delivery.Receiver, r.message.Title, r.why))
}
