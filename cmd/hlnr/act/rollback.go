package act

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view"
)

func newRollbackCommand(f *cli.Factory) *cobra.Command {
	o := &pinOptions{}
	cmd := &cobra.Command{
		Use:     "rollback MICROSERVICE",
		Short:   "Return to an earlier release, optionally until a specified time",
		GroupID: cli.GroupAct,
		Long: `rollback pins a group to an earlier release, with its configuration. Without --to, this is the most
recently active of the retained releases that have a lower version than the active release, or the
same version with another configuration. Denied versions are excluded. A retained release skips the canary steps. The group stays at that release until the pin ends or is
removed with unpin. To stop a canary, use deprecate. The pin records your name, unless it is
printed as a patch for Git.`,
		Example: `  # Return to the previous release, until Monday morning
  hlnr rollback shop --until "Mon 08:00" --reason "sessions lost"

  # Return to a version, and wait until it is active
  hlnr rollback shop --to 1.0.3 --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMicroservice(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ms, err := o.read(cmd, f, args[0])
			if err != nil {
				return err
			}
			if o.to == "" {
				if o.to, err = o.before(cmd.Context(), s, ms); err != nil {
					return err
				}
			}
			return o.pin(cmd.Context(), s, ms, o.to)
		},
	}
	cmd.Flags().StringVar(&o.to, "to", "", "version, or name of a VersionedMicroservice; by default the previous release, as described above")
	o.addPinFlags(cmd)
	return cmd
}

// before returns the previous release of the group that --group names, or of the only live group that has a previous release. Previews are
// considered only if --group names them.
func (o *pinOptions) before(ctx context.Context, s *scope, ms *v1alpha1.Microservice) (string, error) {
	policy, err := s.policy(ctx, ms, false)
	if err != nil {
		return "", err
	}
	var found []string
	var groups []string
	var unfinished error
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if o.group != "" && !g.HasName(o.group) || o.group == "" && (g.Phase != v1alpha1.GroupLive || g.Level == v1alpha1.LevelPreview) {
			continue
		}
		if r := rollingOut(g); r != nil {
			unfinished = s.abortInstead(ms, g, r)
			continue
		}
		if r := previous(g, policy); r != nil {
			found, groups = append(found, r.VersionedMicroservice), append(groups, g.Name)
		}
	}
	if o.group != "" {
		if _, err := groupOf(ms, o.group); err != nil {
			return "", err
		}
	}
	switch {
	case unfinished != nil: // The user might mean this rollout, even if another group has a previous release.
		return "", unfinished
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		where, all := ms.Name, releases(ms)
		if o.group != "" {
			where = "group " + o.group + " of " + ms.Name
			all = slices.DeleteFunc(all, func(t target) bool { return !t.group.HasName(o.group) })
		}
		return "", cli.No(fmt.Errorf("%s has no earlier release to return to (%s): name a version with --to", where, states(all)))
	}
	return "", cli.Usage(fmt.Errorf("several groups of %s have a previous release: choose one with --group (%s)", ms.Name, cli.Available(groups)))
}

// previous returns the most recently active of the retained releases that have a lower version than the active release, or the same
// version with another configuration. Releases with higher versions are excluded, because a user might have rolled back from them. Denied
// versions are excluded too. The result is nil if no release remains.
func previous(g *v1alpha1.ReleaseGroup, policy *v1alpha1.ImagePolicy) *v1alpha1.Release {
	var last *v1alpha1.Release
	active := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive })
	for i := range g.Releases { // The releases are sorted by version, with the newest first.
		r := &g.Releases[i]
		if i > active && r.Promoted > 0 && r.Status == v1alpha1.ReleaseDeprecated && !view.Denied(policy, g, r.SemVer.Version) && (last == nil || r.Promoted > last.Promoted) {
			last = r
		}
	}
	return last
}

// abortInstead returns the error for a rollback of a group whose rollout has not replaced the active release yet. The
// error suggests the command that aborts the rollout and keeps the active release.
func (s *scope) abortInstead(ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup, rolled *v1alpha1.Release) error {
	what, active := rolled.SemVer.Version, g.Active
	if what == active { // Only the configurations differ.
		what = rolled.VersionedMicroservice
		active = g.ActiveRelease().VersionedMicroservice
	}
	return cli.No(fmt.Errorf("%s is being rolled out, and %s is still active: to keep %s, run %q; to return to an earlier release, name it with --to",
		what, active, active, s.Command(ms.Namespace, "deprecate", ms.Name, what)))
}

// rollingOut returns the release that a group is rolling out in place of its active release, or nil. The result is also nil if the
// release was previously active. Except in previews, whose versions are commits without an order, it is also nil if the release has a lower
// version than the active release. A user stops the rollout of the returned release with deprecate instead of rollback.
func rollingOut(g *v1alpha1.ReleaseGroup) *v1alpha1.Release {
	active := g.ActiveRelease()
	if active == nil || g.Rollout == nil {
		return nil
	}
	r := g.Release(g.Rollout.Release)
	if r == nil || r.Promoted > 0 || g.Level != v1alpha1.LevelPreview && version.Compare(r.SemVer.Version, active.SemVer.Version) < 0 {
		return nil
	}
	return r
}
