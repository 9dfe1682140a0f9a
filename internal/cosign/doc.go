// Package cosign verifies that an image is signed with a key. It verifies images as the cosign tool does: with a
// public key (ECDSA P-256 or P-384, or Ed25519), and with signatures in the image's repository.
//
// Signatures can have two forms:
//
//   - simple signing: the layers of the manifest under the tag sha256-<hex>.sig, and the
//     layers of referrers of the type application/vnd.dev.cosign.artifact.sig.v1+json;
//   - the Sigstore bundle (application/vnd.dev.sigstore.bundle.v0.3+json): a referrer that contains
//     a DSSE envelope with an in-toto statement whose predicate has the type of an image signature.
//     Attestations (provenance, SBOM) are signed statements about other facts, not signatures of
//     the image.
//
// Referrers are found through the referrers API. If a registry does not support that API, they are found through the index under the tag sha256-<hex>.
//
// A signature is accepted if it is valid for the key and if the signed content contains the digest. The signed repository (docker-reference) is reported
// but not checked, because images are copied between registries together with their signatures. Therefore, a user who can push to a repository can
// push an older image, or an image from another repository, if that image is signed with the same key. Use separate keys for separate applications.
// The transparency log and timestamps are not checked either, because only the key is trusted. Keyless signatures, which use a certificate, are
// rejected.
//
// The number and the size of the items that are read are limited: at most 64 layers and referrers in total, 64 KiB for a simple signing payload, and 1
// MiB for a bundle.
//
// key.go     the public keys in a Secret
// form.go    the two forms of signatures
// verify.go  the search for the signatures of an image, and their verification
package cosign
