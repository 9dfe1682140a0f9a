package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

// TestPrintEscapes checks that each character can be printed as JSON and YAML, and that characters that control terminals are
// escaped.
func TestPrintEscapes(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for r := rune(0); r <= 0x1ffff; r++ {
		if r < 0xd800 || r > 0xdfff {
			all.WriteRune(r)
		}
	}
	for name, text := range map[string]string{
		"DEL": "a\x7fb", "first of C1": "a\u0080b", "NEL": "a\u0085b", "CSI": "\u009b31mred", "last of C1": "a\u009fb", "ESC": "\x1b[31mred",
		"NUL": "a\x00b", "byte order mark": "\ufeffa", "no character": "a\ufffe\uffff", "separators": "a\u2028\u2029b", "lines": "a\nb\tc\r\n",
		"letters": "é 語 😀", "backslash": `a\u0085\\b"c`, "all": all.String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for format, read := range map[string]func([]byte, any) error{
				FormatJSON: json.Unmarshal,
				FormatYAML: func(raw []byte, v any) error { return yaml.Unmarshal(raw, v) },
			} {
				var out bytes.Buffer
				key := "key " + text[:min(len(text), 32)]
				want := map[string]string{"text": text, key: "x"}
				if err := (&Output{Format: format}).Print(&out, want, nil, nil); err != nil {
					t.Errorf("%s: %v", format, err)
					continue
				}
				if at := strings.IndexFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); at >= 0 {
					t.Errorf("%s: %q has a control character", format, out.String()[at:min(at+20, out.Len())])
				}
				var got map[string]string
				if err := read(out.Bytes(), &got); err != nil {
					t.Errorf("%s cannot be read: %v", format, err)
				} else if got["text"] != text || got[key] != "x" {
					t.Errorf("%s changed the text", format)
				}
			}
		})
	}
}
