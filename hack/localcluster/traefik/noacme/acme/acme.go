// Package acme replaces the types of an ACME account that Traefik expects. The gateway of the local cluster
// does not request certificates from an authority, and the original library requires the modules of about two
// hundred DNS providers.
package acme

import "errors"

// ErrNotBuilt is the error that all operations of this module return.
var ErrNotBuilt = errors.New("this build of Traefik has no ACME client: provide certificates in Secrets")

// Account is an account with an authority.
type Account struct{}

// ExtendedAccount is an account and its address.
type ExtendedAccount struct {
	Account

	Location string
}
