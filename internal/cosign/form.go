package cosign

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// These values identify an image signature.
const (
	simpleSigningType = "cosign container image signature"
	predicateSign     = "https://sigstore.dev/cosign/sign/v1"
	payloadInToto     = "application/vnd.in-toto+json"
)

// maxEnvelope is the maximum number of signatures that are checked in an envelope.
const maxEnvelope = 8

// statementTypes contains the types of in-toto statements.
var statementTypes = map[string]bool{"https://in-toto.io/Statement/v1": true, "https://in-toto.io/Statement/v0.1": true}

// refuseKey rejects a signature that was not made with any of the keys.
func (s *search) refuseKey(certificate bool) {
	if certificate {
		s.refuse("the image is signed with a certificate (keyless), which is not supported: sign it with a key")
		return
	}
	s.refuse("the image is signed with another key")
}

// simpleSigning checks the payload of a simple signature. The signature itself is an annotation of the layer.
func (s *search) simpleSigning(layer v1.Descriptor, payload []byte) {
	signature, err := base64.StdEncoding.DecodeString(layer.Annotations[annotationSignature])
	if err != nil || len(signature) == 0 {
		s.refuse("a signature has no annotation %s with a base64 value", annotationSignature)
		return
	}
	if !s.keys.signed(payload, signature) {
		s.refuseKey(layer.Annotations[annotationCertificate] != "")
		return
	}
	var claim struct {
		Critical struct {
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	switch err := json.Unmarshal(payload, &claim); {
	case err != nil:
		s.refuse("the signed content is not a simple signing payload")
	case claim.Critical.Type != simpleSigningType:
		s.refuse("the signed content has type %.80q instead of %q", claim.Critical.Type, simpleSigningType)
	case claim.Critical.Image.Digest != s.digest.String():
		s.refuse("the signed content is for digest %.80q", claim.Critical.Image.Digest)
	default:
		s.accept(claim.Critical.Identity.Reference)
	}
}

// bundle contains the fields of a Sigstore bundle that are needed to verify the signature of an image.
type bundle struct {
	Material struct {
		Certificate *struct{} `json:"certificate"`
		Chain       *struct{} `json:"x509CertificateChain"`
	} `json:"verificationMaterial"`
	Envelope *struct {
		Payload     []byte `json:"payload"` // base64
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			Signature []byte `json:"sig"` // base64
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// statement is an in-toto statement.
type statement struct {
	Type    string `json:"_type"`
	Subject []struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
	PredicateType string `json:"predicateType"`
}

// bundle checks a Sigstore bundle. To skip attestations, it reads the type of the statement before it checks the signature. The type is not trusted
// before the signature is checked.
func (s *search) bundle(_ v1.Descriptor, content []byte) {
	var b bundle
	if err := json.Unmarshal(content, &b); err != nil {
		s.refuse("a Sigstore bundle cannot be read")
		return
	}
	if b.Envelope == nil {
		s.refuse("a Sigstore bundle contains no DSSE envelope, which cosign uses to sign images")
		return
	}
	var claim statement
	if err := json.Unmarshal(b.Envelope.Payload, &claim); err != nil || b.Envelope.PayloadType != payloadInToto || !statementTypes[claim.Type] {
		s.refuse("a Sigstore bundle contains no in-toto statement")
		return
	}
	if claim.PredicateType != predicateSign {
		return
	}
	message := preAuthentication(b.Envelope.PayloadType, b.Envelope.Payload)
	signed := false
	for _, signature := range b.Envelope.Signatures[:min(len(b.Envelope.Signatures), maxEnvelope)] {
		signed = signed || s.keys.signed(message, signature.Signature)
	}
	if !signed {
		s.refuseKey(b.Material.Certificate != nil || b.Material.Chain != nil)
		return
	}
	for _, subject := range claim.Subject {
		if subject.Digest[s.digest.Algorithm] == s.digest.Hex {
			s.accept(subject.Name)
			return
		}
	}
	s.refuse("the signed content is for another digest")
}

// preAuthentication returns the bytes that a signature in a DSSE envelope covers: the version, and the type and the payload, each preceded by its length.
func preAuthentication(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}
