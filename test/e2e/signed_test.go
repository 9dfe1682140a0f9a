//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/test/harness"
)

// TestSignedImage adds a public cosign key to an ImagePolicy. Images without a signature, or with a signature
// made with another key, are rejected with reasons and never run. Signed images run with the signed digest,
// including an image that is signed later.
func TestSignedImage(t *testing.T) {
	s := newService(t, "signed")
	key, other := cosigntest.NewKey(t), cosigntest.NewKey(t)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "signers"}, Data: map[string][]byte{"cosign.pub": key.PEM(t)}})
	s.images.Spec.Verify = &v1alpha1.Verify{Cosign: v1alpha1.CosignVerify{KeySecretRef: v1alpha1.Reference{Name: "signers"}}}
	digests := map[string]string{}
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		digests[version] = s.pushImage(harness.Image{Tag: version})
	}
	s.sign(key, digests["1.0.0"])
	s.sign(other, digests["1.2.0"])
	s.create(s.images, s.ms, s.network)
	s.active("1.0.0")
	l := s.load(30, false)

	for version, want := range map[string]string{"1.1.0": "NotSigned: the repository contains no signature", "1.2.0": "Invalid: "} {
		t.Logf("%s: %s", version, s.unverified(version, want))
	}
	t.Log("the state remains for three scans")
	l.Mark("unsigned images")
	s.serves(l, 3*interval)
	s.sees(l, "1.0.0")
	s.neverRan("1.1.0", "1.2.0")

	l.Mark("signed by tag")
	signed := time.Now()
	s.sign(key, digests["1.1.0"])
	s.active("1.1.0")
	s.sees(l, "1.1.0")
	t.Logf("only 1.1.0 served %s after it was signed", time.Since(signed).Round(100*time.Millisecond))
	s.neverRan("1.2.0")

	l.Mark("signed by referrer")
	s.signAsReferrer(key, digests["1.2.0"])
	s.active("1.2.0")
	s.sees(l, "1.2.0")
	pods, err := s.pods(t.Context(), "1.2.0")
	if err != nil || len(pods) == 0 {
		t.Fatalf("find the pods of 1.2.0: %d, %v", len(pods), err)
	}
	for _, p := range pods {
		if image := p.Spec.Containers[0].Image; !strings.HasSuffix(image, "@"+digests["1.2.0"]) {
			t.Errorf("pod %s runs %s, want the signed digest %s", p.Name, image, digests["1.2.0"])
		}
	}
	verdict(t, l)
}

// sign signs a digest as cosign does, with a tag that is derived from the digest.
func (s *service) sign(key cosigntest.Key, digest string) {
	s.t.Helper()
	tag, err := name.NewTag(s.localRepository()+":"+cosigntest.Tag(digest), name.StrictValidation, name.Insecure)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(tag, cosigntest.Artifact(s.t, "", key.Layer(s.t, cosigntest.Payload(s.images.Spec.Image, digest))))
}

// signAsReferrer signs a digest and stores the signature in a bundle. The subject of the bundle's manifest is the image.
func (s *service) signAsReferrer(key cosigntest.Key, digest string) {
	s.t.Helper()
	subject, err := name.NewDigest(s.localRepository()+"@"+digest, name.StrictValidation, name.Insecure)
	if err != nil {
		s.t.Fatal(err)
	}
	of, err := remote.Head(subject, remote.WithContext(s.t.Context()))
	if err != nil {
		s.t.Fatalf("find %s: %v", subject, err)
	}
	statement := cosigntest.Statement(s.images.Spec.Image, digest, cosigntest.PredicateSign)
	referrer := mutate.Subject(cosigntest.Artifact(s.t, cosigntest.Bundle, key.BundleLayer(s.t, statement)), *of).(v1.Image)
	own, err := referrer.Digest()
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(subject.Context().Digest(own.String()), referrer)
}

// localRepository returns the repository, with the address at which this process reaches the
// registry.
func (s *service) localRepository() string { return env.Registry + "/" + s.repository }

func (s *service) write(to name.Reference, image v1.Image) {
	s.t.Helper()
	if err := harness.CheckLoopback(env.Registry); err != nil {
		s.t.Fatal(err)
	}
	if err := remote.Write(to, image, remote.WithContext(s.t.Context())); err != nil {
		s.t.Fatalf("push %s: %v", to, err)
	}
}

// unverified waits until a version is rejected because of its signature, and returns the reason.
func (s *service) unverified(version, want string) (reason string) {
	s.t.Helper()
	wait(s.t, version+" to be rejected", func(ctx context.Context) (bool, string, error) {
		var p v1alpha1.ImagePolicy
		if err := env.Client.Get(ctx, s.key(), &p); err != nil {
			return false, "", err
		}
		i := slices.IndexFunc(p.Status.Candidates, func(c v1alpha1.RefusedCandidate) bool { return c.Version == version })
		if i < 0 {
			return false, fmt.Sprintf("rejected candidates: %v", p.Status.Candidates), nil
		}
		c := p.Status.Candidates[i]
		reason = c.Reason
		return c.Verdict == "Verify" && strings.HasPrefix(reason, want), c.Verdict + " " + reason, nil
	})
	return reason
}

// neverRan checks that versions have no release and were never started.
func (s *service) neverRan(versions ...string) {
	s.t.Helper()
	var ms v1alpha1.Microservice
	if err := env.Client.Get(s.t.Context(), s.key(), &ms); err != nil {
		s.t.Fatal(err)
	}
	for _, version := range versions {
		if r := row(&ms, version); r != nil {
			s.t.Errorf("%s is not signed, but has status %s", version, r.Status)
		}
	}
}
