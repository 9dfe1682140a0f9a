// Package registration holds what an account is registered with.
package registration

import (
	"context"

	"github.com/go-acme/lego/v5/acme"
)

// RegisterOptions of an account.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions of an account that an authority knows already.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}

// Registrar registers nothing.
type Registrar struct{}

// Register fails with [acme.ErrNotBuilt].
func (*Registrar) Register(context.Context, RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrNotBuilt
}

// RegisterWithExternalAccountBinding fails with [acme.ErrNotBuilt].
func (*Registrar) RegisterWithExternalAccountBinding(context.Context, RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrNotBuilt
}
