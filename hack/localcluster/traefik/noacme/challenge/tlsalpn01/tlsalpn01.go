// Package tlsalpn01 contains the options of TLS challenges.
package tlsalpn01

import (
	"time"

	"github.com/go-acme/lego/v5/acme"
)

// ACMETLS1Protocol is the protocol from RFC 8737.
const ACMETLS1Protocol = "acme-tls/1"

// ChallengeOption is an option of a challenge.
type ChallengeOption struct{}

// SetDelay returns an empty option.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }

// ChallengeBlocks fails with [acme.ErrNotBuilt].
func ChallengeBlocks(string, string) (certificate, key []byte, err error) {
	return nil, nil, acme.ErrNotBuilt
}
