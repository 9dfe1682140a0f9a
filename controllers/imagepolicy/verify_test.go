package imagepolicy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// keys creates or changes the Secret "keys" with public keys.
func (s *story) keys(data map[string][]byte) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "keys"}, Data: data}
	if err := env.Client.Create(s.Context(), secret); err == nil {
		return
	}
	s.get("keys", secret)
	secret.Data = data
	if err := env.Client.Update(s.Context(), secret); err != nil {
		s.Fatal(err)
	}
}

func signed(p *v1alpha1.ImagePolicySpec) {
	p.Verify = &v1alpha1.Verify{Cosign: v1alpha1.CosignVerify{KeySecretRef: v1alpha1.Reference{Name: "keys"}}}
}

// TestVerify checks that the newest signed version is offered.
func TestVerify(t *testing.T) {
	s := begin(t)
	key, other := cosigntest.NewKey(t), cosigntest.NewKey(t)
	s.keys(map[string][]byte{"old.pub": cosigntest.NewKey(t).PEM(t), "new.pub": key.PEM(t), "note": []byte("x")})
	digests := map[string]string{}
	for _, tag := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		digest := s.server.Push(t, path, tag)
		digests[tag] = digest
		switch tag {
		case "1.0.0", "1.1.0":
			key.Sign(t, s.server, path, digest)
		case "1.2.0":
			other.Sign(t, s.server, path, digest)
		}
	}
	s.policy("shop", signed)
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	same(t, "refused", verdicts(p)[:2], []string{"1.3.0 Verify", "1.2.0 Verify"})
	for i, want := range []string{"NotSigned: ", "Invalid: "} {
		if got := p.Status.Candidates[i].Reason; !strings.HasPrefix(got, want) {
			t.Errorf("reason %q, want %s...", got, want)
		}
	}
	// 1.3.0 is signed later, while the registry fails.
	key.Sign(t, s.server, path, digests["1.3.0"])
	s.server.FailWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, ".sig") }, -1, registrytest.Status(503, "UNAVAILABLE"))
	p = s.scan("shop")
	same(t, "offered while signatures cannot be read", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	s.server.Heal()
	same(t, "offered when it is signed", offered(s.scan("shop")), []string{"1.3.0 in release", "1.1.0 in release", "1.0.0 in release"})
}

// TestVerifyThatIsAskedForLater checks that, when the specification starts to require signatures, versions
// without a signature are withdrawn, but offered versions remain while signatures cannot be read.
func TestVerifyThatIsAskedForLater(t *testing.T) {
	s := begin(t)
	key := cosigntest.NewKey(t)
	s.keys(map[string][]byte{"cosign.pub": key.PEM(t)})
	key.Sign(t, s.server, path, s.server.Push(t, path, "1.0.0"))
	s.push("1.1.0")
	s.policy("shop")
	s.microservice("shop", "shop", "release 1.1.0")
	s.pass("shop")
	fail := func() {
		s.server.FailWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, ".sig") }, -1, registrytest.Status(503, "UNAVAILABLE"))
	}
	fail()
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { signed(&p.Spec) })
	for range 2 {
		p := s.scan("shop")
		same(t, "while signatures cannot be read", append(offered(p), taken(p)...), []string{"1.1.0 in release", "1.0.0 in release"})
	}
	s.server.Heal()
	p := s.scan("shop")
	same(t, "when they can be read", append(offered(p), taken(p)...), []string{"1.0.0 in release", "1.1.0 in release: Excluded"})

	// The signature is deleted, and the offered version remains.
	fail()
	s.restart()
	p = s.scan("shop")
	same(t, "after a restart without signatures", offered(p), []string{"1.0.0 in release"})
	s.server.Heal()
	s.keys(map[string][]byte{"cosign.pub": cosigntest.NewKey(t).PEM(t)})
	same(t, "with another key", offered(s.scan("shop")), []string(nil))
	s.keys(map[string][]byte{"cosign.pub": key.PEM(t)})
	p = s.scan("shop")
	same(t, "with the first key again", offered(p), []string{"1.0.0 in release"})

	// A tag that moves to an image without a signature keeps the signed image.
	before := p.Status.Releases[0].Images
	s.server.Push(t, path, "1.0.0", "linux/amd64", "linux/arm64")
	same(t, "image", s.scan("shop").Status.Releases[0].Images, before)
}

// TestVerifyWithAKeyThatComesLate checks that no version without a signature is offered if a key is created
// late and the registry is then unavailable.
func TestVerifyWithAKeyThatComesLate(t *testing.T) {
	for source, edit := range map[string]func(*v1alpha1.ImagePolicySpec){"registry": func(*v1alpha1.ImagePolicySpec) {}, "pull requests": pulls(nil)} {
		t.Run(source, func(t *testing.T) {
			s := begin(t)
			s.opens(pull(1, "one", sha("1")))
			s.push("1.0.0", "sha-1111111")
			s.policy("shop", edit)
			p, _ := s.pass("shop")
			same(t, "offered", len(p.Status.Releases), 1)
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { signed(&p.Spec) })
			p = s.scan("shop")
			same(t, "offered without a key", len(p.Status.Releases), 1)
			same(t, "generation", p.Status.ObservedGeneration, p.Generation)
			s.server.Fail(registrytest.Get, -1, registrytest.Status(503, "UNAVAILABLE"))
			s.server.Fail(registrytest.Head, -1, registrytest.Status(503, "UNAVAILABLE"))
			s.keys(map[string][]byte{"cosign.pub": cosigntest.NewKey(t).PEM(t)})
			for range 3 {
				p = s.scan("shop")
				same(t, "offered without a response", len(p.Status.Releases), 1)
				if got := condition(p, "Ready"); !strings.HasPrefix(got, "False Unreachable: ") {
					t.Errorf("Ready is %q", got)
				}
			}
			s.server.Heal()
			for range 3 {
				p = s.scan("shop")
				same(t, "offered", len(p.Status.Releases), 0)
				same(t, "refused", p.Status.Candidates[0].Verdict, "Verify")
			}
		})
	}
}

// TestVerifyAfterATagMoved checks that an offered image is verified by its digest, even if its tag has moved.
func TestVerifyAfterATagMoved(t *testing.T) {
	s := begin(t)
	key := cosigntest.NewKey(t)
	s.keys(map[string][]byte{"cosign.pub": key.PEM(t)})
	key.Sign(t, s.server, path, s.server.Push(t, path, "1.0.0"))
	s.push("1.1.0", "1.2.0")
	s.policy("shop")
	before, _ := s.pass("shop")
	s.server.Push(t, path, "1.0.0", "linux/amd64", "linux/arm64") // not signed
	s.server.Delete(s, path, "1.1.0")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { signed(&p.Spec) })
	for range 2 {
		p := s.scan("shop")
		same(t, "offered", p.Status.Releases, before.Status.Releases[2:])
	}
}

func TestVerifyPullRequests(t *testing.T) {
	s := begin(t)
	key := cosigntest.NewKey(t)
	s.keys(map[string][]byte{"cosign.pub": key.PEM(t)})
	s.opens(pull(1, "one", sha("1")), pull(2, "two", sha("2")))
	key.Sign(t, s.server, path, s.server.Push(t, path, "sha-1111111"))
	second := s.server.Push(t, path, "sha-2222222")
	s.policy("shop", pulls(nil))
	s.microservice("shop", "shop", "one-1 "+sha("1"), "two-2 "+sha("2"))
	same(t, "offered", previews(s.scan("shop")), []string{"two-2 2222 sha-2222222", "one-1 1111 sha-1111111"})
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { signed(&p.Spec) })
	for range 2 {
		p := s.scan("shop")
		same(t, "when signatures are required", append(previews(p), taken(p)...), []string{"one-1 1111 sha-1111111", " in two-2: Excluded"})
		same(t, "refused", verdicts(p), []string{sha("2") + " Verify"})
	}
	// The image of a previous commit is also verified.
	s.policy("web", pulls(nil))
	s.pass("web")
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		for i := range st.PullRequests {
			st.PullRequests[i].HeadSHA = sha(fmt.Sprint(7 + i))
		}
	})
	p, _ := s.pass("web")
	same(t, "previous commits", previews(p), []string{"two-2 2222 sha-2222222", "one-1 1111 sha-1111111"})
	s.edit("web", func(p *v1alpha1.ImagePolicy) { signed(&p.Spec) })
	for range 2 {
		same(t, "previous commits that are signed", previews(s.scan("web")), []string{"one-1 1111 sha-1111111"})
	}
	s.setRepositoryStatus("shop", func(st *v1alpha1.GitHubRepositoryStatus) {
		for i := range st.PullRequests {
			st.PullRequests[i].HeadSHA = sha(fmt.Sprint(1 + i))
		}
	})
	key.Sign(t, s.server, path, second)
	p = s.scan("shop")
	same(t, "when it is signed", append(previews(p), taken(p)...), []string{"two-2 2222 sha-2222222", "one-1 1111 sha-1111111"})
}

// TestSecretsOfAScan checks that missing or invalid Secrets are reported with the name of the field, and
// never cause a scan that does not use them.
func TestSecretsOfAScan(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string][]byte // nil means that there is no Secret
		edit func(*v1alpha1.ImagePolicySpec)
		want string
	}{
		"no key": {nil, signed, `False SecretNotFound: spec.verify.cosign.keySecretRef.name: Secret "keys" not found in this namespace`},
		"bad key": {map[string][]byte{"cosign.pub": []byte("x")}, signed,
			`False InvalidSecret: spec.verify.cosign.keySecretRef: Secret "keys"`},
		"no public key": {map[string][]byte{"cosign.key": []byte("x")}, signed,
			`False InvalidSecret: spec.verify.cosign.keySecretRef: Secret "keys"`},
		"no certificates": {nil, func(p *v1alpha1.ImagePolicySpec) { p.CertSecretRef = &v1alpha1.Reference{Name: "keys"} },
			`False SecretNotFound: spec.certSecretRef.name: Secret "keys" not found in this namespace`},
		"bad certificates": {map[string][]byte{"ca.crt": []byte("x")}, func(p *v1alpha1.ImagePolicySpec) { p.CertSecretRef = &v1alpha1.Reference{Name: "keys"} },
			`False InvalidSecret: spec.certSecretRef: Secret "keys"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0")
			s.policy("shop")
			s.pass("shop")
			if test.data != nil {
				s.keys(test.data)
			}
			asked := s.server.Total()
			s.edit("shop", func(p *v1alpha1.ImagePolicy) { test.edit(&p.Spec) })
			p := s.scan("shop")
			same(t, "offered", offered(p), []string{"1.0.0 in release"})
			same(t, "requests", s.server.Total()-asked, 0)
			if got := condition(p, "Ready"); !strings.HasPrefix(got, test.want) {
				t.Errorf("Ready is %q, want %q...", got, test.want)
			}
		})
	}
}

// TestReplacedKeyWithdraws checks that versions signed only with a replaced key are withdrawn: in the running
// manager, after a restart, and after a registry failure.
func TestReplacedKeyWithdraws(t *testing.T) {
	for name, between := range map[string]func(*story){
		"running":         func(*story) {},
		"after a restart": func(s *story) { s.restart() },
		"after a failure": func(s *story) {
			s.server.FailWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, ".sig") }, -1, registrytest.Status(503, "UNAVAILABLE"))
			p := s.scan("shop")
			same(s.T, "while signatures cannot be read", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
			if got := condition(p, "Ready"); strings.HasPrefix(got, "True") {
				s.Errorf("Ready = %q before images were verified with the new key", got)
			}
			s.server.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			stolen, next := cosigntest.NewKey(t), cosigntest.NewKey(t)
			s.keys(map[string][]byte{"old.pub": stolen.PEM(t), "new.pub": next.PEM(t)})
			next.Sign(t, s.server, path, s.server.Push(t, path, "1.0.0"))
			stolen.Sign(t, s.server, path, s.server.Push(t, path, "1.1.0"))
			s.policy("shop", signed)
			s.microservice("shop", "shop", "release 1.1.0")
			p, _ := s.pass("shop")
			same(t, "offered", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
			writes := s.writes
			s.scan("shop")
			same(t, "writes while nothing changes", s.writes, writes)
			s.keys(map[string][]byte{"new.pub": next.PEM(t)})
			between(s)
			p = s.scan("shop")
			same(t, "with only the other key", append(offered(p), taken(p)...), []string{"1.0.0 in release", "1.1.0 in release: Excluded"})
		})
	}
}

// TestReplacedKeyWithdrawsPreviews checks that previews signed only with a replaced key are withdrawn without
// another push, whether the preview runs the image of the head commit or, if the head commit has no image
// yet, the image of the previous commit.
func TestReplacedKeyWithdrawsPreviews(t *testing.T) {
	for name, between := range map[string]func(*story){
		"running":         func(*story) {},
		"after a restart": func(s *story) { s.restart() },
		"after a failure": func(s *story) {
			s.server.FailWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, ".sig") }, -1, registrytest.Status(503, "UNAVAILABLE"))
			p := s.scan("shop")
			same(s.T, "while signatures cannot be read", previews(p), []string{"three-3 3333 sha-3333333", "two-2 2222 sha-2222222", "one-1 1111 sha-1111111"})
			if got := condition(p, "Ready"); strings.HasPrefix(got, "True") {
				s.Errorf("Ready = %q before images were verified with the new key", got)
			}
			s.server.Heal()
		},
		"while GitHub names another branch": func(s *story) {
			s.changes(0, func(pr *v1alpha1.PullRequest) { pr.HeadRef = "renamed" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			stolen, next := cosigntest.NewKey(t), cosigntest.NewKey(t)
			s.keys(map[string][]byte{"old.pub": stolen.PEM(t), "new.pub": next.PEM(t)})
			s.opens(pull(1, "one", sha("1")), pull(2, "two", sha("2")), pull(3, "three", sha("3")))
			push := func(tag, branch string) string {
				return s.build(path, tag, s.clock.Now(), map[string]string{"branch": branch})
			}
			next.Sign(t, s.server, path, push("sha-1111111", "one"))
			stolen.Sign(t, s.server, path, push("sha-2222222", "two"))
			stolen.Sign(t, s.server, path, push("sha-3333333", "three"))
			s.policy("shop", pulls(nil), signed, func(p *v1alpha1.ImagePolicySpec) {
				p.Match = &v1alpha1.Match{Labels: []v1alpha1.LabelMatch{{Name: "branch", Value: "{{.Branch}}"}}}
			})
			s.microservice("shop", "shop", "one-1 "+sha("1"), "two-2 "+sha("2"), "three-3 "+sha("3"))
			all := []string{"three-3 3333 sha-3333333", "two-2 2222 sha-2222222", "one-1 1111 sha-1111111"}
			p, _ := s.pass("shop")
			same(t, "offered", previews(p), all)
			s.changes(2, func(pr *v1alpha1.PullRequest) { pr.HeadSHA = sha("4") }) // no image yet
			same(t, "offered after a push", previews(s.scan("shop")), all)
			writes := s.writes
			s.scan("shop")
			same(t, "writes while nothing changes", s.writes, writes)
			s.keys(map[string][]byte{"new.pub": next.PEM(t)})
			between(s)
			for range 2 {
				p = s.scan("shop")
				same(t, "with only the other key", append(previews(p), taken(p)...), []string{"one-1 1111 sha-1111111", " in three-3: Excluded", " in two-2: Excluded"})
			}
			s.keys(map[string][]byte{"old.pub": stolen.PEM(t), "new.pub": next.PEM(t)})
			same(t, "with the first key again", previews(s.scan("shop")), []string{"two-2 2222 sha-2222222", "one-1 1111 sha-1111111"})
		})
	}
}
