// Package lego replaces the ACME client, which this build does not contain.
package lego

import (
	"crypto/x509"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

// DirectoryURLLetsEncrypt is empty, because this build contacts no certificate authority.
const DirectoryURLLetsEncrypt = ""

// Config configures a client.
type Config struct {
	CADirURL, UserAgent string
	HTTPClient          *http.Client
	Certificate         struct{ Timeout time.Duration }
}

// NewConfig returns a configuration for an account.
func NewConfig(any) *Config { return &Config{} }

// Client is a stub.
type Client struct {
	Certificate  *certificate.Certifier
	Challenge    *Challenges
	Registration *registration.Registrar
}

// NewClient fails with [acme.ErrNotBuilt].
func NewClient(*Config) (*Client, error) { return nil, acme.ErrNotBuilt }

// CreateCertPool fails with [acme.ErrNotBuilt].
func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, acme.ErrNotBuilt }

// Challenges is a stub.
type Challenges struct{}

// SetDNS01Provider fails with [acme.ErrNotBuilt].
func (*Challenges) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return acme.ErrNotBuilt
}

// SetHTTP01Provider fails with [acme.ErrNotBuilt].
func (*Challenges) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return acme.ErrNotBuilt
}

// SetTLSALPN01Provider fails with [acme.ErrNotBuilt].
func (*Challenges) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return acme.ErrNotBuilt
}
