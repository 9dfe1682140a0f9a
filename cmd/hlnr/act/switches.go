package act

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

func newPauseCommand(f *cli.Factory) *cobra.Command {
	return pauseCommand(f, true, "pause", "Stop everything that starts automatically: new releases, steps and promotions",
		`pause sets spec.paused of a Microservice. Rollbacks, pins to retained releases, and
the decisions Adopt and Deprecate still work. Continue and Retry take effect after resume.`, `  hlnr pause shop`)
}

func newResumeCommand(f *cli.Factory) *cobra.Command {
	return pauseCommand(f, false, "resume", "Let releases start and continue again after a pause",
		`resume removes spec.paused from a Microservice.`, `  hlnr resume shop`)
}

func pauseCommand(f *cli.Factory, paused bool, name, short, long, example string) *cobra.Command {
	c := &change{}
	cmd := &cobra.Command{
		Use: name + " MICROSERVICE", Short: short, Long: long, Example: example,
		GroupID:           cli.GroupAct,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMicroservice(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := newScope(f)
			if err != nil {
				return err
			}
			ms, err := s.microservice(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			e, err := pauseOf(ms, paused)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), s, ms, e)
		},
	}
	c.addFlags(cmd)
	return cmd
}

// pauseOf returns the change that pauses a Microservice or ends its pause.
func pauseOf(ms *v1alpha1.Microservice, paused bool) (edit, error) {
	e := edit{
		field: []string{"paused"},
		apply: func(spec *v1alpha1.MicroserviceSpec, _ string) { spec.Paused = paused },
		done:  Done{Action: "Pause", text: ms.Name + ": paused; rollouts and new versions wait"},
	}
	switch {
	case paused && ms.Spec.Paused:
		return e, cli.No(fmt.Errorf("%s is already paused", ms.Name))
	case !paused && !ms.Spec.Paused:
		return e, cli.No(fmt.Errorf("%s is not paused", ms.Name))
	case !paused:
		e.done.Action, e.done.text = "Resume", ms.Name+": resumed"
	}
	return e, nil
}

func newEndGroupCommand(f *cli.Factory) *cobra.Command {
	c := &change{}
	undo := false
	cmd := &cobra.Command{
		Use:     "end-group MICROSERVICE GROUP",
		Short:   "End a release group, so that it loses its traffic and is removed",
		GroupID: cli.GroupAct,
		Long: `end-group adds a group to spec.endedGroups. The group loses its traffic and its domains, is drained,
and is removed with its releases. GROUP is the name or slug of the group, or the number of its pull request.
With --undo, the group can start again; if it is still being drained, it gets its traffic back.`,
		Example: `  # Show what would happen
  hlnr end-group shop 1.x --dry-run

  hlnr end-group shop 1.x`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeMicroservice(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := newScope(f)
			if err != nil {
				return err
			}
			ms, err := s.microservice(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			e, err := endGroup(ms, args[1], undo)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), s, ms, e)
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "remove the group from spec.endedGroups")
	c.addFlags(cmd)
	return cmd
}

// endGroup returns the change that ends a group or, with undo, lets the group start again.
func endGroup(ms *v1alpha1.Microservice, name string, undo bool) (edit, error) {
	e := edit{field: []string{"endedGroups"}}
	same := func(n string) bool { return n == name }
	g, err := groupOf(ms, name)
	if err == nil {
		same = func(n string) bool { return g.HasName(n) }
		name = g.Name
	}
	ended := slices.ContainsFunc(ms.Spec.EndedGroups, same)
	switch {
	case undo && !ended:
		return e, cli.No(fmt.Errorf("group %s of %s is not in spec.endedGroups", name, ms.Name))
	case undo:
		e.apply = func(spec *v1alpha1.MicroserviceSpec, _ string) {
			if spec.EndedGroups = slices.DeleteFunc(spec.EndedGroups, same); len(spec.EndedGroups) == 0 {
				spec.EndedGroups = nil
			}
		}
		e.done = Done{Action: "EndGroup", Group: name, text: fmt.Sprintf("%s %s: the group can start again", ms.Name, name)}
		return e, nil
	case ended: // This case precedes the check of err, because groupOf returns an error if the status no longer lists the group.
		return e, cli.No(fmt.Errorf("group %s of %s is already in spec.endedGroups", name, ms.Name))
	case err != nil:
		return e, err
	}
	e.apply = func(spec *v1alpha1.MicroserviceSpec, _ string) { spec.EndedGroups = append(spec.EndedGroups, name) }
	text := fmt.Sprintf("%s %s: the group loses its traffic, is drained, and is removed", ms.Name, name)
	if g.Active != "" {
		text += fmt.Sprintf(" (its active version is %s)", g.Active)
	}
	e.done = Done{Action: "EndGroup", Group: name, text: text}
	return e, nil
}
