// Package identitytest provides a small OpenID provider for tests. It supports discovery, a key set, the authorization code flow with PKCE, and ID
// tokens signed with RS256. It rejects requests that the protocol forbids. It is tested with the oidc package of go-oidc, which the product also
// uses. The end-to-end tests of hack/boardtest use a real provider.
package identitytest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// These are the credentials of the client that is registered with the provider.
const (
	ClientID     = "board"
	ClientSecret = "a secret of the board"
)

// Provider is an OpenID provider.
type Provider struct {
	// Server is the HTTP server, with a self-signed certificate.
	*httptest.Server

	mu       sync.Mutex
	key      *rsa.PrivateKey
	kid      string
	claims   map[string]any
	down     bool
	refuse   string
	redirect string
	codes    map[string]grant
	logins   int
}

// grant is an issued authorization code.
type grant struct {
	challenge, nonce string
	claims           map[string]any
}

// New starts a provider that redirects only to the given address.
func New(t testing.TB, redirect string) *Provider {
	t.Helper()
	p := &Provider{redirect: redirect, codes: map[string]grant{}}
	p.Rotate(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Rotate replaces the provider's signing key.
func (p *Provider) Rotate(t testing.TB) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
}

// Person sets the claims of the user for all subsequent logins. They override the claims that the provider sets by default.
func (p *Provider) Person(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// Down makes requests fail if down is true, and succeed again if it is false.
func (p *Provider) Down(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// Refuse makes logins fail with the given error code. If the code is empty, logins succeed.
func (p *Provider) Refuse(code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = code
}

// Logins returns the number of issued tokens.
func (p *Provider) Logins() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logins
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		"code_challenge_methods_supported": []string{"S256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	encode := base64.RawURLEncoding.EncodeToString
	answer(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": p.kid, "n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// authorize logs the user in without a prompt.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, ok := range map[string]bool{
		"client_id": q.Get("client_id") == ClientID, "redirect_uri": q.Get("redirect_uri") == p.redirect, "response_type": q.Get("response_type") == "code",
		"scope": slices.Contains(strings.Fields(q.Get("scope")), "openid"), "state": q.Get("state") != "", "nonce": q.Get("nonce") != "",
		"code_challenge": len(q.Get("code_challenge")) == 43, "code_challenge_method": q.Get("code_challenge_method") == "S256",
	} {
		if !ok {
			http.Error(w, "wrong "+name, http.StatusBadRequest)
			return
		}
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	if p.refuse != "" {
		back.Set("error", p.refuse)
	} else {
		code := rand.Text()
		p.codes[code] = grant{q.Get("code_challenge"), q.Get("nonce"), maps.Clone(p.claims)}
		back.Set("code", code)
	}
	http.Redirect(w, r, p.redirect+"?"+back.Encode(), http.StatusFound)
}

// token exchanges an authorization code. Each code is valid only once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else if text, err := url.QueryUnescape(secret); err == nil {
		secret = text
	}
	code := r.PostFormValue("code")
	g, known := p.codes[code]
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != ClientID || secret != ClientSecret:
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	case !known || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != p.redirect || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge:
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	delete(p.codes, code)
	now := time.Now()
	claims := jwt.MapClaims{"iss": p.URL, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "nonce": g.nonce}
	maps.Copy(claims, g.claims)
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	token.Header["kid"] = p.kid
	signed, err := token.SignedString(p.key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.logins++
	answer(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "id_token": signed})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // An error means that the client disconnected.
}
