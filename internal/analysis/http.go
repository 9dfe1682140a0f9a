package analysis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/heighliner/heighliner/internal/outbound"
)

// sender sends queries to providers over HTTP.
type sender struct {
	policy, operatorPolicy *outbound.Policy
	client, operator       *http.Client
	secrets                Secrets
	tokens                 *tokens
	tokenURL               string // googleToken, except in tests
	userAgent              string
	now                    func() time.Time
}

// maxElements is the maximum number of values in a JSON response. Each value may use a few hundred bytes when it is
// decoded, and all workers may decode a response at the same time.
const maxElements = 1 << 13

// options are the options of all clients. The timeout of an individual query is set in its context.
var options = outbound.Options{Timeout: 2 * time.Minute, MaxBody: outbound.DefaultMaxBody, MaxElements: maxElements, Redirects: 3}

func newSender(config Config) (*sender, error) {
	s := &sender{policy: config.Outbound, operatorPolicy: config.Outbound, secrets: config.Secrets, userAgent: config.UserAgent, now: config.Now, tokens: newTokens(config.Now), tokenURL: googleToken}
	if u, err := url.Parse(config.PrometheusAddress); err == nil && u.Hostname() != "" {
		s.operatorPolicy = config.Outbound.Trusting(u.Hostname())
	}
	var err error
	if s.client, err = s.policy.Client(options); err != nil {
		return nil, err
	}
	s.operator, err = s.operatorPolicy.Client(options)
	return s, err
}

// send sends one query.
func (s *sender) send(ctx context.Context, q query) answer {
	client, err := s.clientFor(ctx, q)
	if err != nil {
		return answer{err: err}
	}
	if q.provider == providerWeb {
		return askWeb(ctx, client, q)
	}
	return askPrometheus(ctx, client, q)
}

// clientFor returns a client that adds the credentials of a query to each request.
func (s *sender) clientFor(ctx context.Context, q query) (*http.Client, *Error) {
	if q.login != loginPlain && !strings.HasPrefix(q.address, "https://") {
		return nil, errorf(BadQuery, "web.url must begin with https:// if web.aws or web.google is set")
	}
	client := s.client
	if q.operator {
		client = s.operator
	}
	if q.authority != "" {
		data, err := s.secret(ctx, q, "caSecretRef", q.authority)
		if err != nil {
			return nil, err
		}
		own := options
		if own.CA = data["ca.crt"]; len(own.CA) == 0 {
			return nil, errorf(BadSecret, "Secret %s has no key ca.crt", q.authority)
		}
		trusting, failure := s.policy.Client(own)
		if failure != nil {
			return nil, errorf(BadSecret, "Secret %s: %v", q.authority, failure)
		}
		client = trusting
	}
	signed := *client
	transport := &asking{next: client.Transport, userAgent: s.userAgent, now: s.now}
	signed.Transport = transport
	if err := s.sign(ctx, q, transport); err != nil {
		return nil, err
	}
	return &signed, nil
}

// sign adds the credentials of a query to the transport.
func (s *sender) sign(ctx context.Context, q query, transport *asking) *Error {
	if q.keys != "" {
		headers, err := s.headers(ctx, q)
		if err != nil {
			return err
		}
		transport.headers = headers
	}
	switch {
	case q.login == loginAWS:
		return s.signAWS(ctx, q, transport)
	case q.login == loginGoogle:
		return s.signGoogle(ctx, q, transport)
	case q.secret == "":
		return nil
	}
	data, err := s.secret(ctx, q, "secretRef", q.secret)
	if err != nil {
		return err
	}
	token, user, password := value(data["token"]), value(data["username"]), value(data["password"])
	switch {
	case token != "":
		transport.authorize = func(r *http.Request) *Error { r.Header.Set("Authorization", "Bearer "+token); return nil }
	case user != "":
		transport.authorize = func(r *http.Request) *Error { r.SetBasicAuth(user, password); return nil }
	default:
		return errorf(BadSecret, "Secret %s has neither the key token nor the keys username and password", q.secret)
	}
	return nil
}

// maxHeader is the maximum size, in bytes, of a header value from a Secret.
const maxHeader = 8 << 10

// headers returns those headers of a query whose values are stored in Secrets. Errors do not
// contain these values.
func (s *sender) headers(ctx context.Context, q query) (map[string]string, *Error) {
	headers := map[string]string{}
	for line := range strings.SplitSeq(q.keys, "\n") {
		of := strings.Fields(line) // Names and keys contain no spaces.
		header, name, key := of[0], of[1], of[2]
		data, err := s.secret(ctx, q, "headers[].secretKeyRef", name)
		if err != nil {
			return nil, err
		}
		text := value(data[key])
		switch {
		case text == "":
			return nil, errorf(BadSecret, "Secret %s has no key %s, which the header %s needs", name, key, header)
		case !isHeader(text):
			return nil, errorf(BadSecret, "Secret %s: the key %s must be at most 8 KiB of printable ASCII, because it is the value of the header %s", name, key, header)
		}
		headers[header] = text
	}
	return headers, nil
}

// isHeader reports whether a string can be the value of a header: at most 8 KiB of printable ASCII.
func isHeader(text string) bool {
	return len(text) <= maxHeader && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// value returns the value of a key without surrounding white space, such as the line break that
// editors append.
func value(data []byte) string { return strings.TrimSpace(string(data)) }

// secret reads the Secret to which a field of a provider refers.
func (s *sender) secret(ctx context.Context, q query, field, name string) (map[string][]byte, *Error) {
	if s.secrets == nil {
		return nil, errorf(BadSecret, "Secret %s: the manager does not read Secrets", name)
	}
	data, err := s.secrets.Secret(ctx, q.namespace, name)
	if err != nil {
		place := "provider.prometheus"
		if q.provider == providerWeb {
			place = "metrics[].web"
		}
		return nil, errorf(BadSecret, "%s.%s of the analysis: %v", place, field, err)
	}
	return data, nil
}

// asking is a transport that adds credentials to requests. It returns an error for a response with an error status if
// this status has the same meaning for every provider, or if explain returns an error.
type asking struct {
	next      http.RoundTripper
	authorize func(*http.Request) *Error
	// explain returns an error for a response that needs a message specific to the provider, and nil for other responses. The function itself
	// may be nil.
	explain   func(*http.Response) *Error
	headers   map[string]string // may contain credentials
	userAgent string
	now       func() time.Time
}

func (a *asking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if a.userAgent != "" {
		r.Header.Set("User-Agent", a.userAgent)
	}
	for name, value := range a.headers {
		r.Header.Set(name, value)
	}
	if a.authorize != nil {
		if failure := a.authorize(r); failure != nil {
			if r.Body != nil {
				_ = r.Body.Close() // The body is not sent.
			}
			return nil, failure
		}
	}
	response, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if failure := a.refusal(response); failure != nil {
		_ = response.Body.Close() // The body is not needed.
		return nil, failure
	}
	return response, nil
}

// refusal returns an error for a response that explain rejects, for a 401, 403 or 429 response, and for a 503 response with Retry-After. For other
// responses, it returns nil.
func (a *asking) refusal(r *http.Response) error {
	if a.explain != nil {
		if failure := a.explain(r); failure != nil {
			return failure
		}
	}
	wait := retryAfter(r.Header.Get("Retry-After"), a.now())
	switch {
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable && wait > 0:
		return &Error{Reason: Throttled, RetryAfter: wait, Message: "the provider responded with " + r.Status}
	case r.StatusCode == http.StatusUnauthorized, r.StatusCode == http.StatusForbidden:
		return errorf(Unauthorized, "the provider responded with %s: check its credentials", r.Status)
	}
	return nil
}

// retryAfter parses a Retry-After header, which contains a number of seconds or a date. It returns 0 if the
// header contains neither.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}

// classify converts an error from a client to an Error. The message does not contain URLs or bodies, because they may
// contain data that must not appear in a status.
func classify(err error) *Error {
	var (
		own      *Error
		refused  *outbound.RefusedError
		large    *outbound.TooLargeError
		redirect *outbound.RedirectError
		api      *promv1.Error
		network  net.Error
		request  *url.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &refused):
		return errorf(Refused, "%v", refused)
	case errors.As(err, &large):
		return errorf(TooLarge, "%v", large)
	case errors.As(err, &redirect):
		return errorf(ClientError, "%v", redirect)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return errorf(Timeout, "no response in time")
	case errors.Is(err, context.Canceled):
		return errorf(Timeout, "the round was canceled")
	case errors.As(err, &api):
		return errorf(apiReason(api), "%s", cmp.Or(outbound.Printable([]byte(api.Msg), maxMessage), "the provider did not report a reason"))
	case errors.As(err, &request):
		return errorf(Unreachable, "%s", outbound.Printable([]byte(request.Err.Error()), maxMessage))
	}
	return errorf(BadAnswer, "%s", outbound.Printable([]byte(err.Error()), maxMessage))
}

// apiReason returns the reason for an error from the Prometheus HTTP API.
func apiReason(err *promv1.Error) Reason {
	switch err.Type {
	case promv1.ErrBadData, promv1.ErrExec:
		return BadQuery
	case promv1.ErrTimeout, promv1.ErrCanceled:
		return Timeout
	case promv1.ErrServer:
		return ServerError
	case promv1.ErrClient:
		return ClientError
	}
	return BadAnswer
}
