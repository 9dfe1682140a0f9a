package analysis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// These are the keys of a Secret for Signature Version 4.
const (
	keyAccessID     = "access-key-id"
	keyAccessSecret = "secret-access-key"
	keySession      = "session-token"
)

// awsJSON is the content type of the AWS JSON 1.0 protocol.
const awsJSON = "application/x-amz-json-1.0"

// maxFailure is the maximum number of bytes that are read from a failure response to find its error
// code.
const maxFailure = 16 << 10

var (
	// accessKeyID matches access key IDs as specified in the IAM API reference, but without the minimum length of 16
	// characters.
	accessKeyID = regexp.MustCompile(`^\w{1,128}$`)
	// failureCode matches the error codes of AWS APIs.
	failureCode = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)
)

// awsKeys are the credentials of an IAM user or role.
type awsKeys struct {
	secret          string // name of the Secret
	id, key, ticket string // ticket is the session token; empty if there is none
}

// signAWS signs the requests for a query with the credentials in the query's Secret.
func (s *sender) signAWS(ctx context.Context, q query, transport *asking) *Error {
	data, err := s.secret(ctx, q, "aws.secretRef", q.secret)
	if err != nil {
		return err
	}
	keys, err := awsKeysOf(q.secret, data)
	if err != nil {
		return err
	}
	transport.authorize = func(r *http.Request) *Error { return keys.sign(r, q.region, q.service, s.now()) }
	transport.explain = func(r *http.Response) *Error { return keys.explain(r, s.now()) }
	return nil
}

// awsKeysOf reads the keys of a Secret. Errors do not contain the values of these keys.
func awsKeysOf(secret string, data map[string][]byte) (awsKeys, *Error) {
	keys := awsKeys{secret: secret, id: value(data[keyAccessID]), key: value(data[keyAccessSecret]), ticket: value(data[keySession])}
	switch {
	case keys.id == "":
		return keys, errorf(BadSecret, "Secret %s has no key %s, which web.aws needs", secret, keyAccessID)
	case keys.key == "":
		return keys, errorf(BadSecret, "Secret %s has no key %s, which web.aws needs", secret, keyAccessSecret)
	case !accessKeyID.MatchString(keys.id):
		return keys, errorf(BadSecret, "Secret %s: the key %s must consist of at most 128 letters, digits and '_'", secret, keyAccessID)
	case !isHeader(keys.key):
		return keys, errorf(BadSecret, "Secret %s: the key %s must be at most 8 KiB of printable ASCII", secret, keyAccessSecret)
	case !isHeader(keys.ticket):
		return keys, errorf(BadSecret, "Secret %s: the key %s must be at most 8 KiB of printable ASCII", secret, keySession)
	}
	return keys, nil
}

// sign signs a request with Signature Version 4, and sets its headers.
func (k awsKeys) sign(r *http.Request, region, service string, at time.Time) *Error {
	// The signer encodes the query again, and would omit the parts that it cannot parse.
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return errorf(BadQuery, "web.url: the query string cannot be signed: write '%%25' for '%%', and '%%3B' for ';'")
	}
	sum := sha256.New()
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err == nil {
			_, err = io.Copy(sum, body)
		}
		if err != nil {
			return errorf(BadQuery, "web.body cannot be signed: %v", err)
		}
	}
	credentials := aws.Credentials{AccessKeyID: k.id, SecretAccessKey: k.key, SessionToken: k.ticket}
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, r, hex.EncodeToString(sum.Sum(nil)), service, region, at); err != nil {
		return errorf(BadQuery, "the request cannot be signed with Signature Version 4")
	}
	return nil
}

// explain returns the error for a 4xx response, based on its error code, because many AWS APIs report wrong
// credentials with status 400. It returns nil for responses that are handled in the same way for all providers.
func (k awsKeys) explain(r *http.Response, now time.Time) *Error {
	if r.StatusCode < 400 || r.StatusCode > 499 {
		return nil
	}
	code := awsCode(r)
	named := cmp.Or(code, r.Status)
	switch code {
	case "ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "LimitExceededException":
		return &Error{Reason: Throttled, RetryAfter: retryAfter(r.Header.Get("Retry-After"), now), Message: "the provider responded with " + code}
	case "InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature", "IncompleteSignatureException", "RequestExpired", "RequestTimeTooSkewed":
		if off := clockOff(r, now); off != "" {
			return errorf(Unauthorized, "the provider responded with %s: %s: correct the clock", named, off)
		}
		return errorf(Unauthorized, "the provider responded with %s: check the key %s of Secret %s, web.aws.region and web.aws.service", named, keyAccessSecret, k.secret)
	case "ExpiredToken", "ExpiredTokenException":
		return errorf(Unauthorized, "the provider responded with %s: the key %s of Secret %s has expired: write new credentials into the Secret", named, keySession, k.secret)
	case "UnrecognizedClientException", "InvalidClientTokenId", "MissingAuthenticationToken", "MissingAuthenticationTokenException":
		return errorf(Unauthorized, "the provider responded with %s: it does not know the key %s of Secret %s, or the key %s is missing or wrong", named, keyAccessID, k.secret, keySession)
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "OptInRequired":
		return errorf(Unauthorized, "the provider responded with %s: grant the user or role of Secret %s the permission that the request needs, such as cloudwatch:GetMetricData", named, k.secret)
	}
	switch r.StatusCode {
	case http.StatusTooManyRequests:
		return nil // The caller handles 429 in the same way for all providers.
	case http.StatusUnauthorized, http.StatusForbidden:
		return errorf(Unauthorized, "the provider responded with %s: check Secret %s, web.aws.region and web.aws.service%s", named, k.secret, after("; ", clockOff(r, now)))
	}
	if code == "" {
		return nil
	}
	return errorf(ClientError, "the provider responded with %s (%s)", r.Status, code)
}

// awsCode returns the error code of a response in the AWS JSON and REST JSON protocols. The error code is in a header or
// in a field of the body. The result is empty if there is no error code.
func awsCode(r *http.Response) string {
	code := r.Header.Get("X-Amzn-Errortype")
	if code == "" {
		var body struct {
			Type string `json:"__type"`
			Code string `json:"code"`
		}
		raw, err := io.ReadAll(io.LimitReader(r.Body, maxFailure))
		if err != nil || json.Unmarshal(raw, &body) != nil {
			return ""
		}
		code = cmp.Or(body.Type, body.Code)
	}
	code = code[strings.LastIndex(code, "#")+1:] // drop the namespace
	code, _, _ = strings.Cut(code, ":")          // drop the URL
	if !failureCode.MatchString(code) {
		return ""
	}
	return code
}

// clockOff describes the difference between the clock of this machine and the clock of the server that sent a
// response. The result is empty if the difference is less than a minute, because signatures tolerate such a difference.
func clockOff(r *http.Response, now time.Time) string {
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return ""
	}
	switch ahead := now.Sub(date).Round(time.Second); {
	case ahead >= time.Minute:
		return "the manager's clock is " + ahead.String() + " ahead of the provider's"
	case ahead <= -time.Minute:
		return "the manager's clock is " + (-ahead).String() + " behind the provider's"
	}
	return ""
}

// after returns prefix followed by text, or an empty string if text is empty.
func after(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
