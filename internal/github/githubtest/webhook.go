package githubtest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Delivery is a request from GitHub to a webhook. A repeated delivery has the same content.
type Delivery struct {
	// ID identifies the delivery.
	ID string
	// Event is the type of the event, such as "pull_request".
	Event string
	// Payload is the JSON body.
	Payload []byte
}

// Request creates the request that sends a delivery to a URL, and signs it with a secret. If the secret is empty, the request has no signature, as
// on GitHub.
func (d Delivery) Request(ctx context.Context, address string, secret []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(d.Payload))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "GitHub-Hookshot/"+d.ID)
	r.Header.Set("X-GitHub-Delivery", d.ID)
	r.Header.Set("X-GitHub-Event", d.Event)
	r.Header.Set("X-GitHub-Hook-ID", "1")
	if len(secret) > 0 {
		r.Header.Set("X-Hub-Signature-256", Sign(d.Payload, secret))
	}
	return r, nil
}

// Sign returns the value of the X-Hub-Signature-256 header for a payload.
func Sign(payload, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(payload)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// Send sends a delivery and returns the status of the response. To repeat a delivery, as the button in GitHub's settings does, call Send again.
// Deliveries are not repeated automatically.
func (d Delivery) Send(ctx context.Context, client *http.Client, address string, secret []byte) (int, error) {
	r, err := d.Request(ctx, address, secret)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, err
}

// event creates a delivery from the reference's example of the event type.
func (r *Repository) event(kind, action string, set func(map[string]any)) Delivery {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	values := fields{"repository": r.s.repository(r), "sender": r.s.user("octocat")}
	if action != "" {
		values["action"] = action
	}
	body := r.s.fill("event-"+kind, values)
	if body == nil {
		return Delivery{}
	}
	set(body)
	text, err := json.Marshal(body)
	if err != nil {
		r.s.fail("make event %s: %v", kind, err)
	}
	id := r.s.nextID()
	return Delivery{ID: fmt.Sprintf("%08x-0000-11ee-8000-%012x", id, id), Event: kind, Payload: text}
}

// Ping creates the delivery that a new webhook receives.
func (r *Repository) Ping() Delivery { return r.event("ping", "", func(map[string]any) {}) }

// PullRequestEvent creates a delivery with the current state of a pull request.
func (r *Repository) PullRequestEvent(n int, action string) Delivery {
	return r.event("pull_request", action, func(body map[string]any) {
		body["number"], body["pull_request"] = n, r.s.pull(r, r.pull(n), "pull-request-in-list")
	})
}

// PushEvent creates a delivery about a push to a branch.
func (r *Repository) PushEvent(branch, sha string) Delivery {
	return r.event("push", "", func(body map[string]any) { body["ref"], body["after"] = "refs/heads/"+branch, sha })
}

// PackageEvent creates a delivery about a package. Webhooks of a repository receive package deliveries, and webhooks of an App receive
// registry_package deliveries.
func (r *Repository) PackageEvent(kind, name string) Delivery {
	return r.event(kind, "published", func(body map[string]any) {
		about := decode(body[kind])
		about["name"] = name
		body[kind] = about
	})
}
