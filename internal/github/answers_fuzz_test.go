package github

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/test/await"
)

// played sends two responses in turn, and records the hosts that received the token.
type played struct {
	code   []int
	header []string
	body   []string
	n      int
	leaked string
}

func (p *played) RoundTrip(r *http.Request) (*http.Response, error) {
	i := p.n % len(p.code)
	if p.n++; p.n > 80 {
		return nil, errors.New("enough")
	}
	if r.URL.Host != "ghe.example" && r.Header.Get("Authorization") != "" {
		p.leaked = r.URL.String()
	}
	h := http.Header{}
	for _, line := range strings.Split(p.header[i], "\n") {
		if k, v, ok := strings.Cut(line, ": "); ok && k != "" {
			h.Add(k, v)
		}
	}
	return &http.Response{StatusCode: p.code[i], Status: http.StatusText(p.code[i]), Header: h, Body: io.NopCloser(strings.NewReader(p.body[i])), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// FuzzAnswers checks that, for any responses from GitHub, errors are typed, the numbers of requests and pauses are
// limited, and no other host receives the credential.
func FuzzAnswers(f *testing.F) {
	f.Add(200, "Link: <https://ghe.example/api/v3/x?page=2>; rel=\"next\"\nETag: \"a\"", `[{"number":1,"state":"open","head":{"ref":"a","sha":"`+strings.Repeat("a", 40)+`"}}]`, 304, "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1900000000", ``, uint8(0))
	f.Add(301, "Location: https://evil.example/x", ``, 403, "Retry-After: Thu, 31 Jan 2030 12:01:00 GMT", `{"message":"You have exceeded a secondary rate limit"}`, uint8(1))
	f.Add(200, "Link: <https://ghe.example/api/v3/x?page=99999999999999999999>; rel=\"next\"", `[null]`, 200, "X-RateLimit-Reset: 9223372036854775807\nX-RateLimit-Limit: 1\nX-RateLimit-Remaining: 1", `[{"id":1,"tag_name":"x","published_at":"0000-01-01T00:00:00Z"}]`, uint8(2))
	f.Fuzz(func(t *testing.T, c1 int, h1, b1 string, c2 int, h2, b2 string, op uint8) {
		if c1 < 200 || c1 > 599 || c2 < 200 || c2 > 599 || len(b1)+len(b2)+len(h1)+len(h2) > 20000 {
			return
		}
		base, err := parseBase("https://ghe.example")
		if err != nil {
			t.Fatal(err)
		}
		p := &played{code: []int{c1, c2}, header: []string{h1, h2}, body: []string{b1, b2}}
		c, err := newClient(Config{Credential: Credential{Token: "sesame"}}, base, p, newStore(1<<20), "s", clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		repo := Repo{"acme", "shop"}
		defer await.Quick(t)()
		for range 2 { // the second time with a stored response
			switch op % 7 {
			case 0:
				var all PullRequests
				all, err = c.OpenPullRequests(t.Context(), repo)
				seen := map[int]bool{}
				for _, p := range all.Items {
					if seen[p.Number] || p.HeadRef == "" {
						t.Fatalf("%+v", p)
					}
					seen[p.Number] = true
				}
			case 1:
				_, err = c.Releases(t.Context(), repo)
			case 2:
				_, err = c.Tags(t.Context(), repo)
			case 3:
				_, err = c.Commit(t.Context(), repo, strings.Repeat("a", 40))
			case 4:
				_, err = c.Repository(t.Context(), repo)
			case 5:
				_, err = c.PullRequest(t.Context(), repo, 1)
			case 6:
				_, err = c.Deployments(t.Context(), repo, "hl", strings.Repeat("a", 40), "e")
			}
			var typed *Error
			if err != nil && (!errors.As(err, &typed) || typed.Kind == "" || strings.Contains(err.Error(), "sesame")) {
				t.Fatalf("%T %v", err, err)
			}
			if typed != nil && typed.RetryAt.After(time.Now().Add(maxPause+time.Second)) {
				t.Fatalf("paused until %s", typed.RetryAt)
			}
		}
		if p.leaked != "" {
			t.Fatalf("the token was sent to %s", p.leaked)
		}
		if b := c.Budget(); b.Reset.After(time.Now().Add(maxPause+time.Second)) || b.PausedUntil.After(time.Now().Add(maxPause+time.Second)) {
			t.Fatalf("%+v", b)
		}
	})
}

// FuzzBase checks that parsing a parsed API address again results in the same address.
func FuzzBase(f *testing.F) {
	for _, s := range []string{"", "https://ghe.example.com/", "http://[::1]:80/api/v3", "https://api.github.com/x", "https://GITHUB.com.", "https://github.com:443"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseBase(text)
		if err != nil {
			return
		}
		again, err := parseBase(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q is parsed as %q, and that as %v, %v", text, u, again, err)
		}
		if !strings.HasSuffix(u.Path, "/") || u.User != nil || u.Hostname() == "" {
			t.Fatalf("%q is parsed as %q", text, u)
		}
	})
}

// FuzzCredential checks that any content of a Secret results in a usable credential, or in an error that does not reveal the content.
func FuzzCredential(f *testing.F) {
	f.Add("github_pat_1", "", "", []byte(nil))
	f.Add("", "7", "8", []byte("-----BEGIN RSA PRIVATE KEY-----\nMAA=\n-----END RSA PRIVATE KEY-----\n"))
	f.Add("", "7", "", []byte("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, token, id, installation string, key []byte) {
		defer await.Quick(t)()
		c, err := ReadCredential(map[string][]byte{
			KeyToken: []byte(token), KeyAppID: []byte(id), KeyAppInstallationID: []byte(installation), KeyAppPrivateKey: key,
		}, "acme")
		if err == nil && (c.anonymous() || c.App != nil && (c.App.ID <= 0 || c.App.InstallationID < 0)) {
			t.Errorf("credential %+v", c)
		}
		for _, text := range []string{token, string(key)} {
			if err != nil && len(text) > 16 && strings.Contains(err.Error(), text) {
				t.Errorf("the error reveals the content of the Secret: %v", err)
			}
		}
	})
}
