package registry

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/certs"
)

// TLS contains certificates in PEM format for a registry that uses a private CA or requires a client certificate. The zero value is for registries with
// publicly trusted certificates. TLS is comparable. It prints as "default" or "custom", never with its content.
//
// With TLS material, only HTTPS is used, regardless of Request.Insecure and of the address, because a fallback to plain HTTP would defeat the purpose
// of the certificates.
type TLS struct {
	// CA contains certificates that are trusted in addition to the system's certificates, so that token servers and
	// storage with publicly trusted certificates remain reachable.
	CA string
	// Certificate is the certificate of the client, with its chain, and Key is its key. Set both or neither. The certificate is sent to every host
	// that requests one.
	Certificate, Key string
}

// Default reports whether there are no custom certificates.
func (t TLS) Default() bool { return t == TLS{} }

// String returns a string that does not contain the key.
func (t TLS) String() string {
	if t.Default() {
		return "default"
	}
	return "custom"
}

// GoString returns a string that does not contain the key.
func (t TLS) GoString() string { return t.String() }

// MarshalJSON returns JSON that does not contain the key.
func (t TLS) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// These are the types of Secrets that ParseTLS supports, in addition to an empty type, and the keys of such Secrets.
const (
	TypeTLS    = "kubernetes.io/tls"
	TypeOpaque = "Opaque"

	keyCA          = "ca.crt"
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
)

// maxPEM is the maximum size, in bytes, of the value of one key in a TLS Secret.
const maxPEM = 512 << 10

// ParseTLS reads a Secret with ca.crt, with tls.crt and tls.key, or with all three. now is the time at which the client
// certificate, and at least one certificate in ca.crt, must be valid. The error contains the name of the Secret, the key and
// the remedy, but no content.
func ParseTLS(s Secret, now time.Time) (TLS, error) {
	if s.Type != TypeTLS && s.Type != TypeOpaque && s.Type != "" {
		return TLS{}, fmt.Errorf("Secret %q has type %q: use %s or %s", s.Name, s.Type, TypeTLS, TypeOpaque)
	}
	t := TLS{CA: string(s.Data[keyCA]), Certificate: string(s.Data[keyCertificate]), Key: string(s.Data[keyPrivate])}
	if t.Default() {
		return TLS{}, fmt.Errorf("Secret %q has no certificates: set %s, or %s and %s, or all three", s.Name, keyCA, keyCertificate, keyPrivate)
	}
	for key, value := range s.Data {
		if len(value) > maxPEM {
			return TLS{}, fmt.Errorf("Secret %q: key %q is larger than %d bytes: remove unneeded certificates", s.Name, key, maxPEM)
		}
	}
	if err := t.checkCA(now); err != nil {
		return TLS{}, fmt.Errorf("Secret %q: %w", s.Name, err)
	}
	if err := t.checkClient(now); err != nil {
		return TLS{}, fmt.Errorf("Secret %q: %w", s.Name, err)
	}
	return t, nil
}

func (t TLS) checkCA(now time.Time) error {
	if t.CA == "" {
		return nil
	}
	authorities, err := certificates(keyCA, t.CA)
	if err != nil {
		return err
	}
	for _, a := range authorities {
		if err = checkTime(keyCA, a, now); err == nil {
			return nil
		}
	}
	return err
}

func (t TLS) checkClient(now time.Time) error {
	switch {
	case t.Certificate == "" && t.Key == "":
		return nil
	case t.Certificate == "":
		return fmt.Errorf("key %q is set without %q: set both", keyPrivate, keyCertificate)
	case t.Key == "":
		return fmt.Errorf("key %q is set without %q: set both", keyCertificate, keyPrivate)
	}
	chain, err := certificates(keyCertificate, t.Certificate)
	if err != nil {
		return err
	}
	if err := checkPrivateKey(t.Key); err != nil {
		return err
	}
	switch _, err := certs.Pair([]byte(t.Certificate), []byte(t.Key)); {
	case errors.Is(err, certs.ErrTooLarge):
		return fmt.Errorf("key %q: %w", keyPrivate, err)
	case err != nil:
		return fmt.Errorf("key %q is not the private key of the first certificate in %q: store the client's certificate first", keyPrivate, keyCertificate)
	}
	return checkTime(keyCertificate, chain[0], now)
}

// certificates parses the certificates under a key. There must be at least one.
func certificates(key, text string) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			if key == keyCA {
				return nil, fmt.Errorf("key %q contains a private key: remove it, because only CA certificates are needed", key)
			}
			continue
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("key %q contains a block of type %q: store only certificates under this key", key, clip(block.Type))
		}
		c, err := certs.Parse(block.Bytes)
		switch {
		case errors.Is(err, certs.ErrTooLarge):
			return nil, fmt.Errorf("key %q: certificate %d: %w", key, len(found)+1, err)
		case err != nil:
			return nil, fmt.Errorf("key %q: certificate %d cannot be read: replace it", key, len(found)+1)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("key %q contains no certificate in PEM format: a certificate begins with -----BEGIN CERTIFICATE-----", key)
	}
	return found, nil
}

func checkTime(key string, c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("key %q: the certificate expired at %s: renew it", key, c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("key %q: the certificate is not valid before %s: check it, and the clock of the node", key, c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

func checkPrivateKey(text string) error {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return fmt.Errorf("key %q has no private key in PEM format, which begins with -----BEGIN PRIVATE KEY-----, -----BEGIN EC PRIVATE KEY----- or -----BEGIN RSA PRIVATE KEY-----", keyPrivate)
		}
		if strings.Contains(block.Type, "ENCRYPTED") || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return fmt.Errorf("key %q is encrypted with a passphrase: store it without a passphrase, because the Secret protects it", keyPrivate)
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return nil
		}
	}
}

// errTransport reports that the transport is not a net/http transport. Certificates require one.
var errTransport = errors.New("the transport does not support certificates")

// over returns a copy of base that uses the certificates.
func (t TLS) over(base http.RoundTripper) (http.RoundTripper, error) {
	if t.Default() {
		return base, nil
	}
	like, ok := base.(*http.Transport)
	if !ok {
		return nil, errTransport
	}
	own := like.Clone() // Clone also copies the TLS configuration.
	if own.TLSClientConfig == nil {
		own.TLSClientConfig = &tls.Config{}
	}
	config := own.TLSClientConfig
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if t.CA != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if config.RootCAs, err = certs.Pool(pool, []byte(t.CA)); err != nil {
			return nil, fmt.Errorf("read %s: %w", keyCA, err)
		}
	}
	if t.Certificate != "" || t.Key != "" {
		pair, err := certs.Pair([]byte(t.Certificate), []byte(t.Key))
		if err != nil {
			return nil, fmt.Errorf("read %s and %s: %w", keyCertificate, keyPrivate, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return encrypted{own}, nil
}

// errPlain is the error for a plain HTTP request when certificates are configured.
var errPlain = errors.New("plain HTTP cannot be combined with certificates")

// encrypted is a transport that rejects plain HTTP.
type encrypted struct{ *http.Transport }

// RoundTrip sends a request, and rejects plain HTTP.
func (e encrypted) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, errPlain
	}
	return e.Transport.RoundTrip(req)
}
