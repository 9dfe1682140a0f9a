package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// slackAPI is the address of the methods of Slack's Web API.
const slackAPI = "https://slack.com/api"

// The maximum lengths of parts of Slack's blocks, in characters. The cut function counts bytes, and text never
// has more characters than bytes.
const maxSlackText, maxSlackField = 3000, 2000

// slackMessage is the body of chat.postMessage, chat.update and incoming webhooks.
type slackMessage struct {
	Channel string       `json:"channel,omitempty"`
	TS      string       `json:"ts,omitempty"`
	Text    string       `json:"text"`
	Blocks  []slackBlock `json:"blocks"`
}

// slackBlock is a block of type section or context.
type slackBlock struct {
	Type     string      `json:"type"`
	Text     *slackText  `json:"text,omitempty"`
	Elements []slackText `json:"elements,omitempty"`
}

type slackText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// slackMarks are the prefixes of titles.
var slackMarks = map[Severity]string{Info: ":arrow_forward:", Success: ":white_check_mark:", Warning: ":warning:", Failure: ":x:"}

// inSlack escapes the characters that are special in Slack text.
func inSlack(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// slackMessageOf returns a message in Slack's format.
func slackMessageOf(m Message) slackMessage {
	title := "*" + inSlack(cut(m.Title, maxSlackText/6)) + "*"
	if m.URL != "" {
		title = "<" + inSlack(m.URL) + "|" + strings.ReplaceAll(inSlack(cut(m.Title, maxSlackText/6)), "|", "/") + ">"
	}
	var parts []string
	for _, p := range details(m) {
		value := inSlack(cut(p.value, maxSlackField/16))
		if p.name == "Next" {
			value = "`" + strings.ReplaceAll(value, "`", "'") + "`"
		}
		parts = append(parts, p.name+": "+value)
	}
	return slackMessage{
		Text: inSlack(m.Title),
		Blocks: []slackBlock{
			{Type: "section", Text: &slackText{"mrkdwn", slackMarks[m.Severity] + " " + title}},
			{Type: "context", Elements: []slackText{{"mrkdwn", strings.Join(parts, "  ·  ")}}},
		},
	}
}

// slackAnswer is a response of the Web API. Errors also have status 200.
type slackAnswer struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
}

// slackRejections are Slack's errors that affect only one message. slackLost are Slack's errors for a message that
// can no longer be edited, for example because its channel was deleted.
var (
	slackRejections = []string{"invalid_blocks", "invalid_blocks_format", "msg_too_long", "no_text", "msg_blocks_too_long"}
	slackLost       = []string{"message_not_found", "cant_update_message", "edit_window_closed", "channel_not_found", "is_inactive"}
)

// slack posts a message with a bot token. If edit contains the channel and timestamp of an earlier message, it edits that message instead.
func (s *Sender) slack(ctx context.Context, api *url.URL, channel string, c Credentials, m Message, edit string) (string, *Error) {
	body, method := slackMessageOf(m), "chat.postMessage"
	body.Channel = channel
	if id, ts, found := strings.Cut(edit, "/"); found {
		body.Channel, body.TS, method = id, ts, "chat.update"
	}
	if body.Channel == "" {
		return "", errorf("spec.receivers: a bot token does not select a channel: set channel")
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return "", errorOf(err)
	}
	text, failure := s.post(ctx, call{method: http.MethodPost, address: api.JoinPath(method).String(), kind: "application/json; charset=utf-8", id: m.ID, body: raw}, c)
	if failure != nil {
		return "", failure
	}
	var answer slackAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", errorf("the response from Slack cannot be parsed: check that url is the address of the Slack Web API")
	}
	switch {
	case answer.OK && answer.Channel != "" && answer.TS != "" && len(answer.Channel)+len(answer.TS) < maxText:
		return answer.Channel + "/" + answer.TS, nil
	case answer.OK:
		return "", nil
	case edit != "" && slices.Contains(slackLost, answer.Error):
		return s.slack(ctx, api, channel, c, m, "")
	}
	failure = errorf("Slack: %s", c.hide(answer.Error))
	failure.Rejected = slices.Contains(slackRejections, answer.Error)
	return "", failure
}
