package github

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-github/v57/github"

	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// FuzzPullRequest parses arbitrary pull requests.
func FuzzPullRequest(f *testing.F) {
	f.Add([]byte(`{"number":1,"state":"open","head":{"ref":"topic","sha":"` + strings.Repeat("a", 40) + `"},"labels":[null,{"name":"x"}]}`))
	f.Add([]byte(`{"number":1,"state":"open","user":null,"head":{"repo":null},"base":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var p github.PullRequest
		if json.Unmarshal(text, &p) != nil {
			return
		}
		got, err := pullRequest(&p)
		if err != nil {
			return
		}
		if got.Number <= 0 || !shaPattern.MatchString(got.HeadSHA) || len(got.Title) > maxTitle || len(got.HeadRef) > maxRef || len(got.Labels) > maxLabels || len(got.URL) > maxURL {
			t.Errorf("pull request %+v is out of bounds", got)
		}
	})
}

// unescaped matches unescaped markup, HTML, mentions and URLs.
var unescaped = regexp.MustCompile("(^|[^\\\\])[*_`\\[\\]()!~|.:/]|[<>]|[@#][^\u200b]|[@#]$")

// FuzzEscapeMarkdown checks that no part of escaped text has a special meaning.
func FuzzEscapeMarkdown(f *testing.F) {
	f.Add("**a** <b> @c #1 [d](e) `f` \\")
	f.Add("\\\\*a")
	f.Fuzz(func(t *testing.T, text string) {
		got := EscapeMarkdown(text, 200)
		// A backslash before a markup character escapes that character only if the backslash itself is not escaped.
		plain := strings.ReplaceAll(got, `\\`, "")
		if found := unescaped.FindString(plain); found != "" {
			t.Errorf("%q becomes %q, with %q", text, got, found)
		}
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r") {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

// FuzzParseWebhook parses arbitrary signed payloads.
func FuzzParseWebhook(f *testing.F) {
	f.Add("pull_request", []byte(`{"action":"opened","number":1,"repository":{"full_name":"acme/shop"}}`))
	f.Add("registry_package", []byte(`{"registry_package":null}`))
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		r, err := http.NewRequest(http.MethodPost, "http://heighliner.example/", io.NopCloser(bytes.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", event)
		r.Header.Set("X-GitHub-Delivery", "1")
		r.Header.Set("X-Hub-Signature-256", githubtest.Sign(body, secret))
		e, err := ParseWebhook(r, secret, 1<<20)
		if err == nil && (len(e.Type) > maxName || len(e.Action) > maxName || len(e.Repository) > maxName || len(e.Package) > maxName) {
			t.Errorf("event %+v is out of bounds", e)
		}
	})
}
