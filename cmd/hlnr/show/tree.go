package show

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// frugal is the garbage collection target percentage of a command that follows changes. Such a command runs for hours and does little work,
// so a low value saves memory.
const frugal = 10

func newTree(f *cli.Factory, keyed []cli.NewCommand) *cobra.Command {
	var pods, all, follow bool
	cmd := &cobra.Command{
		Use:   "tree [MICROSERVICE]",
		Short: "Show a service with its groups, releases and rollouts",
		Long: `Show a service, or all services: the groups with their hosts, their releases with status, share of
traffic and pods, the state of any rollout, and the commands that apply. Several services are listed
in the same order as in hlnr status; as JSON, the output is a Board.

The output contains the names of pods that are not ready, and the number of other pods.

With --watch, the command follows changes. On a terminal, the view is redrawn in place, and you can
press keys to continue, deprecate, retry or adopt a release. Each of these actions requires
confirmation. Without a terminal, the command prints a line for each release, and then a line for each change.`,
		Example: `  hlnr tree shop
  hlnr tree shop -w

  # Also show all pods, draining releases and rejected versions
  hlnr tree shop --pods --all

  # All services in the cluster
  hlnr tree -A`,
		Args:              cobra.MaximumNArgs(1),
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "follow changes until interrupted")
	cmd.Flags().BoolVar(&pods, "pods", false, "show the name of each pod")
	cmd.Flags().BoolVar(&all, "all", false, "also show draining releases, all previews, and rejected versions")
	scope, output, prometheus := cli.AddScope(cmd), cli.AddOutput(cmd), addPrometheus(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := queryOf(f, scope)
		if err != nil {
			return err
		}
		if follow {
			defer debug.SetGCPercent(debug.SetGCPercent(frugal))
		}
		if q.pods, q.cronJobs = true, true; len(args) > 0 {
			q.service = args[0]
		}
		in, err := objects(cmd.Context(), f, q)
		if err != nil {
			return err
		}
		if follow && (len(args) == 0 || output.Format != cli.FormatText && !output.Wide()) {
			return cli.Usage(errors.New("--watch follows one Microservice, and supports only text output: name the Microservice, and omit --output"))
		}
		if !follow { // With --watch, the observed shares would soon be outdated.
			if err := observe(cmd.Context(), f, &in, q.namespace, prometheus); err != nil {
				return err
			}
		}
		o, t := listed(f, output, scope, args), text.TreeOptions{Pods: pods, All: all}
		if len(args) == 0 {
			return printTrees(f, output, view.New(in, f.Now()), o, t)
		}
		namespace, err := findIn(cmd.Context(), f, in, q.namespace, args[0])
		if err != nil {
			return err
		}
		s, _ := view.NewService(in, namespace, args[0], f.Now())
		switch {
		case follow && isTerminal(f.Out) && isTerminal(f.In):
			return watchLive(cmd.Context(), f, newLive(f, namespace, s.Name, in, o, t), keyed)
		case follow:
			return watchLines(cmd.Context(), f, namespace, s.Name, in, o)
		}
		return output.Print(f.Out, s, func(out io.Writer) error {
			return text.Tree(out, s, o, t)
		}, func() []string { return []string{nameOf(s.Name)} })
	}
	return cmd
}

// printTrees prints the trees of all services, one after the other.
func printTrees(f *cli.Factory, output *cli.Output, b view.Board, o text.Options, t text.TreeOptions) error {
	return output.Print(f.Out, b, func(out io.Writer) error {
		if len(b.Services) == 0 {
			return text.Status(out, b, o)
		}
		for i, s := range b.Services {
			if i > 0 {
				if _, err := fmt.Fprintln(out); err != nil {
					return fmt.Errorf("write output: %w", err)
				}
			}
			if err := text.Tree(out, s, o, t); err != nil {
				return err
			}
		}
		return nil
	}, func() []string { return serviceNames(b) })
}

func newHistory(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history MICROSERVICE",
		Short: "List the releases of a service with their results",
		Long: `List the existing releases of a service, with the newest release first. Each line contains
the start time of the release, the time until it became active or failed, the user who made
a decision about it, and its result. Releases that were removed are not listed.`,
		Example:           `  hlnr history shop`,
		Args:              cobra.ExactArgs(1),
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	output := cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, err := f.Namespace()
		if err != nil {
			return err
		}
		in, err := objects(cmd.Context(), f, query{namespace: namespace})
		if err != nil {
			return err
		}
		h, ok := view.NewHistory(in, namespace, args[0], f.Now())
		if !ok {
			_, err := findIn(cmd.Context(), f, in, namespace, args[0])
			return err
		}
		return output.Print(f.Out, h, func(out io.Writer) error {
			return text.History(out, h, terminal(f, output))
		}, func() []string {
			names := make([]string, len(h.Rollouts))
			for i, r := range h.Rollouts {
				names[i] = "versionedmicroservice.hlnr.io/" + r.Release
			}
			return names
		})
	}
	return cmd
}
