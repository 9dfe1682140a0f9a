package explain

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

// hostile is text from the API that would control a terminal, begin a new line and reverse the text that
// follows.
const hostile = "a\x1b[2J\u009b31m\r\nb\tc\u202e"

// TestHostileStatus checks that text in the status of a policy can neither control the terminal nor add lines or columns.
func TestHostileStatus(t *testing.T) {
	t.Parallel()
	for form, lines := range map[string]int{"": 5, outputJSON: 0, outputYAML: 0} {
		r := report{Tags: 1, Latest: hostile, Offered: 1, Candidates: []judged{{Tag: hostile, Version: hostile, Group: hostile, Verdict: "Level", Reason: hostile}}, Notes: []string{hostile}}
		var out bytes.Buffer
		if err := r.write(&out, form); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); lines > 0 && n != lines {
			t.Errorf("%d lines, want %d: %s", n, lines, out.String())
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' || lines > 0 && unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 {
			t.Errorf("format %q: %q", form, out.String()[i:])
		}
	}
}
