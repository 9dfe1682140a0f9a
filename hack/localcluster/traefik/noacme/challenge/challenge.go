// Package challenge contains the interface of challenge providers.
package challenge

import "context"

// Provider responds to challenges.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}
