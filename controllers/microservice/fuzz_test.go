package microservice

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/test/await"
)

// addSeeds adds seeds with enough bytes for the generator.
func addSeeds(f *testing.F) {
	for i := range uint64(8) {
		r := rand.New(rand.NewPCG(i, 7))
		b := make([]byte, 16<<10)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		f.Add(b)
	}
}

// anyRolloutState checks that writing and reading any rollout state does not change it, within the precision
// of stored times.
func anyRolloutState(t *rapid.T) {
	s := func(l string) string { return rapid.String().Draw(t, l) }
	n := func(l string) int { return int(rapid.Int32().Draw(t, l)) }
	n64 := func(l string) int64 { return rapid.Int64().Draw(t, l) }
	at := func(l string) time.Time {
		if rapid.Bool().Draw(t, l) {
			return time.Time{}
		}
		return time.UnixMicro(rapid.Int64Range(1, 4e15).Draw(t, l)).UTC()
	}
	there := func(l string) time.Time { return time.UnixMicro(rapid.Int64Range(1, 4e15).Draw(t, l)).UTC() }
	b := func(l string) bool { return rapid.Bool().Draw(t, l) }
	l := release.State{Sequence: n64("seq")}
	for range rapid.IntRange(0, 2).Draw(t, "groups") {
		g := release.Group{
			Slug: s("slug"), Name: s("name"), Level: s("level"), PullRequest: n64("pr"), Head: s("head"), HeadTime: at("ht"), Phase: release.Phase(s("phase")),
			Target: release.Target{Release: s("a"), Reason: release.Reason(s("b")), ResolvedFrom: s("c")}, TrafficRevision: n64("tr"), TrafficTime: at("tt"), SettledRevision: n64("sr"), Superseded: n("o"),
			Failed: release.Failed{Version: s("fv"), Config: s("fc")},
		}
		if b("run") {
			g.Rollout = &release.Rollout{Release: s("r"), Sequence: n64("rs"), Step: n("st"), Started: there("sta"), StepRevision: n64("srr"), StepsHash: s("h"), Waited: time.Duration(n64("w")), WaitingSince: at("ws"), Interrupted: b("i"), Floor: n("f"), Continued: n("c"), Grace: at("g"), Gate: release.Point(s("p")), GateTime: at("gt"), From: s("fr")}
		}
		for range rapid.IntRange(0, 2).Draw(t, "rows") {
			r := release.Row{Release: s("rr"), Name: s("rn"), Version: s("rv"), Config: s("rc"), Status: release.Status(s("rs")), Weight: n("rw"), Match: b("rm"), Mirror: n("rmi"), Available: b("ra"), Promoted: n64("rp"), Routed: b("rro"), Adopted: b("rad"), Attempt: n("rat"), RetryTime: at("rrt"), Reason: release.Reason(s("rre")), Since: there("rsi")}
			if b("z") {
				r.Zero = &release.Zero{Revision: n64("zr"), Time: there("zt")}
			}
			if b("d") {
				r.Decision = &release.Handled{ID: s("di"), Action: release.Action(s("da")), Time: there("dt"), By: s("db"), Outcome: s("do")}
			}
			g.Releases = append(g.Releases, r)
		}
		l.Groups = append(l.Groups, g)
	}
	var status v1alpha1.MicroserviceStatus
	writeState(l, &status)
	raw, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var read v1alpha1.MicroserviceStatus
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	got := readState(&read)
	if diff := gocmp.Diff(l, got, gocmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func FuzzRolloutState(f *testing.F) { addSeeds(f); f.Fuzz(rapid.MakeFuzz(anyRolloutState)) }

// FuzzStatus checks that converting a status to the rollout state and back returns the same JSON for all
// fields of the planner.
func FuzzStatus(f *testing.F) {
	f.Add([]byte(`{"sequence":3,"releaseGroups":[{"name":"1.x","slug":"1-x","level":"Release","phase":"Live","target":{},"run":{"release":"a","startedTime":"2026-01-01T00:00:00.000000Z","waited":"1m0s"},"releases":[{"versionedMicroservice":"a","semVer":{"version":"1.0.0"},"status":"active","weight":100,"lastTransitionTime":"2026-01-01T00:00:00.000001Z"}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var in v1alpha1.MicroserviceStatus
		if json.Unmarshal(raw, &in) != nil {
			return
		}
		l := readState(&in)
		var out v1alpha1.MicroserviceStatus
		writeState(l, &out)
		text, err := json.Marshal(out)
		if err != nil {
			return // a year beyond 9999
		}
		var again v1alpha1.MicroserviceStatus
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		var third v1alpha1.MicroserviceStatus
		writeState(readState(&again), &third)
		text2, _ := json.Marshal(third)
		if string(text) != string(text2) {
			t.Fatalf("%s\n%s", text, text2)
		}
		defer await.Quick(t)()
		release.Plan(release.Observed{State: l, Spec: release.Spec{Replicas: 1, MinimumAvailable: 1, Deadline: time.Minute}}, time.Unix(1.8e9, 0))
	})
}
