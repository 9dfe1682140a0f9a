package microservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// report writes the rollout state, the conditions, and the summary in a single write, and then records the
// events. refused is the error for a release that could not be created.
func (r *Reconciler) report(ctx context.Context, w *pass, refused *status.Error) error {
	before := withStatus(w.ms)
	if w.plan.Changed {
		writeState(w.plan.State, &w.ms.Status)
	}
	w.ms.Status.ObservedGeneration = w.ms.Generation
	problem := w.problem
	if problem == nil {
		problem = refused
	}
	setConditions(w, problem)
	summarize(w)
	if left := silent(w, problem, r.clock.Now()); left > 0 {
		w.ms.Status = before.Status
		w.requeueIn(left)
		return nil
	}
	wrote, err := r.write(ctx, w.ms, before)
	if err != nil {
		return r.reportStateRefused(ctx, w, before, err)
	}
	if wrote {
		r.recordPins(before, w.ms)
		r.recordFreeze(before, w.ms)
	}
	if wrote && w.plan.Changed {
		r.recordEvents(w)
	}
	return nil
}

// withStatus returns a copy of a Microservice with its own copy of the status. It shares all other fields with the
// original, because status writes do not change them.
func withStatus(ms *v1alpha1.Microservice) *v1alpha1.Microservice {
	before := new(*ms)
	before.Status = *ms.Status.DeepCopy()
	return before
}

// silence is how long the first status of a new Microservice may be delayed while no decision is made.
const silence = 10 * time.Second

// silenceInLine is how long the first status may be delayed while the first rollout waits for its turn. It is shorter
// than the time after which hlnr doctor reports an object without a status.
const silenceInLine = 50 * time.Second

// silent returns how much longer the first status may be delayed; 0 if it must be written now. The status need
// not be written while a Microservice is new and has no problem, and no decision has been made yet, for example because
// the scan of its ImagePolicy is not complete.
func silent(w *pass, problem *status.Error, now time.Time) time.Duration {
	if problem != nil || w.plan.Changed || len(w.facts.State.Groups) > 0 || w.facts.State.Sequence > 0 || w.adopting ||
		meta.IsStatusConditionTrue(w.ms.Status.Conditions, v1alpha1.ConditionReady) || meta.IsStatusConditionTrue(w.ms.Status.Conditions, v1alpha1.ConditionStalled) {
		return 0
	}
	silence := silence
	if w.inLine && w.unwritten {
		silence = silenceInLine
	}
	left := w.ms.CreationTimestamp.Add(silence).Sub(now)
	if left > silence { // The clocks of the API server and the manager differ.
		return 0
	}
	return max(0, left)
}

// sourceSilence is how long an ImagePolicy's scan with its current specification may take before the Ready
// condition shows that the scan is not complete.
const sourceSilence = 30 * time.Second

// noteSource records whether the ImagePolicy's specification has just changed. If a Microservice is not
// Ready, its Ready condition shows immediately that the scan is not complete.
func (r *Reconciler) noteSource(w *pass) {
	if !w.facts.SourceStale || w.problem != nil || !meta.IsStatusConditionTrue(w.ms.Status.Conditions, v1alpha1.ConditionReady) {
		r.stale.Delete(client.ObjectKeyFromObject(w.ms))
		return
	}
	first, _ := r.stale.LoadOrStore(client.ObjectKeyFromObject(w.ms), r.clock.Now())
	if left := first.(time.Time).Add(sourceSilence).Sub(r.clock.Now()); left > 0 && left <= sourceSilence {
		w.sourceFresh = true
		w.requeueIn(left)
	}
}

// reportProblem reports why a plan cannot be applied. It does not change the rollout state.
func (r *Reconciler) reportProblem(ctx context.Context, w *pass, problem *status.Error) error {
	before := withStatus(w.ms)
	w.ms.Status.ObservedGeneration = w.ms.Generation
	setReady(w, problem)
	_, err := r.write(ctx, w.ms, before)
	return err
}

// write performs a reconcile's only status write, and reports whether the status changed. The write takes
// effect only if the rollout state has not changed since it was read.
func (r *Reconciler) write(ctx context.Context, ms, before *v1alpha1.Microservice) (bool, error) {
	wrote, err := status.Patch(ctx, r.Client, FieldOwner, ms, before, status.AtResourceVersion, status.KnownFields)
	if err != nil {
		return false, fmt.Errorf("write the rollout state: %w", err)
	}
	if wrote {
		r.journal.Wrote(before, ms, r.clock.Now())
	}
	return wrote, nil
}

// reasonStateRefused is the reason for a rollout state that the API server rejects.
const reasonStateRefused = "StateRefused"

// afterStateRefused is the time until a rejected rollout state is written again.
const afterStateRefused = time.Minute

// reportStateRefused reports in the Ready condition that the API server rejects the rollout state. Until the API
// server accepts the rollout state, no release is deleted and no traffic moves. Except for the condition, the
// status does not change. The returned error contains the time until the next attempt. Other write errors are
// returned unchanged.
func (r *Reconciler) reportStateRefused(ctx context.Context, w *pass, before *v1alpha1.Microservice, err error) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	problem := status.NewTerminal(reasonStateRefused, fmt.Errorf("the API server rejects the rollout state; until it accepts the state, no release is deleted and no traffic moves; apply the CustomResourceDefinitions of this version of Heighliner: %w", err))
	problem.After = afterStateRefused
	before.DeepCopyInto(w.ms)
	if err := r.reportProblem(ctx, w, problem); err != nil {
		return errors.Join(problem.Err, err)
	}
	return problem
}

// summarize sets the fields that the printer columns show.
func summarize(w *pass) {
	ms, s := w.ms, &w.ms.Status
	var sum v1alpha1.MicroserviceSummary
	serving, more := 0, -1
	var failed []string
	groups := groupsWithoutPreviews(ms)
	for i := range groups {
		g := &groups[i]
		failed = append(failed, failures(*g)...)
		if row := g.ActiveRelease(); row != nil {
			more++
			if sum.Active == "" {
				sum.Active = status.Short(row.SemVer.Version)
			}
			if row.Available {
				serving++
			}
		}
		if c := canary(ms, g, w.plan.Notes); c != "" && sum.Canary == "" {
			sum.Canary = c
		}
	}
	if more > 0 {
		sum.Active += fmt.Sprintf(" +%d", more)
	}
	if len(groups) > 0 {
		sum.Groups = fmt.Sprintf("%d/%d", serving, len(groups))
	}
	if p := countPreviews(w); p.groups > 0 {
		sum.Previews = fmt.Sprintf("%d/%d", p.available, p.live)
	}
	sum.Failed = status.Line(strings.Join(failed, ", "))
	s.Summary = sum
	s.Replicas, s.Selector = ms.Spec.Availability.Replicas, selector(ms, groups)
}

// selector returns a selector for the pods of the newest release group with an active release.
func selector(ms *v1alpha1.Microservice, groups []v1alpha1.ReleaseGroup) string {
	for i := range groups {
		if groups[i].ActiveRelease() != nil {
			return labels.Set{v1alpha1.LabelMicroservice: ms.Name, v1alpha1.LabelGroup: groups[i].Slug}.String()
		}
	}
	return ""
}

// canary describes the release that is being rolled out in a group, and its progress.
func canary(ms *v1alpha1.Microservice, g *v1alpha1.ReleaseGroup, notes []release.Note) string {
	if g.Rollout == nil {
		return ""
	}
	for _, r := range g.Releases {
		if r.VersionedMicroservice != g.Rollout.Release {
			continue
		}
		if g.Rollout.Step == 0 {
			return strings.TrimSpace(status.Short(r.SemVer.Version) + " " + string(r.Status) + " " + g.Rollout.WaitsFor)
		}
		steps := 0
		if c := ms.Spec.UpdateStrategy.Canary; c != nil {
			steps = len(c.Steps)
		}
		text := fmt.Sprintf("%s %d%% step %d/%d", status.Short(r.SemVer.Version), r.Weight, min(int(g.Rollout.Step), steps), steps)
		if wait := waitOf(notes, g.Slug); wait != "" {
			text += " " + wait
		}
		return text
	}
	return ""
}

func version(g *v1alpha1.ReleaseGroup, name string) string {
	for _, r := range g.Releases {
		if r.VersionedMicroservice == name {
			return r.SemVer.Version
		}
	}
	return name
}
