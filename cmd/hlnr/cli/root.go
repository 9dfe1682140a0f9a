// Package cli contains the common parts of the hlnr commands: names, access to the cluster, output, messages and exit
// codes. A command is a function that takes a [Factory] and returns a [cobra.Command]. [Factory.Explain] converts its
// errors.
//
//	root.go       the root command, and the functions that run it
//	help.go       usage text, and the options command
//	exit.go       exit codes, and errors with an exit code
//	errors.go     messages for kubeconfig, connection and API server errors
//	factory.go    streams, clock and access to the cluster, and the flags that select objects
//	scheme.go     the kinds that the client knows without discovery
//	output.go     the flag --output
//	names.go      errors for unknown names, with the nearest names
//	elsewhere.go  errors for Microservices in other namespaces, and for unknown namespaces
//	args.go       errors for missing and unexpected arguments
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/heighliner/heighliner/internal/view/text"
)

// The names with which users and kubectl call the program.
const (
	name      = "hlnr"
	plugin    = "kubectl hlnr"
	pluginBin = "kubectl-hlnr"
	// completionBin is the program that kubectl calls to complete the arguments of the plugin.
	completionBin = "kubectl_complete-hlnr"
)

// Program returns the name with which the user called the command, and the arguments. For a kubectl plugin, the name in
// usage text and messages is "kubectl hlnr". If the binary is called kubectl_complete-hlnr, the returned
// arguments request shell completion.
func Program(argv []string) (program string, args []string) {
	if len(argv) == 0 {
		return name, nil
	}
	switch strings.TrimSuffix(filepath.Base(argv[0]), ".exe") {
	case pluginBin:
		return plugin, argv[1:]
	case completionBin:
		return plugin, append([]string{cobra.ShellCompRequestCmd}, argv[1:]...)
	}
	return name, argv[1:]
}

// NewCommand is a function that returns a command that uses the factory.
type NewCommand func(*Factory) *cobra.Command

// Main runs the program, and returns its exit code. The first SIGINT or SIGTERM ends the run, and the second kills the
// process.
func Main(argv []string, version string, commands ...NewCommand) int {
	klog.SetLogger(logr.Discard()) // Users do not need the client-go log, for example the messages about requests that a signal interrupted.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	program, args := Program(argv)
	return int(Run(ctx, New(program, version, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}), args, commands...))
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, f *Factory, args []string, commands ...NewCommand) Code {
	root := NewRoot(f, commands...)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitYes
	}
	e := &Exit{ExitUsage, err} // An error from cobra is not an Exit.
	errors.As(err, &e)
	if e.Err != nil {
		fmt.Fprintln(f.ErrOut, "hlnr:", message(e.Err)) // A write error on this stream cannot be reported.
	}
	return e.Code
}

// message returns the text of an error without control characters, which object fields and server responses can
// contain. It keeps line breaks, because lists of problems contain them. It indents all lines except the first, so that
// no line looks like another message of hlnr.
func message(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, l := range lines {
		lines[i] = text.Clean(l)
		if i > 0 {
			lines[i] = strings.TrimRight("  "+strings.TrimPrefix(lines[i], "  "), " ")
		}
	}
	return strings.Join(lines, "\n")
}

// NewRoot returns the root command with the given commands.
func NewRoot(f *Factory, commands ...NewCommand) *cobra.Command {
	root := &cobra.Command{
		Use:           name,
		Short:         "Show, explain and control releases from a terminal",
		Long:          "hlnr shows, explains and controls the releases that Heighliner manages.\n\n" + codesText(),
		Version:       f.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: f.program},
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(f.In)
	root.SetOut(f.Out)
	root.SetErr(f.ErrOut)
	root.SetVersionTemplate("{{.Name}} version {{.Version}}\n")
	f.addFlags(root.PersistentFlags())
	for _, c := range commands {
		root.AddCommand(c(f))
	}
	root.AddCommand(newVersionCommand(f), newOptionsCommand())
	addCompletion(root)
	setHelp(root, f)
	finish(root, f)
	return root
}

// knownCommand rejects arguments to the root command, because they are unknown commands.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	unknown := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := Nearest(args[0], names); len(near) > 0 {
		return Usage(fmt.Errorf("%s; did you mean %s?", unknown, quoted(near, " or ")))
	}
	return Usage(fmt.Errorf("%s; \"%s --help\" lists the commands", unknown, cmd.CommandPath()))
}

// finish makes each command convert its errors with [Factory.Explain], and makes its argument errors more precise.
func finish(cmd *cobra.Command, f *Factory) {
	explainArgs(cmd)
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return f.Explain(cmd.Context(), run(cmd, args))
		}
	}
	for _, c := range cmd.Commands() {
		finish(c, f)
	}
}

func newVersionCommand(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of hlnr",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return write(cmd.OutOrStdout(), []byte("hlnr "+f.Version+"\n"))
		},
	}
}

// kubectlCompletion is the program with which kubectl completes the arguments of the plugin. kubectl searches PATH for it.
const kubectlCompletion = `#!/bin/sh
# Save this as kubectl_complete-hlnr in a folder on your PATH, and make it executable.
exec kubectl hlnr __complete "$@"
`

// addCompletion adds cobra's completion command, and its variant for kubectl. It must be called after the output stream
// of the root command is set, because cobra's command keeps the stream that is set when that command is created.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.AddCommand(&cobra.Command{
			Use:   "kubectl",
			Short: "Generate the program that completes the arguments of \"kubectl hlnr\"",
			Long: `Generate the program with which kubectl completes the arguments of "kubectl hlnr". Save the
program as kubectl_complete-hlnr in a folder on your PATH, where kubectl finds it. Alternatively, you
can create a link with this name to the hlnr binary.`,
			Example: `  hlnr completion kubectl > ~/bin/kubectl_complete-hlnr && chmod +x ~/bin/kubectl_complete-hlnr`,
			Args:    cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := io.WriteString(cmd.OutOrStdout(), kubectlCompletion)
				return err
			},
		})
	}
}
