package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// These tests describe the behavior of real registries.

// TestFullPageWithoutALink checks that the request is repeated without a page size if a registry truncates the list at the page size and does not link to
// the rest. If tags may still be missing, the list is reported as truncated.
func TestFullPageWithoutALink(t *testing.T) {
	tags := numbered(1500)
	page := func(w http.ResponseWriter, tags []string) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"name": "acme/web", "tags": tags})
	}
	sized := func(r *http.Request) bool { return r.URL.Query().Has("n") }
	for name, tc := range map[string]struct {
		answer    func(http.ResponseWriter, *http.Request)
		want      int
		truncated bool
	}{
		"lists all without a size": {want: 1500, answer: func(w http.ResponseWriter, r *http.Request) {
			if sized(r) {
				page(w, tags[:1000])
				return
			}
			page(w, tags)
		}},
		"has links only without a size": {want: 1500, answer: func(w http.ResponseWriter, r *http.Request) {
			switch {
			case sized(r):
				page(w, tags[:1000])
			case r.URL.Query().Has("last"):
				page(w, tags[700:])
			default:
				w.Header().Set("Link", `</v2/acme/web/tags/list?last=x>; rel="next"`)
				page(w, tags[:700])
			}
		}},
		"lists fewer without a size": {want: 1000, truncated: true, answer: func(w http.ResponseWriter, r *http.Request) {
			if sized(r) {
				page(w, tags[:1000])
				return
			}
			page(w, tags[:100])
		}},
		"requires a size": {want: 1000, truncated: true, answer: func(w http.ResponseWriter, r *http.Request) {
			if sized(r) {
				page(w, tags[:1000])
				return
			}
			registrytest.Status(http.StatusBadRequest, "UNSUPPORTED")(w, r)
		}},
		"has exactly one full page": {want: 1000, answer: func(w http.ResponseWriter, _ *http.Request) { page(w, tags[:1000]) }},
		"links to a last page that is full": {want: 1500, answer: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("last") {
				page(w, tags[500:])
				return
			}
			w.Header().Set("Link", `</v2/acme/web/tags/list?n=1000&last=x>; rel="next"`)
			page(w, tags[:500])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.Fail(registrytest.List, -1, tc.answer)
			scan, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web")})
			if err != nil || len(scan.Tags) != tc.want || scan.Truncated != tc.truncated {
				t.Errorf("List = %d tags, truncated %t, %v; want %d, %t", len(scan.Tags), scan.Truncated, err, tc.want, tc.truncated)
			}
		})
	}
}

// TestLimitCountsSelectedVersions checks that tags that the filter does not select do not count toward the limit. The list contains all tags that
// were read, and a complete list is shared even by callers with different limits.
func TestLimitCountsSelectedVersions(t *testing.T) {
	t.Parallel()
	var tags []string
	for i := range 10_500 {
		tags = append(tags, fmt.Sprintf("sha-%07d", i))
	}
	tags = append(tags, "v1.0.0", "v1.1.0", "v1.2.0")
	for _, page := range []int{1000, 20_000} {
		t.Run(fmt.Sprintf("pages of %d", page), func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.LimitPages(page)
			server.SetTags("acme/web", tags)
			scanner := scannerAt(newClock())
			versions := func(tag string) bool { return strings.HasPrefix(tag, "v") }
			list := func(maxTags int, as string, counts func(string) bool) Scan {
				t.Helper()
				scan, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web"), MaxTags: maxTags, MaxAge: time.Hour, Timeout: await.Limit, Counts: counts, CountsAs: as})
				if err != nil {
					t.Fatal(err)
				}
				return scan
			}
			if scan := list(0, "v", versions); scan.Truncated || len(scan.Tags) != len(tags) || !slices.Contains(scan.Tags, "v1.2.0") {
				t.Errorf("%d tags, truncated %t; want all %d", len(scan.Tags), scan.Truncated, len(tags))
			}
			before := server.Requests(registrytest.List)
			if scan := list(2, "v", versions); !scan.Truncated || slices.Contains(scan.Tags, "v1.2.0") || !slices.Contains(scan.Tags, "v1.1.0") {
				t.Errorf("%d tags, truncated %t; want those after the second to be omitted", len(scan.Tags), scan.Truncated)
			}
			if scan := list(0, "", nil); !scan.Truncated || len(scan.Tags) != DefaultMaxTags {
				t.Errorf("%d tags, truncated %t; want %d, truncated", len(scan.Tags), scan.Truncated, DefaultMaxTags)
			}
			if n := server.Requests(registrytest.List) - before; n != 0 {
				t.Errorf("%d requests for a known list, want none", n)
			}
		})
	}
}

// TestLongTagsInOneAnswer covers a response with as many tags as spec.limits.tags allows, each of the maximum length.
func TestLongTagsInOneAnswer(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	tags := make([]string, maxRead)
	for i := range tags {
		tags[i] = fmt.Sprintf("%0128d", i)
	}
	server.SetTags("acme/web", tags)
	server.LimitPages(len(tags))
	server.RefusePagesAbove(1)
	scan, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web"), MaxTags: maxRead, Timeout: await.Limit})
	if err != nil || len(scan.Tags) != maxRead {
		t.Errorf("List = %d tags, %v; want %d", len(scan.Tags), err, maxRead)
	}
}

// TestNoTimeoutBelowTheRequest checks that no timeout of the transport is shorter than the request timeout that a policy defines.
func TestNoTimeoutBelowTheRequest(t *testing.T) {
	transport := NewTransport(nil)
	if transport.ResponseHeaderTimeout != 0 || transport.TLSHandshakeTimeout < longestTimeout {
		t.Errorf("timeouts of %s and %s, want none below %s", transport.ResponseHeaderTimeout, transport.TLSHandshakeTimeout, longestTimeout)
	}
}

// TestIndexWithoutPlatforms covers an index without platforms. The platforms are then read from the images.
func TestIndexWithoutPlatforms(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	index := v1.ImageIndex(empty.Index)
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: registrytest.Image(t, platform, platform, time.Time{})})
	}
	server.PushIndex(t, "acme/web", "1.0.0", index)
	scanner, r := scannerAt(newClock()), Request{Repository: server.Repository("acme/web")}
	image, err := scanner.Resolve(t.Context(), r, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, image.Platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	whole, err := scanner.Inspect(t.Context(), r, image.Digest, "linux/arm64")
	if err != nil || whole.Labels["label"] != "linux/arm64" {
		t.Errorf("Inspect = %v, %v; want the labels of the image for linux/arm64", whole.Labels, err)
	}
	before := server.Total()
	if _, err := scanner.Inspect(t.Context(), r, image.Digest, "linux/arm64"); err != nil || server.Total() != before {
		t.Errorf("%d requests for known results, want none (%v)", server.Total()-before, err)
	}
}

// TestPlainRegistryThatBreaksOff checks that a plain HTTP registry that closes the connection without a response is reported as unreachable, and that
// the message does not suggest a setting that is already set.
func TestPlainRegistryThatBreaksOff(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	defer server.Close()
	_, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Listener.Addr().String() + "/acme/web", Insecure: true})
	if KindOf(err) != Unreachable || strings.Contains(err.Error(), "insecure") {
		t.Errorf("List: %v, want %q", err, Unreachable)
	}
}

// TestNoAdviceAgainstCertificates covers a server that requires a client certificate and may close the connection before it reports this requirement.
// The message must never suggest doing without certificates.
func TestNoAdviceAgainstCertificates(t *testing.T) {
	t.Parallel()
	authority := registrytest.NewAuthority(t)
	server := registrytest.New(t, registrytest.WithTLS(authority.Server(t, time.Now().Add(time.Hour), authority)))
	for range 100 {
		_, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web"), TLS: TLS{CA: string(authority.PEM())}})
		if err == nil || strings.Contains(err.Error(), "insecure") || strings.Contains(err.Error(), "remove") {
			t.Fatalf("List: %v, want an error that asks for the client certificate", err)
		}
	}
}

// TestLongPlatforms checks that the names and the number of the platforms that an image specifies are limited. Otherwise, a registry could
// fill the memory of the manager, because policies keep the platforms of many images.
func TestLongPlatforms(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	long := strings.Repeat("a", 3<<20)
	image := registrytest.Image(t, "x", "linux/amd64", time.Time{})
	add := func(index v1.ImageIndex, p v1.Platform) v1.ImageIndex {
		return mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &p}})
	}
	var few v1.ImageIndex = empty.Index
	for _, p := range []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "x", Architecture: long}} {
		few = add(few, p)
	}
	server.PushIndex(t, "acme/web", "long", few)
	many := few
	for i := range 2 * maxPlatforms {
		many = add(many, v1.Platform{OS: "linux", Architecture: "arm", Variant: fmt.Sprint("v", i)})
	}
	server.PushIndex(t, "acme/web", "many", many)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Architecture = long
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		t.Fatal(err)
	}
	server.PushImage(t, "acme/web", "config", image)
	scanner := scannerAt(newClock())
	for tag, want := range map[string]int{"long": 1, "many": maxPlatforms, "config": 0} {
		got, err := scanner.Resolve(t.Context(), Request{Repository: server.Repository("acme/web")}, tag)
		if err != nil {
			t.Errorf("Resolve %s: %v", tag, err)
			continue
		}
		bytes := 0
		for _, p := range got.Platforms {
			bytes += len(p)
		}
		if len(got.Platforms) != want || bytes > want*maxPlatform {
			t.Errorf("tag %s has %d platforms with %d bytes, want %d with at most %d bytes each", tag, len(got.Platforms), bytes, want, maxPlatform)
		}
		if want > 0 && !got.Supports("linux/amd64") {
			t.Errorf("tag %s does not support linux/amd64", tag)
		}
	}
}
