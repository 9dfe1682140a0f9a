// Package http01 has the options of HTTP challenges.
package http01

import "time"

// PathPrefix is the path of responses in RFC 8555, section 8.3. It ends in a
// slash.
const PathPrefix = "/.well-known/acme-challenge/"

// ChallengeOption is an option of a challenge.
type ChallengeOption struct{}

// SetDelay returns an empty option.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }
