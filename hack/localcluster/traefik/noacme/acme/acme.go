// Package acme stands where Traefik expects the types of an ACME account. The gateway of the local cluster asks no authority
// for certificates, and the library that would do so brings modules of some two hundred DNS providers.
package acme

import "errors"

// ErrNotBuilt is what every operation of this module answers.
var ErrNotBuilt = errors.New("this build of Traefik has no ACME client: give certificates by Secret")

// Account at an authority.
type Account struct{}

// ExtendedAccount is an account and its address.
type ExtendedAccount struct {
	Account

	Location string
}
