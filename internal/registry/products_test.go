package registry

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// withAttestations returns an index as docker buildx writes it, with an image for each platform, and an attestation with the platform unknown/unknown for
// each image.
func withAttestations(t *testing.T, platforms ...string) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		p, err := v1.ParsePlatform(platform)
		if err != nil {
			t.Fatal(err)
		}
		image := registrytest.Image(t, platform, platform, time.Time{})
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: p}},
			mutate.IndexAddendum{Add: registrytest.Image(t, "attestation of "+platform, "unknown/unknown", time.Time{}), Descriptor: v1.Descriptor{
				Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
				Annotations: map[string]string{"vnd.docker.reference.digest": digestOf(t, image), "vnd.docker.reference.type": "attestation-manifest"},
			}})
	}
	return index
}

func digestOf(t *testing.T, x interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	digest, err := x.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// artifact returns a manifest of an artifact that is not an image, such as a chart, with an empty configuration of the given type.
func artifact(configuration types.MediaType) v1.Image {
	return mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), configuration)
}

// turning requests smaller pages than the scanner does, and counts these requests. Before each request, it calls the function in the before field.
type turning struct {
	next   http.RoundTripper
	size   int // 0 means the size that the scanner requests
	before func(page int) error

	mu    sync.Mutex
	pages int
}

func (x *turning) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/tags/list") {
		x.mu.Lock()
		x.pages++
		page := x.pages
		x.mu.Unlock()
		if x.before != nil {
			if err := x.before(page); err != nil {
				return nil, err
			}
		}
		if query := r.URL.Query(); x.size > 0 && query.Has("n") {
			r = r.Clone(r.Context())
			query.Set("n", strconv.Itoa(x.size))
			r.URL.RawQuery = query.Encode()
		}
	}
	return x.next.RoundTrip(r)
}

// product is one test case against a registry server from another project.
type product struct {
	*testing.T
	*registrytest.Process
	of      registrytest.Product
	auth    Credential
	scanner *Scanner
	path    string // different for each case
}

func (p *product) request() Request {
	return Request{Repository: p.Repository(p.path), Auth: p.auth, Timeout: 2 * time.Minute}
}

// scannerBy returns a scanner that sends its requests through x.
func (p *product) scannerBy(x *turning) *Scanner {
	x.next = NewTransport(registrytest.Outbound())
	return New(Options{Outbound: registrytest.Outbound(), Transport: x, Backoff: fast, PerSecond: 1e6, Burst: 1e6})
}

func (p *product) image(tag string) (digest string) {
	p.Helper()
	return p.PushImage(p.path, tag, registrytest.Image(p, p.path+":"+tag, "linux/amd64", time.Time{}))
}

// lists checks the list of tags.
func (p *product) lists(what string, want ...string) {
	p.Helper()
	scan, err := p.scanner.List(p.Context(), p.request())
	if diff := cmp.Diff(sorted(want), scan.Tags); err != nil || scan.Truncated || diff != "" {
		p.Errorf("List %s: truncated %t, %v (-want +got):\n%s", what, scan.Truncated, err, diff)
	}
}

// gone checks the result of Gone.
func (p *product) gone(what, tag, digest, witness string, want bool) {
	p.Helper()
	if got, err := p.scanner.Gone(p.Context(), p.request(), tag, digest, witness); err != nil || got != want {
		p.Errorf("Gone %s = %t, %v; want %t", what, got, err, want)
	}
}

// restarted stops the registry and starts it again.
func (p *product) restarted() error {
	p.Stop()
	return p.Start()
}

// productCases contains a test case for each property that discovery requires of registries.
var productCases = map[string]func(*product){
	"lists all pages": func(p *product) {
		many, sizes := 301, map[int]int{100: 4, 43: 7} // the last page of 43 tags is full
		if p.auth == (Credential{}) {                  // one test with more than a page of the scanner's own size is sufficient
			many, sizes = 1200, map[int]int{0: 2, 100: 12, 1200: 1}
		}
		tags := numbered(many)
		p.Tag(p.path, p.image(tags[0]), tags[1:]...)
		for size, want := range sizes {
			x := &turning{size: size}
			scan, err := p.scannerBy(x).List(p.Context(), p.request())
			if err != nil || scan.Truncated || cmp.Diff(sorted(tags), scan.Tags) != "" {
				p.Errorf("pages of %d: %d tags, truncated %t, %v; want all %d", size, len(scan.Tags), scan.Truncated, err, len(tags))
			}
			if p.of.Pages && x.pages != want && x.pages != want+1 { // some registries link to an empty last page
				p.Errorf("%d pages of %d, want %d", x.pages, size, want)
			} else if !p.of.Pages && x.pages != 1+many/pageSize { // all tags on one page; the request is repeated if the list might be truncated at 1,000
				p.Errorf("%d pages of %d, want all in one", x.pages, size)
			}
		}
		cut := p.request()
		cut.MaxTags = 150
		scan, err := p.scannerBy(&turning{size: 100}).List(p.Context(), cut)
		if err != nil || !scan.Truncated || len(scan.Tags) != 150 {
			p.Errorf("a limit of 150: %d tags, truncated %t, %v", len(scan.Tags), scan.Truncated, err)
		}
	},
	"a restart between two pages loses no tag": func(p *product) {
		tags := numbered(60)
		p.Tag(p.path, p.image(tags[0]), tags[1:]...)
		at := 1
		if p.of.Pages {
			at = 3
		}
		var restarted error
		x := &turning{size: 20, before: func(page int) error {
			if page == at {
				restarted = p.restarted()
			}
			return nil
		}}
		scan, err := p.scannerBy(x).List(p.Context(), p.request())
		if err != nil || restarted != nil || scan.Truncated || cmp.Diff(sorted(tags), scan.Tags) != "" {
			p.Errorf("%d tags, truncated %t, %v, %v; want all %d", len(scan.Tags), scan.Truncated, err, restarted, len(tags))
		}
	},
	"stopping the registry between two pages results in an error and never in a partial list": func(p *product) {
		tags := numbered(60)
		digest := p.image(tags[0])
		p.Tag(p.path, digest, tags[1:]...)
		at := 1
		if p.of.Pages {
			at = 3
		}
		stop := sync.OnceFunc(p.Stop)
		scanner := p.scannerBy(&turning{size: 20, before: func(page int) error {
			if page == at {
				stop()
			}
			return nil
		}})
		if scan, err := scanner.List(p.Context(), p.request()); KindOf(err) != Unreachable || len(scan.Tags) > 0 {
			p.Errorf("List = %d tags, %v; want %q", len(scan.Tags), err, Unreachable)
		}
		if _, err := p.scanner.Resolve(p.Context(), p.request(), tags[0]); KindOf(err) != Unreachable {
			p.Errorf("Resolve = %v, want %q", err, Unreachable)
		}
		if _, err := p.scanner.Gone(p.Context(), p.request(), "2.0.0", "", tags[0]); KindOf(err) != Unreachable {
			p.Errorf("Gone = %v, want %q: an unreachable registry does not prove that a tag is gone", err, Unreachable)
		}
		if err := p.Start(); err != nil {
			p.Fatal(err)
		}
		scan, err := scanner.List(p.Context(), p.request())
		if err != nil || cmp.Diff(sorted(tags), scan.Tags) != "" {
			p.Errorf("after it came back: %d tags, %v", len(scan.Tags), err)
		}
		if image, err := p.scanner.Resolve(p.Context(), p.request(), tags[59]); err != nil || image.Digest != digest {
			p.Errorf("after it came back: %v, %v", image.Digest, err)
		}
	},
	"a repository that does not exist": func(p *product) {
		if _, err := p.scanner.List(p.Context(), p.request()); KindOf(err) != NotFound {
			p.Errorf("List: %v, want %q", err, NotFound)
		}
		if _, err := p.scanner.Resolve(p.Context(), p.request(), "1.0.0"); KindOf(err) != NotFound {
			p.Errorf("Resolve: %v, want %q", err, NotFound)
		}
	},
	"a missing permission is reported": func(p *product) {
		p.image("1.0.0")
		p.lists("with permission", "1.0.0")
		if p.auth == (Credential{}) {
			return
		}
		for what, credential := range map[string]Credential{"anonymous": {}, "another": {Username: registrytest.Robot, Password: "a guess"}} {
			r := p.request()
			r.Auth = credential
			if _, err := p.scanner.List(p.Context(), r); KindOf(err) != Unauthorized {
				p.Errorf("List as %s: %v, want %q", what, err, Unauthorized)
			}
			if _, err := p.scanner.Resolve(p.Context(), r, "1.0.0"); KindOf(err) != Unauthorized {
				p.Errorf("Resolve as %s: %v, want %q", what, err, Unauthorized)
			}
		}
	},
	"images, indexes with attestations, and artifacts": func(p *product) {
		const chart, blank, signature = "application/vnd.cncf.helm.config.v1+json", "application/vnd.oci.empty.v1+json", "application/vnd.example.signature+json"
		image := p.image("1.0.0")
		index := p.PushIndex(p.path, "2.0.0", withAttestations(p.T, "linux/amd64", "linux/arm64"))
		p.PushIndex(p.path, "2.1.0", mutate.IndexMediaType(withAttestations(p.T, "linux/amd64", "linux/arm64"), types.DockerManifestList))
		p.PushIndex(p.path, "2.2.0", mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
			mutate.IndexAddendum{Add: registrytest.Image(p, "without a platform in the index", "linux/arm64", time.Time{})}))
		long := strings.Repeat("x", 128)
		p.Tag(p.path, image, long)
		p.PushImage(p.path, "chart-1.0.0", artifact(chart))
		p.PushImage(p.path, "artifact-1.0.0", artifact(blank))
		p.PushImage(p.path, strings.Replace(image, ":", "-", 1)+".sig", artifact(signature))
		want := map[string][]string{
			"1.0.0": {"linux/amd64"}, "2.0.0": {"linux/amd64", "linux/arm64"}, "2.1.0": {"linux/amd64", "linux/arm64"}, "2.2.0": {"linux/arm64"},
			long: {"linux/amd64"}, "chart-1.0.0": nil, "artifact-1.0.0": nil, strings.Replace(image, ":", "-", 1) + ".sig": nil,
		}
		p.lists("with artifacts", slices.Collect(maps.Keys(want))...)
		for tag, platforms := range want {
			image, err := p.scanner.Resolve(p.Context(), p.request(), tag)
			if diff := cmp.Diff(platforms, image.Platforms); err != nil || diff != "" {
				p.Errorf("platforms of %s: %v (-want +got):\n%s", tag, err, diff)
			}
		}
		for what, tc := range map[string]struct{ digest, platform, label string }{
			"image": {image, "", p.path + ":1.0.0"}, "first of an index": {index, "", "linux/amd64"}, "second of an index": {index, "linux/arm64", "linux/arm64"},
		} {
			if image, err := p.scanner.Inspect(p.Context(), p.request(), tc.digest, tc.platform); err != nil || image.Labels["label"] != tc.label {
				p.Errorf("Inspect %s = %v, %v", what, image.Labels, err)
			}
		}
	},
	"the referrers of an image": func(p *product) {
		image := p.image("1.0.0")
		if found, err := p.scanner.Referrers(p.Context(), p.request(), image, 10); err != nil || len(found) != 0 {
			p.Errorf("Referrers = %v, %v; want none", found, err)
		}
		referrer := p.PushReferrer(p.path, image, artifact("application/vnd.example.signature+json"))
		found, err := p.scanner.Referrers(p.Context(), p.request(), image, 10)
		if err != nil || len(found) != 1 || found[0].Digest.String() != referrer {
			p.Errorf("Referrers = %v, %v; want one", found, err)
		}
	},
	"a tag that is deleted while its image remains": func(p *product) {
		witness, image := p.image("1.0.0"), p.image("1.1.0")
		p.Tag(p.path, image, "3.0.0")
		p.gone("before", "3.0.0", image, witness, false)
		p.Untag(p.path, "3.0.0")
		p.lists("without the tag", "1.0.0", "1.1.0")
		p.gone("while the image remains", "3.0.0", image, witness, false)
		p.gone("the tag alone", "3.0.0", "", witness, true)
		if _, err := p.scanner.Resolve(p.Context(), p.request(), "3.0.0"); KindOf(err) != NotFound {
			p.Errorf("Resolve: %v, want %q", err, NotFound)
		}
	},
	"an image that is deleted": func(p *product) {
		witness, image := p.image("1.0.0"), p.image("1.1.0")
		p.Tag(p.path, image, "3.0.0")
		p.Delete(p.path, image)
		p.lists("without the image", "1.0.0")
		for _, tag := range []string{"1.1.0", "3.0.0"} {
			p.gone(tag, tag, image, witness, true)
		}
		p.gone("with a witness that is also gone", "1.1.0", image, image, false)
	},
	"a deleted image in an index": func(p *product) {
		index := withAttestations(p.T, "linux/amd64", "linux/arm64")
		digest := p.PushIndex(p.path, "2.0.0", index)
		manifest, err := index.IndexManifest()
		if err != nil {
			p.Fatal(err)
		}
		p.Delete(p.path, manifest.Manifests[0].Digest.String())
		if image, err := p.scanner.Resolve(p.Context(), p.request(), "2.0.0"); err != nil || len(image.Platforms) != 2 {
			p.Errorf("Resolve = %v, %v: the index still names both", image.Platforms, err)
		}
		if _, err := p.scanner.Inspect(p.Context(), p.request(), digest, "linux/amd64"); KindOf(err) != NotFound {
			p.Errorf("Inspect of the deleted image: %v, want %q", err, NotFound)
		}
		if image, err := p.scanner.Inspect(p.Context(), p.request(), digest, "linux/arm64"); err != nil || image.Labels["label"] != "linux/arm64" {
			p.Errorf("Inspect of the other = %v, %v", image.Labels, err)
		}
	},
	"a repository whose tags are all deleted proves nothing": func(p *product) {
		image := p.image("1.0.0")
		p.Tag(p.path, image, "1.1.0")
		p.Untag(p.path, "1.1.0")
		p.Delete(p.path, image)
		if scan, err := p.scanner.List(p.Context(), p.request()); err != nil && KindOf(err) != NotFound || len(scan.Tags) > 0 {
			p.Errorf("List = %q, %v; want none, or %q", scan.Tags, err, NotFound)
		}
		p.gone("without a witness", "1.0.0", image, image, false)
	},
	"a tag in capital letters is found under its listed name": func(p *product) {
		image := p.image("1.0.0-RC.1")
		scan, err := p.scanner.List(p.Context(), p.request())
		if err != nil || len(scan.Tags) != 1 || !strings.EqualFold(scan.Tags[0], "1.0.0-RC.1") { // some registries return tags in lower case
			p.Fatalf("List = %q, %v", scan.Tags, err)
		}
		if found, err := p.scanner.Resolve(p.Context(), p.request(), scan.Tags[0]); err != nil || found.Digest != image {
			p.Errorf("Resolve %q = %s, %v; want %s", scan.Tags[0], found.Digest, err, image)
		}
		p.gone("as it is listed", scan.Tags[0], image, image, false)
	},
	"a tag that moves": func(p *product) {
		p.image("1.0.0")
		first, err := p.scanner.Resolve(p.Context(), p.request(), "1.0.0")
		if err != nil {
			p.Fatal(err)
		}
		second := p.image("1.1.0")
		p.PushImage(p.path, "1.0.0", registrytest.Image(p, p.path+":1.1.0", "linux/amd64", time.Time{}))
		if moved, err := p.scanner.Resolve(p.Context(), p.request(), "1.0.0"); err != nil || moved.Digest != second || moved.Digest == first.Digest {
			p.Errorf("Resolve = %s, %v; want %s", moved.Digest, err, second)
		}
	},
}

// TestProducts reads from registries that other projects develop, with each login method and without a login. Each registry runs as a separate
// process. It skips registries that "make test-registries" has not built.
func TestProducts(t *testing.T) {
	for _, of := range registrytest.Products() {
		t.Run(of.Name, func(t *testing.T) {
			for _, login := range of.Logins {
				t.Run(string(login), func(t *testing.T) {
					t.Parallel()
					process := of.Start(t, login)
					p := product{Process: process, of: of}
					if login != registrytest.Everybody {
						p.auth = Credential{Username: registrytest.Robot, Password: registrytest.RobotPassword}
					}
					for i, name := range slices.Sorted(maps.Keys(productCases)) { // in order, because some cases stop the registry
						t.Run(name, func(t *testing.T) {
							p.For(t)
							p.T, p.path = t, fmt.Sprintf("team/case-%d", i)
							p.scanner = p.scannerBy(&turning{})
							productCases[name](&p)
						})
					}
				})
			}
		})
	}
}
