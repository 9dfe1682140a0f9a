// Package dns01 contains the options of DNS challenges, and the helpers that Traefik uses.
package dns01

import (
	"strings"
	"time"
)

// Options are the options of a resolver.
type Options struct{ RecursiveNameservers []string }

// Client is a stub.
type Client struct{}

// NewClient returns a stub.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient does nothing.
func SetDefaultClient(*Client) {}

// ChallengeOption is an option of a challenge.
type ChallengeOption struct{}

// CondOptions returns an empty option.
func CondOptions(bool, ...ChallengeOption) ChallengeOption { return ChallengeOption{} }

// DisableAuthoritativeNssPropagationRequirement returns an empty option.
func DisableAuthoritativeNssPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// DisableRecursiveNSsPropagationRequirement returns an empty option.
func DisableRecursiveNSsPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// PropagationWait returns an empty option.
func PropagationWait(time.Duration, bool) ChallengeOption { return ChallengeOption{} }

// UnFqdn returns a host name without its final dot.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
