package analysis

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/heighliner/heighliner/internal/certs"
)

const (
	// keyServiceAccount is the key in a Secret under which the service account key is stored.
	keyServiceAccount = "key.json"
	// googleToken is the only URL from which access tokens are fetched. A Secret must not select another URL.
	googleToken = "https://oauth2.googleapis.com/token"
	// googleScope is the scope of access tokens, which allows reading metrics.
	googleScope = "https://www.googleapis.com/auth/monitoring.read"
	// maxServiceAccount is the maximum size of a service account key, in bytes. Google's keys are about 2,400 bytes long.
	maxServiceAccount = 16 << 10
	// assertionLife is the lifetime of a signed request for a token. It is the maximum that Google accepts.
	assertionLife = time.Hour
	// clockTolerance is subtracted from the current time to get the start of the lifetime of a
	// signed request.
	clockTolerance = 10 * time.Second
	// maxTokenLife limits how long a token is used, regardless of the lifetime in the response.
	maxTokenLife = time.Hour
)

// serviceAccount contains the fields of a service account key that are read. All except private_key_id are required.
type serviceAccount struct {
	Type     string `json:"type"`
	Email    string `json:"client_email"`
	KeyID    string `json:"private_key_id"`
	Key      string `json:"private_key"`
	TokenURI string `json:"token_uri"`
}

// signGoogle adds an access token to the requests for a query. The token is for the service account in the query's
// Secret.
func (s *sender) signGoogle(ctx context.Context, q query, transport *asking) *Error {
	data, err := s.secret(ctx, q, "google.secretRef", q.secret)
	if err != nil {
		return err
	}
	content := data[keyServiceAccount]
	switch {
	case len(content) == 0:
		return errorf(BadSecret, "Secret %s has no key %s, which web.google needs", q.secret, keyServiceAccount)
	case len(content) > maxServiceAccount:
		return errorf(BadSecret, "Secret %s: the key %s must be at most 16 KiB", q.secret, keyServiceAccount)
	}
	key := tokenKey{namespace: q.namespace, secret: q.secret, content: sha256.Sum256(content)}
	token, err := s.tokens.get(ctx, key, func(ctx context.Context) (string, time.Duration, *Error) { return s.fetchToken(ctx, q.secret, content) })
	if err != nil {
		return err
	}
	transport.authorize = func(r *http.Request) *Error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	transport.explain = func(r *http.Response) *Error {
		switch r.StatusCode {
		case http.StatusUnauthorized:
			s.tokens.forget(key, token)
			return errorf(Unauthorized, "the provider responded with %s: it does not accept access tokens for the service account of Secret %s%s", r.Status, q.secret, after("; ", clockOff(r, s.now())))
		case http.StatusForbidden:
			return errorf(Unauthorized, "the provider responded with %s: give the service account of Secret %s the role roles/monitoring.viewer in the project that web.url refers to, and enable the Cloud Monitoring API there", r.Status, q.secret)
		}
		return nil
	}
	return nil
}

// fetchToken exchanges a signed assertion for an access token (RFC 7523, section 2.1). It returns the token and its lifetime.
func (s *sender) fetchToken(ctx context.Context, secret string, content []byte) (string, time.Duration, *Error) {
	assertion, failure := assert(secret, content, s.tokenURL, s.now())
	if failure != nil {
		return "", 0, failure
	}
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.tokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, errorf(BadQuery, "the address for access tokens is not a URL")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s.userAgent != "" {
		r.Header.Set("User-Agent", s.userAgent)
	}
	response, err := s.client.Do(r)
	if err != nil {
		failure := *classify(err) // copy the error before it is changed
		failure.Message = "fetch an access token from Google: " + failure.Message
		return "", 0, &failure
	}
	defer func() { _ = response.Body.Close() }() // The body was read or is not needed.
	if failure := tokenRefusal(response, secret, s.now()); failure != nil {
		return "", 0, failure
	}
	var body struct {
		Token     string `json:"access_token"`
		ExpiresIn int64  `json:"expires_in"`
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return "", 0, classify(err)
	}
	if json.Unmarshal(raw, &body) != nil || body.Token == "" || !isHeader(body.Token) || strings.Contains(body.Token, " ") {
		return "", 0, errorf(BadAnswer, "Google responded without an access token for the service account of Secret %s", secret)
	}
	life := time.Duration(min(max(body.ExpiresIn, 0), int64(maxTokenLife/time.Second))) * time.Second
	return body.Token, life, nil
}

// tokenRefusal returns the error for a response whose status code is not 2xx, and nil for other responses.
func tokenRefusal(r *http.Response, secret string, now time.Time) *Error {
	wait := retryAfter(r.Header.Get("Retry-After"), now)
	switch {
	case r.StatusCode >= 200 && r.StatusCode <= 299:
		return nil
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable && wait > 0:
		return &Error{Reason: Throttled, RetryAfter: wait, Message: "fetch an access token from Google: it responded with " + r.Status}
	case r.StatusCode >= 500:
		return errorf(ServerError, "fetch an access token from Google: it responded with %s", r.Status)
	}
	var body struct {
		Error string `json:"error"` // RFC 6749, section 5.2
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxFailure))
	if err != nil || json.Unmarshal(raw, &body) != nil || body.Error != "invalid_grant" {
		return errorf(Unauthorized, "fetch an access token from Google: it responded with %s: check the key %s of Secret %s", r.Status, keyServiceAccount, secret)
	}
	if off := clockOff(r, now); off != "" {
		return errorf(Unauthorized, "fetch an access token from Google: it responded with invalid_grant: %s: correct the clock", off)
	}
	return errorf(Unauthorized, "fetch an access token from Google: it responded with invalid_grant: the key %s of Secret %s or its service account was deleted or disabled: create a new key", keyServiceAccount, secret)
}

// assert signs a request for an access token with a service account key. Errors do not contain any part of the key.
func assert(secret string, content []byte, tokenURL string, now time.Time) (string, *Error) {
	account, key, failure := readServiceAccount(secret, content, tokenURL)
	if failure != nil {
		return "", failure
	}
	began := now.Add(-clockTolerance)
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": account.Email, "scope": googleScope, "aud": tokenURL,
		"iat": began.Unix(), "exp": began.Add(assertionLife).Unix(),
	})
	if account.KeyID != "" {
		token.Header["kid"] = account.KeyID
	}
	signed, err := token.SignedString(key)
	if err != nil {
		return "", errorf(BadSecret, "Secret %s: the private_key of %s cannot be used to sign requests: create a new key", secret, keyServiceAccount)
	}
	return signed, nil
}

// readServiceAccount reads a service account key. The token URL in the key must be tokenURL.
func readServiceAccount(secret string, content []byte, tokenURL string) (account serviceAccount, key *rsa.PrivateKey, failure *Error) {
	switch err := json.Unmarshal(content, &account); {
	case err != nil:
		return account, nil, errorf(BadSecret, "Secret %s: the key %s is not JSON", secret, keyServiceAccount)
	case account.Type != "service_account":
		return account, nil, errorf(BadSecret, "Secret %s: the key %s must contain the key of a service account, with the type service_account", secret, keyServiceAccount)
	case account.Email == "":
		return account, nil, errorf(BadSecret, "Secret %s: the key %s has no client_email", secret, keyServiceAccount)
	case account.TokenURI != tokenURL:
		return account, nil, errorf(BadSecret, "Secret %s: the token_uri of %s must be %s", secret, keyServiceAccount, tokenURL)
	}
	key, err := certs.RSAKey([]byte(account.Key))
	switch {
	case errors.Is(err, certs.ErrTooLarge):
		return account, nil, errorf(BadSecret, "Secret %s: the private_key of %s has more than %d bits", secret, keyServiceAccount, certs.MaxBits)
	case err != nil:
		return account, nil, errorf(BadSecret, "Secret %s: the private_key of %s is not an RSA key in PEM format", secret, keyServiceAccount)
	}
	return account, key, nil
}
