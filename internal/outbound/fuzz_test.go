package outbound

import (
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/heighliner/heighliner/test/await"
)

// FuzzPrintable checks that untrusted bytes become valid text on one line, within the limit.
func FuzzPrintable(f *testing.F) {
	f.Add([]byte("a\nb\u202e\u200bc\xff"), 10)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		if limit < 0 || limit > 4096 {
			return
		}
		got := Printable(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\u2028\u2029\u0085\x00") || Printable([]byte(got), limit) != got {
			t.Fatalf("%q: %q, again %q", text, got, Printable([]byte(got), limit))
		}
	})
}

// FuzzAddress checks that no entry in the flags allows metadata services, and that each address in a denied network is denied.
func FuzzAddress(f *testing.F) {
	f.Add([]byte{169, 254, 169, 254}, "10.0.0.0/8", "example.com")
	f.Fuzz(func(t *testing.T, raw []byte, allow, deny string) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		p, err := New(Config{Allow: []string{allow}, Deny: []string{deny}})
		if err != nil {
			return
		}
		if IsMetadata(a) && p.check("x.example", a, 443) == nil {
			t.Fatalf("%s is allowed", a)
		}
		if prefix, err := netip.ParsePrefix(deny); err == nil && prefix.Contains(a.Unmap()) && p.check("x.example", a, 443) == nil {
			t.Fatalf("%s is denied by %s and allowed", a, deny)
		}
		HostOf(string(raw))
	})
}

// FuzzCA checks that a user's certificates are either read or rejected with a message.
func FuzzCA(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("none"))
	f.Fuzz(func(t *testing.T, ca []byte) {
		defer await.Quick(t)()
		var p *Policy
		if c, err := p.Client(Options{CA: ca}); err == nil {
			c.CloseIdleConnections()
		} else if err.Error() == "" {
			t.Error("an error without a message")
		}
	})
}
