package githubrepository

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// TestPublishedDeliveries checks that all payloads in GitHub's examples are handled correctly, both for
// events that start a poll and for events that do not.
func TestPublishedDeliveries(t *testing.T) {
	d := serve(t)
	f, err := os.Open("../../internal/github/githubtest/testdata/webhooks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	names, announced, count := map[string]string{"": "shop"}, map[string]string{}, 0
	for lines.Scan() {
		count++
		var example struct {
			Event   string
			Payload json.RawMessage
		}
		var payload struct {
			Action     string
			Number     int
			Repository struct {
				FullName string `json:"full_name"`
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &example); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(example.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		full := payload.Repository.FullName
		if names[full] == "" {
			names[full] = fmt.Sprintf("published-%d", len(names))
			d.repository(names[full], func(r *v1alpha1.GitHubRepositorySpec) {
				r.Owner, r.Repo, _ = strings.Cut(full, "/")
				r.WebhookSecretRef = &v1alpha1.Reference{Name: "webhook"}
			})
		}
		what := fmt.Sprintf("%d: %s %s of %q", count, example.Event, payload.Action, full)
		delivery := githubtest.Delivery{ID: fmt.Sprint(count), Event: example.Event, Payload: example.Payload}
		code, err := delivery.Send(t.Context(), d.web, d.path(names[full]), []byte("signs"))
		if err != nil || code != http.StatusAccepted {
			t.Errorf("%s: answered %d, %v", what, code, err)
		}
		want := names[full] + " []"
		switch example.Event {
		case "ping", "pull_request_review":
			want = ""
		case "pull_request":
			want = fmt.Sprintf("%s [%d]", names[full], payload.Number)
		case "package":
			d.after(pollInterval)
			announced[full] = d.announced(names[full], v1alpha1.AnnotationPackageDeliveredAt, announced[full])
			continue
		}
		passed := d.after(pollInterval)
		if found := strings.Contains("\n"+strings.Join(passed, "\n")+"\n", "\n"+want+"\n"); want != "" && !found || want == "" && len(passed) > 0 {
			t.Errorf("%s: passed on %q, want %q", what, passed, want)
		}
	}
	if err := lines.Err(); err != nil || count < 90 {
		t.Errorf("%d examples, %v", count, err)
	}
	d.clock.Step(time.Minute)
}
