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

// frugal is the garbage collection target percentage for a tree that follows changes: it runs for hours, and does
// little.
const frugal = 20

func newTree(f *cli.Factory, keyed []cli.NewCommand) *cobra.Command {
	var pods, all, follow bool
	cmd := &cobra.Command{
		Use:   "tree [MICROSERVICE]",
		Short: "Show a service with its groups, releases and rollouts",
		Long: `Show a service, or all: its groups with their hosts, the releases of each with status, share
and pods, the state of a rollout and what it waits for, and the commands that apply. Several services are
in the order of status; as JSON they are a Board.

Pods that are not ready are named; others are counted.

With --watch it follows changes. On a terminal the view is redrawn in place, and keys
continue, deprecate, retry or adopt a release, after a question. Elsewhere it prints a
line for each release, and one for each change.`,
		Example: `  hlnr tree shop
  hlnr tree shop -w

  # With each pod, releases that drain, and rejected versions
  hlnr tree shop --pods --all

  # All services of the cluster
  hlnr tree -A`,
		Args:              cobra.MaximumNArgs(1),
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "follow changes until interrupted")
	cmd.Flags().BoolVar(&pods, "pods", false, "name each pod")
	cmd.Flags().BoolVar(&all, "all", false, "show releases that drain, all previews, and rejected versions")
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
			return cli.Usage(errors.New("--watch follows one Microservice, and has no output format but text: name it, and omit --output"))
		}
		if !follow { // a single observation would soon be outdated
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

// printTrees writes all services, one after the other.
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
		Long: `List the releases that a service still has, the newest first: when each started, how
long it took to become active or to fail, who decided about it, and its result. Releases
that were removed are not listed.`,
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
