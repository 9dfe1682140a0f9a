//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

const (
	notifyKey = "e2e-notifications"
	chatPath  = "/api/webhooks/1/token"
)

// TestNotifications reports rollouts to a webhook, a broker, and a chat. Each start, wait, and end is
// reported once and with a signature. In the chat, which supports edits, there is one message for each
// rollout. No message is lost while a receiver is unavailable and the manager is killed. A receiver that
// never responds does not delay releases.
func TestNotifications(t *testing.T) {
	s := newService(t, "notify").steps(asking("tenth", 10))
	in := &inbox{t: t, receiver: receiver{key: []byte(notifyKey)}, status: map[string]int{}, chat: map[string][]string{}}
	in.url = serveInside(t, in)
	s.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "webhook"}, StringData: map[string]string{"url": in.url + "/hooks/confidential", "key": notifyKey}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "chat"}, StringData: map[string]string{"url": in.url + chatPath}},
		&v1alpha1.NotificationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "team"}, Spec: v1alpha1.NotificationPolicySpec{
			BoardURL: "https://board.example.com",
			Receivers: []v1alpha1.NotificationReceiver{
				{Name: "hook", Type: v1alpha1.ReceiverWebhook, SecretRef: &v1alpha1.Reference{Name: "webhook"}},
				{Name: "broker", Type: v1alpha1.ReceiverCloudEvents, URL: in.url + "/broker"},
				{Name: "chat", Type: v1alpha1.ReceiverDiscord, SecretRef: &v1alpha1.Reference{Name: "chat"}},
				{Name: "silent", Type: v1alpha1.ReceiverWebhook, URL: in.url + "/silent"},
			},
		}},
	)
	s.start("1.0.0")
	l := s.load(50, false)
	in.got("hook", "1.0.0", "Promoted")

	s.push("1.1.0")
	in.got("hook", "1.1.0", "Waiting")
	in.answer("hook", http.StatusServiceUnavailable)
	s.decide("1.1.0", v1alpha1.DecisionContinue, "tenth")
	s.active("1.1.0")
	if err := (&killer{}).kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.push("1.2.0", "FAIL_READINESS", "true")
	s.status("1.2.0", v1alpha1.ReleaseError)
	in.answer("hook", 0)

	// The end of every rollout is reported to all receivers that respond, and each release's last state is reported to a
	// receiver that was unavailable.
	for _, receiver := range []string{"hook", "broker"} {
		in.got(receiver, "1.1.0", "Promoted")
		in.got(receiver, "1.2.0", "Failed")
	}
	wait(t, "one message for each rollout in the chat", func(context.Context) (bool, string, error) {
		texts := in.chatTexts()
		return len(texts) == 3 && strings.Contains(texts[1], "1.1.0 is active") && strings.Contains(texts[2], "1.2.0"), fmt.Sprintf("%q", texts), nil
	})
	for _, transition := range in.repeated() {
		t.Errorf("reported with more than one ID: %s", transition)
	}
	wait(t, "the policy to have delivered all messages, except to the receiver that never responds", func(ctx context.Context) (bool, string, error) {
		var p v1alpha1.NotificationPolicy
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "team"}, &p)
		var waiting []string
		for _, r := range p.Status.Receivers {
			if r.Name != "silent" && r.Pending > 0 {
				waiting = append(waiting, fmt.Sprintf("%s: %d", r.Name, r.Pending))
			}
		}
		return err == nil && len(p.Status.Receivers) == 4 && len(waiting) == 0, fmt.Sprint(waiting), err
	})
	shown := kubectl(t, "", "get", "notificationpolicies.hlnr.io,events", "-n", s.namespace, "-o", "yaml")
	if strings.Contains(shown, "confidential") || strings.Contains(shown, notifyKey) || strings.Contains(shown, chatPath) {
		t.Error("a status or an event contains the content of a Secret")
	}
	s.sees(l, "1.1.0")
	verdict(t, l)
	t.Logf("%d calls, of which %d were rejected while the webhook was unavailable", in.count(), in.rejected())
}

// inbox receives notifications in the cluster's network.
type inbox struct {
	receiver
	t   *testing.T
	url string

	mu       sync.Mutex
	status   map[string]int // The status codes by receiver, instead of 200.
	messages []notification
	calls    int
	refused  int
	chat     map[string][]string // The texts, by the message's ID.
	order    []string
}

// notification is a message that a receiver accepted.
type notification struct {
	ID        string `json:"id"`
	Event     string `json:"event"`
	Receiver  string `json:"receiver"`
	Version   string `json:"version"`
	Namespace string `json:"namespace"`
	Command   string `json:"command"`
	URL       string `json:"url"`
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return // The manager was killed during the call.
	}
	if req.URL.Path == "/silent" {
		<-req.Context().Done()
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.calls++
	switch {
	case req.URL.Path == "/hooks/confidential":
		var m notification
		in.accept(w, req, m, json.Unmarshal(body, &m), "hook", body, func() { in.messages = append(in.messages, m) })
	case req.URL.Path == "/broker":
		var event struct {
			Data struct {
				CustomData notification `json:"customData"`
			} `json:"data"`
		}
		err := json.Unmarshal(body, &event)
		m := event.Data.CustomData
		in.accept(w, req, m, err, "broker", nil, func() { in.messages = append(in.messages, m) })
	case strings.HasPrefix(req.URL.Path, chatPath):
		in.post(w, req, body)
	default:
		in.t.Errorf("%s %s", req.Method, req.URL)
		http.NotFound(w, req)
	}
}

// accept responds to a webhook. signed is the body of a signed call.
func (in *inbox) accept(w http.ResponseWriter, req *http.Request, m notification, err error, name string, signed []byte, keep func()) {
	if status := in.status[name]; status != 0 {
		in.refused++
		w.WriteHeader(status)
		return
	}
	if err != nil {
		in.t.Errorf("%s: %v", name, err)
	}
	if signed != nil {
		if want := in.signature(req, signed); want != req.Header.Get("X-Heighliner-Signature") {
			in.t.Errorf("%s: signature %q, want %q", name, req.Header.Get("X-Heighliner-Signature"), want)
		}
	}
	if m.ID == "" || m.ID != req.Header.Get("X-Heighliner-Delivery") {
		in.t.Errorf("%s: id %q, and delivery %q", name, m.ID, req.Header.Get("X-Heighliner-Delivery"))
	}
	keep()
}

// post stores a message in the chat, or an edit of a message.
func (in *inbox) post(w http.ResponseWriter, req *http.Request, body []byte) {
	var message struct {
		Embeds []struct{ Title string } `json:"embeds"`
	}
	if err := json.Unmarshal(body, &message); err != nil || len(message.Embeds) != 1 {
		in.t.Errorf("chat: %v %s", err, body)
		http.Error(w, "invalid", http.StatusBadRequest)
		return
	}
	id := strings.TrimPrefix(req.URL.Path, chatPath+"/messages/")
	if req.Method == http.MethodPost {
		id = strconv.Itoa(1000 + len(in.order))
		in.order = append(in.order, id)
	}
	in.chat[id] = append(in.chat[id], message.Embeds[0].Title)
	fmt.Fprintf(w, `{"id": %q}`, id)
}

// answer sets the status code of a receiver; 0 means success.
func (in *inbox) answer(name string, status int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.status[name] = status
}

// got waits for a message about a version.
func (in *inbox) got(receiver, version, event string) {
	in.t.Helper()
	within(in.t, 7*time.Minute, fmt.Sprintf("%s to get %s of %s", receiver, event, version), func(context.Context) (bool, string, error) { // The manager waits up to five minutes before it retries.
		in.mu.Lock()
		defer in.mu.Unlock()
		var events []string
		for _, m := range in.messages {
			if m.Receiver == receiver && m.Version == version {
				events = append(events, m.Event)
			}
		}
		return slices.Contains(events, event), strings.Join(events, ", "), nil
	})
}

// chatTexts returns the last text of each message in the chat, oldest message first.
func (in *inbox) chatTexts() (out []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, id := range in.order {
		out = append(out, in.chat[id][len(in.chat[id])-1])
	}
	return out
}

// repeated returns the transitions that a receiver accepted with several IDs.
func (in *inbox) repeated() (out []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	known := map[string]string{}
	for _, m := range in.messages {
		key := strings.Join([]string{m.Receiver, m.Version, m.Event}, " ")
		if id := known[key]; id != "" && id != m.ID {
			out = append(out, key)
		}
		known[key] = m.ID
	}
	return out
}

func (in *inbox) count() int { in.mu.Lock(); defer in.mu.Unlock(); return in.calls }

func (in *inbox) rejected() int { in.mu.Lock(); defer in.mu.Unlock(); return in.refused }
