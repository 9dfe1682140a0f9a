package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// fast is a backoff with practically no delay.
var fast = remote.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 3}

func scannerAt(c clock.Clock) *Scanner {
	return New(Options{Outbound: registrytest.Outbound(), Clock: c, Backoff: fast})
}

func newClock() *testingclock.FakeClock {
	return testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
}

func numbered(n int) []string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprintf("1.%d.0", i)
	}
	return tags
}

func sorted(tags []string) []string {
	tags = slices.Clone(tags)
	slices.Sort(tags)
	return tags
}

func TestListReadsAllPages(t *testing.T) {
	for name, setup := range map[string]func(*registrytest.Server){
		"one page":                   func(*registrytest.Server) {},
		"pages of 100":               func(s *registrytest.Server) { s.LimitPages(100) },
		"page size refused with 400": func(s *registrytest.Server) { s.LimitPages(50); s.RefusePagesAbove(100) },
		"page size refused with 413": func(s *registrytest.Server) {
			s.LimitPages(50)
			s.FailWhen(func(r *http.Request) bool { return r.URL.Query().Get("n") == "1000" }, -1,
				registrytest.Status(http.StatusRequestEntityTooLarge, "UNSUPPORTED"))
		},
		"page 2 fails once": func(s *registrytest.Server) {
			s.LimitPages(600)
			s.FailWhen(func(r *http.Request) bool { return r.URL.Query().Has("from") }, 1,
				registrytest.Status(http.StatusInternalServerError, "UNKNOWN"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			tags := numbered(1102)
			server.SetTags("acme/web", append([]string{"no tag"}, tags...))
			setup(server)
			scan, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web")})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sorted(tags), scan.Tags); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
			if scan.Truncated {
				t.Error("truncated, want the whole list")
			}
		})
	}
}

func TestListRemembersARefusedPageSize(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(3))
	server.RefusePagesAbove(100)
	scanner := scannerAt(newClock())
	for range 3 {
		if _, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web")}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := server.Requests(registrytest.List), 1+3; got != want {
		t.Errorf("%d list requests, want %d", got, want)
	}
}

func TestListTruncates(t *testing.T) {
	for name, tc := range map[string]struct {
		tags, page, maxPages, maxTags int
		want                          int
		truncated                     bool
	}{
		"below the cap":              {tags: 99, page: 10, maxTags: 100, want: 99},
		"at the cap":                 {tags: 100, page: 10, maxTags: 100, want: 100},
		"above the cap":              {tags: 101, page: 10, maxTags: 100, want: 100, truncated: true},
		"above the cap, in one page": {tags: 200, page: 1000, maxTags: 100, want: 100, truncated: true},
		"page limit":                 {tags: 100, page: 10, maxPages: 3, maxTags: 100, want: 30, truncated: true},
		"page limit reached":         {tags: 30, page: 10, maxPages: 3, maxTags: 100, want: 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.SetTags("acme/web", numbered(tc.tags))
			server.LimitPages(tc.page)
			scanner := New(Options{Outbound: registrytest.Outbound(), Clock: newClock(), Backoff: fast, MaxPages: tc.maxPages})
			scan, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web"), MaxTags: tc.maxTags})
			if err != nil {
				t.Fatal(err)
			}
			if len(scan.Tags) != tc.want || scan.Truncated != tc.truncated {
				t.Errorf("%d tags, truncated %t; want %d, %t", len(scan.Tags), scan.Truncated, tc.want, tc.truncated)
			}
		})
	}
}

// TestListPassesShrunkenListsOn checks that a list that is empty or shorter than the last list is returned to the caller.
func TestListPassesShrunkenListsOn(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	scanner := scannerAt(newClock())
	var sums []string
	for _, n := range []int{100, 10, 0} {
		server.SetTags("acme/web", numbered(n))
		scan, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web")})
		if err != nil {
			t.Fatal(err)
		}
		if len(scan.Tags) != n {
			t.Errorf("%d tags, want %d", len(scan.Tags), n)
		}
		if slices.Contains(sums, scan.Checksum) {
			t.Errorf("checksum %s of %d tags is that of another list", scan.Checksum, n)
		}
		sums = append(sums, scan.Checksum)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	list := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/tags/list") }
	second := func(r *http.Request) bool { return r.URL.Query().Has("from") }
	secret := Credential{Username: "robot", Password: "hunter2"}
	for name, tc := range map[string]struct {
		setup    func(*registrytest.Server)
		request  func(*Request)
		want     Kind
		wantText string
	}{
		"no such repository": {request: func(r *Request) { r.Repository += "-b" }, want: NotFound, wantText: "404 Not Found (NAME_UNKNOWN)"},
		"no repository":      {request: func(r *Request) { r.Repository = "https://example.com/web" }, want: BadName, wantText: "without a tag, digest or scheme"},
		"invalid host":       {request: func(r *Request) { r.Repository = "::/web" }, want: BadName, wantText: "without a tag, digest or scheme"},
		"empty":              {request: func(r *Request) { r.Repository = "" }, want: BadName},
		"a digest":           {request: func(r *Request) { r.Repository += "@sha256:" + strings.Repeat("0", 64) }, want: BadName},
		"a tag":              {request: func(r *Request) { r.Repository += ":1.0.0" }, want: BadName, wantText: "without a tag"},
		"no login": {setup: func(s *registrytest.Server) { s.RequireBasic("robot", "hunter2") },
			want: Unauthorized, wantText: "add a Secret to spec.imagePullSecrets"},
		"wrong basic login": {setup: func(s *registrytest.Server) { s.RequireBasic("robot", "other") },
			request: func(r *Request) { r.Auth = secret }, want: Unauthorized, wantText: "check the credential"},
		"wrong bearer login": {setup: func(s *registrytest.Server) { s.RequireBearer("robot", "other") },
			request: func(r *Request) { r.Auth = secret }, want: Unauthorized, wantText: "check the credential"},
		"forbidden": {setup: func(s *registrytest.Server) {
			s.FailWhen(list, -1, registrytest.Status(http.StatusForbidden, "DENIED"))
		}, request: func(r *Request) { r.Auth = secret }, want: Unauthorized, wantText: "403 Forbidden (DENIED)"},
		"too many requests": {setup: func(s *registrytest.Server) {
			s.FailWhen(list, -1, registrytest.Status(http.StatusTooManyRequests, "TOOMANYREQUESTS"))
		}, want: RateLimited, wantText: "limits the rate of requests"},
		"server failure": {setup: func(s *registrytest.Server) {
			s.FailWhen(list, -1, registrytest.Status(http.StatusServiceUnavailable, "UNAVAILABLE"))
		}, want: Unreachable, wantText: "503 Service Unavailable (UNAVAILABLE)"},
		"failure of page 2": {setup: func(s *registrytest.Server) {
			s.LimitPages(1)
			s.FailWhen(second, -1, registrytest.Status(http.StatusInternalServerError, "UNKNOWN"))
		}, want: Unreachable, wantText: "500"},
		"slow body": {setup: func(s *registrytest.Server) { s.FailWhen(list, -1, registrytest.Slow()) },
			request: func(r *Request) { r.Timeout = 100 * time.Millisecond }, want: Unreachable, wantText: "increase spec.timeout"},
		"huge body": {setup: func(s *registrytest.Server) { s.FailWhen(list, -1, registrytest.Huge(17<<20)) },
			want: Malformed, wantText: "larger than"},
		"huge error": {setup: func(s *registrytest.Server) {
			s.FailWhen(list, -1, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusTeapot)
				registrytest.Huge(1<<20)(w, r)
			})
		}, want: Malformed},
		"maintenance page": {setup: func(s *registrytest.Server) { s.FailWhen(list, -1, registrytest.Text("<html>Back soon</html>")) },
			want: Malformed, wantText: "is not from a registry"},
		"not a registry": {setup: func(s *registrytest.Server) {
			s.Fail(registrytest.Ping, -1, registrytest.Status(http.StatusNotFound, "X"))
		}, want: Malformed, wantText: "no registry responds at this host"},
		"pages in a loop": {setup: func(s *registrytest.Server) {
			s.FailWhen(list, -1, registrytest.Page("/v2/acme/web/tags/list?n=1000&last=a", "a"))
		}, want: Malformed, wantText: "form a loop"},
		"link to another host": {setup: func(s *registrytest.Server) {
			s.FailWhen(list, -1, registrytest.Page("http://other.example.com/v2/acme/web/tags/list", "a"))
		}, want: Malformed},
		"redirect to the metadata service": {setup: func(s *registrytest.Server) {
			s.FailWhen(list, -1, registrytest.Status(http.StatusTemporaryRedirect, "X", "Location", "http://169.254.169.254/latest"))
		}, want: Malformed},
		"metadata service":   {request: func(r *Request) { r.Repository = "169.254.169.254/web"; r.Insecure = true }, want: Refused, wantText: "metadata service"},
		"connection refused": {request: func(r *Request) { r.Repository = "127.0.0.1:1/web" }, want: Unreachable, wantText: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.SetTags("acme/web", numbered(3))
			if tc.setup != nil {
				tc.setup(server)
			}
			r := Request{Repository: server.Repository("acme/web"), Timeout: await.Limit}
			if tc.request != nil {
				tc.request(&r)
			}
			scan, err := scannerAt(newClock()).List(t.Context(), r)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("List = %d tags, %v; want an *Error", len(scan.Tags), err)
			}
			if e.Kind != tc.want {
				t.Errorf("kind %s, want %s: %v (%v)", e.Kind, tc.want, err, e.Unwrap())
			}
			message := err.Error()
			if !strings.Contains(message, tc.wantText) {
				t.Errorf("message %q, want %q", message, tc.wantText)
			}
			for _, no := range []string{"hunter2", "4711", "\n"} {
				if strings.Contains(message, no) {
					t.Errorf("message %q contains %q", message, no)
				}
			}
			if !strings.HasPrefix(message, `list tags of "`) {
				t.Errorf("message %q does not begin with the operation", message)
			}
		})
	}
}

// TestListRecovers checks that an error does not affect the next call. Examples are a failed first login, and a 404 response, which
// never counts as an empty list.
func TestListRecovers(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	scanner := scannerAt(newClock())
	r := Request{Repository: server.Repository("acme/web"), MaxAge: time.Hour}
	server.Fail(registrytest.Ping, 3, registrytest.Status(http.StatusBadGateway, "X"))
	for _, want := range []Kind{Unreachable, NotFound} {
		if _, err := scanner.List(t.Context(), r); KindOf(err) != want {
			t.Fatalf("kind %q, want %q: %v", KindOf(err), want, err)
		}
	}
	server.Push(t, "acme/web", "1.0.0")
	scan, err := scanner.List(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1.0.0"}, scan.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

func TestEmptyRepository(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.Fail(registrytest.List, -1, registrytest.Text(`{"name":"acme/web","tags":null}`))
	scan, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web")})
	if err != nil || len(scan.Tags) != 0 || scan.Truncated {
		t.Errorf("List = %v, %v; want an empty list", scan, err)
	}
}

// TestProtocols checks that HTTPS is used for a registry with a public name unless plain HTTP is allowed.
func TestProtocols(t *testing.T) {
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	plain := registrytest.New(t)
	plain.SetTags("acme/web", numbered(3))
	for name, tc := range map[string]struct {
		address  string
		insecure bool
		want     Kind
		wantText string
	}{
		"plain":                 {address: plain.Host(), want: Untrusted, wantText: "set spec.insecure"},
		"plain and allowed":     {address: plain.Host(), insecure: true},
		"untrusted certificate": {address: encrypted.Listener.Addr().String(), want: Untrusted, wantText: "certificate is not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			transport := NewTransport(nil)
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, tc.address)
			}
			defer transport.CloseIdleConnections()
			scanner := New(Options{Outbound: registrytest.Outbound(), Clock: newClock(), Backoff: fast, Transport: transport})
			_, err := scanner.List(t.Context(), Request{Repository: "registry.example.com/acme/web", Insecure: tc.insecure})
			if KindOf(err) != tc.want || err != nil && !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("List: %v, want %q with %q", err, tc.want, tc.wantText)
			}
		})
	}
}

// TestListCacheIsBounded checks that the list cache evicts the oldest lists, and that results remain correct.
func TestListCacheIsBounded(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	clock := newClock()
	scanner := scannerAt(clock)
	list := Scan{Tags: numbered(50)}
	scanner.lists.limit = 4*weight(list) + 100
	for i := range 10 {
		path := fmt.Sprintf("acme/web%d", i)
		server.SetTags(path, numbered(50))
		for range 2 {
			r := Request{Repository: server.Repository(path), MaxAge: time.Hour}
			if scan, err := scanner.List(t.Context(), r); err != nil || len(scan.Tags) != 50 {
				t.Fatalf("List = %d tags, %v", len(scan.Tags), err)
			}
		}
		clock.Step(time.Second)
	}
	if got := server.Requests(registrytest.List); got != 10 {
		t.Errorf("%d list requests, want 10", got)
	}
	if len(scanner.lists.scans) != 4 || scanner.lists.size != 4*weight(list) {
		t.Errorf("%d lists of weight %d, want 4 of %d", len(scanner.lists.scans), scanner.lists.size, 4*weight(list))
	}
	if _, ok := scanner.lists.get("unknown"); ok {
		t.Error("found a list that was never added")
	}
}

// TestIdleLoginsAreForgotten checks that a login that has not been used for an hour is dropped, but not during its
// pause.
func TestIdleLoginsAreForgotten(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(1))
	clock := newClock()
	scanner := scannerAt(clock)
	ask := func(username string) error {
		_, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web"), Auth: Credential{Username: username}})
		return err
	}
	server.FailWhen(func(r *http.Request) bool { u, _, _ := r.BasicAuth(); return u == "limited" }, 1,
		registrytest.Status(http.StatusTooManyRequests, "X", "Retry-After", "3600"))
	server.FailWhen(func(r *http.Request) bool { u, _, _ := r.BasicAuth(); return u != "" }, -1, registrytest.Page("", "1.0.0"))
	if err := ask("idle"); err != nil {
		t.Fatal(err)
	}
	clock.Step(2 * time.Second)
	if err := ask("limited"); KindOf(err) != RateLimited {
		t.Fatalf("List: %v, want %s", err, RateLimited)
	}
	clock.Step(time.Hour - time.Second)
	if err := ask("new"); err != nil {
		t.Fatal(err)
	}
	if got := len(scanner.logins); got != 2 {
		t.Errorf("%d logins, want those of limited and new", got)
	}
	if err := ask("limited"); KindOf(err) != RateLimited {
		t.Errorf("List: %v, still want %s", err, RateLimited)
	}
}

func TestManyPoliciesOneListPerInterval(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(10))
	server.RequireBearer("robot", "hunter2")
	clock := newClock()
	scanner := scannerAt(clock)
	r := Request{Repository: server.Repository("acme/web"), Auth: Credential{Username: "robot", Password: "hunter2"}, MaxAge: time.Minute}
	const policies, intervals = 50, 3
	for range intervals {
		var all sync.WaitGroup
		for range policies {
			all.Go(func() {
				if scan, err := scanner.List(t.Context(), r); err != nil || len(scan.Tags) != 10 {
					t.Errorf("List = %d tags, %v", len(scan.Tags), err)
				}
			})
		}
		all.Wait()
		clock.Step(time.Minute)
	}
	for class, want := range map[registrytest.Class]int{registrytest.List: intervals, registrytest.Token: 1, registrytest.Ping: 1} {
		if got := server.Requests(class); got != want {
			t.Errorf("%d requests of class %s, want %d", got, class, want)
		}
	}
}

// TestTenantsDoNotShare checks that a caller without permission or with another credential never receives the cached result of another
// user.
func TestTenantsDoNotShare(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	digest := server.Push(t, "acme/web", "1.0.0")
	server.RequireBasic("robot", "hunter2")
	scanner := scannerAt(newClock())
	r := Request{Repository: server.Repository("acme/web"), Auth: Credential{Username: "robot", Password: "hunter2"}, MaxAge: time.Hour}
	if _, err := scanner.List(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if image, err := scanner.Resolve(t.Context(), r, "1.0.0"); err != nil || image.Digest != digest {
		t.Fatalf("Resolve = %v, %v", image, err)
	}
	for name, auth := range map[string]Credential{"anonymous": {}, "another": {Username: "robot", Password: "guess"}} {
		r.Auth = auth
		if _, err := scanner.List(t.Context(), r); KindOf(err) != Unauthorized {
			t.Errorf("%s: List: kind %q, want %q", name, KindOf(err), Unauthorized)
		}
		if _, err := scanner.Resolve(t.Context(), r, "1.0.0"); KindOf(err) != Unauthorized {
			t.Errorf("%s: Resolve: kind %q, want %q", name, KindOf(err), Unauthorized)
		}
	}
}

// TestIncompleteCredentialIsSent checks that an incomplete credential is sent, because anonymous access is never a fallback.
func TestIncompleteCredentialIsSent(t *testing.T) {
	for name, auth := range map[string]Credential{"no password": {Username: "robot"}, "no username": {Password: "hunter2"}} {
		for scheme, require := range map[string]func(*registrytest.Server, string, string){
			"basic": (*registrytest.Server).RequireBasic, "bearer": (*registrytest.Server).RequireBearer,
		} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				t.Parallel()
				server := registrytest.New(t)
				server.SetTags("acme/web", numbered(1))
				require(server, auth.Username, auth.Password)
				r := Request{Repository: server.Repository("acme/web"), Auth: auth}
				if _, err := scannerAt(newClock()).List(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestRevokedTokenIsRenewed(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(10))
	server.RequireBearer("robot", "hunter2")
	scanner := scannerAt(newClock())
	r := Request{Repository: server.Repository("acme/web"), Auth: Credential{Username: "robot", Password: "hunter2"}}
	for i, wrong := range []bool{false, true, false} {
		if wrong {
			server.RequireBearer("robot", "changed")
		} else {
			server.RequireBearer("robot", "hunter2")
		}
		if _, err := scanner.List(t.Context(), r); (KindOf(err) == Unauthorized) != wrong {
			t.Errorf("list %d: %v; want it refused: %t", i, err, wrong)
		}
	}
}

func TestRateLimitPausesAllRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		pause  time.Duration
	}{
		"seconds":    {"60", time.Minute},
		"date":       {"Fri, 02 Jan 2026 03:06:05 GMT", 2 * time.Minute},
		"absent":     {"", time.Minute},
		"unreadable": {"soon", time.Minute},
		"past":       {"Fri, 02 Jan 2026 03:00:05 GMT", time.Second},
		"a week":     {"604800", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.SetTags("acme/web", numbered(1))
			server.SetTags("acme/api", numbered(2))
			clock := newClock()
			scanner := scannerAt(clock)
			auth := Credential{Username: "", Password: ""}
			web := Request{Repository: server.Repository("acme/web"), Auth: auth}
			api := Request{Repository: server.Repository("acme/api"), Auth: auth}
			server.Fail(registrytest.List, 1, registrytest.Status(http.StatusTooManyRequests, "TOOMANYREQUESTS", "Retry-After", tc.header))

			_, err := scanner.List(t.Context(), web)
			var e *Error
			if !errors.As(err, &e) || e.Kind != RateLimited {
				t.Fatalf("List: %v, want %s", err, RateLimited)
			}
			if got := server.Requests(registrytest.List); got != 1 {
				t.Errorf("%d requests until the 429 response was reported, want 1", got)
			}
			if want := clock.Now().Add(tc.pause); !e.RetryAt.Equal(want) {
				t.Errorf("retry at %v, want %v", e.RetryAt, want)
			}
			before := server.Total()
			clock.Step(tc.pause - time.Millisecond)
			for range 20 {
				if _, err := scanner.List(t.Context(), web); KindOf(err) != RateLimited {
					t.Errorf("during the pause: %v, want %s", err, RateLimited)
				}
				if _, err := scanner.List(t.Context(), api); KindOf(err) != RateLimited {
					t.Errorf("another repository during the pause: %v, want %s", err, RateLimited)
				}
				if _, err := scanner.Resolve(t.Context(), api, "1.0.0"); KindOf(err) != RateLimited {
					t.Errorf("an image during the pause: %v, want %s", err, RateLimited)
				}
			}
			if got := server.Total(); got != before {
				t.Errorf("%d requests during the pause, want 0", got-before)
			}
			other := web
			other.Auth = Credential{Username: "robot", Password: "hunter2"}
			server.RequireBasic("robot", "hunter2")
			if _, err := scanner.List(t.Context(), other); err != nil {
				t.Errorf("another credential during the pause: %v", err)
			}
			server.RequireBasic("", "")
			clock.Step(time.Millisecond)
			if _, err := scanner.List(t.Context(), api); err != nil {
				t.Errorf("after the pause: %v", err)
			}
		})
	}
}

func TestTokenBucketSpacesRequests(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(1))
	clock := newClock()
	scanner := New(Options{Outbound: registrytest.Outbound(), Clock: clock, PerSecond: 1, Burst: 3})
	r := Request{Repository: server.Repository("acme/web")}
	for range 2 { // GET /v2/ with HTTPS and HTTP, then a list; the second time only a list
		done := make(chan error, 1)
		go func() {
			_, err := scanner.List(t.Context(), r)
			done <- err
		}()
		for waiting := true; waiting; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				waiting = false
			default:
				if clock.HasWaiters() {
					clock.Step(time.Second)
				}
			}
		}
	}
	if got := clock.Since(newClock().Now()); got < time.Second {
		t.Errorf("four requests took %v by the clock, want at least a second, because the fourth request waits", got)
	}
}

// callers returns the number of callers that are waiting for results.
func (fs *flights) callers() (n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.byKey {
		n += f.waiting
	}
	return n
}

// TestLastCallerEndsTheWork checks that work ends when no caller is waiting for it, so that a limit on callers also limits the
// work.
func TestLastCallerEndsTheWork(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(5))
	entered, gone := make(chan struct{}), make(chan struct{})
	server.Fail(registrytest.List, 1, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(gone)
	})
	scanner := scannerAt(newClock())
	r := Request{Repository: server.Repository("acme/web"), Timeout: time.Hour}
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 2)
	for range 2 {
		go func() { _, err := scanner.List(leaving, r); left <- err }()
	}
	<-entered
	await.Until(t, "two callers wait", func() bool { return scanner.flights.callers() == 2 })
	leave()
	for range 2 {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left got %v, want %v", err, context.Canceled)
		}
	}
	await.Receive(t, "the end of the request", gone)
	if _, err := scanner.List(t.Context(), r); err != nil {
		t.Errorf("a later caller got %v", err)
	}
}

// TestEndedContextStartsNothing checks that a caller whose context is done sends no request. Otherwise, the result would depend on whether the response
// or the end of the context is noticed first.
func TestEndedContextStartsNothing(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	var flights flights
	for range 100 {
		_, err := share(ended, &flights, "key", time.Hour, func(context.Context) (int, error) {
			t.Error("a request started")
			return 0, nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
	}
}

func TestCallerLeavesOthersStay(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(5))
	entered, release := make(chan struct{}), make(chan struct{})
	server.Fail(registrytest.List, 1, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		registrytest.Page("", numbered(5)...)(w, r)
	})
	scanner := scannerAt(newClock())
	r := Request{Repository: server.Repository("acme/web"), MaxAge: time.Hour}
	leaving, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := scanner.List(leaving, r); left <- err }()
	<-entered
	go func() { _, err := scanner.List(t.Context(), r); stayed <- err }()
	await.Until(t, "two callers wait", func() bool { return scanner.flights.callers() == 2 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v, want %v", err, context.Canceled)
	}
	close(release)
	if err := <-stayed; err != nil {
		t.Errorf("the caller that stayed got %v", err)
	}
	if got := server.Requests(registrytest.List); got != 1 {
		t.Errorf("%d lists, want 1", got)
	}
}

func TestResolve(t *testing.T) {
	built := time.Date(2025, 6, 7, 8, 9, 10, 0, time.UTC)
	annotated := mutate.Annotations(registrytest.Image(t, "a", "linux/amd64", built), map[string]string{createdAnnotation: "2025-01-01T00:00:00Z"}).(v1.Image)
	attested := mutate.AppendManifests(mutate.Annotations(empty.Index, map[string]string{createdAnnotation: "2025-02-02T00:00:00Z"}).(v1.ImageIndex),
		mutate.IndexAddendum{Add: registrytest.Image(t, "a", "linux/arm64", built), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}}},
		mutate.IndexAddendum{Add: registrytest.Image(t, "b", "linux/amd64", built), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}},
	)
	chart := mutate.ConfigMediaType(registrytest.Image(t, "chart", "linux/amd64", built), "application/vnd.cncf.helm.config.v1+json")
	for name, tc := range map[string]struct {
		push  func(*registrytest.Server) string
		want  Image
		gets  int
		blobs int
	}{
		"image": {
			push: func(s *registrytest.Server) string {
				return s.PushImage(t, "acme/web", "1", registrytest.Image(t, "x", "linux/arm64/v8", built))
			},
			want: Image{Platforms: []string{"linux/arm64/v8"}, Created: built}, gets: 1, blobs: 1,
		},
		"reproducible image": {
			push: func(s *registrytest.Server) string {
				return s.PushImage(t, "acme/web", "1", registrytest.Image(t, "x", "linux/amd64", time.Unix(0, 0)))
			},
			want: Image{Platforms: []string{"linux/amd64"}}, gets: 1, blobs: 1,
		},
		"annotated image": {
			push: func(s *registrytest.Server) string { return s.PushImage(t, "acme/web", "1", annotated) },
			want: Image{Platforms: []string{"linux/amd64"}, Created: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}, gets: 1, blobs: 1,
		},
		"index": {
			push: func(s *registrytest.Server) string {
				return s.Push(t, "acme/web", "1", "linux/arm64", "linux/amd64", "windows/amd64")
			},
			want: Image{Platforms: []string{"linux/amd64", "linux/arm64", "windows/amd64"}}, gets: 1,
		},
		"index with attestation": {
			push: func(s *registrytest.Server) string { return s.PushIndex(t, "acme/web", "1", attested) },
			want: Image{Platforms: []string{"linux/arm64/v8"}, Created: time.Date(2025, 2, 2, 0, 0, 0, 0, time.UTC)}, gets: 1,
		},
		"chart": {
			push: func(s *registrytest.Server) string { return s.PushImage(t, "acme/web", "1", chart) },
			want: Image{}, gets: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			tc.want.Digest = tc.push(server)
			clock := newClock()
			scanner := scannerAt(clock)
			r := Request{Repository: server.Repository("acme/web"), MaxAge: time.Minute}
			const intervals = 3
			for range intervals {
				tc.want.Time = clock.Now()
				for range 2 {
					got, err := scanner.Resolve(t.Context(), r, "1")
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(tc.want, got); diff != "" {
						t.Errorf("image (-want +got):\n%s", diff)
					}
				}
				clock.Step(time.Minute)
			}
			want := map[registrytest.Class]int{registrytest.Head: intervals - 1, registrytest.Get: tc.gets, registrytest.Blob: tc.blobs}
			for class, n := range want {
				if got := server.Requests(class); got != n {
					t.Errorf("%d requests of class %s, want %d", got, class, n)
				}
			}
		})
	}
}

func TestResolveSeesMovedTags(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	clock := newClock()
	scanner := scannerAt(clock)
	r := Request{Repository: server.Repository("acme/web"), MaxAge: time.Minute}
	for _, label := range []string{"first", "second"} {
		want := server.PushImage(t, "acme/web", "1.0.0", registrytest.Image(t, label, "linux/amd64", time.Time{}))
		image, err := scanner.Resolve(t.Context(), r, "1.0.0")
		if err != nil || image.Digest != want {
			t.Errorf("%s: Resolve = %s, %v; want %s", label, image.Digest, err, want)
		}
		clock.Step(time.Minute)
	}
}

// TestTagsOfManyPoliciesAreReadWithHead checks that a tag is not read with GET again after 100,000 other tags. Docker Hub counts a GET
// as a pull.
func TestTagsOfManyPoliciesAreReadWithHead(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.PushImage(t, "acme/web", "1.0.0", registrytest.Image(t, "web", "linux/amd64", time.Time{}))
	scanner := scannerAt(newClock())
	for range 2 {
		if _, err := scanner.Resolve(t.Context(), Request{Repository: server.Repository("acme/web")}, "1.0.0"); err != nil {
			t.Fatal(err)
		}
		for i := range 100_000 {
			scanner.digests.Add(fmt.Sprint("other ", i), digestAt{})
		}
	}
	if got := server.Requests(registrytest.Head); got != 1 {
		t.Errorf("%d HEAD requests, want 1", got)
	}
}

func TestResolveFallsBackToGet(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no headers": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
		"no digest": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Content-Length", "3")
		},
		"not allowed": registrytest.Status(http.StatusMethodNotAllowed, "UNSUPPORTED"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.Fail(registrytest.Head, -1, answer)
			scanner := scannerAt(newClock())
			for _, label := range []string{"first", "moved"} { // a tag that is not cached is always read with GET
				want := server.PushImage(t, "acme/web", "1.0.0", registrytest.Image(t, label, "linux/amd64", time.Time{}))
				image, err := scanner.Resolve(t.Context(), Request{Repository: server.Repository("acme/web")}, "1.0.0")
				if err != nil || image.Digest != want {
					t.Errorf("%s: Resolve = %s, %v; want %s", label, image.Digest, err, want)
				}
			}
			if got := server.Requests(registrytest.Head); got != 1 {
				t.Errorf("%d HEAD requests, want 1", got)
			}
		})
	}
}

func TestResolveErrors(t *testing.T) {
	schema1 := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v1+prettyjws")
		w.Write([]byte(`{"schemaVersion":1}`))
	}
	for name, tc := range map[string]struct {
		tag   string
		known bool // resolved before
		setup func(*registrytest.Server)
		want  Kind
	}{
		"missing tag":               {tag: "2.0.0", want: NotFound},
		"not a tag":                 {tag: "a/b", want: BadName},
		"empty tag":                 {tag: "", want: BadName},
		"server failure":            {tag: "1.0.0", setup: func(s *registrytest.Server) { s.Fail(registrytest.Get, -1, registrytest.Status(502, "X")) }, want: Unreachable},
		"server failure, known tag": {tag: "1.0.0", known: true, setup: func(s *registrytest.Server) { s.Fail(registrytest.Head, -1, registrytest.Status(502, "X")) }, want: Unreachable},
		"huge manifest":             {tag: "1.0.0", setup: func(s *registrytest.Server) { s.Fail(registrytest.Get, -1, registrytest.Huge(9<<20)) }, want: Malformed},
		"huge config":               {tag: "1.0.0", setup: func(s *registrytest.Server) { s.Fail(registrytest.Blob, -1, registrytest.Huge(9<<20)) }, want: Malformed},
		"broken config":             {tag: "1.0.0", setup: func(s *registrytest.Server) { s.Fail(registrytest.Blob, -1, registrytest.Text("{")) }, want: Malformed},
		"broken manifest": {tag: "1.0.0", setup: func(s *registrytest.Server) {
			broken := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
				w.Header().Set("Docker-Content-Digest", "sha256:021fb596db81e6d02bf3d2586ee3981fe519f275c0ac9ca76bbcf2ebb4097d96")
				w.Write([]byte("{"))
			}
			s.Fail(registrytest.Head, -1, broken)
			s.Fail(registrytest.Get, -1, broken)
		}, want: Malformed},
		"schema 1": {tag: "1.0.0", setup: func(s *registrytest.Server) {
			s.Fail(registrytest.Head, -1, schema1)
			s.Fail(registrytest.Get, -1, schema1)
		}, want: Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.Push(t, "acme/web", "1.0.0")
			scanner := scannerAt(newClock())
			r := Request{Repository: server.Repository("acme/web")}
			if tc.known {
				if _, err := scanner.Resolve(t.Context(), r, tc.tag); err != nil {
					t.Fatal(err)
				}
			}
			if tc.setup != nil {
				tc.setup(server)
			}
			_, err := scanner.Resolve(t.Context(), r, tc.tag)
			if KindOf(err) != tc.want {
				t.Errorf("kind %q, want %q: %v", KindOf(err), tc.want, err)
			}
		})
	}
}

func TestGone(t *testing.T) {
	const path = "acme/web"
	for name, tc := range map[string]struct {
		setup   func(t *testing.T, s *registrytest.Server, digest string)
		witness string
		want    bool
		kind    Kind
	}{
		"there":          {setup: func(*testing.T, *registrytest.Server, string) {}, witness: "1.1.0"},
		"tag is removed": {setup: func(t *testing.T, s *registrytest.Server, _ string) { s.Delete(t, path, "1.0.0") }, witness: "1.1.0"},
		"both removed":   {setup: remove, witness: "1.1.0", want: true},
		"no witness":     {setup: remove, witness: "1.2.0"},
		"own witness":    {setup: remove, witness: "1.0.0"},
		"repository gone": {setup: func(t *testing.T, s *registrytest.Server, digest string) {
			remove(t, s, digest)
			s.Delete(t, path, "1.1.0")
		}, witness: "1.1.0"},
		"registry fails": {setup: func(t *testing.T, s *registrytest.Server, digest string) {
			remove(t, s, digest)
			s.Fail(registrytest.Head, -1, registrytest.Status(500, "X"))
		}, witness: "1.1.0", kind: Unreachable},
		"login fails": {setup: func(t *testing.T, s *registrytest.Server, digest string) {
			remove(t, s, digest)
			s.RequireBasic("robot", "hunter2")
		}, witness: "1.1.0", kind: Unauthorized},
		"hidden, witness unreadable": {setup: func(t *testing.T, s *registrytest.Server, digest string) {
			s.Fail(registrytest.Head, -1, registrytest.Status(404, "MANIFEST_UNKNOWN"))
		}, witness: "1.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			digest := server.Push(t, path, "1.0.0")
			server.Push(t, path, "1.1.0")
			scanner := scannerAt(newClock())
			r := Request{Repository: server.Repository(path), MaxAge: time.Hour}
			if _, err := scanner.Resolve(t.Context(), r, "1.0.0"); err != nil { // cached results prove nothing
				t.Fatal(err)
			}
			tc.setup(t, server, digest)
			got, err := scanner.Gone(t.Context(), r, "1.0.0", digest, tc.witness)
			if got != tc.want || KindOf(err) != tc.kind {
				t.Errorf("Gone = %t, %v; want %t, %q", got, err, tc.want, tc.kind)
			}
		})
	}
}

func remove(t *testing.T, s *registrytest.Server, digest string) {
	s.Delete(t, "acme/web", "1.0.0")
	s.Delete(t, "acme/web", digest)
}

func TestSupports(t *testing.T) {
	for name, tc := range map[string]struct {
		has    []string
		wanted string
		want   bool
	}{
		"same":                     {[]string{"linux/amd64"}, "linux/amd64", true},
		"other":                    {[]string{"linux/arm64"}, "linux/amd64", false},
		"one of several":           {[]string{"linux/arm64", "linux/amd64"}, "linux/amd64", true},
		"any variant":              {[]string{"linux/arm/v6"}, "linux/arm", true},
		"wrong variant":            {[]string{"linux/arm/v6"}, "linux/arm/v7", false},
		"arm is arm/v7":            {[]string{"linux/arm"}, "linux/arm/v7", true},
		"arm64 is arm64/v8":        {[]string{"linux/arm64"}, "linux/arm64/v8", true},
		"arm64/v8 is arm64":        {[]string{"linux/arm64/v8"}, "linux/arm64", true},
		"amd64/v3 is not amd64/v2": {[]string{"linux/amd64/v3"}, "linux/amd64/v2", false},
		"without a platform":       {nil, "linux/amd64", false},
	} {
		if got := (Image{Platforms: tc.has}).Supports(tc.wanted); got != tc.want {
			t.Errorf("%s: Supports(%q) = %t, want %t", name, tc.wanted, got, tc.want)
		}
	}
}

// TestOutboundPolicyHoldsForRegistries checks that connections to registries follow the policy for user addresses:
// loopback addresses are denied unless the operator allows them, addresses that the operator denies are refused, and
// metadata services are never allowed.
func TestOutboundPolicyHoldsForRegistries(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(3))
	_, port, _ := net.SplitHostPort(server.Host())
	for name, tc := range map[string]struct {
		host     string
		config   outbound.Config
		wantText string // empty for no error
	}{
		"loopback":                  {host: server.Host(), wantText: `it is a loopback address: use a registry at another address, or add this address to the manager's flag --outbound-allow`},
		"loopback by name":          {host: "localhost:" + port, wantText: `"localhost" is not contacted: it is a loopback address`},
		"loopback that is allowed":  {host: server.Host(), config: outbound.Config{Allow: []string{"127.0.0.0/8"}}},
		"loopback, one port":        {host: server.Host(), config: outbound.Config{Allow: []string{server.Host()}}},
		"loopback, another port":    {host: server.Host(), config: outbound.Config{Allow: []string{"127.0.0.1:1"}}, wantText: "--outbound-allow"},
		"denied":                    {host: server.Host(), config: outbound.Config{Allow: []string{"127.0.0.0/8"}, Deny: []string{"127.0.0.1"}}, wantText: "it is denied by the manager's flag --outbound-deny"},
		"denied by name":            {host: "registry.example.com", config: outbound.Config{Deny: []string{"example.com"}}, wantText: "the host is denied by the manager's flag --outbound-deny"},
		"link-local":                {host: "169.254.1.1", wantText: "it is a link-local address"},
		"metadata":                  {host: "169.254.169.254", config: outbound.Config{Allow: []string{"0.0.0.0/0"}}, wantText: "it is the address of a metadata service: use a registry at another address"},
		"metadata of another cloud": {host: "100.100.100.200", wantText: "metadata service"},
		"metadata, IPv6":            {host: "[fd00:ec2::254]", wantText: "metadata service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			allowed, err := outbound.New(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			scan, err := New(Options{Outbound: allowed, Backoff: fast}).List(t.Context(), Request{Repository: tc.host + "/acme/web", Insecure: true})
			switch {
			case tc.wantText == "" && (err != nil || len(scan.Tags) != 3):
				t.Errorf("List = %d tags, %v; want 3", len(scan.Tags), err)
			case tc.wantText != "" && (KindOf(err) != Refused || !strings.Contains(err.Error(), tc.wantText)):
				t.Errorf("List: %v, want %q with %q", err, Refused, tc.wantText)
			}
		})
	}
}

// TestRegistryDoesNotSendToLoopback checks that a tenant's registry cannot make the manager connect to the manager's
// own loopback address, either through a realm in a challenge or through a redirect.
func TestRegistryDoesNotSendToLoopback(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inner.Close()
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter, string)
		host   string
		want   Kind
	}{
		"realm by name": {host: "localhost", want: Refused, answer: func(w http.ResponseWriter, target string) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/quit",service="x"`, target))
			w.WriteHeader(http.StatusUnauthorized)
		}},
		"realm by address": {host: "127.0.0.1", want: Refused, answer: func(w http.ResponseWriter, target string) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/quit",service="x"`, target))
			w.WriteHeader(http.StatusUnauthorized)
		}},
		"redirect": {host: "localhost", want: Refused, answer: func(w http.ResponseWriter, target string) {
			w.Header().Set("Location", target+"/quit")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, port, _ := net.SplitHostPort(inner.Listener.Addr().String())
			evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				tc.answer(w, "http://"+net.JoinHostPort(tc.host, port))
			}))
			defer evil.Close()
			host := evil.Listener.Addr().String()
			allowed, err := outbound.New(outbound.Config{Allow: []string{host}}) // only the registry
			if err != nil {
				t.Fatal(err)
			}
			r := Request{Repository: host + "/a/b", Insecure: true, Auth: Credential{IdentityToken: "x"}}
			if _, err := New(Options{Outbound: allowed, Backoff: fast}).List(t.Context(), r); KindOf(err) != tc.want {
				t.Errorf("List: %v, want %q", err, tc.want)
			}
			if n := asked.Load(); n > 0 {
				t.Errorf("loopback received %d requests", n)
			}
		})
	}
}

func TestCredentialIsNotPrinted(t *testing.T) {
	c := Credential{Username: "robot", Password: "hunter2", IdentityToken: "hunter2", RegistryToken: "hunter2"}
	r := Request{Repository: "a/b", Auth: c}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%+v", r), fmt.Sprintf("%#v", r), fmt.Sprintf("%+v", &r)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s contains the secret", text)
		}
	}
}

func BenchmarkList(b *testing.B) {
	server := registrytest.New(b)
	server.SetTags("acme/web", numbered(10_000))
	for name, maxAge := range map[string]time.Duration{"registry": 0, "shared": time.Hour} {
		b.Run(name, func(b *testing.B) {
			scanner := New(Options{Outbound: registrytest.Outbound(), PerSecond: 1e9, Burst: 1e9})
			r := Request{Repository: server.Repository("acme/web"), MaxAge: maxAge}
			before := server.Requests(registrytest.List)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := scanner.List(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(server.Requests(registrytest.List)-before)/float64(b.N), "requests/op")
		})
	}
}

// TestPanicOfASharedRequest checks that a panic in a request becomes an error for its caller, and that the next caller sends another request.
func TestPanicOfASharedRequest(t *testing.T) {
	t.Parallel()
	var flights flights
	if _, err := share(t.Context(), &flights, "key", time.Hour, func(context.Context) (int, error) { panic("a secret of a tenant") }); !errors.Is(err, contain.ErrPanic) {
		t.Errorf("the error is %v", err)
	}
	if n := flights.callers(); n > 0 {
		t.Errorf("%d callers wait", n)
	}
	if n, err := share(t.Context(), &flights, "key", time.Hour, func(context.Context) (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Errorf("the next request: %d, %v", n, err)
	}
}
