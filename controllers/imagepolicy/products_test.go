package imagepolicy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// TestPoliciesOfProducts tests versions in registries from several vendors. Each registry runs in its own
// process. Artifacts that are not images are rejected, an index with attestations is offered, an unavailable
// registry withdraws nothing, a deleted tag is reported, a deleted image is withdrawn after two scans, and times
// and signatures are read. internal/registry.TestProducts tests the details.
func TestPoliciesOfProducts(t *testing.T) {
	for _, product := range registrytest.Products() {
		for _, login := range []registrytest.Login{registrytest.Everybody, registrytest.ByToken} {
			t.Run(product.Name+"/"+string(login), func(t *testing.T) {
				s := begin(t)
				at := product.Start(t, login)
				s.create(&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
					StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"username":%q,"password":%q}}}`, at.Host(), registrytest.Robot, registrytest.RobotPassword)},
				})
				of := func(repository string) func(*v1alpha1.ImagePolicySpec) {
					return func(p *v1alpha1.ImagePolicySpec) {
						p.Image = at.Repository(repository)
						if login != registrytest.Everybody {
							p.ImagePullSecrets = []v1alpha1.Reference{{Name: "pull"}}
						}
					}
				}
				push := func(tag string, ago time.Duration) string {
					return at.PushImage(path, tag, registrytest.Image(t, tag, "linux/amd64", s.clock.Now().Add(-ago)))
				}
				push("1.0.0", 3*time.Hour)
				second := push("1.1.0", 2*time.Hour)
				third := push("1.2.0", time.Hour)
				image := registrytest.Image(t, "1.3.0", "linux/amd64", s.clock.Now().Add(-time.Minute))
				at.PushIndex(path, "1.3.0", mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
					mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
					mutate.IndexAddendum{Add: registrytest.Image(t, "attestation", "unknown/unknown", time.Time{}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}},
				))
				at.PushImage(path, "9.0.0", mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.helm.config.v1+json"))

				s.policy("shop", of(path))
				s.policy("times", of(path), byTime)
				s.microservice("shop", "shop", "release 1.1.0", "release 1.2.0")
				p, _ := s.pass("shop")
				all := []string{"1.3.0 in release", "1.2.0 in release", "1.1.0 in release", "1.0.0 in release"}
				same(t, "offered", offered(p), all)
				same(t, "rejected", p.Status.Rejected, []v1alpha1.RejectedCount{{Verdict: "Platform", Count: 1}})
				p, _ = s.pass("times")
				same(t, "offered by time", tagged(p), []string{"2026.1.2.3.3.5 1.3.0", "2026.1.2.2.4.5 1.2.0", "2026.1.2.1.4.5 1.1.0", "2026.1.2.0.4.5 1.0.0"})

				at.Stop()
				p = s.scan("shop")
				same(t, "offered while the registry is unavailable", offered(p), all)
				if got := condition(p, "SourceReachable"); !strings.HasPrefix(got, "False Unreachable") {
					t.Errorf("SourceReachable is %q", got)
				}
				if err := at.Start(); err != nil {
					t.Fatal(err)
				}
				p = s.scan("shop")
				same(t, "offered after the outage", offered(p), all)
				same(t, "Ready after the outage", condition(p, "Ready"), "True Succeeded: offers 4 versions in 1 group")

				// The tag of one version is deleted while its image remains. The image of another version is deleted.
				at.Tag(path, second, "stable")
				at.Untag(path, "1.1.0")
				at.Delete(path, third)
				p = s.scan("shop")
				same(t, "after one scan", append(offered(p), taken(p)...), all)
				p = s.scan("shop")
				same(t, "after two scans", append(offered(p), taken(p)...), []string{"1.3.0 in release", "1.1.0 in release", "1.0.0 in release", "1.2.0 in release: Gone"})
				if got := condition(p, "Ready"); !strings.Contains(got, "whose images are still offered: 1.1.0;") {
					t.Errorf("Ready is %q", got)
				}

				// Signatures are found by tag, and through an image's referrers.
				const signedPath = "team/signed"
				key := cosigntest.NewKey(t)
				s.keys(map[string][]byte{"key.pub": key.PEM(t)})
				for tag, sign := range map[string]func(string){
					"1.0.0": func(digest string) {
						at.PushImage(signedPath, cosigntest.Tag(digest), cosigntest.Artifact(t, "", key.Layer(t, cosigntest.Payload(at.Repository(signedPath), digest))))
					},
					"1.1.0": func(digest string) {
						at.PushReferrer(signedPath, digest, cosigntest.Artifact(t, cosigntest.Bundle, key.BundleLayer(t, cosigntest.Statement(at.Repository(signedPath), digest, cosigntest.PredicateSign))))
					},
					"1.2.0": func(string) {},
				} {
					sign(at.PushImage(signedPath, tag, registrytest.Image(t, tag, "linux/amd64", time.Time{})))
				}
				s.policy("signed", of(signedPath), signed)
				p, _ = s.pass("signed")
				same(t, "offered with signatures required", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
			})
		}
	}
}
