package act

import (
	"fmt"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// reasonFlag is the --reason flag of a command. The schema of the field that stores the reason limits its length.
type reasonFlag struct {
	text *string
	max  int // maximum number of characters
}

// addReason adds the --reason flag. If the reason is longer than the limit, the command fails before it sends a
// request.
func addReason(flags *pflag.FlagSet, text *string, limit int, usage string) {
	flags.Var(reasonFlag{text, limit}, "reason", fmt.Sprintf("%s; at most %d characters", usage, limit))
}

func (f reasonFlag) String() string {
	if f.text == nil {
		return "" // pflag calls String on the zero value.
	}
	return *f.text
}

func (f reasonFlag) Type() string { return "string" }

func (f reasonFlag) Set(text string) error {
	if n := utf8.RuneCountInString(text); n > f.max {
		return fmt.Errorf("it has %d characters, but at most %d are allowed", n, f.max)
	}
	*f.text = text
	return nil
}
