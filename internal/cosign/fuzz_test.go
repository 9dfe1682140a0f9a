package cosign

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/test/await"
)

// pushed is a registry that returns one manifest, one blob and one list of referrers.
type pushed struct {
	manifest, blob []byte
	media          string
	referrers      []v1.Descriptor
}

func (p pushed) Manifest(_ context.Context, _ registry.Request, id string) (registry.Manifest, error) {
	return registry.Manifest{Digest: "sha256:" + strings.Repeat("b", 64), MediaType: types.MediaType(p.media), Raw: p.manifest}, nil
}
func (p pushed) Blob(context.Context, registry.Request, string, int64) ([]byte, error) {
	return p.blob, nil
}
func (p pushed) Referrers(context.Context, registry.Request, string, int) ([]v1.Descriptor, error) {
	return p.referrers, nil
}
func (p pushed) Key(registry.Request) string { return "key" }

// FuzzVerify checks that a manifest, referrers and a blob that any user may push are never reported as Verified, and never cause a panic.
func FuzzVerify(f *testing.F) {
	digest := "sha256:" + strings.Repeat("a", 64)
	keys := keysOf(f, cosigntest.NewKey(f))
	f.Add([]byte(`{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","size":3,"digest":"sha256:`+strings.Repeat("c", 64)+`","annotations":{"dev.cosignproject.cosign/signature":"AAAA"}}]}`), cosigntest.Payload("a", digest), []byte(`[{"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"sha256:`+strings.Repeat("d", 64)+`"}]`))
	f.Add([]byte(`{"layers":[{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"sha256:`+strings.Repeat("c", 64)+`"}]}`), []byte(`{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AAAA"}]}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, manifest, blob, referrers []byte) {
		p := pushed{manifest: manifest, blob: blob, media: "application/vnd.oci.image.manifest.v1+json"}
		_ = json.Unmarshal(referrers, &p.referrers)
		if len(p.referrers) > 64 {
			p.referrers = p.referrers[:64]
		}
		defer await.Quick(t)()
		got, err := New(p, clock.RealClock{}).Verify(t.Context(), registry.Request{Repository: "r.example/a"}, digest, keys)
		if got.Verdict == Verified {
			t.Fatalf("verified: %+v", got)
		}
		if err == nil && got.Reason == "" {
			t.Fatalf("no reason: %+v", got)
		}
	})
}

// FuzzSigned checks that content that is signed with the key counts only if it is a signature of the digest of this image.
func FuzzSigned(f *testing.F) {
	digest := "sha256:" + strings.Repeat("a", 64)
	hash, _ := v1.NewHash(digest)
	key := cosigntest.NewKey(f)
	keys := keysOf(f, key)
	f.Add(cosigntest.Payload("a", digest), true)
	f.Add(cosigntest.Payload("a", "sha256:"+strings.Repeat("b", 64)), true)
	f.Add(cosigntest.Statement("a", digest, predicateSign), false)
	f.Add(cosigntest.Statement("a", "sha256:"+strings.Repeat("b", 64), predicateSign), false)
	f.Fuzz(func(t *testing.T, payload []byte, simple bool) {
		s := &search{digest: hash, keys: keys}
		if simple {
			sig := key.Bytes(t, payload)
			s.simpleSigning(v1.Descriptor{Annotations: map[string]string{annotationSignature: base64.StdEncoding.EncodeToString(sig)}}, payload)
		} else {
			message := preAuthentication(payloadInToto, payload)
			raw, err := json.Marshal(map[string]any{"dsseEnvelope": map[string]any{"payload": payload, "payloadType": payloadInToto, "signatures": []any{map[string]any{"sig": key.Bytes(t, message)}}}})
			if err != nil {
				t.Fatal(err)
			}
			s.bundle(v1.Descriptor{}, raw)
		}
		if s.found && !strings.Contains(strings.ToLower(string(payload)), strings.Repeat("a", 64)) && !strings.Contains(string(payload), `\u`) {
			t.Fatalf("%q counts", payload)
		}
		if s.found && len(s.reference) > 512 {
			t.Fatal("long")
		}
		if s.found && !json.Valid(payload) {
			t.Fatal("invalid JSON counts")
		}
	})
}
