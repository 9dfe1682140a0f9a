package notify

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/heighliner/heighliner/internal/outbound"
)

// maxText is the maximum length, in bytes, of short texts such as errors. maxRetryAfter is the maximum wait that a receiver can request.
const (
	maxText       = 256
	maxRetryAfter = 10 * time.Minute
)

// Error describes why a message was not accepted. It never contains the address, which may be a secret.
type Error struct {
	// Rejected reports whether the receiver does not accept this message. The receiver may accept other messages.
	Rejected bool
	// Final reports whether this message can never be sent. Such an error does not count as a failure of the receiver.
	Final bool
	// After is the wait that the receiver requests. 0 means that the receiver requests no wait.
	After time.Duration
	// code is the HTTP status code. It is 0 for redirects, and for errors that are not based on a status code.
	code int
	text string
}

func (e *Error) Error() string { return e.text }

// errorf returns an error that counts as a failure of the receiver.
func errorf(format string, args ...any) *Error {
	return &Error{text: outbound.Printable(fmt.Appendf(nil, format, args...), maxText)}
}

// finalf returns an error for a message that can never be sent.
func finalf(format string, args ...any) *Error {
	e := errorf(format, args...)
	e.Rejected, e.Final = true, true
	return e
}

// errorOf returns the error for a call that received no response.
func errorOf(err error) *Error {
	return errorf("%s", outbound.WithoutURL(err, timeout))
}

// errorOfAnswer returns the error for an unsuccessful response.
func errorOfAnswer(answer *http.Response, body string) *Error {
	e := errorf("HTTP %d: %s", answer.StatusCode, body)
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		e.Rejected = true
	}
	e.code = answer.StatusCode
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		e = errorf("HTTP %d: redirects are not followed", answer.StatusCode)
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.After = min(time.Duration(min(seconds, 3600))*time.Second, maxRetryAfter)
	}
	return e
}

// NewError returns the Error for a message that could not be sent.
func NewError(err error) *Error { return errorOf(err) }
