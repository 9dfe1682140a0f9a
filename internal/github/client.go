package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-github/v57/github"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/certs"
	"github.com/heighliner/heighliner/internal/outbound"
)

// PublicURL is the URL of the API of github.com.
const PublicURL = "https://api.github.com/"

// These limits apply to every client.
const (
	requestTimeout = 30 * time.Second // limit for one request, including its response
	maxRedirects   = 3
	perPage        = 100
	fewPerPage     = 10 // used if a page of perPage items is too large for one response
	maxPages       = 20 // pages of perPage items
)

// Config identifies a client.
type Config struct {
	// BaseURL is the URL of the server. An empty value and https://github.com mean github.com. A URL such as https://acme.ghe.com means GitHub
	// Enterprise Cloud with data residency, whose API is https://api.acme.ghe.com. A URL such as https://ghe.example.com means a GitHub Enterprise
	// Server, whose API is below /api/v3/. Use plain http only for servers in the same cluster.
	BaseURL string
	// Credential is sent with each request. If it is the zero value, no credential is sent.
	Credential Credential
	// CA contains certificates in PEM format that are trusted instead of the system's certificates.
	CA []byte
}

// Repo identifies a repository.
type Repo struct{ Owner, Name string }

// String returns owner/name.
func (r Repo) String() string { return r.Owner + "/" + r.Name }

// maxRepoPart is the maximum length, in characters, of an owner or repository name that is sent to GitHub.
const maxRepoPart = 100

// The patterns of this package do not check lengths, because each time a program starts, a bounded repetition such as
// {1,100} is compiled into 100 copies of the repeated expression. The lengths are checked separately.
var (
	ownerPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

func validOwner(name string) bool { return len(name) <= maxRepoPart && ownerPattern.MatchString(name) }

func validName(name string) bool {
	return len(name) <= maxRepoPart && namePattern.MatchString(name) && name != "." && name != ".."
}

// check rejects names that GitHub does not allow, because the names become part of URL paths.
func (r Repo) check() error {
	if !validOwner(r.Owner) || !validName(r.Name) {
		return &Error{Kind: BadConfig, Op: "name", Object: r.String(), detail: "GitHub does not allow this name", remedy: "set spec.owner to the owner and spec.repo to the name of the repository"}
	}
	return nil
}

// Client sends requests to one server with one credential. It is safe for concurrent use. A [Pool] provides clients.
type Client struct {
	api       *github.Client
	base      *url.URL
	gate      *gate
	anonymous bool
	apps      *github.Client         // authenticates as the GitHub App; nil if the credential is not an App
	login     atomic.Pointer[string] // login of the user or App to which the credential belongs; nil while it is unknown
}

// Host returns the host of the API, with its port, for metrics.
func (c *Client) Host() string { return c.base.Host }

// Budget returns the limits that GitHub last reported for this credential.
func (c *Client) Budget() Budget { return c.gate.budget() }

// newClient returns a client with its own http.Client, because go-github v57 modifies the http.Client that it receives. go-github never gets a
// credential.
func newClient(config Config, base *url.URL, transport http.RoundTripper, answers *store, scope string, c clock.PassiveClock) (*Client, error) {
	client := &Client{base: base, gate: newGate(transport, c), anonymous: config.Credential.anonymous()}
	var source tokenSource = static(config.Credential.Token)
	if app := config.Credential.App; app != nil {
		key, err := certs.RSAKey(app.PrivateKey)
		if err != nil {
			return nil, &Error{Kind: BadConfig, Op: "read", Object: "credential", detail: "the private key cannot be read", remedy: "store an RSA key in PEM format under the key " + KeyAppPrivateKey}
		}
		if app.InstallationID == 0 && !validOwner(app.Owner) {
			return nil, Repo{Owner: app.Owner, Name: "-"}.check()
		}
		// Requests that authenticate as the App itself have separate limits.
		self := &authorize{next: newGate(transport, c), base: base, source: &signer{id: app.ID, key: key, clock: c}}
		client.apps = newAPI(base, &held{next: self, decoding: answers.decoding})
		source = &installation{app: *app, clock: c, apps: client.apps}
	}
	client.api = newAPI(base, &conditional{
		next:  &held{next: &authorize{next: client.gate, base: base, source: source}, decoding: answers.decoding},
		store: answers, scope: scope,
	})
	return client, nil
}

// newAPI returns a go-github client that uses the given transport.
func newAPI(base *url.URL, transport http.RoundTripper) *github.Client {
	api := github.NewClient(&http.Client{Transport: silent{transport}, Timeout: requestTimeout, CheckRedirect: checkRedirect})
	api.BaseURL = base
	api.UserAgent = "heighliner"
	return api
}

// silent hides the rate limits from go-github, which would enforce them with the machine's clock, and would
// support neither status 429 nor the reserve. The gate enforces the limits instead.
type silent struct{ next http.RoundTripper }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(r)
	if err == nil {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			response.Header.Del(name)
		}
	}
	return response, err
}

// checkRedirect follows redirects for renamed repositories on the same server. It never follows a redirect that changes a write into a read.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host:
		return &outbound.RedirectError{From: first.URL.Host, To: next.URL.Scheme + "://" + next.URL.Host}
	case next.Method != first.Method:
		return errMethod
	case len(via) > maxRedirects:
		return errLoop
	}
	return nil
}

// dataResidency is the host name suffix of GitHub Enterprise Cloud with data residency.
const dataResidency = ".ghe.com"

// parseBase parses the address of a server.
func parseBase(text string) (*url.URL, error) {
	if text == "" {
		text = PublicURL
	}
	bad := func(detail string) error {
		return &Error{Kind: BadConfig, Op: "read", Object: "spec.baseURL", detail: detail, remedy: "set it to a URL such as https://ghe.example.com, or omit it for github.com"}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, bad("it is not a URL")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return nil, bad("it is not the URL of a server")
	case u.User != nil:
		return nil, bad("it contains a credential")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, bad("it has a query or a fragment")
	}
	u.Host = strings.ToLower(u.Host)
	switch host := u.Hostname(); {
	case host == "github.com", host == "www.github.com", host == "api.github.com":
		return url.Parse(PublicURL)
	case strings.HasSuffix(host, dataResidency) && strings.Count(host, ".") == 2:
		u.Host, u.Path = "api."+u.Host, ""
	case !strings.HasPrefix(host, "api.") && !strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/api/v3"):
		u.Path = strings.TrimSuffix(u.Path, "/") + "/api/v3"
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	return u, nil
}

// call describes, for error messages, a request about a repository.
func (c *Client) call(op string, repo Repo, part, permission string) call {
	return call{op: op, object: repo.String() + part, permission: permission, anonymous: c.anonymous}
}

// number formats the number of an issue or pull request.
func number(n int) string { return fmt.Sprintf("#%d", n) }

// List is a complete list, or the beginning of a list if Truncated is true.
type List[T any] struct {
	Items []T
	// Truncated reports whether there are more pages than the limit (20 pages of 100 items).
	Truncated bool
	// Unchanged reports whether all pages are unchanged since the last poll. This is the case if all responses have status 304.
	Unchanged bool
}

// pages reads all pages of a list, up to maxPages. If it cannot read a page, it returns only an error. If a page is too large because it contains
// long text, pages continues with smaller pages.
func pages[From, To any](ctx context.Context, c *Client, what call, get func(context.Context, github.ListOptions) ([]*From, *github.Response, error), convert func(*From) (To, bool, error)) (List[To], error) {
	result := List[To]{Unchanged: true}
	options := github.ListOptions{PerPage: perPage, Page: 1}
	for read := 0; read < maxPages*perPage; {
		items, response, err := get(ctx, options)
		if options.PerPage == perPage && errors.As(err, new(*outbound.TooLargeError)) {
			options = github.ListOptions{PerPage: fewPerPage, Page: (options.Page-1)*(perPage/fewPerPage) + 1}
			items, response, err = get(ctx, options)
		}
		if err != nil {
			return List[To]{}, classify(what, err)
		}
		if items == nil { // "null" or an empty body, which is not a list
			return List[To]{}, classify(what, errUnusable)
		}
		for _, item := range items {
			if item == nil {
				return List[To]{}, classify(what, errUnusable)
			}
			converted, wanted, err := convert(item)
			if err != nil {
				return List[To]{}, classify(what, err)
			}
			if wanted {
				result.Items = append(result.Items, converted)
			}
		}
		read += options.PerPage
		unchanged := response.Header.Get(headerUnchanged) != ""
		result.Unchanged = result.Unchanged && unchanged
		next, err := nextPage(c.base, response)
		if err == nil && next == 0 && unchanged && len(items) == options.PerPage {
			// The ETag of a page covers only its items. If the last page is full and one more item is added, the page does not change; only its
			// Link header shows the next page, and a cached Link header may be outdated.
			next = options.Page + 1
		}
		if err == nil && next != 0 && next <= options.Page {
			err = errLoop
		}
		if err != nil {
			return List[To]{}, classify(what, err)
		}
		if next == 0 {
			return result, nil
		}
		options.Page = next
		if done := (next - 1) * options.PerPage; done%perPage == 0 {
			options = github.ListOptions{PerPage: perPage, Page: done/perPage + 1}
		}
	}
	result.Truncated = true
	return result, nil
}

var nextLink = regexp.MustCompile(`<([^<>]*)>;[^,]*rel="next"`)

// nextPage returns the number of the next page, or 0 for the last page. It uses only the page number in the link,
// never the address. A link to another host is an error, because it shows that the response comes from a different
// server.
func nextPage(base *url.URL, response *github.Response) (int, error) {
	match := nextLink.FindStringSubmatch(strings.Join(response.Header.Values("Link"), ","))
	if match == nil {
		return 0, nil
	}
	link, err := base.Parse(match[1])
	if err != nil || link.Scheme != base.Scheme || !strings.EqualFold(link.Host, base.Host) {
		return 0, errLink
	}
	if response.NextPage <= 0 {
		return 0, errLoop
	}
	return response.NextPage, nil
}
