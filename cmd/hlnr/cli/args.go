package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// explainArgs makes a command's errors about its arguments more precise. The errors name the missing or unexpected argument, and
// contain an example.
func explainArgs(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var e *Exit
		if err == nil || errors.As(err, &e) {
			return err
		}
		return Usage(argsError(cmd, args, check))
	}
}

// argsError returns the error for too few or too many arguments.
func argsError(cmd *cobra.Command, args []string, check cobra.PositionalArgs) error {
	text := "unexpected argument " + fmt.Sprintf("%q", lastOf(args))
	if more := func(n int) bool { return check(cmd, append(slices.Clone(args), make([]string, n)...)) == nil }; more(1) || more(2) {
		text = "an argument is missing"
		if names := argNames(cmd); len(names) > len(args) {
			text = names[len(args)] + " is missing"
		}
	}
	text += ": the syntax is " + strings.TrimSuffix(cmd.UseLine(), " [flags]")
	if e := example(cmd); e != "" {
		text += ", for example: " + e
	}
	return errors.New(text)
}

func lastOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[len(args)-1]
}

// argNames returns the names of the arguments in the usage line of a command. It returns nil if the usage line contains alternatives, such as
// "RELEASE | MICROSERVICE [VERSION]".
func argNames(cmd *cobra.Command) []string {
	words := strings.Fields(cmd.Use)[1:]
	if slices.Contains(words, "|") {
		return nil
	}
	return words
}

// example returns a command's first example with arguments or flags, or an empty string if there is none.
func example(cmd *cobra.Command) string {
	for line := range strings.Lines(cmd.Example) {
		if e := strings.TrimSpace(line); strings.HasPrefix(e, cmd.CommandPath()+" ") {
			return e
		}
	}
	return ""
}
