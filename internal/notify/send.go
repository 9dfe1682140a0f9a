package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/outbound"
)

// timeout is the timeout for one message, and maxAnswer is the maximum number of bytes that are read from a
// response.
const (
	timeout   = 10 * time.Second
	maxAnswer = 64 << 10
)

// Credentials are the credentials of a receiver from its Secrets.
type Credentials struct {
	// URL replaces the URL in the specification. It is empty if the Secrets contain no URL.
	URL string
	// Token is sent as a bearer token. It is empty if there is no token.
	Token string
	// GitHub and Repository are the credentials and the repository of a GitHubRepository, for commit statuses.
	GitHub     github.Credential
	Repository github.Repo
	// Key signs the body. If Key is nil, the body is not signed.
	Key []byte
	// CA contains certificate authorities in PEM format. If CA is nil, the system's authorities are used.
	CA []byte
}

// leastPart is the minimum length of a path segment that is treated as a possible token. Slack, Teams and Discord tokens are
// longer than this, and shorter segments are ordinary words.
const leastPart = 9

// hide replaces the secrets in a response, because the status shows responses.
func (c Credentials) hide(answer string) string {
	secrets := []string{c.Token, c.URL}
	if u, err := url.Parse(c.URL); err == nil {
		secrets = append(secrets, u.RequestURI(), u.Path)
		for _, part := range slices.Concat(strings.Split(u.Path, "/"), strings.Split(u.EscapedPath(), "/")) {
			if len(part) >= leastPart {
				secrets = append(secrets, part)
			}
		}
		for _, values := range u.Query() {
			secrets = append(secrets, values...)
		}
		for _, part := range strings.Split(u.RawQuery, "&") { // The encoded values are hidden too, because responses may repeat them without decoding.
			if _, value, _ := strings.Cut(part, "="); value != "" {
				secrets = append(secrets, value)
			}
		}
	}
	const least = 3 // Shorter strings, such as the path /, are not secret, and may occur in any response.
	for _, s := range secrets {
		if len(s) >= least {
			answer = strings.ReplaceAll(answer, s, "(hidden)")
		}
	}
	return answer
}

// Sender sends messages. It is safe for concurrent use.
type Sender struct {
	policy    *outbound.Policy
	shared    *http.Client
	github    *github.Pool
	userAgent string
}

// NewSender returns a sender that calls only addresses that a policy allows. The sender uses the given pool
// for calls to GitHub.
func NewSender(policy *outbound.Policy, pool *github.Pool, userAgent string) (*Sender, error) {
	client, err := policy.Client(clientOptions(nil))
	if err != nil {
		return nil, err
	}
	return &Sender{policy: policy, shared: client, github: pool, userAgent: userAgent}, nil
}

func clientOptions(ca []byte) outbound.Options {
	return outbound.Options{Timeout: timeout, MaxBody: maxAnswer, CA: ca}
}

// Send sends a message. edit is the ID of the message to edit, or empty for a new message. Send returns the ID that the
// receiver assigned to the message, or an empty string if the message cannot be edited.
func (s *Sender) Send(ctx context.Context, r *v1alpha1.NotificationReceiver, c Credentials, m Message, edit string) (string, *Error) {
	if r.Type == v1alpha1.ReceiverGitHubStatus {
		return s.commitStatus(ctx, r, c, m, edit)
	}
	address := cmp.Or(c.URL, r.URL)
	if r.Type == v1alpha1.ReceiverSlack && c.Token != "" {
		address = cmp.Or(address, slackAPI)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", errorf("the address must be an absolute http or https URL without a username or password: correct url, or the url key of the Secret")
	}
	switch {
	case r.Type == v1alpha1.ReceiverSlack && c.Token != "":
		return s.slack(ctx, u, r.Channel, c, m, edit)
	case r.Type == v1alpha1.ReceiverDiscord:
		return s.discord(ctx, u, c, m, edit)
	}
	body, kind, err := bodyOf(r, m)
	if err != nil {
		failure := errorf("%s", err)
		failure.Rejected = true
		return "", failure
	}
	_, failure := s.post(ctx, call{method: http.MethodPost, address: address, kind: kind, id: m.ID, body: body}, c)
	return "", failure
}

// bodyOf returns the body of a message and its media type.
func bodyOf(r *v1alpha1.NotificationReceiver, m Message) (body []byte, kind string, err error) {
	kind = "application/json"
	switch {
	case r.Type == v1alpha1.ReceiverCloudEvents:
		body, err = cloudEventOf(m)
		return body, "application/cloudevents+json; charset=utf-8", err
	case r.Type == v1alpha1.ReceiverSlack:
		body, err = json.Marshal(slackMessageOf(m))
		return body, kind, err
	case r.Type == v1alpha1.ReceiverTeams:
		body, err = json.Marshal(teamsMessageOf(m))
		return body, kind, err
	case r.Template != "":
		if r.ContentType != "" {
			kind = r.ContentType
		}
		body, err = render(r.Template, m)
		return body, kind, err
	}
	body, err = json.Marshal(m)
	return body, kind, err
}

// call is an HTTP request.
type call struct {
	method, address, kind, id string
	body                      []byte
}

// post sends a request, and returns the body of its response.
func (s *Sender) post(ctx context.Context, c call, with Credentials) ([]byte, *Error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, c.method, c.address, bytes.NewReader(c.body))
	if err != nil {
		return nil, errorOf(err)
	}
	request.Header.Set("Content-Type", c.kind)
	request.Header.Set("User-Agent", s.userAgent)
	request.Header.Set(hook.HeaderDelivery, c.id)
	if with.Token != "" {
		request.Header.Set("Authorization", "Bearer "+with.Token)
	}
	if with.Key != nil {
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		request.Header.Set(hook.HeaderTimestamp, stamp)
		request.Header.Set(hook.HeaderSignature, hook.Sign(with.Key, stamp, c.body))
	}
	client := s.shared
	if with.CA != nil {
		if client, err = s.policy.Client(clientOptions(with.CA)); err != nil {
			return nil, errorOf(err)
		}
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, errorOf(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode < 200 || answer.StatusCode >= 300 {
		return nil, errorOfAnswer(answer, with.hide(string(body)))
	}
	if err != nil {
		return nil, nil //nolint:nilerr // the message was accepted, so a retry would send it twice
	}
	return body, nil
}
