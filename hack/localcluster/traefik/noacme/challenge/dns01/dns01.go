// Package dns01 holds the options of challenges by DNS, and what Traefik uses of its helpers.
package dns01

import (
	"strings"
	"time"
)

// Options of a resolver.
type Options struct{ RecursiveNameservers []string }

// Client of a resolver.
type Client struct{}

// NewClient gives one that asks nothing.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient keeps nothing.
func SetDefaultClient(*Client) {}

// ChallengeOption of a challenge.
type ChallengeOption struct{}

// CondOptions gives an option.
func CondOptions(bool, ...ChallengeOption) ChallengeOption { return ChallengeOption{} }

// DisableAuthoritativeNssPropagationRequirement gives an option.
func DisableAuthoritativeNssPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// DisableRecursiveNSsPropagationRequirement gives an option.
func DisableRecursiveNSsPropagationRequirement() ChallengeOption { return ChallengeOption{} }

// PropagationWait gives an option.
func PropagationWait(time.Duration, bool) ChallengeOption { return ChallengeOption{} }

// UnFqdn is a host name without its final dot.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
