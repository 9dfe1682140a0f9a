package outbound

import (
	"fmt"
	"net/netip"
)

// RefusedError says that an address may not be asked.
type RefusedError struct {
	// Host as it was written.
	Host string
	// Address that it resolved to; not valid where the host itself is denied.
	Address netip.Addr
	// Why it is refused.
	Why string
	// Flag that decides; empty for what nothing opens.
	Flag string
}

func (e *RefusedError) Error() string {
	what := e.Host
	if e.Address.IsValid() && e.Address.String() != e.Host {
		what = fmt.Sprintf("%s (%s)", e.Host, e.Address)
	}
	switch e.Flag {
	case FlagAllow:
		return fmt.Sprintf("refuse %s: %s; the manager's flag %s opens it", what, e.Why, e.Flag)
	case FlagDeny:
		return fmt.Sprintf("refuse %s: %s by the manager's flag %s", what, e.Why, e.Flag)
	}
	return fmt.Sprintf("refuse %s: %s", what, e.Why)
}

// TooLargeError reports that a body has more bytes, or more values of JSON, than are
// read.
type TooLargeError struct {
	// Limit in bytes, where that is what it has more of.
	Limit int64
	// Elements of JSON at most, where that is what it has more of.
	Elements int
}

func (e *TooLargeError) Error() string {
	if e.Elements > 0 {
		return fmt.Sprintf("read body: it has more than %d elements", e.Elements)
	}
	return fmt.Sprintf("read body: it has more than %d bytes", e.Limit)
}

// RedirectError says that an answer leads to another host.
type RedirectError struct {
	// From is the host that was asked.
	From string
	// To is scheme and host of the target.
	To string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("follow redirect: %s leads to %s; name the final address", e.From, e.To)
}
