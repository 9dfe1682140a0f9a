// Package http01 holds the options of challenges by HTTP.
package http01

import "time"

// PathPrefix of the answers, of RFC 8555, section 8.3. It ends in a slash.
const PathPrefix = "/.well-known/acme-challenge/"

// ChallengeOption of a challenge.
type ChallengeOption struct{}

// SetDelay gives an option.
func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }
