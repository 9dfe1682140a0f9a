package workloadidentity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/oauth2"

	"github.com/heighliner/heighliner/internal/outbound"
)

// Error reports why there is no credential. Its message is one line without secrets, and is always the same for the
// same failure.
type Error struct {
	// Service is the service that was called, such as "Amazon ECR in eu-west-1".
	Service string
	// Detail describes the response of the service, or why it was not called.
	Detail string

	cause error // never printed, because it may contain text from a server
}

// Error returns the message.
func (e *Error) Error() string { return e.Service + " " + e.Detail }

// Unwrap returns the cause for errors.Is. Do not print the cause.
func (e *Error) Unwrap() error { return e.cause }

// word matches the error codes that cloud services return.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]{0,63}$`)

// federated matches the status code in an error from Google's library for workload identity federation. The library has no type for this error.
var federated = regexp.MustCompile(`status code ([1-5][0-9]{2})\b`)

// failed returns the Error for a failed request to a service.
func failed(service string, err error) *Error {
	e := &Error{Service: service, cause: err}
	var (
		refused  *outbound.RefusedError
		api      smithy.APIError
		response *smithyhttp.ResponseError
		azure    *azcore.ResponseError
		google   *oauth2.RetrieveError
		dns      *net.DNSError
		request  *url.Error
	)
	switch {
	case errors.As(err, &refused):
		e.Detail = "is not contacted: " + refused.Why
	case errors.As(err, new(*http.MaxBytesError)):
		e.Detail = "returned a response that is too large"
	case errors.As(err, &api) && word.MatchString(api.ErrorCode()):
		e.Detail = "responds with " + api.ErrorCode()
	case errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusMultipleChoices:
		e.Detail = answer(response.HTTPStatusCode(), "")
	case errors.As(err, &azure):
		e.Detail = answer(azure.StatusCode, azure.ErrorCode)
	case errors.As(err, &google) && google.Response != nil:
		e.Detail = answer(google.Response.StatusCode, google.ErrorCode)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &request) && request.Timeout():
		e.Detail = "does not respond in time"
	case errors.As(err, &dns):
		e.Detail = fmt.Sprintf("cannot be reached: host %q cannot be resolved", dns.Name)
	case errors.As(err, new(*net.OpError)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Detail = "cannot be reached"
	case federated.MatchString(err.Error()):
		status, _ := strconv.Atoi(federated.FindStringSubmatch(err.Error())[1])
		e.Detail = answer(status, "")
	default:
		e.Detail = "returned no credential"
	}
	return e
}

// answer describes the status of a response. It adds the error code if the code matches the regular
// expression word.
func answer(status int, code string) string {
	text := fmt.Sprintf("responds with %d %s", status, http.StatusText(status))
	if word.MatchString(code) {
		text += " (" + code + ")"
	}
	return text
}

// maxAnswer is the maximum size of one response in bytes; a token is a few thousand bytes long.
const maxAnswer = 1 << 20

// client returns a client that limits the size of responses and follows no redirects.
func client(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     bounded{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       requestTimeout,
	}
}

type bounded struct{ http.RoundTripper }

// RoundTrip sends a request and limits the size of the response.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}
