package github

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/outbound"
)

// MaxPayload is the maximum size of a GitHub webhook payload, in bytes.
const MaxPayload = 25 << 20

// keptPayload is the maximum number of bytes of a payload that are kept in memory. The payload of a pull request with the longest possible text is
// smaller than this maximum. For a push of thousands of commits, the beginning of the payload is sufficient to identify the repository.
const keptPayload = 1 << 20

// Event is the content of a webhook delivery. It only triggers a poll, because the state is always read from the API.
type Event struct {
	// Type is the type in GitHub's spelling: ping, pull_request, release, push, create, delete, package, registry_package and so on.
	Type string
	// Delivery is the ID of the delivery. It does not change when GitHub sends the delivery again.
	Delivery string
	// Action is the action within the type, such as opened, synchronize or closed. It is empty for types without actions.
	Action string
	// Repository is the full name of the repository; empty for events of an organization or an installation.
	Repository string
	// RepositoryID is the ID of the repository, which does not change when the repository is renamed; 0 if the event has no repository.
	RepositoryID int64
	// Number is the number of the pull request; 0 for events without a pull request.
	Number int
	// Updated is the time of the last change to the pull request according to the delivery; zero if the delivery does not contain this time. Closed
	// reports whether the pull request is closed.
	Updated time.Time
	Closed  bool
	// Package is the name of a package, for the package and registry_package types. The tag of the package is not included, because GitHub's value
	// is not reliable.
	Package string
}

// WebhookError reports why a delivery is rejected.
type WebhookError struct {
	// Status is the status code of the response.
	Status int
	// Reason is a fixed string that contains no content from the request.
	Reason string
}

func (e *WebhookError) Error() string { return "read webhook: " + e.Reason }

var deliveryPattern = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// maxDelivery is the maximum length of a delivery ID, in characters.
const maxDelivery = 100

// ParseWebhook reads a delivery of at most maxBytes; 0 means MaxPayload. The X-Hub-Signature-256 header must be valid for the secret, and the
// secret must not be empty. The SHA-1 signature is ignored. Every error is a *WebhookError.
func ParseWebhook(r *http.Request, secret []byte, maxBytes int64) (Event, error) {
	refuse := func(status int, format string, values ...any) (Event, error) {
		return Event{}, &WebhookError{Status: status, Reason: fmt.Sprintf(format, values...)}
	}
	if maxBytes <= 0 {
		maxBytes = MaxPayload
	}
	signature, event := r.Header.Get("X-Hub-Signature-256"), r.Header.Get("X-GitHub-Event")
	delivery := r.Header.Get("X-GitHub-Delivery")
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case len(secret) == 0:
		return refuse(http.StatusForbidden, "there is no secret for verifying the delivery: add a secret to the Secret that spec.webhookSecretRef refers to")
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "the method is not POST")
	case r.ContentLength > maxBytes:
		return refuse(http.StatusRequestEntityTooLarge, "the delivery is larger than %d bytes", maxBytes)
	case !strings.HasPrefix(signature, "sha256="):
		return refuse(http.StatusUnauthorized, "the delivery has no X-Hub-Signature-256 header: set the secret in the settings of the webhook")
	case media != "application/json":
		return refuse(http.StatusUnsupportedMediaType, "the delivery is not JSON: set the content type application/json in the settings of the webhook")
	}
	sum := hmac.New(sha256.New, secret)
	all := io.TeeReader(http.MaxBytesReader(nil, r.Body, maxBytes), sum)
	body, err := io.ReadAll(io.LimitReader(all, keptPayload))
	rest := int64(0)
	if err == nil {
		rest, err = io.Copy(io.Discard, all)
	}
	if err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return refuse(http.StatusRequestEntityTooLarge, "the delivery is larger than %d bytes", maxBytes)
		}
		return refuse(http.StatusBadRequest, "the body of the delivery cannot be read")
	}
	if payload, err := hex.DecodeString(strings.TrimPrefix(signature, "sha256=")); err != nil || !hmac.Equal(payload, sum.Sum(nil)) {
		return refuse(http.StatusUnauthorized, "the signature of the delivery does not match the secret of this webhook: compare the path with status.webhookPath, and compare the secret with the Secret that spec.webhookSecretRef refers to")
	}
	if rest > 0 {
		body = beginning(body)
	}
	if event == "" || len(delivery) > maxDelivery || !deliveryPattern.MatchString(delivery) {
		return refuse(http.StatusBadRequest, "the header X-GitHub-Event or X-GitHub-Delivery is missing or invalid")
	}
	var payload struct {
		Action     string `json:"action"`
		Number     int    `json:"number"`
		Repository struct {
			ID       int64  `json:"id"`
			FullName string `json:"full_name"`
		} `json:"repository"`
		PullRequest struct {
			Number    int    `json:"number"`
			State     string `json:"state"`
			UpdatedAt string `json:"updated_at"`
		} `json:"pull_request"`
		Package         struct{ Name string } `json:"package"`
		RegistryPackage struct{ Name string } `json:"registry_package"`
	}
	if json.Unmarshal(body, &payload) != nil {
		return refuse(http.StatusBadRequest, "the body of the delivery is not a JSON object")
	}
	line := func(text string) string { return outbound.Printable([]byte(text), maxName) }
	e := Event{
		Type: line(event), Delivery: delivery, Action: line(payload.Action), Repository: line(payload.Repository.FullName), RepositoryID: payload.Repository.ID,
		Package: line(payload.Package.Name + payload.RegistryPackage.Name),
	}
	if strings.HasPrefix(event, "pull_request") {
		e.Number, e.Closed = max(payload.Number, payload.PullRequest.Number), payload.PullRequest.State == "closed"
		e.Updated, _ = time.Parse(time.RFC3339, payload.PullRequest.UpdatedAt) // If the text is not a valid time, Updated is zero.
	}
	return e, nil
}

// read contains the fields of a payload that an Event uses.
var read = map[string]bool{
	"action": true, "number": true, "repository": true, "pull_request": true, "package": true, "registry_package": true,
}

// maxFields is the maximum number of fields of a payload that are read. GitHub's payloads have a few dozen fields.
const maxFields = 1000

// beginning takes the text of a JSON object, whose end may be missing, and returns a JSON object with those fields of the text that an Event
// uses. A field whose value is incomplete is omitted.
func beginning(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	whole := map[string]json.RawMessage{}
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return text
	}
	for range maxFields {
		name, err := d.Token()
		key, ok := name.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			break
		}
		if read[key] {
			whole[key] = value
		}
	}
	object, _ := json.Marshal(whole) // Values that were decoded from JSON can always be encoded.
	return object
}
