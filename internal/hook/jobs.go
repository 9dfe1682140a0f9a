package hook

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// The defaults for Jobs.
const (
	defaultJobTimeout = 10 * time.Minute
	defaultJobTTL     = 24 * time.Hour
)

// JobTimeout returns the timeout of one pod of a Job.
func JobTimeout(j *v1alpha1.HookJob) time.Duration { return j.Timeout.Std(defaultJobTimeout) }

// jobTTL returns how long a finished Job is kept. For a hook that was removed, it returns the default.
func jobTTL(j *v1alpha1.HookJob) time.Duration {
	if j == nil {
		return defaultJobTTL
	}
	return j.TTLAfterFinished.Std(defaultJobTTL)
}

// maxJobName is the maximum length of a Job name. The length is limited because a label of the Job's pods contains the name.
const maxJobName = 63

// JobName returns the name of the Job for a call. The name depends only on the call. Therefore, after a restart,
// or in another manager, the existing Job is found and does not run again.
func JobName(q Call) string {
	suffix := "-" + q.Body.ID[:min(10, len(q.Body.ID))]
	release := q.Body.Release
	return strings.TrimRight(release[:min(len(release), maxJobName-len(suffix))], "-.") + suffix
}

// Variables returns the environment of the Job for a call. The environment contains the fields of the body that a URL would receive,
// followed by the variables of the hook, which may use $(NAME) to refer to these fields. Later versions only add variables.
func Variables(q Call) []corev1.EnvVar {
	b := q.Body
	out := []corev1.EnvVar{
		{Name: "HLNR_HOOK", Value: b.Name},
		{Name: "HLNR_HOOK_TYPE", Value: string(b.Type)},
		{Name: "HLNR_CALL", Value: b.ID},
		{Name: "HLNR_NAMESPACE", Value: b.Namespace},
		{Name: "HLNR_MICROSERVICE", Value: b.Microservice},
		{Name: "HLNR_GROUP", Value: b.Group},
		{Name: "HLNR_RELEASE", Value: b.Release},
		{Name: "HLNR_VERSION", Value: b.Version},
		{Name: "HLNR_PREVIOUS_VERSION", Value: b.PreviousVersion},
		{Name: "HLNR_STATUS", Value: string(b.Phase)},
		{Name: "HLNR_REASON", Value: b.Reason},
		{Name: "HLNR_STEP", Value: strconv.Itoa(int(b.Step))},
		{Name: "HLNR_STEP_NAME", Value: b.StepName},
		{Name: "HLNR_WEIGHT", Value: strconv.Itoa(int(b.Weight))},
		{Name: "HLNR_SERVICES", Value: strings.Join(b.Services, ",")},
		{Name: "HLNR_URL", Value: b.URL},
		{Name: "HLNR_PASSED", Value: strings.Join(b.Passed, ",")},
	}
	for i := range out { // Otherwise, the kubelet would replace $(NAME).
		out[i].Value = strings.ReplaceAll(out[i].Value, "$(", "$$(")
	}
	for _, e := range q.Hook.Job.Env {
		out = append(out, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	return out
}

// Finished returns the condition with which a Job ended, or nil if it has not ended.
func Finished(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// maxReplaceDelay is the maximum time that the Job controller takes to replace a failed pod.
const maxReplaceDelay = 6 * time.Minute

// ends reports whether the last pod of a Job has terminated although the Job itself has not ended. In this case, no further
// pod becomes ready.
func ends(job *batchv1.Job) bool {
	if u := job.Status.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 {
		return true
	}
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobSuccessCriteriaMet || c.Type == batchv1.JobFailureTarget) && c.Status == corev1.ConditionTrue
	})
}

// NotStartedBy returns the time by which a pod of a Job must be ready. If no pod is ready by then, the Job counts as not started. The
// timeout of a pod begins only when the pod is assigned to a node, so it does not limit the wait for a node. ok is false if the Job is
// ending, has ended, or has a ready pod.
func NotStartedBy(job *batchv1.Job) (at time.Time, ok bool) {
	if Finished(job) != nil || ends(job) || ptr.Deref(job.Status.Ready, 0) > 0 {
		return time.Time{}, false
	}
	timeout := time.Duration(ptr.Deref(job.Spec.Template.Spec.ActiveDeadlineSeconds, int64(defaultJobTimeout/time.Second))) * time.Second
	failed := time.Duration(job.Status.Failed)
	return job.CreationTimestamp.Add((1+failed)*timeout + failed*maxReplaceDelay), true
}

// JobOutcome returns the outcome of a call that is answered by a Job. log is the log of the Job's last pod.
func JobOutcome(job *batchv1.Job, h v1alpha1.Hook, log string, now time.Time) Outcome {
	o := Outcome{Job: job.Name, Log: cutLog(log)}
	end := Finished(job)
	due, starts := NotStartedBy(job)
	switch {
	case starts && h.Type == v1alpha1.HookRollout && !now.Before(due): // Hooks of other types continue to wait for the Job.
		o.Unanswered, o.Log, o.Attempts, o.Time = true, "", 1, now
		o.Message = fmt.Sprintf("Job %s has no scheduled pod after %s: see the events of the Job and of its pod, or increase job.timeout", job.Name, due.Sub(job.CreationTimestamp.Time))
		return o
	case starts && job.Status.Failed == 0:
		o.Running, o.Log, o.Message = true, "", fmt.Sprintf("Job %s has no ready pod yet: if no pod becomes ready, see the events of the Job and of its pod", job.Name)
		return o
	case end == nil:
		o.Running, o.Log, o.Message = true, "", fmt.Sprintf("Job %s is running", job.Name)
		return o
	}
	o.Attempts, o.Time = max(1, int(job.Status.Succeeded+job.Status.Failed)), end.LastTransitionTime.Time
	took := ""
	if begin := job.Status.StartTime; begin != nil && !end.LastTransitionTime.Time.Before(begin.Time) {
		took = " after " + end.LastTransitionTime.Sub(begin.Time).Round(time.Second).String()
	}
	if end.Type == batchv1.JobComplete {
		o.Yes, o.Message = true, fmt.Sprintf("Job %s succeeded%s", job.Name, took)
		return o
	}
	o.Refused = IsGate(h.Type)
	o.Message = line(fmt.Sprintf("Job %s failed%s: %s", job.Name, took, firstLine(cmp.Or(lastLine(o.Log), end.Message, end.Reason))))
	return o
}

// NotCreated returns the outcome of a call whose Job cannot be created yet. Unlike the outcome that [Lost] returns, this
// outcome contains no Job.
func NotCreated(q Call, why string) Outcome {
	return Outcome{Running: true, Message: line(notCreated + JobName(q) + ": " + firstLine(why))}
}

// Lost returns the outcome of a call whose Job was deleted before the status contained its result. It is not known what the Job did, so
// the Job does not run again automatically. The Job of a round of checks counts as unanswered.
func Lost(q Call, job string, now time.Time) Outcome {
	o := Outcome{Refused: IsGate(q.Hook.Type), Unanswered: q.Hook.Type == v1alpha1.HookRollout, Job: job, Attempts: 1, Time: now}
	then := "if its work is not complete, complete it manually" // The rollout or the preview has already ended. A lost Job does not restart the release.
	switch {
	case IsGate(q.Hook.Type):
		then = "set spec.decision.action to Retry and spec.decision.id to a new value to start the release again"
	case q.Hook.Type == v1alpha1.HookRollout:
		then = "the next round creates another Job"
	}
	o.Message = fmt.Sprintf("Job %s was deleted before its result was known, and does not run again: %s", job, then)
	return o
}

// Known returns the status of a call whose Job was created, but whose result is not known yet. It returns nil if
// there is no such status.
func Known(known []v1alpha1.HookStatus, q Call) *v1alpha1.HookStatus {
	if s := find(known, q.Hook.Name); s != nil && q.Hook.Job != nil && s.ID == q.Body.ID && s.Job != "" && !final(s) && !Unanswered(*s) {
		return s
	}
	return nil
}

// JobLost reports whether the Job of a call was deleted before its result was known. In that case, the call must not create the
// Job again.
func JobLost(known []v1alpha1.HookStatus, q Call) bool {
	s := find(known, q.Hook.Name)
	return s != nil && q.Hook.Job != nil && s.ID == q.Body.ID && s.Job != "" && Unanswered(*s)
}

// Obsolete reports whether a Job is no longer needed, and returns the time from which the Job may be deleted. The Job of a
// check may be deleted immediately if the step of the check is over. A Job that has ended, and whose result is in the
// status, may be deleted after its time to live. The Jobs of gates and notifications run until they end, because an
// interrupted migration is worse than an unnecessary migration. However, such a Job may be deleted if no pod is ready by the
// time that NotStartedBy returns.
func (p *Rollout) Obsolete(job *batchv1.Job, known []v1alpha1.HookStatus, questions []Call) (bool, time.Time) {
	id := job.Annotations[v1alpha1.AnnotationHookCall]
	for _, q := range questions {
		if q.Body.ID != id {
			continue
		}
		if s := find(known, q.Hook.Name); s == nil || s.ID != id || !final(s) {
			return false, time.Time{}
		}
	}
	end := Finished(job)
	if end == nil {
		switch asked := slices.ContainsFunc(questions, func(q Call) bool { return q.Body.ID == id }); {
		case asked:
			return false, time.Time{}
		case job.Annotations[v1alpha1.AnnotationHookType] == string(v1alpha1.HookRollout):
			return !p.Unmeasured, time.Time{}
		}
		at, ok := NotStartedBy(job)
		return ok, at
	}
	var spec *v1alpha1.HookJob
	for _, h := range p.hooks() {
		if h.Name == job.Labels[v1alpha1.LabelHook] {
			spec = h.Job
		}
	}
	return true, end.LastTransitionTime.Add(jobTTL(spec))
}

// ToURLs returns the calls that are made to URLs, and omits the calls that run as Jobs.
func ToURLs(calls []Call) []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(q Call) bool { return q.Hook.Job != nil })
}

// maxLog is the maximum length of a Job's log in the status, in bytes.
const maxLog = 2048

// cutLog returns the end of a log, without characters that terminals interpret.
func cutLog(log string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return -1
	}, log)
	clean = strings.TrimSpace(clean)
	if len(clean) > maxLog {
		clean = clean[len(clean)-maxLog:]
		for !utf8.RuneStart(clean[0]) {
			clean = clean[1:]
		}
	}
	return clean
}

// lastLine returns the last line that is not empty.
func lastLine(text string) string {
	last := ""
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			last = l
		}
	}
	return last
}
