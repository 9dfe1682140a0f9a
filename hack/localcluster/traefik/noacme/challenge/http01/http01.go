// Package http01 contains the options of HTTP challenges.
package http01

import "time"

// PathPrefix is the path prefix of responses, as in RFC 8555, section 8.3. It ends with a slash.
const PathPrefix = "/.well-known/acme-challenge/"

// ChallengeOption is an option of a challenge.
type ChallengeOption struct{}

// SetDelay returns an empty option.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }
