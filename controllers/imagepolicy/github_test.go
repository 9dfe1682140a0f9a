package imagepolicy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/internal/status"
)

// sha returns a commit SHA that consists of one digit.
func sha(digit string) string { return strings.Repeat(digit, 40) }

// repository creates a GitHubRepository that has been polled.
func (s *story) repository(name string, edit func(*v1alpha1.GitHubRepositoryStatus)) {
	s.Helper()
	s.create(&v1alpha1.GitHubRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       v1alpha1.GitHubRepositorySpec{Owner: "acme", Repo: "shop"},
	})
	s.setRepositoryStatus(name, func(st *v1alpha1.GitHubRepositoryStatus) {
		st.Repository, st.RepositoryID, st.OpenPullRequests = "acme/shop", 1296269, new(int32)
		status.Ready(&st.Conditions, 1, status.ReasonSucceeded, "GitHub responds")
		edit(st)
	})
}

// setRepositoryStatus changes a GitHubRepository's status.
func (s *story) setRepositoryStatus(name string, edit func(*v1alpha1.GitHubRepositoryStatus)) {
	s.Helper()
	repository := &v1alpha1.GitHubRepository{}
	s.get(name, repository)
	edit(&repository.Status)
	repository.Status.ObservedGeneration = repository.Generation
	if err := env.Client.Status().Update(s.Context(), repository); err != nil {
		s.Fatal(err)
	}
}

// fromGitHub returns an edit that sets the GitHubRepository "shop" as the source.
func fromGitHub(edit func(*v1alpha1.GitHubSource)) func(*v1alpha1.ImagePolicySpec) {
	return func(p *v1alpha1.ImagePolicySpec) {
		source := &v1alpha1.GitHubSource{RepositoryRef: v1alpha1.NamespacedReference{Name: "shop"}}
		edit(source)
		p.Source = &v1alpha1.ImageSource{GitHub: source}
	}
}

var (
	releases = fromGitHub(func(g *v1alpha1.GitHubSource) { g.Releases = &v1alpha1.GitHubReleases{} })
	tags     = fromGitHub(func(g *v1alpha1.GitHubSource) { g.Tags = &v1alpha1.GitHubTags{} })
)

// named returns an edit that maps names with a regular expression.
func named(from, to string) func(*v1alpha1.ImagePolicySpec) {
	return func(p *v1alpha1.ImagePolicySpec) {
		p.Match = &v1alpha1.Match{Name: &v1alpha1.NameMatch{From: from, To: to}}
	}
}

// build pushes an image with labels and a build time. If created is zero, the image has no build time.
func (s *story) build(at, tag string, created time.Time, labels map[string]string) string {
	s.Helper()
	image := registrytest.Image(s, at+":"+tag, "linux/amd64", created)
	config, err := image.ConfigFile()
	if err != nil {
		s.Fatal(err)
	}
	config = config.DeepCopy()
	config.Config.Labels = labels
	config.Created = v1.Time{Time: created}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		s.Fatal(err)
	}
	return s.server.PushImage(s, at, tag, image)
}

// verdicts returns the verdicts of the rejected candidates in the form "version verdict".
func verdicts(p *v1alpha1.ImagePolicy) []string {
	var out []string
	for _, c := range p.Status.Candidates {
		out = append(out, c.Version+" "+c.Verdict)
	}
	return out
}

// TestReleasesOfGitHub checks that an empty list withdraws no version, and that a name that does not
// match the pattern or has no image does not prevent other names from being offered.
func TestReleasesOfGitHub(t *testing.T) {
	s := begin(t)
	published := metav1.NewTime(s.clock.Now().Add(-time.Hour))
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.Releases = []v1alpha1.GitHubRelease{
			{Tag: "shop/v1.2.0", PublishedTime: &published}, {Tag: "shop/v1.3.0", Prerelease: true}, {Tag: "shop/v1.1.0"}, {Tag: "web/v3.0.0"}, {Tag: "shop/v1.0.0"},
		}
		st.Tags = []v1alpha1.GitHubTag{{Name: "shop/v1.2.0", SHA: sha("a")}}
	})
	s.push("1.0.0", "1.2.0", "1.3.0", "3.0.0", "9.9.9")
	s.policy("shop", releases, named("shop/v(.+)", "$1"))
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.2.0 in release", "1.0.0 in release"})
	same(t, "refused", verdicts(p), []string{"1.3.0 Level", "1.1.0 Exists", "web/v3.0.0 Match"})
	same(t, "source", p.Status.Source, "github releases")
	rel := p.Status.Releases[0]
	same(t, "detail", []any{rel.ReleaseTime.UTC(), rel.Revision, rel.URL},
		[]any{published.UTC(), sha("a"), "https://github.com/acme/shop/releases/tag/shop/v1.2.0"})
	same(t, "lists", s.server.Requests(registrytest.List), 0)

	// The image of 1.1.0 and another release are published. A release that is no longer in the list remains.
	s.push("1.1.0", "1.4.0")
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.Releases = append([]v1alpha1.GitHubRelease{{Tag: "shop/v1.4.0"}}, st.Releases[1:4]...)
	})
	p, _ = s.pass("shop") // the watch enqueues the policy
	same(t, "offered when the list changed", offered(p), []string{"1.4.0 in release", "1.2.0 in release", "1.1.0 in release", "1.0.0 in release"})
	same(t, "details of a release that is no longer listed", p.Status.Releases[1], rel)

	// The list is empty, and then GitHub is unavailable: nothing changes.
	writes := s.writes
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.Releases, st.Tags = nil, nil })
	same(t, "offered with an empty list", offered(s.scan("shop")), offered(p))
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		status.Reconciling(&st.Conditions, 1, "Unreachable", "no response")
	})
	p = s.scan("shop")
	same(t, "offered without GitHub", len(offered(p)), 4)
	same(t, "Ready", condition(p, "Ready"), "True Succeeded: offers 4 versions in 1 group")
	same(t, "SourceReachable", condition(p, "SourceReachable"),
		`False RepositoryNotReady: spec.source.github.repositoryRef: GitHubRepository "shop" is not ready: Unreachable: no response; offered versions remain offered`)
	if s.writes > writes+2 {
		t.Errorf("%d writes for two changes", s.writes-writes)
	}
}

// TestPrereleasesOfGitHub checks that a release that GitHub marks as a pre-release has the level Candidate, even
// if GitHub does not mark it until later.
func TestPrereleasesOfGitHub(t *testing.T) {
	s := begin(t)
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.Releases = []v1alpha1.GitHubRelease{{Tag: "1.1.0"}, {Tag: "1.0.0"}, {Tag: "1.2.0", Prerelease: true}}
	})
	s.push("1.0.0", "1.1.0", "1.2.0")
	s.policy("shop", releases)
	s.policy("next", releases, func(p *v1alpha1.ImagePolicySpec) { p.Versioning.Level = v1alpha1.LevelCandidate })
	s.microservice("shop", "shop", "release 1.1.0")
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	p, _ = s.pass("next")
	same(t, "offered as candidates", offered(p), []string{"1.2.0 in candidate", "1.1.0 in candidate", "1.0.0 in candidate"})
	same(t, "level", p.Status.Releases[0].Level, v1alpha1.LevelCandidate)
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.Releases = st.Releases[:2] })
	same(t, "level of a release that is not listed", s.scan("next").Status.Releases[0].Level, v1alpha1.LevelCandidate)

	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.Releases[0].Prerelease = true })
	for range 3 {
		p = s.scan("shop")
		same(t, "offered when marked as a pre-release", offered(p), []string{"1.0.0 in release"})
		same(t, "withdrawn when marked as a pre-release", taken(p), []string{"1.1.0 in release: Excluded"})
	}
}

// TestReleaseOfGitHubIsGone checks that a release that GitHub does not list, or whose image is missing once,
// is not withdrawn. It is withdrawn only if the registry confirms that the image is gone.
func TestReleaseOfGitHubIsGone(t *testing.T) {
	s := begin(t)
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.Tags = []v1alpha1.GitHubTag{{Name: "1.0.0", SHA: sha("1")}, {Name: "1.1.0", SHA: sha("2")}}
	})
	s.push("1.0.0")
	digest := s.server.Push(t, path, "1.1.0")
	s.policy("shop", tags)
	s.microservice("shop", "shop", "release 1.0.0", "release 1.1.0")
	s.pass("shop")
	s.server.Delete(s, path, "1.1.0")
	s.scan("shop")
	p := s.scan("shop")
	same(t, "offered without its tag", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	s.server.Delete(s, path, digest)
	p = s.scan("shop")
	same(t, "offered after one scan without the image", len(offered(p)), 2)
	for range 3 {
		p = s.scan("shop")
		same(t, "offered", offered(p), []string{"1.0.0 in release"})
		same(t, "withdrawn", taken(p), []string{"1.1.0 in release: Gone"})
	}
}

// TestMinAgeOfReleases checks that the age of a release is counted from the first list from GitHub that contains it,
// and that the releases in the very first list are old enough.
func TestMinAgeOfReleases(t *testing.T) {
	s := begin(t)
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.Releases = []v1alpha1.GitHubRelease{{Tag: "1.0.0"}} })
	s.push("1.0.0", "1.1.0")
	s.policy("shop", releases, func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "3m" })
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.0.0 in release"})
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		st.Releases = append(st.Releases, v1alpha1.GitHubRelease{Tag: "1.1.0"})
	})
	p, _ = s.pass("shop")
	same(t, "refused", verdicts(p), []string{"1.1.0 MinAge"})
	s.scan("shop")
	s.restart()
	p = s.scan("shop")
	same(t, "refused after two minutes", verdicts(p), []string{"1.1.0 MinAge"})
	p = s.scan("shop")
	same(t, "offered after three minutes", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
}

// TestMinAgeOfTheFirstReleases checks that the releases in the first poll for a new policy count as old enough, even though the policy's
// first scan ended before the poll. Once releases have been offered, later releases wait for minAge, even if the list was empty for some time.
func TestMinAgeOfTheFirstReleases(t *testing.T) {
	for name, between := range map[string]func(*story){"": func(*story) {}, "after a restart": (*story).restart} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			list := func(tags ...string) {
				s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
					st.Releases = nil
					for _, tag := range tags {
						st.Releases = append(st.Releases, v1alpha1.GitHubRelease{Tag: tag})
					}
				})
			}
			s.repository("shop", func(*v1alpha1.GitHubRepositoryStatus) {})
			s.push("1.0.0", "1.1.0", "1.2.0")
			s.policy("shop", releases, func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "10m" })
			p, _ := s.pass("shop")
			same(t, "tags in the first scan", p.Status.Scan.Tags, int32(0))
			between(s)
			list("1.1.0", "1.0.0")
			s.clock.Step(time.Second)
			p, _ = s.pass("shop")
			same(t, "offered after the poll", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
			list()
			s.scan("shop")
			between(s)
			list("1.2.0", "1.1.0", "1.0.0")
			p, _ = s.pass("shop")
			same(t, "offered after an empty list", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
			same(t, "refused after an empty list", verdicts(p), []string{"1.2.0 MinAge"})
		})
	}
}

// TestMinAgeOfLateImages checks that the age of a release whose image is pushed later is the age of the image.
func TestMinAgeOfLateImages(t *testing.T) {
	for name, between := range map[string]func(*story){"": func(*story) {}, "after a restart": (*story).restart} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
				st.Releases = []v1alpha1.GitHubRelease{{Tag: "1.1.0"}, {Tag: "1.0.0"}, {Tag: "0.9.0"}}
			})
			s.push("0.9.0")
			s.policy("shop", releases, func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "3m" })
			p, _ := s.pass("shop")
			same(t, "refused without an image", verdicts(p), []string{"1.1.0 Exists", "1.0.0 Exists"})
			for range 4 {
				s.scan("shop")
			}
			s.push("1.0.0")
			between(s)
			p = s.scan("shop")
			same(t, "offered immediately", offered(p), []string{"0.9.0 in release"})
			same(t, "refused", verdicts(p), []string{"1.1.0 Exists", "1.0.0 MinAge"})
			same(t, "young", young(p), map[string]string{"1.0.0": "MinAge " + formatTime(s.clock.Now())})
			s.scan("shop")
			between(s)
			p = s.scan("shop")
			same(t, "offered after two minutes", offered(p), []string{"0.9.0 in release"})
			p = s.scan("shop")
			same(t, "offered after three minutes", offered(p), []string{"1.0.0 in release", "0.9.0 in release"})
		})
	}
}

// TestMinAgeAfterAnOutage checks that an unavailable registry does not reset the age of versions.
func TestMinAgeAfterAnOutage(t *testing.T) {
	s := begin(t)
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) { st.Releases = []v1alpha1.GitHubRelease{{Tag: "1.0.0"}} })
	s.push("1.0.0")
	s.server.Fail(registrytest.Get, 1, registrytest.Status(500, "UNKNOWN"))
	s.policy("shop", releases, func(p *v1alpha1.ImagePolicySpec) { p.MinAge = "3m" })
	p, _ := s.pass("shop")
	same(t, "offered during the outage", offered(p), []string(nil))
	same(t, "offered after the outage", offered(s.scan("shop")), []string{"1.0.0 in release"})
}

func TestGitHubRepositoryProblems(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*story)
		ready string
	}{
		"missing": {func(s *story) {
			repository := &v1alpha1.GitHubRepository{}
			s.get("shop", repository)
			if err := env.Client.Delete(s.Context(), repository); err != nil {
				s.Fatal(err)
			}
		}, `False RepositoryNotFound: spec.source.github.repositoryRef: GitHubRepository "shop" not found in namespace`},
		"another namespace's": {func(s *story) {
			other := env.Namespace(s)
			s.create(&v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "shop"}, Spec: v1alpha1.GitHubRepositorySpec{Owner: "acme", Repo: "shop"}})
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Source.GitHub.RepositoryRef.Namespace = other })
		}, `False RepositoryNotAllowed: spec.source.github.repositoryRef: namespace "OTHER" has no GitHubRepository "shop" that this namespace may use: create it, or set its spec.allowedNamespaces.from to All`},
		"missing in another namespace": {func(s *story) {
			other := env.Namespace(s)
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Source.GitHub.RepositoryRef.Namespace = other })
		}, `False RepositoryNotAllowed: spec.source.github.repositoryRef: namespace "OTHER" has no GitHubRepository "shop" that this namespace may use: create it, or set its spec.allowedNamespaces.from to All`},
		"not read yet": {func(s *story) {
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) { *st = v1alpha1.GitHubRepositoryStatus{} })
		}, `False RepositoryNotReady: spec.source.github.repositoryRef: GitHubRepository "shop" has not been polled yet: it has no status yet`},
		"requires a user's fix": {func(s *story) {
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
				status.Stalled(&st.Conditions, 1, "Unauthorized", "the token is refused")
			})
		}, `False RepositoryNotReady: spec.source.github.repositoryRef: GitHubRepository "shop" is not ready: Unauthorized: the token is refused; offered versions remain offered`},
	} {
		for source, edit := range map[string]func(*v1alpha1.ImagePolicySpec){"releases": releases, "pull requests": pulls(nil)} {
			t.Run(name+", "+source, func(t *testing.T) {
				s := begin(t)
				s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
					st.Releases = []v1alpha1.GitHubRelease{{Tag: "1.0.0"}}
					st.PullRequests = []v1alpha1.PullRequest{pull(1, "fix", sha("a"))}
				})
				s.push("1.0.0", "pr-1-aaaaaaa")
				s.policy("shop", edit)
				before, _ := s.pass("shop")
				same(t, "offers", len(before.Status.Releases), 1)
				s.microservice("shop", "shop", before.Status.Releases[0].Group+" "+before.Status.Releases[0].SemVer.Version)
				test.spoil(s)
				for range 3 {
					p := s.scan("shop")
					same(t, "offered", p.Status.Releases, before.Status.Releases)
					same(t, "withdrawn", taken(p), []string(nil))
					want := strings.ReplaceAll(test.ready, "OTHER", p.Spec.Source.GitHub.RepositoryRef.Namespace)
					if got := condition(p, "Ready"); !strings.HasPrefix(got, want) {
						t.Errorf("Ready is %q, want %q...", got, want)
					}
				}
			})
		}
	}
}

// TestAllowedNamespaces checks that a GitHubRepository in another namespace is read only if it allows this access.
func TestAllowedNamespaces(t *testing.T) {
	for name, allowed := range map[string]*v1alpha1.AllowedNamespaces{
		"all": {From: v1alpha1.NamespacesAll},
		"by label": {From: v1alpha1.NamespacesSelector, Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpExists}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			own := s.namespace
			s.namespace = env.Namespace(t)
			other := s.namespace
			s.create(&v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "shop"},
				Spec: v1alpha1.GitHubRepositorySpec{Owner: "acme", Repo: "shop", AllowedNamespaces: allowed}})
			s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
				st.Repository, st.Releases = "acme/shop", []v1alpha1.GitHubRelease{{Tag: "1.0.0"}}
				status.Ready(&st.Conditions, 1, status.ReasonSucceeded, "GitHub responds")
			})
			s.namespace = own
			s.push("1.0.0")
			s.policy("shop", releases, func(p *v1alpha1.ImagePolicySpec) { p.Source.GitHub.RepositoryRef.Namespace = other })
			p, _ := s.pass("shop")
			same(t, "offered", offered(p), []string{"1.0.0 in release"})
		})
	}
}

// TestReleasesShareAnswers checks that policies with the same repository and credential request an image once per interval.
func TestReleasesShareAnswers(t *testing.T) {
	s := begin(t)
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		for i := range 5 {
			st.Releases = append(st.Releases, v1alpha1.GitHubRelease{Tag: fmt.Sprintf("1.%d.0", i)})
			s.push(fmt.Sprintf("1.%d.0", i))
		}
	})
	for i := range 4 {
		s.policy(fmt.Sprintf("shop-%d", i), releases)
	}
	for range 4 {
		heads := manifests(s.server)
		for i := range 4 {
			s.pass(fmt.Sprintf("shop-%d", i))
		}
		if got := manifests(s.server) - heads; got != 5 {
			t.Errorf("%d requests for 5 images in an interval", got)
		}
		s.clock.Step(time.Minute)
	}
	same(t, "lists", s.server.Requests(registrytest.List), 0)
}

func TestSteps(t *testing.T) {
	further := func(p *v1alpha1.ImagePolicySpec) {
		repository, _, _ := strings.Cut(p.Image, "/")
		p.AdditionalImages = []v1alpha1.AdditionalImage{{ContainerName: "migrate", Image: repository + "/team/migrate"}}
	}
	t.Run("the highest version that all repositories have", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0", "1.1.0", "1.2.0")
		first := s.server.Push(t, "team/migrate", "1.0.0")
		second := s.server.Push(t, "team/migrate", "1.1.0")
		s.policy("shop", further)
		p, _ := s.pass("shop")
		same(t, "offered", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
		same(t, "refused", p.Status.Candidates, []v1alpha1.RefusedCandidate{
			{Version: "1.2.0", Verdict: "Exists", Reason: "the registry has no image of " + s.server.Repository("team/migrate") + " with this tag"}})
		same(t, "additional images", []v1alpha1.ReleaseImage{p.Status.Releases[0].Images[1], p.Status.Releases[1].Images[1]}, []v1alpha1.ReleaseImage{
			{Image: s.server.Repository("team/migrate") + ":1.1.0@" + second, Digest: second, ContainerName: "migrate"},
			{Image: s.server.Repository("team/migrate") + ":1.0.0@" + first, Digest: first, ContainerName: "migrate"},
		})
		s.server.Push(t, "team/migrate", "1.2.0")
		same(t, "offered when all repositories have the image", offered(s.scan("shop"))[0], "1.2.0 in release")
		s.server.Delete(s, "team/migrate", "1.2.0")
		same(t, "offered when one repository no longer has the image", offered(s.scan("shop"))[0], "1.2.0 in release")
	})
	t.Run("a tag that moves in one repository after the other", func(t *testing.T) {
		s := begin(t)
		digests := func(p *v1alpha1.ImagePolicy) (out []string) {
			for _, image := range p.Status.Releases[0].Images {
				out = append(out, image.Digest)
			}
			return out
		}
		previous := []string{s.server.Push(t, path, "1.0.0"), s.server.Push(t, "team/migrate", "1.0.0")}
		s.policy("shop", further)
		s.pass("shop")
		first := s.server.Push(t, path, "1.0.0", "linux/amd64", "linux/arm64")
		for range 2 {
			same(t, "images when one tag has moved", digests(s.scan("shop")), previous)
		}
		second := s.server.Push(t, "team/migrate", "1.0.0", "linux/amd64", "linux/arm64")
		same(t, "images when all tags have moved", digests(s.scan("shop")), []string{first, second})
	})
	t.Run("an image for another platform", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0")
		s.server.Push(t, "team/migrate", "1.0.0", "linux/arm64")
		s.policy("shop", further)
		p, _ := s.pass("shop")
		same(t, "offered", offered(p), []string(nil))
		same(t, "refused", verdicts(p), []string{"1.0.0 Platform"})
	})
	t.Run("each repository with its own credential", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0")
		s.server.Push(t, "team/migrate", "1.0.0")
		s.server.RequireBasic("robot", "secret")
		pullSecret := func(name, path string) {
			s.create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: map[string]string{v1alpha1.AnnotationRegistry: s.server.Repository(path)}},
				Type:       corev1.SecretTypeBasicAuth, StringData: map[string]string{"username": "robot", "password": "secret"},
			})
		}
		pullSecret("shop", path)
		s.policy("shop", further, func(p *v1alpha1.ImagePolicySpec) { p.ImagePullSecrets = []v1alpha1.Reference{{Name: "shop"}} })
		p, _ := s.pass("shop")
		same(t, "Ready", condition(p, "Ready"), fmt.Sprintf("False NoCredential: spec.imagePullSecrets: none of the Secrets has an entry for %q: add an entry, or remove the list if no credential is needed", s.server.Repository("team/migrate")))
		pullSecret("migrate", "team/migrate")
		s.edit("shop", func(p *v1alpha1.ImagePolicy) {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1alpha1.Reference{Name: "migrate"})
		})
		same(t, "offered", offered(s.scan("shop")), []string{"1.0.0 in release"})
	})
	t.Run("an image that becomes part of a complete set", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0", "1.1.0")
		s.server.Push(t, "team/migrate", "1.0.0")
		s.policy("shop")
		s.microservice("shop", "shop", "release 1.1.0")
		s.pass("shop")
		s.edit("shop", func(p *v1alpha1.ImagePolicy) { further(&p.Spec) })
		p := s.scan("shop")
		same(t, "offered", offered(p), []string{"1.0.0 in release"})
		same(t, "withdrawn", taken(p), []string(nil)) // one response without the image does not prove its absence
	})
}

func TestLabels(t *testing.T) {
	s := begin(t)
	label := func(name, value string) map[string]string { return map[string]string{name: value} }
	const revision, title = "org.opencontainers.image.revision", "org.opencontainers.image.version"
	s.repository("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		for i, digit := range []string{"1", "2", "3", "4"} {
			st.Tags = append(st.Tags, v1alpha1.GitHubTag{Name: fmt.Sprintf("v1.%d.0", i), SHA: sha(digit)})
		}
	})
	s.build(path, "1.0.0", time.Time{}, map[string]string{revision: sha("1"), title: "v1.0.0"})
	s.build(path, "1.1.0", time.Time{}, map[string]string{revision: sha("9"), title: "v1.1.0"})
	s.build(path, "1.2.0", time.Time{}, label(revision, sha("3")))
	s.build(path, "1.3.0", time.Time{}, map[string]string{revision: sha("4"), title: "other"})
	s.policy("shop", tags, named("v(.+)", "$1"), func(p *v1alpha1.ImagePolicySpec) {
		p.Match.Labels = []v1alpha1.LabelMatch{{Name: revision, Value: "{{.SHA}}"}, {Name: title, Value: "{{.Tag}}"}}
	})
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.0.0 in release"})
	same(t, "refused", p.Status.Candidates, []v1alpha1.RefusedCandidate{
		{Version: "1.3.0", Verdict: "Labels", Reason: `the image's label "org.opencontainers.image.version" is "other" instead of "v1.3.0"`},
		{Version: "1.2.0", Verdict: "Labels", Reason: `the image has no label "org.opencontainers.image.version"`},
		{Version: "1.1.0", Verdict: "Labels", Reason: fmt.Sprintf(`the image's label "org.opencontainers.image.revision" is %q instead of %q`, sha("9"), sha("2"))},
	})

	s.push("2.0.0")
	s.policy("bad", func(p *v1alpha1.ImagePolicySpec) {
		p.Match = &v1alpha1.Match{Labels: []v1alpha1.LabelMatch{{Name: revision, Value: "{{.SHA}}"}}}
	})
	p, _ = s.pass("bad")
	if got := condition(p, "Ready"); !strings.HasPrefix(got, "False InvalidSpec: spec.match.labels[0].value: {{.SHA}} is not available here") {
		t.Errorf("Ready is %q", got)
	}
}

// TestLabelsThatAreAskedForLater checks that offered versions are checked again only if a required label is
// added to the specification, and that an unavailable registry withdraws nothing.
func TestLabelsThatAreAskedForLater(t *testing.T) {
	s := begin(t)
	s.build(path, "1.0.0", time.Time{}, map[string]string{"team": "a"})
	s.build(path, "1.1.0", time.Time{}, map[string]string{"team": "b"})
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.1.0")
	s.pass("shop")
	s.restart()
	s.server.Fail(registrytest.Get, -1, registrytest.Status(http.StatusServiceUnavailable, "UNAVAILABLE"))
	s.edit("shop", func(p *v1alpha1.ImagePolicy) {
		p.Spec.Match = &v1alpha1.Match{Labels: []v1alpha1.LabelMatch{{Name: "team", Value: "a"}}}
	})
	p := s.scan("shop")
	same(t, "offered while the registry is down", len(offered(p)), 2)
	same(t, "withdrawn while the registry is down", taken(p), []string(nil))
	if p.Status.ObservedGeneration == p.Generation {
		t.Error("the status reports the generation of the new specification")
	}
	s.server.Heal()
	for range 3 {
		p = s.scan("shop")
		same(t, "offered", offered(p), []string{"1.0.0 in release"})
		same(t, "withdrawn", taken(p), []string{"1.1.0 in release: Excluded"})
		same(t, "generation", p.Status.ObservedGeneration, p.Generation)
	}
	// If a tag moves to an image without the label, the image with the label remains offered.
	before := p.Status.Releases[0].Images
	s.build(path, "1.0.0", time.Time{}, map[string]string{"team": "c"})
	same(t, "image", s.scan("shop").Status.Releases[0].Images, before)
}

// TestShrinkGuard checks that a list that is shorter, empty, truncated, or unreadable withdraws nothing.
func TestShrinkGuard(t *testing.T) {
	for name, spoil := range map[string]func(*story, []string){
		"nine of ten are missing": func(s *story, tags []string) { s.server.SetTags(path, tags[:2]) },
		"empty":                   func(s *story, _ []string) { s.server.SetTags(path, []string{}) },
		"not found": func(s *story, _ []string) {
			s.server.Fail(registrytest.List, -1, registrytest.Status(404, "NAME_UNKNOWN"))
		},
		"refused": func(s *story, _ []string) { s.server.Fail(registrytest.List, -1, registrytest.Status(403, "DENIED")) },
		"down": func(s *story, _ []string) {
			s.server.Fail(registrytest.List, -1, registrytest.Status(503, "UNAVAILABLE"))
		},
		"cut": func(s *story, tags []string) {
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Limits.Tags = 2 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			var tags []string
			for i := range 20 {
				tags = append(tags, fmt.Sprintf("1.%d.0", i))
			}
			s.push(tags...)
			slices.Sort(tags)
			s.policy("shop")
			s.microservice("shop", "shop", "release 1.19.0", "release 1.3.0")
			before, _ := s.pass("shop")
			spoil(s, tags)
			for range 4 {
				p := s.scan("shop")
				same(t, "offered", p.Status.Releases, before.Status.Releases)
				same(t, "withdrawn", taken(p), []string(nil))
			}
			s.restart()
			p := s.scan("shop")
			same(t, "offered after a restart", p.Status.Releases, before.Status.Releases)
		})
	}
}

// TestPaceOfScans checks that scans become less frequent while nothing changes, and return to the configured
// interval after a change or a user's request.
func TestPaceOfScans(t *testing.T) {
	s := begin(t)
	s.push("1.0.0")
	s.policy("shop")
	wait := func() time.Duration {
		_, next := s.pass("shop")
		s.clock.Step(next)
		return next
	}
	for range 12 {
		if next := wait(); next > time.Minute {
			t.Fatalf("the next scan is in %s at the start", next)
		}
	}
	for range 12 {
		if next := wait(); next < 108*time.Second || next > 2*time.Minute {
			t.Fatalf("the next scan is in %s without a change", next)
		}
	}
	s.push("1.1.0")
	if next := wait(); next > time.Minute {
		t.Errorf("the next scan is in %s after a change", next)
	}
	for range 12 {
		wait()
	}
	s.edit("shop", func(p *v1alpha1.ImagePolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "now"}
	})
	if next := wait(); next > time.Minute {
		t.Errorf("the next scan is in %s after a request", next)
	}
}

// TestRepositoryOfANamespaceThatIsNotWatched checks that a policy reports a GitHubRepository in a namespace
// that the manager does not watch. The policy must not read the cache, because the cache would return an
// error.
func TestRepositoryOfANamespaceThatIsNotWatched(t *testing.T) {
	r := &Reconciler{watched: []string{"shop"}} // without a client
	p := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	p.Spec.Source = &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{RepositoryRef: v1alpha1.NamespacedReference{Namespace: "infra", Name: "shop"}}}
	o := &observed{policy: p, github: &github{source: p.Spec.Source.GitHub}}
	if err := r.observeGitHub(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	want := `spec.source.github.repositoryRef: the manager does not watch namespace "infra": refer to a GitHubRepository in a watched namespace, or add the namespace to the chart value namespaces, or to the manager's --namespace flag`
	if o.problem == nil || o.problem.Reason != "RepositoryNotAllowed" || o.problem.Error() != want {
		t.Errorf("problem: %v, want %s", o.problem, want)
	}
}
