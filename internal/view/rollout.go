package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/frozen"
	"github.com/heighliner/heighliner/internal/version"
)

// rollout is a rollout in progress, with all data that determines its state.
type rollout struct {
	*service
	*run
	group   *v1alpha1.ReleaseGroup
	row     *v1alpha1.Release
	object  *v1alpha1.VersionedMicroservice // nil if not known
	steps   []v1alpha1.CanaryStep
	reports []report
}

// rollout returns the rollout in progress of a group. It returns nil if there is none, or if its release is
// not in the group.
func (s *service) rollout(g *v1alpha1.ReleaseGroup) *rollout {
	record := runOf(g)
	if record == nil || g.Phase != v1alpha1.GroupLive {
		return nil
	}
	i := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.VersionedMicroservice == record.release })
	if i < 0 {
		return nil
	}
	return &rollout{service: s, run: record, group: g, row: &g.Releases[i], object: s.release(record.release), steps: s.steps(g), reports: s.reports(g.Slug)}
}

// present returns the current step. It returns nil before the first step, or if the current step was removed.
func (r *rollout) present() *v1alpha1.CanaryStep {
	if r.step < 1 || int(r.step) > len(r.steps) {
		return nil
	}
	return &r.steps[r.step-1]
}

// adopted reports whether a user requested to skip the steps of the rollout. The planner then does not wait for spec.paused, approvals, pauses,
// measurements, windows or hooks of the steps.
func (r *rollout) adopted() bool { return Adopted(r.row) }

// Adopted reports whether a user requested to skip the steps of a release.
func Adopted(row *v1alpha1.Release) bool { return row.Internal != nil && row.Internal.Adopted }

// takesSteps reports whether the planner gives traffic to the release in steps. The exceptions are previously active releases, adopted releases and the
// first release of a group, unless domains move to that group from an older group.
func (r *rollout) takesSteps() bool {
	return (r.group.ActiveRelease() != nil || r.from != "") && r.row.Promoted == 0 && !r.adopted()
}

// state returns the state of the rollout, which is the first of its waits in the order in which the planner checks them.
func (r *rollout) state() State {
	s := r.find()
	if st := r.present(); st != nil {
		s.Step, s.Steps, s.Weight = r.step, int32(len(r.steps)), &r.row.Weight
	}
	r.identify(&s, r.row)
	if s.Class == "" {
		s.Class = Moving
	}
	if s.Class == Moving && r.outage(r.group) {
		s.Class, s.Outage = Failed, true
	}
	return s
}

// beforeTraffic reports whether the release has not reached its first step yet. It returns false for a canary that has traffic but has returned to
// the state before its first step because the steps were edited.
func (r *rollout) beforeTraffic() bool { return r.step == 0 && r.row.Status != v1alpha1.ReleaseCanary }

func (r *rollout) find() State {
	for _, f := range []func() *State{r.blocked, r.unhealthy, r.unprogrammed, r.halted, r.retries, r.userWait, r.window, r.gated} {
		if s := f(); s != nil {
			return *s
		}
	}
	s := State{Word: WordProgressing, Since: timeOf(r.started)}
	if r.beforeTraffic() {
		s.Word = WordStarting
		if r.available() {
			s.Detail = "available, but without traffic so far"
		}
	}
	s.Detail = cmp.Or(r.overdueSince(r.pauseEnd(), "its pause ended"), s.Detail)
	return s
}

// overdue is the longest time that the manager may take to continue after a pause has ended or a measurement has become due. After
// this time, the state shows the delay.
const overdue = time.Minute

// overdueSince describes an event that was due at a given time. It returns "" if the event is not overdue.
func (s *service) overdueSince(at time.Time, what string) string {
	if at.IsZero() || s.now.Sub(at) <= overdue {
		return ""
	}
	return what + " " + Age(s.now.Sub(at)) + " ago; if this persists, check the manager with " + cmp.Or(s.Program, "hlnr") + " doctor"
}

// signed reports whether the current step or a later step needs approvals that a single user cannot skip.
func (r *rollout) signed() bool {
	for i, st := range r.steps {
		if a := st.Approval; a != nil && (a.Count > 1 || len(a.From) > 0) && int32(i)+1 >= r.step && r.continued != int32(i)+1 {
			return true
		}
	}
	return false
}

// adoptable reports whether the planner would apply an Adopt decision by a single user. The rollout must not be the return to a
// retained release, its steps must not need approvals that a single user cannot skip, and no freeze may apply unless the release
// was active before.
func (r *rollout) adoptable() bool {
	return unfinished(r.row) && !r.signed() && (r.row.Promoted > 0 || !r.freezesDecisions())
}

// unfinished reports whether the status of a release is pending or canary.
func unfinished(row *v1alpha1.Release) bool {
	return row.Status == v1alpha1.ReleaseCanary || row.Status == v1alpha1.ReleasePending
}

// abort returns the action that ends the rollout. This is the Deprecate decision or, for the return to a retained
// release, a pin to the active release or the removal of the pin. It returns nil if no action ends the rollout.
func (r *rollout) abort() []Action {
	switch active := r.group.ActiveRelease(); {
	case unfinished(r.row):
		return []Action{r.actOn("deprecate", r.row)}
	case active != nil && !isPreview(r.group) && !r.activeDenied() && (!pinnedTo(r.group, r.row) || r.startsNothing()):
		return []Action{r.act("rollback", "--to", r.nameOf(active))} // During a freeze or a pause, removing the pin would not stop the return.
	case pinnedTo(r.group, r.row):
		return []Action{r.unpin(r.group)}
	}
	return nil
}

// skipOrAbort returns the action that skips the remaining checks of the rollout, if a single user may do that, and the action that aborts it.
func (r *rollout) skipOrAbort() []Action {
	if r.adoptable() {
		return append([]Action{r.actOn("adopt", r.row)}, r.abort()...)
	}
	return r.abort()
}

// pauseEnd returns when the pause of the current step ends or ended. It returns zero if there is no pause, or if the end is not known.
func (r *rollout) pauseEnd() time.Time {
	st, since := r.present(), r.healthySince()
	if st == nil || st.Pause == nil || st.Approval != nil || since.IsZero() || r.adopted() {
		return time.Time{}
	}
	return since.Add(st.Pause.Duration.Std(0) - r.waited)
}

// outside describes, for each problem outside a release, what the rollout is waiting for.
var outside = map[string]string{
	v1alpha1.FailureUnschedulable: "capacity", v1alpha1.FailureQuotaExceeded: "capacity in the quota",
	v1alpha1.FailureContainerCreating: "a node to create its containers",
	v1alpha1.FailureImagePullBackOff:  "an image that cannot be pulled", v1alpha1.FailureAdmissionUnavailable: "an admission webhook",
	v1alpha1.FailureOtherReleaseRunning: "the pods of another release to terminate",
	v1alpha1.FailureNameConflict:        "its Deployment, whose name another Deployment uses",
	"TrafficNotProgrammed":              "the previous traffic change to be confirmed", "NotCreated": "its VersionedMicroservice, which cannot be created or changed",
	"CanaryDomainsNotProgrammed": "the domains of its canary", "HookUnanswered": "a response from a hook",
}

// ProblemInWords describes what a rollout waits for because of a problem outside its release, for example "capacity". The
// reason is the value of status.releaseGroups[].rollout.waitsFor.
func ProblemInWords(reason string) string { return cmp.Or(outside[reason], reason) }

// blocked returns the state of a rollout that is blocked by a problem outside the release.
func (r *rollout) blocked() *State {
	switch {
	case r.waitsFor != "":
		s := &State{Word: WordBlocked, Class: Failed, Reason: r.waitsFor, Detail: ProblemInWords(r.waitsFor), Since: r.unavailableSince(r.waitsFor)}
		if message := r.causeOf(r.waitsFor); message != "" {
			s.Detail += ": " + message
		}
		s.Next = r.abort()
		return s
	case r.row.Reason == "TrafficLost":
		return &State{Word: WordBlocked, Class: Failed, Reason: r.row.Reason, Detail: "a NetworkPolicy: the release had traffic, but no NetworkPolicy routes to it now", Next: r.abort()}
	}
	return nil
}

// causeOf describes a problem outside the release.
func (r *rollout) causeOf(cause string) string {
	switch cause {
	case "TrafficNotProgrammed", "CanaryDomainsNotProgrammed":
		for _, rep := range r.reports {
			if rep.Message != "" {
				return rep.Message
			}
		}
		return ""
	case "HookUnanswered":
		return hookMessage(r.waitingHooks())
	}
	if r.object != nil && r.object.Status.Failure == cause {
		return r.object.Status.Message
	}
	return ""
}

// unavailableSince returns when the object began to report a cause. It returns nil if the time is not known.
func (r *rollout) unavailableSince(cause string) *metav1.Time {
	if r.object == nil {
		return nil
	}
	c := availableOf(r.object)
	if c == nil || c.Status == metav1.ConditionTrue || c.Reason != cause {
		return nil
	}
	return timeOf(c.LastTransitionTime.Time)
}

// unhealthy returns the state of a rollout whose pods are not all available.
func (r *rollout) unhealthy() *State {
	if r.gate == v1alpha1.GateConfirmRollout || r.object == nil || r.available() {
		return nil
	}
	s := &State{Word: WordStarting, Since: timeOf(r.started), Until: r.deadline(), Reason: r.object.Status.Failure, Detail: r.object.Status.Message}
	if !r.beforeTraffic() {
		s.Word = WordInterrupted
	}
	if s.Detail == "" {
		if p := r.podsOf(r.row, r.object); p != nil {
			s.Detail = fmt.Sprintf("%d of %d pods available", p.Available, p.Wanted)
		}
	}
	if s.Reason != "" {
		s.Next = append(r.logs(r.row, r.object), r.abort()...)
	}
	return s
}

// available reports whether the object reports all its replicas as available at its current
// generation.
func (r *rollout) available() bool {
	o := r.object
	return o != nil && o.Spec.Replicas > 0 && o.Status.ObservedGeneration == o.Generation && o.Status.Available >= o.Spec.Replicas
}

// deadline returns the time until which the current step can remain unhealthy or unprogrammed.
func (r *rollout) deadline() *metav1.Time {
	seconds := cmp.Or(r.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds, 600)
	end := r.started.Add(r.waited).Add(time.Duration(seconds) * time.Second)
	if r.grace.After(end) {
		end = r.grace
	}
	return timeOf(end)
}

// unprogrammed returns the state of a rollout whose weight is not confirmed.
func (r *rollout) unprogrammed() *State {
	if r.beforeTraffic() {
		return nil
	}
	late := r.late()
	if len(late) == 0 {
		return nil
	}
	names := make([]string, 0, len(late))
	message := ""
	for _, rep := range late {
		names = append(names, parentsOf(rep.policy))
		message = cmp.Or(message, rep.Message)
	}
	s := &State{Word: WordProgramming, Reason: late[0].Reason, Since: micros(r.group.TrafficTime), Until: r.deadline()}
	s.Detail = fmt.Sprintf("%s to program %d%%", join(names), r.row.Weight)
	if message != "" {
		s.Class, s.Detail = Failed, s.Detail+" ("+message+")"
	}
	return s
}

// late returns the reports of the policies that the rollout is waiting for because they have not confirmed the revision of the
// step, and of policies that have lost their routes.
func (r *rollout) late() (out []report) {
	for _, rep := range r.reports {
		if rep.Revision < r.stepRevision && rep.Revision > 0 && rep.Revision >= settledOf(r.group) || rep.Revision > 0 && rep.Unrouted {
			out = append(out, rep)
		}
	}
	return out
}

// halted returns the state of a rollout that cannot continue because of spec.paused or a freeze.
func (r *rollout) halted() *State {
	paused := r.ms.Spec.Paused && !r.adopted()
	if c := frozenOf(r.ms); c != nil && !paused {
		// Another release of the same version, without a rollout in progress, can also be waiting.
		if why := freezeOf(r.ms, func(w frozen.Wait) bool { return w.Of(r.row.SemVer.Version) && w.HasRollout() }); why != "" {
			return &State{Word: WordFrozen, Class: Moving, Reason: c.Reason, Since: timeOf(c.LastTransitionTime.Time), Detail: why, Next: r.abort()}
		}
	}
	if !paused || r.row.Promoted > 0 && (r.group.Target.Reason == "Pinned" || r.activeDenied()) {
		return nil
	}
	return &State{Word: WordPaused, Class: Waiting, Detail: fmt.Sprintf("%s waits at %d%%", r.row.SemVer.Version, r.row.Weight), Next: []Action{r.act("resume")}}
}

// activeDenied reports whether the active version is denied. A retained release replaces a denied version, even during a pause.
func (r *rollout) activeDenied() bool {
	return Denied(r.images[key(r.ms.Namespace, r.ms.Spec.ImagePolicyRef.Name)], r.group, r.group.Active)
}

// retries returns the state of a rollout whose canary lost its traffic and must wait before it gets traffic again.
func (r *rollout) retries() *State {
	at := micro(r.row.RetryTime)
	if r.step > 0 || !at.After(r.now) {
		return nil
	}
	return &State{Word: WordRetryTime, Class: Failed, Reason: r.row.Reason, Until: timeOf(at), Detail: fmt.Sprintf("%d attempts failed or lost their traffic (%s)", r.row.Attempt, r.row.Reason), Next: r.abort()}
}

// approved describes how many of the required users have approved the current step, and lists
// these users.
func (r *rollout) approved(a *v1alpha1.CanaryApproval) string {
	var by []string
	for _, x := range r.approvals {
		if len(a.From) == 0 || slices.Contains(a.From, x.Group) {
			by = append(by, x.By)
		}
	}
	out := ""
	if a.Count > 1 {
		out = fmt.Sprintf("%d of %d", len(by), a.Count)
	}
	if len(a.From) > 0 {
		out = strings.TrimPrefix(out+" by members of "+strings.Join(a.From, " or "), " ")
	}
	if a.Count > 1 && len(by) > 0 {
		out += ": " + strings.Join(by, ", ")
	}
	return out
}

// userWait returns the state of a rollout whose current step is waiting for a user, for the end of a
// pause, or for measurements. It returns nil if the step is not waiting for any of these.
func (r *rollout) userWait() *State {
	st := r.present()
	if st == nil || r.continued == r.step || r.adopted() {
		return nil
	}
	var skip []Action
	if r.row.Promoted > 0 || !r.freezesDecisions() {
		skip = []Action{r.actOn("continue", r.row)}
	}
	next := slices.Concat(skip, r.abort())
	since := r.healthySince()
	if v := r.verdict(); v != nil && (v.Phase == v1alpha1.AnalysisInconclusive || v.Phase == v1alpha1.AnalysisNoTraffic) && r.measures() {
		s := &State{Word: WordInconclusive, Class: Waiting, Reason: string(v.Phase), Since: timeOf(since), Detail: v.Message, Next: next}
		if v.Phase == v1alpha1.AnalysisNoTraffic {
			s.Word = WordNoTraffic
		}
		return s
	}
	switch {
	case st.Approval != nil:
		return &State{Word: WordApproval, Class: Waiting, Detail: r.approved(st.Approval), Since: timeOf(since), Next: next}
	case r.pauseEnd().After(r.now):
		return &State{Word: WordPause, Since: timeOf(since), Until: timeOf(r.pauseEnd()), Next: skip}
	}
	if v := r.verdict(); r.measures() && (v == nil || v.Phase != v1alpha1.AnalysisPassed) {
		s := &State{Word: WordAnalysis, Since: timeOf(since), Next: skip}
		if v != nil {
			a := r.analysis(r.object)
			s.Until, s.Detail = a.Next, a.progress()
		}
		wait := cmp.Or(r.unusable(), r.overdueSince(r.nextRound(v, since), "its next round was due"))
		if h := r.roundHook(); h != nil {
			wait = cmp.Or(wait, fmt.Sprintf("hook %s: %s", h.Name, cmp.Or(h.Message, "it has not responded")))
		}
		s.Detail = strings.TrimPrefix(strings.TrimSuffix(s.Detail+"; "+wait, "; "), "; ")
		return s
	}
	return nil
}

// healthySince returns when the current wait of a healthy canary began. It returns zero if the time is not known.
func (r *rollout) healthySince() time.Time {
	if r.interrupted {
		return time.Time{}
	}
	if !r.waitingSince.IsZero() {
		return r.waitingSince
	}
	at := r.started
	for _, rep := range r.reports {
		if t := micro(rep.ConfirmedTime); rep.Revision >= r.stepRevision && t.After(at) {
			at = t
		}
	}
	return at
}

// measures reports whether the outcome of the current step depends on measurements. A canary that waits for its first step because the steps were
// edited is measured with its current traffic.
func (r *rollout) measures() bool {
	c, st := r.ms.Spec.UpdateStrategy.Canary, r.present()
	if r.step == 0 && !r.beforeTraffic() {
		st = &v1alpha1.CanaryStep{Weight: r.row.Weight, Match: r.row.Match, MirrorPercent: r.row.MirrorPercent}
	}
	if c == nil || st == nil || st.Weight == 0 && !st.Match && st.MirrorPercent == 0 {
		return false
	}
	return c.Measures() || slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool { return h.Type == v1alpha1.HookRollout })
}

// verdict returns the result of the measurements in the current step, or nil.
func (r *rollout) verdict() *v1alpha1.ReleaseAnalysis {
	if r.object == nil {
		return nil
	}
	a := r.object.Status.Analysis
	if a == nil || a.Run != r.sequence || a.Step != r.step {
		return nil
	}
	return a
}

// nextRound returns when the current step's next round of measurements is or was due. It returns zero if the time is not known. v is the
// result of the previous rounds, or nil before the first round, and since is the beginning of the wait.
func (r *rollout) nextRound(v *v1alpha1.ReleaseAnalysis, since time.Time) time.Time {
	if r.roundHook() != nil || r.unusable() != "" {
		return time.Time{} // The round waits until the hook has responded, or until the shared analysis can be used.
	}
	if v != nil {
		return micro(v.NextTime)
	}
	spec := analysistemplate.Among(r.ms, r.Templates, r.ClusterTemplates)
	if spec == nil || since.IsZero() {
		return time.Time{}
	}
	return since.Add(spec.Interval.Std(time.Minute))
}

// roundHook returns a hook of type Rollout that the current round is waiting for, or nil.
func (r *rollout) roundHook() *v1alpha1.HookStatus {
	if r.object == nil {
		return nil
	}
	for i := range r.object.Status.Hooks {
		if h := &r.object.Status.Hooks[i]; h.Type == v1alpha1.HookRollout && h.Run == r.sequence && h.Phase == v1alpha1.HookWaiting && h.Attempts == 0 {
			return h
		}
	}
	return nil
}

// unusable returns the reason why the shared analysis of the rollout cannot be used, or "".
func (r *rollout) unusable() string {
	c := r.ms.Spec.UpdateStrategy.Canary
	stalled := meta.FindStatusCondition(r.ms.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.AnalysisTemplateRef == nil || stalled == nil || stalled.Status != metav1.ConditionTrue {
		return ""
	}
	if stalled.Reason == "AnalysisTemplateNotFound" || stalled.Reason == "AnalysisInvalid" {
		return stalled.Message
	}
	return ""
}

// window returns the state of a rollout that is waiting for its time window.
func (r *rollout) window() *State {
	activeStopped := r.step == 0 && r.successor(r.group) != nil // The planner completes a replacement of pods even outside the window.
	if len(r.steps) == 0 || r.gate == v1alpha1.GateConfirmRollout && !r.awaitsReplacement() || activeStopped || !r.takesSteps() {
		return nil
	}
	w := r.steps[min(int(r.step), len(r.steps)-1)].Window
	open, next, known := openAt(w, r.now)
	if w == nil || open && known {
		return nil
	}
	s := &State{Word: WordWindow, Detail: windowText(w), Until: timeOf(next)}
	if !known {
		s.Class = Failed
	}
	return s
}

// awaitsReplacement reports whether the release may have pods as soon as the replacement of pods in its exclusive group begins, because the ConfirmRollout
// hooks, if any, have approved.
func (r *rollout) awaitsReplacement() bool {
	if !r.ms.Spec.Availability.Exclusive || r.group.ActiveRelease() == nil {
		return false
	}
	return !slices.ContainsFunc(r.ms.Spec.UpdateStrategy.Canary.Hooks, func(h v1alpha1.Hook) bool {
		return h.Type == v1alpha1.HookConfirmRollout && (r.object == nil || !slices.ContainsFunc(r.object.Status.Hooks, func(s v1alpha1.HookStatus) bool {
			return s.Name == h.Name && s.Type == h.Type && s.Run == r.sequence && s.Phase == v1alpha1.HookOpen
		}))
	})
}

// gated returns the state of a rollout that is waiting for hooks or other Microservices.
func (r *rollout) gated() *State {
	switch {
	case r.gate == "", r.adopted() && r.gate != v1alpha1.GateConfirmRollout:
		return nil
	case r.gate == v1alpha1.GateTogether:
		return r.peers()
	}
	s := &State{Word: WordGate, Reason: string(r.gate), Since: timeOf(r.gateTime), Detail: "the " + string(r.gate) + " hooks"}
	if of := r.otherJobs(); of != "" {
		s.Detail = fmt.Sprintf("the hook Jobs of %s to end before the %s hooks are called", of, r.gate)
	}
	if hooks := r.waitingHooks(); len(hooks) > 0 {
		names := make([]string, len(hooks))
		for i, h := range hooks {
			names[i] = h.Name
		}
		noun := "hook"
		if len(names) > 1 {
			noun = "hooks"
		}
		s.Detail = fmt.Sprintf("%s %s (%s%s)", noun, join(names), r.gate, r.responseOf(hooks))
	}
	s.Next = r.skipOrAbort()
	return s
}

// otherJobs returns the version of another release in the group if hook Jobs of that release must end before the ConfirmRollout
// hooks are called. It returns "" if there is no such release. That release might no longer be in the rollout state.
func (r *rollout) otherJobs() (version string) {
	if r.gate != v1alpha1.GateConfirmRollout || !r.gateTime.IsZero() {
		return ""
	}
	for _, o := range r.releases {
		reverts := o.Status.Release == v1alpha1.ReleaseError && slices.ContainsFunc(o.Status.Hooks, func(h v1alpha1.HookStatus) bool {
			return h.Type == v1alpha1.HookPostRollout && h.Phase == v1alpha1.HookWaiting
		})
		of := o.DeletionTimestamp.IsZero() && o.Namespace == r.ms.Namespace && o.Spec.MicroserviceName == r.ms.Name && o.Spec.Group == r.group.Slug && o.Name != r.run.release
		if v := o.Spec.SemVer.Version; of && (o.Status.ActiveJobs > 0 || reverts) && (version == "" || v < version) {
			version = v
		}
	}
	return version
}

// waitingHooks returns the hooks of the current gate that have not approved yet.
func (r *rollout) waitingHooks() (out []v1alpha1.HookStatus) {
	if r.object == nil {
		return nil
	}
	for _, h := range r.object.Status.Hooks {
		if h.Run == r.sequence && string(h.Type) == string(r.gate) && h.Phase == v1alpha1.HookWaiting {
			out = append(out, h)
		}
	}
	return out
}

// responseOf describes the first response from the hooks or, if the hook runs as a Job, the state of the Job. It returns ""
// if there is none.
func (r *rollout) responseOf(hooks []v1alpha1.HookStatus) string {
	of := func(h v1alpha1.HookStatus) string {
		if len(hooks) > 1 {
			return "; " + h.Name + ": "
		}
		return "; "
	}
	for _, h := range hooks {
		switch {
		case h.Message == "":
		case r.isJob(h.Name), !strings.HasPrefix(h.Message, "HTTP "):
			return of(h) + h.Message
		default:
			return of(h) + fmt.Sprintf("response %q", h.Message)
		}
	}
	return ""
}

// isJob reports whether a hook runs as a Job.
func (r *rollout) isJob(name string) bool {
	c := r.ms.Spec.UpdateStrategy.Canary
	return c != nil && slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool { return h.Name == name && h.Job != nil })
}

// hookMessage returns the first response from the hooks, or "".
func hookMessage(hooks []v1alpha1.HookStatus) string {
	for _, h := range hooks {
		if h.Message != "" {
			return fmt.Sprintf("%q", h.Message)
		}
	}
	return ""
}

// peers returns the state of a rollout that is waiting for other Microservices. The Blocked condition also shows failures in Microservices
// that were not read, but it can be about another version.
func (r *rollout) peers() *State {
	wanted := r.row.SemVer.Version
	name := togetherOf(r.ms)
	var failed, late []string
	for _, peer := range r.together[key(r.ms.Namespace, name)] {
		if peer.Name == r.ms.Name || !peer.DeletionTimestamp.IsZero() {
			continue
		}
		if reason := failureAt(peer, wanted); reason != "" {
			failed = append(failed, fmt.Sprintf("%s (%s)", peer.Name, reason))
		} else if !reached(peer, r.group.Slug, wanted, r.step) {
			late = append(late, peer.Name)
		}
	}
	slices.Sort(failed)
	slices.Sort(late)
	if len(failed) > 0 {
		return &State{Word: WordTogetherHeld, Class: Waiting, Reason: "TogetherHeld", Since: timeOf(r.gateTime), Detail: join(failed), Next: r.skipOrAbort()}
	}
	if c := meta.FindStatusCondition(r.ms.Status.Conditions, v1alpha1.ConditionBlocked); c != nil && c.Reason == "TogetherHeld" && frozen.IsAtWeight(c.Message, wanted) {
		return &State{Word: WordTogetherHeld, Class: Waiting, Reason: c.Reason, Since: timeOf(c.LastTransitionTime.Time), Detail: c.Message, Next: r.skipOrAbort()}
	}
	s := &State{Word: WordTogether, Since: timeOf(r.gateTime), Detail: "the services of " + name}
	if len(late) > 0 {
		s.Detail = join(late)
	}
	return s
}

// failureAt returns why a version failed in a service, or "" if the version is active or in progress there, or has not failed. A release that was
// rolled back only because another release failed has not failed itself.
func failureAt(ms *v1alpha1.Microservice, wanted string) (reason string) {
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		x := runOf(g)
		for _, row := range g.Releases {
			switch {
			case row.SemVer.Version != wanted:
			case row.Status == v1alpha1.ReleaseActive, x != nil && x.release == row.VersionedMicroservice:
				return ""
			case row.Status == v1alpha1.ReleaseError && row.Reason != "TogetherFailed":
				reason = row.Reason
			}
		}
	}
	return reason
}

// reached reports whether a version is active in a service or has completed a step there. It also returns true if the service's group with the
// given slug has a higher active version.
func reached(ms *v1alpha1.Microservice, slug, wanted string, step int32) bool {
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if a := g.ActiveRelease(); a != nil && g.Slug == slug && !isPreview(g) && version.Compare(a.SemVer.Version, wanted) > 0 {
			return true
		}
		x := runOf(g)
		for _, row := range g.Releases {
			if row.SemVer.Version != wanted {
				continue
			}
			if row.Status == v1alpha1.ReleaseActive || x != nil && x.release == row.VersionedMicroservice && (x.step > step || x.step == step && slices.Contains([]v1alpha1.Gate{v1alpha1.GateTogether, v1alpha1.GateConfirmTrafficIncrease, v1alpha1.GateConfirmPromotion}, x.gate)) {
				return true
			}
		}
	}
	return false
}

// progress returns the progress of the rollout, with the checks of its current step.
func (r *rollout) progress() *Rollout {
	out := &Rollout{Adoptable: r.adoptable(), Step: r.step, Steps: int32(len(r.steps)), Started: *cmp.Or(timeOf(r.started), &metav1.Time{}), From: r.from}
	if st := r.present(); st != nil {
		out.StepName = st.Name
	}
	for i := int(r.step); i < len(r.steps) && r.takesSteps(); i++ {
		out.Next = append(out.Next, r.steps[i].Weight)
	}
	if len(out.Next) == 0 || out.Next[len(out.Next)-1] != 100 {
		out.Next = append(out.Next, 100)
	}
	if r.object != nil {
		out.Checks = append(out.Checks, r.availableCheck())
	}
	if !r.beforeTraffic() && len(r.reports) > 0 {
		out.Checks = append(out.Checks, r.programmedCheck())
	}
	if r.object != nil && r.measures() {
		out.Checks = append(out.Checks, r.analysisCheck())
	}
	return out
}

func (r *rollout) availableCheck() Check {
	c := Check{Name: "available", Result: CheckWaiting, Message: "not available"}
	if p := r.podsOf(r.row, r.object); p != nil {
		c.Message = fmt.Sprintf("%d of %d pods available", p.Available, p.Wanted)
	}
	if r.available() {
		c.Result, c.Message = CheckPassed, "available"
		if a := meta.FindStatusCondition(r.object.Status.Conditions, v1alpha1.ConditionAvailable); a != nil && a.Status == metav1.ConditionTrue {
			c.Since = timeOf(a.LastTransitionTime.Time)
		}
	} else if r.object.Status.Failure != "" {
		c.Result, c.Message = CheckFailed, strings.TrimSuffix(r.object.Status.Failure+": "+r.object.Status.Message, ": ")
	}
	return c
}

func (r *rollout) programmedCheck() Check {
	c := Check{Name: "programmed", Result: CheckWaiting, Message: fmt.Sprintf("%d%% not programmed", r.row.Weight)}
	for _, rep := range r.late() {
		if rep.Message != "" {
			c.Message += ": " + rep.Message
			return c
		}
	}
	for _, rep := range r.reports {
		if rep.Revision >= r.stepRevision && len(r.late()) == 0 {
			c.Result, c.Message, c.Since = CheckPassed, fmt.Sprintf("%d%% programmed", r.row.Weight), micros(rep.ConfirmedTime)
		}
	}
	return c
}

func (r *rollout) analysisCheck() Check {
	c := Check{Name: "analysis", Result: CheckWaiting, Message: "no round yet"}
	v := r.verdict()
	if v == nil {
		return c
	}
	c.Message = r.analysis(r.object).progress()
	switch v.Phase {
	case v1alpha1.AnalysisPassed:
		c.Result = CheckPassed
	case v1alpha1.AnalysisFailed:
		c.Result = CheckFailed
	}
	return c
}

// parentsOf lists the parents that program the routes of a policy.
func parentsOf(p *v1alpha1.NetworkPolicy) string {
	if v := p.Spec.Provider; v != nil && v.Gateway != nil {
		var names []string
		for _, ref := range v.Gateway.ParentRefs {
			name := "gateway " + cmp.Or(ref.Namespace, p.Namespace) + "/" + ref.Name
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			return join(names)
		}
	}
	return "NetworkPolicy " + p.Name
}

// join lists names, as in "a", "a and b" or "a, b and c".
func join(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// podsOf returns the pods of a release or, if pods were not read, only the numbers of pods according to the object of the
// release. It returns nil if neither is known.
func (s *service) podsOf(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice) *Pods {
	var out Pods
	if o != nil {
		out.Available, out.Wanted = o.Status.Available, max(o.Spec.Replicas, o.Status.Replicas)
		if o.Spec.Replicas == 0 {
			out.Wanted = 0
		}
	}
	if !s.podsRead() {
		if o == nil || o.Status.ObservedGeneration != o.Generation {
			return nil
		}
		return &out
	}
	out.Available = 0
	for _, p := range s.pods[key(s.ms.Namespace, row.VersionedMicroservice)] {
		x := podOf(p)
		if x.Ready {
			out.Available++
		}
		out.Pods = append(out.Pods, x)
	}
	if o == nil {
		out.Wanted = int32(len(out.Pods))
	}
	return &out
}

// podsRead reports whether the pods of the service's namespace were read.
func (s *service) podsRead() bool {
	return s.Pods != nil && (s.PodNamespaces == nil || s.PodNamespaces[s.ms.Namespace])
}

// podOf returns the view of a pod. The reason why the pod is not ready takes precedence over its phase.
func podOf(p *corev1.Pod) Pod {
	out := Pod{Name: p.Name, Phase: string(p.Status.Phase), Message: p.Status.Message}
	if p.Status.Reason != "" {
		out.Phase = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			out.Ready, out.Since = c.Status == corev1.ConditionTrue && p.DeletionTimestamp.IsZero(), timeOf(c.LastTransitionTime.Time)
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != "":
			out.Phase, out.Message = c.Reason, c.Message
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		out.Restarts += c.RestartCount
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
			out.Phase, out.Message = c.State.Waiting.Reason, cmp.Or(c.State.Waiting.Message, endOf(c.LastTerminationState.Terminated))
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			out.Phase, out.Message = cmp.Or(c.State.Terminated.Reason, "Terminated"), endOf(c.State.Terminated)
		}
	}
	if !p.DeletionTimestamp.IsZero() {
		out.Phase = "Terminating"
	}
	return out
}

// endOf describes how a container terminated.
func endOf(t *corev1.ContainerStateTerminated) string {
	if t == nil {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("exit %d: %s", t.ExitCode, strings.TrimSpace(t.Message)), ": ")
}
