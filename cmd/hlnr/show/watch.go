package show

import (
	"context"
	"fmt"
	"io"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// watch calls changed after each change to the objects of a service in a namespace, until the context is done. seen
// contains the objects that were already read. watch omits kinds that could not be read. It calls lost when a watch is
// interrupted, and then resumes the watch.
func watch(ctx context.Context, f *cli.Factory, namespace, service string, seen view.Input, changed func(view.Input), lost func(error)) error {
	config, err := f.Config()
	if err != nil {
		return err
	}
	scheme, err := cli.Scheme()
	if err != nil {
		return err
	}
	return cluster.Watch(ctx, cluster.Options{
		Config: config, Scheme: scheme, Namespace: namespace, Service: service, Clock: clock.RealClock{}, Lost: lost,
		Changed: func(o cluster.Objects) { changed(o.Input) },
	}, cluster.Objects{Input: seen})
}

// watchLines prints a line for each release, and then a line for each change.
func watchLines(ctx context.Context, f *cli.Factory, namespace, name string, in view.Input, o text.Options) error {
	var last view.Service
	var problem error
	show := func(in view.Input) {
		s, _ := view.NewService(in, namespace, name, f.Now())
		o.Now = f.Now()
		if err := text.Changes(f.Out, view.Changes(last, s), o); err != nil && problem == nil {
			problem = err
		}
		last = s
	}
	show(in)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := watch(ctx, f, namespace, name, in, func(in view.Input) {
		if show(in); problem != nil {
			stop()
		}
	}, reportLost(f.ErrOut))
	if problem != nil {
		return fmt.Errorf("write output: %w", problem)
	}
	return err
}

// reportLost returns a function that prints the cause of an interrupted watch, unless the previous interruption had the same cause.
func reportLost(out io.Writer) func(error) {
	last := ""
	return func(err error) {
		if cause := text.Clean(err.Error()); cause != last {
			last = cause
			fmt.Fprintln(out, "hlnr: the watch was interrupted and is resuming:", cause)
		}
	}
}
