package show

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

func newStatus(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [MICROSERVICE...]",
		Short: "Show the state of each service; services that are waiting for you come first",
		Long: `Show a line for each group of each service: the active version, the canary with its
share of traffic, and the state of the group. Services that are waiting for a user come first,
then failed services, then services with a rollout in progress. Freezes that apply, and
NotificationPolicies whose messages are not delivered, are listed before the services.`,
		Example: `  # List the services in the namespace
  hlnr status

  # List the services in the cluster that are waiting for a user
  hlnr status -A --only waiting

  # For scripts: see the reference of view.hlnr.io/v1
  hlnr status -o json`,
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	scope, output, prometheus := cli.AddScope(cmd), cli.AddOutput(cmd), addPrometheus(cmd)
	only := []string{}
	cmd.Flags().StringSliceVar(&only, "only", nil, "show only services in these states: "+strings.Join(classes, ", ")+"; waiting means waiting for a user")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(classes, cobra.ShellCompDirectiveNoFileComp)) // The flag exists, so there is no error.
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		chosen, err := classesOf(only)
		if err != nil {
			return err
		}
		b, err := board(cmd, f, scope, args, prometheus)
		if err != nil {
			return err
		}
		b = b.Of(chosen)
		return output.Print(f.Out, b, func(out io.Writer) error {
			return text.Status(out, b, listed(f, output, scope, args))
		}, func() []string { return serviceNames(b) })
	}
	return cmd
}

// classes are the values of --only.
var classes = []string{string(view.Waiting), string(view.Failed), string(view.Moving), string(view.Stable)}

func classesOf(names []string) (out []view.Class, err error) {
	for _, n := range names {
		if !slices.Contains(classes, n) {
			return nil, cli.Usage(fmt.Errorf("--only: %q is not a state: use one of %s", n, strings.Join(classes, ", ")))
		}
		out = append(out, view.Class(n))
	}
	return out, nil
}

// board returns the board of the services with the given names, or of all services if no names are given. It adds observed
// shares from prometheus, unless prometheus is nil.
func board(cmd *cobra.Command, f *cli.Factory, scope *cli.Scope, names []string, prometheus *string) (view.Board, error) {
	q, err := queryOf(f, scope)
	if err != nil {
		return view.Board{}, err
	}
	q.notifications = len(names) == 0
	in, err := objects(cmd.Context(), f, q)
	if err != nil {
		return view.Board{}, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(in.Microservices, func(ms v1alpha1.Microservice) bool { return ms.Name == name }) {
			_, err := findIn(cmd.Context(), f, in, q.namespace, name)
			return view.Board{}, err
		}
	}
	if err := observe(cmd.Context(), f, &in, q.namespace, prometheus); err != nil {
		return view.Board{}, err
	}
	return view.New(in, f.Now()).Only(names), nil
}

func serviceNames(b view.Board) []string {
	out := make([]string, len(b.Services))
	for i, s := range b.Services {
		out[i] = nameOf(s.Name)
	}
	return out
}

func newPreviews(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "previews [MICROSERVICE]",
		Short: "List the previews of pull requests",
		Long: `List the pull requests that have a preview, or are waiting for a slot or for approval,
with their addresses and expiry times.`,
		Example: `  hlnr previews
  hlnr previews shop -o json`,
		Args:              cobra.MaximumNArgs(1),
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	scope, output := cli.AddScope(cmd), cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b, err := board(cmd, f, scope, args, nil)
		if err != nil {
			return err
		}
		v := b.Previews("")
		return output.Print(f.Out, v, func(out io.Writer) error {
			return text.Previews(out, v, listed(f, output, scope, args))
		}, func() []string {
			var names []string
			for _, s := range v.Services {
				names = append(names, nameOf(s.Name))
			}
			return names
		})
	}
	return cmd
}
