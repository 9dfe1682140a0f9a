package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// APIVersion is the version of the call body.
const APIVersion = "hooks.hlnr.io/v1"

// Body is the body of a call. Later versions only add fields.
type Body struct {
	// APIVersion has the value of the constant APIVersion.
	APIVersion string `json:"apiVersion"`
	// ID identifies the call. Retries have the same ID.
	ID string `json:"id"`
	// Type and Name are the type and name of the hook.
	Type v1alpha1.HookType `json:"type"`
	Name string            `json:"name"`
	// Namespace, Microservice and Group are the namespace, the Microservice and the group of the release. Release
	// is the name of the release.
	Namespace    string `json:"namespace"`
	Microservice string `json:"microservice"`
	Group        string `json:"group"`
	Release      string `json:"release"`
	// Services are the names of the release's Services in its namespace, one for each NetworkPolicy.
	Services []string `json:"services"`
	// URL is the address of a domain that routes only to the release. It is empty if there is no such domain.
	URL string `json:"url"`
	// Version is the version of the release. PreviousVersion is the version of the active release. It is empty if
	// the release itself is active, or if there is no active release.
	Version         string `json:"version"`
	PreviousVersion string `json:"previousVersion"`
	// Run is the sequence number of the rollout. It is 0 after the end of the rollout.
	Run int64 `json:"run"`
	// Step is the number of the step for which the call is made, counted from 1. For ConfirmTrafficIncrease, this is the
	// next step, which would get the traffic. For other types, it is 0 before the first step and after the end of the
	// rollout. StepName is the name of this step. It is empty if the step has no name.
	Step     int32  `json:"step"`
	StepName string `json:"stepName"`
	// Weight is the current weight of the release, in percent.
	Weight int32 `json:"weight"`
	// Phase is the status of the release, Reason is the reason for this status, and Attempt is the number of
	// times that the release was restarted after a failure or lost its traffic since it was last active.
	Phase   v1alpha1.ReleaseStatus `json:"phase"`
	Reason  string                 `json:"reason"`
	Attempt int32                  `json:"attempt"`
	// Passed are the names of the hooks that let the release pass a gate when they were last called in the current
	// or most recent rollout.
	Passed []string `json:"passed"`
	// Time is the time of the call.
	Time time.Time `json:"time"`
	// Metadata is the metadata of the hook.
	Metadata map[string]v1alpha1.HookMetadataValue `json:"metadata"`
}

// Rollout contains the state on which the hook calls of a release depend.
type Rollout struct {
	// UID is the UID of the release.
	UID types.UID
	// Microservice and Group are the Microservice and the group of the release. Row is the entry of the release in
	// the status of the Microservice.
	Microservice *v1alpha1.Microservice
	Group        *v1alpha1.ReleaseGroup
	Row          *v1alpha1.Release
	// Rollout is the rollout of the release. It is nil if no rollout is in progress.
	Rollout *v1alpha1.Rollout
	// Before is the latest reported status of the release. It is empty if no status has been reported yet.
	Before v1alpha1.ReleaseStatus
	// Round is the time at which the current round of checks began. It is zero if there is no current round.
	Round time.Time
	// PodsLeft reports whether pods of the preview that is ending are still running. LatePod describes a pod that should
	// already have terminated. It is empty if there is no such pod.
	PodsLeft bool
	LatePod  string
	// Unmeasured reports whether the template of the analysis cannot be used at the moment. In this case, the running
	// Jobs of the current round are not deleted.
	Unmeasured bool
	// Services are the names of the release's Services. URL is the address of a domain that routes only to the release.
	// It is empty if there is no such domain.
	Services []string
	URL      string
}

// RolloutOf returns the state of a release from the status of its Microservice. It returns nil if the status does not
// list the release.
func RolloutOf(ms *v1alpha1.Microservice, release *v1alpha1.VersionedMicroservice) *Rollout {
	for i := range ms.Status.ReleaseGroups {
		group := &ms.Status.ReleaseGroups[i]
		for j := range group.Releases {
			if group.Releases[j].VersionedMicroservice != release.Name {
				continue
			}
			p := &Rollout{UID: release.UID, Microservice: ms, Group: group, Row: &group.Releases[j], Before: release.Status.Release}
			if run := group.Rollout; run != nil && run.Release == release.Name {
				p.Rollout = run
			}
			return p
		}
	}
	return nil
}

// takesSteps reports whether the rollout has steps. The rollout of a group's first release has no steps, unless the
// newest domains move to that group. The rollouts of previews have no steps.
func (p *Rollout) takesSteps() bool {
	return p.Group.Level != v1alpha1.LevelPreview && (p.Group.Active != "" || p.Rollout != nil && p.Rollout.From != "")
}

// BaselineGroup returns the group whose active release gets the rest of the traffic. This is the group
// of the release, or the group from which the newest domains move to the release.
func (p *Rollout) BaselineGroup() *v1alpha1.ReleaseGroup {
	if p.Rollout == nil || p.Rollout.From == "" {
		return p.Group
	}
	for i := range p.Microservice.Status.ReleaseGroups {
		if g := &p.Microservice.Status.ReleaseGroups[i]; g.Slug == p.Rollout.From {
			return g
		}
	}
	return p.Group
}

// hooks returns the hooks of the Microservice.
func (p *Rollout) hooks() []v1alpha1.Hook {
	if c := p.Microservice.Spec.UpdateStrategy.Canary; c != nil {
		return c.Hooks
	}
	return nil
}

// step returns a step by its number, counted from 1. It returns nil if the step does not exist.
func (p *Rollout) step(n int32) *v1alpha1.CanaryStep {
	if c := p.Microservice.Spec.UpdateStrategy.Canary; c != nil && n >= 1 && int(n) <= len(c.Steps) {
		return &c.Steps[n-1]
	}
	return nil
}

// Call is a hook call that is needed now.
type Call struct {
	// Hook is the hook to call.
	Hook v1alpha1.Hook
	// Since is the time at which the rollout reached the gate, or at which the preview ended. It is nil for all other
	// calls.
	Since *metav1.MicroTime
	// RunStep is the current step of the rollout.
	RunStep int32
	// Wait is the reason why the hook has not been called yet. It is empty if the hook can be called.
	Wait string
	// Body is the body of the call, without its time.
	Body Body
}

// Calls returns the calls that the state of the rollout requires, in the order of the specification. It also returns
// calls that already have an answer. known contains the statuses of the hooks. Use SetPassed to set Passed in the calls.
func (p *Rollout) Calls(known []v1alpha1.HookStatus) []Call {
	var out []Call
	for _, h := range p.hooks() {
		if q, ok := p.call(h, known); ok {
			out = append(out, q)
		}
	}
	return out
}

func (p *Rollout) call(h v1alpha1.Hook, known []v1alpha1.HookStatus) (Call, bool) {
	switch h.Type {
	case v1alpha1.HookConfirmRollout, v1alpha1.HookPreRollout, v1alpha1.HookConfirmPromotion:
		if p.gate() != h.Type || p.Group.Level == v1alpha1.LevelPreview && !h.Previews {
			return Call{}, false
		}
		return p.request(h, p.Rollout.Step, p.Rollout.GateTime), true
	case v1alpha1.HookConfirmTrafficIncrease:
		if p.gate() != h.Type || !Applies(&h, p.step(p.Rollout.Step+1)) {
			return Call{}, false
		}
		return p.request(h, p.Rollout.Step+1, p.Rollout.GateTime), true
	case v1alpha1.HookRollout:
		if p.Rollout == nil || p.Round.IsZero() || !Applies(&h, p.step(p.Rollout.Step)) {
			return Call{}, false
		}
		return p.request(h, p.Rollout.Step, nil, stamp(p.Round)), true
	case v1alpha1.HookRollback:
		if p.Rollout == nil || !p.takesSteps() {
			return Call{}, false
		}
		q := p.request(h, 0, nil)
		q.Body.Step, q.Body.StepName = p.Rollout.Step, p.stepName(p.Rollout.Step)
		return q, true
	case v1alpha1.HookPostRollout:
		if p.Group.Level == v1alpha1.LevelPreview {
			return Call{}, false
		}
		ended := p.Row.Status == v1alpha1.ReleaseActive || p.Row.Status == v1alpha1.ReleaseError
		q := p.notification(h, string(p.Row.Status))
		return q, ended && (p.Row.Status != p.Before || isAbout(known, q))
	case v1alpha1.HookPostPreview:
		end := p.Group.End
		if end == nil || end.Release != p.Row.VersionedMicroservice || p.PodsLeft && p.LatePod == "" {
			return Call{}, false
		}
		q := p.notification(h, stamp(end.Time.Time))
		q.Since, q.Wait = &end.Time, p.LatePod
		return q, true
	case v1alpha1.HookEvent:
		var run, step string
		if p.Rollout != nil {
			run, step = strconv.FormatInt(p.Rollout.Sequence, 10), strconv.Itoa(int(p.Rollout.Step))
		}
		q := p.notification(h, string(p.Row.Status), p.Row.Reason, run, step)
		// A newly added hook is not called for a release that has no rollout in progress and whose status
		// has not changed.
		return q, p.Rollout != nil || p.Row.Status != p.Before || find(known, h.Name) != nil
	}
	return Call{}, false
}

// gate returns the type of the gate that blocks the rollout. The hooks of the gate have the same type. gate returns
// an empty string if no gate blocks the rollout, or if the hooks must not be called yet.
func (p *Rollout) gate() v1alpha1.HookType {
	if p.Rollout == nil || p.Rollout.GateTime == nil {
		return ""
	}
	return v1alpha1.HookType(p.Rollout.Gate)
}

// Applies reports whether a hook applies to a step. step is nil if the call does not belong to a step.
func Applies(h *v1alpha1.Hook, step *v1alpha1.CanaryStep) bool {
	return len(h.Steps) == 0 || step != nil && step.Name != "" && slices.Contains(h.Steps, step.Name)
}

// request returns the call of a hook for a step of the rollout.
func (p *Rollout) request(h v1alpha1.Hook, step int32, since *metav1.MicroTime, more ...string) Call {
	key := []string{strconv.FormatInt(p.Rollout.Sequence, 10), strconv.Itoa(int(step))}
	if since != nil {
		key = append(key, stamp(since.Time))
	}
	q := Call{Hook: h, Since: since, RunStep: p.Rollout.Step, Body: p.body(h, append(key, more...))}
	q.Body.Run, q.Body.Step, q.Body.StepName = p.Rollout.Sequence, step, p.stepName(step)
	return q
}

// notification returns the call to a hook for a transition.
func (p *Rollout) notification(h v1alpha1.Hook, transition ...string) Call {
	key := append([]string{strconv.Itoa(int(p.Row.Attempt)), stamp(p.Row.LastTransitionTime.Time)}, transition...)
	q := Call{Hook: h, Body: p.body(h, key)}
	if p.Rollout != nil {
		q.RunStep = p.Rollout.Step
		q.Body.Run, q.Body.Step, q.Body.StepName = p.Rollout.Sequence, p.Rollout.Step, p.stepName(p.Rollout.Step)
	}
	return q
}

func (p *Rollout) body(h v1alpha1.Hook, key []string) Body {
	b := Body{
		APIVersion: APIVersion, ID: id(p.UID, h, key), Type: h.Type, Name: h.Name, Metadata: h.Metadata,
		Namespace: p.Microservice.Namespace, Microservice: p.Microservice.Name, Group: p.Group.Slug,
		Release: p.Row.VersionedMicroservice, Services: p.Services, URL: p.URL, Version: p.Row.SemVer.Version,
		Weight: p.Row.Weight, Phase: p.Row.Status, Reason: p.Row.Reason, Attempt: p.Row.Attempt,
	}
	if p.Group.Active != b.Version {
		b.PreviousVersion = p.Group.Active
	}
	if b.Services == nil {
		b.Services = []string{}
	}
	b.Passed = []string{}
	if b.Metadata == nil {
		b.Metadata = map[string]v1alpha1.HookMetadataValue{}
	}
	return b
}

func (p *Rollout) stepName(n int32) string {
	if step := p.step(n); step != nil {
		return step.Name
	}
	return ""
}

// id identifies a call. It depends only on the rollout state, so another manager computes the same ID.
func id(uid types.UID, h v1alpha1.Hook, key []string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", append([]string{string(uid), string(h.Type), h.Name}, key...)))
	return hex.EncodeToString(sum[:16])
}

// stamp formats a time from the rollout state, with a precision of microseconds.
func stamp(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

func find(known []v1alpha1.HookStatus, name string) *v1alpha1.HookStatus {
	for i := range known {
		if known[i].Name == name {
			return &known[i]
		}
	}
	return nil
}

// isAbout reports whether the status of a hook is for this call.
func isAbout(known []v1alpha1.HookStatus, q Call) bool {
	s := find(known, q.Hook.Name)
	return s != nil && s.ID == q.Body.ID
}
