// Package cosigntest signs the images of a registrytest server as the cosign tool does, with keys that this package
// creates.
package cosigntest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// These are the media types of signatures, the annotation of a simple signature, and the predicate type of a signature in a
// bundle.
const (
	SimpleSigning       types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	Signature           types.MediaType = "application/vnd.dev.cosign.artifact.sig.v1+json"
	Bundle              types.MediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	SignatureAnnotation                 = "dev.cosignproject.cosign/signature"
	PredicateSign                       = "https://sigstore.dev/cosign/sign/v1"
)

// Key is a key that signs images.
type Key struct {
	Private crypto.Signer
	// Hash is the algorithm of the hash that is signed; 0 for keys that sign the message itself.
	Hash crypto.Hash
}

// NewKey creates a key of the kind that cosign creates, which is ECDSA P-256.
func NewKey(t testing.TB) Key { return NewKeyOn(t, elliptic.P256(), crypto.SHA256) }

// NewKeyOn creates an ECDSA key that is on the given curve and signs hashes that are computed with
// the given algorithm.
func NewKeyOn(t testing.TB, curve elliptic.Curve, hash crypto.Hash) Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return Key{private, hash}
}

// NewEd25519 creates an Ed25519 key.
func NewEd25519(t testing.TB) Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatalf("make key: %v", err)
	}
	return Key{private, 0}
}

// PEM returns the public key in PEM format.
func (k Key) PEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Private.Public())
	if err != nil {
		t.Fatalf("encode key: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// Bytes signs a message.
func (k Key) Bytes(t testing.TB, message []byte) []byte {
	t.Helper()
	if k.Hash != 0 {
		h := k.Hash.New()
		h.Write(message)
		message = h.Sum(nil)
	}
	signature, err := k.Private.Sign(rand.Reader, message, k.Hash)
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	return signature
}

// Sign signs the image that has the given digest. The signature is found by its tag.
func (k Key) Sign(t testing.TB, s *registrytest.Server, path, digest string) {
	t.Helper()
	s.PushImage(t, path, Tag(digest), Artifact(t, "", k.Layer(t, Payload(s.Repository(path), digest))))
}

// Tag returns the tag for the signatures of the image that has the given digest.
func Tag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// SignAsReferrer signs the image that has the given digest. The signature is found by its subject.
func (k Key) SignAsReferrer(t testing.TB, s *registrytest.Server, path, digest string) {
	t.Helper()
	s.PushReferrer(t, path, digest, Artifact(t, Signature, k.Layer(t, Payload(s.Repository(path), digest))))
}

// SignAsBundle signs the image that has the given digest. The signature is in a Sigstore bundle, which is found by its subject.
func (k Key) SignAsBundle(t testing.TB, s *registrytest.Server, path, digest string) {
	t.Helper()
	s.PushReferrer(t, path, digest, Artifact(t, Bundle, k.BundleLayer(t, Statement(s.Repository(path), digest, PredicateSign))))
}

// Payload returns the payload of a simple signature.
func Payload(reference, digest string) []byte {
	return encode(map[string]any{"critical": map[string]any{
		"identity": map[string]any{"docker-reference": reference},
		"image":    map[string]any{"docker-manifest-digest": digest},
		"type":     "cosign container image signature",
	}, "optional": nil})
}

// Layer signs a payload, and returns the layer of the simple signature.
func (k Key) Layer(t testing.TB, payload []byte) mutate.Addendum {
	t.Helper()
	return Layer(payload, base64.StdEncoding.EncodeToString(k.Bytes(t, payload)))
}

// Layer returns the layer of a simple signature. signature is the text of the annotation.
func Layer(payload []byte, signature string) mutate.Addendum {
	return mutate.Addendum{
		Layer: static.NewLayer(payload, SimpleSigning), MediaType: SimpleSigning,
		Annotations: map[string]string{SignatureAnnotation: signature},
	}
}

// Statement returns an in-toto statement about a digest.
func Statement(name, digest, predicate string) []byte {
	algorithm, hex, _ := strings.Cut(digest, ":")
	return encode(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"name": name, "digest": map[string]string{algorithm: hex}}},
		"predicateType": predicate, "predicate": map[string]any{},
	})
}

// BundleLayer signs a statement, and returns the layer of a Sigstore bundle that contains the statement and its signature.
func (k Key) BundleLayer(t testing.TB, statement []byte) mutate.Addendum {
	t.Helper()
	const payloadType = "application/vnd.in-toto+json"
	message := []byte(strings.Join([]string{"DSSEv1", strconv.Itoa(len(payloadType)), payloadType, strconv.Itoa(len(statement)), string(statement)}, " "))
	return BundleOf(encode(map[string]any{
		"mediaType":            string(Bundle),
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "test"}, "tlogEntries": []any{}},
		"dsseEnvelope": map[string]any{
			"payload": statement, "payloadType": payloadType,
			"signatures": []any{map[string]any{"sig": k.Bytes(t, message)}},
		},
	}))
}

// BundleOf returns the layer of a bundle with the given content.
func BundleOf(content []byte) mutate.Addendum {
	return mutate.Addendum{Layer: static.NewLayer(content, Bundle), MediaType: Bundle}
}

// Artifact returns an image manifest with the given layers. The media type of its configuration is the type of the artifact, as is usual
// for artifacts that are not images.
func Artifact(t testing.TB, artifactType types.MediaType, layers ...mutate.Addendum) v1.Image {
	t.Helper()
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatalf("make artifact: %v", err)
	}
	if artifactType == "" {
		artifactType = types.OCIConfigJSON
	}
	return mutate.ConfigMediaType(image, artifactType)
}

func encode(v any) []byte {
	text, _ := json.Marshal(v) // Maps and strings can always be encoded.
	return text
}
