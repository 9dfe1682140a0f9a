// Package cosign verifies whether an image is signed with a key, as the tool cosign does: a public
// key (ECDSA P-256 or P-384, or Ed25519) and signatures in the image's repository.
//
// Two forms of signature count:
//
//   - simple signing: the layers of the manifest under the tag sha256-<hex>.sig, and
//     of referrers of the type application/vnd.dev.cosign.artifact.sig.v1+json;
//   - the Sigstore bundle (application/vnd.dev.sigstore.bundle.v0.3+json) among the
//     referrers, when it holds a DSSE envelope with an in-toto statement whose
//     predicate is that of an image signature. Attestations (provenance, SBOM) are
//     signed statements about something else, and are not signatures of the image.
//
// Referrers are found by the referrers API and, where a registry has none, by the
// index under the tag sha256-<hex>.
//
// A signature counts if it is valid for the key and the signed content names the digest. The
// signed repository (docker-reference) is reported, but not checked, because images are copied
// between registries with their signatures. Therefore a user who can push to a repository can put
// an older image there, or an image of another repository that is signed with the same key: use
// separate keys for separate applications. The transparency log and timestamps are not checked
// either, because only the key is trusted. Keyless signatures, by a certificate, are rejected.
//
// Everything that is read is bounded in number and size: 64 layers or referrers, 64 KiB of
// a simple signing payload, 1 MiB of a bundle.
//
//	key.go     public keys of a Secret
//	form.go    the two forms of signatures
//	verify.go  finds and checks the signatures of an image
package cosign
