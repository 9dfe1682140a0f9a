// Package registration contains the parameters of registrations.
package registration

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
)

// RegisterOptions are the options for an account.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions are the options for an account that an authority already knows.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}

// Registrar is a stub.
type Registrar struct{}

// Register fails with [acme.ErrNotBuilt].
func (*Registrar) Register(context.Context, RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrNotBuilt
}

// RegisterWithExternalAccountBinding fails with [acme.ErrNotBuilt].
func (*Registrar) RegisterWithExternalAccountBinding(context.Context, RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrNotBuilt
}
