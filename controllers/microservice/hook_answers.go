package microservice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// observeAnalysis reads the analysis. problem is the reason why a canary cannot be measured; nil if there is none. If a user is
// not permitted to read templates, the analysis is omitted from this user's plan.
func (r *Reconciler) observeAnalysis(ctx context.Context, o *observed) (problem *status.Error, err error) {
	place, template := "spec.updateStrategy.canary.analysis.", ""
	o.analysis, template, err = analysistemplate.Read(ctx, r.Client, o.ms)
	unusable := (*analysistemplate.Error)(nil)
	switch {
	case errors.As(err, &unusable) && unusable.Missing:
		return status.NewTerminal(reasonAnalysisTemplateNotFound, unusable), nil
	case errors.As(err, &unusable):
		return status.NewTerminal(reasonAnalysisInvalid, unusable), nil
	case err != nil:
		return nil, r.readable(err)
	case o.analysis == nil:
		return nil, nil
	}
	if template != "" {
		place = template + ": "
	}
	if err := analysis.Check(o.analysis); err != nil {
		return status.NewTerminal(reasonAnalysisInvalid, fmt.Errorf("%s%w", place, err)), nil
	}
	return nil, nil
}

// readVerdict converts the result of an analysis for the planner.
func readVerdict(a *v1alpha1.ReleaseAnalysis) *release.Verdict {
	if a == nil {
		return nil
	}
	return &release.Verdict{
		Rollout: a.Run, Step: int(a.Step), Since: a.Since.Time,
		Phase: release.VerdictPhase(a.Phase), Message: a.Message,
	}
}

// readMeasured ignores a passed result if the analysis has been edited since the measurement, or if its template
// cannot be used. No step passes until the release is measured with the current analysis. A failed result is never
// ignored.
func (o *observed) readMeasured(c *v1alpha1.VersionedMicroservice, object *release.Object) {
	if object.Analysis == nil || object.Analysis.Phase != release.VerdictPassed {
		return
	}
	unusable := o.analysis == nil && o.ms.Spec.UpdateStrategy.Canary.Measures()
	if unusable || c.Status.Analysis.SpecHash != analysis.SpecHash(o.analysis) {
		object.Analysis.Phase = release.VerdictRunning
	}
}

// readHooks sets the hooks' answers for a release whose rollout is in progress.
func readHooks(ms *v1alpha1.Microservice, c *v1alpha1.VersionedMicroservice, object *release.Object) {
	object.End = readEndHooks(ms, c)
	group := groupRunning(ms, c.Name)
	canary := ms.Spec.UpdateStrategy.Canary
	if group == nil || canary == nil {
		return
	}
	run := group.Rollout
	if run.Gate != "" {
		object.Gates = []release.GateFact{readGate(canary, group, c.Status.Hooks)}
	}
	for _, h := range c.Status.Hooks {
		if h.Type == v1alpha1.HookRollback && h.Phase == v1alpha1.HookOpen && h.Run == run.Sequence {
			object.Rollback = &release.RollbackFact{Rollout: run.Sequence, Message: answered(h)}
		}
	}
}

// awaitsJobs reports whether a failed release is waiting for Jobs of PostRollout hooks, including Jobs that cannot
// be created yet. The hooks of a release that has no row in the status are no longer called.
func awaitsJobs(ms *v1alpha1.Microservice, c *v1alpha1.VersionedMicroservice) bool {
	canary := ms.Spec.UpdateStrategy.Canary
	listed := slices.ContainsFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool {
		return slices.ContainsFunc(g.Releases, func(r v1alpha1.Release) bool { return r.VersionedMicroservice == c.Name })
	})
	return listed && c.Status.Release == v1alpha1.ReleaseError && canary != nil && slices.ContainsFunc(canary.Hooks, func(h v1alpha1.Hook) bool {
		return h.Type == v1alpha1.HookPostRollout && h.Job != nil && slices.ContainsFunc(c.Status.Hooks, func(a v1alpha1.HookStatus) bool {
			return a.Name == h.Name && a.Type == h.Type && a.Phase == v1alpha1.HookWaiting
		})
	})
}

// gateJobs reports whether any Job of a gate has not ended. Such a Job may still be running after its rollout has
// ended. A Job without a hook in the status counts as a Job of a gate, because a user may have renamed or removed
// its hook.
func gateJobs(s *v1alpha1.VersionedMicroserviceStatus) bool {
	others := int32(0)
	for _, h := range s.Hooks {
		if h.Job == "" || h.Phase != v1alpha1.HookWaiting {
			continue
		}
		if hook.IsGate(h.Type) {
			return s.ActiveJobs > 0
		}
		if h.Type != v1alpha1.HookRollout { // activeJobs does not count the Jobs of Rollout hooks.
			others++
		}
	}
	return s.ActiveJobs > others
}

// readEndHooks combines the answers of the hooks that are called at the end of a preview. It returns nil if
// the release does not call these hooks.
func readEndHooks(ms *v1alpha1.Microservice, c *v1alpha1.VersionedMicroservice) *release.EndFact {
	canary := ms.Spec.UpdateStrategy.Canary
	i := slices.IndexFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.End != nil && g.End.Release == c.Name })
	if i < 0 || canary == nil {
		return nil
	}
	fact := &release.EndFact{Since: ms.Status.ReleaseGroups[i].End.Time.Time, Done: true}
	var lines []string
	for _, h := range canary.Hooks {
		if h.Type != v1alpha1.HookPostPreview {
			continue
		}
		at := slices.IndexFunc(c.Status.Hooks, func(a v1alpha1.HookStatus) bool {
			return a.Name == h.Name && a.Type == h.Type && a.Since != nil && a.Since.Time.Equal(fact.Since)
		})
		switch {
		case at < 0:
			fact.Done = false
			lines = append(lines, h.Name+" has not been called yet")
		case c.Status.Hooks[at].Phase == v1alpha1.HookWaiting:
			fact.Done = false
			lines = append(lines, answered(c.Status.Hooks[at]))
		case c.Status.Hooks[at].Phase == v1alpha1.HookFailed:
			fact.Failed = true
			lines = append(lines, answered(c.Status.Hooks[at]))
		}
	}
	fact.Message = strings.Join(lines, ", ")
	return fact
}

// groupRunning returns the group in which a release is being rolled out, or nil.
func groupRunning(ms *v1alpha1.Microservice, release string) *v1alpha1.ReleaseGroup {
	for i := range ms.Status.ReleaseGroups {
		if g := &ms.Status.ReleaseGroups[i]; g.Rollout != nil && g.Rollout.Release == release {
			return g
		}
	}
	return nil
}

// readGate combines the answers of the hooks at the gate where a rollout is waiting. The gate is open
// if all hooks approve. Answers that hooks gave during a different wait are ignored.
func readGate(canary *v1alpha1.CanaryStrategy, group *v1alpha1.ReleaseGroup, answers []v1alpha1.HookStatus) release.GateFact {
	run, preview := group.Rollout, group.Level == v1alpha1.LevelPreview
	fact := release.GateFact{
		Rollout: run.Sequence, Step: int(run.Step), Point: release.Point(run.Gate), Since: timeOf(run.GateTime), Open: true,
	}
	step := "" // the step whose traffic increase the hooks confirm
	if next := int(run.Step); next < len(canary.Steps) {
		step = canary.Steps[next].Name
	}
	var lines []string
	for _, h := range canary.Hooks {
		if string(h.Type) != string(run.Gate) || preview && !h.Previews || h.Type == v1alpha1.HookConfirmTrafficIncrease && !covers(h, step) {
			continue
		}
		switch a := answerOf(h, run, answers); {
		case a == nil:
			fact.Open = false
			lines = append(lines, h.Name+" has not been called yet")
		case a.Phase == v1alpha1.HookFailed:
			fact.Open, fact.Failed = false, true
			lines = append(lines, answered(*a))
		case a.Type == v1alpha1.HookPreRollout && a.Phase == v1alpha1.HookWaiting && a.Attempts > 0:
			// A rejection by this hook fails the release. A missing response is not a rejection: the hook is called again.
			fact.Open, fact.Unanswered = false, true
			lines = append(lines, fmt.Sprintf("%s did not respond: %s", a.Name, a.Message))
		case a.Phase != v1alpha1.HookOpen && a.Phase != v1alpha1.HookDelivered:
			fact.Open = false
			lines = append(lines, answered(*a))
		}
	}
	fact.Message = strings.Join(lines, ", ")
	return fact
}

func answerOf(h v1alpha1.Hook, run *v1alpha1.Rollout, answers []v1alpha1.HookStatus) *v1alpha1.HookStatus {
	for i := range answers {
		a := &answers[i]
		if a.Name == h.Name && a.Type == h.Type && a.Run == run.Sequence && sameTime(a.Since, run.GateTime) {
			return a
		}
	}
	return nil
}

func sameTime(a, b *metav1.MicroTime) bool { return a != nil && b != nil && a.Time.Equal(b.Time) }

func answered(h v1alpha1.HookStatus) string {
	if h.Message == "" {
		return fmt.Sprintf("%s is %s", h.Name, strings.ToLower(string(h.Phase)))
	}
	if h.Job != "" || !strings.HasPrefix(h.Message, "HTTP ") {
		return fmt.Sprintf("%s: %s", h.Name, h.Message)
	}
	return fmt.Sprintf("%s responded: %s", h.Name, h.Message)
}
