// Package cli has the common parts of the command hlnr: its names, the cluster, output, messages and exit codes. A
// command is a function that takes a [Factory] and returns a [cobra.Command]; [Factory.Explain] converts its errors.
//
//	root.go     the root command, and how it runs
//	help.go     usage texts, and the global options
//	exit.go     exit codes, and errors that carry one
//	errors.go   messages for errors of kubeconfig, connection and API server
//	factory.go  streams, clock and cluster; flags that select objects
//	scheme.go   the kinds that the client knows without discovery
//	output.go   the flag --output
//	names.go    errors for unknown names, with the nearest names
//	elsewhere.go  errors for Microservices of other namespaces, and for unknown namespaces
//	args.go     errors about missing and unexpected arguments
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

// The names of the binary.
const (
	name      = "hlnr"
	plugin    = "kubectl hlnr"
	pluginBin = "kubectl-hlnr"
	// completionBin is the program that kubectl calls to complete the arguments of the plugin.
	completionBin = "kubectl_complete-hlnr"
)

// Program returns how the user called the command, and the arguments: for a plugin of kubectl, usage texts and
// messages begin with "kubectl hlnr". As kubectl_complete-hlnr it completes the arguments.
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

// NewCommand returns a command that uses a factory.
type NewCommand func(*Factory) *cobra.Command

// Main runs the program with the signals of the process, and returns its exit code. The first SIGINT or SIGTERM ends
// the run; the second one kills it.
func Main(argv []string, version string, commands ...NewCommand) int {
	klog.SetLogger(logr.Discard()) // The log of client-go about a request that a signal ends is not for users.
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
	e := &Exit{ExitUsage, err} // an error of cobra
	errors.As(err, &e)
	if e.Err != nil {
		fmt.Fprintln(f.ErrOut, "hlnr:", message(e.Err)) // an error of this stream cannot be reported
	}
	return e.Code
}

// message returns the text of an error without control characters, which fields of objects and responses of servers
// may contain. Line breaks stay, because lists of faults have some; further lines are indented, so that none of them
// can pass for a message of hlnr.
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

// NewRoot returns the root command with all commands.
func NewRoot(f *Factory, commands ...NewCommand) *cobra.Command {
	root := &cobra.Command{
		Use:           name,
		Short:         "Show, explain and control releases from a terminal",
		Long:          "hlnr shows what the releases of hlnr.io do and why, and controls them.\n\n" + codesText(),
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

// knownCommand rejects arguments of the root command, which are unknown commands.
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

// finish converts the errors of each command by [Factory.Explain], and those about its arguments.
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

// kubectlCompletion is the program that kubectl searches in the path to complete the arguments of the plugin.
const kubectlCompletion = `#!/bin/sh
# Save this as kubectl_complete-hlnr in a folder of your PATH, and make it executable.
exec kubectl hlnr __complete "$@"
`

// addCompletion adds the command completion of cobra, and its form for kubectl. It uses the current streams of the
// root.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.AddCommand(&cobra.Command{
			Use:   "kubectl",
			Short: "Generate the program that completes \"kubectl hlnr\"",
			Long: `Generate the program by which kubectl completes the arguments of "kubectl hlnr".
kubectl finds it by its name in a folder of your PATH. A link with that name to the
binary does the same.`,
			Example: `  hlnr completion kubectl > ~/bin/kubectl_complete-hlnr && chmod +x ~/bin/kubectl_complete-hlnr`,
			Args:    cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := io.WriteString(cmd.OutOrStdout(), kubectlCompletion)
				return err
			},
		})
	}
}
