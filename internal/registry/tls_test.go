package registry

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/internal/certs/certstest"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

func tlsSecret(kind string, data map[string][]byte) Secret {
	return Secret{Name: "certs", Type: kind, Data: data}
}

func TestParseTLS(t *testing.T) {
	now := time.Now()
	authority := registrytest.NewAuthority(t)
	ca := authority.PEM()
	certificate, key := authority.Issue(t, now.Add(time.Minute))
	expired, expiredKey := authority.Issue(t, now.Add(-time.Minute))
	_, otherKey := authority.Issue(t, now.Add(time.Minute))
	encrypted := []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\naHVudGVyMg==\n-----END ENCRYPTED PRIVATE KEY-----\n")
	legacy := []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\naHVudGVyMg==\n-----END RSA PRIVATE KEY-----\n")
	request := []byte("-----BEGIN CERTIFICATE REQUEST-----\naHVudGVyMg==\n-----END CERTIFICATE REQUEST-----\n")
	broken := []byte("-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n")
	join := func(parts ...[]byte) []byte {
		var all []byte
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, tc := range map[string]struct {
		kind     string
		data     map[string][]byte
		at       time.Time
		want     TLS
		wantText string // part of the error; empty for no error
	}{
		"authority":                      {kind: TypeOpaque, data: map[string][]byte{"ca.crt": ca}, want: TLS{CA: string(ca)}},
		"no type":                        {data: map[string][]byte{"ca.crt": ca}, want: TLS{CA: string(ca)}},
		"client":                         {kind: TypeTLS, data: map[string][]byte{"tls.crt": certificate, "tls.key": key}, want: TLS{Certificate: string(certificate), Key: string(key)}},
		"all":                            {kind: TypeTLS, data: map[string][]byte{"ca.crt": ca, "tls.crt": certificate, "tls.key": key}, want: TLS{string(ca), string(certificate), string(key)}},
		"several authorities, one valid": {data: map[string][]byte{"ca.crt": join(expired, ca)}, want: TLS{CA: string(join(expired, ca))}},
		"authority's certificate after the client's": {data: map[string][]byte{"tls.crt": join(certificate, ca), "tls.key": key},
			want: TLS{Certificate: string(join(certificate, ca)), Key: string(key)}},
		"another type":                       {kind: TypeBasicAuth, data: map[string][]byte{"ca.crt": ca}, wantText: `has type "kubernetes.io/basic-auth"`},
		"empty":                              {kind: TypeOpaque, wantText: "set ca.crt, or tls.crt and tls.key"},
		"authority is not PEM":               {data: map[string][]byte{"ca.crt": []byte("hunter2")}, wantText: `key "ca.crt" contains no certificate in PEM`},
		"authority is broken":                {data: map[string][]byte{"ca.crt": broken}, wantText: `key "ca.crt": certificate 1 cannot be read`},
		"authority is a key":                 {data: map[string][]byte{"ca.crt": key}, wantText: `key "ca.crt" contains a private key`},
		"authority is a certificate request": {data: map[string][]byte{"ca.crt": request}, wantText: `block of type "CERTIFICATE REQUEST"`},
		"authority has expired":              {data: map[string][]byte{"ca.crt": expired}, wantText: `key "ca.crt": the certificate expired at`},
		"authority is too large":             {data: map[string][]byte{"ca.crt": join(ca, make([]byte, maxPEM))}, wantText: `key "ca.crt" is larger than`},
		"key only":                           {data: map[string][]byte{"tls.key": key}, wantText: `key "tls.key" is set without "tls.crt"`},
		"certificate only":                   {kind: TypeTLS, data: map[string][]byte{"tls.crt": certificate}, wantText: `key "tls.crt" is set without "tls.key"`},
		"client is not PEM":                  {data: map[string][]byte{"tls.crt": []byte("hunter2"), "tls.key": key}, wantText: `key "tls.crt" contains no certificate`},
		"key is not PEM":                     {data: map[string][]byte{"tls.crt": certificate, "tls.key": []byte("hunter2")}, wantText: `key "tls.key" has no private key`},
		"key is encrypted":                   {data: map[string][]byte{"tls.crt": certificate, "tls.key": encrypted}, wantText: `key "tls.key" is encrypted`},
		"key is encrypted, old format":       {data: map[string][]byte{"tls.crt": certificate, "tls.key": legacy}, wantText: `key "tls.key" is encrypted`},
		"another client's key":               {data: map[string][]byte{"tls.crt": certificate, "tls.key": otherKey}, wantText: `key "tls.key" is not the private key`},
		"key with a huge factor":             {kind: TypeTLS, data: map[string][]byte{"tls.crt": certificate, "tls.key": certstest.KeyPEM(t, 2_800_000)}, wantText: `key "tls.key": an RSA key has more than 8192 bits`},
		"authority's key is huge":            {data: map[string][]byte{"ca.crt": join(ca, certstest.RootPEM(t, 262_144))}, wantText: `key "ca.crt": certificate 2: an RSA key has more than 8192 bits`},
		"authority comes first":              {data: map[string][]byte{"tls.crt": join(ca, certificate), "tls.key": key}, wantText: "store the client's certificate first"},
		"client has expired":                 {data: map[string][]byte{"tls.crt": expired, "tls.key": expiredKey}, wantText: `key "tls.crt": the certificate expired at`},
		"client is not valid yet":            {data: map[string][]byte{"tls.crt": certificate, "tls.key": key}, at: now.Add(-2 * time.Hour), wantText: `not valid before`},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.at.IsZero() {
				tc.at = now
			}
			got, err := ParseTLS(tlsSecret(tc.kind, tc.data), tc.at)
			if got != tc.want {
				t.Error("not the certificates of the Secret")
			}
			message := ""
			if err != nil {
				message = err.Error()
			}
			if (tc.wantText == "") != (err == nil) || !strings.Contains(message, tc.wantText) {
				t.Errorf("error %q, want %q", message, tc.wantText)
			}
			if err != nil && !strings.HasPrefix(message, `Secret "certs"`) {
				t.Errorf("error %q does not name the Secret", message)
			}
			if strings.Contains(message, "hunter2") || strings.Contains(message, "aHVudGVyMg") {
				t.Errorf("error %q contains the content", message)
			}
		})
	}
}

// TestOwnCertificates checks that all pages and images of a registry with its own certificates are read with these certificates, and that reading
// fails without them.
func TestOwnCertificates(t *testing.T) {
	authority, other := registrytest.NewAuthority(t), registrytest.NewAuthority(t)
	soon := time.Now().Add(time.Hour)
	certificate, key := authority.Issue(t, soon)
	strange, strangeKey := other.Issue(t, soon)
	expired, expiredKey := authority.Issue(t, time.Now().Add(-time.Minute))
	trusted := TLS{CA: string(authority.PEM())}
	with := func(certificate, key []byte) TLS { return TLS{trusted.CA, string(certificate), string(key)} }
	for name, tc := range map[string]struct {
		server   *tls.Config
		tls      TLS
		want     Kind
		wantText string
	}{
		"authority":                    {server: authority.Server(t, soon, nil), tls: trusted},
		"unknown authority":            {server: authority.Server(t, soon, nil), want: Untrusted, wantText: "set spec.certSecretRef to a Secret with the certificate of its authority as ca.crt"},
		"another authority":            {server: authority.Server(t, soon, nil), tls: TLS{CA: string(other.PEM())}, want: Untrusted, wantText: "an authority that is not in ca.crt of the Secret that spec.certSecretRef refers to"},
		"expired server":               {server: authority.Server(t, time.Now().Add(-time.Minute), nil), tls: trusted, want: Untrusted, wantText: "has expired"},
		"client":                       {server: authority.Server(t, soon, authority), tls: with(certificate, key)},
		"client without a certificate": {server: authority.Server(t, soon, authority), tls: trusted, want: Untrusted, wantText: "set spec.certSecretRef to a Secret with tls.crt and tls.key"},
		"client of another authority":  {server: authority.Server(t, soon, authority), tls: with(strange, strangeKey), want: Untrusted, wantText: "check tls.crt and tls.key"},
		"client that has expired":      {server: authority.Server(t, soon, authority), tls: with(expired, expiredKey), want: Untrusted, wantText: "check tls.crt and tls.key"},
		"invalid certificates":         {server: authority.Server(t, soon, nil), tls: TLS{CA: "hunter2"}, want: Untrusted, wantText: "check the Secret that spec.certSecretRef refers to"},
		"invalid client":               {server: authority.Server(t, soon, nil), tls: with([]byte("hunter2"), key), want: Untrusted, wantText: "check the Secret that spec.certSecretRef refers to"},
	} {
		for _, insecure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, insecure %t", name, insecure), func(t *testing.T) {
				t.Parallel()
				server := registrytest.New(t, registrytest.WithTLS(tc.server))
				server.LimitPages(3)
				server.RequireBasic("robot", "hunter2")
				digest := server.Push(t, "acme/web", "1.0.0")
				server.SetTags("acme/web", numbered(10))
				scanner := scannerAt(newClock())
				r := Request{Repository: server.Repository("acme/web"), TLS: tc.tls, Insecure: insecure, Auth: Credential{Username: "robot", Password: "hunter2"}}
				scan, err := scanner.List(t.Context(), r)
				if KindOf(err) != tc.want {
					t.Fatalf("List: %v, want %q", err, tc.want)
				}
				if err != nil {
					if !strings.Contains(err.Error(), tc.wantText) || strings.Contains(err.Error(), "hunter2") {
						t.Errorf("List: %v, want %q", err, tc.wantText)
					}
					return
				}
				if len(scan.Tags) != 10 {
					t.Errorf("%d tags, want 10", len(scan.Tags))
				}
				if image, err := scanner.Resolve(t.Context(), r, "1.0.0"); err != nil || image.Digest != digest {
					t.Errorf("Resolve = %v, %v; want %s", image, err, digest)
				}
			})
		}
	}
}

// TestCertificatesForbidPlainHTTP checks that no request is sent unencrypted if there are certificates, even if HTTP
// would be allowed.
func TestCertificatesForbidPlainHTTP(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(1))
	r := Request{Repository: server.Repository("acme/web"), Insecure: true, TLS: TLS{CA: string(registrytest.NewAuthority(t).PEM())}, Auth: Credential{Username: "robot", Password: "hunter2"}}
	_, err := scannerAt(newClock()).List(t.Context(), r)
	if KindOf(err) != Untrusted || !strings.Contains(err.Error(), "add the registry's HTTPS port to spec.image") {
		t.Errorf("List: %v, want %q and a suggested fix", err, Untrusted)
	}
	if n := server.Total(); n != 0 {
		t.Errorf("%d unencrypted requests, want none", n)
	}
}

// TestResultsAreSeparatedByCertificate checks that a result that was read with one client certificate is not returned to callers with another certificate or
// without one.
func TestResultsAreSeparatedByCertificate(t *testing.T) {
	t.Parallel()
	authority := registrytest.NewAuthority(t)
	soon := time.Now().Add(time.Hour)
	server := registrytest.New(t, registrytest.WithTLS(authority.Server(t, soon, authority)))
	server.Push(t, "acme/web", "1.0.0")
	scanner := scannerAt(newClock())
	certificate, key := authority.Issue(t, soon)
	other, otherKey := authority.Issue(t, soon)
	r := Request{Repository: server.Repository("acme/web"), MaxAge: time.Hour, TLS: TLS{string(authority.PEM()), string(certificate), string(key)}}
	for range 2 {
		if _, err := scanner.List(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Requests(registrytest.List); n != 1 {
		t.Errorf("%d lists for one certificate, want 1", n)
	}
	r.TLS.Certificate, r.TLS.Key = string(other), string(otherKey)
	if _, err := scanner.List(t.Context(), r); err != nil || server.Requests(registrytest.List) != 2 {
		t.Errorf("another certificate: %v after %d lists, want a separate list", err, server.Requests(registrytest.List))
	}
	r.TLS.Certificate, r.TLS.Key = "", ""
	if _, err := scanner.List(t.Context(), r); KindOf(err) != Untrusted {
		t.Errorf("no certificate: %v, want %q", err, Untrusted)
	}
}

func TestTLSIsNotPrinted(t *testing.T) {
	own := TLS{CA: "hunter2", Certificate: "hunter2", Key: "hunter2"}
	r := Request{Repository: "a/b", TLS: own}
	inJSON, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(own), fmt.Sprintf("%+v", own), fmt.Sprintf("%#v", own), fmt.Sprintf("%+v", r), fmt.Sprintf("%#v", &r), string(inJSON)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s contains the certificates", text)
		}
	}
	if diff := cmp.Diff([]string{"default", "custom"}, []string{TLS{}.String(), own.String()}); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

// TestCertificatesNeedATransport checks that certificates with a transport that is not a net/http transport result in
// an error, and never in a request without certificates.
func TestCertificatesNeedATransport(t *testing.T) {
	scanner := New(Options{Outbound: registrytest.Outbound(), Clock: newClock(), Transport: answering(func(*http.Request) (*http.Response, error) {
		t.Error("a request was sent without certificates")
		return nil, http.ErrServerClosed
	})})
	_, err := scanner.List(t.Context(), Request{Repository: "registry.example.com/a/b", TLS: TLS{CA: "x"}})
	if KindOf(err) != Untrusted {
		t.Errorf("List: %v, want %q", err, Untrusted)
	}
}

// answering is a function that implements RoundTripper.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }
