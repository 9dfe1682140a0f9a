package registry

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// TestLinksToTheNextPage checks links with a wrong scheme, host, port or path, as registries behind a proxy write them. Pages are read only from the
// registry itself.
func TestLinksToTheNextPage(t *testing.T) {
	for name, tc := range map[string]struct {
		link func(host, port string) string
		want Kind
	}{
		"relative":                {link: func(_, _ string) string { return "/v2/acme/web/tags/list?n=2&from=2" }},
		"relative to the page":    {link: func(_, _ string) string { return "list?n=2&from=2" }},
		"absolute":                {link: func(h, p string) string { return "http://" + h + ":" + p + "/v2/acme/web/tags/list?n=2&from=2" }},
		"port stripped":           {link: func(h, _ string) string { return "http://" + h + "/v2/acme/web/tags/list?n=2&from=2" }},
		"another port":            {link: func(h, _ string) string { return "http://" + h + ":1/v2/acme/web/tags/list?n=2&from=2" }},
		"another scheme":          {link: func(h, p string) string { return "https://" + h + ":" + p + "/v2/acme/web/tags/list?n=2&from=2" }},
		"scheme and port":         {link: func(h, _ string) string { return "https://" + h + "/v2/acme/web/tags/list?n=2&from=2" }},
		"with a login in the URL": {link: func(h, p string) string { return "http://me:too@" + h + ":" + p + "/v2/acme/web/tags/list?n=2&from=2" }},
		"another host":            {link: func(_, _ string) string { return "http://other.invalid/v2/acme/web/tags/list?n=2&from=2" }},
		"another path":            {link: func(_, _ string) string { return "/artifactory/api/docker/web/v2/acme/web/tags/list?n=2&from=2" }},
		"query alone":             {link: func(_, _ string) string { return "?n=2&from=2" }},
		"host with the same prefix": {link: func(h, p string) string {
			return "http://" + h + ".other.invalid:" + p + "/v2/acme/web/tags/list?n=2&from=2"
		}},
		"login that looks like the host": {link: func(h, p string) string {
			return "http://" + h + ":" + p + "@other.invalid/v2/acme/web/tags/list?n=2&from=2"
		}},
		"no query":     {link: func(_, _ string) string { return "/v2/acme/web/tags/list" }, want: Malformed},
		"invalid link": {link: func(_, _ string) string { return "%zz" }, want: Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.SetTags("acme/web", numbered(5))
			server.LimitPages(2)
			host, port, _ := strings.Cut(server.Host(), ":")
			first := func(r *http.Request) bool {
				return strings.HasSuffix(r.URL.Path, "/tags/list") && !r.URL.Query().Has("from")
			}
			server.FailWhen(first, -1, registrytest.Page(tc.link(host, port), "1.0.0", "1.1.0"))
			scan, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web")})
			if KindOf(err) != tc.want {
				t.Fatalf("List: %v, want %q", err, tc.want)
			}
			if err == nil && len(scan.Tags) != 5 {
				t.Errorf("%d tags, want 5", len(scan.Tags))
			}
		})
	}
}

// TestLargePage checks that a page of 4 MB is read completely.
func TestLargePage(t *testing.T) {
	server := registrytest.New(t)
	tags := make([]string, 4<<20/131)
	for i := range tags {
		tags[i] = fmt.Sprintf("%0128d", i)
	}
	server.SetTags("acme/web", tags)
	server.LimitPages(len(tags))
	server.RefusePagesAbove(1) // The registry then chooses the size.
	scan, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web"), MaxTags: len(tags), Timeout: await.Limit})
	if err != nil || len(scan.Tags) != len(tags) || scan.Truncated {
		t.Errorf("List = %d tags, truncated %t, %v; want all %d", len(scan.Tags), scan.Truncated, err, len(tags))
	}
}

// TestHugeList checks that, of 100,000 tags, only the required number is read and kept, and that only the
// corresponding number of pages is requested.
func TestHugeList(t *testing.T) {
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(100_000))
	for name, tc := range map[string]struct {
		maxTags, want, pages int
		truncated            bool
		live                 uint64 // maximum number of bytes that are kept
	}{
		"by default": {want: DefaultMaxTags, pages: 11, truncated: true, live: 2 << 20},
		"all":        {maxTags: 100_000, want: 100_000, pages: 100, live: 12 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			scanner := New(Options{Outbound: registrytest.Outbound(), Clock: newClock(), Backoff: fast, Burst: 1000})
			before, pages := live(), server.Requests(registrytest.List)
			scan, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web"), MaxTags: tc.maxTags, MaxAge: time.Hour, Timeout: await.Limit})
			if err != nil || len(scan.Tags) != tc.want || scan.Truncated != tc.truncated {
				t.Fatalf("List = %d tags, truncated %t, %v; want %d, %t", len(scan.Tags), scan.Truncated, err, tc.want, tc.truncated)
			}
			if got := server.Requests(registrytest.List) - pages; got != tc.pages {
				t.Errorf("%d pages, want %d", got, tc.pages)
			}
			if after := live(); after > before+tc.live {
				t.Errorf("%d bytes kept, want at most %d", after-before, tc.live)
			}
			runtime.KeepAlive(scanner)
		})
	}
}

// live returns the memory in use. The second garbage collection also frees the content of pools.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestCountlessElements checks that responses that are small as text but huge in memory are rejected.
func TestCountlessElements(t *testing.T) {
	repeat := func(contentType, start, element string, n int, end string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			fmt.Fprint(w, start, strings.Repeat(element+",", n), element, end)
		}
	}
	const index, image = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
	for name, tc := range map[string]struct {
		class  registrytest.Class
		answer http.HandlerFunc
		want   Kind
	}{
		"tags":        {registrytest.List, repeat("application/json", `{"tags":[`, `"a"`, 2_000_000, `]}`), Malformed},
		"many tags":   {registrytest.List, repeat("application/json", `{"tags":[`, `"a"`, 200_000, `]}`), ""},
		"images":      {registrytest.Get, repeat(index, `{"manifests":[`, `{}`, 2_000_000, `]}`), Malformed},
		"many images": {registrytest.Get, repeat(index, `{"manifests":[`, `{"mediaType":"a","digest":"sha256:`+strings.Repeat("0", 64)+`","size":1}`, 10_000, `]}`), ""},
		"layers":      {registrytest.Get, repeat(image, `{"layers":[`, `{}`, 2_000_000, `]}`), Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			server := registrytest.New(t)
			server.Push(t, "acme/web", "1.0.0")
			server.Fail(registrytest.Head, -1, registrytest.Status(http.StatusMethodNotAllowed, "UNSUPPORTED")) // The scanner then uses GET.
			server.Fail(tc.class, -1, tc.answer)
			scanner, r := scannerAt(newClock()), Request{Repository: server.Repository("acme/web"), Timeout: await.Limit}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var err error
			if tc.class == registrytest.List {
				_, err = scanner.List(t.Context(), r)
			} else {
				_, err = scanner.Manifest(t.Context(), r, "1.0.0")
				if err == nil {
					_, err = scanner.Resolve(t.Context(), r, "1.0.0")
				}
			}
			runtime.ReadMemStats(&after)
			if KindOf(err) != tc.want {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
				t.Errorf("%d bytes were allocated", used)
			}
		})
	}
}

// TestEndlessList checks that the scanner stops reading an endless list that has new names on each page.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	page := 0
	server.Fail(registrytest.List, -1, func(w http.ResponseWriter, r *http.Request) {
		page++
		registrytest.Page(fmt.Sprintf("/v2/acme/web/tags/list?last=%d", page), fmt.Sprintf("1.%d.0", page))(w, r)
	})
	scanner := New(Options{Outbound: registrytest.Outbound(), Clock: newClock(), Backoff: fast, Burst: 1000, MaxPages: 50})
	scan, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web")})
	if err != nil || len(scan.Tags) != 50 || !scan.Truncated {
		t.Errorf("List = %d tags, truncated %t, %v; want 50, truncated", len(scan.Tags), scan.Truncated, err)
	}
}

// TestRotatedSecret checks that a caller whose credential was rejected is accepted immediately with the new content of the Secret.
func TestRotatedSecret(t *testing.T) {
	for scheme, require := range map[string]func(*registrytest.Server, string, string){
		"basic": (*registrytest.Server).RequireBasic, "bearer": (*registrytest.Server).RequireBearer,
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.Push(t, "acme/web", "1.0.0")
			require(server, "robot", "new")
			scanner := scannerAt(newClock())
			for password, want := range map[string]Kind{"old": Unauthorized, "new": ""} {
				secret := Secret{Name: "s", Type: TypeBasicAuth, Registry: server.Host(), Data: map[string][]byte{"username": []byte("robot"), "password": []byte(password)}}
				match, err := FindCredential(server.Repository("acme/web"), secret)
				if err != nil || !match.Found {
					t.Fatalf("FindCredential = %v, %v", match.Found, err)
				}
				r := Request{Repository: server.Repository("acme/web"), Auth: match.Credential, MaxAge: time.Hour}
				if _, err := scanner.List(t.Context(), r); KindOf(err) != want {
					t.Errorf("List with the %s password: %v, want %q", password, err, want)
				}
				if _, err := scanner.Resolve(t.Context(), r, "1.0.0"); KindOf(err) != want {
					t.Errorf("Resolve with the %s password: %v, want %q", password, err, want)
				}
			}
		})
	}
}

// TestIndexWithoutThePlatform checks that Supports is false for a platform that an index lacks, and true for each platform of the index.
func TestIndexWithoutThePlatform(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.Push(t, "acme/web", "1.0.0", "linux/arm64", "windows/amd64")
	image, err := scannerAt(newClock()).Resolve(t.Context(), Request{Repository: server.Repository("acme/web")}, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	for platform, want := range map[string]bool{"linux/amd64": false, "linux/arm64": true, "windows/amd64": true} {
		if got := image.Supports(platform); got != want {
			t.Errorf("Supports(%q) = %t, want %t", platform, got, want)
		}
	}
}

// TestPauseHoldsForEveryKindOfRequest checks that during a pause, no request of any kind is sent to the same registry with the same credential.
func TestPauseHoldsForEveryKindOfRequest(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	digest := server.Push(t, "acme/web", "1.0.0")
	clock := newClock()
	scanner := scannerAt(clock)
	r := Request{Repository: server.Repository("acme/web")}
	server.Fail(registrytest.Get, 1, registrytest.Status(http.StatusTooManyRequests, "TOOMANYREQUESTS", "Retry-After", "60"))
	if _, err := scanner.Resolve(t.Context(), r, "1.0.0"); KindOf(err) != RateLimited {
		t.Fatalf("Resolve: %v, want %q", err, RateLimited)
	}
	before := server.Total()
	asks := map[string]func() error{
		"List":      func() error { _, err := scanner.List(t.Context(), r); return err },
		"Resolve":   func() error { _, err := scanner.Resolve(t.Context(), r, "2.0.0"); return err },
		"Inspect":   func() error { _, err := scanner.Inspect(t.Context(), r, digest, ""); return err },
		"Gone":      func() error { _, err := scanner.Gone(t.Context(), r, "1.0.0", digest, digest); return err },
		"Manifest":  func() error { _, err := scanner.Manifest(t.Context(), r, digest); return err },
		"Blob":      func() error { _, err := scanner.Blob(t.Context(), r, digest, 10); return err },
		"Referrers": func() error { _, err := scanner.Referrers(t.Context(), r, digest, 10); return err },
	}
	for range 60 {
		for name, ask := range asks {
			if err := ask(); KindOf(err) != RateLimited {
				t.Errorf("%s during the pause: %v, want %q", name, err, RateLimited)
			}
		}
		clock.Step(time.Second - time.Nanosecond)
	}
	if got := server.Total() - before; got != 0 {
		t.Errorf("%d requests during the pause of 60 s, want none", got)
	}
	clock.Step(time.Second)
	if err := asks["Inspect"](); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}
