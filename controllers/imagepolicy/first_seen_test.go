package imagepolicy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/internal/version"
)

// young returns the rejected candidates with the times at which they were first seen.
func young(p *v1alpha1.ImagePolicy) map[string]string {
	out := map[string]string{}
	for _, c := range p.Status.Candidates {
		if c.FirstSeenTime != nil {
			out[c.Version] = c.Verdict + " " + formatTime(c.FirstSeenTime.Time)
		}
	}
	return out
}

// old creates a policy with a spec.minAge of ten minutes, and existing tags.
func old(t *testing.T, tags ...string) *story {
	s := begin(t)
	s.push(tags...)
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "10m" })
	p, _ := s.pass("shop")
	same(t, "versions in the first scan are old enough", len(p.Status.Releases), len(tags))
	return s
}

func TestMinAge(t *testing.T) {
	s := old(t, "1.0.0", "1.1.0")
	s.push("1.2.0")
	p := s.scan("shop")
	seen := s.clock.Now()
	same(t, "offered", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	same(t, "young", young(p), map[string]string{"1.2.0": "MinAge " + formatTime(seen)})
	same(t, "reason", p.Status.Candidates[0].Reason, "the version was first seen at 2026-01-02T03:05:05Z, and is offered from 2026-01-02T03:15:05Z, because spec.minAge is 10m")
	same(t, "rejected", p.Status.Rejected, []v1alpha1.RejectedCount{{Verdict: "MinAge", Count: 1}})
	writes := s.writes
	for range 8 {
		s.scan("shop")
	}
	same(t, "writes while it waits", s.writes, writes)

	s.clock.SetTime(seen.Add(9*time.Minute + 30*time.Second))
	_, next := s.pass("shop")
	if next > 30*time.Second {
		t.Errorf("requeue after %s, want 30s, when the version is old enough", next)
	}
	s.clock.SetTime(seen.Add(10 * time.Minute))
	p, _ = s.pass("shop")
	same(t, "offered when it is old enough", offered(p), []string{"1.2.0 in release", "1.1.0 in release", "1.0.0 in release"})
	same(t, "writes", s.writes, writes+1)
}

func TestMinAgeOverRestarts(t *testing.T) {
	t.Run("a version keeps its time", func(t *testing.T) {
		s := old(t, "1.0.0")
		s.push("1.1.0")
		s.scan("shop")
		seen := s.clock.Now()
		s.clock.Step(5 * time.Minute)
		s.restart()
		p, _ := s.pass("shop")
		same(t, "young", young(p), map[string]string{"1.1.0": "MinAge " + formatTime(seen)})
		s.clock.SetTime(seen.Add(10 * time.Minute))
		p, _ = s.pass("shop")
		same(t, "latest", p.Status.Latest, "1.1.0")
	})
	t.Run("the only version keeps its time after a failed scan", func(t *testing.T) {
		s := begin(t)
		s.push("latest")
		s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "10m" })
		s.pass("shop")
		s.push("1.0.0")
		s.scan("shop")
		s.server.Fail(registrytest.List, 1, registrytest.Status(403, "DENIED"))
		s.scan("shop")
		s.restart()
		same(t, "young", len(young(s.scan("shop"))), 1)
	})
	t.Run("the age of versions pushed while the manager was down is measured from now", func(t *testing.T) {
		s := old(t, "1.0.0")
		s.push("1.1.0")
		s.clock.Step(time.Hour)
		s.restart()
		p, _ := s.pass("shop")
		same(t, "offered", offered(p), []string{"1.0.0 in release"})
		same(t, "young", young(p), map[string]string{"1.1.0": "MinAge " + formatTime(s.clock.Now())})
	})
	t.Run("an unchanged list keeps its age after a restart", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0", "1.1.0")
		s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.MinAge, p.Versioning.Range = "10m", "<1.1.0" })
		s.pass("shop")
		s.clock.Step(time.Hour)
		s.restart()
		s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Versioning.Range = "" })
		p, _ := s.pass("shop")
		same(t, "latest", p.Status.Latest, "1.1.0")
	})
	t.Run("a young list keeps its age after spec.minAge is set", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0", "1.1.0")
		s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Versioning.Range = "<1.1.0" })
		s.pass("shop")
		s.clock.Step(time.Minute)
		s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.MinAge, p.Spec.Versioning.Range = "10m", "" })
		p, _ := s.pass("shop")
		same(t, "young", len(young(p)), 1)
		s.clock.Step(9 * time.Minute)
		p, _ = s.pass("shop")
		same(t, "latest", p.Status.Latest, "1.1.0")
	})
}

func TestMinAgeOfAnotherImage(t *testing.T) {
	for name, between := range map[string]func(*story){
		"": func(*story) {},
		"after a missing Secret": func(s *story) {
			s.edit("shop", func(p *v1alpha1.ImagePolicy) {
				p.Spec.ImagePullSecrets = []v1alpha1.Reference{{Name: "missing"}}
			})
			p, _ := s.pass("shop")
			same(s, "offered without the Secret", offered(p), []string(nil))
			s.server.RequireBasic("robot", "secret")
			s.create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "missing"}, Type: corev1.SecretTypeDockerConfigJson,
				StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"username":"robot","password":"secret"}}}`, s.server.Host())},
			})
			s.clock.Step(10 * time.Minute)
		},
		"after a rejected request": func(s *story) {
			s.server.Fail(registrytest.List, 1, registrytest.Status(403, "DENIED"))
			p, _ := s.pass("shop")
			same(s, "offered after the rejected request", offered(p), []string(nil))
			s.clock.Step(10 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := old(t, "1.0.0")
			s.server.Push(t, "team/other", "2.0.0")
			s.clock.Step(time.Minute)
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Image = s.server.Repository("team/other") })
			between(s)
			p, _ := s.pass("shop")
			same(t, "versions in the first scan of another image are old enough", offered(p), []string{"2.0.0 in release"})
		})
	}
}

// TestYoungVersionsCauseNoRequests checks that versions that are too young cause no requests, however many
// there are.
func TestYoungVersionsCauseNoRequests(t *testing.T) {
	s := old(t, "1.0.0")
	s.push("1.1.0", "1.2.0", "1.3.0")
	asked := s.server.Total()
	p := s.scan("shop")
	same(t, "young", len(young(p)), 3)
	if got := s.server.Total() - asked; got > 3 { // the list, the login, and the digest of the offered version
		t.Errorf("%d requests", got)
	}
}

// TestForgetsWhatIsNotNamed checks that versions that are no longer listed are removed from the record of versions
// without an image.
func TestForgetsWhatIsNotNamed(t *testing.T) {
	before := &firstSeen{withoutImage: map[string]bool{"1.0.0": true, "1.1.0": true, "2.0.0": true}}
	named := version.Result{Offered: []version.Release{{Version: "1.1.0"}, {Version: "1.2.0"}}, Rejected: []version.Rejection{{Version: "2.0.0"}, {Tag: "latest"}}}
	after := before.retain(named)
	same(t, "without an image", after.withoutImage, map[string]bool{"1.1.0": true, "2.0.0": true})
	same(t, "before", len(before.withoutImage), 3)
	if again := after.retain(named); again != after {
		t.Error("the record was copied although no version had to be dropped")
	}
}

// TestMinAgeOfAMovedTag checks that the age of a moved tag is the age of its new image: the offered image
// remains until the new image is old enough. Moving the tag back does not start another wait.
func TestMinAgeOfAMovedTag(t *testing.T) {
	s := old(t, "1.0.0")
	p := s.scan("shop")
	before := p.Status.Releases[0].Images[0].Digest
	moved := s.server.Push(t, path, "1.0.0", "linux/amd64", "linux/arm64")
	p = s.scan("shop")
	seen := s.clock.Now()
	same(t, "image when the tag has moved", p.Status.Releases[0].Images[0].Digest, before)
	writes := s.writes
	for range 8 {
		s.scan("shop")
	}
	same(t, "writes while it waits", s.writes, writes)
	s.clock.SetTime(seen.Add(9*time.Minute + 30*time.Second))
	p, next := s.pass("shop")
	same(t, "image before it is old enough", p.Status.Releases[0].Images[0].Digest, before)
	if next > 30*time.Second {
		t.Errorf("requeue after %s, want 30s, when the image is old enough", next)
	}
	s.clock.SetTime(seen.Add(10 * time.Minute))
	p, _ = s.pass("shop")
	same(t, "image when it is old enough", p.Status.Releases[0].Images[0].Digest, moved)
}

// TestManyYoungVersionsNeedOnePass checks that any number of versions that are too young are rejected in one pass over the tags.
func TestManyYoungVersionsNeedOnePass(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	o, s := fixture(t, []string{"1.0.0"}, "1.0.0")
	o.policy.Spec.MinAge, o.minAge = "1h", time.Hour
	o.policy.Spec.Limits = v1alpha1.ImageLimits{Groups: 1, ReleasesPerGroup: 1}
	o.selector = compile(t, &o.policy.Spec)
	const many = 10_000
	tags := []string{"1.0.0"}
	before := o.observeTags(nil, tags, "", clock.Now())
	for i := range many {
		tags = append(tags, fmt.Sprintf("1.1.%d", i))
	}
	slices.Sort(tags)
	clock.Step(time.Minute)
	s.firstSeen = o.observeTags(before, tags, "", clock.Now())
	a := &recordReader{scanRecord: newScanRecord(o.query, o.access, false), clock: clock, scanner: &shelf{}, ctx: t.Context()}
	refused := map[string]version.Refusal{}
	passes := s.offer(o, a, o.selector.Rank(tags), offeredBefore(o), refused)
	same(t, "passes", passes, 1)
	same(t, "rejected", s.result.Counts, []version.Count{{Verdict: version.VerdictMinAge, Tags: many}})
	same(t, "offered", len(s.result.Offered), 1)
	same(t, "offerable at", s.offerableAt, clock.Now().Add(time.Hour))
}
