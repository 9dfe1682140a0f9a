package versionedmicroservice

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

func TestDecideRetry(t *testing.T) {
	t.Parallel()
	const quota, webhook = `pods "x" is forbidden: exceeded quota: small`, `Internal error occurred: failed calling webhook "x"`
	for name, test := range map[string]struct {
		message string
		since   time.Duration // how long the pods have been rejected
		last    *retry
		room    string
		want    *retry
		requeue time.Time
	}{
		"nothing is rejected":                  {since: time.Hour},
		"denied by a webhook":                  {message: `admission webhook "x" denied the request`, since: time.Hour},
		"webhook just became unavailable":      {message: webhook, since: time.Second, requeue: noon.Add(14 * time.Second)},
		"webhook is unavailable":               {message: webhook, since: retryInterval, want: &retry{at: noon}},
		"webhook is unavailable, just retried": {message: webhook, since: time.Minute, last: &retry{at: noon.Add(-5 * time.Second)}, requeue: noon.Add(10 * time.Second)},
		"webhook is unavailable, retried":      {message: webhook, since: 2 * time.Minute, last: &retry{at: noon.Add(-retryInterval)}, want: &retry{at: noon}},
		"webhook is unavailable for minutes":   {message: webhook, since: 8*time.Minute + 15*time.Second, last: &retry{at: noon.Add(-15 * time.Second)}, requeue: noon.Add(45 * time.Second)},
		"webhook is unavailable for an hour":   {message: webhook, since: time.Hour, last: &retry{at: noon.Add(-time.Minute)}, requeue: noon.Add(time.Minute)},
		"webhook is unavailable for long":      {message: webhook, since: time.Hour, last: &retry{at: noon.Add(-maxRetryInterval)}, want: &retry{at: noon}},
		"webhook is unavailable again":         {message: webhook, since: time.Second, last: &retry{at: noon.Add(-time.Hour)}, requeue: noon.Add(14 * time.Second)},
		"the clock was set back":               {message: webhook, since: time.Hour, last: &retry{at: noon.Add(time.Hour)}, want: &retry{at: noon}},
		"quota, just rejected":                 {message: quota, since: 0, room: "full", requeue: noon.Add(retryInterval)},
		"quota, not retried yet":               {message: quota, since: time.Hour, room: "full", want: &retry{noon, "full"}},
		"quota, nothing changed":               {message: quota, since: time.Hour, room: "full", last: &retry{noon.Add(-time.Hour), "full"}},
		"quota, changed":                       {message: quota, since: time.Hour, room: "more", last: &retry{noon.Add(-time.Hour), "full"}, want: &retry{noon, "more"}},
		"quota, changed repeatedly":            {message: quota, since: time.Hour, room: "more", last: &retry{noon.Add(-time.Second), "full"}, requeue: noon.Add(14 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := scene(2, 0)
			o.quota = test.room
			if test.message != "" {
				o.deployment.Status.Conditions = []appsv1.DeploymentCondition{{
					Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: test.message,
					LastTransitionTime: metav1.NewTime(noon.Add(-test.since)),
				}}
			}
			if test.last != nil {
				resources.Annotate(o.deployment, resources.AnnotationRetry, test.last.String())
			}
			due, requeue := planRetry(o, noon)
			if diff := cmp.Diff([]any{test.want, test.requeue}, []any{due, requeue}, cmp.AllowUnexported(retry{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// Once the planned retry has been recorded, the same input does not result in another retry.
			if due != nil {
				resources.Annotate(o.deployment, resources.AnnotationRetry, due.String())
				if again, _ := planRetry(o, noon.Add(time.Second)); again != nil {
					t.Errorf("a second retry one second later: %v", again)
				}
			}
		})
	}
}

func TestGrew(t *testing.T) {
	t.Parallel()
	quota := func(hard, used string) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{}
		if hard != "" {
			q.Status.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(hard)}
			q.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(used)}
		}
		return q
	}
	scoped := quota("2", "2")
	scoped.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	for name, test := range map[string]struct {
		before, now *corev1.ResourceQuota
		want        bool
	}{
		"the same":                {quota("2", "2"), quota("2", "2"), false},
		"raised":                  {quota("2", "2"), quota("3", "2"), true},
		"lowered":                 {quota("3", "2"), quota("2", "2"), false},
		"a pod was deleted":       {quota("2", "2"), quota("2", "1"), true},
		"a pod was created":       {quota("2", "1"), quota("2", "2"), false},
		"the limit was removed":   {quota("2", "2"), quota("", ""), true},
		"a new limit is enforced": {quota("", ""), quota("2", "0"), true},
		"for other pods":          {quota("2", "2"), scoped, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := relaxed(test.before, test.now); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

// asked waits until a retry of a release's ReplicaSet has been requested. The ReplicaSet retries immediately,
// regardless of its back-off.
func asked(t *testing.T, release *v1alpha1.VersionedMicroservice, unlike string) string {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		var sets appsv1.ReplicaSetList
		if err := world.List(ctx, &sets, client.InNamespace(release.Namespace)); err != nil {
			return false, err
		}
		for _, set := range sets.Items {
			last = set.Annotations[resources.AnnotationRetry]
		}
		return last != "" && last != unlike, nil
	})
	if err != nil {
		t.Fatalf("the ReplicaSet was not retried: %q: %v", last, err)
	}
	return last
}

// running waits until a release has a pod.
func running(t *testing.T, release *v1alpha1.VersionedMicroservice) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := world.List(ctx, &pods, client.InNamespace(release.Namespace))
		return len(pods.Items) > 0, err
	})
	if err != nil {
		t.Fatalf("no pod was created: %v", err)
	}
}

// TestRetryAfterAQuotaIsRaised checks what happens if an exceeded quota changes while the ReplicaSet is in
// a long back-off. A retry is requested, and another retry is requested only if the quota admits more of a resource.
// When the quota admits a pod, the release runs.
func TestRetryAfterAQuotaIsRaised(t *testing.T) {
	t.Parallel()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: namespace(t, nil)}}
	quota.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("0"), "services": resource.MustParse("0")}
	if err := world.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	raise := func(pods, services string) {
		t.Helper()
		quota.Status.Hard = corev1.ResourceList{"pods": resource.MustParse(pods), "services": resource.MustParse(services)}
		quota.Status.Used = corev1.ResourceList{"pods": resource.MustParse("0"), "services": resource.MustParse("0")}
		if err := world.Status().Update(t.Context(), quota); err != nil {
			t.Fatal(err)
		}
	}
	raise("0", "0")
	refused(t, trialPod(quota.Namespace))
	release := create(t, newRelease(quota.Namespace, 1))
	reads(t, release, "0/1 "+failing(v1alpha1.FailureQuotaExceeded))
	first := asked(t, release, "")
	raise("0", "1")
	if second := asked(t, release, first); retryOfText(second).quota == retryOfText(first).quota {
		t.Errorf("the ReplicaSet was retried with the same quota: %q, %q", first, second)
	}
	raise("1", "1")
	running(t, release)
	play(t, release, 1, readyPod)
	reads(t, release, "1/1 "+isAvailable)
}

// TestQuotaEnqueuesReleases checks that a changed quota enqueues the releases that it blocks, even if a release is available
// because its autoscaler requested the missing pods.
func TestQuotaEnqueuesReleases(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), clientgoscheme.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	lacking := func(name, message string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: at(name), Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message},
		}}}
	}
	r := &reconciler{client: newFake(scheme).WithObjects(
		&v1alpha1.VersionedMicroservice{ObjectMeta: at("blocked"), Status: v1alpha1.VersionedMicroserviceStatus{Failure: v1alpha1.FailureQuotaExceeded}},
		&v1alpha1.VersionedMicroservice{ObjectMeta: at("healthy")},
		&v1alpha1.VersionedMicroservice{ObjectMeta: at("scaled")},
		&appsv1.Deployment{ObjectMeta: at("healthy")},
		lacking("scaled", `pods "scaled-x1" is forbidden: exceeded quota: small, requested: pods=1`),
		lacking("denied", `admission webhook "pods.example.com" denied the request: no`),
	).Build()}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	r.quotaToReleases().Generic(t.Context(), event.GenericEvent{Object: &corev1.ResourceQuota{ObjectMeta: at("small")}}, queue)
	var got []string
	for queue.Len() > 0 {
		request, _ := queue.Get()
		got = append(got, request.Name)
	}
	slices.Sort(got)
	if want := []string{"blocked", "scaled"}; !slices.Equal(got, want) {
		t.Errorf("the quota enqueued %q, want %q", got, want)
	}
}

func retryOfText(text string) retry {
	d := &appsv1.Deployment{}
	resources.Annotate(d, resources.AnnotationRetry, text)
	return retryOf(d)
}

// TestRetryWhileAWebhookIsDown checks what happens if an admission webhook is unavailable, and is later deleted
// while the ReplicaSet is in a long back-off. The cause is external, and a retry is requested.
func TestRetryWhileAWebhookIsDown(t *testing.T) {
	t.Parallel()
	ns := namespace(t, nil)
	fail, none, address := admissionv1.Fail, admissionv1.SideEffectClassNone, "https://127.0.0.1:1/"
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "down-" + ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "pods.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{URL: &address},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	if err := world.Create(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = world.Delete(context.WithoutCancel(t.Context()), hook) })
	// The API server starts calling a webhook only some time after the webhook has been created.
	eventually(t, func() string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "trial"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
		if err := world.Create(t.Context(), pod, client.DryRunAll); err != nil {
			return ""
		}
		return "the webhook has not been called yet"
	})
	release := create(t, newRelease(ns, 1))
	reads(t, release, "0/1 "+failing(v1alpha1.FailureAdmissionUnavailable))
	asked(t, release, asked(t, release, ""))
	if err := world.Delete(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
	running(t, release)
	play(t, release, 1, readyPod)
	reads(t, release, "1/1 "+isAvailable)
}
