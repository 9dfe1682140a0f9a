package act

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/forecast"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/view"
)

// verbs contains, for each action, the verb that messages use.
var verbs = map[v1alpha1.DecisionAction]string{
	v1alpha1.DecisionContinue: "continue", v1alpha1.DecisionAdopt: "adopt", v1alpha1.DecisionDeprecate: "deprecate", v1alpha1.DecisionRetry: "retry",
}

// decision is one run of a command that makes a decision.
type decision struct {
	action  v1alpha1.DecisionAction
	reason  string
	step    string
	id      string
	groups  []string
	dryRun  bool
	timeout time.Duration
	output  *cli.Output
	// lenient reports whether a dry run succeeds without a forecast if the user is not allowed to read all of the objects that the planner needs.
	lenient bool
}

func newContinueCommand(f *cli.Factory) *cobra.Command {
	d := &decision{action: v1alpha1.DecisionContinue}
	cmd := d.command(f, "continue", "Complete the current step of a canary: approve it, or end its pause",
		`continue completes the current step of a canary: it approves the step, or ends its pause. It also skips
the rest of the step's analysis. If a step needs approvals from several users, the command adds yours,
and the step is complete when it has all of them. The command sets spec.decision.action to Continue.`)
	cmd.Flags().StringVar(&d.step, "step", "", "name or number of the step, where 1 is the first step; the command fails if the canary is in another step")
	cmd.Example = `  # The only canary of shop
  hlnr continue shop --reason "checked the logs"

  # Continue a specific version, but only if it is in the step "half"
  hlnr continue shop 1.2.0 --step half`
	return cmd
}

func newAdoptCommand(f *cli.Factory) *cobra.Command {
	d := &decision{action: v1alpha1.DecisionAdopt}
	cmd := d.command(f, "adopt", "Make a canary active without further steps",
		`adopt skips the remaining steps of a rollout: the release becomes active as soon as all its
pods are available. It sets spec.decision.action to Adopt.`)
	cmd.Example = `  hlnr adopt shop 1.2.0 --reason "urgent fix"`
	return cmd
}

func newDeprecateCommand(f *cli.Factory) *cobra.Command {
	d := &decision{action: v1alpha1.DecisionDeprecate}
	cmd := d.command(f, "deprecate", "Abort a rollout: the active release receives all traffic",
		`deprecate aborts the rollout of a pending or canary release: the release's status becomes error, and
the active release receives all traffic. It sets spec.decision.action to Deprecate. To replace
an active release, use rollback.`)
	cmd.Aliases = []string{"abort"}
	cmd.Example = `  hlnr deprecate shop --reason "error rate"`
	return cmd
}

func newRetryCommand(f *cli.Factory) *cobra.Command {
	d := &decision{action: v1alpha1.DecisionRetry}
	cmd := d.command(f, "retry", "Start a failed release again",
		`retry starts a failed release (status error) again from the beginning. It sets
spec.decision.action to Retry.`)
	cmd.Example = `  hlnr retry shop 1.1.1 --reason "database is back"`
	return cmd
}

// newPromoteCommand returns a command for users of "kubectl argo rollouts promote".
func newPromoteCommand(f *cli.Factory) *cobra.Command {
	d := &decision{action: v1alpha1.DecisionContinue}
	full := false
	cmd := d.command(f, "promote", "Same as continue; with --full, same as adopt",
		`promote is named after the Argo Rollouts command. It completes the current step, as continue
does. With --full, it skips all remaining steps, as adopt does.`)
	cmd.Flags().BoolVar(&full, "full", false, "skip all remaining steps, as adopt does")
	decide := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if full {
			d.action = v1alpha1.DecisionAdopt
		}
		return decide(cmd, args)
	}
	cmd.Example = `  hlnr promote shop
  hlnr promote shop 1.2.0 --full`
	return cmd
}

// command returns a command that makes the decision.
func (d *decision) command(f *cli.Factory, name, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     name + " RELEASE | MICROSERVICE [VERSION]",
		Short:   short,
		GroupID: cli.GroupAct,
		Long: long + `

RELEASE is the name of a VersionedMicroservice. If you name only a Microservice, the command
uses the only release for which the decision is possible. The API server records who made the decision.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: f.CompleteNames(1, func() client.ObjectList { return &v1alpha1.MicroserviceList{} }),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd, f, args) },
	}
	flags := cmd.Flags()
	addReason(flags, &d.reason, 256, "reason for the decision, shown to other users")
	flags.StringVar(&d.id, "id", "", "ID of the decision; the manager handles each ID only once for a release, so that a pipeline can be run again safely; defaults to a new ID")
	flags.BoolVar(&d.dryRun, "dry-run", false, "show what would happen, without making the decision")
	flags.DurationVar(&d.timeout, "timeout", 10*time.Second, "how long to wait for the manager to handle an earlier decision, and then again for this decision; 0 means no wait")
	d.output = cli.AddOutput(cmd, formats...)
	return cmd
}

func (d *decision) run(cmd *cobra.Command, f *cli.Factory, args []string) error {
	s, err := newScope(f)
	if err != nil {
		return err
	}
	done, t, err := d.do(cmd.Context(), s, args)
	switch {
	case err != nil:
		return err
	case d.dryRun && done.Outcome != "" && done.Outcome != release.DecisionApplied:
		done.text += ": would not be applied: " + strings.TrimPrefix(done.Outcome, release.DecisionNotApplicable+": ")
		done.Effects = nil
		return firstOf(done.print(f.Out, d.output), cli.No(nil))
	case d.dryRun:
		return done.print(f.Out, d.output)
	}
	return d.report(cmd.Context(), s, t, done, done.text)
}

// do finds the release, and writes the decision or simulates it.
func (d *decision) do(ctx context.Context, s *scope, args []string) (*Done, target, error) {
	t, err := s.target(ctx, d.action, args)
	if err != nil {
		return nil, t, err
	}
	var policy *v1alpha1.ImagePolicy
	if d.action == v1alpha1.DecisionRetry {
		if policy, err = s.policy(ctx, t.ms, false); err != nil {
			return nil, t, err
		}
	}
	if err := d.sensible(t, policy, s.Command); err != nil {
		return nil, t, err
	}
	user, err := s.user(ctx)
	if err != nil {
		return nil, t, err
	}
	by := user.Username
	d.groups = approverGroups(t.ms, t.step(), user.Groups)
	if d.id == "" {
		d.id = "hlnr-" + strconv.FormatInt(s.Now().Unix(), 36) + "-" + rand.String(5)
	}
	done := &Done{
		Action: string(d.action), Object: "versionedmicroservice.hlnr.io/" + t.row.VersionedMicroservice, Namespace: s.namespace, Microservice: t.ms.Name,
		Group: t.group.Name, Version: t.row.SemVer.Version, Step: d.step, By: by, Reason: d.reason, DryRun: d.dryRun,
	}
	done.text = fmt.Sprintf("%s: %s", t, d.action)
	if d.step != "" {
		done.text += " of step " + d.step
	}
	done.text += " by " + by
	if !d.dryRun {
		return done, t, d.write(ctx, s, t, by)
	}
	if err := d.write(ctx, s, t, by, client.DryRunAll); err != nil {
		return nil, t, err
	}
	done.Effects, done.Outcome, err = d.play(ctx, s, t, by)
	if done.Unplayed, err = unplayed(ctx, s, err, d.lenient); err != nil {
		return nil, t, err
	}
	if d.action == v1alpha1.DecisionDeprecate {
		done.Effects = append(done.Effects, remains(t.ms, t.group))
	}
	return done, t, nil
}

// remains describes which release gets the traffic of a group after a rollout is aborted.
func remains(ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup) string {
	if g.Active == "" {
		return g.Name + ": no release is active, and no release gets traffic"
	}
	if ms.Successor(g) != nil && slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.Status == v1alpha1.ReleaseActive && !r.Available }) {
		return g.Name + ": the pods of " + g.Active + ", which is active, start again, and this release gets all traffic"
	}
	return g.Name + ": " + g.Active + ", which is active, gets all traffic"
}

// report waits until the manager has handled the decision, and prints the outcome.
func (d *decision) report(ctx context.Context, s *scope, t target, done *Done, about string) error {
	handled, err := d.handled(ctx, s, t)
	var replaced *cli.Exit
	switch {
	case err != nil && ctx.Err() != nil:
		return &cli.Exit{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; the decision is recorded (ID %s), and the manager handles it even though this command has ended", d.id)}
	case errors.As(err, &replaced):
		return err
	case err != nil:
		return fmt.Errorf("the decision is recorded, but its outcome cannot be read: %w", err)
	case handled == nil && d.timeout > 0:
		done.text = about + ": recorded"
		if err := done.print(s.Out, d.output); err != nil {
			return err
		}
		return cli.TimedOut(fmt.Errorf("the manager did not handle the decision within %s; the decision remains recorded, and the manager will handle it: to check the manager, run %q", d.timeout, s.Command(s.namespace, "doctor")))
	case handled == nil:
		done.text = about + ": recorded"
		return done.print(s.Out, d.output)
	case handled.Outcome != release.DecisionApplied:
		done.Outcome = handled.Outcome
		cause := strings.TrimPrefix(handled.Outcome, release.DecisionNotApplicable+": ")
		done.text = about + ": not applied: " + cause
		return firstOf(done.print(s.Out, d.output), cli.No(nil))
	}
	done.Outcome = handled.Outcome
	done.text = about + ": applied"
	return done.print(s.Out, d.output)
}

// firstOf returns output, the error from printing the result, if it is not nil. Otherwise, it returns answer, the error that sets the exit code.
func firstOf(output, answer error) error {
	if output != nil {
		return output
	}
	return answer
}

// sensible rejects a decision that makes no sense in the current state of the release. For Continue, it also sets d.step to the name of
// the current step. The policy, which may be nil, is used only for Retry.
func (d *decision) sensible(t target, policy *v1alpha1.ImagePolicy, command func(namespace, verb string, args ...string) string) error {
	no := func(format string, args ...any) error {
		return cli.No(fmt.Errorf("%s is not possible: "+format, append([]any{d.action}, args...)...))
	}
	if t.group.Phase != v1alpha1.GroupLive {
		return no("group %s of %s is %s", t.group.Name, t.ms.Name, strings.ToLower(string(t.group.Phase)))
	}
	next := func(verb string, args ...string) string {
		return command(t.ms.Namespace, verb, append([]string{t.ms.Name}, args...)...)
	}
	status := t.row.Status
	if !fits(t, d.action) {
		switch {
		case status == v1alpha1.ReleaseActive && d.action == v1alpha1.DecisionDeprecate:
			return no("%s is active: to pin the release that was active before, run %q", t, next("rollback"))
		case status == v1alpha1.ReleaseActive:
			return no("%s is already active", t)
		case status == v1alpha1.ReleaseDeprecated && d.action == v1alpha1.DecisionDeprecate:
			return no("%s is already deprecated", t)
		case status == v1alpha1.ReleaseDeprecated && t.group.Level == v1alpha1.LevelPreview:
			return no("%s was replaced, and will be deleted after it is drained", t)
		case status == v1alpha1.ReleaseDeprecated:
			return no("%s is retained and is not being rolled out: to make it active again, run %q", t, next("rollback", "--to", t.row.SemVer.Version))
		case status == v1alpha1.ReleaseError && d.action != v1alpha1.DecisionRetry:
			return no("%s failed (%s): to start it again, run %q", t, t.row.Reason, next("retry", t.row.SemVer.Version))
		case d.action == v1alpha1.DecisionContinue && status == v1alpha1.ReleasePending:
			return no("%s is pending, and has not reached a step yet", t)
		}
		return no("%s is %s", t, status)
	}
	if d.action == v1alpha1.DecisionRetry && !view.Retryable(t.ms, policy, t.group, t.row) {
		return no("the target of group %s is %s", t.group.Name, targetOf(t.group))
	}
	if d.action != v1alpha1.DecisionContinue {
		if d.step != "" {
			return cli.Usage(fmt.Errorf("--step applies to Continue, not to %s", d.action))
		}
		return nil
	}
	number := int(t.group.Rollout.Step)
	name := strconv.Itoa(number)
	if c := t.ms.Spec.UpdateStrategy.Canary; c != nil && number <= len(c.Steps) && c.Steps[number-1].Name != "" {
		name = c.Steps[number-1].Name
	}
	if d.step != "" && d.step != name && d.step != strconv.Itoa(number) {
		return no("%s is in step %s, not in %s", t, name, d.step)
	}
	d.step = name
	return nil
}

// targetOf describes the release that is the target of a group.
func targetOf(g *v1alpha1.ReleaseGroup) string {
	for i := range g.Releases {
		if g.Releases[i].VersionedMicroservice == g.Target.Release {
			return fmt.Sprintf("%s (%s)", g.Releases[i].SemVer.Version, g.Target.Reason)
		}
	}
	return cmp.Or(g.Target.Release, "no release")
}

// write writes the decision and the name of the user. The patch applies only to the release as it was read, so that it does not replace a
// decision that another user makes in the meantime. The manager often writes the status of the release, so write tries again after a
// conflict.
func (d *decision) write(ctx context.Context, s *scope, t target, by string, opts ...client.PatchOption) error {
	end := s.Now().Add(d.timeout)
	for range maxWrites {
		vsvc, err := d.free(ctx, s, t, end)
		if err != nil {
			return err
		}
		if err := d.patch(ctx, s, vsvc, by, opts...); !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("VersionedMicroservice %s/%s changes too often: run the command again", s.namespace, t.row.VersionedMicroservice)
}

// free returns the release as soon as the manager has handled its current decision, because the manager reads only the latest decision: an earlier
// one would be lost. Deprecate replaces any decision immediately, because an abort must not wait and makes the replaced decision irrelevant. A dry run
// does not wait either, because it replaces nothing.
func (d *decision) free(ctx context.Context, s *scope, t target, end time.Time) (*v1alpha1.VersionedMicroservice, error) {
	for {
		vsvc, known, err := s.decisions(ctx, t)
		if err != nil {
			return nil, err
		}
		earlier := vsvc.Spec.Decision
		if earlier == nil || earlier.ID == d.id || d.action == v1alpha1.DecisionDeprecate || d.dryRun || withID(known, earlier.ID) != nil {
			return vsvc, nil
		}
		if !s.Now().Before(end) {
			return nil, cli.No(fmt.Errorf("%s is not possible: the manager has not handled %s yet: to check the manager, run %q", d.action, decisionOf(vsvc), s.Command(s.namespace, "doctor")))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.Clock.After(pollInterval):
		}
	}
}

// decisionOf describes the decision that a release contains, and who made it.
func decisionOf(vsvc *v1alpha1.VersionedMicroservice) string {
	return fmt.Sprintf("the decision %s by %s", vsvc.Spec.Decision.Action, cmp.Or(vsvc.Annotations[v1alpha1.AnnotationDecidedBy], "another user"))
}

// patch writes the decision and the name of the user in one request, if the release has not changed since it was read.
func (d *decision) patch(ctx context.Context, s *scope, vsvc *v1alpha1.VersionedMicroservice, by string, opts ...client.PatchOption) error {
	var step, reason, groups any // nil becomes null, which removes the field of an earlier decision.
	if len(d.groups) > 0 {
		groups = d.groups
	}
	if d.step != "" {
		step = d.step
	}
	if d.reason != "" {
		reason = d.reason
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": vsvc.ResourceVersion, "annotations": map[string]any{v1alpha1.AnnotationDecidedBy: by}},
		"spec":     map[string]any{"decision": map[string]any{"action": d.action, "id": d.id, "step": step, "groups": groups, "reason": reason}},
	})
	if err != nil {
		return fmt.Errorf("write the decision: %w", err)
	}
	ctx, cancel := whole(ctx)
	defer cancel()
	return s.client.Patch(ctx, vsvc, client.RawPatch(types.MergePatchType, patch), append(opts, client.FieldOwner(cli.FieldManager))...)
}

// step returns the number of the current step of the rollout in the group. 1 is the first step, and 0 means no step.
func (t target) step() int {
	if t.group.Rollout == nil {
		return 0
	}
	return int(t.group.Rollout.Step)
}

// approverGroups returns the user's groups whose members may approve the current step of the rollout or a later step. The
// step parameter is the number of the current step, where 1 is the first step.
func approverGroups(ms *v1alpha1.Microservice, step int, groups []string) []string {
	var out []string
	if c := ms.Spec.UpdateStrategy.Canary; c != nil {
		for i, st := range c.Steps {
			if i+1 < step || st.Approval == nil {
				continue
			}
			for _, g := range st.Approval.From {
				if slices.Contains(groups, g) && !slices.Contains(out, g) && len(out) < maxDecisionGroups {
					out = append(out, g)
				}
			}
		}
	}
	return out
}

// maxDecisionGroups is the maximum length of spec.decision.groups in the schema.
const maxDecisionGroups = 8

// pollInterval is the time between two reads while a command waits for the manager.
const pollInterval = 100 * time.Millisecond

// handled waits until the manager has handled the decision, and returns the handled decision, or nil if the timeout expires. It returns an
// error if the decision was removed from the release, or replaced by another decision, before its outcome could be read.
func (d *decision) handled(ctx context.Context, s *scope, t target) (*v1alpha1.HandledDecision, error) {
	end := s.Now().Add(d.timeout)
	for s.Now().Before(end) {
		vsvc, known, err := s.decisions(ctx, t)
		if err != nil {
			return nil, err
		}
		if h := withID(known, d.id); h != nil {
			return h, nil
		}
		switch now := vsvc.Spec.Decision; {
		case now == nil:
			return nil, cli.No(fmt.Errorf("%s: the decision was removed before the manager handled it", t))
		case now.ID != d.id && withID(known, now.ID) == nil:
			return nil, cli.No(fmt.Errorf("%s: the decision was replaced by %s before the manager handled it", t, decisionOf(vsvc)))
		case now.ID != d.id: // The manager records only the latest decision.
			return nil, cli.Failed(fmt.Errorf("%s: the decision was followed by %s; to see the outcome of both, run %q", t, decisionOf(vsvc), s.Command(s.namespace, "events", t.ms.Name)))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.Clock.After(pollInterval):
		}
	}
	return nil, nil
}

// decisions reads a release and the decisions about it that the manager has recorded. The manager records a decision first in the Microservice,
// and a few seconds later in the release. The release is read first, so that the records are at least as new as the decision that it contains.
func (s *scope) decisions(ctx context.Context, t target) (*v1alpha1.VersionedMicroservice, []*v1alpha1.HandledDecision, error) {
	ms, vsvc := &v1alpha1.Microservice{}, &v1alpha1.VersionedMicroservice{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: t.row.VersionedMicroservice}, vsvc); err != nil {
		return nil, nil, err
	}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(t.ms), ms); err != nil {
		return nil, nil, err
	}
	ms.Status.Convert()
	return vsvc, []*v1alpha1.HandledDecision{recorded(ms, vsvc.Name), vsvc.Status.LastHandledDecision}, nil
}

// withID returns the decision with the given ID, or nil.
func withID(known []*v1alpha1.HandledDecision, id string) *v1alpha1.HandledDecision {
	for _, h := range known {
		if h != nil && h.ID == id {
			return h
		}
	}
	return nil
}

// recorded returns the latest handled decision about a release, according to the status of the Microservice, or nil.
func recorded(ms *v1alpha1.Microservice, release string) *v1alpha1.HandledDecision {
	for i := range ms.Status.ReleaseGroups {
		for j := range ms.Status.ReleaseGroups[i].Releases {
			if r := &ms.Status.ReleaseGroups[i].Releases[j]; r.VersionedMicroservice == release {
				return r.Decision
			}
		}
	}
	return nil
}

// play returns the effects and the outcome of the decision according to the planner.
func (d *decision) play(ctx context.Context, s *scope, t target, by string) (effects []string, outcome string, err error) {
	facts, err := forecast.Read(ctx, s.client, t.ms, s.Now())
	if err != nil {
		return nil, "", fmt.Errorf("simulate the decision: %w", err)
	}
	facts.Decide(t.row.VersionedMicroservice, release.Decision{Action: release.Action(d.action), ID: d.id, Step: d.step, By: by, Groups: d.groups})
	played := facts.Play(s.Now())
	return played.Lines(), played.Outcome, nil
}
