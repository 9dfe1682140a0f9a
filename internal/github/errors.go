package github

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-github/v57/github"

	"github.com/heighliner/heighliner/internal/outbound"
)

// Kind classifies errors by their remedy.
type Kind string

// These are the kinds of errors.
const (
	// BadConfig means that the address, the name of the repository or the credential is invalid.
	BadConfig Kind = "BadConfig"
	// Unauthorized means that GitHub does not accept the credential (401).
	Unauthorized Kind = "Unauthorized"
	// Forbidden means that the credential lacks a permission for the repository, that no credential was sent, or that the repository is archived
	// (403). If the credential lacks a permission, the message names it. All requests that need the same permission fail.
	Forbidden Kind = "Forbidden"
	// Blocked means that GitHub rejects the credential or all access to the repository, because the GitHub App is suspended, a rule of the
	// organization forbids access, or GitHub has disabled the repository (403, 451). All requests fail.
	Blocked Kind = "Blocked"
	// Locked means that the conversation of one issue or pull request is locked (403). Other conversations are not affected.
	Locked Kind = "Locked"
	// Denied means that GitHub rejects this request for some other reason, or for an unknown reason (403). Other requests may succeed.
	Denied Kind = "Denied"
	// NotFound means that the object does not exist, or that the credential cannot access it (404, 410).
	NotFound Kind = "NotFound"
	// RateLimited means that GitHub limits the rate of requests. No request is sent until Error.RetryAt.
	RateLimited Kind = "RateLimited"
	// Reserved means that only the last tenth of the hourly limit remains. It is reserved for writes. Reads continue at Error.RetryAt.
	Reserved Kind = "Reserved"
	// Unreachable means that the server did not respond, or had an internal error. Try again.
	Unreachable Kind = "Unreachable"
	// Refused means that the address, or an address to which it redirects, is not allowed.
	Refused Kind = "Refused"
	// Conflict means that GitHub cannot process the request now because of another change (409, and 202 for a deployment). Try again.
	Conflict Kind = "Conflict"
	// Invalid means that GitHub does not accept the content of the request (400, 422).
	Invalid Kind = "Invalid"
	// Malformed means that a response is too large or not a valid GitHub response, or that the pages of a list, or redirects, form a loop.
	Malformed Kind = "Malformed"
)

// Transient reports whether an error of this kind may disappear without a change to the configuration.
func (k Kind) Transient() bool {
	return k == Unreachable || k == RateLimited || k == Reserved || k == Conflict
}

// Error is a failed request to GitHub. Its message is one line that contains the operation, the object and the remedy. The message is the same for
// the same failure, because it contains no time, port or request number. It contains no secrets.
type Error struct {
	Kind Kind
	// Op is the operation, for example "list pull requests of".
	Op string
	// Object is the object of the operation. It is usually the repository, with the number or name of the requested item.
	Object string
	// RetryAt is the time at which the next request may be sent. It is set only for RateLimited and Reserved.
	RetryAt time.Time

	detail string // what is wrong; it contains no text from a server
	remedy string
	cause  error // never printed, because it may contain text from a server
}

// Error returns the message.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %q: %s: %s", e.Op, e.Object, e.detail, e.remedy)
}

// Unwrap returns the cause for errors.Is. Do not print the cause.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of an error from this package; empty for any other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// These are errors in redirects and responses, and the error for too many writes.
var (
	errForeign  = errors.New("request to another host")
	errUnusable = errors.New("the response does not have a field that GitHub always sends")
	errLink     = errors.New("the Link header refers to another host")
	errLoop     = errors.New("the pages of the list, or the redirects, form a loop")
	errMethod   = errors.New("redirect changes the method")
	errWriting  = errors.New("too many concurrent writes")
)

// pausedError is the error that the gate returns during a pause.
type pausedError struct {
	until    time.Time
	reserved bool
}

func (*pausedError) Error() string { return "paused by GitHub" }

// call describes a request in error messages.
type call struct {
	op, object string
	// permission is the permission that the call needs from a fine-grained token or a GitHub App.
	permission string
	anonymous  bool
	app        bool // sent as the GitHub App itself
}

const again = "the request is retried"

// classify converts a failure to an Error.
func classify(c call, err error) *Error {
	e := &Error{Op: c.op, Object: c.object, cause: err}
	var (
		done     *Error
		paused   *pausedError
		redirect *outbound.RedirectError
		refused  *outbound.RefusedError
		large    *outbound.TooLargeError
		answer   *github.ErrorResponse
		accepted *github.AcceptedError
	)
	switch {
	case errors.As(err, &done):
		return done
	case errors.As(err, &paused):
		e.RetryAt = paused.until
		switch {
		case errors.Is(err, errWriting):
			e.set(RateLimited, "GitHub's limit for writes is reached", again)
		case paused.reserved:
			e.set(Reserved, "90% of the hourly request limit is used", "reads continue when the limit is reset; use a credential that fewer repositories share, or a longer spec.interval")
		default:
			e.set(RateLimited, "GitHub limits the rate of requests", "requests continue after the pause; use a credential that fewer repositories share, or a longer spec.interval")
		}
	case errors.As(err, &refused):
		e.set(Refused, refused.Error(), "check spec.baseURL")
	case errors.As(err, &redirect), errors.Is(err, errForeign), errors.Is(err, errLink):
		e.set(Refused, "the response refers to another host", "set spec.baseURL to the server's own host")
	case errors.Is(err, errMethod):
		e.set(NotFound, "the repository was moved", "set spec.owner and spec.repo to its current owner and name")
	case errors.As(err, &large):
		e.set(Malformed, "the response is larger than the limit for responses from GitHub", "check that spec.baseURL is the URL of a GitHub server")
	case errors.Is(err, errLoop):
		e.set(Malformed, "the pages of the list, or the redirects, form a loop", "fix the server, or its proxy")
	case errors.As(err, &accepted):
		e.set(Conflict, "GitHub accepted the request, but has not completed it yet", again)
	case errors.As(err, &answer) && answer.Response != nil:
		e.setAnswer(c, answer)
	default:
		e.setNetwork(err)
	}
	return e
}

func (e *Error) set(kind Kind, detail, remedy string) {
	e.Kind, e.detail, e.remedy = kind, detail, remedy
}

// setAnswer classifies a response by its status. It does not report the text of the response, which may contain
// request numbers and text from other users.
func (e *Error) setAnswer(c call, answer *github.ErrorResponse) {
	code := answer.Response.StatusCode
	detail := fmt.Sprintf("GitHub responded with %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusUnauthorized && c.app:
		e.set(Unauthorized, detail, "check appID and privateKey in the Secret that spec.credentialsSecretRef refers to, and the clock of this cluster")
	case code == http.StatusUnauthorized:
		e.set(Unauthorized, detail, "the token is wrong, revoked or expired: store a new one in the Secret that spec.credentialsSecretRef refers to")
	case code == http.StatusForbidden:
		e.setForbidden(c, detail, answer)
	case code == http.StatusUnavailableForLegalReasons:
		e.set(Blocked, detail, "GitHub has blocked this repository: contact its owner, or GitHub support")
	case code == http.StatusBadRequest:
		e.set(Invalid, detail, "the server does not understand the request: use versions of Heighliner and of the server that support the same version of GitHub's API")
	case code == http.StatusNotFound && c.app:
		e.set(NotFound, detail, "install the GitHub App for the owner, or correct installationID in the Secret that spec.credentialsSecretRef refers to")
	case code == http.StatusNotFound && c.anonymous:
		e.set(NotFound, detail, "check spec.owner and spec.repo; a private repository needs spec.credentialsSecretRef")
	case code == http.StatusNotFound:
		e.set(NotFound, detail, "check spec.owner and spec.repo, and check that the credential can access the repository with the permission "+permission(c, nil))
	case code == http.StatusGone:
		e.set(NotFound, detail, "the requested object was deleted, or the feature is turned off in the settings of the repository")
	case code == http.StatusConflict:
		e.set(Conflict, detail, again)
	case code == http.StatusUnprocessableEntity:
		e.set(Invalid, detail, "GitHub rejects the content of the request; the request is sent again when its content changes")
	case code >= 500 || code == http.StatusRequestTimeout:
		e.set(Unreachable, detail, again)
	default:
		e.set(Malformed, detail, "check that spec.baseURL is the URL of a GitHub server")
	}
}

// reasons contains the reasons for status 403, each identified by words from GitHub's message in lower case. The first match is used. The words
// take precedence over the header with the accepted permissions, because GitHub also sends this header if no permission is missing.
var reasons = []struct {
	words          string
	kind           Kind
	detail, remedy string
}{
	{"is locked", Locked, "the conversation is locked", "unlock it on GitHub; other conversations are not affected"},
	{"installation has been suspended", Blocked, "the installation of the GitHub App is suspended", "unsuspend it in the settings of its owner on GitHub, or use another credential"},
	{"ip allow list", Blocked, "the IP allow list of the organization does not contain this cluster", "add to the list the addresses from which this cluster reaches GitHub"},
	{"saml", Blocked, "the organization requires single sign-on", "authorize the token for the organization's single sign-on"},
	{"forbids access via a", Blocked, "the organization does not accept tokens of this kind or age", "use a token that the rules of the organization allow, or a GitHub App"},
	{"enterprise managed user", Blocked, "the account of the token belongs to an enterprise, and is not allowed to use this repository", "use the token of another account, or a GitHub App that the repository's owner installed"},
	{"access blocked", Blocked, "GitHub has blocked the repository", "contact its owner, or GitHub support"},
	{"appear to have the correct authorization", Blocked, "the rules of the organization do not allow the credential", "ask an owner of the organization to allow it"},
	{"archived", Forbidden, "the repository is archived", "remove spec.feedback, or unarchive the repository"},
}

// lacking matches messages about a missing permission.
var lacking = regexp.MustCompile(`resource not accessible|must have .*(rights|access|permission)|not granted`)

// setForbidden classifies a 403 response by the reason that GitHub reports.
func (e *Error) setForbidden(c call, detail string, answer *github.ErrorResponse) {
	message := strings.ToLower(answer.Message)
	for _, reason := range reasons {
		if strings.Contains(message, reason.words) {
			e.set(reason.kind, detail+", "+reason.detail, reason.remedy)
			return
		}
	}
	switch header := answer.Response.Header; {
	case header.Get("X-GitHub-SSO") != "":
		e.set(Blocked, detail, "authorize the token for the organization's single sign-on")
	case c.anonymous:
		e.set(Forbidden, detail, "no credential was sent: set spec.credentialsSecretRef to a Secret")
	case c.app:
		e.set(Denied, detail, "check the installation of the GitHub App in the settings of its owner")
	case lacking.MatchString(message):
		e.set(Forbidden, detail, "give the credential the permission "+permission(c, header))
	default:
		e.set(Denied, detail, "check on GitHub that the credential and the account to which it belongs have the permission "+permission(c, header))
	}
}

// accepted matches the value of the header that lists the accepted permissions in a 403 response, such as
// "deployments=write".
var accepted = regexp.MustCompile(`^[a-z_]+=(read|write|admin)([,;] ?[a-z_]+=(read|write|admin))*$`)

// maxAccepted is the maximum length, in characters, of a permissions header that is included in a message.
const maxAccepted = 300

// permission returns the permission that a call lacks, as reported by GitHub. If GitHub does not report the permission, the result is the permission
// from GitHub's documentation.
func permission(c call, header http.Header) string {
	if required := header.Get("X-Accepted-GitHub-Permissions"); len(required) <= maxAccepted && accepted.MatchString(required) {
		return required
	}
	if c.permission == "" {
		return "metadata=read"
	}
	return c.permission
}

// setNetwork classifies a failure without a response, or with a response that cannot be read. Its messages do not
// contain ports or times.
func (e *Error) setNetwork(err error) {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		dns         *net.DNSError
		operation   *net.OpError
		request     *url.Error
		syntax      *json.SyntaxError
		mistyped    *json.UnmarshalTypeError
	)
	const remedy = again + "; check spec.baseURL and the network path to it"
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &request) && request.Timeout():
		e.set(Unreachable, "the server did not send a complete response in time", remedy)
	case errors.As(err, &certificate), errors.As(err, &authority):
		e.set(Unreachable, "the server's certificate is not trusted", remedy)
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		e.set(Unreachable, "the server uses plain HTTP", remedy)
	case errors.As(err, &dns):
		e.set(Unreachable, fmt.Sprintf("host %q cannot be resolved", dns.Name), remedy)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.set(Unreachable, "connection refused", remedy)
	case errors.Is(err, errUnusable), errors.As(err, &syntax), errors.As(err, &mistyped):
		e.set(Malformed, "the response is not from a GitHub server", "check that spec.baseURL is the URL of a GitHub server")
	case errors.Is(err, context.Canceled), errors.As(err, &operation), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.set(Unreachable, "the connection was interrupted", remedy)
	default:
		e.set(Malformed, "the response cannot be used", "check spec.baseURL, or the proxy in front of the server")
	}
}
