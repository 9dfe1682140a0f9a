package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// These are the maximum numbers of groups, releases and domains that the planner and the policies keep.
const (
	mostGroups   = 256
	mostReleases = 512
	mostDomains  = 512
)

// TestObjectsStaySmall writes full statuses and measures the size of the stored objects, including field
// managers. Lists in a status are atomic: with listType=map, the managedFields entries alone would double
// the size.
func TestObjectsStaySmall(t *testing.T) {
	const (
		kib      = 1 << 10
		ordinary = "storefront-checkout" // A long but ordinary name.
	)
	longest := long(40)
	for name, test := range map[string]struct {
		object client.Object
		limit  int
	}{
		"a rollout state":                       {fullMicroservice(t, ordinary), 260 * kib},
		"a rollout state with the longest name": {fullMicroservice(t, longest), 276 * kib},
		"an image policy":                       {fullImagePolicy(t, ordinary), 256 * kib},
		"a rollout state of 20 previews":        {fullPreviews(t, ordinary, 20), 256 * kib},
		"a rollout state of 256 previews":       {fullPreviews(t, ordinary, mostGroups), 512 * kib},
		"a release in progress":                 {fullRelease(t, ordinary), 64 * kib},
		"a network policy":                      {fullNetworkPolicy(t, ordinary), 256 * kib},
		"a network policy, the longest name":    {fullNetworkPolicy(t, longest), 256 * kib},
	} {
		t.Run(name, func(t *testing.T) {
			test.object.SetNamespace(env.Namespace(t))
			full := test.object.DeepCopyObject().(client.Object)
			if err := env.Client.Create(t.Context(), test.object); err != nil {
				t.Fatal(err)
			}
			full.SetResourceVersion(test.object.GetResourceVersion())
			began := time.Now()
			if err := env.Client.Status().Update(t.Context(), full); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			raw, err := json.Marshal(full)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, written in %s", len(raw), took.Round(time.Millisecond))
			if len(raw) > test.limit {
				t.Errorf("%d bytes, want at most %d", len(raw), test.limit)
			}
		})
	}
}

// TestBoundsOfARollout checks that the slug of the group from which domains move has at most 63 characters.
func TestBoundsOfARollout(t *testing.T) {
	for length, want := range map[int]string{63: "", 64: "status.releaseGroups[0].rollout.from: Too long"} {
		m := typed[hlnr.Microservice](t, "Microservice", "shop")
		m.SetNamespace(env.Namespace(t))
		if err := env.Client.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		now := metav1.NewMicroTime(time.Now())
		m.Status.ReleaseGroups = []hlnr.ReleaseGroup{{
			Name: "2.x", Slug: "2-x", Level: hlnr.LevelRelease, Phase: hlnr.GroupLive, Rollout: &hlnr.Rollout{Release: "shop-2", StartedTime: now, From: long(length)},
		}}
		switch err := env.Client.Status().Update(t.Context(), m); {
		case want == "" && err != nil:
			t.Errorf("%d characters: %v", length, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%d characters: message = %v, want a message with %q", length, err, want)
		}
	}
}

// typed returns the base object of a kind with a name.
func typed[T any](t *testing.T, kind, name string) *T {
	t.Helper()
	out := new(T)
	in := object(t, kind, "", `metadata: {name: `+name+`}`)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(in.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// releaseName returns a name that is as long as the names of real releases.
func releaseName(microservice string, group, release int) string {
	return fmt.Sprintf("%s-%d-12-%d-%s", microservice, group, release, strings.Repeat("f", 10))
}

func fullMicroservice(t *testing.T, name string) client.Object {
	m := typed[hlnr.Microservice](t, "Microservice", name)
	now := metav1.NewMicroTime(time.Now())
	for g := range mostGroups {
		group := hlnr.ReleaseGroup{
			Name: fmt.Sprintf("%d.12.x", g), Slug: fmt.Sprintf("%d-12-x", g), Level: hlnr.LevelRelease, Phase: hlnr.GroupLive,
			Active:          fmt.Sprintf("%d.12.10", g),
			Target:          hlnr.GroupTarget{Release: releaseName(name, g, 1), Reason: "Latest"},
			TrafficRevision: 12, TrafficTime: &now, Internal: &hlnr.ReleaseGroupInternal{ResolvedFrom: "latest"},
		}
		for r := range mostReleases / mostGroups {
			group.Releases = append(group.Releases, hlnr.Release{
				VersionedMicroservice: releaseName(name, g, r),
				SemVer:                hlnr.SemVer{Name: group.Name, Version: fmt.Sprintf("%d.12.%d", g, r)},
				Config:                strings.Repeat("f", 16), Status: hlnr.ReleaseDeprecated, Available: true, Promoted: 12,
				Reason: "Superseded", LastTransitionTime: now, Internal: &hlnr.ReleaseInternal{Routed: true, Zero: &hlnr.ZeroMark{Revision: 12, Time: now}},
			})
		}
		m.Status.ReleaseGroups = append(m.Status.ReleaseGroups, group)
	}
	return m
}

// fullPreviews returns an object with the maximum number of pull requests. A pull request with a slot has an
// active release and a pending release.
func fullPreviews(t *testing.T, name string, slots int) client.Object {
	m := typed[hlnr.Microservice](t, "Microservice", name)
	now := metav1.NewMicroTime(time.Now())
	for g := range mostGroups {
		head := strings.Repeat("f", 40)
		group := hlnr.ReleaseGroup{
			Name: "feature/checkout-with-one-click-for-everybody", Slug: fmt.Sprintf("feature-checkout-with-one-click-for-ever-%d", 10000+g), Level: hlnr.LevelPreview, Phase: hlnr.GroupLive,
			PullRequest: int64(10000 + g), Head: head, HeadTime: &now, Active: head,
			Target:          hlnr.GroupTarget{Release: releaseName(name, g, 1), Reason: "Latest"},
			TrafficRevision: 12345, TrafficTime: &now,
		}
		if g >= slots {
			group.Phase, group.Active, group.Target = hlnr.GroupExpired, "", hlnr.GroupTarget{Reason: "NoSlot"}
			m.Status.ReleaseGroups = append(m.Status.ReleaseGroups, group)
			continue
		}
		for r, status := range []hlnr.ReleaseStatus{hlnr.ReleaseActive, hlnr.ReleasePending} {
			group.Releases = append(group.Releases, hlnr.Release{
				VersionedMicroservice: releaseName(name, g, r),
				SemVer:                hlnr.SemVer{Name: group.Name, Version: head},
				Config:                strings.Repeat("f", 10), Status: status, Weight: 100, Available: true, Promoted: 12,
				Reason: "Promoted", LastTransitionTime: now, Internal: &hlnr.ReleaseInternal{Routed: true},
			})
		}
		if g < 10 { // No more than 10 previews start at the same time.
			group.Rollout = &hlnr.Rollout{Release: group.Target.Release, StartedTime: now, Gate: hlnr.GateConfirmRollout, GateTime: &now, Sequence: 12345, Internal: &hlnr.RolloutInternal{StepsHash: "3w5e11264sgsf", Floor: 12}}
		}
		m.Status.ReleaseGroups = append(m.Status.ReleaseGroups, group)
	}
	return m
}

func fullImagePolicy(t *testing.T, name string) client.Object {
	p := typed[hlnr.ImagePolicy](t, "ImagePolicy", name)
	digest := "sha256:" + strings.Repeat("f", 64)
	for r := range mostReleases {
		version := fmt.Sprintf("%d.12.%d", r/2, r)
		p.Status.Releases = append(p.Status.Releases, hlnr.OfferedRelease{
			SemVer: hlnr.SemVer{Name: fmt.Sprintf("%d.12.x", r/2), Version: version}, Group: fmt.Sprintf("%d-12-x", r/2), Level: hlnr.LevelRelease,
			Images: []hlnr.ReleaseImage{{Image: "registry.example.com/team/" + name + ":" + version + "@" + digest, Digest: digest}},
		})
	}
	return p
}

// fullRelease returns a release with full analysis and hook statuses, and a minimal template.
func fullRelease(t *testing.T, name string) client.Object {
	v := typed[hlnr.VersionedMicroservice](t, "VersionedMicroservice", name)
	now := metav1.NewMicroTime(time.Now())
	v.Status.Message = long(512)
	v.Status.Analysis = &hlnr.ReleaseAnalysis{Run: 1, Step: 32, Since: now, SpecHash: long(64), Phase: hlnr.AnalysisInconclusive, Message: long(512), LastTime: &now, NextTime: &now}
	for m := range 10 {
		metric := hlnr.MetricStatus{Name: fmt.Sprintf("%s%d", long(62), m), Result: hlnr.MeasurementInconclusive}
		for range 10 {
			metric.Measurements = append(metric.Measurements, hlnr.Measurement{Time: now, Value: long(32), Result: hlnr.MeasurementInconclusive, Message: long(256)})
		}
		v.Status.Analysis.Metrics = append(v.Status.Analysis.Metrics, metric)
	}
	for h := range 16 {
		v.Status.Hooks = append(v.Status.Hooks, hlnr.HookStatus{
			Name: fmt.Sprintf("%s%c", long(62), 'a'+h), Type: hlnr.HookConfirmTrafficIncrease, Run: 1 << 40, Step: 32, Since: &now, ID: long(64),
			Phase: hlnr.HookDelivered, Attempts: 1 << 20, Time: &now, Message: long(256),
		})
	}
	return v
}

func fullNetworkPolicy(t *testing.T, name string) client.Object {
	p := typed[hlnr.NetworkPolicy](t, "NetworkPolicy", name)
	now := metav1.NewMicroTime(time.Now())
	for d := range mostDomains {
		group := fmt.Sprintf("%d-12-x", d/2)
		host := fmt.Sprintf("%s.%s-%d.example.com", group, name, d%2)
		p.Status.Domains = append(p.Status.Domains, hlnr.DomainStatus{
			Domain: host, Path: "/", URL: "https://" + host + "/", Group: group, Programmed: true,
			Backends: []hlnr.DomainBackend{{Release: releaseName(name, d/2, 1), Version: fmt.Sprintf("%d.12.1", d/2), Weight: 100}},
		})
	}
	for g := range mostGroups {
		p.Status.Groups = append(p.Status.Groups, hlnr.GroupTraffic{
			Slug: fmt.Sprintf("%d-12-x", g), Revision: 12, ConfirmedTime: &now, Split: hlnr.SplitWeighted, Newest: g == 0,
			References: []string{releaseName(name, g, 0), releaseName(name, g, 1)},
		})
	}
	return p
}
