// Package certificate contains the parameters of certificate requests.
package certificate

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
)

// Resource is a certificate with its key.
type Resource struct {
	ID                      string
	Domains                 []string
	PrivateKey, Certificate []byte
}

// ObtainRequest is a request for a certificate.
type ObtainRequest struct {
	Domains                 []string
	Bundle                  bool
	EmailAddresses          []string
	Profile, PreferredChain string
	EnableCommonName        bool
	KeyType                 certcrypto.KeyType
}

// RenewOptions are the options of a renewal.
type RenewOptions struct {
	Bundle                  bool
	EmailAddresses          []string
	Profile, PreferredChain string
	EnableCommonName        bool
}

// Certifier is a stub.
type Certifier struct{}

// Obtain fails with [acme.ErrNotBuilt].
func (*Certifier) Obtain(context.Context, ObtainRequest) (*Resource, error) {
	return nil, acme.ErrNotBuilt
}

// Renew fails with [acme.ErrNotBuilt].
func (*Certifier) Renew(context.Context, Resource, *RenewOptions) (*Resource, error) {
	return nil, acme.ErrNotBuilt
}
