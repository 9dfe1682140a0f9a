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

// The values of --output. A command might support only some of them.
const (
	// FormatText is the default: sentences and tables for users. It is not a value of the flag.
	FormatText = ""
	// FormatTable prints the same text as FormatText.
	FormatTable = "table"
	// FormatWide is the text with additional columns and absolute times.
	FormatWide = "wide"
	// FormatJSON is JSON that is stable within an API version. Times are in RFC 3339 format.
	FormatJSON = "json"
	// FormatYAML is the content of FormatJSON as YAML.
	FormatYAML = "yaml"
	// FormatName prints one "resource.group/name" per line.
	FormatName = "name"
)

// Formats are the formats of most commands.
var Formats = []string{FormatJSON, FormatYAML, FormatWide, FormatName}

// Output is the --output flag of a command.
type Output struct {
	// Format is the format that the user selected, or [FormatText] if the flag is not set.
	Format string

	formats []string
}

// AddOutput adds the --output flag with the formats of the command, which default to [Formats]. Any other value ends
// the command with [ExitUsage].
func AddOutput(cmd *cobra.Command, formats ...string) *Output {
	if len(formats) == 0 {
		formats = Formats
	}
	o := &Output{formats: formats}
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(formats, ", "))
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		cmd.PrintErrln(err) // The flag exists, so this does not happen.
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

// Type returns the name of the value in help text.
func (o *Output) Type() string { return "format" }

// Wide reports whether the text has additional columns and absolute times.
func (o *Output) Wide() bool { return o.Format == FormatWide }

// Print writes the output in the selected format: value as JSON or YAML, the names with one name per line, or the text. text and
// names may be nil if the command does not support these formats.
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

// JSON returns value as indented JSON. Control characters in its strings are escaped.
func JSON(value any) ([]byte, error) {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return append(escape(raw), '\n'), nil
}

// JSONLine returns value as JSON on one line. Control characters in its strings are escaped.
func JSONLine(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return append(escape(raw), '\n'), nil
}

// YAML returns value as YAML. Control characters in its strings are escaped.
func YAML(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	// JSONToYAML parses the JSON as YAML, which does not allow some characters unless they are escaped.
	if raw, err = yaml.JSONToYAML(escape(raw)); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return raw, nil
}

// escape escapes the characters in JSON that terminals might interpret or YAML does not allow, and that encoding/json does not escape.
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
