package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/outbound"
)

// stand is a receiver that responds with the result of a function.
type stand struct {
	*httptest.Server
	*Sender
	mu       sync.Mutex
	requests []string
	bodies   [][]byte
	headers  []http.Header
	answer   func(n int, r *http.Request, body []byte) (code int, answer string)
}

func newStand(t *testing.T, answer func(n int, r *http.Request, body []byte) (int, string)) *stand {
	t.Helper()
	s := &stand{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests, s.bodies, s.headers = append(s.requests, r.Method+" "+r.URL.String()), append(s.bodies, body), append(s.headers, r.Header.Clone())
		code, text := s.answer(len(s.requests), r, body)
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "7")
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Sender, err = NewSender(allowed, github.NewPool(github.Options{Outbound: allowed}), "heighliner/test"); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestErrors checks that unsuccessful responses result in errors that show who caused them, and that never contain the address.
func TestErrors(t *testing.T) {
	t.Parallel()
	const hidden = "hidden-path"
	for _, tc := range []struct {
		code     int
		rejected bool
		after    time.Duration
		text     string
	}{
		{200, false, 0, ""}, {202, false, 0, ""}, {204, false, 0, ""},
		{301, false, 0, "HTTP 301: redirects are not followed"},
		{400, true, 0, "HTTP 400: no"}, {413, true, 0, "HTTP 413: no"}, {422, true, 0, "HTTP 422: no"},
		{401, false, 0, "HTTP 401: no"}, {404, false, 0, "HTTP 404: no"}, {500, false, 0, "HTTP 500: no"},
		{429, false, 7 * time.Second, "HTTP 429: no"},
	} {
		s := newStand(t, func(int, *http.Request, []byte) (int, string) {
			if tc.code == 204 {
				return tc.code, ""
			}
			return tc.code, "no\r\n"
		})
		_, failure := s.Send(t.Context(), &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverWebhook, URL: s.URL + "/" + hidden}, Credentials{}, example(v1alpha1.NotifyFailed), "")
		if tc.text == "" {
			if failure != nil {
				t.Errorf("%d is %v", tc.code, failure)
			}
			continue
		}
		if failure == nil || failure.Error() != tc.text || failure.Rejected != tc.rejected || failure.After != tc.after {
			t.Errorf("%d is %+v, want %+v", tc.code, failure, tc)
		}
	}
	s := newStand(t, nil)
	for _, address := range []string{"http://127.0.0.1:1/" + hidden, "http://169.254.169.254/" + hidden, "http://user:pass@127.0.0.1/" + hidden, "ftp://127.0.0.1/" + hidden, "127.0.0.1/" + hidden, "http://127.0.0.1:x/" + hidden, ""} {
		_, failure := s.Send(t.Context(), &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverWebhook}, Credentials{URL: address}, example(v1alpha1.NotifyFailed), "")
		if failure == nil || failure.Rejected || strings.Contains(failure.Error(), hidden) || strings.Contains(failure.Error(), "pass@") {
			t.Errorf("%s gives %v", address, failure)
		}
	}
}

// TestWebhook checks that a webhook receives all fields as signed JSON.
func TestWebhook(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(int, *http.Request, []byte) (int, string) { return 200, "" })
	m := example(v1alpha1.NotifyFailed)
	if _, failure := s.Send(t.Context(), &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverWebhook, URL: s.URL}, Credentials{Key: []byte("k"), Token: "t"}, m, ""); failure != nil {
		t.Fatal(failure)
	}
	var got Message
	if err := json.Unmarshal(s.bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Error(diff)
	}
	h := s.headers[0]
	if h.Get(hook.HeaderSignature) != hook.Sign([]byte("k"), h.Get(hook.HeaderTimestamp), s.bodies[0]) || h.Get("Authorization") != "Bearer t" || h.Get(hook.HeaderDelivery) != m.ID || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
}

// fields decodes a body, which must contain only known keys.
func fields(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return out
}

// slackFault checks a body against the documentation of chat.postMessage and chat.update.
func slackFault(body map[string]any, bot bool) string {
	if text, _ := body["text"].(string); text == "" || len(text) > 40_000 {
		return "no_text"
	}
	if _, has := body["channel"].(string); has != bot {
		return "channel_not_found"
	}
	blocks, _ := body["blocks"].([]any)
	if len(blocks) == 0 || len(blocks) > 50 {
		return "invalid_blocks"
	}
	for _, each := range blocks {
		block, _ := each.(map[string]any)
		var texts []any
		switch block["type"] {
		case "section":
			texts = []any{block["text"]}
		case "context":
			texts, _ = block["elements"].([]any)
			if len(texts) == 0 || len(texts) > 10 {
				return "invalid_blocks"
			}
		default:
			return "invalid_blocks"
		}
		for _, each := range texts {
			text, _ := each.(map[string]any)
			if words, _ := text["text"].(string); text["type"] != "mrkdwn" || words == "" || len(words) > 3000 {
				return "invalid_blocks"
			}
		}
	}
	return ""
}

// TestSlack checks that a Slack bot posts a message and edits it, and posts the message again if it
// was deleted.
func TestSlack(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(n int, r *http.Request, raw []byte) (int, string) {
		body := fields(t, raw)
		if r.Header.Get("Authorization") != "Bearer xoxb-1" || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			return 200, `{"ok": false, "error": "not_authed"}`
		}
		if fault := slackFault(body, true); fault != "" {
			return 200, fmt.Sprintf(`{"ok": false, "error": %q}`, fault)
		}
		switch r.URL.Path {
		case "/api/chat.postMessage":
			return 200, fmt.Sprintf(`{"ok": true, "channel": "C1", "ts": "17.%d", "message": {}}`, n)
		case "/api/chat.update":
			if body["channel"] != "C1" || body["ts"] != "17.1" {
				return 200, `{"ok": false, "error": "message_not_found"}`
			}
			return 200, `{"ok": true, "channel": "C1", "ts": "17.1"}`
		}
		return 404, ""
	})
	r := &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverSlack, URL: s.URL + "/api", Channel: "#releases"}
	c := Credentials{Token: "xoxb-1"}
	m := example(v1alpha1.NotifyFailed)
	var calls []string
	for _, edit := range []string{"", "C1/17.1", "C1/9.9"} {
		called, failure := s.Send(t.Context(), r, c, m, edit)
		calls = append(calls, fmt.Sprint(called, " ", failure))
	}
	if diff := cmp.Diff([]string{"C1/17.1 <nil>", "C1/17.1 <nil>", "C1/17.4 <nil>"}, calls); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"POST /api/chat.postMessage", "POST /api/chat.update", "POST /api/chat.update", "POST /api/chat.postMessage"}, s.requests); diff != "" {
		t.Error(diff)
	}
	if text := string(s.bodies[0]); strings.Contains(text, "<database>") || !strings.Contains(text, `no \u0026lt;database\u0026gt;`) {
		t.Errorf("user text is not escaped: %s", text)
	}
	for token, want := range map[string]string{"xoxb-2": "Slack: not_authed"} {
		if _, failure := s.Send(t.Context(), r, Credentials{Token: token}, m, ""); failure == nil || failure.Error() != want || failure.Rejected {
			t.Errorf("%s gives %+v", token, failure)
		}
	}
	if _, failure := s.Send(t.Context(), &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverSlack, URL: s.URL}, c, m, ""); failure == nil || !strings.Contains(failure.Error(), "set channel") {
		t.Errorf("without a channel: %v", failure)
	}
}

// TestSlackWebhook checks that a Slack incoming webhook receives a message without a channel.
func TestSlackWebhook(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(_ int, _ *http.Request, raw []byte) (int, string) {
		if fault := slackFault(fields(t, raw), false); fault != "" {
			return 400, fault
		}
		return 200, "ok"
	})
	long := example(v1alpha1.NotifyFailed)
	long.Title, long.Group, long.URL = strings.Repeat("<", 512), strings.Repeat("&", 253), ""
	for _, m := range []Message{example(v1alpha1.NotifyFailed), long} {
		if called, failure := s.Send(t.Context(), &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverSlack, URL: s.URL}, Credentials{}, m, ""); failure != nil || called != "" {
			t.Errorf("%q, %v", called, failure)
		}
	}
}

// TestDiscord checks that a Discord webhook posts and edits messages within the limits, mentions no users, and posts
// a message again if it was deleted.
func TestDiscord(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(n int, r *http.Request, raw []byte) (int, string) {
		body := fields(t, raw)
		embeds, _ := body["embeds"].([]any)
		mentions, _ := body["allowed_mentions"].(map[string]any)
		parse, isList := mentions["parse"].([]any)
		if len(embeds) != 1 || !isList || len(parse) != 0 {
			return 400, `{"code": 50006}`
		}
		embed, _ := embeds[0].(map[string]any)
		title, _ := embed["title"].(string)
		at, _ := embed["timestamp"].(string)
		list, _ := embed["fields"].([]any)
		if _, err := time.Parse(time.RFC3339, at); err != nil || title == "" || len(title) > 256 || len(list) > 25 {
			return 400, `{"code": 50035}`
		}
		for _, each := range list {
			f, _ := each.(map[string]any)
			if name, _ := f["name"].(string); name == "" || len(name) > 256 || f["value"] == "" || len(fmt.Sprint(f["value"])) > 1024 {
				return 400, `{"code": 50035}`
			}
		}
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/api/webhooks/1/secret" && r.URL.Query().Get("wait") == "true":
			return 200, fmt.Sprintf(`{"id": "100%d"}`, n)
		case r.Method == http.MethodPatch && r.URL.Path == "/api/webhooks/1/secret/messages/1001":
			return 200, `{"id": "1001"}`
		}
		return 404, `{"message": "Unknown Message", "code": 10008}`
	})
	r := &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverDiscord}
	c := Credentials{URL: s.URL + "/api/webhooks/1/secret?thread_id=5"}
	m := example(v1alpha1.NotifyFailed)
	m.Title = strings.Repeat("é", 256)
	var calls []string
	for _, edit := range []string{"", "1001", "999", "../../x"} {
		called, failure := s.Send(t.Context(), r, c, m, edit)
		calls = append(calls, fmt.Sprint(called, " ", failure))
	}
	if diff := cmp.Diff([]string{"1001 <nil>", "1001 <nil>", "1004 <nil>", "1005 <nil>"}, calls); diff != "" {
		t.Error(diff)
	}
	want := []string{
		"POST /api/webhooks/1/secret?thread_id=5&wait=true", "PATCH /api/webhooks/1/secret/messages/1001?thread_id=5", "PATCH /api/webhooks/1/secret/messages/999?thread_id=5",
		"POST /api/webhooks/1/secret?thread_id=5&wait=true", "POST /api/webhooks/1/secret?thread_id=5&wait=true",
	}
	if diff := cmp.Diff(want, s.requests); diff != "" {
		t.Error(diff)
	}
}

// TestTeams checks that a Microsoft Teams workflow receives one Adaptive Card.
func TestTeams(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(int, *http.Request, []byte) (int, string) { return 202, "" })
	if called, failure := s.Send(t.Context(), &v1alpha1.NotificationReceiver{Type: v1alpha1.ReceiverTeams, URL: s.URL}, Credentials{}, example(v1alpha1.NotifyFailed), ""); failure != nil || called != "" {
		t.Fatalf("%q, %v", called, failure)
	}
	want := map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil,
		"content": map[string]any{
			"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
			"body": []any{
				map[string]any{"type": "TextBlock", "text": `shop 1.1.0 failed: exit 1: "no <database>"`, "weight": "Bolder", "wrap": true, "color": "Attention"},
				map[string]any{"type": "FactSet", "facts": []any{
					map[string]any{"title": "Namespace", "value": "shop"}, map[string]any{"title": "Group", "value": "1.x"}, map[string]any{"title": "Version", "value": "1.1.0"},
					map[string]any{"title": "Commit", "value": "4be1c02d"}, map[string]any{"title": "Next", "value": "hlnr retry -n shop shop 1.1.0"},
				}},
			},
			"actions": []any{map[string]any{"type": "Action.OpenUrl", "title": "Open the board", "url": "https://board.example.com/services/shop/shop"}},
		},
	}}}
	if diff := cmp.Diff(want, fields(t, s.bodies[0])); diff != "" {
		t.Error(diff)
	}
}

// TestAnswersHideSecrets checks that secrets that a response repeats are not shown.
func TestAnswersHideSecrets(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(_ int, r *http.Request, _ []byte) (int, string) {
		return http.StatusForbidden, "no permission for " + r.Header.Get("Authorization") + " at http://" + r.Host + r.URL.RequestURI() + " or " + r.URL.Path
	})
	secret := Credentials{Token: "xoxb-1234", URL: s.URL + "/services/T0/B0/s3cret?key=k3y"}
	for _, kind := range []v1alpha1.ReceiverType{v1alpha1.ReceiverWebhook, v1alpha1.ReceiverCloudEvents, v1alpha1.ReceiverTeams, v1alpha1.ReceiverDiscord, v1alpha1.ReceiverSlack} {
		_, failure := s.Send(t.Context(), &v1alpha1.NotificationReceiver{Name: "r", Type: kind, Channel: "C1"}, secret, Message{ID: "1"}, "")
		if failure == nil {
			t.Fatalf("%s: it was accepted", kind)
		}
		for _, part := range []string{"xoxb-1234", "s3cret", "k3y"} {
			if strings.Contains(failure.Error(), part) {
				t.Errorf("%s: %q shows %q", kind, failure, part)
			}
		}
	}
}
