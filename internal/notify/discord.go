package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
)

// The maximum lengths of parts of Discord's embeds, in characters.
const maxDiscordTitle, maxDiscordValue = 256, 1024

// discordMessage is the body of a Discord webhook call.
type discordMessage struct {
	Embeds          []discordEmbed  `json:"embeds"`
	AllowedMentions discordMentions `json:"allowed_mentions"`
}

// discordMentions disables mentions in text.
type discordMentions struct {
	Parse []string `json:"parse"`
}

type discordEmbed struct {
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	URL         string         `json:"url,omitempty"`
	Color       int            `json:"color"`
	Timestamp   string         `json:"timestamp"`
	Fields      []discordField `json:"fields"`
}

type discordField struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Inline bool   `json:"inline"`
}

// discordColors are the colors of messages, as RGB.
var discordColors = map[Severity]int{Info: 0x4a6fa5, Success: 0x2e8b57, Warning: 0xd99000, Failure: 0xc0392b}

// discordMessageOf returns a message in Discord's format. If the title is too long, the message also contains the
// complete title as text.
func discordMessageOf(m Message) discordMessage {
	embed := discordEmbed{Title: cut(m.Title, maxDiscordTitle), URL: m.URL, Color: discordColors[m.Severity], Timestamp: m.Time.UTC().Format("2006-01-02T15:04:05Z"), Fields: []discordField{}}
	if embed.Title != m.Title {
		embed.Description = m.Title
	}
	for _, p := range details(m) {
		embed.Fields = append(embed.Fields, discordField{Name: p.name, Value: cut(p.value, maxDiscordValue), Inline: p.name != "Next"})
	}
	return discordMessage{Embeds: []discordEmbed{embed}, AllowedMentions: discordMentions{Parse: []string{}}}
}

// snowflake matches the ID of a Discord message.
var snowflake = regexp.MustCompile(`^[0-9]{1,20}$`)

// discord posts a message through a webhook. If edit is the ID of an earlier message, discord edits that message
// instead. It returns the ID of the message.
func (s *Sender) discord(ctx context.Context, webhook *url.URL, c Credentials, m Message, edit string) (string, *Error) {
	raw, err := json.Marshal(discordMessageOf(m))
	if err != nil {
		return "", errorOf(err)
	}
	query := webhook.Query()
	query.Set("wait", "true") // Without this parameter, the response has no ID.
	target, method := *webhook, http.MethodPost
	if edits := snowflake.MatchString(edit); edits {
		target, method = *webhook.JoinPath("messages", edit), http.MethodPatch
		query.Del("wait")
	} else {
		edit = ""
	}
	target.RawQuery = query.Encode()
	text, failure := s.post(ctx, call{method: method, address: target.String(), kind: "application/json", id: m.ID, body: raw}, c)
	switch {
	case failure != nil && edit != "" && failure.code == http.StatusNotFound:
		return s.discord(ctx, webhook, c, m, "") // The message was deleted.
	case failure != nil:
		return "", failure
	}
	var answer struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(text, &answer) != nil || !snowflake.MatchString(answer.ID) {
		return edit, nil
	}
	return answer.ID, nil
}
