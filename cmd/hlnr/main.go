// Command hlnr answers questions about the objects of hlnr.io from a terminal.
//
// Its exit codes are 0 for yes, 1 for a failure, 2 for a wrong command line or
// input, and 3 for no.
//
//	main.go      the command line and its exit codes
//	explain.go   the command explain
//	policy.go    reads an ImagePolicy as an API server does
//	progress.go  lines about progress
//	report.go    the result as a table or JSON
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set when the binary is built.
var version = "dev"

// The exit codes.
const (
	exitYes    = 0
	exitFailed = 1
	exitUsage  = 2
	exitNo     = 3
)

// exit ends the command with a code. Without an error it prints nothing.
type exit struct {
	code int
	err  error
}

// Error returns the message.
func (e *exit) Error() string { return fmt.Sprint(e.err) }

// Unwrap returns the cause.
func (e *exit) Unwrap() error { return e.err }

func failed(err error) error { return &exit{exitFailed, err} }
func usage(err error) error  { return &exit{exitUsage, err} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitYes
	}
	e := &exit{exitUsage, err} // an error of cobra itself
	errors.As(err, &e)
	if e.err != nil {
		fmt.Fprintln(stderr, "hlnr:", e.err)
	}
	return e.code
}

// command is the command line.
func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hlnr",
		Short: "Ask about the objects of hlnr.io from a terminal",
		Long: `hlnr answers questions about the objects of hlnr.io.

Exit codes: 0 yes, 1 failure, 2 wrong command line or input, 3 no.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(explainCommand(), &cobra.Command{
		Use:   "version",
		Short: "Print the version of hlnr",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), "hlnr", version); err != nil {
				return failed(fmt.Errorf("write output: %w", err))
			}
			return nil
		},
	})
	return cmd
}
