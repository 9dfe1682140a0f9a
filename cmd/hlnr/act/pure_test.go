package act

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
)

func TestUntil(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 25, 14, 30, 15, 7, zone) // This is a Wednesday.
	day := func(d, hour, minute int) time.Time { return time.Date(2026, 11, d, hour, minute, 0, 0, zone) }
	for text, want := range map[string]time.Time{
		"4h":                   now.Add(4 * time.Hour).Truncate(time.Second),
		"90m":                  now.Add(90 * time.Minute).Truncate(time.Second),
		"3d":                   now.AddDate(0, 0, 3).Truncate(time.Second),
		"1d12h":                now.AddDate(0, 0, 1).Add(12 * time.Hour).Truncate(time.Second),
		"Mon":                  day(30, 0, 0),
		"monday 08:00":         day(30, 8, 0),
		"Wed 18:00":            day(25, 18, 0),
		"wed":                  time.Date(2026, 12, 2, 0, 0, 0, 0, zone),
		"Wed 14:30":            time.Date(2026, 12, 2, 14, 30, 0, 0, zone),
		"18:00":                day(25, 18, 0),
		"8:00":                 day(26, 8, 0),
		"2026-12-24":           time.Date(2026, 12, 24, 0, 0, 0, 0, zone),
		"2026-12-24 18:00":     time.Date(2026, 12, 24, 18, 0, 0, 0, zone),
		"2026-12-24T18:00:00Z": time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
	} {
		if got, err := until(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "-4h", "0s", "2020-01-01", "25:00", "Mon 8", "Mon Tue", "mo", "99999d", "Monx", "Mon 08:00 CET"} {
		if got, err := until(text, now); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestOwnerOf(t *testing.T) {
	t.Parallel()
	entry := func(manager, subresource, set string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(set)}
	}
	pins := `{"f:spec":{"f:updateStrategy":{"f:manual":{"f:groups":{}}}}}`
	for name, c := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   gitOwner
	}{
		"none":              {nil, gitOwner{}},
		"a user":            {[]metav1.ManagedFieldsEntry{entry("kubectl-edit", "", pins)}, gitOwner{}},
		"sets the field":    {[]metav1.ManagedFieldsEntry{entry("kubectl-edit", "", `{}`), entry("kustomize-controller", "", pins)}, gitOwner{"Flux", "kustomize-controller", true}},
		"sets other fields": {[]metav1.ManagedFieldsEntry{entry("argocd-controller", "", `{"f:spec":{"f:updateStrategy":{".":{},"f:canary":{}}}}`)}, gitOwner{"Argo CD", "argocd-controller", false}},
		"only labels":       {[]metav1.ManagedFieldsEntry{entry("argocd-controller", "", `{"f:metadata":{"f:labels":{}}}`)}, gitOwner{}},
		"a subresource":     {[]metav1.ManagedFieldsEntry{entry("argocd-controller", "status", pins)}, gitOwner{}},
		"invalid JSON":      {[]metav1.ManagedFieldsEntry{entry("argocd-controller", "", "{"), {Manager: "flux"}}, gitOwner{}},
	} {
		if diff := cmp.Diff(c.want, ownerOf(c.fields, pinField...)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestPinsOfASpec(t *testing.T) {
	t.Parallel()
	g := &v1alpha1.ReleaseGroup{Name: "1.x", Slug: "1-x", Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-1-0-0-a", SemVer: v1alpha1.SemVer{Name: "1.x", Version: "1.0.0"}}}}
	other := v1alpha1.GroupPin{Name: "2.x", Version: "2.0.0"}
	to := func(name, version string) v1alpha1.GroupPin { return v1alpha1.GroupPin{Name: name, Version: version} }
	type manual = *v1alpha1.ManualUpdateStrategy
	groups := func(pins ...v1alpha1.GroupPin) manual { return &v1alpha1.ManualUpdateStrategy{Groups: pins} }
	global := func(version string, pins ...v1alpha1.GroupPin) manual {
		return &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: version}, Reason: "old", Groups: pins}
	}
	for name, c := range map[string]struct {
		before, set, removed manual
		what                 string
	}{
		"none":                     {nil, groups(to("1.x", "1.0.0")), nil, ""},
		"by slug":                  {groups(to("1-x", "0.9.0")), groups(to("1.x", "1.0.0")), nil, "0.9.0"},
		"another group":            {groups(other), groups(other, to("1.x", "1.0.0")), groups(other), ""},
		"first of two":             {groups(to("1.x", "0.9.0"), other), groups(to("1.x", "1.0.0"), other), groups(other), "0.9.0"},
		"twice":                    {groups(to("1.x", "0.9.0"), to("1-x", "0.9.0"), other), groups(to("1.x", "1.0.0"), other), groups(other), "0.9.0"},
		"version of the group":     {global("v1.0.0", other), global("v1.0.0", other, to("1.x", "1.0.0")), groups(other), "v1.0.0"},
		"version of another group": {global("2.0.0"), global("2.0.0", to("1.x", "1.0.0")), global("2.0.0"), ""},
		"release of the group":     {&v1alpha1.ManualUpdateStrategy{Release: "shop-1-0-0-a"}, &v1alpha1.ManualUpdateStrategy{Release: "shop-1-0-0-a", Groups: []v1alpha1.GroupPin{to("1.x", "1.0.0")}}, nil, "shop-1-0-0-a"},
		"expired pin":              {groups(v1alpha1.GroupPin{Name: "1.x", Version: "1.0.0", ExpireTime: &metav1.Time{Time: time.Unix(1, 0)}}), groups(to("1.x", "1.0.0")), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var set, removed v1alpha1.MicroserviceSpec
			set.UpdateStrategy.Manual, removed.UpdateStrategy.Manual = c.before.DeepCopy(), c.before.DeepCopy()
			setPin(&set, g, v1alpha1.GroupPin{Version: "1.0.0"})
			removePin(&removed, g)
			if diff := cmp.Diff(c.set, set.UpdateStrategy.Manual); diff != "" {
				t.Errorf("pin: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.removed, removed.UpdateStrategy.Manual); diff != "" {
				t.Errorf("unpin: -want +got\n%s", diff)
			}
			ms := &v1alpha1.Microservice{}
			ms.Spec.UpdateStrategy.Manual = c.before
			if p := view.PinOf(ms, g, time.Unix(1000, 0)); (p != nil) != (c.what != "") || p != nil && p.Version+p.Release != c.what {
				t.Errorf("pinned to %+v; want %q", p, c.what)
			}
		})
	}
}

// TestEndGroupThatIsGone checks that end-group finds an ended group in spec.endedGroups if the status no longer contains the group.
func TestEndGroupThatIsGone(t *testing.T) {
	ms := &v1alpha1.Microservice{}
	ms.Name, ms.Spec.EndedGroups = "shop", []string{"1.x"}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "2.x"}}
	if _, err := endGroup(ms, "1.x", false); err == nil || err.Error() != "group 1.x of shop is already in spec.endedGroups" {
		t.Errorf("end it again: %v", err)
	}
	e, err := endGroup(ms, "1.x", true)
	if err != nil {
		t.Fatalf("undo: %v", err)
	}
	if e.apply(&ms.Spec, ""); len(ms.Spec.EndedGroups) != 0 {
		t.Errorf("ended groups %q", ms.Spec.EndedGroups)
	}
}

// TestUndoOfAnEndedGroup checks that end-group --undo accepts the entry in spec.endedGroups that other commands suggest after the group has left
// the status.
func TestUndoOfAnEndedGroup(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"cart-17-a", "Cart-17-a", "17"} {
		ms := &v1alpha1.Microservice{}
		ms.Name, ms.Spec.EndedGroups = "shop", []string{"2.x", entry}
		e, err := endGroup(ms, ms.EndedGroup("Cart-17-a", "cart-17-a", 17), true)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		if e.apply(&ms.Spec, ""); !slices.Equal(ms.Spec.EndedGroups, []string{"2.x"}) {
			t.Errorf("%s: ended groups %q", entry, ms.Spec.EndedGroups)
		}
	}
	if got := (&v1alpha1.Microservice{}).EndedGroup("1.x", "1-x", 0); got != "" {
		t.Errorf("no group is ended: %q", got)
	}
}

// TestDefaultRollback checks which release hlnr rollback chooses without --to. The command ignores previews and closing groups, and advises users
// to abort a rollout that has not replaced the active release.
func TestDefaultRollback(t *testing.T) {
	t.Parallel()
	row := func(name, version string, status v1alpha1.ReleaseStatus, promoted int64) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: name, SemVer: v1alpha1.SemVer{Version: version}, Status: status, Promoted: promoted}
	}
	group := func(name string, releases ...v1alpha1.Release) v1alpha1.ReleaseGroup {
		g := v1alpha1.ReleaseGroup{Name: name, Slug: name, Phase: v1alpha1.GroupLive, Releases: releases}
		for _, r := range releases {
			switch r.Status {
			case v1alpha1.ReleaseActive:
				g.Active = r.SemVer.Version
			case v1alpha1.ReleasePending, v1alpha1.ReleaseCanary:
				g.Rollout = &v1alpha1.Rollout{Release: r.VersionedMicroservice}
			}
		}
		return g
	}
	preview := func(releases ...v1alpha1.Release) v1alpha1.ReleaseGroup {
		g := group("cart-17", releases...)
		g.Level, g.PullRequest = v1alpha1.LevelPreview, 17
		return g
	}
	closing := group("0.x", row("old", "0.2.0", v1alpha1.ReleaseActive, 2), row("older", "0.1.0", v1alpha1.ReleaseDeprecated, 1))
	closing.Phase = v1alpha1.GroupClosing
	one := group("1.x", row("new", "1.1.0", v1alpha1.ReleaseActive, 2), row("previous", "1.0.0", v1alpha1.ReleaseDeprecated, 1))
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	low, high := strings.Repeat("1", 40), strings.Repeat("2", 40)
	for name, c := range map[string]struct {
		group  string
		groups []v1alpha1.ReleaseGroup
		want   string
	}{
		"a rollout of a preview":           {"", []v1alpha1.ReleaseGroup{preview(row("b", high, v1alpha1.ReleasePending, 0), row("a", low, v1alpha1.ReleaseActive, 1)), one}, "previous"},
		"a rollout of a preview, reversed": {"", []v1alpha1.ReleaseGroup{preview(row("b", high, v1alpha1.ReleaseActive, 1), row("a", low, v1alpha1.ReleasePending, 0)), one}, "previous"},
		"a preview that drains":            {"", []v1alpha1.ReleaseGroup{preview(row("b", high, v1alpha1.ReleaseActive, 2), row("a", low, v1alpha1.ReleaseDeprecated, 1)), one}, "previous"},
		"only a preview":                   {"", []v1alpha1.ReleaseGroup{preview(row("b", high, v1alpha1.ReleaseActive, 2), row("a", low, v1alpha1.ReleaseDeprecated, 1))}, "no earlier release"},
		"a group that is closing":          {"", []v1alpha1.ReleaseGroup{one, closing}, "previous"},
		"only a group that is closing":     {"", []v1alpha1.ReleaseGroup{closing}, "no earlier release"},
		"a rollout of the preview by name": {"17", []v1alpha1.ReleaseGroup{preview(row("b", high, v1alpha1.ReleaseActive, 1), row("a", low, v1alpha1.ReleasePending, 0)), one}, `run "hlnr deprecate -n shop shop ` + low + `"`},
		"a rollout in another group":       {"", []v1alpha1.ReleaseGroup{group("2.x", row("d", "2.1.0", v1alpha1.ReleaseCanary, 0), row("c", "2.0.0", v1alpha1.ReleaseActive, 1)), one}, "2.1.0 is being rolled out, and 2.0.0 is still active"},
		"a rollout in a group by name":     {"2.x", []v1alpha1.ReleaseGroup{group("2.x", row("d", "2.1.0", v1alpha1.ReleaseCanary, 0), row("c", "2.0.0", v1alpha1.ReleaseActive, 1)), one}, "2.1.0 is being rolled out, and 2.0.0 is still active"},
		"a rollout of another configuration": {"", []v1alpha1.ReleaseGroup{group("1.x", row("shop-1-2-0-c1", "1.2.0", v1alpha1.ReleaseActive, 2), row("shop-1-2-0-c2", "1.2.0", v1alpha1.ReleaseCanary, 0), row("previous", "1.1.0", v1alpha1.ReleaseDeprecated, 1))},
			`shop-1-2-0-c2 is being rolled out, and shop-1-2-0-c1 is still active: to keep shop-1-2-0-c1, run "hlnr deprecate -n shop shop shop-1-2-0-c2"`},
		"a return to a retained release": {"", []v1alpha1.ReleaseGroup{group("1.x", row("c", "1.2.0", v1alpha1.ReleaseActive, 2), row("b", "1.1.0", v1alpha1.ReleaseDeprecated, 1), row("a", "1.0.0", v1alpha1.ReleasePending, 1))}, "b"},
		"two groups":                     {"", []v1alpha1.ReleaseGroup{group("2.x", row("d", "2.1.0", v1alpha1.ReleaseActive, 2), row("c", "2.0.0", v1alpha1.ReleaseDeprecated, 1)), one}, "several groups"},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Namespace, ms.Name, ms.Status.ReleaseGroups = "shop", "shop", c.groups
		f := cli.New("hlnr", "test", genericiooptions.NewTestIOStreamsDiscard())
		s := &scope{Factory: f, client: fake.NewClientBuilder().WithScheme(scheme).Build(), namespace: "shop"}
		got, err := (&pinOptions{group: c.group}).before(t.Context(), s, ms)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPinOfACommit checks that a pin accepts the beginning of the commit of a preview, unless several commits have the same beginning.
func TestPinOfACommit(t *testing.T) {
	t.Parallel()
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	commit := func(begin string) string { return begin + strings.Repeat("0", 40-len(begin)) }
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	row := func(version string) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: "shop-" + version[:8], SemVer: v1alpha1.SemVer{Version: version}}
	}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "17", Slug: "17", Level: v1alpha1.LevelPreview, Phase: v1alpha1.GroupLive,
		Releases: []v1alpha1.Release{row(commit("0123456a")), row(commit("0123456a")), row(commit("0123456b")), row(commit("abcdefa"))},
	}}
	policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	policy.Status.Releases = []v1alpha1.OfferedRelease{{Group: "17", SemVer: v1alpha1.SemVer{Version: commit("7777777a")}}, {Group: "17", SemVer: v1alpha1.SemVer{Version: commit("8888888a")}}, {Group: "17", SemVer: v1alpha1.SemVer{Version: commit("8888888b")}}}
	s := &scope{Factory: cli.New("hlnr", "test", genericiooptions.NewTestIOStreamsDiscard()), client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).Build(), namespace: "shop"}
	for what, want := range map[string]string{
		commit("0123456a"): commit("0123456a"), "0123456a": commit("0123456a"), "abcdefa": commit("abcdefa"), "7777777": commit("7777777a"),
		"abcdef": `no version or release of shop with the name "abcdef"`, "0123456": "0123456 matches several commits: " + commit("0123456a") + ", " + commit("0123456b"),
		"8888888": "8888888 matches several commits",
	} {
		w, err := (&pinOptions{}).resolve(t.Context(), s, ms, what)
		if rejected := strings.Contains(want, " "); err == nil && (rejected || w.pin.Version != want || w.version != want) || err != nil && (!rejected || cli.CodeOf(err) != cli.ExitUsage || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: pin %+v, %v; want %s", what, w.pin, err, want)
		}
	}
}

// TestFollows checks the version to which a group moves when a user removes its pin. A failure counts only for the current configuration, and
// a group does not move below its active version.
func TestFollows(t *testing.T) {
	t.Parallel()
	row := func(name, version string, status v1alpha1.ReleaseStatus) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: name, SemVer: v1alpha1.SemVer{Version: version}, Status: status}
	}
	active, failed := row("shop-1-2-0-c1", "1.2.0", v1alpha1.ReleaseActive), row("shop-1-2-0-c2", "1.2.0", v1alpha1.ReleaseError)
	newer, older := row("shop-1-3-0-c2", "1.3.0", v1alpha1.ReleaseError), row("shop-1-1-0-c2", "1.1.0", v1alpha1.ReleaseDeprecated)
	current := map[string]string{"1.3.0": "shop-1-3-0-c2", "1.2.0": "shop-1-2-0-c2", "1.1.0": "shop-1-1-0-c2"}
	for name, c := range map[string]struct {
		releases   []v1alpha1.Release
		offered    string
		candidates map[string]string
		exclusive  bool
		denied     string
		v, release string
	}{
		"the configuration failed":                 {[]v1alpha1.Release{active, failed, older}, "1.2.0 1.1.0", current, false, "", "1.2.0", "shop-1-2-0-c1"},
		"the same, without names":                  {[]v1alpha1.Release{active, failed, older}, "1.2.0 1.1.0", nil, false, "", "1.2.0", ""},
		"another configuration failed":             {[]v1alpha1.Release{row("shop-1-2-0-c1", "1.2.0", v1alpha1.ReleaseError), older}, "1.2.0 1.1.0", current, false, "", "1.2.0", "shop-1-2-0-c2"},
		"a newer version failed":                   {[]v1alpha1.Release{newer, active, older}, "1.3.0 1.1.0", current, false, "", "1.2.0", "shop-1-2-0-c1"},
		"a newer version failed, nothing else":     {[]v1alpha1.Release{newer, active}, "1.3.0", current, false, "", "1.2.0", "shop-1-2-0-c1"},
		"a newer version is not a candidate":       {[]v1alpha1.Release{active}, "1.4.0 1.2.0", current, false, "", "1.2.0", "shop-1-2-0-c2"},
		"an older version is active":               {[]v1alpha1.Release{failed, row("shop-1-0-0-c1", "1.0.0", v1alpha1.ReleaseActive)}, "1.2.0 1.1.0", current, false, "", "1.1.0", "shop-1-1-0-c2"},
		"an older version is active and exclusive": {[]v1alpha1.Release{failed, row("shop-1-0-0-c1", "1.0.0", v1alpha1.ReleaseActive)}, "1.2.0 1.1.0", current, true, "", "1.0.0", "shop-1-0-0-c1"},
		"the active version is denied":             {[]v1alpha1.Release{active, older}, "1.1.0", current, false, "1.2.0", "1.1.0", "shop-1-1-0-c2"},
		"nothing is active":                        {[]v1alpha1.Release{newer}, "1.3.0", current, false, "", "", ""},
	} {
		ms, policy, g := &v1alpha1.Microservice{}, &v1alpha1.ImagePolicy{}, &v1alpha1.ReleaseGroup{Name: "1.x", Slug: "1-x", Releases: c.releases}
		ms.Spec.Availability.Exclusive = c.exclusive
		if a := g.ActiveRelease(); a != nil {
			g.Active = a.SemVer.Version
		}
		for _, v := range strings.Fields(c.offered) {
			policy.Status.Releases = append(policy.Status.Releases, v1alpha1.OfferedRelease{Group: "1-x", SemVer: v1alpha1.SemVer{Version: v}})
		}
		if c.denied != "" {
			policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "1-x", Version: c.denied, Reason: v1alpha1.WithdrawnDenied}}
		}
		if v, release := follows(ms, policy, g, c.candidates); v != c.v || release != c.release {
			t.Errorf("%s: %s (%s), want %s (%s)", name, v, release, c.v, c.release)
		}
	}
}

// TestApproverGroups checks that a decision contains only those of the user's groups that steps accept, without duplicates.
func TestApproverGroups(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{}
	if got := approverGroups(ms, 0, []string{"sre"}); got != nil {
		t.Errorf("without steps: %q", got)
	}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{
		{Weight: 5}, {Weight: 10, Approval: &v1alpha1.CanaryApproval{}},
		{Weight: 20, Approval: &v1alpha1.CanaryApproval{From: []string{"sre", "owners"}}}, {Weight: 50, Approval: &v1alpha1.CanaryApproval{From: []string{"owners", "audit"}}},
	}}
	if diff := cmp.Diff([]string{"owners", "audit"}, approverGroups(ms, 1, []string{"system:authenticated", "audit", "owners"})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"audit"}, approverGroups(ms, 4, []string{"sre", "audit"})); diff != "" {
		t.Errorf("a passed step counts: %s", diff)
	}
}

// TestScanThatFailed checks that scan reports a failure if the registry was not reached or the specification is invalid, but not if the scan
// found no version.
func TestScanThatFailed(t *testing.T) {
	t.Parallel()
	condition := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "registry.example.com: connection refused"}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		fails      bool
	}{
		"succeeded":     {nil, false},
		"not reached":   {[]metav1.Condition{condition("Ready", "SourceUnreachable"), condition("SourceReachable", "SourceUnreachable")}, true},
		"offers remain": {[]metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}, condition("SourceReachable", "SourceUnreachable")}, true},
		"stalled":       {[]metav1.Condition{condition("Ready", "InvalidImage")}, true},
		"no version":    {[]metav1.Condition{condition("Ready", "NoVersions")}, false},
	} {
		p := &v1alpha1.ImagePolicy{}
		p.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "mine"}
		p.Status.LastHandledRequest, p.Status.Latest, p.Status.Offered, p.Status.Conditions = "mine", "1.2.0", "3 in 1 group", tc.conditions
		handled, text := scanned(p, "mine")
		if !handled || strings.Contains(text, "failed: registry.example.com: connection refused") != tc.fails || (failureOf(p) != "") != tc.fails {
			t.Errorf("%s: %q", name, text)
		}
		r := &v1alpha1.GitHubRepository{}
		r.Annotations = p.Annotations
		r.Status.LastHandledRequest, r.Status.Conditions = "mine", tc.conditions
		if handled, text := scanned(r, "mine"); !handled || strings.Contains(text, "failed: registry.example.com: connection refused") != tc.fails {
			t.Errorf("GitHubRepository, %s: %q", name, text)
		}
	}
}

// TestCommitOfAPreview checks that a decision finds a release by the short commit that hlnr tree prints.
func TestCommitOfAPreview(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("17", 20)
	ms := &v1alpha1.Microservice{}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "cart-17", Slug: "cart-17", Releases: []v1alpha1.Release{
		{VersionedMicroservice: "shop-17", SemVer: v1alpha1.SemVer{Version: commit}, Status: v1alpha1.ReleaseError},
	}}}
	if got, err := byVersion(ms, v1alpha1.DecisionRetry, commit[:7]); err != nil || got.row.VersionedMicroservice != "shop-17" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := byVersion(ms, v1alpha1.DecisionRetry, commit[:6]); err == nil {
		t.Errorf("%+v", got)
	}
}

// TestRemains checks the text about the release that gets the traffic after an abort. In an exclusive group, the pods of the active release
// might have to start first.
func TestRemains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exclusive, available bool
		active               string
		want                 string
	}{
		"usual":                  {false, true, "1.0.0", "1.x: 1.0.0, which is active, gets all traffic"},
		"before the replacement": {true, true, "1.0.0", "1.x: 1.0.0, which is active, gets all traffic"},
		"replacement":            {true, false, "1.0.0", "1.x: the pods of 1.0.0, which is active, start again, and this release gets all traffic"},
		"none is active":         {true, false, "", "1.x: no release is active, and no release gets traffic"},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.Availability.Exclusive = c.exclusive
		g := &v1alpha1.ReleaseGroup{Name: "1.x", Active: c.active, Rollout: &v1alpha1.Rollout{Release: "shop-1-1-0"}, Releases: []v1alpha1.Release{
			{VersionedMicroservice: "shop-1-1-0", Status: v1alpha1.ReleasePending}, {VersionedMicroservice: "shop-1-0-0", Status: v1alpha1.ReleaseActive, Available: c.available},
		}}
		if got := remains(ms, g); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
