package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/forecast"
	"github.com/heighliner/heighliner/cmd/hlnr/wait"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view"
)

// pinOptions are the flags of pin, unpin and rollback.
type pinOptions struct {
	change
	group, until, reason, to string
	current, wait            bool
	timeout                  time.Duration
}

// pinField is the path of the pins in the specification.
var pinField = []string{"updateStrategy", "manual"}

// maxAuthor is the maximum length of the author's name in a pin. A longer name is omitted.
const maxAuthor = 253

// addWaitFlags adds the --wait and --timeout flags, and the flags that are common to all changes.
func (o *pinOptions) addWaitFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.wait, "wait", false, "wait until the version is active, with the exit codes of \"hlnr wait\"")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long --wait waits")
	o.addFlags(cmd)
}

// valid rejects invalid combinations of flags before the command reads any object.
func (o *pinOptions) valid(cmd *cobra.Command) error {
	switch {
	case o.wait && (o.dryRun || o.printPatch):
		return cli.Usage(errors.New("--wait: nothing is written with --dry-run or --print-patch, so there is nothing to wait for"))
	case !o.wait && cmd.Flags().Changed("timeout"):
		return cli.Usage(errors.New("--timeout requires --wait"))
	case o.timeout <= 0:
		return cli.Usage(fmt.Errorf("--timeout: invalid value %s: must be greater than 0", o.timeout))
	}
	return nil
}

func (o *pinOptions) addPinFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.group, "group", "", "name of the release group, such as 1.x; by default the group that has the version, or the only group")
	flags.StringVar(&o.until, "until", "", "end of the pin: 4h, 3d, Mon, \"Mon 08:00\", 2026-12-24 or an RFC 3339 time; by default the pin applies until it is removed")
	addReason(flags, &o.reason, 128, "reason for the pin, shown to other users")
	o.addWaitFlags(cmd)
}

func completeMicroservice(f *cli.Factory) cobra.CompletionFunc {
	return f.CompleteNames(1, func() client.ObjectList { return &v1alpha1.MicroserviceList{} })
}

func newPinCommand(f *cli.Factory) *cobra.Command {
	o := &pinOptions{}
	cmd := &cobra.Command{
		Use:     "pin MICROSERVICE VERSION|RELEASE",
		Short:   "Keep a release group at one version",
		GroupID: cli.GroupAct,
		Long: `pin sets spec.updateStrategy.manual: the group runs the version, and newer versions wait. A version
that was active and is retained returns with its configuration and without canary steps. RELEASE is
the name of a VersionedMicroservice; a pin to a release selects exactly the configuration of that release. The pin
records your name, unless it is printed as a patch for Git.`,
		Example: `  hlnr pin shop 1.1.0 --until "Mon 08:00" --reason "sessions lost"

  # Show what would happen
  hlnr pin shop 1.1.0 --dry-run

  # Pin, and wait until the version is active
  hlnr pin shop 1.1.0 --wait --timeout 5m

  # Print the pin as a patch for Git
  hlnr pin shop 1.1.0 --print-patch`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeMicroservice(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ms, err := o.read(cmd, f, args[0])
			if err != nil {
				return err
			}
			return o.pin(cmd.Context(), s, ms, args[1])
		},
	}
	o.addPinFlags(cmd)
	cmd.Flags().BoolVar(&o.current, "current-configuration", false, "run the version with the current template instead of its previous template")
	return cmd
}

func newUnpinCommand(f *cli.Factory) *cobra.Command {
	o := &pinOptions{}
	cmd := &cobra.Command{
		Use:     "unpin MICROSERVICE",
		Short:   "Let a release group follow the newest version again",
		GroupID: cli.GroupAct,
		Long: `unpin removes the pin of a group from spec.updateStrategy.manual. The group moves to the newest
version that is offered and has not failed. A new release goes through the canary steps, and a
retained release returns without them.`,
		Example: `  hlnr unpin shop
  hlnr unpin shop --group 1.x --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMicroservice(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ms, err := o.read(cmd, f, args[0])
			if err != nil {
				return err
			}
			return o.unpin(cmd.Context(), s, ms)
		},
	}
	cmd.Flags().StringVar(&o.group, "group", "", "name of the release group, such as 1.x; by default the only pinned group")
	o.addWaitFlags(cmd)
	return cmd
}

func (o *pinOptions) read(cmd *cobra.Command, f *cli.Factory, name string) (*scope, *v1alpha1.Microservice, error) {
	if err := o.valid(cmd); err != nil {
		return nil, nil, err
	}
	s, err := newScope(f)
	if err != nil {
		return nil, nil, err
	}
	ms, err := s.microservice(cmd.Context(), name)
	return s, ms, err
}

// policy returns the ImagePolicy of a Microservice, or nil if the ImagePolicy does not exist. If required is false, policy also returns
// nil for a user who is not allowed to read the ImagePolicy.
func (s *scope) policy(ctx context.Context, ms *v1alpha1.Microservice, required bool) (*v1alpha1.ImagePolicy, error) {
	p := &v1alpha1.ImagePolicy{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: ms.Namespace, Name: ms.Spec.ImagePolicyRef.Name}, p)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !required {
		return nil, nil
	}
	return p, err
}

// groupOf finds a group by its name, its slug or the number of its pull request.
func groupOf(ms *v1alpha1.Microservice, name string) (*v1alpha1.ReleaseGroup, error) {
	var all []string
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if g.HasName(name) {
			return g, nil
		}
		all = append(all, g.Name)
	}
	return nil, cli.Unknown("release group of "+ms.Name, name, all)
}

// wanted is the group and the release that a pin selects.
type wanted struct {
	group *v1alpha1.ReleaseGroup
	pin   v1alpha1.GroupPin
	// row is the release, or nil if it does not exist yet or its name is not known.
	row     *v1alpha1.Release
	version string
	// name is the name of the release, which might not exist yet. It is empty if the name is not known.
	name string
}

// resolve finds the group and the release for a version or for the name of a release.
func (o *pinOptions) resolve(ctx context.Context, s *scope, ms *v1alpha1.Microservice, what string) (wanted, error) {
	var only *v1alpha1.ReleaseGroup
	if o.group != "" {
		g, err := groupOf(ms, o.group)
		if err != nil {
			return wanted{}, err
		}
		only = g
	}
	what = bare(what)
	var found []wanted
	var known []string
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if only != nil && only != g {
			continue
		}
		for j := range g.Releases {
			r := &g.Releases[j]
			known = append(known, r.SemVer.Version, r.VersionedMicroservice)
			switch {
			case r.VersionedMicroservice == what:
				return wanted{group: g, row: r, version: r.SemVer.Version, pin: v1alpha1.GroupPin{Release: what}}, nil
			case version.Matches(what, r.SemVer.Version) && !slices.ContainsFunc(found, func(w wanted) bool { return w.group == g && w.version == r.SemVer.Version }):
				found = append(found, wanted{group: g, row: latestOf(g, r.SemVer.Version), version: r.SemVer.Version, pin: v1alpha1.GroupPin{Version: r.SemVer.Version}})
			}
		}
	}
	if len(found) == 0 {
		var policy v1alpha1.ImagePolicy
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: ms.Namespace, Name: ms.Spec.ImagePolicyRef.Name}, &policy); client.IgnoreNotFound(err) != nil {
			return wanted{}, err
		}
		for _, x := range policy.Status.Releases {
			known = append(known, x.SemVer.Version)
			g, err := groupOf(ms, x.Group)
			if version.Matches(what, x.SemVer.Version) && err == nil && (only == nil || only == g) {
				found = append(found, wanted{group: g, version: x.SemVer.Version, pin: v1alpha1.GroupPin{Version: x.SemVer.Version}})
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return wanted{}, cli.Unknown("version or release of "+ms.Name, what, known)
	}
	var groups, versions []string
	for _, w := range found {
		groups, versions = append(groups, w.group.Name), append(versions, w.version)
	}
	if slices.Sort(versions); versions[0] != versions[len(versions)-1] {
		return wanted{}, cli.Usage(fmt.Errorf("%s matches several commits: %s", what, strings.Join(slices.Compact(versions), ", ")))
	}
	return wanted{}, cli.Usage(fmt.Errorf("several groups of %s have %s: choose one with --group (%s)", ms.Name, what, cli.Available(groups)))
}

// latestOf returns the release that a pin to a version selects: the release of that version that was active most recently.
func latestOf(g *v1alpha1.ReleaseGroup, version string) *v1alpha1.Release {
	var last *v1alpha1.Release
	for i := range g.Releases {
		if r := &g.Releases[i]; r.SemVer.Version == version && (last == nil || r.Promoted > last.Promoted) {
			last = r
		}
	}
	return last
}

func (o *pinOptions) pin(ctx context.Context, s *scope, ms *v1alpha1.Microservice, what string) error {
	e, err := o.pinned(ctx, s, ms, what)
	if err != nil {
		return err
	}
	return o.follow(ctx, s, ms, e)
}

// follow makes the change, and waits for its effect or prints a command that waits for it.
func (o *pinOptions) follow(ctx context.Context, s *scope, ms *v1alpha1.Microservice, e edit) error {
	if !o.wait && !o.dryRun && e.moves && e.awaits != "" {
		e.done.Next = s.Command(ms.Namespace, "wait", ms.Name, e.awaits)
	}
	if err := o.run(ctx, s, ms, e); err != nil || !o.wait {
		return err
	}
	if e.awaits == "" {
		return cli.No(fmt.Errorf("nothing to wait for: in group %s of %s, no version is offered, or all offered versions failed", e.done.Group, ms.Name))
	}
	return wait.Until(ctx, s.Factory, ms.Name, e.awaits, o.timeout, o.output)
}

// pinned returns the change that pins a group to a version or a release.
func (o *pinOptions) pinned(ctx context.Context, s *scope, ms *v1alpha1.Microservice, what string) (edit, error) {
	w, err := o.resolve(ctx, s, ms, what)
	if err != nil {
		return edit{}, err
	}
	w.pin.Reason = o.reason
	if w.row != nil {
		w.name = w.row.VersionedMicroservice
	}
	moves, starts := true, true
	unknown := false // whether the name of the release with the current configuration is unknown
	if o.current {
		if w.pin.Release != "" {
			return edit{}, cli.Usage(fmt.Errorf("--current-configuration: %s is a release, which already has a configuration: name a version", what))
		}
		w.pin.Configuration = v1alpha1.PinCurrent
		name, err := o.upcoming(ctx, s, ms, w.group, w.version)
		if err != nil {
			return edit{}, err
		}
		if unknown = name == ""; unknown {
			w.name, w.row = "", nil
		} else {
			w.name, w.row = name, w.group.Release(name)
		}
	}
	text := fmt.Sprintf("%s %s: pinned to %s", ms.Name, w.group.Name, w.version)
	if o.until != "" {
		at, err := until(o.until, s.Now())
		if err != nil {
			return edit{}, cli.Usage(err)
		}
		w.pin.ExpireTime = &metav1.Time{Time: at}
		text += " until " + at.Format("Mon 2006-01-02 15:04 MST")
	}
	if o.reason != "" {
		text += fmt.Sprintf(" (%q)", o.reason)
	}
	policy, err := s.policy(ctx, ms, false)
	if err != nil {
		return edit{}, err
	}
	if view.Denied(policy, w.group, w.version) {
		return edit{}, cli.No(fmt.Errorf("%s %s is denied by ImagePolicy %s, and a pin does not override this: the version gets no traffic while another release can serve traffic", ms.Name, w.version, policy.Name))
	}
	if err := o.sensible(s, ms, policy, w); err != nil {
		return edit{}, err
	}
	if p := view.PinOf(ms, w.group, s.Now()); p != nil {
		text += "; this replaces the " + describe(w.group, p)
	}
	switch r := w.row; {
	case unknown:
		text += "; it is not known which release has the current configuration: a new release starts with the canary steps, and a retained release returns without them"
	case r == nil:
		text += "; the version starts as a new release, with the canary steps"
	case r.Status == v1alpha1.ReleaseActive:
		moves, starts = false, false
		text += "; the version is active, and newer versions wait"
	case r.Promoted > 0 && r.Status == v1alpha1.ReleaseDeprecated:
		starts = false
		text += "; the release is retained, and returns without canary steps"
	}
	return edit{
		field: pinField,
		apply: func(spec *v1alpha1.MicroserviceSpec, by string) {
			pin := w.pin
			if by != "" && len(by) <= maxAuthor {
				pin.Author = &v1alpha1.PinAuthor{Name: by, Pinned: pin.Version + pin.Release}
			}
			setPin(spec, w.group, pin)
		},
		awaits: awaited(ms, w.version, w.name), moves: moves, starts: starts,
		done: Done{Action: "Pin", Group: w.group.Name, Version: w.version, Reason: o.reason, Until: rfc3339(w.pin.ExpireTime), text: text},
	}, nil
}

// upcoming returns the name of the release that runs a version with the Microservice's current configuration. The name
// is empty if it is not known, or if the version is not a candidate.
func (o *pinOptions) upcoming(ctx context.Context, s *scope, ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup, version string) (string, error) {
	names, err := o.candidates(ctx, s, ms, g)
	return names[version], err
}

// candidates returns the names of the releases that run the offered versions of a group with the Microservice's current configuration. The
// keys of the result are the versions. The result is empty if the names are not known, or if the group has no candidates.
func (o *pinOptions) candidates(ctx context.Context, s *scope, ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup) (map[string]string, error) {
	facts, err := forecast.Read(ctx, s.client, ms, s.Now())
	if err != nil && (o.wait || !apierrors.IsForbidden(err)) {
		return nil, fmt.Errorf("find the release with the current configuration: %w", err)
	}
	names := map[string]string{}
	if err == nil {
		for _, c := range facts.Candidates {
			if c.Slug == g.Slug {
				names[c.Version] = c.Release
			}
		}
	}
	return names, nil
}

// awaited returns the argument of "hlnr wait" for a release: its version, or its name if there are other releases of the same version with
// other configurations.
func awaited(ms *v1alpha1.Microservice, version, name string) string {
	if name != "" && slices.ContainsFunc(releases(ms), func(t target) bool { return t.row.SemVer.Version == version && t.row.VersionedMicroservice != name }) {
		return name
	}
	return version
}

// sensible rejects a pin that changes nothing or cannot take effect.
func (o *pinOptions) sensible(s *scope, ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, w wanted) error {
	if w.group.Phase == v1alpha1.GroupClosing {
		return cli.No(fmt.Errorf("group %s of %s is being removed", w.group.Name, ms.Name))
	}
	if r := w.row; r != nil && r.Status == v1alpha1.ReleaseError && !view.Retryable(ms, policy, w.group, r) {
		return cli.No(fmt.Errorf("%s %s failed (%s), and a pin does not start it again: publish the fix as a new version", ms.Name, w.version, r.Reason))
	} else if r != nil && r.Status == v1alpha1.ReleaseError {
		return cli.No(fmt.Errorf("%s %s failed (%s), and a pin does not start it again: run %q", ms.Name, w.version, r.Reason, s.Command(ms.Namespace, "retry", ms.Name, w.version)))
	}
	if m := ms.Spec.UpdateStrategy.Manual; m != nil {
		for _, p := range m.Groups {
			if w.group.HasName(p.Name) && p.Version == w.pin.Version && p.Release == w.pin.Release && p.Reason == w.pin.Reason &&
				cmp.Or(p.Configuration, v1alpha1.PinRetained) == cmp.Or(w.pin.Configuration, v1alpha1.PinRetained) && p.ExpireTime.Equal(w.pin.ExpireTime) {
				return cli.No(fmt.Errorf("%s %s is already pinned to %s", ms.Name, w.group.Name, w.version))
			}
		}
	}
	return nil
}

func (o *pinOptions) unpin(ctx context.Context, s *scope, ms *v1alpha1.Microservice) error {
	e, err := o.unpinned(ctx, s, ms)
	if err != nil {
		return err
	}
	return o.follow(ctx, s, ms, e)
}

// unpinned returns the change that removes the pin of a group. If the ImagePolicy exists and the user is allowed to read it, the change also
// predicts the version to which the group then moves.
func (o *pinOptions) unpinned(ctx context.Context, s *scope, ms *v1alpha1.Microservice) (edit, error) {
	e, err := o.removal(s, ms)
	if err != nil {
		return edit{}, err
	}
	g, err := groupOf(ms, e.done.Group)
	if err != nil {
		return edit{}, err
	}
	policy, err := s.policy(ctx, ms, o.wait)
	if err != nil {
		return edit{}, err
	}
	if policy == nil {
		return e, nil
	}
	candidates, err := o.candidates(ctx, s, ms, g)
	if err != nil {
		return edit{}, err
	}
	e.done.text += s.failedInstead(ctx, ms, policy, g, candidates)
	v, name := follows(ms, policy, g, candidates)
	if v != "" {
		row := g.Release(name)
		e.moves = name == "" && v != g.Active || name != "" && (row == nil || row.Status != v1alpha1.ReleaseActive)
		e.starts = e.moves // Without a pin, a retained release does not return during a freeze.
		e.awaits = awaited(ms, v, name)
	}
	return e, nil
}

// follows returns the version to which a group moves without a pin, and the name of its release if it is known. This is the newest version that
// is offered and has not failed with the current configuration. Except in previews, it is also not below the active version, unless the active
// version was withdrawn. If there is no such version, the group keeps its active release. If there is no active release either, the version
// is empty.
func follows(ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, g *v1alpha1.ReleaseGroup, candidates map[string]string) (v, release string) {
	active := g.ActiveRelease()
	protected := active != nil && !view.Withdrawn(policy, g, active.SemVer.Version)
	for _, offered := range policy.Status.Releases { // The releases are sorted with the newest version first.
		v := offered.SemVer.Version
		switch name := candidates[v]; {
		case offered.Group != g.Slug || name == "" && len(candidates) > 0: // A version beyond spec.limits is not a candidate.
		case protected && g.Level != v1alpha1.LevelPreview && version.Compare(v, active.SemVer.Version) < 0:
			return active.SemVer.Version, active.VersionedMicroservice
		case failure(g, v, name) == nil:
			return v, name
		case protected && ms.Spec.Availability.Exclusive: // A group with exclusive availability does not try older versions.
			return active.SemVer.Version, active.VersionedMicroservice
		}
	}
	if active == nil {
		return "", ""
	}
	return active.SemVer.Version, active.VersionedMicroservice
}

// failure returns the release of a version that failed with the current configuration, or nil. name is the name of the release with this
// configuration. If the name is not known, name is empty, and failure returns any failed release of the version, unless the version is active.
func failure(g *v1alpha1.ReleaseGroup, v, name string) *v1alpha1.Release {
	for i := range g.Releases {
		r := &g.Releases[i]
		if r.Status == v1alpha1.ReleaseError && r.SemVer.Version == v && (r.VersionedMicroservice == name || name == "" && v != g.Active) {
			return r
		}
	}
	return nil
}

// failedInstead returns a clause that explains, in the message of unpin, that the group does not move to the newest offered version because
// this version failed. The result is empty if this version did not fail.
func (s *scope) failedInstead(ctx context.Context, ms *v1alpha1.Microservice, policy *v1alpha1.ImagePolicy, g *v1alpha1.ReleaseGroup, candidates map[string]string) string {
	i := slices.IndexFunc(policy.Status.Releases, func(o v1alpha1.OfferedRelease) bool { return o.Group == g.Slug }) // The releases are sorted with the newest version first.
	if i < 0 {
		return ""
	}
	v := policy.Status.Releases[i].SemVer.Version
	row := failure(g, v, candidates[v])
	if row == nil {
		return ""
	}
	what, cause := v, row.Reason
	if v == g.Active { // Only the configurations differ.
		what = row.VersionedMicroservice
	}
	release := &v1alpha1.VersionedMicroservice{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: ms.Namespace, Name: row.VersionedMicroservice}, release); err == nil && release.Status.Message != "" {
		cause = release.Status.Message // A user who is not allowed to read the release gets only the reason.
	}
	return fmt.Sprintf(", but not %s, which failed (%s): to try it again, run %q", what, cause, s.Command(ms.Namespace, "retry", ms.Name, what))
}

// removal returns the change that removes the pin of a group. It does not predict to which version the group then moves.
func (o *pinOptions) removal(s *scope, ms *v1alpha1.Microservice) (edit, error) {
	var found []*v1alpha1.ReleaseGroup
	var list []string
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if p := view.PinOf(ms, g, s.Now()); p != nil && (o.group == "" || g.HasName(o.group)) {
			found, list = append(found, g), append(list, g.Name+" (to "+p.Version+p.Release+")")
		}
	}
	if o.group != "" {
		if _, err := groupOf(ms, o.group); err != nil {
			return edit{}, err
		}
	}
	switch {
	case len(found) > 1:
		return edit{}, cli.Usage(fmt.Errorf("several groups of %s are pinned: choose one with --group (%s)", ms.Name, cli.Available(list)))
	case len(found) == 0 && o.group == "" && ms.Spec.UpdateStrategy.Manual != nil:
		return edit{}, cli.No(fmt.Errorf("no group of %s is pinned; spec.updateStrategy.manual has pins that have ended or that match no group: remove them with kubectl edit", ms.Name))
	case len(found) == 0:
		return edit{}, cli.No(fmt.Errorf("%s is not pinned", ms.Name+spaced(o.group)))
	}
	g := found[0]
	pin := describe(g, view.PinOf(ms, g, s.Now()))
	return edit{
		field: pinField,
		apply: func(spec *v1alpha1.MicroserviceSpec, _ string) { removePin(spec, g) },
		done:  Done{Action: "Unpin", Group: g.Name, text: fmt.Sprintf("%s %s: the %s is removed, and the group follows the newest version", ms.Name, g.Name, pin)},
	}, nil
}

// describe describes a pin of a group: the version, the author and the reason.
func describe(g *v1alpha1.ReleaseGroup, p *view.Pin) string {
	to := p.Version + p.Release
	if r := g.Release(p.Release); r != nil {
		to = r.SemVer.Version
	}
	text := "pin to " + to
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += fmt.Sprintf(" (%q)", p.Reason)
	}
	return text
}

func spaced(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

func rfc3339(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
