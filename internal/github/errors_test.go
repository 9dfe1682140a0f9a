package github

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// answering returns a client for a server that responds to writes with the given response, and to reads
// with an empty list.
func answering(t *testing.T, code int, header map[string]string, body string) *Client {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, "[]")
			return
		}
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(front.Close)
	pool := NewPool(Options{Outbound: loopback(t), Clock: testclock.NewFakeClock(time.Date(2100, 3, 1, 12, 0, 0, 0, time.UTC))})
	return must(pool.Client(Config{BaseURL: front.URL, Credential: Credential{Token: "secret-a"}}))(t)
}

// TestRefusalsAreDistinguished checks the reasons for which GitHub responds with 403. Only a few of them mean that a
// permission is missing, and a problem with one pull request does not affect the others.
func TestRefusalsAreDistinguished(t *testing.T) {
	body := func(message string) string {
		return fmt.Sprintf(`{"message":%q,"documentation_url":"https://docs.github.com/rest","status":"403"}`, message)
	}
	tests := map[string]struct {
		code   int
		header map[string]string
		body   string
		want   Kind
		words  string
		avoid  string
	}{
		"locked":                          {403, nil, body("Unable to create comment because issue is locked."), Locked, "unlock it", "permission"},
		"locked, with permissions":        {403, map[string]string{"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write"}, body("Unable to create comment because issue is locked."), Locked, "unlock it", "permission"},
		"lacks a permission":              {403, map[string]string{"X-Accepted-GitHub-Permissions": "issues=write"}, body("Resource not accessible by integration"), Forbidden, "issues=write", ""},
		"token lacks a permission":        {403, nil, body("Resource not accessible by personal access token"), Forbidden, "pull_requests=write", ""},
		"needs rights":                    {403, nil, body("Must have admin rights to Repository."), Forbidden, "pull_requests=write", ""},
		"archived":                        {403, nil, body("Repository was archived so is read-only."), Forbidden, "unarchive", "permission"},
		"suspended App":                   {403, nil, body("This installation has been suspended"), Blocked, "unsuspend", "permission"},
		"IP allow list":                   {403, nil, body("Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled, and your IP address is not permitted to access this resource."), Blocked, "allow list", "permission"},
		"OAuth restrictions":              {403, nil, body("Although you appear to have the correct authorization credentials, the `acme` organization has enabled OAuth App access restrictions"), Blocked, "owner of the organization", "permission"},
		"single sign-on":                  {403, map[string]string{"X-GitHub-SSO": "required; url=https://github.com/orgs/acme/sso"}, body("Resource protected by organization SAML enforcement. You must grant your Personal Access token access to this organization."), Blocked, "single sign-on", "permission"},
		"single sign-on by header":        {403, map[string]string{"X-GitHub-SSO": "partial-results; organizations=1"}, body("Forbidden"), Blocked, "single sign-on", "permission"},
		"lifetime of the token":           {403, nil, body("The 'acme' organization forbids access via a fine-grained personal access tokens if the token's lifetime is greater than 366 days."), Blocked, "rules of the organization", "permission"},
		"managed user":                    {403, nil, body("As an Enterprise Managed User, you cannot access this content"), Blocked, "enterprise", "permission"},
		"blocked":                         {403, nil, `{"message":"Repository access blocked","block":{"reason":"tos"}}`, Blocked, "support", "permission"},
		"blocked for legal reasons":       {451, nil, `{"message":"Repository access blocked","block":{"reason":"dmca","created_at":"2020-01-01T00:00:00Z","html_url":"x"}}`, Blocked, "support", "spec.baseURL"},
		"another reason":                  {403, nil, body("You can't perform that action at this time."), Denied, "check on GitHub that the credential", ""},
		"another reason, and permissions": {403, map[string]string{"X-Accepted-GitHub-Permissions": "issues=write"}, body("You can't perform that action at this time."), Denied, "issues=write", ""},
		"not JSON":                        {403, nil, "<html>", Denied, "check on GitHub that the credential", ""},
		"API version":                     {400, nil, `{"message":"\"2022-11-28\" is not a supported version.","documentation_url":"x","status":"400"}`, Invalid, "version", "spec.baseURL"},
		"value":                           {422, nil, `{"message":"Validation Failed","errors":["Body is too long (maximum is 65536 characters)"],"documentation_url":"x"}`, Invalid, "when its content changes", ""},
		"submitted too quickly":           {422, nil, `{"message":"Validation Failed","errors":[{"resource":"IssueComment","code":"unprocessable","field":"data","message":"was submitted too quickly"}],"documentation_url":"x","status":"422"}`, RateLimited, "limits the rate of requests", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := answering(t, test.code, test.header, test.body).EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "x", Body: "b"})
			isKind(t, err, test.want)
			if !strings.Contains(err.Error(), test.words) {
				t.Errorf("message %q does not name %q", err, test.words)
			}
			if test.avoid != "" && strings.Contains(err.Error(), test.avoid) {
				t.Errorf("message %q mentions %q", err, test.avoid)
			}
		})
	}
}

// TestSuspendedInstallation checks that a suspended installation issues no tokens, and that its earlier tokens are not accepted.
func TestSuspendedInstallation(t *testing.T) {
	w := newWorld(t)
	w.AddApp(7, &key().PublicKey)
	id := w.Install(7, "acme", false, githubtest.Access{})
	app := Credential{App: &App{ID: 7, Owner: "acme", PrivateKey: keyPEM()}}
	w.Suspend(id, true)
	_, err := w.client(app).Repository(t.Context(), shop)
	isKind(t, err, Blocked)
	w.Suspend(id, false)
	must(w.client(app).Repository(t.Context(), shop))(t)
	w.Suspend(id, true)
	_, err = w.client(app).Repository(t.Context(), shop)
	isKind(t, err, Blocked)
	if want := "unsuspend"; !strings.Contains(err.Error(), want) {
		t.Errorf("message %q does not name %q", err, want)
	}
}

// TestSubmittedTooQuickly checks that content that is submitted too quickly is reported as a GitHub limit, and not as an invalid value.
func TestSubmittedTooQuickly(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	w.Fail(githubtest.Fault{Route: commentRoute, Answer: githubtest.TooQuickly, Times: 1})
	write := func() error {
		_, err := w.token().EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "x", Body: "b"})
		return err
	}
	err := write()
	isKind(t, err, RateLimited)
	w.retryAt(err, defaultPause)
	w.clock.Step(defaultPause)
	if err := write(); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	w.Fail(githubtest.Fault{Route: editRoute, Answer: githubtest.Validation, Times: 1})
	w.repo.Comment(1, "octocat", "old")
	_, err = w.token().EnsureComment(t.Context(), shop, 1, CommentState{ID: w.repo.Comments(1)[0].ID}, Comment{Key: "y", Body: "b"})
	isKind(t, err, Invalid)
}
