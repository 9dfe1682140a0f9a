package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/internal/version"
)

func byTime(p *v1alpha1.ImagePolicySpec) { p.Versioning.Scheme = v1alpha1.SchemePushTime }

// built pushes an image that was built the given duration before the time of the test's clock.
func (s *story) built(tag string, ago time.Duration) (digest string) {
	s.Helper()
	return s.server.PushImage(s, path, tag, registrytest.Image(s, tag, "linux/amd64", s.clock.Now().Add(-ago)))
}

// tagged returns the offered tags with their versions.
func tagged(p *v1alpha1.ImagePolicy) (out []string) {
	for _, rel := range p.Status.Releases {
		out = append(out, rel.SemVer.Version+" "+tagOf(rel.Images))
	}
	return out
}

// TestByTime checks that tags without an order are offered in the order of their images' build times.
func TestByTime(t *testing.T) {
	s := begin(t) // 2026-01-02 03:04:05
	s.built("sha-fff", 48*time.Hour)
	s.built("sha-aaa", time.Hour)
	s.built("sha-bbb", 26*time.Hour)
	s.server.PushImage(t, path, "same", registrytest.Image(t, "other", "linux/amd64", s.clock.Now().Add(-time.Hour)))
	s.built("soon", -30*time.Second)
	s.push("reproducible") // an image without a build time
	s.built("left-out", 0)
	s.policy("shop", byTime, func(p *v1alpha1.ImagePolicySpec) {
		p.TagFilter = &v1alpha1.TagFilter{Exclude: []string{"^left"}}
		p.Deny = []string{"2026.1.1.1.4.5"}
	})
	p, next := s.pass("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.2.4.5 same", "2025.12.31.3.4.5 sha-fff"})
	same(t, "rejected", p.Status.Rejected, []v1alpha1.RejectedCount{{Verdict: "Exclude", Count: 1}, {Verdict: "Parse", Count: 2}, {Verdict: "Deny", Count: 1}, {Verdict: "Duplicate", Count: 1}})
	reasons := map[string]string{}
	for _, c := range p.Status.Candidates {
		reasons[c.Version] = c.Reason
	}
	for tag, want := range map[string]string{
		"reproducible": "set SOURCE_DATE_EPOCH", "soon": "the build time 2026-01-02T03:04:35Z of the image is in the future: fix the clock", "2026.1.2.2.4.5": `the same version as tag "same"`,
	} {
		if !strings.Contains(reasons[tag], want) {
			t.Errorf("%s is rejected because of %q, want %q", tag, reasons[tag], want)
		}
	}
	if next > 30*time.Second {
		t.Errorf("requeue after %s, want at most 30 s, when the build time of the image is reached", next)
	}
	s.clock.Step(30 * time.Second)
	p, _ = s.pass("shop")
	same(t, "latest", p.Status.Latest, "2026.1.2.3.4.35")
}

// TestByTimeStable checks that known times are not requested again, that nothing is written while nothing
// changes, and that the offer is the same after a restart.
func TestByTimeStable(t *testing.T) {
	s := begin(t)
	for i := range 30 {
		s.built(fmt.Sprintf("sha-%02d", (i*7)%30), time.Duration(i+1)*time.Hour)
	}
	s.policy("shop", byTime)
	p, _ := s.pass("shop")
	first := tagged(p)
	same(t, "offered", len(first), 10)
	heads, gets, writes := s.server.Requests(registrytest.Head), s.server.Requests(registrytest.Get), s.writes
	p = s.scan("shop")
	same(t, "offered again", tagged(p), first)
	same(t, "writes", s.writes-writes, 0)
	if heads, gets = s.server.Requests(registrytest.Head)-heads, s.server.Requests(registrytest.Get)-gets; heads > 10 || gets > 0 {
		t.Errorf("%d digests and %d manifests were requested, want one digest for each of the ten offered versions", heads, gets)
	}
	s.restart()
	p = s.scan("shop")
	same(t, "offered after a restart", tagged(p), first)
	same(t, "writes", s.writes-writes, 0)
}

// TestByTimeOfManyTags covers a registry with more tags than one scan requests: no new version is offered
// until all times are known, and offered versions remain in the meantime.
func TestByTimeOfManyTags(t *testing.T) {
	s := begin(t)
	many := 2*maxTimes + 50
	for i := range many {
		s.built(fmt.Sprintf("t%04d", i), time.Duration(i+1)*time.Minute)
	}
	s.policy("shop", byTime, func(p *v1alpha1.ImagePolicySpec) { p.Interval = "1h" })
	for left := many - maxTimes; left > 0; left -= maxTimes {
		asked := manifests(s.server)
		p, next := s.pass("shop")
		same(t, "offered too early", tagged(p), []string(nil))
		if got, want := condition(p, "Ready"), fmt.Sprintf("False Scanning: the build times of %d of %d tags", left, many); !strings.HasPrefix(got, want) {
			t.Errorf("Ready is %q, want %q", got, want)
		}
		if next > timesInterval {
			t.Errorf("next scan in %s", next)
		}
		if n := manifests(s.server) - asked; n > maxTimes {
			t.Errorf("%d images were requested in one scan, want at most %d", n, maxTimes)
		}
		s.clock.Step(timesInterval)
	}
	p, _ := s.pass("shop")
	same(t, "latest", tagged(p)[0], atTime(s.clock.Now().Add(-2*timesInterval-time.Minute))+" t0000")

	s.restart()
	s.built("a-new-one", 0)
	s.clock.Step(time.Hour)
	p, _ = s.pass("shop")
	same(t, "while times are requested again", tagged(p)[0], atTime(s.clock.Now().Add(-time.Hour-2*timesInterval-time.Minute))+" t0000")
	for range 3 {
		s.clock.Step(timesInterval)
		p, _ = s.pass("shop")
	}
	same(t, "latest", tagOf(p.Status.Releases[0].Images), "a-new-one")
}

// TestByTimeOfMovingTags checks that a tag that moves to a newer or older image results in another version,
// that no version is withdrawn, and that no version gets another version's image.
func TestByTimeOfMovingTags(t *testing.T) {
	s := begin(t)
	old := s.built("main", 3*time.Hour)
	stable := s.built("stable", 2*time.Hour)
	s.policy("shop", byTime)
	p, _ := s.pass("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.1.4.5 stable", "2026.1.2.0.4.5 main"})
	s.microservice("shop", "shop", "release 2026.1.2.0.4.5", "release 2026.1.2.1.4.5")

	young := s.built("main", time.Hour)
	p = s.scan("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.2.4.5 main", "2026.1.2.1.4.5 stable"})
	same(t, "digests", []string{p.Status.Releases[0].Images[0].Digest, p.Status.Releases[1].Images[0].Digest}, []string{young, stable})
	same(t, "withdrawn", taken(p), []string(nil))
	for _, e := range s.reported() {
		if strings.Contains(e, "TagMoved") {
			t.Errorf("reported %q, although the image has another version", e)
		}
	}

	s.built("main", 5*time.Hour)
	p = s.scan("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.1.4.5 stable", "2026.1.1.22.5.5 main"})
	same(t, "withdrawn", taken(p), []string(nil))
	if d := p.Status.Releases[1].Images[0].Digest; d == old || d == young {
		t.Errorf("an older image is offered with the digest %s of another image", d)
	}

	// Tags beyond the limits are not requested in every scan. A moved tag is noticed just before it would be offered.
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Limits.ReleasesPerGroup = 1 })
	s.hold("shop")
	p = s.scan("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.1.4.5 stable"})
	moved := s.built("main", 4*time.Hour)
	s.scan("shop")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Deny = []string{"2026.1.2.1.4.5"} })
	p = s.scan("shop")
	same(t, "offered", len(p.Status.Releases), 1)
	same(t, "digest", p.Status.Releases[0].Images[0].Digest, moved)
	if v := p.Status.Releases[0].SemVer.Version; !strings.HasPrefix(v, "2026.1.1.23.") {
		t.Errorf("version %s does not belong to the current image of the tag", v)
	}
}

// TestByTimeOfAMovedTagWithMinAge checks that the new image of a moved tag is offered when it is older than
// spec.minAge, measured from the scan that found it, and that the previous version is not withdrawn until then. The image might not
// be signed until later, and the tag might have moved several times.
func TestByTimeOfAMovedTagWithMinAge(t *testing.T) {
	s := begin(t)
	key := cosigntest.NewKey(t)
	s.keys(map[string][]byte{"cosign.pub": key.PEM(t)})
	key.Sign(t, s.server, path, s.built("main", 3*time.Hour))
	s.policy("shop", byTime, signed, func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "1h" })
	p, _ := s.pass("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.0.4.5 main"})
	s.microservice("shop", "shop", "release 2026.1.2.0.4.5")
	for name, move := range map[string]func() string{
		"signed":          func() string { d := s.built("main", time.Minute); key.Sign(t, s.server, path, d); return d },
		"signed later":    func() string { return s.built("main", 2*time.Minute) },
		"from the future": func() string { d := s.built("main", -40*time.Second); key.Sign(t, s.server, path, d); return d },
		"after an unsigned image": func() string {
			s.built("main", 4*time.Minute)
			s.scan("shop")
			s.clock.Step(time.Hour)
			s.scan("shop")
			d := s.built("main", time.Minute)
			key.Sign(t, s.server, path, d)
			return d
		},
	} {
		digest := move()
		s.scan("shop")
		key.Sign(t, s.server, path, digest)
		for range 3 {
			p = s.scan("shop")
			same(t, name+": offered while the new image is too young", tagged(p), []string(nil))
			same(t, name+": withdrawn", taken(p), []string(nil))
		}
		s.clock.Step(time.Hour)
		p = s.scan("shop")
		if len(p.Status.Releases) != 1 || p.Status.Releases[0].Images[0].Digest != digest {
			t.Errorf("%s: offered when it is old enough: %v", name, tagged(p))
		}
	}
}

// TestByTimeOfARebuildWithMinAge checks that a new image with the build time of the offered image is offered when the new image is
// old enough.
func TestByTimeOfARebuildWithMinAge(t *testing.T) {
	s := begin(t)
	old := s.built("main", 3*time.Hour)
	s.policy("shop", byTime, func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "1h" })
	p, _ := s.pass("shop")
	before := tagged(p)
	rebuilt := s.server.PushImage(t, path, "main", registrytest.Image(t, "rebuilt", "linux/amd64", s.clock.Now().Add(-3*time.Hour)))
	p = s.scan("shop")
	same(t, "offered", tagged(p), before)
	same(t, "digest while it is too young", p.Status.Releases[0].Images[0].Digest, old)
	s.clock.Step(time.Hour)
	for range 2 {
		p = s.scan("shop")
	}
	same(t, "digest when it is old enough", p.Status.Releases[0].Images[0].Digest, rebuilt)
}

// TestByTimeOfAMovedTagWhileATimeIsUnknown checks that no version gets another version's image, and that spec.minAge applies, if a tag moves
// while the time of another tag cannot be read.
func TestByTimeOfAMovedTagWhileATimeIsUnknown(t *testing.T) {
	s := begin(t)
	old := s.built("b", 3*time.Hour)
	s.policy("shop", byTime, func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "1h" })
	p, _ := s.pass("shop")
	before := tagged(p)
	young, version := s.built("b", 2*time.Hour), atTime(s.clock.Now().Add(-2*time.Hour))
	s.built("c", 4*time.Hour)
	s.server.FailWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/c") }, -1, registrytest.Status(503, "UNAVAILABLE"))
	p = s.scan("shop")
	same(t, "offered while a time is not known", tagged(p), before)
	same(t, "digest", p.Status.Releases[0].Images[0].Digest, old)
	s.server.Heal()
	s.scan("shop")
	s.clock.Step(2 * time.Hour)
	for range 2 {
		p = s.scan("shop")
	}
	same(t, "newest", tagged(p)[0], version+" b")
	same(t, "digest when it is old enough", p.Status.Releases[0].Images[0].Digest, young)
}

// TestByTimeInsteadOfSemVerWithMinAge checks that a change to the versioning scheme does not make an image younger.
func TestByTimeInsteadOfSemVerWithMinAge(t *testing.T) {
	s := begin(t)
	s.built("1.0.0", 3*time.Hour)
	s.built("1.1.0", time.Hour)
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.MinAge, p.Limits.ReleasesPerGroup = "1h", 1 })
	p, _ := s.pass("shop")
	same(t, "offered", tagged(p), []string{"1.1.0 1.1.0"})
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { byTime(&p.Spec) })
	p = s.scan("shop")
	same(t, "offered after the change", tagged(p), []string{"2026.1.2.2.4.5 1.1.0"})
}

// TestByTimeWithFailures checks that, if a registry responds to only some requests or to none, nothing is withdrawn
// and the order of versions does not change.
func TestByTimeWithFailures(t *testing.T) {
	s := begin(t)
	s.built("b", 3*time.Hour)
	s.policy("shop", byTime)
	before, _ := s.pass("shop")
	same(t, "offered", len(before.Status.Releases), 1)
	s.built("a", 2*time.Hour)
	s.built("c", time.Hour)
	s.server.FailWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/c") }, -1, registrytest.Status(503, "UNAVAILABLE"))
	p := s.scan("shop")
	same(t, "offered while a time is not known", tagged(p), tagged(before))
	if got := condition(p, "SourceReachable"); !strings.HasPrefix(got, "False Unreachable: ") {
		t.Errorf("SourceReachable is %q", got)
	}
	s.server.Heal()
	p = s.scan("shop")
	same(t, "offered", len(p.Status.Releases), 3)
	same(t, "latest", tagOf(p.Status.Releases[0].Images), "c")

	s.restart()
	s.server.Fail(registrytest.List, -1, registrytest.Status(503, "UNAVAILABLE"))
	same(t, "offered while the registry is unavailable", tagged(s.scan("shop")), tagged(p))
	s.server.Heal()
	// An image that is listed but does not exist is requested again, and does not block other images.
	s.server.FailWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/d") }, -1, registrytest.Status(404, "MANIFEST_UNKNOWN"))
	s.built("d", 0)
	p = s.scan("shop")
	same(t, "latest", tagOf(p.Status.Releases[0].Images), "c")
	s.server.Heal()
	p = s.scan("shop")
	same(t, "latest", tagOf(p.Status.Releases[0].Images), "d")
	// An image counts as gone after its absence has been proved twice.
	s.server.Delete(t, path, "d")
	s.server.Delete(t, path, p.Status.Releases[0].Images[0].Digest)
	s.microservice("shop", "shop", "release "+p.Status.Latest)
	s.scan("shop")
	same(t, "withdrawn", taken(s.scan("shop")), []string{p.Status.Latest + " in release: Gone"})
}

// TestByTimeOfIndexes checks that the build time of an image for several platforms is the time in its index
// or, if the index has none, in the image for the platform.
func TestByTimeOfIndexes(t *testing.T) {
	s := begin(t)
	index := func(tag string, ago time.Duration, annotated string) {
		inner := registrytest.Image(t, tag, "linux/amd64", s.clock.Now().Add(-ago))
		var all v1.ImageIndex = mutate.IndexMediaType(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
			Add: inner, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
		}), types.OCIImageIndex)
		if annotated != "" {
			all = mutate.Annotations(all, map[string]string{"org.opencontainers.image.created": annotated}).(v1.ImageIndex)
		}
		s.server.PushIndex(t, path, tag, all)
	}
	index("inner", time.Hour, "")
	index("annotated", time.Hour, "2025-06-07T08:09:10Z")
	s.policy("shop", byTime)
	p, _ := s.pass("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.2.4.5 inner", "2025.6.7.8.9.10 annotated"})
}

// TestByTimeInsteadOfSemVer checks that, after a change to the versioning scheme, versions in use remain
// until there is a newer version.
func TestByTimeInsteadOfSemVer(t *testing.T) {
	s := begin(t)
	s.built("1.0.0", time.Hour)
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.0.0")
	s.pass("shop")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { byTime(&p.Spec) })
	p := s.scan("shop")
	same(t, "offered", tagged(p), []string{"2026.1.2.2.4.5 1.0.0"})
	same(t, "withdrawn", taken(p), []string(nil))
	if version.Compare(p.Status.Latest, "1.0.0") <= 0 {
		t.Errorf("%s is not above 1.0.0", p.Status.Latest)
	}
}

// TestExplainByTime checks that Explain requests all build times in one run, and returns the same versions as the controller.
func TestExplainByTime(t *testing.T) {
	server := registrytest.New(t)
	start := time.Now().Add(-time.Hour).UTC()
	for i := range 3 {
		tag := fmt.Sprintf("t%d", i)
		server.PushImage(t, path, tag, registrytest.Image(t, tag, "linux/amd64", start.Add(-time.Duration(i)*time.Minute)))
	}
	policy := &v1alpha1.ImagePolicy{}
	policy.Spec.Image = server.Repository(path)
	byTime(&policy.Spec)
	got, err := Explain(t.Context(), policy, registry.New(registry.Options{Outbound: registrytest.Outbound()}), registry.Credential{}, registry.TLS{}, "linux/amd64", nil)
	if err != nil || len(got.Offered) != 3 || got.Offered[0].Tag != "t0" || got.Offered[0].Version != atTime(start) {
		t.Errorf("explained as %+v, %v", got.Offered, err)
	}
	if _, err := ExplainTags(policy, []string{"t0"}); err != errTimes {
		t.Errorf("a list of tags: %v", err)
	}
}

// TestExplainTimesOfManyImages checks that Explain requests the times of 1,500 images in one run, each only
// once regardless of the result, and reports its progress. If the registry fails, or the caller stops
// waiting, Explain stops at one of the next images, and no tag is evaluated.
func TestExplainTimesOfManyImages(t *testing.T) {
	const many = 1500
	server := registrytest.New(t)
	last := time.Now().Add(-time.Hour).UTC()
	server.PushImage(t, path, "t0000", registrytest.Image(t, "t0000", "linux/amd64", last))
	raw := manifest(t, server, "t0000")
	for i := 1; i < many; i++ {
		put(t, server, fmt.Sprintf("t%04d", i), strings.Replace(raw, "{", fmt.Sprintf(`{"annotations":{%q:%q},`, "org.opencontainers.image.created", last.Add(-time.Duration(i)*time.Minute).Format(time.RFC3339)), 1))
	}
	policy := &v1alpha1.ImagePolicy{}
	policy.Spec.Image = server.Repository(path)
	byTime(&policy.Spec)
	explain := func(ctx context.Context, progress func(Progress)) (Explanation, error) {
		scanner := registry.New(registry.Options{Outbound: registrytest.Outbound(), PerSecond: 1e6, Burst: 1e6})
		return Explain(ctx, policy, scanner, registry.Credential{}, registry.TLS{}, "linux/amd64", progress)
	}
	// bounded checks that the number of requests is not too high for the number of images. before is the number of earlier
	// requests.
	bounded := func(t *testing.T, before, images int) {
		t.Helper()
		if n := server.Total() - before; n > 3*images+50 { // digest, manifest, and configuration of each image; the list, and failed attempts
			t.Errorf("%d requests for %d images", n, images)
		}
	}
	defer server.Heal()

	t.Run("all", func(t *testing.T) {
		before, reported, fell := server.Total(), Progress{}, false
		got, err := explain(t.Context(), func(p Progress) {
			fell = fell || p.Timed < reported.Timed || p.Times < reported.Times || p.Images < reported.Images
			reported = p
		})
		if err != nil || len(got.Offered) != 10 || got.Offered[0].Tag != "t0000" || got.Tags != many || got.Untimed != 0 {
			t.Errorf("%d of %d tags are offered, %d without a time, %v", len(got.Offered), got.Tags, got.Untimed, err)
		}
		if want := (Progress{Timed: many, Times: many, Images: 10}); fell || reported != want {
			t.Errorf("the last progress was %+v, and progress decreased: %t; want %+v", reported, fell, want)
		}
		bounded(t, before, many)
	})
	t.Run("until the caller stops waiting", func(t *testing.T) {
		reason := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		before := server.Total()
		got, err := explain(ctx, func(p Progress) {
			if p.Timed == 300 {
				cancel(reason)
			}
		})
		if want := fmt.Sprintf("the build times of %d of %d tags are unknown", many-300, many); !errors.Is(err, reason) || !strings.HasPrefix(err.Error(), want) || got.Untimed != many-300 || len(got.Offered) > 0 {
			t.Errorf("%d offered, %d without a time, %v; want %q", len(got.Offered), got.Untimed, err, want)
		}
		bounded(t, before, 300)
	})
	t.Run("until the registry fails", func(t *testing.T) {
		tags := 0 // counted under the server's lock
		server.FailWhen(func(r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/t") {
				tags++
			}
			return tags > 400
		}, -1, registrytest.Status(http.StatusServiceUnavailable, "UNAVAILABLE"))
		before := server.Total()
		got, err := explain(t.Context(), nil)
		if registry.KindOf(err) != registry.Unreachable || got.Untimed != many-400 || len(got.Offered) > 0 {
			t.Errorf("%d offered, %d without a time, %v; want %q", len(got.Offered), got.Untimed, err, registry.Unreachable)
		}
		bounded(t, before, 400)
	})
}

// manifest returns the stored manifest of a tag.
func manifest(t *testing.T, server *registrytest.Server, tag string) string {
	t.Helper()
	resp, err := server.Client().Get("http://" + server.Host() + "/v2/" + path + "/manifests/" + tag)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("read the manifest of %s: %s, %v", tag, resp.Status, err)
	}
	return string(raw)
}

// put stores a manifest whose blobs exist.
func put(t *testing.T, server *registrytest.Server, tag, manifest string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, "http://"+server.Host()+"/v2/"+path+"/manifests/"+tag, strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", string(types.DockerManifestSchema2))
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("put the manifest of %s: %s", tag, resp.Status)
	}
}

// TestAtTime checks that later times are higher versions, and that versions are recognized as times.
func TestAtTime(t *testing.T) {
	start := time.Date(1999, 12, 31, 23, 59, 58, 0, time.UTC)
	var versions []string
	for _, d := range []time.Duration{0, time.Second, 2 * time.Second, time.Minute, 9 * time.Hour, 10 * time.Hour, 31 * 24 * time.Hour, 300 * 24 * time.Hour, 9000 * 24 * time.Hour} {
		v := atTime(start.Add(d).In(time.FixedZone("east", 3600)))
		if !isTime(v) {
			t.Errorf("%q is not a time", v)
		}
		versions = append(versions, v)
	}
	if !slices.IsSortedFunc(versions, version.Compare) {
		t.Errorf("%q are not in order", versions)
	}
	for _, v := range []string{"1.2.3", "2026.1.5.13.7", "2026.13.5.13.7.9", "2026.01.5.13.7.9", "2026.1.5.13.7.9-rc.1", ""} {
		if isTime(v) {
			t.Errorf("%q is a time", v)
		}
	}
}
