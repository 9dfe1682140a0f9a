package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestSecretsOfASharedAnalysis checks that the Secrets of a ClusterAnalysisTemplate must exist in the namespace of each Microservice that uses the
// template. A missing Secret is a problem, as it is for an analysis in the Microservice or in an AnalysisTemplate.
func TestSecretsOfASharedAnalysis(t *testing.T) {
	t.Parallel()
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	shared := &v1alpha1.ClusterAnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Name: "http"}}
	shared.Spec.Provider.Prometheus = &v1alpha1.PrometheusProvider{Address: "http://prometheus.monitoring:9090", SecretRef: &v1alpha1.Reference{Name: "prometheus-token"}}
	shared.Spec.Metrics = []v1alpha1.AnalysisMetric{{Name: "success-rate", SuccessRate: &v1alpha1.SuccessRateMetric{}}}
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{
		Steps:               []v1alpha1.CanaryStep{{Weight: 10}},
		AnalysisTemplateRef: &v1alpha1.AnalysisTemplateReference{Kind: v1alpha1.KindClusterAnalysisTemplate, Name: "http"},
	}
	d := &doctor{
		Factory: cli.New("hlnr", "test", genericiooptions.NewTestIOStreamsDiscard()),
		client:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(shared, ms).Build(),
	}
	d.checkObjects(t.Context())
	if !slices.ContainsFunc(d.result.Findings, func(f Finding) bool {
		return f.Level == Problem && strings.Contains(f.Text, "shop/prometheus-token")
	}) {
		t.Errorf("Secret shop/prometheus-token does not exist: %+v", d.result.Findings)
	}
}

// TestPreviewWithoutPods checks that doctor also reports a preview whose active release has no ready pod, although the
// Microservice's Ready condition does not depend on previews.
func TestPreviewWithoutPods(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "cart-17", Slug: "cart-17", Level: v1alpha1.LevelPreview, PullRequest: 17, Phase: v1alpha1.GroupLive, Active: "1717",
		Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-1717", SemVer: v1alpha1.SemVer{Name: "cart-17", Version: "1717"}, Status: v1alpha1.ReleaseActive, Promoted: 1, Weight: 100}},
	}}
	ms.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		{Type: "PreviewsReady", Status: metav1.ConditionFalse, Reason: "PreviewsStarting", Message: "0 of 1 previews are available", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
	}
	release := v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1717"}}
	release.Spec.Replicas, release.Status.Failure, release.Status.Message = 1, "CrashLoopBackOff", "exit 1"
	if found := judgeActive(view.Input{Program: "hlnr", Releases: []v1alpha1.VersionedMicroservice{release}}, ms, now); len(found) != 1 {
		t.Errorf("the preview has had no ready pod for an hour: %+v", found)
	}
}

// TestMovedPodNextToAnotherGroup checks that doctor does not report a release that lost a pod a few seconds ago, although another group has been
// without an active release for an hour.
func TestMovedPodNextToAnotherGroup(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{
		{Name: "2.x", Slug: "2-x", Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive},
		{Name: "1.x", Slug: "1-x", Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive, Active: "1.0.0", Releases: []v1alpha1.Release{
			{VersionedMicroservice: "shop-1-0-0", SemVer: v1alpha1.SemVer{Name: "1.x", Version: "1.0.0"}, Status: v1alpha1.ReleaseActive, Promoted: 1, Weight: 100},
		}},
	}
	ms.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NoActiveRelease", Message: "group 2.x has no active release yet", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	release := v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1-0-0"}}
	release.Spec.Replicas, release.Status.Available = 3, 2
	release.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "Starting", LastTransitionTime: metav1.NewTime(now.Add(-2 * time.Second))}}
	if found := judgeActive(view.Input{Program: "hlnr", Releases: []v1alpha1.VersionedMicroservice{release}}, ms, now); len(found) != 0 {
		t.Errorf("pods can still move to other nodes: %+v", found)
	}
}

// TestOutageOfAnExclusiveGroup checks that doctor reports a group without a serving pod, with the commands that end the outage. This includes a
// group in which the pods of the active release were stopped for another release.
func TestOutageOfAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	for name, fix := range map[string]string{
		"active down": "hlnr rollback shop --to 1.0.0", "exclusive crash": "hlnr deprecate shop 1.1.0", "exclusive step crash": "hlnr deprecate shop 1.1.0",
		"exclusive return": "hlnr unpin shop", "exclusive pre": "hlnr adopt shop 1.1.0",
	} {
		s, _ := viewtest.Play(name, "shop")
		in := s.Input
		in.Program = "hlnr"
		if found := judgeActive(in, &in.Microservices[0], s.Now); len(found) != 1 || found[0].Level != Problem || !strings.Contains(found[0].Fix, fix) {
			t.Errorf("%s: %+v, want %q", name, found, fix)
		}
	}
}

// TestPolicyOfADelayedStart checks that doctor does not report a NetworkPolicy without a status while the first rollout of its Microservice waits to
// start, or in the first minute after the start or the first activation of a release. After that time, it reports the policy.
func TestPolicyOfADelayedStart(t *testing.T) {
	t.Parallel()
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	object := metav1.ObjectMeta{Namespace: "shop", Name: "shop", Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Minute))}
	group := v1alpha1.ReleaseGroup{Name: "1.x", Slug: "1-x", Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive}
	started := func(ago time.Duration) v1alpha1.MicroserviceStatus {
		g := group
		g.Rollout = &v1alpha1.Rollout{Release: "shop-1-0-0", StartedTime: metav1.NewMicroTime(now.Add(-ago))}
		return v1alpha1.MicroserviceStatus{ReleaseGroups: []v1alpha1.ReleaseGroup{g}}
	}
	active := func(ago time.Duration) v1alpha1.MicroserviceStatus {
		g := group
		g.Releases = []v1alpha1.Release{{VersionedMicroservice: "shop-1-0-0", FirstActiveTime: new(metav1.NewMicroTime(now.Add(-ago)))}}
		return v1alpha1.MicroserviceStatus{ReleaseGroups: []v1alpha1.ReleaseGroup{g}}
	}
	for name, tc := range map[string]struct {
		status v1alpha1.MicroserviceStatus
		faults int
	}{
		"waits":                     {v1alpha1.MicroserviceStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStartDelayed}}}, 0},
		"does not wait":             {v1alpha1.MicroserviceStatus{}, 1},
		"started":                   {started(30 * time.Second), 0},
		"started a while ago":       {started(90 * time.Second), 1},
		"became active":             {active(30 * time.Second), 0},
		"became active a while ago": {active(90 * time.Second), 1},
	} {
		ms, policy := &v1alpha1.Microservice{ObjectMeta: object, Status: tc.status}, &v1alpha1.NetworkPolicy{ObjectMeta: object}
		ms.Status.ObservedGeneration = 1
		d := &doctor{
			Factory: cli.New("hlnr", "test", genericiooptions.NewTestIOStreamsDiscard()),
			client:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(ms, policy).Build(),
		}
		d.checkObjects(t.Context())
		if got := d.result.count(Problem); got != tc.faults {
			t.Errorf("%s: %d problems, want %d: %+v", name, got, tc.faults, d.result.Findings)
		}
	}
}
