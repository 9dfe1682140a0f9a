package notify

// teamsMessage is the body of a webhook call for a Microsoft Teams workflow. It contains one Adaptive Card.
type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	ContentType string    `json:"contentType"`
	ContentURL  *string   `json:"contentUrl"`
	Content     teamsCard `json:"content"`
}

// teamsCard is an Adaptive Card.
type teamsCard struct {
	Schema  string           `json:"$schema"`
	Type    string           `json:"type"`
	Version string           `json:"version"`
	Body    []map[string]any `json:"body"`
	Actions []map[string]any `json:"actions,omitempty"`
}

// teamsColors are the colors of titles.
var teamsColors = map[Severity]string{Info: "Default", Success: "Good", Warning: "Warning", Failure: "Attention"}

// teamsMessageOf returns a message in the Teams format.
func teamsMessageOf(m Message) teamsMessage {
	facts := []map[string]string{}
	for _, p := range details(m) {
		facts = append(facts, map[string]string{"title": p.name, "value": cut(p.value, maxText)})
	}
	card := teamsCard{
		Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard", Version: "1.4",
		Body: []map[string]any{
			{"type": "TextBlock", "text": m.Title, "weight": "Bolder", "wrap": true, "color": teamsColors[m.Severity]},
			{"type": "FactSet", "facts": facts},
		},
	}
	if m.URL != "" {
		card.Actions = []map[string]any{{"type": "Action.OpenUrl", "title": "Open the board", "url": m.URL}}
	}
	return teamsMessage{Type: "message", Attachments: []teamsAttachment{{ContentType: "application/vnd.microsoft.card.adaptive", Content: card}}}
}
