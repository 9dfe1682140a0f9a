package identity

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/internal/web"
	"github.com/heighliner/heighliner/internal/web/identity/identitytest"
)

// all allows all readers to see everything.
type all struct{}

func (all) Scope(context.Context, web.Reader, []string) (web.Scope, error) { return web.Scope{}, nil }

// site is a board with its provider, and the browser of a user.
type site struct {
	testing.TB
	provider *identitytest.Provider
	board    *httptest.Server
	oidc     *OIDC
	clock    *clocktesting.FakeClock
	browser  *http.Client
}

// open starts a board that identifies its readers with a provider.
func open(t *testing.T, change func(*OIDCOptions)) *site {
	t.Helper()
	s := &site{TB: t, board: httptest.NewUnstartedServer(nil), clock: clocktesting.NewFakeClock(time.Now())}
	address := s.board.Listener.Addr().String()
	s.provider = identitytest.New(t, "https://"+address+"/login/callback")
	s.provider.Person(map[string]any{"sub": "ana", "groups": []string{"team", "ops"}})
	o := OIDCOptions{
		Claims: Claims{Rules: Rules{UserPrefix: "oidc:"}, User: "sub", Groups: "groups"}, Issuer: s.provider.URL, ClientID: identitytest.ClientID, ClientSecret: identitytest.ClientSecret,
		URL: "https://" + address, Length: 30 * time.Minute, Client: s.provider.Client(), Clock: s.clock,
	}
	if change != nil {
		change(&o)
	}
	var err error
	if s.oidc, err = NewOIDC(o); err != nil {
		t.Fatal(err)
	}
	story := viewtest.Stories()[0]
	handler, err := web.New(web.Options{Store: cluster.NewStore(cluster.Objects{Input: story.Input}), Identity: s.oidc, Access: all{}, Secure: true, Hosts: []string{address}, Title: "test", Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	s.board.Config.Handler = handler
	s.board.StartTLS()
	t.Cleanup(s.board.Close)
	s.browser = s.person()
	return s
}

// person returns a browser that trusts both servers.
func (s *site) person() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.board.Certificate())
	pool.AddCert(s.provider.Certificate())
	transport := s.board.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = pool
	return &http.Client{Jar: jar, Transport: transport, Timeout: time.Minute}
}

// get returns the status, the text and the final URL of a page.
func (s *site) get(target string) (int, string, *url.URL) {
	s.Helper()
	return s.do(http.MethodGet, target)
}

func (s *site) do(method, target string) (int, string, *url.URL) {
	s.Helper()
	if strings.HasPrefix(target, "/") {
		target = s.board.URL + target
	}
	r, err := http.NewRequestWithContext(s.Context(), method, target, nil)
	if err != nil {
		s.Fatal(err)
	}
	response, err := s.browser.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response.StatusCode, html.UnescapeString(string(body)), response.Request.URL
}

// want checks the status of a page and that the page contains the given text.
func (s *site) want(target string, status int, text string) {
	s.Helper()
	if code, page, at := s.get(target); code != status || !strings.Contains(page, text) {
		s.Errorf("%s: %d at %s, want %d and %q in %s", target, code, at, status, text, page)
	}
}

// TestLogin checks that a user who opens a page logs in with the provider and then sees that page, and that the user no
// longer sees it after a logout.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	code, page, at := s.get("/events?q=a%26b")
	if code != http.StatusOK || at.RequestURI() != "/events?q=a%26b" || !strings.Contains(page, "oidc:ana") {
		t.Fatalf("%d at %s: %s", code, at, page)
	}
	u, err := url.Parse(s.board.URL)
	if err != nil {
		t.Fatal(err)
	}
	cookies := s.browser.Jar.Cookies(u)
	if len(cookies) != 1 || cookies[0].Name != sessionCookie {
		t.Fatalf("cookies %v", cookies)
	}
	// The user name is too long to occur in encrypted bytes by chance.
	sealed, err := base64.RawURLEncoding.DecodeString(cookies[0].Value)
	if err != nil || strings.Contains(string(sealed), "oidc:ana") {
		t.Errorf("cookie %q, %v", cookies[0].Value, err)
	}
	s.want("/", 200, "oidc:ana")
	if n := s.provider.Logins(); n != 1 {
		t.Errorf("%d logins", n)
	}
	stolen := cookies[0].Value
	if code, page, _ := s.do(http.MethodPost, "/logout"); code != http.StatusOK || !strings.Contains(page, "You are logged out") {
		t.Errorf("logout: %d %s", code, page)
	}
	if left := s.browser.Jar.Cookies(u); len(left) > 0 {
		t.Errorf("cookies after the logout: %v", left)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: stolen})
	if _, err := s.oidc.Reader(r); err == nil {
		t.Error("the session is still accepted after logout")
	}
}

// TestCookies checks the attributes that protect cookies from scripts, other sites and plain HTTP.
func TestCookies(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.board.URL+"/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	for _, c := range response.Cookies() {
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge <= 0 || c.MaxAge > 600 {
			t.Errorf("cookie %v", c)
		}
	}
	to, err := url.Parse(response.Header.Get("Location"))
	if err != nil || response.StatusCode != http.StatusSeeOther || len(response.Cookies()) != 1 {
		t.Fatalf("%s %v %v", response.Status, response.Cookies(), err)
	}
	for name, want := range map[string]bool{"code_challenge": true, "nonce": true, "state": true, "code_verifier": false} {
		if got := to.Query().Get(name) != ""; got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestExpiry checks that a session ends with the token, or after the maximum duration. The user is then logged in again without noticing.
func TestExpiry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		token time.Duration
		ends  time.Duration
	}{"with the token": {5 * time.Minute, 5 * time.Minute}, "after the maximum duration": {time.Hour, 30 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, nil)
			s.provider.Person(map[string]any{"sub": "ana", "exp": s.clock.Now().Add(tc.token).Unix()})
			s.want("/", 200, "oidc:ana")
			s.clock.Step(tc.ends - 2*time.Second)
			s.want("/", 200, "oidc:ana")
			if n := s.provider.Logins(); n != 1 {
				t.Errorf("%d logins", n)
			}
			s.clock.Step(3 * time.Second)
			if code, page, _ := s.do(http.MethodPost, "/services/shop/shop/acts/pause"); code != http.StatusUnauthorized || !strings.Contains(page, "Nothing was changed") || !strings.Contains(page, `href="/login"`) {
				t.Errorf("act after the session: %d %s", code, page)
			}
			s.provider.Person(map[string]any{"sub": "ana", "exp": s.clock.Now().Add(time.Hour).Unix()})
			s.want("/events", 200, "oidc:ana")
			if n := s.provider.Logins(); n != 2 {
				t.Errorf("%d logins", n)
			}
		})
	}
}

// TestTokens checks that invalid tokens are rejected with a message about who can fix the problem.
func TestTokens(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claims map[string]any
		change func(*OIDCOptions)
		status int
		text   string
	}{
		"system user":                          {map[string]any{"sub": "system:admin"}, func(o *OIDCOptions) { o.UserPrefix = "" }, 403, "for Kubernetes itself"},
		"system group":                         {map[string]any{"sub": "ana", "groups": []string{"system:masters"}}, nil, 403, "for Kubernetes itself"},
		"prefixed":                             {map[string]any{"sub": "ana", "groups": []string{"system:masters"}}, func(o *OIDCOptions) { o.GroupsPrefix = "oidc:" }, 200, "oidc:ana"},
		"one group":                            {map[string]any{"sub": "ana", "groups": "team"}, nil, 200, "oidc:ana"},
		"groups as objects":                    {map[string]any{"sub": "ana", "groups": []any{map[string]any{"a": 1}}}, nil, 403, "not a string"},
		"groups as a number":                   {map[string]any{"sub": "ana", "groups": 7}, nil, 403, "neither a string nor a list of strings"},
		"groups elsewhere":                     {map[string]any{"sub": "ana", "_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://id.example.com"}}}, nil, 403, "too many"},
		"no user":                              {map[string]any{}, nil, 403, "--oidc-username-claim"},
		"email":                                {map[string]any{"sub": "1", "email": "ana@example.com", "email_verified": true}, func(o *OIDCOptions) { o.User = "email" }, 200, "oidc:ana@example.com"},
		"unverified email":                     {map[string]any{"sub": "1", "email": "ana@example.com", "email_verified": false}, func(o *OIDCOptions) { o.User = "email" }, 403, "did not verify"},
		"other audience":                       {map[string]any{"sub": "ana", "aud": "other"}, nil, 403, "audience"},
		"other issuer":                         {map[string]any{"sub": "ana", "iss": "https://evil.example.com"}, nil, 403, "issued by a different provider"},
		"expired":                              {map[string]any{"sub": "ana", "exp": 1}, nil, 403, "expired"},
		"other login":                          {map[string]any{"sub": "ana", "nonce": "other"}, nil, 403, "belongs to another login"},
		"wrong secret":                         {map[string]any{"sub": "ana"}, func(o *OIDCOptions) { o.ClientSecret = "wrong" }, 403, "invalid_client"},
		"too many groups":                      {map[string]any{"sub": "ana", "groups": groups(200)}, nil, 403, "too many for a cookie"},
		"too many groups, all but one ignored": {map[string]any{"sub": "ana", "groups": groups(200)}, func(o *OIDCOptions) { o.Rules.Groups = groups(1) }, 200, "oidc:ana"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, tc.change)
			s.provider.Person(tc.claims)
			code, page, _ := s.get("/")
			if code != tc.status || !strings.Contains(page, tc.text) || (code == http.StatusOK) == strings.Contains(page, "Log in again") {
				t.Errorf("%d, want %d and %q in %s", code, tc.status, tc.text, page)
			}
			if code != http.StatusOK && strings.Contains(page, "waits for") {
				t.Error("a rejected user sees data")
			}
		})
	}
}

func groups(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("a-team-with-a-name-%03d", i))
	}
	return out
}

// TestForgedCallback checks that a response that this browser did not request does not log the user in.
func TestForgedCallback(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	const refusal = "This login cannot be completed"
	s.want("/login/callback?code=a&state=b", 403, refusal)
	s.want("/login/callback?code=a&state="+strings.Repeat("A", 26), 403, refusal)
	s.want("/login/callback", 403, refusal)
	// Mallory begins a login and makes Ana finish it.
	ana := s.browser
	s.browser = s.person()
	s.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == callbackPath {
			return http.ErrUseLastResponse
		}
		return nil
	}
	_, _, at := s.get("/login")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	mallory, callback := s.browser, response.Header.Get("Location")
	if !strings.Contains(callback, "code=") {
		t.Fatalf("no code in %q", callback)
	}
	s.browser = ana
	s.want(callback, 403, refusal)
	s.browser = mallory
	s.browser.CheckRedirect = nil
	s.want(callback, 200, "oidc:ana")
	s.want(callback, 403, refusal)
	s.want("/login/callback/other", 404, "no such page")
}

// TestProviderDown checks that, if the provider is not responding, the page reports this and tries again, and that existing sessions remain
// valid.
func TestProviderDown(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.provider.Down(true)
	s.want("/", 503, "The identity provider is not responding")
	s.provider.Down(false)
	s.want("/", 503, `http-equiv="refresh"`)
	s.clock.Step(discoveryPause)
	s.want("/", 200, "oidc:ana")
	s.provider.Down(true)
	s.want("/", 200, "oidc:ana")
	s.provider.Down(false)
	s.provider.Rotate(t)
	s.browser = s.person()
	s.want("/", 200, "oidc:ana")
	s.provider.Refuse("access_denied")
	s.browser = s.person()
	s.want("/", 403, "The identity provider rejected the login: access_denied")
}

// TestManyTabs checks that tabs that log in at the same time do not affect each other, and that the number of their cookies is limited.
func TestManyTabs(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	follow := s.browser.CheckRedirect
	s.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	u, err := url.Parse(s.board.URL)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxLogins {
		s.get("/login")
	}
	if n := len(s.browser.Jar.Cookies(u)); n == 0 || n > maxLogins {
		t.Errorf("%d login cookies", n)
	}
	s.browser.CheckRedirect = follow
	s.want("/", 200, "oidc:ana")
}

// TestOptions checks that invalid options are rejected at startup.
func TestOptions(t *testing.T) {
	t.Parallel()
	good := OIDCOptions{Claims: Claims{User: "sub"}, Issuer: "https://id.example.com", ClientID: "board", URL: "https://board.example.com", Length: time.Hour}
	if _, err := NewOIDC(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*OIDCOptions){
		"issuer over HTTP": func(o *OIDCOptions) { o.Issuer = "http://id.example.com" }, "URL over HTTP": func(o *OIDCOptions) { o.URL = "http://board.example.com" },
		"no client": func(o *OIDCOptions) { o.ClientID = "" }, "no claim": func(o *OIDCOptions) { o.User = "" }, "no length": func(o *OIDCOptions) { o.Length = 0 }, "short key": func(o *OIDCOptions) { o.Key = []byte("k") },
	} {
		o := good
		change(&o)
		if _, err := NewOIDC(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
