package github

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-github/v57/github"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/certs"
)

// Credential is the credential of a client: a token, a GitHub App, or neither. If it is neither, GitHub allows only 60
// anonymous reads per hour from each IP address.
type Credential struct {
	// Token is a personal access token, fine-grained or classic.
	Token string
	// App authenticates as an installation of a GitHub App.
	App *App
}

// App identifies a GitHub App and the installation to use.
type App struct {
	// ID is the ID of the App.
	ID int64
	// InstallationID is the ID of the installation. If it is 0, the installation of Owner is used.
	InstallationID int64
	// Owner is the organization or user that installed the App.
	Owner string
	// PrivateKey is an RSA key in PEM format.
	PrivateKey []byte
}

// These are the keys in the data of a Secret that contains a credential.
const (
	KeyToken             = "token"
	KeyAppID             = "appID"
	KeyAppInstallationID = "installationID"
	KeyAppPrivateKey     = "privateKey"
)

// ReadCredential reads the data of a Secret. The data must contain either token, or appID and privateKey. If the data contains appID but no
// installationID, the installation of owner is used. Errors are of kind BadConfig and contain the name of the affected key.
func ReadCredential(data map[string][]byte, owner string) (Credential, error) {
	bad := func(detail, remedy string) (Credential, error) {
		return Credential{}, &Error{Kind: BadConfig, Op: "read", Object: "credential", detail: detail, remedy: remedy}
	}
	token := strings.TrimSpace(string(data[KeyToken]))
	id, key := strings.TrimSpace(string(data[KeyAppID])), data[KeyAppPrivateKey]
	switch {
	case token != "" && id != "":
		return bad("it has both a token and a GitHub App", "keep either "+KeyToken+" or "+KeyAppID)
	case token != "":
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return bad("the token contains characters that are not allowed in tokens", "store only the token under the key "+KeyToken)
		}
		return Credential{Token: token}, nil
	case id == "" && len(key) == 0:
		return bad("there is neither a token nor a GitHub App", "add the key "+KeyToken+", or "+KeyAppID+" and "+KeyAppPrivateKey)
	}
	app := &App{Owner: owner, PrivateKey: key}
	var err error
	if app.ID, err = strconv.ParseInt(id, 10, 64); err != nil || app.ID <= 0 {
		return bad("the ID of the GitHub App is not a number", "store the App ID, which the settings page of the App shows, under the key "+KeyAppID)
	}
	if text := strings.TrimSpace(string(data[KeyAppInstallationID])); text != "" {
		if app.InstallationID, err = strconv.ParseInt(text, 10, 64); err != nil || app.InstallationID <= 0 {
			return bad("the ID of the installation is not a number", "correct the key "+KeyAppInstallationID+", or remove it to use the installation of the owner")
		}
	}
	switch _, err := certs.RSAKey(key); {
	case errors.Is(err, certs.ErrTooLarge):
		return bad(fmt.Sprintf("the private key has more than %d bits", certs.MaxBits), "in the Secret, set "+KeyAppPrivateKey+" to the private key that GitHub generated for the App")
	case err != nil:
		return bad("the private key cannot be read", "store the PEM file of an RSA key under the key "+KeyAppPrivateKey)
	}
	return Credential{App: app}, nil
}

// anonymous reports whether requests are sent without a credential.
func (c Credential) anonymous() bool { return c.Token == "" && c.App == nil }

// hash returns a hash that identifies a credential but does not contain it.
func (c Credential) hash() string {
	h := sha256.New()
	if c.App != nil {
		fmt.Fprintf(h, "app %d %d %q %q", c.App.ID, c.App.InstallationID, c.App.Owner, c.App.PrivateKey)
	} else {
		fmt.Fprintf(h, "token %q", c.Token)
	}
	return string(h.Sum(nil))
}

// tokenSource provides the token for a request. An empty token means that no token is sent.
type tokenSource interface {
	token(context.Context) (string, error)
	// refused is called when GitHub no longer accepts a token.
	refused(token string)
}

// static is a token that does not change.
type static string

func (s static) token(context.Context) (string, error) { return string(s), nil }
func (s static) refused(string)                        {}

// authorize adds the credential to requests that have the scheme and host of base, and rejects all other requests. Therefore, no redirect and no
// programming error can cause a token to be sent to another server.
type authorize struct {
	next   http.RoundTripper
	base   *url.URL
	source tokenSource
}

func (a *authorize) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != a.base.Scheme || r.URL.Host != a.base.Host {
		closeBody(r)
		return nil, errForeign
	}
	token, err := a.source.token(r.Context())
	if err != nil {
		closeBody(r)
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := a.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		a.source.refused(token)
	}
	return response, err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// These durations apply to the tokens of GitHub Apps. GitHub requires a token that an App signs to expire within ten minutes. Signed
// tokens are backdated, because clocks differ.
const (
	signatureAge  = 9 * time.Minute
	signatureSkew = time.Minute
	renewBefore   = 5 * time.Minute
)

// signer provides the signed tokens with which a GitHub App authenticates itself.
type signer struct {
	id    int64
	key   *rsa.PrivateKey
	clock clock.PassiveClock
}

func (s *signer) token(context.Context) (string, error) {
	now := s.clock.Now()
	return jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer:    strconv.FormatInt(s.id, 10),
		IssuedAt:  jwt.NewNumericDate(now.Add(-signatureSkew)),
		ExpiresAt: jwt.NewNumericDate(now.Add(signatureAge)),
	}).SignedString(s.key)
}

func (s *signer) refused(string) {}

// installation provides the tokens of a GitHub App installation. It uses each token until shortly before its expiry.
type installation struct {
	app   App
	apps  *github.Client // authenticates as the App
	clock clock.PassiveClock

	mu      sync.Mutex
	id      int64
	current string
	expires time.Time
}

func (i *installation) token(ctx context.Context) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current != "" && i.clock.Now().Before(i.expires.Add(-renewBefore)) {
		return i.current, nil
	}
	if i.id == 0 {
		id, err := i.find(ctx)
		if err != nil {
			return "", err
		}
		i.id = id
	}
	token, _, err := i.apps.Apps.CreateInstallationToken(ctx, i.id, &github.InstallationTokenOptions{})
	if err != nil {
		e := classify(call{op: "sign in to", object: i.object(), app: true}, err)
		if e.Kind == NotFound {
			i.id = i.app.InstallationID // The App may have been installed again. If no ID is configured, the next call requests the new ID.
		}
		return "", e
	}
	if token.GetToken() == "" {
		return "", classify(call{op: "sign in to", object: i.object(), app: true}, errUnusable)
	}
	i.current, i.expires = token.GetToken(), token.GetExpiresAt().Time
	return i.current, nil
}

// find returns the ID of the installation. If no ID is configured, find asks GitHub for the installation of the owner, an organization or a user.
func (i *installation) find(ctx context.Context) (int64, error) {
	if i.app.InstallationID != 0 {
		return i.app.InstallationID, nil
	}
	found, _, err := i.apps.Apps.FindOrganizationInstallation(ctx, i.app.Owner)
	if e := (*github.ErrorResponse)(nil); errors.As(err, &e) && e.Response.StatusCode == http.StatusNotFound {
		found, _, err = i.apps.Apps.FindUserInstallation(ctx, i.app.Owner)
	}
	if err == nil && found.GetID() == 0 {
		err = errUnusable
	}
	if err != nil {
		return 0, classify(call{op: "find installation of", object: i.object(), app: true}, err)
	}
	return found.GetID(), nil
}

func (i *installation) object() string {
	if i.app.InstallationID != 0 {
		return fmt.Sprintf("GitHub App %d, installation %d", i.app.ID, i.app.InstallationID)
	}
	return fmt.Sprintf("GitHub App %d for %s", i.app.ID, i.app.Owner)
}

// refused drops a revoked token before its expiry.
func (i *installation) refused(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current == token {
		i.current = ""
	}
}
