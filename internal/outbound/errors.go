package outbound

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"
)

// WithoutURL describes why an HTTP request received no response. The description does not contain the URL, whose path or query may
// contain a credential. limit is the timeout of the request.
func WithoutURL(err error, limit time.Duration) string {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		if wrapped.Timeout() {
			return fmt.Sprintf("no response within %s", limit)
		}
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no response within %s", limit)
	}
	return err.Error()
}

// RefusedError reports that an address is not allowed.
type RefusedError struct {
	// Host is the host as written by the user.
	Host string
	// Address is the address to which the host resolved. It is the zero value if the host itself is denied.
	Address netip.Addr
	// Why is the reason for the refusal.
	Why string
	// Flag is the manager's flag that decides whether the address is allowed. It is empty if no flag can allow the address.
	Flag string
}

func (e *RefusedError) Error() string {
	what := e.Host
	if e.Address.IsValid() && e.Address.String() != e.Host {
		what = fmt.Sprintf("%s (%s)", e.Host, e.Address)
	}
	switch e.Flag {
	case FlagAllow:
		return fmt.Sprintf("refuse %s: %s; the manager's flag %s can allow it", what, e.Why, e.Flag)
	case FlagDeny:
		return fmt.Sprintf("refuse %s: %s by the manager's flag %s", what, e.Why, e.Flag)
	}
	return fmt.Sprintf("refuse %s: %s", what, e.Why)
}

// TooLargeError reports that a body has more bytes or more JSON values than the limit.
type TooLargeError struct {
	// Limit is the limit in bytes, if the body exceeds it.
	Limit int64
	// Elements is the limit on JSON values, if the body exceeds it.
	Elements int
}

func (e *TooLargeError) Error() string {
	if e.Elements > 0 {
		return fmt.Sprintf("read body: it has more than %d elements", e.Elements)
	}
	return fmt.Sprintf("read body: it is larger than %d bytes", e.Limit)
}

// RedirectError reports a redirect to another host.
type RedirectError struct {
	// From is the requested host.
	From string
	// To contains the scheme and host of the target.
	To string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("follow redirect: %s redirects to %s; use the final address", e.From, e.To)
}
