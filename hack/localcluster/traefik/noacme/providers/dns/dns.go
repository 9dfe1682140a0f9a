// Package dns replaces the DNS providers, which this build does not contain.
package dns

import (
	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/challenge"
)

// NewDNSChallengeProviderByName fails with [acme.ErrNotBuilt].
func NewDNSChallengeProviderByName(string) (challenge.Provider, error) { return nil, acme.ErrNotBuilt }
