package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// The values of --output. Not every command supports all of them.
const (
	// FormatText is the default: sentences and tables for users. It cannot be named in the flag.
	FormatText = ""
	// FormatTable is the text too.
	FormatTable = "table"
	// FormatWide is the text with more columns and absolute times.
	FormatWide = "wide"
	// FormatJSON is stable within an API version; times are RFC 3339.
	FormatJSON = "json"
	// FormatYAML is the content of FormatJSON as YAML.
	FormatYAML = "yaml"
	// FormatName is one "resource.group/name" per line.
	FormatName = "name"
)

// Formats are the formats of most commands.
var Formats = []string{FormatJSON, FormatYAML, FormatWide, FormatName}

// Output is the flag --output of one command.
type Output struct {
	// Format that the user selected; [FormatText] without the flag.
	Format string

	formats []string
}

// AddOutput adds the flag --output with the formats of the command; without formats, [Formats]. Another value
// ends the command with [ExitUsage].
func AddOutput(cmd *cobra.Command, formats ...string) *Output {
	if len(formats) == 0 {
		formats = Formats
	}
	o := &Output{formats: formats}
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(formats, ", "))
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		cmd.PrintErrln(err) // the flag was added above
	}
	return o
}

// String returns the format.
func (o *Output) String() string { return o.Format }

// Set selects the format.
func (o *Output) Set(format string) error {
	if !slices.Contains(o.formats, format) {
		return fmt.Errorf("unknown format %q: use one of %s", format, strings.Join(o.formats, ", "))
	}
	o.Format = format
	return nil
}

// Type returns the name of the value in help.
func (o *Output) Type() string { return "format" }

// Wide reports whether the text has additional columns and absolute times.
func (o *Output) Wide() bool { return o.Format == FormatWide }

// Print writes value as JSON or YAML, the names one per line, or the text. text and names may be nil if the
// command does not support that format.
func (o *Output) Print(out io.Writer, value any, text func(io.Writer) error, names func() []string) error {
	switch o.Format {
	case FormatJSON:
		raw, err := JSON(value)
		if err != nil {
			return err
		}
		return write(out, raw)
	case FormatYAML:
		raw, err := YAML(value)
		if err != nil {
			return err
		}
		return write(out, raw)
	case FormatName:
		var b strings.Builder
		for _, n := range names() {
			b.WriteString(n + "\n")
		}
		return write(out, []byte(b.String()))
	}
	return text(out)
}

// JSON returns value as JSON for people and scripts. Control characters in its texts are escaped.
func JSON(value any) ([]byte, error) {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return append(escape(raw), '\n'), nil
}

// JSONLine returns value as JSON in one line, escaped in the same way.
func JSONLine(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return append(escape(raw), '\n'), nil
}

// YAML returns value as YAML. Control characters in its texts are escaped.
func YAML(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	// JSONToYAML reads JSON as YAML, in which these characters are not allowed without an escape.
	if raw, err = yaml.JSONToYAML(escape(raw)); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return raw, nil
}

// escape escapes in JSON the characters that encoding/json does not escape, but that terminals may interpret
// and YAML does not allow.
func escape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for _, r := range string(raw) {
		switch {
		case r >= 0x7f && r <= 0x9f, r == 0xfeff, r == 0xfffe, r == 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func write(out io.Writer, text []byte) error {
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
