package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/web"
)

// These are the limits on logins.
const (
	// loginAge is how long a login may take.
	loginAge = 10 * time.Minute
	// maxLogins is the maximum number of logins in progress in one browser, for example in several tabs.
	maxLogins = 8
	// exchangeTimeout limits the duration of requests to the provider.
	exchangeTimeout = 15 * time.Second
	// discoveryPause is the minimum time between discovery requests to a provider that does not respond.
	discoveryPause = 2 * time.Second
)

// These are the paths for logins and logouts.
const (
	loginPath    = "/login"
	callbackPath = "/login/callback"
	logoutPath   = "/logout"
)

// OIDCOptions configure an identity provider with OpenID Connect.
type OIDCOptions struct {
	Claims
	// Issuer is the URL of the provider. ClientID identifies the board to the provider. ClientSecret is empty for a public client.
	Issuer, ClientID, ClientSecret string
	// Scopes are requested in addition to openid.
	Scopes []string
	// URL is the URL at which readers open the board, without a path, such as https://board.example.com. The provider redirects users to
	// /login/callback at this URL.
	URL string
	// Key is the session key, with [KeyLength] bytes. If it is nil, a random key is used.
	Key []byte
	// Length is the maximum duration of a session. A session also ends when the provider's token expires.
	Length time.Duration
	// Client sends the requests to the provider.
	Client *http.Client
	// Clock is the only source of time.
	Clock clock.Clock
}

// OIDC logs readers in with an identity provider.
type OIDC struct {
	OIDCOptions
	sealer *sealer
	ended  ended

	mu       sync.Mutex
	provider *oidc.Provider
	failure  error
	failed   time.Time
}

// login is a login in progress. Each login is stored in its own cookie.
type login struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Return   string    `json:"r"`
	Expires  time.Time `json:"e"`
}

// NewOIDC returns an OIDC for a provider. No request is sent to the provider before the first login.
func NewOIDC(o OIDCOptions) (*OIDC, error) {
	for name, value := range map[string]string{"URL": o.URL, "issuer": o.Issuer} {
		if u, err := url.Parse(value); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("the %s %q is not a URL that begins with https://", name, value)
		}
	}
	if o.ClientID == "" || o.User == "" || o.Length <= 0 {
		return nil, errors.New("client ID, user name claim, and session length are required")
	}
	s, err := newSealer(o.Key)
	if err != nil {
		return nil, err
	}
	return &OIDC{OIDCOptions: o, sealer: s}, nil
}

// Login returns the path at which readers log in.
func (*OIDC) Login() string { return loginPath }

// Reader returns the reader of a request with a session.
func (o *OIDC) Reader(r *http.Request) (web.Reader, error) {
	s, err := o.session(r)
	if err != nil {
		return web.Reader{}, err
	}
	return web.Reader{User: s.User, Groups: s.Groups, Until: s.Expires}, nil
}

func (o *OIDC) session(r *http.Request) (session, error) {
	var s session
	c, err := r.Cookie(sessionCookie)
	if err != nil || o.sealer.open(sessionCookie, c.Value, &s) != nil || !s.Expires.After(o.Clock.Now()) || o.ended.has(s.ID) {
		p := unknown("Your session has ended, or there was none. Nothing was changed.")
		p.Link, p.LinkText = loginPath, "Log in"
		return session{}, p
	}
	return s, nil
}

// Serve responds to requests for logins and logouts. After a failed login, the user can try again.
func (o *OIDC) Serve(w http.ResponseWriter, r *http.Request) error {
	var err error
	switch r.URL.Path {
	case loginPath:
		err = o.begin(w, r)
	case callbackPath:
		err = o.finish(w, r)
	case logoutPath:
		err = o.logout(w, r)
	default:
		return &web.Problem{Status: http.StatusNotFound, Title: "There is no such page", Text: "The board lists all services."}
	}
	var p *web.Problem
	if errors.As(err, &p) && p.Link == "" {
		p.Link, p.LinkText = loginPath, "Log in again"
	}
	return err
}

// config returns the configuration of the provider. It reads the endpoints only once.
func (o *OIDC) config(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.Clock.Now()
	if o.provider == nil {
		if o.failure == nil || now.Sub(o.failed) >= discoveryPause {
			o.provider, o.failure = oidc.NewProvider(ctx, o.Issuer)
			o.failed = now
		}
		if o.failure != nil {
			return nil, nil, o.away(o.failure)
		}
	}
	return &oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: o.provider.Endpoint(),
		RedirectURL: strings.TrimSuffix(o.URL, "/") + callbackPath, Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
	}, o.provider, nil
}

// away returns the problem for a provider that is not responding.
func (o *OIDC) away(err error) *web.Problem {
	return &web.Problem{Status: http.StatusServiceUnavailable, Title: "The identity provider is not responding", Text: fmt.Sprintf("%s: %v. This page reloads automatically.", o.Issuer, err)}
}

// context returns a context for requests to the provider.
func (o *OIDC) context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(oidc.ClientContext(ctx, o.Client), exchangeTimeout)
}

// begin redirects a user to the provider.
func (o *OIDC) begin(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return &web.Problem{Status: http.StatusMethodNotAllowed, Title: "This page accepts only GET requests", Text: "Open it from a link."}
	}
	ctx, cancel := o.context(r.Context())
	defer cancel()
	config, _, err := o.config(ctx)
	if err != nil {
		return err
	}
	l := login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: local(r.URL.Query().Get("return")), Expires: o.Clock.Now().Add(loginAge)}
	name := loginCookie + l.State[:8]
	value, err := o.sealer.seal(name, l)
	if err != nil {
		return err
	}
	o.clear(w, r, maxLogins-1)
	http.SetCookie(w, cookie(name, value, int(loginAge.Seconds())))
	http.Redirect(w, r, config.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)), http.StatusSeeOther)
	return nil
}

// clear removes all logins in progress in a browser if there are more than limit.
func (o *OIDC) clear(w http.ResponseWriter, r *http.Request, limit int) {
	var found []string
	for _, c := range r.Cookies() {
		if strings.HasPrefix(c.Name, loginCookie) {
			found = append(found, c.Name)
		}
	}
	if len(found) <= limit {
		return
	}
	for _, name := range found {
		http.SetCookie(w, cookie(name, "", -1))
	}
}

// local returns target if it is the path of a page of this board, and "/" otherwise.
func local(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\\r\n\t") ||
		u.Path == logoutPath || u.Path == loginPath || strings.HasPrefix(u.Path, loginPath+"/") || len(target) > 1000 {
		return "/"
	}
	return target
}

// finish handles a user who returns from the provider.
func (o *OIDC) finish(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	l, err := o.inProgress(r, q.Get("state"))
	if err != nil {
		return err
	}
	s, err := o.answered(r.Context(), l, q)
	var p *web.Problem
	if errors.As(err, &p) && p.Status == http.StatusServiceUnavailable {
		return err // The page retries with the same login.
	}
	http.SetCookie(w, cookie(loginCookie+l.State[:8], "", -1)) // This removes the cookie of the login, so that the login is not used again.
	if err != nil {
		return err
	}
	value, err := o.sealer.seal(sessionCookie, s)
	if err != nil {
		return err
	}
	if len(value) > maxCookie {
		return refused("You are in %d groups, too many for a cookie. Ask an administrator of the board to limit the groups with --groups.", len(s.Groups))
	}
	http.SetCookie(w, cookie(sessionCookie, value, int(s.Expires.Sub(o.Clock.Now()).Seconds())))
	http.Redirect(w, r, l.Return, http.StatusSeeOther)
	return nil
}

// answered returns the session that results from the provider's response to a login.
func (o *OIDC) answered(ctx context.Context, l login, q url.Values) (session, error) {
	if code := q.Get("error"); code != "" {
		return session{}, refused("The identity provider rejected the login: %s.", cmp.Or(q.Get("error_description"), code))
	}
	if iss := q.Get("iss"); iss != "" && iss != o.Issuer { // RFC 9207
		return session{}, refused("The response comes from another identity provider, %q.", short(iss))
	}
	ctx, cancel := o.context(ctx)
	defer cancel()
	return o.exchange(ctx, l, q.Get("code"))
}

// inProgress returns the login in progress that has the given state.
func (o *OIDC) inProgress(r *http.Request, state string) (login, error) {
	var l login
	failed := &web.Problem{Status: http.StatusForbidden, Title: "This login cannot be completed", Text: "It was not started in this browser, took longer than 10 minutes, or has already been completed."}
	if len(state) < 8 {
		return l, failed
	}
	name := loginCookie + state[:8]
	c, err := r.Cookie(name)
	if err != nil || o.sealer.open(name, c.Value, &l) != nil || subtle.ConstantTimeCompare([]byte(l.State), []byte(state)) != 1 || !l.Expires.After(o.Clock.Now()) {
		return l, failed
	}
	return l, nil
}

// exchange exchanges the authorization code of a login for a session.
func (o *OIDC) exchange(ctx context.Context, l login, code string) (session, error) {
	config, provider, err := o.config(ctx)
	if err != nil {
		return session{}, err
	}
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(l.Verifier))
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer) && answer.Response.StatusCode < http.StatusInternalServerError:
		return session{}, refused("The identity provider rejected the authorization code: %s.", cmp.Or(answer.ErrorDescription, answer.ErrorCode, answer.Response.Status))
	case err != nil:
		return session{}, o.away(err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return session{}, badToken("the provider returned no ID token")
	}
	now := o.Clock.Now()
	id, err := provider.Verifier(&oidc.Config{ClientID: o.ClientID, Now: func() time.Time { return now }}).Verify(ctx, raw)
	if err != nil {
		return session{}, badToken("%v", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(l.Nonce)) != 1 {
		return session{}, badToken("the token belongs to another login")
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return session{}, badToken("%v", err)
	}
	reader, err := o.Claims.reader(claims)
	if err != nil {
		return session{}, err
	}
	expires := now.Add(o.Length)
	if id.Expiry.Before(expires) {
		expires = id.Expiry
	}
	return session{ID: rand.Text(), User: reader.User, Groups: reader.Groups, Expires: expires}, nil
}

// logout ends the session of the reader.
func (o *OIDC) logout(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	if s, err := o.session(r); err == nil {
		o.ended.add(s, o.Clock.Now())
	}
	http.SetCookie(w, cookie(sessionCookie, "", -1))
	return &web.Problem{Status: http.StatusOK, Title: "You are logged out", Text: "Your session at the identity provider may still be active.", Link: loginPath, LinkText: "Log in again"}
}
