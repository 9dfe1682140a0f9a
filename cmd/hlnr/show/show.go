// Package show contains the hlnr commands that show the state of services, the reasons for this state, and its history.
// Package internal/view computes their output from objects that are listed once.
//
//	show.go     the list of commands, and their common parts: terminal, names, errors
//	objects.go  reads the objects of a view
//	status.go   status and previews
//	tree.go     tree and history
//	watch.go    watches of tree -w, and its line-by-line output
//	live.go     output of tree -w on a terminal
//	why.go      finds the question that hlnr why answers; the answers are in internal/view/why.go
//	routes.go   reads the routes and Gateways of a host
//	events.go   events and logs
package show

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/measure"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// NewCommands returns the commands of this package. acts are other commands that users can run with keys in a live tree.
func NewCommands(acts ...cli.NewCommand) []cli.NewCommand {
	commands := []cli.NewCommand{newStatus, newWhy, newHistory, newPreviews, newEvents, newLogs}
	tree := func(f *cli.Factory) *cobra.Command { return newTree(f, slices.Concat(commands, acts)) }
	return append(slices.Clone(commands), tree)
}

// terminal returns the options for the text output. They depend on whether the output is a terminal.
func terminal(f *cli.Factory, output *cli.Output) text.Options {
	o := text.Options{Unicode: isUTF8(os.Getenv), Now: f.Now(), Wide: output.Wide(), Program: f.Program()}
	if home, err := f.Home(); err == nil { // The command reports any error of Home when it reads the objects.
		o.Home = home
	}
	if !isTerminal(f.Out) {
		return o
	}
	file := f.Out.(*os.File)
	o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		o.Width = width
	}
	return o
}

// listed returns the options for text output about a list of objects: the objects of the named services or, if no services are named,
// the objects of one namespace or of all namespaces.
func listed(f *cli.Factory, output *cli.Output, scope *cli.Scope, names []string) text.Options {
	o := terminal(f, output)
	o.Namespaces = scope.AllNamespaces()
	namespace, err := scope.Namespace(f)
	switch {
	case len(names) > 0:
		o.Searched = "of " + strings.Join(names, ", ")
	case o.Namespaces:
		o.Searched = "in any namespace"
	case err == nil: // The command reports any error of Namespace when it selects the objects.
		o.Searched = "in namespace " + namespace + " (use -A for all namespaces)"
	}
	return o
}

// addPrometheus adds the --prometheus flag to a command that shows shares of traffic.
func addPrometheus(cmd *cobra.Command) *string {
	return measure.AddPrometheus(cmd.Flags(), "for the observed shares of traffic")
}

// observe adds the observed shares of traffic if a Prometheus server is configured and has them. If the server that the flag sets
// does not respond, observe reports this and omits the shares.
func observe(ctx context.Context, f *cli.Factory, in *view.Input, namespace string, prometheus *string) error {
	if prometheus == nil {
		return nil
	}
	err := measure.Observe(ctx, f, in, namespace, *prometheus)
	var usage *cli.Exit
	if errors.As(err, &usage) || ctx.Err() != nil {
		return err
	}
	if err != nil {
		fmt.Fprintln(f.ErrOut, "hlnr: observed shares are not shown: --prometheus:", text.Clean(err.Error()))
	}
	return nil
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// isUTF8 reports whether the locale uses UTF-8.
func isUTF8(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// microservices returns an empty list of Microservices, for the completion of arguments.
func microservices() client.ObjectList { return &v1alpha1.MicroserviceList{} }

// explain converts errors from views to errors with the message and the exit code of the command.
func explain(err error) error {
	var unknown *view.Unknown
	var ambiguous *view.Ambiguous
	switch {
	case errors.As(err, &unknown):
		return cli.Unknown(unknown.What, unknown.Name, unknown.Names)
	case errors.As(err, &ambiguous):
		return cli.Usage(err)
	}
	return err
}

// nameOf returns the name of a service for "-o name".
func nameOf(name string) string { return "microservice." + v1alpha1.GroupVersion.Group + "/" + name }
