package microservice

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/test/apiserver"
)

// TestRolloutStateIsKept checks that a rollout state is the same after it has been written to the status,
// encoded as JSON, and read.
func TestRolloutStateIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := release.State{Sequence: rapid.Int64Range(0, 1<<40).Draw(t, "sequence"), Groups: rapid.SliceOfN(rapid.Custom(group), 0, 3).Draw(t, "groups")}
		var status v1alpha1.MicroserviceStatus
		writeState(want, &status)
		raw, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		var read v1alpha1.MicroserviceStatus
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		got := readState(&read)
		// Times are compared as instants, because the API server returns them in another time zone.
		instants := gocmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
		if diff := gocmp.Diff(want, got, instants, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		var again v1alpha1.MicroserviceStatus
		writeState(got, &again)
		rewritten, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(rewritten) != string(raw) {
			t.Fatalf("reading and writing changes the rollout state:\n%s\n%s", raw, rewritten)
		}
	})
}

// TestEarlierStatusIsRead checks that fields of earlier versions are read like this version's fields, and
// that the next write removes the old fields.
func TestEarlierStatusIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := release.State{Sequence: rapid.Int64Range(0, 1<<40).Draw(t, "sequence"), Groups: rapid.SliceOfN(rapid.Custom(group), 0, 3).Draw(t, "groups")}
		for i := range state.Groups {
			state.Groups[i].LastSuperseded = "" // earlier versions did not record it
			if run := state.Groups[i].Rollout; run != nil {
				run.Approvals = nil // earlier versions had no approvals
			}
		}
		var want v1alpha1.MicroserviceStatus
		writeState(state, &want)
		earlier := want.DeepCopy()
		apiserver.EarlierStatus(earlier)
		if earlier.Internal != nil || len(earlier.ReleaseGroups) > 0 && (earlier.ReleaseGroups[0].Internal != nil || earlier.ReleaseGroups[0].Rollout != nil) {
			t.Fatalf("the earlier form has current fields: %+v", earlier)
		}
		got := earlier.DeepCopy()
		convertStatus(got)
		if got.Sequence() != state.Sequence {
			t.Fatalf("sequence %d, want %d", got.Sequence(), state.Sequence)
		}
		if diff := gocmp.Diff(want.ReleaseGroups, got.ReleaseGroups); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		writeState(readState(got), got)
		if diff := gocmp.Diff(want, *got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("written again (-want +got):\n%s", diff)
		}
	})
}

// TestRolloutStateFitsItsSchema checks that edited labels do not produce values that the status schema
// rejects. Otherwise, the API server would reject the whole rollout state, and with it each abort.
func TestRolloutStateFitsItsSchema(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ level, number, want string }{
		"unchanged":         {"Candidate", "", "Candidate"},
		"edited":            {"Mine", "", "Release"},
		"removed":           {"", "", "Release"},
		"a preview, edited": {"Mine", "17", "Preview"},
	} {
		t.Run(name, func(t *testing.T) {
			var c v1alpha1.VersionedMicroservice
			c.Labels = map[string]string{v1alpha1.LabelLevel: test.level, v1alpha1.LabelPullRequest: test.number}
			if got := (&observed{ms: &v1alpha1.Microservice{}}).readObject(&c).Level; got != test.want {
				t.Errorf("level = %q, want %q", got, test.want)
			}
		})
	}
}

func word(t *rapid.T, label string) string {
	return rapid.StringMatching(`[a-z0-9.-]{0,12}`).Draw(t, label)
}

func count(t *rapid.T, label string) int { return rapid.IntRange(0, 1000).Draw(t, label) }

func flag(t *rapid.T, label string) bool { return rapid.Bool().Draw(t, label) }

// instant returns a time with the precision of stored times, a microsecond.
func instant(t *rapid.T, label string) time.Time {
	return time.UnixMicro(rapid.Int64Range(1, 4e15).Draw(t, label)).UTC()
}

func maybe(t *rapid.T, label string) time.Time {
	if flag(t, label+" there") {
		return instant(t, label)
	}
	return time.Time{}
}

func group(t *rapid.T) release.Group {
	g := release.Group{
		Slug: word(t, "slug"), Name: word(t, "name"), Level: word(t, "level"), Phase: release.Phase(word(t, "phase")),
		PullRequest: int64(count(t, "number")), Head: word(t, "head"), HeadTime: maybe(t, "pushed"),
		Target:          release.Target{Release: word(t, "target"), Reason: release.Reason(word(t, "why")), ResolvedFrom: word(t, "from")},
		TrafficRevision: int64(count(t, "revision")), TrafficTime: maybe(t, "raised"),
		SettledRevision: int64(count(t, "settled")), Superseded: count(t, "superseded"), LastSuperseded: word(t, "superseded last"),
		Failed:   release.Failed{Version: word(t, "forgotten"), Config: word(t, "forgotten config")},
		Releases: rapid.SliceOfN(rapid.Custom(row), 0, 3).Draw(t, "rows"),
	}
	if flag(t, "runs") {
		g.Rollout = &release.Rollout{
			Release: word(t, "runner"), Step: count(t, "step"), Started: instant(t, "started"),
			StepRevision: int64(count(t, "step revision")), StepsHash: word(t, "steps"),
			Waited:       time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "waited")),
			WaitingSince: maybe(t, "waiting"), Interrupted: flag(t, "interrupted"), Floor: count(t, "floor"), Continued: count(t, "continued"),
			Sequence: rapid.Int64Range(0, 1<<40).Draw(t, "run"), Gate: release.Point(word(t, "gate")), GateTime: maybe(t, "gated"),
			Grace: maybe(t, "grace"), From: word(t, "run from"), WaitsFor: release.Reason(word(t, "waits for")),
		}
		for range count(t, "approvals") % 3 {
			g.Rollout.Approvals = append(g.Rollout.Approvals, release.Approval{By: word(t, "by"), Group: word(t, "by group"), Time: instant(t, "approved")})
		}
	}
	return g
}

func row(t *rapid.T) release.Row {
	r := release.Row{
		Release: word(t, "release"), Name: word(t, "stream"), Version: word(t, "version"), Config: word(t, "config"),
		Status: release.Status(word(t, "status")), Weight: count(t, "weight"), Available: flag(t, "available"),
		Match: flag(t, "match"), Mirror: count(t, "mirror"),
		Promoted: int64(count(t, "promoted")), Routed: flag(t, "routed"), Adopted: flag(t, "adopted"),
		Attempt: count(t, "attempt"), RetryTime: maybe(t, "retry"), Reason: release.Reason(word(t, "reason")), Since: instant(t, "since"),
	}
	if flag(t, "zero") {
		r.Zero = &release.Zero{Revision: int64(count(t, "zero revision")), Time: instant(t, "zero time")}
	}
	if flag(t, "decided") {
		r.Decision = &release.Handled{ID: word(t, "id"), Action: release.Action(word(t, "action")), Time: instant(t, "decided at"), By: word(t, "by"), Outcome: word(t, "outcome")}
	}
	return r
}

// TestStoredStatus checks that a status of an earlier version is converted to this version's values without
// loss, and that conditions that no longer exist are removed.
func TestStoredStatus(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/stored-status.json")
	if err != nil {
		t.Fatal(err)
	}
	ms := &v1alpha1.Microservice{}
	if err := json.Unmarshal(raw, &ms.Status); err != nil {
		t.Fatal(err)
	}
	convertStatus(&ms.Status)
	var reasons []string
	for _, g := range ms.Status.ReleaseGroups {
		reasons = append(reasons, g.Target.Reason)
		for _, r := range g.Releases {
			reasons = append(reasons, r.Reason)
		}
	}
	same(t, "reasons", reasons, []string{"Held", "Aborted", "Superseded", "First", "NoSlot"})
	var written v1alpha1.MicroserviceStatus
	writeState(readState(&ms.Status), &written)
	same(t, "rollout state", written.ReleaseGroups, ms.Status.ReleaseGroups)
	setConditions(&pass{observed: observed{ms: ms}}, nil)
	for _, c := range ms.Status.Conditions {
		if c.Type == "NoTraffic" || c.Type == "TogetherHeld" {
			t.Errorf("condition %s still exists", c.Type)
		}
	}
}
