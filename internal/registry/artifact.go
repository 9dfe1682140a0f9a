package registry

import (
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Manifest is the manifest of an image or of another artifact, as the registry returned it.
type Manifest struct {
	// Digest is the digest of Raw.
	Digest    string
	MediaType types.MediaType
	Raw       []byte
}

const (
	opManifest  = "read manifest"
	opBlob      = "read blob"
	opReferrers = "list referrers of"
)

// Manifest reads the manifest of a tag or digest. It fails if the manifest is larger than Options.MaxBody bytes. Manifests are not cached. Errors are the
// same as for List.
func (s *Scanner) Manifest(ctx context.Context, r Request, identifier string) (Manifest, error) {
	t, ctx, cancel, err := s.begin(ctx, opManifest, r)
	if err != nil {
		return Manifest{}, err
	}
	defer cancel()
	ref, err := t.reference(opManifest, identifier)
	if err != nil {
		return Manifest{}, err
	}
	ctx, puller, err := t.puller(ctx, pageSize)
	if err != nil {
		return Manifest{}, t.fail(opManifest, ref.Name(), err)
	}
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		return Manifest{}, t.fail(opManifest, ref.Name(), err)
	}
	return Manifest{Digest: desc.Digest.String(), MediaType: desc.MediaType, Raw: desc.Manifest}, nil
}

// Blob reads a blob and verifies its digest. A blob of more than limit bytes is an error of kind Malformed. Other errors are the same as for List.
func (s *Scanner) Blob(ctx context.Context, r Request, digest string, limit int64) ([]byte, error) {
	t, ctx, cancel, err := s.begin(ctx, opBlob, r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if _, err := v1.NewHash(digest); err != nil {
		return nil, noDigest(opBlob, r, digest)
	}
	ref := t.repo.Digest(digest)
	content, err := t.blob(ctx, digest, limit)
	if err != nil {
		return nil, t.fail(opBlob, ref.Name(), err)
	}
	return content, nil
}

func (t target) blob(ctx context.Context, digest string, limit int64) ([]byte, error) {
	ctx, puller, err := t.puller(ctx, pageSize)
	if err != nil {
		return nil, err
	}
	layer, err := puller.Layer(ctx, t.repo.Digest(digest))
	if err != nil {
		return nil, err
	}
	body, err := layer.Compressed() // the content as the registry stores it
	if err != nil {
		return nil, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(content)) > limit:
		return nil, errTooLarge
	}
	return content, nil
}

// Referrers returns the descriptors of the manifests whose subject has the digest, in the order in which the registry lists them. It uses the
// referrers API or, if the registry does not support it, the index under the fallback tag for the digest. It reads only the first page. most is the
// maximum number of descriptors. A digest without referrers is not an error. Errors are the same as for List.
func (s *Scanner) Referrers(ctx context.Context, r Request, digest string, most int) ([]v1.Descriptor, error) {
	t, ctx, cancel, err := s.begin(ctx, opReferrers, r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if _, err := v1.NewHash(digest); err != nil {
		return nil, noDigest(opReferrers, r, digest)
	}
	ref := t.repo.Digest(digest)
	ctx, puller, err := t.puller(ctx, pageSize)
	if err != nil {
		return nil, t.fail(opReferrers, ref.Name(), err)
	}
	index, err := remote.Referrers(ref, remote.Reuse(puller), remote.WithContext(ctx))
	if err != nil {
		return nil, t.fail(opReferrers, ref.Name(), err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, t.fail(opReferrers, ref.Name(), errManifest)
	}
	return manifest.Manifests[:min(most, len(manifest.Manifests))], nil
}

// begin prepares a request and limits its duration.
func (s *Scanner) begin(ctx context.Context, op string, r Request) (target, context.Context, context.CancelFunc, error) {
	t, err := s.target(op, r)
	if err != nil {
		return target{}, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	return t, ctx, cancel, nil
}

// Key identifies requests that share responses: the repository, scheme, credential and certificates. It reveals no secret, and is valid only for this
// Scanner. It is empty if the repository or the certificates are invalid.
func (s *Scanner) Key(r Request) string {
	t, err := s.target("find the key of", r)
	if err != nil {
		return ""
	}
	return t.key
}
