package cosign

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

const path = "acme/web"

func keysOf(t testing.TB, keys ...cosigntest.Key) Keys {
	t.Helper()
	var text []byte
	for _, k := range keys {
		text = append(text, k.PEM(t)...)
	}
	parsed, err := ParseKeys("signers", map[string][]byte{SecretKey: text})
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func scanner() *registry.Scanner {
	return registry.New(registry.Options{Outbound: registrytest.Outbound(), Backoff: remote.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 2}, Burst: 10_000})
}

// pushSigned pushes layers in the form in which cosign stores them under the tag of a digest.
func pushSigned(t testing.TB, s *registrytest.Server, digest string, layers ...mutate.Addendum) {
	t.Helper()
	s.PushImage(t, path, cosigntest.Tag(digest), cosigntest.Artifact(t, "", layers...))
}

func TestVerify(t *testing.T) {
	key, other := cosigntest.NewKey(t), cosigntest.NewKey(t)
	long, longer, ed := cosigntest.NewKeyOn(t, elliptic.P384(), crypto.SHA256), cosigntest.NewKeyOn(t, elliptic.P384(), crypto.SHA384), cosigntest.NewEd25519(t)
	elsewhere := "sha256:" + strings.Repeat("0", 64)
	const reference = "registry.example.com/acme/web"
	payload := func(digest string) []byte { return cosigntest.Payload(reference, digest) }
	statement := func(digest string) []byte { return cosigntest.Statement(reference, digest, cosigntest.PredicateSign) }
	bundle := func(s *registrytest.Server, digest string, layers ...mutate.Addendum) {
		s.PushReferrer(t, path, digest, cosigntest.Artifact(t, cosigntest.Bundle, layers...))
	}
	of := func(layer mutate.Addendum, annotation, value string) mutate.Addendum {
		layer.Annotations[annotation] = value
		return layer
	}
	for name, tc := range map[string]struct {
		sign      func(s *registrytest.Server, digest string)
		keys      []cosigntest.Key // nil means key
		want      Verdict
		reason    string
		reference string
	}{
		"not signed": {sign: func(*registrytest.Server, string) {}, want: NotSigned, reason: "contains no signature"},
		"by tag": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, key.Layer(t, payload(digest)))
		}, want: Verified, reference: reference},
		"by referrer": {sign: func(s *registrytest.Server, digest string) {
			s.PushReferrer(t, path, digest, cosigntest.Artifact(t, cosigntest.Signature, key.Layer(t, payload(digest))))
		}, want: Verified, reference: reference},
		"by bundle":      {sign: func(s *registrytest.Server, digest string) { bundle(s, digest, key.BundleLayer(t, statement(digest))) }, want: Verified, reference: reference},
		"P-384, SHA-256": {sign: func(s *registrytest.Server, digest string) { long.Sign(t, s, path, digest) }, keys: []cosigntest.Key{long}, want: Verified},
		"P-384, SHA-384": {sign: func(s *registrytest.Server, digest string) { longer.SignAsBundle(t, s, path, digest) }, keys: []cosigntest.Key{longer}, want: Verified},
		"Ed25519":        {sign: func(s *registrytest.Server, digest string) { ed.Sign(t, s, path, digest) }, keys: []cosigntest.Key{ed}, want: Verified},
		"second of two keys": {sign: func(s *registrytest.Server, digest string) { key.Sign(t, s, path, digest) },
			keys: []cosigntest.Key{other, key}, want: Verified},
		"second of two signatures": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, other.Layer(t, payload(digest)), key.Layer(t, payload(digest)))
		}, want: Verified, reference: reference},
		"foreign signature by tag, own by bundle": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, other.Layer(t, payload(digest)))
			bundle(s, digest, key.BundleLayer(t, statement(digest)))
		}, want: Verified, reference: reference},
		"own signature among other referrers": {sign: func(s *registrytest.Server, digest string) {
			s.PushReferrer(t, path, digest, cosigntest.Artifact(t, "application/spdx+json", cosigntest.BundleOf([]byte("{}"))))
			other.SignAsReferrer(t, s, path, digest)
			bundle(s, digest, key.BundleLayer(t, cosigntest.Statement("", digest, "https://slsa.dev/provenance/v1")))
			key.SignAsBundle(t, s, path, digest)
		}, want: Verified},
		"another key, by tag": {sign: func(s *registrytest.Server, digest string) { other.Sign(t, s, path, digest) },
			want: Invalid, reason: "signed with another key"},
		"another key, by referrer": {sign: func(s *registrytest.Server, digest string) { other.SignAsReferrer(t, s, path, digest) },
			want: Invalid, reason: "signed with another key"},
		"another key, by bundle": {sign: func(s *registrytest.Server, digest string) { other.SignAsBundle(t, s, path, digest) },
			want: Invalid, reason: "signed with another key"},
		"another digest, by tag": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, key.Layer(t, payload(elsewhere)))
		}, want: Invalid, reason: `for digest "` + elsewhere},
		"another digest, by bundle": {sign: func(s *registrytest.Server, digest string) {
			bundle(s, digest, key.BundleLayer(t, statement(elsewhere)))
		},
			want: Invalid, reason: "for another digest"},
		"signature of another payload": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, cosigntest.Layer(payload(digest), base64.StdEncoding.EncodeToString(key.Bytes(t, payload(elsewhere)))))
		}, want: Invalid, reason: "another key"},
		"payload of another kind": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, key.Layer(t, bytes.ReplaceAll(payload(digest), []byte("cosign container"), []byte("atomic container"))))
		}, want: Invalid, reason: "has type"},
		"payload that is not JSON": {sign: func(s *registrytest.Server, digest string) { pushSigned(t, s, digest, key.Layer(t, []byte(digest))) },
			want: Invalid, reason: "not a simple signing payload"},
		"no annotation": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, cosigntest.Layer(payload(digest), ""))
		}, want: Invalid, reason: "has no annotation"},
		"annotation that is not base64": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, cosigntest.Layer(payload(digest), "!"))
		}, want: Invalid, reason: "has no annotation"},
		"keyless, by tag": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, of(other.Layer(t, payload(digest)), "dev.sigstore.cosign/certificate", "-----BEGIN CERTIFICATE-----"))
		}, want: Invalid, reason: "keyless"},
		"keyless, by bundle": {sign: func(s *registrytest.Server, digest string) {
			content := fmt.Sprintf(`{"verificationMaterial":{"certificate":{"rawBytes":"AAAA"}},"dsseEnvelope":{"payload":%q,"payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AAAA"}]}}`,
				base64.StdEncoding.EncodeToString(statement(digest)))
			bundle(s, digest, cosigntest.BundleOf([]byte(content)))
		}, want: Invalid, reason: "keyless"},
		"attestation only": {sign: func(s *registrytest.Server, digest string) {
			bundle(s, digest, key.BundleLayer(t, cosigntest.Statement("", digest, "https://slsa.dev/provenance/v1")))
		}, want: NotSigned},
		"bundle with messageSignature": {sign: func(s *registrytest.Server, digest string) {
			bundle(s, digest, cosigntest.BundleOf([]byte(`{"messageSignature":{}}`)))
		}, want: Invalid, reason: "no DSSE envelope"},
		"bundle that is not JSON": {sign: func(s *registrytest.Server, digest string) { bundle(s, digest, cosigntest.BundleOf([]byte("{"))) },
			want: Invalid, reason: "cannot be read"},
		"bundle of something else": {sign: func(s *registrytest.Server, digest string) {
			bundle(s, digest, key.BundleLayer(t, []byte(`{"_type":"https://example.com/Statement"}`)))
		}, want: Invalid, reason: "no in-toto statement"},
		"unsigned bundle": {sign: func(s *registrytest.Server, digest string) {
			content := fmt.Sprintf(`{"dsseEnvelope":{"payload":%q,"payloadType":"application/vnd.in-toto+json","signatures":[]}}`, base64.StdEncoding.EncodeToString(statement(digest)))
			bundle(s, digest, cosigntest.BundleOf([]byte(content)))
		}, want: Invalid, reason: "another key"},
		"large payload": {sign: func(s *registrytest.Server, digest string) {
			pushSigned(t, s, digest, key.Layer(t, append(payload(digest), bytes.Repeat([]byte(" "), maxPayload)...)))
		}, want: Invalid, reason: "more than the limit of 65536 bytes"},
		"many signatures": {sign: func(s *registrytest.Server, digest string) {
			var layers []mutate.Addendum
			for i := range maxSignatures {
				layers = append(layers, cosigntest.Layer(fmt.Append(nil, i), "AAAA"))
			}
			pushSigned(t, s, digest, append(layers, key.Layer(t, payload(digest)))...)
		}, want: Invalid, reason: "another key"},
		"a tag that is an index": {sign: func(s *registrytest.Server, digest string) {
			s.Push(t, path, cosigntest.Tag(digest), "linux/amd64", "linux/arm64")
		}, want: NotSigned},
		"an image under the tag": {sign: func(s *registrytest.Server, digest string) { s.Push(t, path, cosigntest.Tag(digest)) }, want: NotSigned},
	} {
		for form, options := range map[string][]registrytest.Option{"referrers API": {registrytest.WithReferrers()}, "referrers tag": nil} {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				server := registrytest.New(t, options...)
				digest := server.Push(t, path, "1.0.0", "linux/amd64", "linux/arm64")
				tc.sign(server, digest)
				keys := tc.keys
				if keys == nil {
					keys = []cosigntest.Key{key}
				}
				got, err := New(scanner(), clock.RealClock{}).Verify(t.Context(), registry.Request{Repository: server.Repository(path)}, digest, keysOf(t, keys...))
				if err != nil {
					t.Fatal(err)
				}
				if got.Verdict != tc.want || !strings.Contains(got.Reason, tc.reason) || (got.Reason == "") != (got.Verdict == Verified) {
					t.Errorf("%+v, want %s because %q", got, tc.want, tc.reason)
				}
				if tc.reference != "" && got.Reference != tc.reference {
					t.Errorf("reference %q, want %q", got.Reference, tc.reference)
				}
				if strings.Contains(got.Reason, "\n") {
					t.Errorf("reason %q has several lines", got.Reason)
				}
			})
		}
	}
}

// TestErrorsDecideNothing checks that an error from the registry produces no result, and that a later response
// does.
func TestErrorsDecideNothing(t *testing.T) {
	sig := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".sig") }
	referrers := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/referrers/") }
	blobs := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") }
	for name, tc := range map[string]struct {
		when   func(*http.Request) bool
		answer http.HandlerFunc
		want   registry.Kind
		// timeout of the request, if the request is expected to time out
		timeout time.Duration
	}{
		"tag fails":          {sig, registrytest.Status(http.StatusBadGateway, "X"), registry.Unreachable, 0},
		"tag is forbidden":   {sig, registrytest.Status(http.StatusForbidden, "DENIED"), registry.Unauthorized, 0},
		"too many requests":  {sig, registrytest.Status(http.StatusTooManyRequests, "TOOMANYREQUESTS"), registry.RateLimited, 0},
		"referrers fail":     {referrers, registrytest.Status(http.StatusServiceUnavailable, "X"), registry.Unreachable, 0},
		"content fails":      {blobs, registrytest.Status(http.StatusInternalServerError, "X"), registry.Unreachable, 0},
		"content never ends": {blobs, registrytest.Slow(), registry.Unreachable, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t, registrytest.WithReferrers())
			key := cosigntest.NewKey(t)
			digest := server.Push(t, path, "1.0.0")
			key.SignAsBundle(t, server, path, digest)
			server.FailWhen(tc.when, -1, tc.answer)
			r := registry.Request{Repository: server.Repository(path), Timeout: cmp.Or(tc.timeout, await.Limit)}
			got, err := New(scanner(), clock.RealClock{}).Verify(t.Context(), r, digest, keysOf(t, key))
			if registry.KindOf(err) != tc.want || got != (Result{}) {
				t.Fatalf("Verify = %+v, %v; want %q", got, err, tc.want)
			}
			server.Heal()
			r.Timeout = await.Limit
			if got, err := New(scanner(), clock.RealClock{}).Verify(t.Context(), r, digest, keysOf(t, key)); err != nil || got.Verdict != Verified {
				t.Errorf("Verify = %+v, %v after the error", got, err)
			}
		})
	}
}

// TestBadAnswers checks that an invalid response from a registry is reported as Invalid.
func TestBadAnswers(t *testing.T) {
	sig := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".sig") }
	referrers := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/referrers/") }
	blobs := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") }
	index := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", string(types.OCIImageIndex))
		fmt.Fprint(w, "{")
	}
	manifest := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		fmt.Fprint(w, "{")
	}
	for name, tc := range map[string]struct {
		when   func(*http.Request) bool
		answer http.HandlerFunc
		reason string
	}{
		"huge manifest":         {sig, registrytest.Huge(9 << 20), "larger"},
		"broken manifest":       {sig, manifest, "cannot be read"},
		"broken referrers":      {referrers, index, "cannot be read"},
		"referrers not allowed": {referrers, registrytest.Status(http.StatusMethodNotAllowed, "UNSUPPORTED"), "405"},
		"missing content":       {blobs, registrytest.Status(http.StatusNotFound, "BLOB_UNKNOWN"), "missing from the registry"},
		"other content":         {blobs, registrytest.Text("{}"), "cannot be read"},
		"huge content":          {blobs, registrytest.Huge(2 << 20), "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t, registrytest.WithReferrers())
			key := cosigntest.NewKey(t)
			digest := server.Push(t, path, "1.0.0")
			key.SignAsReferrer(t, server, path, server.Push(t, path, "2.0.0")) // a signature of another image
			cosigntest.NewKey(t).SignAsReferrer(t, server, path, digest)
			server.FailWhen(tc.when, -1, tc.answer)
			got, err := New(scanner(), clock.RealClock{}).Verify(t.Context(), registry.Request{Repository: server.Repository(path)}, digest, keysOf(t, key))
			if err != nil || got.Verdict != Invalid || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("Verify = %+v, %v; want %s because %q", got, err, Invalid, tc.reason)
			}
		})
	}
}

// TestManyReferrers checks that many referrers cause a limited number of requests.
func TestManyReferrers(t *testing.T) {
	server := registrytest.New(t, registrytest.WithReferrers())
	key := cosigntest.NewKey(t)
	digest := server.Push(t, path, "1.0.0")
	index := &strings.Builder{}
	for i := range 1000 {
		fmt.Fprintf(index, `,{"mediaType":%q,"digest":"sha256:%064x","size":1,"artifactType":%q}`, types.OCIManifestSchema1, i, cosigntest.Signature)
	}
	server.FailWhen(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/referrers/") }, -1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", string(types.OCIImageIndex))
		fmt.Fprintf(w, `{"schemaVersion":2,"manifests":[%s]}`, index.String()[1:])
	})
	got, err := New(scanner(), clock.RealClock{}).Verify(t.Context(), registry.Request{Repository: server.Repository(path)}, digest, keysOf(t, key))
	if err != nil || got.Verdict != Invalid || !strings.Contains(got.Reason, "more signatures than the limit of 64") {
		t.Errorf("Verify = %+v, %v; want %s", got, err, Invalid)
	}
	if n := server.Requests(registrytest.Get); n != maxSignatures+1 {
		t.Errorf("%d manifests, want %d", n, maxSignatures+1)
	}
}

// TestVerifiedIsRemembered checks that a valid signature is not requested again, and that an unsigned image may be signed later.
func TestVerifiedIsRemembered(t *testing.T) {
	server := registrytest.New(t)
	key, other := cosigntest.NewKey(t), cosigntest.NewKey(t)
	digest := server.Push(t, path, "1.0.0")
	verifier := New(scanner(), clock.RealClock{})
	r := registry.Request{Repository: server.Repository(path)}
	verify := func(r registry.Request, keys Keys, want Verdict) {
		t.Helper()
		if got, err := verifier.Verify(t.Context(), r, digest, keys); err != nil || got.Verdict != want {
			t.Errorf("Verify = %+v, %v; want %s", got, err, want)
		}
	}
	verify(r, keysOf(t, key), NotSigned)
	key.Sign(t, server, path, digest)
	verify(r, keysOf(t, key), Verified)
	before := server.Total()
	for range 3 {
		verify(r, keysOf(t, key), Verified)
	}
	if n := server.Total() - before; n != 0 {
		t.Errorf("%d requests for known results, want none", n)
	}
	verify(r, keysOf(t, other), Invalid)
	// Another tenant sees only what the registry allows them to see.
	server.RequireBasic("robot", "hunter2")
	r.Auth = registry.Credential{Username: "robot", Password: "guess"}
	if got, err := verifier.Verify(t.Context(), r, digest, keysOf(t, key)); registry.KindOf(err) != registry.Unauthorized {
		t.Errorf("Verify = %+v, %v with a wrong password; want %q", got, err, registry.Unauthorized)
	}
}

// TestRefusalIsRememberedForAWhile checks that unsigned images cause only one login and few requests. The longer an image has been
// unsigned, the fewer requests it causes. Requested scans and due scans find a new signature.
func TestRefusalIsRememberedForAWhile(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t, registrytest.WithReferrers())
	server.RequireBearer("robot", "hunter2")
	key := cosigntest.NewKey(t)
	keys := keysOf(t, key)
	const images = 20
	digests := make([]string, images)
	for i := range digests {
		digests[i] = server.Push(t, path, fmt.Sprintf("1.%d.0", i))
	}
	clock := testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	verifier := New(scanner(), clock)
	r := registry.Request{Repository: server.Repository(path), Auth: registry.Credential{Username: "robot", Password: "hunter2"}, MaxAge: time.Minute}
	scan := func(want Verdict) (requests int) {
		t.Helper()
		before := server.Total()
		for _, digest := range digests {
			if got, err := verifier.Verify(t.Context(), r, digest, keys); err != nil || got.Verdict != want {
				t.Fatalf("Verify = %+v, %v; want %s", got, err, want)
			}
		}
		return server.Total() - before
	}
	scan(NotSigned)
	if n := scan(NotSigned); n != 2*images {
		t.Errorf("%d requests for new images, want %d: the tag of the signature and the referrers of each", n, 2*images)
	}
	if n := server.Requests(registrytest.Token); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
	clock.Step(4 * time.Hour)
	scan(NotSigned)
	clock.Step(59 * time.Minute)
	if n := scan(NotSigned); n != 0 {
		t.Errorf("%d requests for images that have been unsigned for hours, want none within an hour", n)
	}
	for _, digest := range digests {
		key.Sign(t, server, path, digest)
	}
	if n := scan(NotSigned); n != 0 {
		t.Errorf("%d requests for images that have been unsigned for hours, want none within an hour", n)
	}
	clock.Step(time.Minute)
	scan(Verified)
	if n := scan(Verified); n != 0 {
		t.Errorf("%d requests for known results, want none", n)
	}
	// A caller who requires a current result does not get a cached one.
	late := server.Push(t, path, "2.0.0")
	for i, want := range []Verdict{NotSigned, NotSigned, Verified} {
		if i == 2 {
			key.Sign(t, server, path, late)
			r.MaxAge = 0
		}
		if got, err := verifier.Verify(t.Context(), r, late, keys); err != nil || got.Verdict != want {
			t.Errorf("Verify = %+v, %v; want %s", got, err, want)
		}
		clock.Step(2 * time.Hour)
	}
}

func TestVerifyNeedsADigestAndKeys(t *testing.T) {
	server := registrytest.New(t)
	key := cosigntest.NewKey(t)
	digest := server.Push(t, path, "1.0.0")
	key.Sign(t, server, path, digest)
	r := registry.Request{Repository: server.Repository(path)}
	verifier := New(scanner(), clock.RealClock{})
	for name, tc := range map[string]struct {
		request registry.Request
		digest  string
		keys    Keys
	}{
		"not a digest":  {r, "1.0.0", keysOf(t, key)},
		"no keys":       {r, digest, Keys{}},
		"no repository": {registry.Request{Repository: "https://a/b"}, digest, keysOf(t, key)},
	} {
		if got, err := verifier.Verify(t.Context(), tc.request, tc.digest, tc.keys); err == nil || got != (Result{}) {
			t.Errorf("%s: Verify = %+v, %v; want an error", name, got, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := verifier.Verify(ended, r, digest, keysOf(t, key)); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify: %v, want %v", err, context.Canceled)
	}
}

// TestPreAuthentication uses the example from the DSSE protocol.
func TestPreAuthentication(t *testing.T) {
	const want = "DSSEv1 29 http://example.com/HelloWorld 11 hello world"
	if got := string(preAuthentication("http://example.com/HelloWorld", []byte("hello world"))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzForms checks that signed content is decoded safely, because any user may have pushed it.
func FuzzForms(f *testing.F) {
	digest := "sha256:" + strings.Repeat("a", 64)
	hash, err := v1.NewHash(digest)
	if err != nil {
		f.Fatal(err)
	}
	keys := keysOf(f, cosigntest.NewKey(f))
	f.Add(cosigntest.Payload("a", digest), "AAAA")
	f.Add([]byte(`{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AAAA"}]}}`), "")
	f.Fuzz(func(t *testing.T, content []byte, signature string) {
		s := &search{digest: hash, keys: keys}
		s.simpleSigning(v1.Descriptor{Annotations: map[string]string{annotationSignature: signature}}, content)
		s.bundle(v1.Descriptor{}, content)
		if s.found {
			t.Errorf("%q counts with %q", content, signature)
		}
	})
}
