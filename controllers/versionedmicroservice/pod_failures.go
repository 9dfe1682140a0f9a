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

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// failure is the reason why a release is not available. The zero failure means that no cause is known yet.
type failure struct {
	// reason is one of the values of status.failure.
	reason string
	// message describes the cause. It contains no counts, names, or delays that change while the cause
	// remains the same.
	message string
	// requeueAt is the end of the grace period of a starting container; zero if no container
	// is in its grace period.
	requeueAt time.Time
	// notTried reports whether at least one container of the pod is not running. This container may be
	// the reason why other containers do not become ready.
	notTried bool
	// unanswered reports whether the message about a failed probe lacks the output of the probe.
	unanswered bool
}

// ranks orders failures: the most specific failure comes first. Problems in the release itself
// come before problems outside the release, because problems in the release
// remain when the others are solved.
var ranks = map[string]int{
	v1alpha1.FailureImageNotFound:              1,
	v1alpha1.FailureImageUnusable:              2,
	v1alpha1.FailureInvalidImageName:           3,
	v1alpha1.FailureCreateContainerConfigError: 4,
	v1alpha1.FailureCreateContainerError:       5,
	v1alpha1.FailureCrashLoopBackOff:           6,
	v1alpha1.FailurePodSecurityViolation:       7,
	v1alpha1.FailurePodRejected:                8,
	v1alpha1.FailureReadinessFailing:           rankTried,
	v1alpha1.FailureImagePullBackOff:           10,
	v1alpha1.FailureQuotaExceeded:              11,
	v1alpha1.FailureAdmissionUnavailable:       12,
	v1alpha1.FailureUnschedulable:              13,
	v1alpha1.FailureContainerCreating:          14,
}

const (
	// rankTried is the rank of the failure of pods that are running but do not become ready, if at least half of
	// the desired number of pods have run.
	rankTried = 9
	// rankNotTried is the rank of this failure if fewer pods have run, or if not all containers of the failing
	// pod are running. To become ready, a pod may require other pods, and a container may require other
	// containers.
	rankNotTried = 15
)

// diagnose returns the most specific failure of a release's pods.
func diagnose(o *observed, state rolloutState, now time.Time) failure {
	all, tried := []failure{replicaFailure(o.own())}, 0
	for i := range o.pods {
		if terminated(&o.pods[i]) {
			continue
		}
		found := diagnosePod(o, state, &o.pods[i], now)
		if containersReady(&o.pods[i]) || slices.ContainsFunc(found, func(f failure) bool { return f.reason == v1alpha1.FailureReadinessFailing && !f.notTried }) {
			tried++
		}
		all = append(all, found...)
	}
	var requeueAt time.Time
	for _, f := range all {
		if !f.requeueAt.IsZero() && (requeueAt.IsZero() || f.requeueAt.Before(requeueAt)) {
			requeueAt = f.requeueAt
		}
	}
	all = slices.DeleteFunc(all, func(f failure) bool { return f.reason == "" })
	if len(all) == 0 {
		return failure{requeueAt: requeueAt}
	}
	rank := func(f failure) int {
		if f.reason == v1alpha1.FailureReadinessFailing && (f.notTried || 2*tried < int(o.release.Spec.Replicas)) {
			return rankNotTried
		}
		return ranks[f.reason]
	}
	worst := slices.MinFunc(all, func(a, b failure) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.message, b.message))
	})
	worst.requeueAt, worst.notTried = requeueAt, false
	return worst
}

// terminated reports whether a pod is being deleted or has ended. The pods of a Deployment always restart
// their containers. A pod in a terminal phase was therefore evicted, or its node no longer exists. The pod
// remains until it is garbage collected, and another pod replaces it.
func terminated(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// containersReady reports whether a pod is running, and all of its containers are ready.
func containersReady(pod *corev1.Pod) bool {
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

// complete reports whether all of a pod's containers are running, and since when. The restart of a container
// after its exit does not change this time.
func complete(pod *corev1.Pod) (since time.Time, ok bool) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		running, end := c.State.Running, c.LastTerminationState.Terminated
		switch {
		case running == nil && !c.Ready:
			return time.Time{}, false
		case running != nil && running.StartedAt.After(since) && (end == nil || exitUnknown(end) || startRejected(end)):
			since = running.StartedAt.Time
		}
	}
	return since, true
}

// replicaFailure returns the reason why the server rejects pods. The Deployment copies this reason
// from its ReplicaSet.
func replicaFailure(deployment *appsv1.Deployment) failure {
	if deployment == nil {
		return failure{}
	}
	return rejection(deployment.Status)
}

// rejection returns the reason why the server rejects pods, according to the status of a Deployment.
func rejection(deployment appsv1.DeploymentStatus) failure {
	for _, c := range deployment.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && c.Reason == "FailedCreate" {
			return classifyRefusal(c.Message)
		}
	}
	return failure{}
}

// denied matches the words with which an admission webhook or policy denies a request. The rest of the message is free text.
var denied = regexp.MustCompile(`(?i)\bdenied (the )?request\b`)

// undecided matches errors from a server that could not decide whether to admit the pod, because a webhook
// is unavailable or returns invalid responses, or because of an internal error. The ReplicaSet records only
// the text of such an error.
var undecided = regexp.MustCompile(`(?i)(^Internal error occurred: |\bfailed calling webhook\b|^Timeout: |\brequest did not complete within\b|` +
	`\bcurrently unable to handle the request\b|\bno endpoints available for service\b|\bconnection refused\b|\bno such host\b|\bi/o timeout\b|` +
	`\bcontext deadline exceeded\b|^etcdserver: |\bToo many requests\b)`)

// classifyRefusal classifies an error with which the server rejected the creation of a pod. The text before
// "is forbidden" is omitted, because it contains the name of the rejected pod, which differs
// each time.
func classifyRefusal(message string) failure {
	if _, cause, ok := strings.Cut(message, " is forbidden: "); ok {
		message = cause
	}
	switch {
	case denied.MatchString(message):
		return failure{reason: v1alpha1.FailurePodRejected, message: message}
	case strings.Contains(message, "exceeded quota"), strings.Contains(message, "failed quota"), strings.Contains(message, "status unknown for quota"):
		return failure{reason: v1alpha1.FailureQuotaExceeded, message: message}
	case strings.Contains(message, "violates PodSecurity"):
		return failure{reason: v1alpha1.FailurePodSecurityViolation, message: message}
	case undecided.MatchString(message):
		return failure{reason: v1alpha1.FailureAdmissionUnavailable, message: message}
	}
	return failure{reason: v1alpha1.FailurePodRejected, message: message}
}

func diagnosePod(o *observed, state rolloutState, pod *corev1.Pod, now time.Time) []failure {
	found := []failure{notScheduled(o, pod, now), notCreated(o, pod, now)}
	since, whole := complete(pod)
	for _, c := range pod.Status.InitContainerStatuses {
		f := notRunning(c, "init container")
		if f.reason == "" && isSidecar(o.release, c.Name) {
			f = notReady(o, state, c, since, now)
			// The next containers start when the sidecar's startup probe succeeds. The probe cannot depend on
			// these containers.
			f.notTried = !whole && c.Started != nil && *c.Started
		}
		found = append(found, f)
	}
	for _, c := range pod.Status.ContainerStatuses {
		f := notRunning(c, "container")
		if f.reason == "" {
			f = notReady(o, state, c, since, now)
			f.notTried = !whole
		}
		found = append(found, f)
	}
	return found
}

// notScheduled returns why a pod has no node. Either no node is suitable, or no scheduler has assigned a
// node, because of a scheduling gate or because no scheduler is responding.
func notScheduled(o *observed, pod *corev1.Pod, now time.Time) failure {
	var scheduled corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			scheduled = c
		}
	}
	switch {
	case scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable:
		return failure{reason: v1alpha1.FailureUnschedulable, message: scheduled.Message}
	case pod.Spec.NodeName != "", scheduled.Status == corev1.ConditionTrue, hasStatuses(pod), pod.CreationTimestamp.IsZero():
		return failure{}
	}
	if due := pod.CreationTimestamp.Add(graceOf(o.microservice)); now.Before(due) {
		return failure{requeueAt: due}
	}
	return failure{reason: v1alpha1.FailureUnschedulable, message: cmp.Or(scheduled.Message, "no scheduler has assigned the pod to a node")}
}

// notCreated returns a failure if a pod's node has not set up the pod's network or volumes, or has not
// created one of its containers. In this case, the containers that could show a failure of the release have
// not started.
func notCreated(o *observed, pod *corev1.Pod, now time.Time) failure {
	since := pod.CreationTimestamp.Time
	if start := pod.Status.StartTime; start != nil && start.After(since) {
		since = start.Time
	}
	if pod.Spec.NodeName == "" && !hasStatuses(pod) || since.IsZero() {
		return failure{}
	}
	created := hasStatuses(pod)
	for _, c := range pod.Status.InitContainerStatuses {
		switch end := c.State.Terminated; {
		case end != nil && end.FinishedAt.After(since):
			since = end.FinishedAt.Time
		case c.State.Running != nil && !isSidecar(o.release, c.Name):
			return failure{} // the other containers start when this container exits
		case c.State.Running != nil && (c.Started == nil || !*c.Started):
			return failure{} // the other containers start when the startup probe of this container succeeds
		case c.State.Running != nil && c.State.Running.StartedAt.After(since):
			since = c.State.Running.StartedAt.Time
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && (w.Reason == "ContainerCreating" || w.Reason == "PodInitializing") && c.LastTerminationState.Terminated == nil {
			created = false
		}
	}
	if created {
		return failure{}
	}
	if due := since.Add(creationTime(o.microservice)); now.Before(due) {
		return failure{requeueAt: due}
	}
	what := "a node has not created a container of the pod: it may still be pulling the image"
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
	}) {
		what = "a node has not set up the network and volumes of the pod"
	}
	return failure{reason: v1alpha1.FailureContainerCreating, message: what + "; the events of the pod show the cause"}
}

// hasStatuses reports whether a node's kubelet has reported the statuses of a pod's containers.
func hasStatuses(pod *corev1.Pod) bool {
	return len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) > 0
}

// isSidecar reports whether an init container is a sidecar: its restartPolicy is Always, so it runs as long
// as the other containers do.
func isSidecar(release *v1alpha1.VersionedMicroservice, name string) bool {
	return slices.ContainsFunc(release.Spec.Template.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// notRunning returns why a container is not running, or does not keep running.
func notRunning(c corev1.ContainerStatus, kind string) failure {
	if c.Ready {
		return failure{}
	}
	who := fmt.Sprintf("%s %q", kind, c.Name)
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", "ErrImageNeverPull", "ImageInspectError", "SignatureValidationFailed":
			return pullFailure(who, c.Image, w)
		case "InvalidImageName", "ErrInvalidImageName":
			return failure{reason: v1alpha1.FailureInvalidImageName, message: join(who, fmt.Sprintf("image %q", c.Image), w.Message)}
		case "CreateContainerConfigError":
			return creationFailure(who, v1alpha1.FailureCreateContainerConfigError, w.Message)
		case "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError", "StartError":
			return creationFailure(who, v1alpha1.FailureCreateContainerError, w.Message)
		case "PostStartHookError": // the message contains output of the release
			return failure{reason: v1alpha1.FailureCreateContainerError, message: join(who, w.Message)}
		}
	}
	return crash(c, who)
}

// overloaded matches the errors from a node that is overloaded, has a full disk, or has lost a layer of an image.
var overloaded = regexp.MustCompile(`(?i)(context deadline exceeded|failed to reserve container name|is reserved for|failed to sync (configmap|secret) cache|` +
	`error unpacking image|no space left on device)`)

// creationFailure classifies the error from a node that could not create or start a container. Problems with the node are not failures
// of the release. The message for such a problem contains only the matched text, because the rest differs with each pod and attempt.
func creationFailure(who, reason, message string) failure {
	if cause := overloaded.FindString(message); cause != "" {
		return failure{reason: v1alpha1.FailureContainerCreating, message: fmt.Sprintf("a node has not created %s: %s; the events of the pod show the cause", who, cause)}
	}
	return failure{reason: reason, message: join(who, message)}
}

// pulls classifies the errors that registries and container runtimes return for failed pulls. The first match
// counts. Missing permissions come first, because registries and token servers also return "not found" to
// clients that are not allowed to pull an image. Containerd also returns "not found" if a node has lost a layer or a snapshot.
var pulls = []struct {
	matches *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`(?i)(\bunauthorized\b|\bdenied\b|\bforbidden\b|authorization failed|authentication required|no basic auth credentials|insufficient_scope|` +
		`failed to authorize|failed to fetch (anonymous|oauth) token|\bstatus( code)?:? 40[13]\b)`), v1alpha1.FailureImagePullBackOff},
	{regexp.MustCompile(`(?i)(no match for platform|no matching manifest for|no image found in (image index|manifest list) for)`), v1alpha1.FailureImageUnusable},
	{regexp.MustCompile(`(?i)\b(content store|content digest|parent snapshot|failed to extract layer|failed to prepare extraction snapshot)\b`), v1alpha1.FailureImagePullBackOff},
	{regexp.MustCompile(`(?i)(: not found\b|manifest unknown|name unknown|\b404 not found|status code 404|status: 404)`), v1alpha1.FailureImageNotFound},
}

// address matches the request URLs in a message.
var address = regexp.MustCompile(`https?://[^\s"]*[^\s":]`)

// backOff matches the prefix that the kubelet adds to the cause while it is waiting to retry.
var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*"(: )?(ErrImagePull: |SignatureValidationFailed: )?`)

// pullFailure classifies a failed pull. Only a definite problem with the image is a failure of the release.
// Missing credentials and an unavailable registry are problems outside the release.
func pullFailure(who, image string, w *corev1.ContainerStateWaiting) failure {
	cause := strings.TrimPrefix(backOff.ReplaceAllString(w.Message, ""), "ErrImagePull: ")
	f := failure{reason: v1alpha1.FailureImagePullBackOff, message: join(who, fmt.Sprintf("image %q", image), cause)}
	if strings.Contains(w.Reason+w.Message, "SignatureValidationFailed") {
		f.reason = v1alpha1.FailureImageUnusable
		return f
	}
	// Ignore the image's name and all URLs: users choose names, which may contain words that the patterns match.
	text := address.ReplaceAllString(strings.ReplaceAll(cause, image, ""), "")
	for _, pull := range pulls {
		if pull.matches.MatchString(text) {
			f.reason = pull.reason
			return f
		}
	}
	return f
}

// crash returns the failure of a container that exited. The failure remains until the restarted
// container is ready, so that it does not change with each restart.
func crash(c corev1.ContainerStatus, who string) failure {
	end := c.State.Terminated
	if end == nil {
		end = c.LastTerminationState.Terminated
	}
	if end == nil || exitUnknown(end) && (c.State.Waiting == nil || c.State.Waiting.Reason != v1alpha1.FailureCrashLoopBackOff) {
		return failure{}
	}
	if startRejected(end) {
		if c.State.Running != nil {
			return failure{} // The next attempt to start the container was successful.
		}
		return creationFailure(who, v1alpha1.FailureCreateContainerError, end.Message)
	}
	how := fmt.Sprintf("exited with code %d", end.ExitCode)
	if end.Signal != 0 {
		how = fmt.Sprintf("was terminated by signal %d", end.Signal)
	}
	if end.Reason != "" {
		how += " (" + end.Reason + ")"
	}
	return failure{reason: v1alpha1.FailureCrashLoopBackOff, message: join(who+" "+how, end.Message)}
}

// startRejected reports whether a container never ran, because its node is overloaded or full.
func startRejected(end *corev1.ContainerStateTerminated) bool {
	return end.Reason == "StartError" && overloaded.MatchString(end.Message)
}

// exitUnknown reports whether a container's exit was not observed, because its node or the container runtime
// failed.
func exitUnknown(end *corev1.ContainerStateTerminated) bool {
	return end.Reason == "Unknown" || end.Reason == "ContainerStatusUnknown"
}

// grace is the minimum time that a container gets to become ready. A container without probes gets
// exactly this time.
const grace = 30 * time.Second

// graceOf returns the grace period, which is at most half of the progress deadline, so that the cause is
// known when the deadline passes.
func graceOf(ms *v1alpha1.Microservice) time.Duration {
	if ms == nil || ms.Spec.UpdateStrategy.ProgressDeadlineSeconds <= 0 {
		return grace
	}
	return min(grace, time.Duration(ms.Spec.UpdateStrategy.ProgressDeadlineSeconds)*time.Second/2)
}

// creationTime returns how long a node may take to create a container, including pulling its image. This is
// at most half of the progress deadline, so that the cause is known when the deadline passes.
func creationTime(ms *v1alpha1.Microservice) time.Duration {
	const most = 5 * time.Minute
	if ms == nil || ms.Spec.UpdateStrategy.ProgressDeadlineSeconds <= 0 {
		return most
	}
	return min(most, time.Duration(ms.Spec.UpdateStrategy.ProgressDeadlineSeconds)*time.Second/2)
}

// notReady returns the failure of a container that is running but has not become ready within the time that
// its probes allow. The time starts when all of the pod's containers are running. If the release has already
// failed because of its pods, notReady does not wait for this time.
func notReady(o *observed, state rolloutState, c corev1.ContainerStatus, whole, now time.Time) failure {
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
	due := since.Add(max(graceOf(o.microservice), probeTimeout(startup)+probeTimeout(readiness)))
	if now.Before(due) && !o.failedByPods(state) {
		return failure{requeueAt: due}
	}
	f := failure{
		reason:  v1alpha1.FailureReadinessFailing,
		message: fmt.Sprintf("container %q is running, but its %s probe fails", c.Name, probe),
	}
	// Keep the first message: later messages differ only in addresses.
	if old := o.release.Status; old.Failure == f.reason && strings.HasPrefix(old.Message, f.message+": ") {
		f.message = old.Message
		return f
	}
	answer := o.probeMessages[failingProbe{c.Name, probe}]
	f.message, f.unanswered = join(f.message, answer), answer == ""
	return f
}

func probes(release *v1alpha1.VersionedMicroservice, container string) (startup, readiness *corev1.Probe) {
	for _, c := range slices.Concat(release.Spec.Template.Spec.InitContainers, release.Spec.Template.Spec.Containers) {
		if c.Name == container {
			return c.StartupProbe, c.ReadinessProbe
		}
	}
	return nil, nil
}

// probeTimeout returns how long a probe may fail before the container counts as failed. Fields that are not
// set have the defaults of the API server.
func probeTimeout(p *corev1.Probe) time.Duration {
	if p == nil {
		return 0
	}
	period, failures := cmp.Or(p.PeriodSeconds, 10), cmp.Or(p.FailureThreshold, 3)
	return time.Duration(p.InitialDelaySeconds+period*failures) * time.Second
}

// join joins the non-empty parts with colons.
func join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(part string) bool { return strings.TrimSpace(part) == "" })
	return strings.Join(parts, ": ")
}
