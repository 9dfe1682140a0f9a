// Package cli is the frame of the command hlnr: how it is called, which cluster it asks, how it prints,
// and with which words and exit code it ends. A command is a function that takes a [Factory] and gives
// a [cobra.Command]; its errors pass through [Factory.Explain].
//
//	root.go     the root command, and how a call is run
//	help.go     usage texts, and the global options
//	exit.go     exit codes, and errors that carry one
//	errors.go   errors of kubeconfig, connection and API server in plain words
//	factory.go  streams, clock and cluster of a call; flags about which objects are read
//	scheme.go   the kinds that the client knows without discovery
//	output.go   the flag --output
//	names.go    names that do not exist, and the nearest that do
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

// The names by which the binary is called.
const (
	name      = "hlnr"
	plugin    = "kubectl hlnr"
	pluginBin = "kubectl-hlnr"
	// completionBin is what kubectl calls to complete the arguments of the plugin.
	completionBin = "kubectl_complete-hlnr"
)

// Program returns how the user called the command, and the arguments: as a plugin of kubectl, usage
// texts and messages begin with "kubectl hlnr". As kubectl_complete-hlnr it completes the arguments.
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

// NewCommand makes a command of a factory.
type NewCommand func(*Factory) *cobra.Command

// Main runs one call of the program with the signals of the process, and returns its exit code.
// The first SIGINT or SIGTERM ends the call; the second one kills it.
func Main(argv []string, version string, commands ...NewCommand) int {
	klog.SetLogger(logr.Discard()) // What client-go logs of a request that a signal ends is not an answer.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	program, args := Program(argv)
	return int(Run(ctx, New(program, version, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}), args, commands...))
}

// Run runs one call and returns its exit code.
func Run(ctx context.Context, f *Factory, args []string, commands ...NewCommand) Code {
	root := NewRoot(f, commands...)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitYes
	}
	e := &Exit{ExitUsage, err} // an error of cobra itself
	errors.As(err, &e)
	if e.Err != nil {
		fmt.Fprintln(f.ErrOut, "hlnr:", message(e.Err)) // an error of the stream has no reader
	}
	return e.Code
}

// message returns the text of an error without control characters: fields of objects and answers of servers are parts
// of it. Line breaks stay, because lists of faults have some; each further line is indented, so that none that a field
// has reads as a message of hlnr.
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

// NewRoot assembles the command line.
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

// knownCommand rejects arguments of the root, which are commands that do not exist.
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

// finish lets the errors of each command pass through [Factory.Explain].
func finish(cmd *cobra.Command, f *Factory) {
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

// kubectlCompletion is the program that kubectl looks for in the path to complete the arguments of
// the plugin.
const kubectlCompletion = `#!/bin/sh
# Save this as kubectl_complete-hlnr in a folder of your PATH, and make it executable.
exec kubectl hlnr __complete "$@"
`

// addCompletion adds the command completion of cobra, and its form for kubectl. It follows the
// streams of the root as they are now.
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
