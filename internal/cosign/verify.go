package cosign

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/heighliner/heighliner/internal/registry"
)

// Verdict is the result of verifying an image.
type Verdict string

// These are the verdicts.
const (
	// Verified means that the digest is signed with one of the keys.
	Verified Verdict = "Verified"
	// NotSigned means that the repository contains no signature of the digest.
	NotSigned Verdict = "NotSigned"
	// Invalid means that there are signatures, but none of them is valid.
	Invalid Verdict = "Invalid"
)

// Result contains the result of a verification and the reason for it.
type Result struct {
	Verdict Verdict
	// Reason explains in one line why the image is not Verified. It is empty for an image that is Verified.
	Reason string
	// Reference is the name of the image in the signature, "registry/path" with an optional tag. It is not compared with any other name. It is set only if
	// the image is Verified and the signature contains a name.
	Reference string
}

// Registry reads signatures. It is implemented by *registry.Scanner.
type Registry interface {
	Manifest(ctx context.Context, r registry.Request, identifier string) (registry.Manifest, error)
	Blob(ctx context.Context, r registry.Request, digest string, limit int64) ([]byte, error)
	Referrers(ctx context.Context, r registry.Request, digest string, most int) ([]v1.Descriptor, error)
	Key(r registry.Request) string
}

// These are the limits on the content that is read for one image, and on the caches.
const (
	maxSignatures = 64       // layers and referrers together
	maxPayload    = 64 << 10 // bytes of a simple signing payload
	maxBundle     = 1 << 20  // bytes of a bundle
	// maxVerified is the maximum number of results in each cache.
	maxVerified = 16_384
)

// These are the media types and annotations of cosign and Sigstore.
const (
	typeSimpleSigning     = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeSignature         = "application/vnd.dev.cosign.artifact.sig.v1+json"
	typeBundle            = "application/vnd.dev.sigstore.bundle" // followed by a version
	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationPredicate   = "dev.sigstore.bundle.predicateType"
)

// Verifier verifies images. It is safe for concurrent use. It caches which images are Verified, because this result does not change. It also caches
// which images are not Verified, but only for a limited time: the longer an image has had this result, the longer the result is cached. Create a
// Verifier with New; the zero value is not usable.
type Verifier struct {
	registry Registry
	clock    clock.PassiveClock
	verified *lru.Cache // maps memory to Result
	refused  *lru.Cache // maps memory to refusal
}

// refusal is the result for an image that is not Verified, but may be signed later.
type refusal struct {
	result      Result
	first, last time.Time // times of the first and the latest check with this result
}

// After each check, a refusal is cached for 1/refusalPart of the time that has passed since the first check with this result, but for at most maxRefusal.
const (
	refusalPart = 4
	maxRefusal  = time.Hour
)

// holds reports whether the refusal is still valid without another check.
func (r refusal) holds(now time.Time) bool {
	return now.Sub(r.last) < min(r.last.Sub(r.first)/refusalPart, maxRefusal)
}

// memory is the key of a cached result. request is the result of Registry.Key; it differs between credentials.
type memory struct{ request, digest, keys string }

// New returns a Verifier.
func New(r Registry, c clock.PassiveClock) *Verifier {
	return &Verifier{registry: r, clock: c, verified: lru.New(maxVerified), refused: lru.New(maxVerified)}
}

// Verify reports whether the image that digest identifies is signed with one of the keys. digest is the digest of an index or a manifest in the
// repository of r. r.Timeout limits the whole call. If r.MaxAge is 0, a cached result is used only if it is Verified.
//
// An error means that there is no result, because the registry did not respond, the registry rejected the credential (registry.KindOf distinguishes
// these cases), or the digest or the keys are invalid. Repeat the call later. Until then, do not assume that the image is signed, or that it is not.
func (v *Verifier) Verify(ctx context.Context, r registry.Request, digest string, keys Keys) (Result, error) {
	hash, err := v1.NewHash(digest)
	if err != nil {
		return Result{}, fmt.Errorf("verify image: digest %.80q cannot be read: use sha256: and 64 hexadecimal digits", digest)
	}
	if len(keys.keys) == 0 {
		return Result{}, fmt.Errorf("verify image %s: no public key is given: see ParseKeys", digest)
	}
	known := memory{v.registry.Key(r), digest, keys.id}
	if result, ok := v.verified.Get(known); ok && known.request != "" {
		return result.(Result), nil
	}
	before, _ := v.refused.Get(known)
	was, again := before.(refusal)
	if again && known.request != "" && r.MaxAge > 0 && was.holds(v.clock.Now()) {
		return was.result, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, registry.DefaultTimeout))
	defer cancel()
	s := &search{registry: v.registry, request: r, digest: hash, keys: keys, left: maxSignatures}
	result, err := s.run(ctx)
	switch now := v.clock.Now(); {
	case err != nil:
	case result.Verdict == Verified:
		v.verified.Add(known, result)
		v.refused.Remove(known)
	case again && was.result == result:
		v.refused.Add(known, refusal{result, was.first, now})
	default:
		v.refused.Add(known, refusal{result, now, now})
	}
	return result, err
}

// search is the state of a search for a valid signature.
type search struct {
	registry Registry
	request  registry.Request
	digest   v1.Hash
	keys     Keys

	left      int    // number of layers and referrers that may still be checked
	reason    string // why the first rejected signature is not valid
	found     bool   // whether a valid signature was found
	reference string // name of the image in the valid signature
}

func (s *search) run(ctx context.Context) (Result, error) {
	err := s.byTag(ctx)
	if err == nil && !s.found {
		err = s.byReferrers(ctx)
	}
	switch {
	case s.found:
		return Result{Verdict: Verified, Reference: s.reference}, nil
	case err != nil:
		return Result{}, fmt.Errorf("verify image %s: %w", s.digest, err)
	case s.reason != "":
		return Result{Verdict: Invalid, Reason: s.reason}, nil
	}
	return Result{Verdict: NotSigned, Reason: "the repository contains no signature of the image"}, nil
}

// accept accepts a signature, and truncates its reference to 512 bytes.
func (s *search) accept(reference string) {
	s.found, s.reference = true, reference[:min(len(reference), 512)]
}

// refuse rejects a signature, and keeps only the first reason.
func (s *search) refuse(format string, args ...any) {
	if s.reason == "" {
		s.reason = fmt.Sprintf(format, args...)
	}
}

// judge classifies read errors. Missing content is ignored, unusable content counts as an invalid signature, and any other error ends the verification.
func (s *search) judge(err error) error {
	switch registry.KindOf(err) {
	case registry.NotFound:
		return nil
	case registry.Malformed:
		s.refuse("a signature cannot be read: %s", err)
		return nil
	}
	return err
}

// byTag checks the manifest that cosign stores under a tag.
func (s *search) byTag(ctx context.Context) error {
	return s.manifest(ctx, s.digest.Algorithm+"-"+s.digest.Hex+".sig")
}

// byReferrers checks the manifests whose subject is the image. It skips manifests with an artifact type other than the types of signatures.
func (s *search) byReferrers(ctx context.Context) error {
	referrers, err := s.registry.Referrers(ctx, s.request, s.digest.String(), 4*maxSignatures)
	if err != nil {
		return s.judge(err)
	}
	for _, r := range referrers {
		bundle := strings.HasPrefix(r.ArtifactType, typeBundle)
		switch {
		case r.ArtifactType != "" && r.ArtifactType != typeSignature && !bundle,
			bundle && r.Annotations[annotationPredicate] != "" && r.Annotations[annotationPredicate] != predicateSign:
			continue
		case !s.take():
			return nil
		}
		if err := s.manifest(ctx, r.Digest.String()); err != nil || s.found {
			return err
		}
	}
	return nil
}

// take counts one more layer or referrer to check, and returns false if the limit is exceeded.
func (s *search) take() bool {
	s.left--
	if s.left < 0 {
		s.refuse("there are more signatures than the limit of %d manifests and layers allows: remove the signatures that are not needed", maxSignatures)
		return false
	}
	return true
}

// manifest checks the layers of a manifest until a layer contains a valid signature.
func (s *search) manifest(ctx context.Context, identifier string) error {
	raw, err := s.registry.Manifest(ctx, s.request, identifier)
	if err != nil {
		return s.judge(err)
	}
	if !raw.MediaType.IsImage() {
		return nil
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(raw.Raw))
	if err != nil {
		s.refuse("the manifest of a signature cannot be read")
		return nil
	}
	for _, layer := range manifest.Layers {
		if err := s.layer(ctx, layer); err != nil || s.found {
			return err
		}
	}
	return nil
}

// layer checks a layer if its type is a signature type.
func (s *search) layer(ctx context.Context, layer v1.Descriptor) error {
	check, limit := s.simpleSigning, int64(maxPayload)
	switch kind := string(layer.MediaType); {
	case kind == typeSimpleSigning:
	case strings.HasPrefix(kind, typeBundle):
		check, limit = s.bundle, maxBundle
	default:
		return nil
	}
	if !s.take() {
		return nil
	}
	if layer.Size > limit {
		s.refuse("a signature is %d bytes long, more than the limit of %d bytes", layer.Size, limit)
		return nil
	}
	content, err := s.registry.Blob(ctx, s.request, layer.Digest.String(), limit)
	switch {
	case registry.KindOf(err) == registry.NotFound:
		s.refuse("the content of a signature is missing from the registry")
		return nil
	case err != nil:
		return s.judge(err)
	}
	check(layer, content)
	return nil
}
