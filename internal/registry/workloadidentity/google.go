package workloadidentity

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/heighliner/heighliner/internal/registry"
)

// googleHost matches the host of a repository of Artifact Registry ("europe-west1-docker.pkg.dev"), or a host of Container Registry that Artifact
// Registry serves ("gcr.io", "eu.gcr.io").
var googleHost = regexp.MustCompile(`^(?:[a-z0-9-]{1,40}-docker\.pkg\.dev|(?:(?:us|eu|asia)\.)?gcr\.io)$`)

// scopeOfTokens is the OAuth scope that Artifact Registry requires. IAM determines which repositories can be read.
const scopeOfTokens = "https://www.googleapis.com/auth/cloud-platform"

// googleCloud provides access tokens. Application Default Credentials define the identity: the metadata server of
// GKE, or the workload identity federation file to which GOOGLE_APPLICATION_CREDENTIALS refers.
type googleCloud struct {
	services *http.Client
	mu       sync.Mutex
	found    *google.Credentials
}

func newGoogle(services *http.Client) *googleCloud { return &googleCloud{services: services} }

// scope returns the cloud, because a token is valid for all of the cloud's registries.
func (*googleCloud) scope(host string) string {
	if googleHost.MatchString(host) {
		return Google
	}
	return ""
}

// credential returns an access token with the user name oauth2accesstoken, which Artifact Registry documents for tokens.
func (g *googleCloud) credential(ctx context.Context, _ string) (registry.Credential, time.Time, error) {
	credentials, err := g.find(ctx)
	if err != nil {
		return registry.Credential{}, time.Time{}, &Error{Service: "Google Cloud", Detail: "cannot be called: the environment of the manager does not define a valid identity", cause: err}
	}
	type result struct {
		token *oauth2.Token
		err   error
	}
	done := make(chan result, 1)
	go func() { // The library accepts no context here, but its HTTP client has a timeout.
		token, err := credentials.TokenSource.Token()
		done <- result{token, err}
	}()
	select {
	case <-ctx.Done():
		return registry.Credential{}, time.Time{}, failed("Google Cloud", ctx.Err())
	case r := <-done:
		switch {
		case r.err != nil:
			return registry.Credential{}, time.Time{}, failed("Google Cloud", r.err)
		case r.token.AccessToken == "" || r.token.Expiry.IsZero():
			return registry.Credential{}, time.Time{}, failed("Google Cloud", errors.New("no token in the response"))
		}
		return registry.Credential{Username: "oauth2accesstoken", Password: r.token.AccessToken}, r.token.Expiry, nil
	}
}

// find reads the environment and caches the identity that it describes.
func (g *googleCloud) find(ctx context.Context) (*google.Credentials, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found != nil {
		return g.found, nil
	}
	// The token source keeps the context, so the context must outlive this request.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, g.services)
	found, err := google.FindDefaultCredentialsWithParams(ctx, google.CredentialsParams{Scopes: []string{scopeOfTokens}, EarlyTokenRefresh: renewBefore})
	if err != nil {
		return nil, err
	}
	g.found = found
	return found, nil
}
