package analysis

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/heighliner/heighliner/internal/outbound"
)

// robotKey is the private key of the tests' service accounts.
var robotKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

const robotEmail = "robot@shop.iam.gserviceaccount.com"

// keyFile returns a service account key in the JSON format of Google Cloud. The fields in change override the defaults.
func keyFile(t testing.TB, tokenURL string, change map[string]any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(robotKey())
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{
		"type": "service_account", "project_id": "shop", "private_key_id": "key-1", "client_email": robotEmail, "client_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"auth_uri":    "https://accounts.google.com/o/oauth2/auth", "token_uri": tokenURL, "universe_domain": "googleapis.com",
	}
	for name, v := range change {
		fields[name] = v
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// tokenServer replaces Google's token endpoint. It verifies assertions, and counts the tokens that it issues.
type tokenServer struct {
	url    string
	issued atomic.Int64
	// life is the lifetime of tokens, in seconds. If refusal is set, the server uses it to respond to
	// requests, and no token is issued.
	life    int
	refusal http.HandlerFunc
	delay   time.Duration
}

func newTokenServer(t testing.TB) *tokenServer {
	t.Helper()
	g := &tokenServer{life: 3599}
	g.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if why := g.reject(r); why != "" {
			t.Errorf("the token endpoint: %s", why)
			answers(400, `{"error":"invalid_grant"}`)(w, r)
			return
		}
		time.Sleep(g.delay)
		n := g.issued.Add(1)
		if g.refusal != nil {
			g.refusal(w, r)
			return
		}
		answers(200, fmt.Sprintf(`{"access_token":"ya29.%d","expires_in":%d,"token_type":"Bearer"}`, n, g.life))(w, r)
	})
	return g
}

// reject returns the reason why an assertion is not valid according to RFC 7523, section 3, and Google's "Using OAuth 2.0 for Server to Server
// Applications".
func (g *tokenServer) reject(r *http.Request) string {
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		return fmt.Sprintf("%s with %v: %v", r.Method, r.Form, err)
	}
	claims := jwt.MapClaims{}
	token, err := jwt.ParseWithClaims(r.Form.Get("assertion"), claims, func(*jwt.Token) (any, error) { return robotKey().Public(), nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithAudience(g.url), jwt.WithIssuer(robotEmail), jwt.WithExpirationRequired(), jwt.WithIssuedAt())
	if err != nil {
		return err.Error()
	}
	issued, _ := claims.GetIssuedAt()
	expires, _ := claims.GetExpirationTime()
	switch life := expires.Sub(issued.Time); {
	case life > time.Hour:
		return "the assertion is valid for " + life.String()
	case claims["scope"] != "https://www.googleapis.com/auth/monitoring.read":
		return fmt.Sprintf("scope %v", claims["scope"])
	case claims["sub"] != nil:
		return "the assertion is for another user"
	case token.Header["kid"] != "key-1":
		return fmt.Sprintf("key %v", token.Header["kid"])
	}
	return ""
}

// monitoring returns a sender that fetches tokens from g, and a query for a metrics server with the given handler.
func monitoring(t testing.TB, g *tokenServer, key []byte, handler http.HandlerFunc) (*sender, query) {
	t.Helper()
	address, ca := serveTLS(t, handler)
	s := signedSender(t, ca, secrets{"shop/robot": {keyServiceAccount: key}})
	s.tokenURL = g.url
	return s, query{provider: providerWeb, address: address, text: "body.v", namespace: "shop", login: loginGoogle, secret: "robot", authority: "ca"}
}

// bearer returns a handler that responds to requests, and checks that they contain the token.
func bearer(t testing.TB, token *string) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); token != nil && got != "Bearer "+*token {
			t.Errorf("Authorization %q, want %q", got, *token)
		}
		answers(200, `{"v": 3}`)(w, r)
	}
}

// TestGoogleToken checks that a token is fetched once, and again shortly before it expires, when the Secret changes, and after a rejection.
func TestGoogleToken(t *testing.T) {
	t.Parallel()
	g := newTokenServer(t)
	want := "ya29.1"
	rejected := false
	s, q := monitoring(t, g, keyFile(t, g.url, nil), func(w http.ResponseWriter, r *http.Request) {
		if rejected {
			answers(401, "{}")(w, r)
			return
		}
		bearer(t, &want)(w, r)
	})
	clock := time.Now()
	s.now = func() time.Time { return clock }
	s.tokens = newTokens(s.now)
	ask := func(want answered) answer {
		t.Helper()
		got := s.send(t.Context(), q)
		check(t, want, got)
		return got
	}
	fine := answered{value: 3}
	ask(fine)
	clock = clock.Add(3599*time.Second - tokenReserve - time.Second)
	ask(fine)
	if n := g.issued.Load(); n != 1 {
		t.Fatalf("%d tokens before the expiry of the first", n)
	}
	clock = time.Now() // The token server compares times with the clock of the machine.
	for _, k := range s.tokens.held {
		k.until = clock
	}
	want = "ya29.2"
	ask(fine)
	all, _ := s.secrets.(secrets)
	all["shop/robot"] = map[string][]byte{keyServiceAccount: keyFile(t, g.url, map[string]any{"client_id": "2"})}
	want = "ya29.3"
	ask(fine)
	rejected = true
	if got := ask(answered{reason: Unauthorized}); !strings.Contains(got.err.Message, "it does not accept access tokens for the service account of Secret robot") {
		t.Error(got.err)
	}
	rejected, want = false, "ya29.4"
	ask(fine)
	ask(fine)
	if n := g.issued.Load(); n != 4 {
		t.Errorf("%d tokens, want 4", n)
	}
	for key := range s.tokens.held {
		if key.namespace != "shop" || key.secret != "robot" {
			t.Errorf("a token for %v", key)
		}
	}
}

// TestGoogleTokenOnce checks that concurrent queries fetch one token for each Secret and namespace.
func TestGoogleTokenOnce(t *testing.T) {
	t.Parallel()
	g := newTokenServer(t)
	g.delay = 50 * time.Millisecond
	key := keyFile(t, g.url, nil)
	s, q := monitoring(t, g, key, bearer(t, nil))
	all, _ := s.secrets.(secrets)
	all["test/robot"], all["test/ca"], all["shop/other"] = all["shop/robot"], all["shop/ca"], all["shop/robot"]
	var group sync.WaitGroup
	for range 8 {
		for _, one := range []struct{ namespace, secret string }{{"shop", "robot"}, {"test", "robot"}, {"shop", "other"}} {
			group.Go(func() {
				q := q
				q.namespace, q.secret = one.namespace, one.secret
				check(t, answered{value: 3}, s.send(t.Context(), q))
			})
		}
	}
	group.Wait()
	if n := g.issued.Load(); n != 3 {
		t.Errorf("%d tokens, want 3", n)
	}
}

// TestTokens checks the lifetime and the number of tokens, and the timeout of token requests, without a server.
func TestTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newTokens(time.Now)
		calls := 0
		get := func(i int, life time.Duration, failure *Error) *Error {
			key := tokenKey{secret: fmt.Sprint(i)}
			_, err := kept.get(t.Context(), key, func(context.Context) (string, time.Duration, *Error) { calls++; return "a", life, failure })
			synctest.Wait()
			return err
		}
		for range 2 {
			if get(0, tokenReserve, nil) != nil || get(1, time.Hour, errorf(BadAnswer, "a")) == nil {
				t.Fatal("wrong results")
			}
		}
		if calls != 4 || len(kept.held) != 0 {
			t.Fatalf("%d requests, %d tokens kept, want 4 and 0: errors and tokens with a short lifetime are not kept", calls, len(kept.held))
		}
		for i := range 2 * maxTokens {
			_ = get(i, time.Hour, nil)
			time.Sleep(time.Millisecond)
		}
		if len(kept.held) != maxTokens || kept.held[tokenKey{secret: "0"}] != nil || kept.held[tokenKey{secret: fmt.Sprint(2*maxTokens - 1)}] == nil {
			t.Errorf("%d tokens, want the last %d", len(kept.held), maxTokens)
		}
		time.Sleep(time.Hour)
		_ = get(0, time.Hour, nil)
		if len(kept.held) != 1 {
			t.Errorf("%d tokens after all others expired", len(kept.held))
		}
		// A caller that returns early does not stop the request, and a request that hangs times out.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var ended error
		began := time.Now()
		_, err := kept.get(ctx, tokenKey{secret: "slow"}, func(ctx context.Context) (string, time.Duration, *Error) {
			<-ctx.Done()
			ended = ctx.Err()
			return "", 0, errorf(Timeout, "slow")
		})
		if err == nil || err.Reason != Timeout || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		time.Sleep(tokenTimeout)
		synctest.Wait()
		if !errors.Is(ended, context.DeadlineExceeded) || kept.held[tokenKey{secret: "slow"}] != nil {
			t.Errorf("%v", ended)
		}
	})
}

// TestSecretsOfGoogle checks the errors for Secrets, that no error contains a part of the content, and that no request is sent.
func TestSecretsOfGoogle(t *testing.T) {
	t.Parallel()
	g := newTokenServer(t)
	changed := func(name string, v any) []byte { return keyFile(t, g.url, map[string]any{name: v}) }
	for name, test := range map[string]struct {
		key  []byte
		want string
	}{
		"empty":         {nil, "Secret robot has no key key.json, which web.google needs"},
		"large":         {[]byte(strings.Repeat(" ", maxServiceAccount+1)), "Secret robot: the key key.json must be at most 16 KiB"},
		"not JSON":      {[]byte("hunter2"), "Secret robot: the key key.json is not JSON"},
		"a list":        {[]byte(`["hunter2"]`), "Secret robot: the key key.json is not JSON"},
		"user":          {[]byte(`{"type":"authorized_user","client_secret":"hunter2"}`), "Secret robot: the key key.json must contain the key of a service account, with the type service_account"},
		"no email":      {changed("client_email", ""), "Secret robot: the key key.json has no client_email"},
		"other address": {changed("token_uri", "https://hunter2.example.com/token"), "Secret robot: the token_uri of key.json must be " + g.url},
		"no address":    {changed("token_uri", nil), "Secret robot: the token_uri of key.json must be " + g.url},
		"no key":        {changed("private_key", "hunter2"), "Secret robot: the private_key of key.json is not an RSA key in PEM format"},
		"bad key":       {changed("private_key", "-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n"), "Secret robot: the private_key of key.json is not an RSA key in PEM format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, q := monitoring(t, g, test.key, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			got := s.send(t.Context(), q)
			if got.err == nil || got.err.Reason != BadSecret || got.err.Message != test.want {
				t.Errorf("%v, want %s", got.err, test.want)
			}
		})
	}
	t.Cleanup(func() {
		if n := g.issued.Load(); n != 0 {
			t.Errorf("%d tokens were requested", n)
		}
	})
}

// TestTokenURI checks that managers fetch tokens from a single URL, and reject Secrets with another URL.
func TestTokenURI(t *testing.T) {
	t.Parallel()
	s := openSender(t, nil)
	if s.tokenURL != "https://oauth2.googleapis.com/token" {
		t.Errorf("tokens come from %s", s.tokenURL)
	}
	_, failure := assert("robot", keyFile(t, "https://oauth2.googleapis.com/token/", nil), s.tokenURL, time.Now())
	if failure == nil || failure.Reason != BadSecret {
		t.Errorf("%v for another address", failure)
	}
	if _, failure := assert("robot", keyFile(t, "https://oauth2.googleapis.com/token", nil), s.tokenURL, time.Now()); failure != nil {
		t.Error(failure)
	}
}

// TestRefusalsOfGoogle checks the errors for responses from the token endpoint and from the metrics server, and that no
// error contains a token.
func TestRefusalsOfGoogle(t *testing.T) {
	t.Parallel()
	const (
		fetch = "fetch an access token from Google: it responded with "
		ahead = 3 * time.Hour
	)
	for name, test := range map[string]struct {
		token, metrics http.HandlerFunc

		reason Reason
		want   string
	}{
		"key deleted": {token: answers(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature. hunter2"}`), reason: Unauthorized, want: fetch + "invalid_grant: the key key.json of Secret robot or its service account was deleted or disabled: create a new key"},
		"other error": {token: answers(401, `{"error":"unauthorized_client","error_description":"hunter2"}`), reason: Unauthorized, want: fetch + "401 Unauthorized: check the key key.json of Secret robot"},
		"markup":      {token: answers(404, `<html>hunter2`), reason: Unauthorized, want: fetch + "404 Not Found: check the key key.json of Secret robot"},
		"internal":    {token: answers(500, ``), reason: ServerError, want: fetch + "500 Internal Server Error"},
		"too many":    {token: answers(429, ``), reason: Throttled, want: fetch + "429 Too Many Requests"},
		"no token":    {token: answers(200, `{"id_token":"hunter2"}`), reason: BadAnswer, want: "Google responded without an access token for the service account of Secret robot"},
		"bad token":   {token: answers(200, `{"access_token":"hunter2\r\nX: y","expires_in":3599}`), reason: BadAnswer, want: "Google responded without an access token for the service account of Secret robot"},
		"not JSON":    {token: answers(200, `hunter2`), reason: BadAnswer, want: "Google responded without an access token for the service account of Secret robot"},
		"redirect away": {token: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com/", http.StatusTemporaryRedirect)
		}, reason: ClientError, want: "fetch an access token from Google: "},
		"no permission": {metrics: answers(403, `{"error":{"message":"hunter2"}}`), reason: Unauthorized, want: "the provider responded with 403 Forbidden: give the service account of Secret robot the role roles/monitoring.viewer in the project that web.url refers to, and enable the Cloud Monitoring API there"},
		"not accepted":  {metrics: answers(401, ``), reason: Unauthorized, want: "the provider responded with 401 Unauthorized: it does not accept access tokens for the service account of Secret robot"},
		"throttled":     {metrics: answers(429, ``), reason: Throttled, want: "the provider responded with 429 Too Many Requests"},
		"not found":     {metrics: answers(404, ``), reason: ClientError, want: "the provider responded with 404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTokenServer(t)
			g.refusal = test.token
			metrics := test.metrics
			if metrics == nil {
				metrics = func(http.ResponseWriter, *http.Request) { t.Error("a request was sent without a token") }
			}
			s, q := monitoring(t, g, keyFile(t, g.url, nil), metrics)
			got := s.send(t.Context(), q)
			if got.err == nil || got.err.Reason != test.reason || !strings.HasPrefix(got.err.Message, test.want) {
				t.Fatalf("%v, want %s: %s", got.err, test.reason, test.want)
			}
			for _, private := range []string{"hunter2", "ya29", "PRIVATE", robotEmail} {
				if strings.Contains(got.err.Error(), private) {
					t.Errorf("%v contains %s", got.err, private)
				}
			}
		})
	}
	response := &http.Response{StatusCode: 400, Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(strings.NewReader(`{"error":"invalid_grant"}`))}
	if got := tokenRefusal(response, "robot", time.Now().Add(ahead)); got == nil || !strings.Contains(got.Message, "ahead of the provider's: correct the clock") {
		t.Errorf("%v for a wrong clock", got)
	}
}

// TestGoogleOutbound checks that the manager's flags also apply to the token URL, and that the certificate
// authorities in the Secret do not.
func TestGoogleOutbound(t *testing.T) {
	t.Parallel()
	g := newTokenServer(t)
	s, q := monitoring(t, g, keyFile(t, g.url, nil), bearer(t, nil))
	policy, err := outbound.New(outbound.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.client, err = policy.Client(options); err != nil {
		t.Fatal(err)
	}
	got := s.send(t.Context(), q)
	check(t, answered{reason: Refused}, got)
	if !strings.HasPrefix(got.err.Message, "fetch an access token from Google: ") {
		t.Error(got.err)
	}
	secure, _ := serveTLS(t, func(http.ResponseWriter, *http.Request) { t.Error("a request for a token was sent") })
	s, q = monitoring(t, &tokenServer{url: secure}, keyFile(t, secure, nil), bearer(t, nil))
	check(t, answered{reason: Unreachable}, s.send(t.Context(), q))
}
