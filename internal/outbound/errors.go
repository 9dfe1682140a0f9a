package outbound

import (
	"fmt"
	"net/netip"
)

// RefusedError reports that an address is not allowed.
type RefusedError struct {
	// Host as it was written.
	Host string
	// Address that it resolved to; invalid if the host itself is denied.
	Address netip.Addr
	// Why it is not allowed.
	Why string
	// Flag that decides; empty if no flag can allow it.
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

// TooLargeError reports that a body has more bytes, or more values of JSON, than are
// read.
type TooLargeError struct {
	// Limit in bytes, if that is exceeded.
	Limit int64
	// Elements is the limit of JSON values, if that is exceeded.
	Elements int
}

func (e *TooLargeError) Error() string {
	if e.Elements > 0 {
		return fmt.Sprintf("read body: it has more than %d elements", e.Elements)
	}
	return fmt.Sprintf("read body: it has more than %d bytes", e.Limit)
}

// RedirectError reports a redirect to another host.
type RedirectError struct {
	// From is the requested host.
	From string
	// To is scheme and host of the target.
	To string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("follow redirect: %s redirects to %s; use the final address", e.From, e.To)
}
