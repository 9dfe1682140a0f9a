package imagepolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

func container(name string) corev1.Container { return corev1.Container{Name: name} }

func (s *story) push(tags ...string) {
	s.Helper()
	for _, tag := range tags {
		s.server.Push(s, path, tag)
	}
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestOffersVersionsWithDigests(t *testing.T) {
	s := begin(t)
	digest := s.server.Push(t, path, "v1.0.0")
	s.push("1.1.0", "2.0.0-rc.1", "latest", "20240105", "1.2")
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Versioning.GroupBy = v1alpha1.GroupByMajor })
	p, next := s.pass("shop")

	same(t, "offered", offered(p), []string{"1.1.0 in 1-x", "1.0.0 in 1-x"})
	same(t, "image", p.Status.Releases[1].Images, []v1alpha1.ReleaseImage{
		{Image: s.server.Repository(path) + ":v1.0.0@" + digest, Digest: digest},
	})
	same(t, "columns", []string{p.Status.Latest, p.Status.Offered, p.Status.Source}, []string{"1.1.0", "2 in 1 group", "registry"})
	same(t, "rejected", p.Status.Rejected, []v1alpha1.RejectedCount{{Verdict: "Parse", Count: 3}, {Verdict: "Level", Count: 1}})
	same(t, "refused", p.Status.Candidates[0].Version, "2.0.0-rc.1")
	same(t, "Ready", condition(p, "Ready"), "True Succeeded: offers 2 versions in 1 group")
	same(t, "SourceReachable", condition(p, "SourceReachable"), "True Answered: the registry is reachable")
	same(t, "generation", p.Status.ObservedGeneration, p.Generation)
	same(t, "tags", p.Status.Scan.Tags, int32(6))
	same(t, "events", s.reported(), []string(nil))
	if next < 54*time.Second || next > time.Minute {
		t.Errorf("next scan in %s, want at most an interval, and at least nine tenths of it", next)
	}
}

// TestSchemes checks that a version from another scheme remains while it is in use, and is found by its text.
func TestSchemes(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*v1alpha1.ImagePolicySpec)
		tags []string
		want []string // the second version is in use
	}{
		"calendar": {
			func(p *v1alpha1.ImagePolicySpec) { p.Versioning.Scheme = v1alpha1.SchemeTuple },
			[]string{"2024.01.05", "2024.01.10", "2024.02.01"},
			[]string{"2024.2.1 in release", "2024.1.10 in release", "2024.1.5 in release"},
		},
		"four numbers": {
			func(p *v1alpha1.ImagePolicySpec) {
				p.Versioning.Scheme, p.Versioning.Parts = v1alpha1.SchemeTuple, 4
			},
			[]string{"1.2.3.4", "1.2.3.5", "1.2.3.10"},
			[]string{"1.2.3.10 in release", "1.2.3.5 in release", "1.2.3.4 in release"},
		},
		"named groups": {
			func(p *v1alpha1.ImagePolicySpec) {
				p.Versioning.Scheme = v1alpha1.SchemeRegexp
				p.TagFilter = &v1alpha1.TagFilter{Pattern: `^build-(?P<major>\d+)$`}
			},
			[]string{"build-8", "build-9", "build-10"},
			[]string{"10.0.0 in release", "9.0.0 in release", "8.0.0 in release"},
		},
		"suffix": {
			func(p *v1alpha1.ImagePolicySpec) { p.Versioning.Suffix = "-alpine" },
			[]string{"1.0.0-alpine", "1.1.0-alpine", "1.2.0-alpine", "1.3.0"},
			[]string{"1.2.0 in release", "1.1.0 in release", "1.0.0 in release"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.push(test.tags...)
			s.policy("shop", test.edit)
			p, _ := s.pass("shop")
			same(t, "offered", offered(p), test.want)
			second := p.Status.Releases[1].SemVer.Version
			s.microservice("shop", "shop", "release "+second)
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Limits.ReleasesPerGroup = 1 })
			p = s.scan("shop")
			same(t, "offered with a limit", offered(p), []string{test.want[0], test.want[1] + " held"})
			same(t, "withdrawn", taken(p), []string(nil))
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Deny = []string{second} })
			p = s.scan("shop")
			same(t, "withdrawn when denied", taken(p), []string{second + " in release: Denied"})
		})
	}
}

func TestSteadyStateWritesNothing(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "1.1.0")
	s.policy("shop")
	s.pass("shop")
	s.reported()
	writes := s.writes
	for range 5 {
		s.scan("shop")
	}
	s.restart()
	s.scan("shop")
	if s.writes != writes || len(s.events) > 0 {
		t.Errorf("%d writes and events %q in a steady state", s.writes-writes, s.events)
	}
	if got := s.server.Requests(registrytest.List); got != 7 {
		t.Errorf("%d lists in 7 scans", got)
	}
}

func TestHeldVersionsStayOffered(t *testing.T) {
	s := begin(t)
	for i := range 6 {
		s.push(fmt.Sprintf("1.%d.0", i))
	}
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Limits.ReleasesPerGroup = 2 })
	s.microservice("shop", "shop", "release 1.1.0")
	pinned := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	pinned.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80, Protocol: "HTTP"}}
	pinned.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}}
	pinned.Spec.Domains = []v1alpha1.Domain{{Domain: "old.example.com", Port: "http", Release: &v1alpha1.DomainRelease{Version: "1.0.0"}}}
	s.create(pinned)
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.5.0 in release", "1.4.0 in release", "1.1.0 in release held", "1.0.0 in release held"})
	same(t, "withdrawn", taken(p), []string(nil))
}

// TestHeldGroupsAreMarked checks that versions beyond the limits are marked as held if they are offered only
// because a Microservice uses them, so that a new Microservice does not start these versions (rule 17).
func TestHeldGroupsAreMarked(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "1.1.0", "2.0.0", "3.0.0", "4.0.0")
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) {
		p.Versioning.GroupBy = v1alpha1.GroupByMajor
		p.Limits.Groups = 1
	})
	s.microservice("old", "shop", "1-x 1.0.0", "2-x 2.0.0", "4-x 4.0.0")
	p := s.scan("shop")
	same(t, "offered", offered(p), []string{"4.0.0 in 4-x", "2.0.0 in 2-x held", "1.1.0 in 1-x held", "1.0.0 in 1-x held"})
	s.hold("old", "4-x 4.0.0")
	s.microservice("new", "shop", "4-x 4.0.0")
	p = s.scan("shop")
	same(t, "offered when it is not in use", offered(p), []string{"4.0.0 in 4-x"})
}

func TestWithdrawals(t *testing.T) {
	for name, test := range map[string]struct {
		take func(*story)
		want []string
	}{
		"denied": {func(s *story) {
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Deny = []string{"1.1.0"} })
		}, []string{"1.1.0 in release: Denied"}},
		"excluded by range": {func(s *story) {
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Versioning.Range = "<1.1.0" })
		}, []string{"1.1.0 in release: Excluded"}},
		"excluded by its tag": {func(s *story) {
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.TagFilter = &v1alpha1.TagFilter{Exclude: []string{`^1\.1`}} })
		}, []string{"1.1.0 in release: Excluded"}},
		"missing from an explicit list": {func(s *story) {
			s.edit("shop", func(p *v1alpha1.ImagePolicy) {
				p.Spec.Source = &v1alpha1.ImageSource{Pinned: &v1alpha1.PinnedSource{Versions: []string{"1.0.0"}}}
			})
		}, []string{"1.1.0 in release: Excluded"}},
		"gone": {func(s *story) {
			image := image(s, "1.1.0")
			s.server.Delete(s, path, "1.1.0")
			s.server.Delete(s, path, image.Digest)
		}, []string{"1.1.0 in release: Gone"}},
		"another grouping": {func(s *story) {
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Versioning.GroupBy = v1alpha1.GroupByMajor })
		}, []string{" in release: Excluded"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0", "1.1.0")
			s.policy("shop")
			s.microservice("shop", "shop", "release 1.0.0", "release 1.1.0")
			s.pass("shop")
			test.take(s)
			s.scan("shop")
			p := s.scan("shop")
			same(t, "withdrawn", taken(p), test.want)
			for i, o := range offered(p) {
				if o == "1.1.0 in release" {
					t.Errorf("offer %d is withdrawn", i)
				}
			}

			before, writes := p.Status.Withdrawn, s.writes
			s.restart()
			s.scan("shop")
			p = s.scan("shop")
			same(t, "withdrawn later", p.Status.Withdrawn, before)
			if s.writes != writes {
				t.Errorf("%d more writes", s.writes-writes)
			}
			s.hold("shop", "release 1.0.0")
			p = s.scan("shop")
			if name != "another grouping" {
				same(t, "withdrawn when it is not in use", taken(p), []string(nil))
			}
		})
	}
}

// image returns the image that the policy offers for a version.
func image(s *story, version string) v1alpha1.ReleaseImage {
	s.Helper()
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	for _, r := range p.Status.Releases {
		if r.SemVer.Version == version {
			return r.Images[0]
		}
	}
	s.Fatalf("%s is not offered", version)
	return v1alpha1.ReleaseImage{}
}

func TestGoneNeedsTwoScans(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "1.1.0")
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.1.0")
	s.pass("shop")
	gone := image(s, "1.1.0")
	s.server.Delete(t, path, "1.1.0")
	s.server.Delete(t, path, gone.Digest)

	p := s.scan("shop")
	same(t, "after one scan", taken(p), []string(nil))
	asked := s.server.Total()
	for range 3 { // events cause no scans
		p, _ = s.pass("shop")
	}
	same(t, "after events", taken(p), []string(nil))
	same(t, "requests because of events", s.server.Total(), asked)
	p = s.scan("shop")
	same(t, "after two scans", taken(p), []string{"1.1.0 in release: Gone"})
	same(t, "offered", offered(p), []string{"1.0.0 in release"})

	s.push("1.1.0")
	p = s.scan("shop")
	same(t, "after the version was pushed again", taken(p), []string(nil))
	same(t, "offered again", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
}

// TestFailuresLoseNothing checks that no registry failure withdraws a version, that events cause no
// requests to the registry, and that the error is reported.
func TestFailuresLoseNothing(t *testing.T) {
	for name, test := range map[string]struct {
		fail         func(*registrytest.Server)
		ready        string
		reachable    string
		limited      string
		next         time.Duration // 0 means no scan
		afterRestart bool
	}{
		"server error": {
			fail:  func(r *registrytest.Server) { r.Fail(registrytest.List, -1, registrytest.Status(500, "UNKNOWN")) },
			ready: "True Succeeded", reachable: "False Unreachable", limited: "False", next: 15 * time.Second,
		},
		"unauthorized": {
			fail:  func(r *registrytest.Server) { r.RequireBasic("a", "b") },
			ready: "False Unauthorized", reachable: "False Unauthorized", limited: "False", next: time.Minute,
		},
		"forbidden": {
			fail:  func(r *registrytest.Server) { r.Fail(registrytest.List, -1, registrytest.Status(403, "DENIED")) },
			ready: "False Unauthorized", reachable: "False Unauthorized", limited: "False", next: time.Minute,
		},
		"list not found": {
			fail:  func(r *registrytest.Server) { r.Fail(registrytest.List, -1, registrytest.Status(404, "NAME_UNKNOWN")) },
			ready: "False NotFound", reachable: "False NotFound", limited: "False", next: time.Minute,
		},
		"rate limited": {
			fail: func(r *registrytest.Server) {
				r.Fail(registrytest.List, -1, registrytest.Status(429, "TOOMANYREQUESTS", "Retry-After", "90"))
			},
			ready: "True Succeeded", reachable: "False RateLimited", limited: "True", next: 90 * time.Second,
		},
		"no registry": {
			fail:  func(r *registrytest.Server) { r.Fail(registrytest.List, -1, registrytest.Text("<html>maintenance")) },
			ready: "False Malformed", reachable: "False Malformed", limited: "False", next: time.Minute,
		},
		"empty list": {
			fail:  func(r *registrytest.Server) { r.SetTags(path, []string{}) },
			ready: "True Succeeded", reachable: "True Answered", limited: "False",
		},
		"shortened list": {
			fail:  func(r *registrytest.Server) { r.SetTags(path, []string{"1.0.0"}) },
			ready: "True Succeeded", reachable: "True Answered", limited: "False",
		},
		"manifests fail": {
			fail: func(r *registrytest.Server) {
				r.Fail(registrytest.Head, -1, registrytest.Status(500, "UNKNOWN"))
				r.Fail(registrytest.Get, -1, registrytest.Status(500, "UNKNOWN"))
			},
			ready: "True Succeeded", reachable: "False Unreachable", limited: "False", next: 15 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0", "1.1.0", "1.2.0")
			s.policy("shop")
			s.microservice("shop", "shop", "release 1.1.0")
			p, _ := s.pass("shop")
			before := p.Status
			test.fail(s.server)
			s.clock.Step(time.Minute)
			p, next := s.pass("shop")
			check := func(when string) {
				t.Helper()
				same(t, "offered "+when, p.Status.Releases, before.Releases)
				same(t, "withdrawn "+when, p.Status.Withdrawn, before.Withdrawn)
				for kind, want := range map[string]string{"Ready": test.ready, "SourceReachable": test.reachable, "RateLimited": test.limited} {
					if got := condition(p, kind); !strings.HasPrefix(got, want) {
						t.Errorf("%s %s: got %q, want %q…", kind, when, got, want)
					}
				}
			}
			check("immediately")
			onTime := func(when string) {
				t.Helper()
				most := test.next
				if test.limited == "True" {
					most += spread
				}
				if test.next > 0 && (next < test.next || next > most) {
					t.Errorf("next scan %s in %s, want %s to %s", when, next, test.next, most)
				}
			}
			onTime("immediately")
			asked, writes := s.server.Total(), s.writes
			for range 3 {
				p, next = s.pass("shop")
			}
			onTime("after events")
			if s.server.Total() != asked || s.writes != writes {
				t.Errorf("three events caused %d requests and %d writes", s.server.Total()-asked, s.writes-writes)
			}
			s.restart()
			p, _ = s.pass("shop")
			check("after a restart")
			s.server.Heal()
			s.server.SetTags(path, nil)
			s.server.RequireBasic("", "")
			s.push("1.3.0")
			s.clock.Step(2 * time.Minute)
			p, _ = s.pass("shop")
			same(t, "latest after the failure", p.Status.Latest, "1.3.0")
			same(t, "RateLimited after the failure", condition(p, "RateLimited"), "False NotLimited: requests to the registry are not limited")
		})
	}
}

// onlyHost is an identity for one registry.
type onlyHost struct{ host, password string }

func (h onlyHost) Serves(host string) bool { return host == h.host }

func (h onlyHost) Credential(context.Context, string) (registry.Credential, error) {
	return registry.Credential{Username: "cloud", Password: h.password}, nil
}

// TestWorkloadIdentity checks that, in the namespaces that may use the manager's identity, policies without
// imagePullSecrets use this identity for the registries that it supports.
func TestWorkloadIdentity(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		serves, elsewhere, secret bool
		want                      string
	}{
		"served":                    {serves: true, want: "True Succeeded"},
		"another registry":          {want: "False Unauthorized"},
		"another namespace":         {serves: true, elsewhere: true, want: "False Unauthorized"},
		"a Secret takes precedence": {serves: true, secret: true, want: "False SecretNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0")
			s.server.RequireBasic("cloud", "token")
			identity := onlyHost{host: "ghcr.io", password: "token"}
			if test.serves {
				identity.host = s.server.Host()
			}
			s.identify(identity)
			s.reconciler.identity.namespaces = []string{s.namespace}
			if test.elsewhere {
				s.reconciler.identity.namespaces = []string{"another"}
			}
			s.policy("shop", func(p *v1alpha1.ImagePolicySpec) {
				if test.secret {
					p.ImagePullSecrets = []v1alpha1.Reference{{Name: "pull"}}
				}
			})
			p, _ := s.pass("shop")
			if got := condition(p, "Ready"); !strings.HasPrefix(got, test.want) {
				t.Errorf("Ready is %q, want %q", got, test.want)
			}
		})
	}
}

// TestWorkloadIdentityAndOwnAuthority checks that the manager's credential is not sent over connections that
// are authenticated with a policy's certificate authority.
func TestWorkloadIdentityAndOwnAuthority(t *testing.T) {
	t.Parallel()
	i := identity{Identity: onlyHost{host: "ghcr.io", password: "token"}}
	policy := &v1alpha1.ImagePolicy{}
	if c := i.credential(policy, "ghcr.io/acme/web"); !c.WorkloadIdentity {
		t.Errorf("the identity is not used: %v", c)
	}
	policy.Spec.CertSecretRef = &v1alpha1.Reference{Name: "ca"}
	if c := i.credential(policy, "ghcr.io/acme/web"); c.WorkloadIdentity {
		t.Error("the identity is used with the policy's certificates")
	}
}

func TestCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"missing": {nil, `False SecretNotFound: spec.imagePullSecrets[0].name: Secret "pull" not found in this namespace: create it, or correct the name`},
		"bad": {&corev1.Secret{Type: "kubernetes.io/dockerconfigjson", Data: map[string][]byte{".dockerconfigjson": []byte(`{"auths":{"x":{"auth":"!"}}}`)}},
			`False InvalidSecret: spec.imagePullSecrets: read pull secrets: Secret "pull": entry "x": auth is not username:password in base64`},
		"with another type": {&corev1.Secret{Type: "Opaque", Data: map[string][]byte{"token": []byte("hidden")}},
			`False InvalidSecret: spec.imagePullSecrets: read pull secrets: Secret "pull" has type "Opaque": use kubernetes.io/dockerconfigjson, kubernetes.io/dockercfg or kubernetes.io/basic-auth`},
		"for no registry": {&corev1.Secret{Type: "kubernetes.io/basic-auth", Data: map[string][]byte{"username": []byte("u"), "password": []byte("hidden")}},
			`False InvalidSecret: spec.imagePullSecrets: read pull secrets: Secret "pull" has type kubernetes.io/basic-auth, which does not name a registry: annotate it with hlnr.io/registry=host[:port][/path], the registry that its password may be sent to`},
		"for another registry, by annotation": {&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRegistry: "ghcr.io"}},
			Type:       "kubernetes.io/basic-auth", Data: map[string][]byte{"username": []byte("u"), "password": []byte("hidden")},
		}, `False NoCredential: spec.imagePullSecrets: none of the Secrets has an entry for "REPO": add an entry, or remove the list if no credential is needed`},
		"for another registry": {&corev1.Secret{Type: "kubernetes.io/dockerconfigjson", Data: map[string][]byte{".dockerconfigjson": []byte(`{"auths":{"ghcr.io":{"username":"u","password":"hidden"}}}`)}},
			`False NoCredential: spec.imagePullSecrets: none of the Secrets has an entry for "REPO": add an entry, or remove the list if no credential is needed`},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0")
			if test.secret != nil {
				test.secret.Namespace, test.secret.Name = s.namespace, "pull"
				s.create(test.secret)
			}
			s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.ImagePullSecrets = []v1alpha1.Reference{{Name: "pull"}} })
			p, next := s.pass("shop")
			same(t, "Ready", condition(p, "Ready"), strings.ReplaceAll(test.want, "REPO", s.server.Repository(path)))
			if !strings.HasPrefix(condition(p, "Stalled"), "True") {
				t.Error("it is not stalled")
			}
			same(t, "requests", s.server.Total(), 0)
			same(t, "next", next, time.Minute)

			if test.secret != nil {
				if err := env.Client.Delete(t.Context(), test.secret); err != nil {
					t.Fatal(err)
				}
			}
			s.server.RequireBasic("robot", "secret")
			s.create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pull", Annotations: map[string]string{v1alpha1.AnnotationRegistry: s.server.Host()}},
				Type:       "kubernetes.io/basic-auth",
				StringData: map[string]string{"username": "robot", "password": "secret"},
			})
			p = s.scan("shop")
			same(t, "offered with the correct credential", offered(p), []string{"1.0.0 in release"})
			reads := s.secrets
			for range 3 {
				s.pass("shop")
			}
			same(t, "reads of Secrets because of events", s.secrets, reads)
			s.scan("shop")
			same(t, "reads of Secrets because of a scan", s.secrets, reads+1)
		})
	}
}

// TestNothingWaitsForARegistry checks that a registry that is not responding does not delay reports: rules
// that withdraw a version apply immediately, and a new policy reports that it is waiting for the registry.
func TestNothingWaitsForARegistry(t *testing.T) {
	hang := func(s *story) (entered chan struct{}) {
		entered = make(chan struct{}, 10)
		s.server.Fail(registrytest.List, -1, func(_ http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-r.Context().Done()
		})
		return entered
	}
	t.Run("a denial", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0", "1.1.0", "1.2.0")
		s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Limits.ReleasesPerGroup = 2 })
		s.microservice("shop", "shop", "release 1.2.0")
		s.pass("shop")
		entered := hang(s)
		s.clock.Step(time.Minute)
		_, next := s.once("shop")
		same(t, "next: the scan requeues it", next, time.Duration(0))
		await.Receive(t, "a request", entered)
		writes := s.writes
		s.once("shop")
		same(t, "writes while it scans", s.writes, writes)
		s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Deny = []string{"1.2.0"} })
		p, _ := s.once("shop")
		same(t, "offered", offered(p), []string{"1.1.0 in release"})
		same(t, "withdrawn", taken(p), []string{"1.2.0 in release: Denied"})
		same(t, "Ready", condition(p, "Ready"), "True Succeeded: offers 1 version in 1 group")
		s.server.Heal()
		s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Timeout = "29s" }) // another query, which starts a scan immediately
		p, _ = s.pass("shop")
		same(t, "offered by the next query", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	})
	t.Run("a denial of all known versions", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0", "1.1.0")
		s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Limits.ReleasesPerGroup = 1 })
		s.pass("shop")
		s.restart()
		entered := hang(s)
		s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Deny = []string{"1.1.0"} })
		p, _ := s.once("shop")
		await.Receive(t, "a request", entered)
		same(t, "offered", offered(p), []string(nil))
		same(t, "Reconciling", condition(p, "Reconciling"), "True Scanning: the scan of the registry is not complete: other scans in the same namespace or of the same registry are queued, or the registry is slow")
	})
	t.Run("a new policy", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0")
		entered := hang(s)
		s.policy("shop")
		_, next := s.once("shop")
		await.Receive(t, "a request", entered)
		same(t, "writes at first", s.writes, 0)
		same(t, "next", next, firstReportDelay)
		s.clock.Step(firstReportDelay)
		p, next := s.once("shop")
		same(t, "Reconciling", condition(p, "Reconciling"), "True Scanning: the scan of the registry is not complete: other scans in the same namespace or of the same registry are queued, or the registry is slow")
		same(t, "generation", p.Status.ObservedGeneration, int64(0))
		same(t, "next: the scan requeues it", next, time.Duration(0))
		s.once("shop")
		same(t, "writes", s.writes, 1)
	})
	t.Run("a request", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0")
		s.policy("shop")
		s.pass("shop")
		hang(s)
		s.clock.Step(time.Second)
		s.edit("shop", func(p *v1alpha1.ImagePolicy) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationRequestedAt, "now")
		})
		p, _ := s.once("shop")
		same(t, "handled before the scan is done", p.Status.LastHandledRequest, "")
	})
}

func TestBadSpecifications(t *testing.T) {
	s := begin(t)
	s.push("1.0.0")
	s.policy("shop")
	s.pass("shop")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Versioning.Range = ">=one"; p.Spec.Deny = []string{"nonsense"} })
	p, _ := s.pass("shop")
	stalled := condition(p, "Stalled")
	for _, want := range []string{"True InvalidSpec: ", "spec.versioning.range: ", "spec.deny[0]: ", "write"} {
		if !strings.Contains(stalled, want) {
			t.Errorf("Stalled is %q, want %q", stalled, want)
		}
	}
	same(t, "offered", offered(p), []string{"1.0.0 in release"})
	same(t, "generation", p.Status.ObservedGeneration, p.Generation)

	s.policy("nowhere", func(p *v1alpha1.ImagePolicySpec) { p.Image = "registry.invalid/shop" })
	p, _ = s.pass("nowhere")
	if got := condition(p, "Reconciling"); !strings.HasPrefix(got, "True Unreachable: list tags of \"registry.invalid/shop\"") {
		t.Errorf("Reconciling of an unknown registry is %q", got)
	}
	if p.Status.ObservedGeneration == p.Generation {
		t.Error("observedGeneration was updated although the specification has not been scanned")
	}
}

func TestRefusedImages(t *testing.T) {
	s := begin(t)
	s.push("1.0.0")
	s.server.Push(t, path, "1.1.0", "linux/arm64")
	s.server.SetTags(path, []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"})
	s.server.FailWhen(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/manifests/1.3.0") }, -1, registrytest.Text("no manifest"))
	s.policy("shop")
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.0.0 in release"})
	same(t, "rejected", p.Status.Rejected, []v1alpha1.RejectedCount{{Verdict: "Exists", Count: 2}, {Verdict: "Platform", Count: 1}})
	var reasons []string
	for _, c := range p.Status.Candidates {
		reasons = append(reasons, c.Version+" "+c.Verdict)
	}
	same(t, "candidates", reasons, []string{"1.3.0 Exists", "1.2.0 Exists", "1.1.0 Platform"})
	same(t, "platform", p.Status.Candidates[2].Reason, "the image supports linux/arm64 but not linux/amd64: build it for that platform, or set spec.platforms")
	same(t, "Ready: one invalid tag does not count as a registry failure", condition(p, "Ready"), "True Succeeded: offers 1 version in 1 group")
	asked := s.server.Total()
	s.pass("shop")
	same(t, "requests because of an event", s.server.Total(), asked)
}

func TestMovedTag(t *testing.T) {
	s := begin(t)
	s.push("1.0.0")
	s.policy("shop")
	s.pass("shop")
	s.reported()
	digest := s.server.PushImage(t, path, "1.0.0", registrytest.Image(t, "another", "linux/amd64", time.Time{}))
	p := s.scan("shop")
	same(t, "digest", p.Status.Releases[0].Images[0].Digest, digest)
	same(t, "events", s.reported(), []string{"Warning TagMoved: the tag of version 1.0.0 moved to another image: the new image is a new release of the same version"})

	s.server.PushImage(t, path, "1.0.0", registrytest.Image(t, "for another platform", "linux/arm64", time.Time{}))
	p = s.scan("shop")
	same(t, "digest when the tag moves to another platform", p.Status.Releases[0].Images[0].Digest, digest)
	same(t, "no events", s.reported(), []string(nil))
}

func TestRequestIsAnsweredOnce(t *testing.T) {
	request := func(s *story, word string) {
		s.edit("shop", func(p *v1alpha1.ImagePolicy) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationRequestedAt, word)
		})
	}
	for name, word := range map[string]string{"short": "now", "longer than the status can store": strings.Repeat("now", 100)} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0")
			s.policy("shop")
			s.pass("shop")
			s.push("1.1.0")
			s.clock.Step(time.Second)
			request(s, word)
			p, _ := s.pass("shop")
			same(t, "latest", p.Status.Latest, "1.1.0")
			asked := s.server.Total()
			s.pass("shop")
			s.restart()
			s.clock.Step(time.Second)
			same(t, "further requests to the registry", s.server.Total(), asked)
		})
	}
	t.Run("after an error", func(t *testing.T) {
		s := begin(t)
		s.push("1.0.0")
		s.policy("shop")
		s.pass("shop")
		s.server.Fail(registrytest.List, -1, registrytest.Status(503, "DOWN"))
		s.clock.Step(time.Second)
		request(s, "now")
		p, next := s.pass("shop")
		same(t, "answered", p.Status.LastHandledRequest, "now")
		same(t, "next", next, 15*time.Second)
		asked := s.server.Total()
		s.pass("shop")
		same(t, "further requests to the registry", s.server.Total(), asked)
	})
}

func TestSuspend(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "1.1.0")
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.1.0")
	s.pass("shop")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Suspend = true; p.Spec.Deny = []string{"1.1.0"} })
	s.push("1.2.0")
	asked := s.server.Total()
	s.clock.Step(time.Hour)
	p, next := s.pass("shop")
	same(t, "next", next, time.Duration(0))
	same(t, "requests", s.server.Total(), asked)
	same(t, "generation", p.Status.ObservedGeneration, p.Generation)
	same(t, "offered: the rules still apply", offered(p), []string{"1.0.0 in release"})
	same(t, "withdrawn", taken(p), []string{"1.1.0 in release: Denied"})
	same(t, "Ready", condition(p, "Ready"), "True Suspended: spec.suspend is true: the registry is not scanned, and offered versions remain offered")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Suspend = false })
	p, _ = s.pass("shop")
	same(t, "latest", p.Status.Latest, "1.2.0")
}

func TestAnotherImage(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "1.1.0")
	other := s.server.Push(t, "team/other", "1.0.0")
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.1.0")
	s.pass("shop")
	s.reported()
	s.server.Fail(registrytest.List, -1, registrytest.Status(503, "DOWN"))
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.Image = s.server.Repository("team/other") })
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string(nil))
	same(t, "withdrawn", taken(p), []string(nil))
	if p.Status.ObservedGeneration == p.Generation {
		t.Error("the status reports on an image that was never requested")
	}
	s.server.Heal()
	p = s.scan("shop")
	same(t, "offered from the other repository", p.Status.Releases[0].Images, []v1alpha1.ReleaseImage{
		{Image: s.server.Repository("team/other") + ":1.0.0@" + other, Digest: other},
	})
	same(t, "withdrawn from the other repository", taken(p), []string(nil))
	same(t, "generation", p.Status.ObservedGeneration, p.Generation)
	for _, e := range s.reported() {
		if strings.Contains(e, "TagMoved") {
			t.Errorf("another repository counts as a moved tag: %s", e)
		}
	}
}

// TestPoliciesShareAScan checks that policies with the same repository and credential share a list and its
// digests, and that no list is older than a policy's interval.
func TestPoliciesShareAScan(t *testing.T) {
	s := begin(t)
	s.push("1.0.0", "2.0.0")
	names := []string{"one", "two", "three"}
	for _, name := range names {
		s.policy(name)
		s.pass(name)
		s.clock.Step(10 * time.Second)
	}
	due := map[string]time.Time{}
	for _, name := range names {
		_, next := s.pass(name)
		due[name] = s.clock.Now().Add(next)
	}
	same(t, "lists at first", s.server.Requests(registrytest.List), 1)
	same(t, "digests at first", manifests(s.server), 2)
	start := s.clock.Now().Add(-30 * time.Second)
	for range 10 {
		first := names[0]
		for _, name := range names {
			if due[name].Before(due[first]) {
				first = name
			}
		}
		s.clock.SetTime(due[first])
		_, next := s.pass(first)
		due[first] = s.clock.Now().Add(next)
		if next > time.Minute {
			t.Errorf("%s scans again after %s", first, next)
		}
	}
	scans := int(s.clock.Now().Sub(start)/(54*time.Second)) + 1
	if lists := s.server.Requests(registrytest.List); lists > scans {
		t.Errorf("%d lists in %s", lists, s.clock.Now().Sub(start))
	}
}

func TestStatusIsBounded(t *testing.T) {
	t.Parallel()
	o := &observed{policy: &v1alpha1.ImagePolicy{}}
	o.policy.Spec.Image = "registry.example.com/" + strings.Repeat("long/", 40) + "shop"
	o.policy.Spec.Limits = v1alpha1.ImageLimits{Groups: 8, ReleasesPerGroup: 64}
	o.policy.Spec.Versioning.GroupBy = v1alpha1.GroupByMajor
	sc := selection{scanned: true, images: map[string][]v1alpha1.ReleaseImage{}}
	var tags []string
	for major := range 8 {
		for i := range 64 {
			tags = append(tags, fmt.Sprintf("%d.%d.0-%s", major, i, strings.Repeat("b", 80)))
		}
	}
	o.policy.Spec.Versioning.Level = v1alpha1.LevelCandidate
	for i := range 4000 {
		o.inUse = append(o.inUse, held("99-x", fmt.Sprintf("99.%d.0", i)))
	}
	o.policy.Spec.Deny = []string{">=99.0.0"}
	o.selector = compile(t, &o.policy.Spec)
	sc.result = o.selector.Rank(tags).Offer(nil, nil)
	for _, rel := range sc.result.Offered {
		digest := "sha256:" + strings.Repeat("f", 64)
		sc.images[rel.Tag] = []v1alpha1.ReleaseImage{{Image: o.policy.Spec.Image + ":" + rel.Tag + "@" + digest, Digest: digest}}
	}
	if len(sc.images) != 512 {
		t.Fatalf("%d offers, want 512", len(sc.images))
	}
	out := newPlan(o, sc, time.Now())
	if !out.truncated {
		t.Error("everything fits, so the test proves nothing")
	}
	o.policy.Status.Releases, o.policy.Status.Withdrawn = out.releases, out.withdrawn
	setConditions(o, sc, out)
	raw, err := json.Marshal(o.policy)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 256<<10 {
		t.Errorf("the size of the object is %d bytes", len(raw))
	}
	if got := condition(o.policy, "Truncated"); !strings.HasPrefix(got, "True TooManyReleases: ") {
		t.Errorf("Truncated is %q", got)
	}
	t.Logf("%d bytes with %d releases and %d withdrawals", len(raw), len(out.releases), len(out.withdrawn))
}
