package status

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzLine checks that the result of LineOf is one line of valid text within its limit, and that LineOf does not change it again.
func FuzzLine(f *testing.F) {
	f.Add("a\nb\u2028\xff…", 10)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 4 || limit > 4096 {
			return
		}
		got := LineOf(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00") || LineOf(got, limit) != got {
			t.Fatalf("%q: %q, again %q", text, got, LineOf(got, limit))
		}
	})
}
