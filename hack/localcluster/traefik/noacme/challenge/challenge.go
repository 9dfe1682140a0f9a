// Package challenge names what answers a challenge of an authority.
package challenge

import "context"

// Provider answers challenges.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}
