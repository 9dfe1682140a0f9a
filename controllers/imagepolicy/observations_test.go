package imagepolicy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// TestRefusedVersionsDoNotDelayOthers checks that three new versions that a vulnerability scanner
// blocks (403 for their manifests) do not prevent another version from being offered.
func TestRefusedVersionsDoNotDelayOthers(t *testing.T) {
	for _, code := range []int{403, 500} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0")
			s.policy("shop")
			p, _ := s.pass("shop")
			same(t, "latest", p.Status.Latest, "1.0.0")
			s.push("1.1.0", "2.0.0", "2.0.1", "2.0.2")
			s.server.FailWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/2.0.") }, -1, registrytest.Status(code, "DENIED"))
			for range 10 {
				p = s.scan("shop")
			}
			same(t, "latest", p.Status.Latest, "1.1.0")
			t.Log(condition(p, "Ready"), " | ", condition(p, "SourceReachable"))
		})
	}
}

// TestRefusedImageDelaysNoOtherByTime checks that, with scheme PushTime, one blocked image does not permanently
// prevent other images from being offered.
func TestRefusedImageDelaysNoOtherByTime(t *testing.T) {
	s := begin(t)
	s.built("a", 3*time.Hour)
	s.policy("shop", byTime)
	p, _ := s.pass("shop")
	s.built("blocked", 2*time.Hour)
	s.server.FailWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/blocked") }, -1, registrytest.Status(403, "DENIED"))
	for i := range 10 {
		s.built(fmt.Sprintf("b%d", i), time.Hour-time.Duration(i)*time.Minute)
		p = s.scan("shop")
	}
	same(t, "latest", tagOf(p.Status.Releases[0].Images), "b9")
	t.Log(condition(p, "Ready"), " | ", condition(p, "SourceReachable"))
}

// TestMinAgeAfterAClockThatWasAhead checks that a manager whose clock was a year ahead offers versions after
// minAge once the clock is corrected and the manager is restarted.
func TestMinAgeAfterAClockThatWasAhead(t *testing.T) {
	s := old(t, "1.0.0")
	right := s.clock.Now()
	s.clock.SetTime(right.Add(365 * 24 * time.Hour))
	s.push("1.1.0")
	s.pass("shop")
	s.clock.SetTime(right.Add(10 * time.Minute))
	s.restart()
	p, _ := s.pass("shop")
	for range 30 {
		p = s.scan("shop")
	}
	same(t, "latest", p.Status.Latest, "1.1.0")
	t.Log(p.Status.Candidates)
}

// slowScanner takes a second for each image.
type slowScanner struct {
	Scanner
	clock *testingclock.FakeClock
}

func (s slowScanner) Resolve(ctx context.Context, r registry.Request, tag string) (registry.Image, error) {
	for end := s.clock.Now().Add(time.Second); s.clock.Now().Before(end); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			return registry.Image{}, ctx.Err()
		}
	}
	return s.Scanner.Resolve(ctx, r, tag)
}

// TestScanCompletesDespitePushes checks that each of 30 pull requests gets its preview within minutes,
// although one of them receives a push every ten seconds.
func TestScanCompletesDespitePushes(t *testing.T) {
	for name, every := range map[string]int{"without pushes": 1000, "a push every ten seconds": 10} {
		t.Run(name, func(t *testing.T) { pushesDoNotKeepAScanFromItsEnd(t, every) })
	}
}

func pushesDoNotKeepAScanFromItsEnd(t *testing.T, every int) {
	s := begin(t)
	s.reconciler.scanner = slowScanner{s.reconciler.scanner, s.clock}
	var all []v1alpha1.PullRequest
	for n := range int64(30) {
		commit := fmt.Sprintf("%040x", n+1)
		s.push(commit)
		all = append(all, pull(n+1, fmt.Sprintf("feature-%d", n), commit, at(s.clock.Now())))
	}
	s.opens(all...)
	s.policy("previews", pulls(nil), func(p *v1alpha1.ImagePolicySpec) {
		p.Match = &v1alpha1.Match{Candidates: []string{"{{.SHA}}"}}
	})
	p := &v1alpha1.ImagePolicy{}
	for second := range 600 {
		if second%every == 0 {
			s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = fmt.Sprintf("%040x", 1000+second) })
		}
		s.clock.Step(time.Second)
		time.Sleep(8 * time.Millisecond)
		if _, err := s.reconciler.Reconcile(s.Context(), ctrl.Request{NamespacedName: s.key("previews")}); err != nil {
			t.Fatal(err)
		}
		if s.get("previews", p); len(p.Status.Releases) >= 29 {
			t.Logf("offered after %d s", second)
			return
		}
	}
	t.Errorf("after ten minutes, %d of 30 pull requests have a preview: %q", len(p.Status.Releases), condition(p, "Ready"))
}

// TestImageThatIsMissingForASecond checks that an image that is missing for a second, for example during
// another push, does not count as gone, regardless of the number of requested scans.
func TestImageThatIsMissingForASecond(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "1.1.0")
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.1.0")
	p, _ := s.pass("shop")
	digest := p.Status.Releases[0].Images[0].Digest
	s.server.Delete(t, path, "1.1.0")
	s.server.Delete(t, path, digest)
	for i := range 3 {
		s.clock.Step(300 * time.Millisecond)
		s.edit("shop", func(p *v1alpha1.ImagePolicy) {
			p.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: fmt.Sprint(i)}
		})
		p, _ = s.pass("shop")
	}
	same(t, "withdrawn within a second", taken(p), []string(nil))
}

// TestMinAgeThatIsRaised checks that a version that is 15 minutes old is not offered after an edit that
// increases spec.minAge to a day and also changes the range.
func TestMinAgeThatIsRaised(t *testing.T) {
	s := begin(t)
	s.push("1.0.0")
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.MinAge, p.Versioning.Range = "10m", "<2" })
	s.pass("shop")
	s.push("2.0.0")
	for range 15 {
		s.scan("shop")
	}
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.MinAge, p.Spec.Versioning.Range = "24h", "" })
	p, _ := s.pass("shop")
	same(t, "offered after a quarter of an hour", offered(p), []string{"1.0.0 in release"})
}

// TestMinAgeOfAMovedTagOverAnOutage checks that a registry outage at the time when a moved tag becomes old
// enough does not restart the wait for the tag.
func TestMinAgeOfAMovedTagOverAnOutage(t *testing.T) {
	s := old(t, "1.0.0")
	s.scan("shop")
	moved := s.server.Push(t, path, "1.0.0", "linux/amd64", "linux/arm64")
	s.scan("shop")
	for range 8 {
		s.scan("shop")
	}
	s.server.Fail(registrytest.List, -1, registrytest.Status(503, "UNAVAILABLE"))
	for range 5 {
		s.scan("shop")
	}
	s.server.Heal()
	var p *v1alpha1.ImagePolicy
	for range 4 {
		p = s.scan("shop")
	}
	same(t, "image 17 minutes after it was first seen, with minAge 10m", p.Status.Releases[0].Images[0].Digest, moved)
}

// TestRefusedHeadAlone checks that the source does not count as failed if the registry rejects the image of
// one head commit while the other previews are known and require no request.
func TestRefusedHeadAlone(t *testing.T) {
	s := begin(t)
	var all []v1alpha1.PullRequest
	for n := range int64(3) {
		commit := fmt.Sprintf("%040x", n+1)
		s.push(commit)
		all = append(all, pull(n+1, fmt.Sprintf("feature-%d", n), commit, at(s.clock.Now())))
	}
	s.opens(all...)
	s.policy("previews", pulls(nil), func(p *v1alpha1.ImagePolicySpec) {
		p.Match = &v1alpha1.Match{Candidates: []string{"{{.SHA}}"}}
	})
	p, _ := s.pass("previews")
	same(t, "offered", len(offered(p)), 3)
	bad := fmt.Sprintf("%040x", 77)
	s.push(bad)
	s.server.FailWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/"+bad) }, -1, registrytest.Status(403, "DENIED"))
	s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = bad })
	p, _ = s.pass("previews")
	for range 3 {
		if c := fmt.Sprint(condition(p, "SourceReachable")); !strings.Contains(c, "True") {
			t.Errorf("one rejected image is reported as a failure of the source: %s", c)
		}
		p = s.scan("previews")
	}
	s.server.FailWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") }, -1, registrytest.Status(403, "DENIED"))
	if p = s.scan("previews"); !strings.Contains(fmt.Sprint(condition(p, "SourceReachable")), "False") {
		t.Errorf("a withdrawn credential is not reported: %s", condition(p, "SourceReachable"))
	}
}

// TestMinAgeOfAnImageThatComesBack checks that, if a tag pointed to an image for only a minute and later points
// to that image again, the image must wait for spec.minAge again.
func TestMinAgeOfAnImageThatComesBack(t *testing.T) {
	s := old(t, "1.0.0")
	p := s.scan("shop")
	good := p.Status.Releases[0].Images[0].Digest
	bad := s.server.Push(t, path, "1.0.0", "linux/amd64", "linux/arm64")
	s.scan("shop")
	retag(t, s.server, "1.0.0", good)
	for range 30 {
		p = s.scan("shop")
	}
	same(t, "back", p.Status.Releases[0].Images[0].Digest, good)
	retag(t, s.server, "1.0.0", bad)
	p = s.scan("shop")
	same(t, "a minute after the tag moved again, minAge 10m", p.Status.Releases[0].Images[0].Digest, good)
}

// retag moves a tag on the server to an existing image.
func retag(t *testing.T, server *registrytest.Server, tag, digest string) {
	t.Helper()
	url := "http://" + server.Host() + "/v2/" + path + "/manifests/"
	answer, err := server.Client().Get(url + digest)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	r, _ := http.NewRequest(http.MethodPut, url+tag, answer.Body)
	r.Header.Set("Content-Type", answer.Header.Get("Content-Type"))
	put, err := server.Client().Do(r)
	if err != nil || put.StatusCode/100 != 2 {
		t.Fatal(err, put)
	}
	put.Body.Close()
}
