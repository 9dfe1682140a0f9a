package registry

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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/heighliner/heighliner/internal/outbound"
)

// Kind classifies errors by their remedy.
type Kind string

// These are the kinds of errors.
const (
	// BadName means that the repository, tag or digest is invalid. Change the spec.
	BadName Kind = "BadName"
	// Unauthorized means that the registry rejects the credential, or requires one (401, 403).
	Unauthorized Kind = "Unauthorized"
	// NotFound means that the repository, tag or digest does not exist, or that access to it is not allowed (404).
	NotFound Kind = "NotFound"
	// RateLimited means that the registry limits the rate of requests; see Error.RetryAt.
	RateLimited Kind = "RateLimited"
	// Unreachable means that there was no response, or that the server had an internal error. Try
	// again.
	Unreachable Kind = "Unreachable"
	// Untrusted means that the certificate or protocol of the registry is not the expected one, or that the registry rejects the client certificate.
	Untrusted Kind = "Untrusted"
	// Refused means that the manager does not connect to the address: for example, it is a loopback or link-local address or the address of a
	// metadata service, or a flag of the manager denies it.
	Refused Kind = "Refused"
	// WorkloadIdentityFailed means that the identity of this process provides no credential for the registry.
	WorkloadIdentityFailed Kind = "WorkloadIdentityFailed"
	// Malformed means that a response is not a valid registry response or is too large, or that the pages of a list form a loop.
	Malformed Kind = "Malformed"
)

// Transient reports whether an error of this kind may disappear even if nothing is changed.
func (k Kind) Transient() bool {
	return k == Unreachable || k == RateLimited || k == WorkloadIdentityFailed
}

// Error is a failed request to a registry. Its message is one line that contains the operation, the object and the remedy. The message is the same for
// the same failure, because it contains no time, port or request ID. It contains no secrets.
type Error struct {
	Kind Kind
	// Op is the operation, for example "list tags of".
	Op string
	// Object is the repository, with the tag or digest of the request, if any.
	Object string
	// RetryAt is the time at which the next request may be sent. It is set only for RateLimited.
	RetryAt time.Time

	detail string // the response or network error; it contains no free text from a server
	remedy string
	cause  error // never printed, because it may contain text from a server
}

// Error returns the message.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %q: %s: %s", e.Op, e.Object, e.detail, e.remedy)
}

// Unwrap returns the cause for errors.Is. Do not print the cause.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of an error from this package, or an empty Kind for any other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// IsOfOneImage reports whether an error may affect only one image of a registry. A registry that scans images for
// vulnerabilities may refuse an image (401, 403), and a registry that lost a layer may fail (500).
func IsOfOneImage(err error) bool {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return false
	}
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError}, answer.StatusCode)
}

func badName(op, object, detail, remedy string) *Error {
	return &Error{Kind: BadName, Op: op, Object: object, detail: detail, remedy: remedy}
}

// pausedError is the error that the gate returns during a pause.
type pausedError struct{ until time.Time }

func (*pausedError) Error() string { return "paused by the registry" }

// These errors report responses that cannot be used.
var (
	errTooLarge = errors.New("response too large")
	errTooSlow  = errors.New("response too slow")
	errPageLoop = errors.New("the pages of the tag list form a loop")

	// errNotModified is not a failure. It means that the list still has the ETag that was sent.
	errNotModified = errors.New("list of tags did not change")
	errSchema1     = errors.New("docker image manifest, schema 1")
	errNoImage     = errors.New("neither an image nor an index")
	errManifest    = errors.New("manifest that cannot be read")
)

// classify returns the Error for a failure.
func classify(op, object string, t target, err error) *Error {
	var done *Error
	if errors.As(err, &done) {
		return done
	}
	e := &Error{Op: op, Object: object, cause: err}
	var paused *pausedError
	var unidentified *identityError
	var refused *outbound.RefusedError
	var answer *transport.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unidentified):
		e.set(WorkloadIdentityFailed, "the manager has no credential for this registry: "+unidentified.Error(), "the request is retried; check the workload identity of the manager, and its permissions in the cloud, or add a Secret to spec.imagePullSecrets")
	case errors.As(err, &paused):
		e.RetryAt = paused.until
		e.set(RateLimited, "the registry limits the rate of requests", "requests continue after the pause; use a credential with a higher limit, or a longer spec.interval")
	case errors.As(err, &refused):
		e.setRefused(refused)
	case strings.Contains(err.Error(), privateRealm):
		e.set(Refused, "the registry refers to a token server at a private IP address", "configure the registry to refer to its token server by host name")
	case errors.Is(err, errTooLarge):
		e.set(Malformed, "the response is larger than the limit for registries", "check that the host in spec.image is a registry")
	case errors.Is(err, errTooSlow):
		e.set(Unreachable, "the response is too slow", "the request is retried; check the registry, and the network path to it")
	case errors.Is(err, errPageLoop):
		e.set(Malformed, "the pages of the tag list form a loop", "fix the registry, or its proxy")
	case errors.Is(err, errSchema1):
		e.set(Malformed, "the image uses Docker's manifest schema 1", "push it again with a current tool")
	case errors.Is(err, errNoImage):
		e.set(Malformed, "the tag refers to neither an image nor an index", "exclude it with spec.tagFilter.exclude")
	case errors.Is(err, errManifest):
		e.set(Malformed, "the manifest cannot be read", "push it again, or exclude it with spec.tagFilter.exclude")
	case errors.As(err, &certificate): // The certificate error is reported even if plain HTTP was tried afterwards.
		e.setCertificate(certificate, t.tls)
	case errors.As(err, &answer):
		e.setAnswer(answer, t.auth)
	default:
		e.setNetwork(err, t)
	}
	return e
}

// privateRealm is part of the library's message for a challenge whose realm is a private address.
// The library has no error type for such a challenge.
const privateRealm = "is a private or link-local address"

// setRefused sets the message about a refused address. The message contains the host but not its addresses, because their order may change.
func (e *Error) setRefused(refused *outbound.RefusedError) {
	detail := fmt.Sprintf("%q is not contacted: %s", refused.Host, refused.Why)
	switch refused.Flag {
	case outbound.FlagAllow:
		e.set(Refused, detail, "use a registry at another address, or add this address to the manager's flag "+refused.Flag)
	case outbound.FlagDeny:
		e.set(Refused, detail+" by the manager's flag "+refused.Flag, "use another registry")
	default:
		e.set(Refused, detail, "use a registry at another address")
	}
}

// plain reports whether plain HTTP was also tried. If it was, missing support for HTTPS is not the cause of the error.
func (t target) plain() bool { return t.repo.Scheme() == "http" && t.tls.Default() }

func (e *Error) set(kind Kind, detail, remedy string) {
	e.Kind, e.detail, e.remedy = kind, detail, remedy
}

// setAnswer classifies a response by its status. It reports only the error codes of the specification, because the rest of
// the response may contain request IDs.
func (e *Error) setAnswer(answer *transport.Error, auth Credential) {
	detail := fmt.Sprintf("the registry responded with %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if codes := knownCodes(answer.Errors); codes != "" {
		detail += " (" + codes + ")"
	}
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		if auth.Anonymous() {
			e.set(Unauthorized, detail, "no credential was sent: add a Secret to spec.imagePullSecrets, and check that the repository exists")
			return
		}
		if auth.WorkloadIdentity {
			e.set(Unauthorized, detail, "the workload identity of the manager is not allowed to read the repository: grant it this permission, or add a Secret to spec.imagePullSecrets")
			return
		}
		e.set(Unauthorized, detail, "check the credential in spec.imagePullSecrets, and its permission to read the repository")
	case code == http.StatusNotFound && isPing(answer):
		e.set(Malformed, "no registry responds at this host", "check the host in spec.image")
	case code == http.StatusNotFound && auth.Anonymous():
		e.set(NotFound, detail, "check spec.image; a private repository needs spec.imagePullSecrets")
	case code == http.StatusNotFound:
		e.set(NotFound, detail, "check spec.image, and the credential's permission to read it")
	case code >= 500 || code == http.StatusRequestTimeout:
		e.set(Unreachable, detail, "the request is retried")
	default:
		e.set(Malformed, detail, "check that the host in spec.image is a registry")
	}
}

func isPing(answer *transport.Error) bool {
	return answer.Request != nil && answer.Request.URL != nil && strings.Trim(answer.Request.URL.Path, "/") == "v2"
}

// codes contains the error codes of the OCI distribution specification that explain why a request was refused.
var codes = []transport.ErrorCode{transport.NameUnknownErrorCode, transport.ManifestUnknownErrorCode, transport.NameInvalidErrorCode,
	transport.TagInvalidErrorCode, transport.UnauthorizedErrorCode, transport.DeniedErrorCode, transport.UnsupportedErrorCode,
	transport.TooManyRequestsErrorCode, transport.UnavailableErrorCode}

func knownCodes(diagnostics []transport.Diagnostic) string {
	var known []string
	for _, d := range diagnostics {
		if slices.Contains(codes, d.Code) && !slices.Contains(known, string(d.Code)) {
			known = append(known, string(d.Code))
		}
	}
	slices.Sort(known)
	return strings.Join(known, ", ")
}

// setNetwork classifies a failure without a valid response. Its messages do not contain ports or times.
func (e *Error) setNetwork(err error, t target) {
	own := t.tls
	var (
		dns       *net.DNSError
		operation *net.OpError
		request   *url.Error
		syntax    *json.SyntaxError
		mistyped  *json.UnmarshalTypeError
	)
	const again = "the request is retried; check the host in spec.image or spec.additionalImages, and the network path to it"
	switch {
	case errors.As(err, &operation) && operation.Op == "dial" && operation.Timeout():
		e.set(Unreachable, "could not connect in time", again)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &request) && request.Timeout():
		e.set(Unreachable, "the server did not send a complete response in time", "the request is retried; increase spec.timeout for a slow registry")
	case !t.plain() && (errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, new(tls.RecordHeaderError))):
		e.set(Untrusted, "the registry uses plain HTTP", plainRemedy(own))
	case errors.As(err, &operation) && operation.Op == "remote error": // operation.Err is the TLS alert, in the words of the specification
		e.set(Untrusted, fmt.Sprintf("the registry aborted the TLS handshake (%v)", operation.Err), clientRemedy(own))
	case errors.As(err, &dns):
		e.set(Unreachable, fmt.Sprintf("host %q cannot be resolved", dns.Name), again)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.set(Unreachable, "connection refused", again)
	case errors.Is(err, context.Canceled), errors.As(err, &operation), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.set(Unreachable, "the connection was interrupted", again)
	case errors.As(err, &syntax), errors.As(err, &mistyped):
		e.set(Malformed, "the response is not from a registry", "check the host in spec.image")
	case errors.Is(err, errPlain):
		e.set(Untrusted, "the registry does not respond over HTTPS with the certificates that spec.certSecretRef refers to", clientRemedy(own)+", and check the port in spec.image")
	default:
		e.set(Malformed, "the response cannot be used", "check the host in spec.image, or the proxy in front of the registry")
	}
}

func plainRemedy(own TLS) string {
	if own.Default() {
		return "set spec.insecure to true if that is intended"
	}
	return "add the registry's HTTPS port to spec.image: with spec.certSecretRef, only HTTPS is used"
}

// clientRemedy returns the remedy for a registry that rejects the client certificate, or requires one.
func clientRemedy(own TLS) string {
	if own.Certificate == "" {
		return "it may require a client certificate: set spec.certSecretRef to a Secret with tls.crt and tls.key"
	}
	return "check tls.crt and tls.key in the Secret that spec.certSecretRef refers to"
}

// setCertificate sets the message about the certificate of the server.
func (e *Error) setCertificate(err *tls.CertificateVerificationError, own TLS) {
	var (
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &host):
		e.set(Untrusted, "the registry's certificate is not for this host", "use a certificate for this host, or use a host in spec.image for which the certificate is valid")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.set(Untrusted, "the registry's certificate has expired or is not valid yet", "renew it, and check the clock of the node")
	case own.CA == "":
		e.set(Untrusted, "the registry's certificate is not trusted", "set spec.certSecretRef to a Secret with the certificate of its authority as ca.crt, or use a certificate from a public authority")
	default:
		e.set(Untrusted, "the registry's certificate is not trusted", "it was signed by an authority that is not in ca.crt of the Secret that spec.certSecretRef refers to: correct ca.crt")
	}
}

// badTLS returns the error for invalid certificates. The cause is an error from ParseTLS.
func badTLS(op, object string, cause error) *Error {
	e := &Error{Op: op, Object: object, cause: cause}
	e.set(Untrusted, "the certificates cannot be used", "check the Secret that spec.certSecretRef refers to")
	return e
}
