package notify

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
)

// TestSlackChannelThatMoved covers a team that archives its channel and sets another channel, or moves to another workspace, while the
// message about a rollout in progress is in the previous channel. The next transition must create a new message in the channel of the policy.
// If it caused an error instead, the message would be retried for 24 hours, and all other messages to the receiver would wait for it.
func TestSlackChannelThatMoved(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"channel_not_found", "is_inactive"} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			var calls []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					Channel string `json:"channel"`
				}
				if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
					t.Error(err)
				}
				calls = append(calls, r.URL.Path+" "+m.Channel)
				answer := `{"ok": true, "channel": "CNEW", "ts": "2.0"}`
				if m.Channel == "COLD" {
					answer = `{"ok": false, "error": "` + refusal + `"}`
				}
				if _, err := w.Write([]byte(answer)); err != nil {
					t.Error(err)
				}
			}))
			t.Cleanup(server.Close)
			allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := NewSender(allowed, nil, "test")
			if err != nil {
				t.Fatal(err)
			}
			r := &v1alpha1.NotificationReceiver{Name: "chat", Type: v1alpha1.ReceiverSlack, URL: server.URL, Channel: "CNEW"}
			id, failure := s.Send(t.Context(), r, Credentials{Token: "xoxb-1"}, Message{ID: "1", Title: "shop 1.1.0 is active"}, "COLD/1.0")
			if failure != nil || id != "CNEW/2.0" || !slices.Contains(calls, "/chat.postMessage CNEW") {
				t.Errorf("message %q, failure %v, calls %q", id, failure, calls)
			}
		})
	}
}
