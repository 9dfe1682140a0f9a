package versionedmicroservice

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/status"
)

// observed contains the objects that a reconcile reads before it plans.
type observed struct {
	release       *v1alpha1.VersionedMicroservice
	deployment    *appsv1.Deployment                     // nil if it does not exist
	template      string                                 // hash of the Deployment's template, known from the creation of the Deployment until the status contains the hash
	budget        *policyv1.PodDisruptionBudget          // nil if it does not exist
	autoscaler    *autoscalingv2.HorizontalPodAutoscaler // nil if it does not exist
	microservice  *v1alpha1.Microservice                 // nil if it does not exist
	pods          []corev1.Pod                           // read only while they may explain a failure
	probeMessages map[failingProbe]string                // output of failing probes, keyed by container and probe
	probesDue     time.Time                              // when to read the output of probes again; zero if no later read is required
	rollout       *rollout                               // nil if the rollout state does not list the release
	jobs          []hookJob                              // hook Jobs, with and without results in the status
	lostJobs      map[string]bool                        // names of deleted Jobs whose results are not in the status
	uncached      bool                                   // whether a Job has lost its labels and is therefore not watched
	predecessor   *predecessor                           // the release that an exclusive release waits for; nil if there is none
	quota         string                                 // hash of the quotas; empty while no quota rejects pods
}

// observe reads the release and its child objects. It returns nil if there is nothing to do.
func (r *reconciler) observe(ctx context.Context, key client.ObjectKey) (*observed, error) {
	release, err := get(ctx, r.client, key, &v1alpha1.VersionedMicroservice{}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	if release != nil { // The cache shares the specification, which is never changed.
		release.ObjectMeta, release.Status = *release.ObjectMeta.DeepCopy(), *release.Status.DeepCopy()
	}
	if release == nil || release.DeletionTimestamp != nil {
		r.checks.Forget(key)
		r.created.Delete(key)
		r.differs.Delete(key)
		r.probed.Delete(key)
		r.exclusive.forget(key)
		r.ending.forget(key)
		return nil, nil
	}
	if r.journal.Behind(release) {
		return nil, nil // the event for the last status write enqueues the release again
	}
	o := &observed{release: release}
	if o.deployment, err = get(ctx, r.client, key, &appsv1.Deployment{}); err != nil {
		return nil, err
	}
	o.template = r.createdTemplate(release, o.deployment)
	if o.budget, err = get(ctx, r.client, key, &policyv1.PodDisruptionBudget{}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	if o.autoscaler, err = get(ctx, r.client, key, &autoscalingv2.HorizontalPodAutoscaler{}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	owner := client.ObjectKey{Namespace: key.Namespace, Name: release.Spec.MicroserviceName}
	if o.microservice, err = get(ctx, r.client, owner, &v1alpha1.Microservice{}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	if o.rollout, err = r.observeRollout(ctx, o); err != nil {
		return nil, err
	}
	// Read Jobs even if the rollout state does not list the release: a process may have exited between the creation of a Job and the status
	// write.
	if err := r.observeJobs(ctx, o); err != nil {
		return nil, err
	}
	state := rolloutStateOf(o.microservice, release.Name)
	if o.missingReplicas() || o.failedByPods(state) && release.Status.Message == "" {
		var pods corev1.PodList
		if err := r.client.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingFields{indexRelease: release.Name}); err != nil {
			return nil, fmt.Errorf("list pods of release %q: %w", release.Name, err)
		}
		o.pods = pods.Items
	}
	if err := r.observeQuota(ctx, o); err != nil {
		return nil, err
	}
	now := r.clock.Now()
	if f := diagnose(o, state, now); lacksAnswer(o, f) {
		r.observeProbes(ctx, o, state, f, now)
	}
	return o, nil
}

// asksHooks reports whether the Microservice has hooks.
func (o *observed) asksHooks() bool {
	return o.microservice != nil && o.microservice.Spec.UpdateStrategy.Canary != nil && len(o.microservice.Spec.UpdateStrategy.Canary.Hooks) > 0
}

// own returns the Deployment if this release controls it, and otherwise nil.
func (o *observed) own() *appsv1.Deployment {
	if o.deployment == nil || !metav1.IsControlledBy(o.deployment, o.release) {
		return nil
	}
	return o.deployment
}

// replicaCounts returns the number of replicas and the number of available replicas. Both are
// limited to the desired number, which the autoscaler may have raised.
func (o *observed) replicaCounts() (replicas, available int32) {
	d := o.own()
	if d == nil {
		return 0, 0
	}
	want := o.release.Spec.Replicas
	if resources.Autoscaled(o.release) && d.Spec.Replicas != nil {
		want = max(want, *d.Spec.Replicas)
	}
	return min(want, d.Status.Replicas), min(want, d.Status.AvailableReplicas)
}

// missingReplicas reports whether fewer replicas are available than desired.
func (o *observed) missingReplicas() bool {
	_, available := o.replicaCounts()
	return available < o.release.Spec.Replicas
}

// failedByPods reports whether the rollout failed because of the release's pods.
func (o *observed) failedByPods(state rolloutState) bool {
	return state.release == v1alpha1.ReleaseError && (state.reason == "ProgressDeadlineExceeded" || state.reason == "AvailabilityLost")
}

// deploymentObserved reports whether the Deployment has the desired replicas, and a status for its current
// generation.
func (o *observed) deploymentObserved() bool {
	d := o.own()
	return d != nil && d.Status.ObservedGeneration >= d.Generation && hasReplicas(o.release, d)
}

// hasReplicas reports whether spec.replicas of a Deployment is the desired number. With an autoscaler,
// spec.replicas may be higher, because the autoscaler controls the replicas above the minimum.
func hasReplicas(release *v1alpha1.VersionedMicroservice, d *appsv1.Deployment) bool {
	if d.Spec.Replicas == nil {
		return false
	}
	if resources.Autoscaled(release) {
		return *d.Spec.Replicas >= release.Spec.Replicas
	}
	return *d.Spec.Replicas == release.Spec.Replicas
}

// failingProbe is a probe of a container: "startup", "readiness", or "liveness".
type failingProbe struct{ container, probe string }

// probeRead contains the output of failing probes, and the time at which it was read.
type probeRead struct {
	at      time.Time
	answers map[failingProbe]string
}

const (
	// maxEventPods is the maximum number of pods of a release whose events are read.
	maxEventPods = 10
	// eventInterval is the minimum time between two reads of the events of a release's pods.
	eventInterval = 10 * time.Second
)

// probeAnswer matches the kubelet's event about a failed probe. It captures the type of the probe and its output.
var probeAnswer = regexp.MustCompile(`(?s)^(?:\(combined from similar events\): )?(Startup|Readiness|Liveness) probe (?:failed|errored(?: and resulted in \w+ state)?): (.*)$`)

// lacksAnswer reports whether a probe fails and the status does not contain this failure together with the output of the probe.
func lacksAnswer(o *observed, f failure) bool {
	old := o.release.Status
	return f.reason == v1alpha1.FailureReadinessFailing && (f.unanswered || old.Failure != f.reason || old.Message != status.Line(f.message))
}

// observeProbes reads the output of a failing probe, for a failure whose message lacks this output. Only the kubelet's events contain the
// output. observeProbes reads the events from the API server, because a cache would contain the events of all pods. If the events cannot
// be read, the message of the failure is less specific.
func (r *reconciler) observeProbes(ctx context.Context, o *observed, state rolloutState, unanswered failure, now time.Time) {
	key := client.ObjectKeyFromObject(o.release)
	if last, ok := r.probed.Load(key); ok && now.Sub(last.(probeRead).at) < eventInterval {
		// The output might not be in the status yet, because writes to the status are paced.
		if o.probeMessages = last.(probeRead).answers; diagnose(o, state, now).message == unanswered.message {
			o.probesDue = last.(probeRead).at.Add(eventInterval)
		}
		return
	}
	o.probeMessages = map[failingProbe]string{}
	r.probed.Store(key, probeRead{now, o.probeMessages})
	read := 0
	for i := range o.pods {
		pod := &o.pods[i]
		shows := func(f failure) bool { return f.reason == unanswered.reason && f.message == unanswered.message }
		if terminated(pod) || !slices.ContainsFunc(diagnosePod(o, state, pod, now), shows) {
			continue
		}
		if read++; read > maxEventPods {
			return
		}
		if err := r.readProbes(ctx, o, pod); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("cannot read the events of a failing probe", "error", err.Error())
			return
		}
		if f := diagnose(o, state, now); f.message != unanswered.message {
			return
		}
	}
}

// readProbes adds the output in the events of one pod to o.probeMessages.
func (r *reconciler) readProbes(ctx context.Context, o *observed, pod *corev1.Pod) error {
	var list eventsv1.EventList
	if err := r.live.List(ctx, &list, client.InNamespace(o.release.Namespace), client.Limit(100),
		client.MatchingFields{"regarding.uid": string(pod.UID), "reason": "Unhealthy"}); err != nil {
		return fmt.Errorf("list events of pod %q: %w", pod.Name, err)
	}
	for _, e := range list.Items {
		container, ok := strings.CutPrefix(strings.Replace(e.Regarding.FieldPath, "spec.initContainers{", "spec.containers{", 1), "spec.containers{")
		if answer := probeAnswer.FindStringSubmatch(e.Note); ok && answer != nil {
			o.probeMessages[failingProbe{strings.TrimSuffix(container, "}"), strings.ToLower(answer[1])}] = answer[2]
		}
	}
	return nil
}

// get reads an object. It returns nil if the object does not exist.
func get[T client.Object](ctx context.Context, from client.Reader, key client.ObjectKey, into T, options ...client.GetOption) (T, error) {
	if err := from.Get(ctx, key, into, options...); err != nil {
		var none T
		if client.IgnoreNotFound(err) == nil {
			return none, nil
		}
		return none, fmt.Errorf("get %T %q: %w", into, key.Name, err)
	}
	return into, nil
}

// observeRollout reads the rollout of the release. It returns nil if the rollout state does not list the
// release.
func (r *reconciler) observeRollout(ctx context.Context, o *observed) (*rollout, error) {
	if o.microservice == nil {
		return nil, nil
	}
	place := hook.RolloutOf(o.microservice, o.release)
	if place == nil {
		return nil, nil
	}
	if err := r.observeAddresses(ctx, place); err != nil {
		return nil, err
	}
	w := &rollout{place: place, point: pointOf(place)}
	if err := r.observeEnd(ctx, o, w); err != nil {
		return nil, err
	}
	if w.point != nil {
		if err := r.observeAnalysis(ctx, w); err != nil {
			return nil, err
		}
	}
	if w.point == nil || w.spec == nil {
		return w, nil
	}
	policies, err := r.policiesOf(ctx, o.microservice)
	if err != nil {
		return nil, err
	}
	canary, err := r.target(ctx, w.place, policies, w.place.Group, w.place.Row)
	if err != nil {
		return nil, err
	}
	w.request = analysis.Request{Spec: *w.spec, Canary: canary, Since: w.point.Since}
	rivals := w.place.BaselineGroup()
	rows := rivals.Releases
	if i := slices.IndexFunc(rows, func(row v1alpha1.Release) bool { return row.Status == v1alpha1.ReleaseActive && row.Weight > 0 }); i >= 0 {
		active, err := r.target(ctx, w.place, policies, rivals, &rows[i])
		if err != nil {
			return nil, err
		}
		w.request.Active = &active
	}
	return w, nil
}

// observeAnalysis reads a rollout's analysis. While its template cannot be used, nothing is measured, and the
// Microservice reports the reason.
func (r *reconciler) observeAnalysis(ctx context.Context, w *rollout) error {
	var err error
	w.spec, w.template, err = analysistemplate.Read(ctx, r.client, w.place.Microservice)
	if unusable := (*analysistemplate.Error)(nil); errors.As(err, &unusable) {
		w.point, w.place.Unmeasured = nil, true
		return nil
	}
	return err
}

// target returns the target of the metric queries for a release, including the release's Services
// of all NetworkPolicies of its Microservice.
func (r *reconciler) target(ctx context.Context, place *hook.Rollout, policies []v1alpha1.NetworkPolicy, group *v1alpha1.ReleaseGroup, row *v1alpha1.Release) (analysis.Target, error) {
	ms := place.Microservice
	t := analysis.Target{
		Namespace: ms.Namespace, Microservice: ms.Name, Group: group.Slug,
		Release: row.VersionedMicroservice, Version: row.SemVer.Version,
	}
	for i := range policies {
		var services corev1.ServiceList
		if err := r.client.List(ctx, &services, client.InNamespace(ms.Namespace), client.MatchingFields{index.FieldPolicy: policies[i].Name},
			client.MatchingLabels{v1alpha1.LabelRelease: row.VersionedMicroservice}, client.UnsafeDisableDeepCopy); err != nil {
			return analysis.Target{}, fmt.Errorf("list Services of networkpolicies.hlnr.io %q: %w", policies[i].Name, err)
		}
		for j := range services.Items {
			t.Services = append(t.Services, services.Items[j].Name)
		}
	}
	slices.Sort(t.Services)
	return t, nil
}

// policiesOf reads the NetworkPolicies of a Microservice.
func (r *reconciler) policiesOf(ctx context.Context, ms *v1alpha1.Microservice) ([]v1alpha1.NetworkPolicy, error) {
	var policies v1alpha1.NetworkPolicyList
	if err := r.client.List(ctx, &policies, client.InNamespace(ms.Namespace), client.MatchingFields{index.NetworkPoliciesByMicroservice.Field: ms.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
	}
	return policies.Items, nil
}

// observeAddresses reads a release's Services and URL for the bodies of its hook calls.
func (r *reconciler) observeAddresses(ctx context.Context, place *hook.Rollout) error {
	ms := place.Microservice
	if canary := ms.Spec.UpdateStrategy.Canary; canary == nil || len(canary.Hooks) == 0 {
		return nil
	}
	policies, err := r.policiesOf(ctx, ms)
	if err != nil {
		return err
	}
	target, err := r.target(ctx, place, policies, place.Group, place.Row)
	if err != nil {
		return err
	}
	place.Services, place.URL = target.Services, urlOf(policies, place.Row.VersionedMicroservice)
	return nil
}

// observeQuota reads the quotas of a namespace if one of them rejects pods.
func (r *reconciler) observeQuota(ctx context.Context, o *observed) error {
	if replicaFailure(o.own()).reason != v1alpha1.FailureQuotaExceeded {
		return nil
	}
	var quotas corev1.ResourceQuotaList
	if err := r.client.List(ctx, &quotas, client.InNamespace(o.release.Namespace)); err != nil {
		return fmt.Errorf("list ResourceQuotas: %w", err)
	}
	var err error
	o.quota, err = quotaHash(quotas.Items)
	return err
}
