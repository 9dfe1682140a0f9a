package versionedmicroservice

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// failure is why a release is not available. The zero failure: nothing is known to
// be wrong (yet).
type failure struct {
	// reason is one of the words of status.failure.
	reason string
	// message is the same for the same fault: without counts, names and waits that
	// change by themselves.
	message string
	// look is when a container that is only starting now will have had its time; zero:
	// only a change can tell more.
	look time.Time
	// untried: of a pod that is not complete. What its containers lack to get ready may be
	// the one that does not run.
	untried bool
}

// ranks orders failures: what explains most comes first. The release's own faults come
// before causes outside of it, which would not help it if they ended.
var ranks = map[string]int{
	hlnr.FailureImageNotFound:              1,
	hlnr.FailureImageUnusable:              2,
	hlnr.FailureInvalidImageName:           3,
	hlnr.FailureCreateContainerConfigError: 4,
	hlnr.FailureCreateContainerError:       5,
	hlnr.FailureCrashLoopBackOff:           6,
	hlnr.FailurePodSecurityViolation:       7,
	hlnr.FailurePodRejected:                8,
	hlnr.FailureReadinessFailing:           rankTried,
	hlnr.FailureImagePullBackOff:           10,
	hlnr.FailureQuotaExceeded:              11,
	hlnr.FailureAdmissionUnavailable:       12,
	hlnr.FailureUnschedulable:              13,
}

const (
	// rankTried is the rank of pods that run and do not become ready, where enough ran.
	rankTried = 9
	// rankUntried is their rank where too few ran, or not all of their containers did: a pod
	// may need others to become ready, a container others of its pod, and these have not run
	// yet.
	rankUntried = 14
)

// diagnose finds the failure that explains most why the pods of a release are not
// available.
func diagnose(o *observed, row mirror, now time.Time) failure {
	all, tried := []failure{refused(o.own())}, 0
	for i := range o.pods {
		if over(&o.pods[i]) {
			continue
		}
		found := diagnosePod(o, row, &o.pods[i], now)
		if containersReady(&o.pods[i]) || slices.ContainsFunc(found, func(f failure) bool { return f.reason == hlnr.FailureReadinessFailing && !f.untried }) {
			tried++
		}
		all = append(all, found...)
	}
	var look time.Time
	for _, f := range all {
		if !f.look.IsZero() && (look.IsZero() || f.look.Before(look)) {
			look = f.look
		}
	}
	all = slices.DeleteFunc(all, func(f failure) bool { return f.reason == "" })
	if len(all) == 0 {
		return failure{look: look}
	}
	rank := func(f failure) int {
		if f.reason == hlnr.FailureReadinessFailing && (f.untried || 2*tried < int(o.release.Spec.Replicas)) {
			return rankUntried
		}
		return ranks[f.reason]
	}
	worst := slices.MinFunc(all, func(a, b failure) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.message, b.message))
	})
	worst.look, worst.untried = look, false
	return worst
}

// over reports whether a pod is deleted, or has ended. The pods of a Deployment restart
// their containers without end: what ended for good was evicted, or ended with its node,
// and stays until somebody collects it. Another pod took its place.
func over(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// containersReady reports whether a pod runs, and all of its containers are ready.
func containersReady(pod *corev1.Pod) bool {
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

// complete reports whether nothing keeps a container of a pod from running, and since when
// all of them have begun. One that starts again after an end of its own began before.
func complete(pod *corev1.Pod) (since time.Time, ok bool) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		running, end := c.State.Running, c.LastTerminationState.Terminated
		switch {
		case running == nil && !c.Ready:
			return time.Time{}, false
		case running != nil && running.StartedAt.After(since) && (end == nil || lost(end)):
			since = running.StartedAt.Time
		}
	}
	return since, true
}

// refused reads why the server refuses to create pods, which the Deployment repeats
// from its ReplicaSet.
func refused(deployment *appsv1.Deployment) failure {
	if deployment == nil {
		return failure{}
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == "FailedCreate" {
			return refusal(c.Message)
		}
	}
	return failure{}
}

// denied matches the answer of an admission webhook or policy that has decided. What it
// says besides is the cluster's own text, and may sound like anything.
var denied = regexp.MustCompile(`(?i)\bdenied (the )?request\b`)

// undecided matches the answers of a server that could not find out whether the pod is
// allowed: a webhook that is down or answers nonsense, and faults of the server itself.
// The ReplicaSet keeps the text of such an answer alone.
var undecided = regexp.MustCompile(`(?i)(^Internal error occurred: |\bfailed calling webhook\b|^Timeout: |\brequest did not complete within\b|` +
	`\bcurrently unable to handle the request\b|\bno endpoints available for service\b|\bconnection refused\b|\bno such host\b|\bi/o timeout\b|` +
	`\bcontext deadline exceeded\b|^etcdserver: |\bToo many requests\b)`)

// refusal sorts the server's answer to the creation of a pod. What stands before
// "is forbidden" names a pod that will never exist, another one each time.
func refusal(message string) failure {
	if _, cause, ok := strings.Cut(message, " is forbidden: "); ok {
		message = cause
	}
	switch {
	case denied.MatchString(message):
		return failure{reason: hlnr.FailurePodRejected, message: message}
	case strings.Contains(message, "exceeded quota"), strings.Contains(message, "failed quota"), strings.Contains(message, "status unknown for quota"):
		return failure{reason: hlnr.FailureQuotaExceeded, message: message}
	case strings.Contains(message, "violates PodSecurity"):
		return failure{reason: hlnr.FailurePodSecurityViolation, message: message}
	case undecided.MatchString(message):
		return failure{reason: hlnr.FailureAdmissionUnavailable, message: message}
	}
	return failure{reason: hlnr.FailurePodRejected, message: message}
}

func diagnosePod(o *observed, row mirror, pod *corev1.Pod, now time.Time) []failure {
	var found []failure
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			found = append(found, failure{reason: hlnr.FailureUnschedulable, message: c.Message})
		}
	}
	since, whole := complete(pod)
	for _, c := range pod.Status.InitContainerStatuses {
		found = append(found, stuck(c, "init container"))
	}
	for _, c := range pod.Status.ContainerStatuses {
		f := stuck(c, "container")
		if f.reason == "" {
			f = unready(o, row, c, since, now)
			f.untried = !whole
		}
		found = append(found, f)
	}
	return found
}

// stuck reads why a container does not run, or does not go on running.
func stuck(c corev1.ContainerStatus, kind string) failure {
	if c.Ready {
		return failure{}
	}
	who := fmt.Sprintf("%s %q", kind, c.Name)
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", "ErrImageNeverPull", "ImageInspectError", "SignatureValidationFailed":
			return unpulled(who, c.Image, w)
		case "InvalidImageName", "ErrInvalidImageName":
			return failure{reason: hlnr.FailureInvalidImageName, message: join(who, fmt.Sprintf("image %q", c.Image), w.Message)}
		case "CreateContainerConfigError":
			return failure{reason: hlnr.FailureCreateContainerConfigError, message: join(who, w.Message)}
		case "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError", "StartError":
			return failure{reason: hlnr.FailureCreateContainerError, message: join(who, w.Message)}
		}
	}
	return crashed(c, who)
}

// What registries and container runtimes say about a pull that failed, first match
// first. A lack of rights comes before all: a registry or its token server answers "not
// found" too, where it shows an image only to those who may pull it.
var pulls = []struct {
	says   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`(?i)(\bunauthorized\b|\bdenied\b|\bforbidden\b|authorization failed|authentication required|no basic auth credentials|insufficient_scope|` +
		`failed to authorize|failed to fetch (anonymous|oauth) token|\bstatus( code)?:? 40[13]\b)`), hlnr.FailureImagePullBackOff},
	{regexp.MustCompile(`(?i)(no match for platform|no matching manifest for|no image found in (image index|manifest list) for)`), hlnr.FailureImageUnusable},
	{regexp.MustCompile(`(?i)(: not found\b|manifest unknown|name unknown|\b404 not found|status code 404|status: 404)`), hlnr.FailureImageNotFound},
}

// address matches what a message repeats of the requests that were made.
var address = regexp.MustCompile(`https?://[^\s"]*[^\s":]`)

// backOff is what the kubelet puts before the cause while it waits to try again.
var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*"(: )?(ErrImagePull: |SignatureValidationFailed: )?`)

// unpulled sorts a pull that failed. Only what surely is the image's own fault is one
// of the release; credentials that are missing and a registry that is away are not.
func unpulled(who, image string, w *corev1.ContainerStateWaiting) failure {
	cause := strings.TrimPrefix(backOff.ReplaceAllString(w.Message, ""), "ErrImagePull: ")
	f := failure{reason: hlnr.FailureImagePullBackOff, message: join(who, fmt.Sprintf("image %q", image), cause)}
	if strings.Contains(w.Reason+w.Message, "SignatureValidationFailed") {
		f.reason = hlnr.FailureImageUnusable
		return f
	}
	// The name of the image is the user's, and may hold any of the words.
	said := address.ReplaceAllString(strings.ReplaceAll(cause, image, ""), "")
	for _, pull := range pulls {
		if pull.says.MatchString(said) {
			f.reason = pull.reason
			return f
		}
	}
	return f
}

// crashed tells of a container that ended. It holds while the next try runs, until
// that is ready, so that the verdict does not come and go with each try.
func crashed(c corev1.ContainerStatus, who string) failure {
	end := c.State.Terminated
	if end == nil {
		end = c.LastTerminationState.Terminated
	}
	if end == nil || lost(end) && (c.State.Waiting == nil || c.State.Waiting.Reason != hlnr.FailureCrashLoopBackOff) {
		return failure{}
	}
	how := fmt.Sprintf("exited with code %d", end.ExitCode)
	if end.Signal != 0 {
		how = fmt.Sprintf("was ended by signal %d", end.Signal)
	}
	if end.Reason != "" {
		how += " (" + end.Reason + ")"
	}
	return failure{reason: hlnr.FailureCrashLoopBackOff, message: join(who+" "+how, end.Message)}
}

// lost reports whether no one saw how a container ended: its node, or the container
// runtime, went with it.
func lost(end *corev1.ContainerStateTerminated) bool {
	return end.Reason == "Unknown" || end.Reason == "ContainerStatusUnknown"
}

// grace is what a container without probes of its own in the template is given, and
// what others are given at least.
const grace = 30 * time.Second

// graceOf shortens the grace to half of the progress deadline, so that the cause is
// known when the deadline comes.
func graceOf(ms *hlnr.Microservice) time.Duration {
	if ms == nil || ms.Spec.UpdateStrategy.ProgressDeadlineSeconds <= 0 {
		return grace
	}
	return min(grace, time.Duration(ms.Spec.UpdateStrategy.ProgressDeadlineSeconds)*time.Second/2)
}

// unready tells of a container that runs and has had the time that its probes give, since
// its pod is complete. A release that was given up has had its time.
func unready(o *observed, row mirror, c corev1.ContainerStatus, whole, now time.Time) failure {
	if c.Ready || c.State.Running == nil {
		return failure{}
	}
	startup, readiness := probes(o.release, c.Name)
	probe := "readiness"
	if startup != nil && (c.Started == nil || !*c.Started) {
		probe = "startup"
	}
	since := c.State.Running.StartedAt.Time
	if whole.After(since) {
		since = whole
	}
	due := since.Add(max(graceOf(o.microservice), patience(startup)+patience(readiness)))
	if now.Before(due) && !o.failed(row) {
		return failure{look: due}
	}
	f := failure{
		reason:  hlnr.FailureReadinessFailing,
		message: fmt.Sprintf("container %q runs, and its %s probe does not succeed", c.Name, probe),
	}
	// The answer that was found first stays: others differ in addresses only.
	if old := o.release.Status; old.Failure == f.reason && strings.HasPrefix(old.Message, f.message) {
		f.message = old.Message
		return f
	}
	f.message = join(f.message, o.answers[c.Name])
	return f
}

func probes(release *hlnr.VersionedMicroservice, container string) (startup, readiness *corev1.Probe) {
	for i := range release.Spec.Template.Spec.Containers {
		if c := &release.Spec.Template.Spec.Containers[i]; c.Name == container {
			return c.StartupProbe, c.ReadinessProbe
		}
	}
	return nil, nil
}

// patience is how long a probe may fail before that means anything, with the
// defaults of the API server.
func patience(p *corev1.Probe) time.Duration {
	if p == nil {
		return 0
	}
	period, failures := cmp.Or(p.PeriodSeconds, 10), cmp.Or(p.FailureThreshold, 3)
	return time.Duration(p.InitialDelaySeconds+period*failures) * time.Second
}

// join puts a colon between the parts that say something.
func join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(part string) bool { return strings.TrimSpace(part) == "" })
	return strings.Join(parts, ": ")
}
