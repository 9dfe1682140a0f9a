package view_test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

var update = flag.Bool("update", false, "write testdata again")

// TestJSON compares the JSON form of each story with testdata/*.json. With -update, it writes these files.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, s := range viewtest.Stories() {
		raw, err := json.MarshalIndent(view.New(s.Input, s.Now), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, strings.ReplaceAll(s.Name, " ", "-")+".json", string(raw)+"\n")
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s changed (if the change is correct, write the file with -update):\n%s", name, diff)
	}
}

// TestSentences checks the sentence that describes the service in each story.
func TestSentences(t *testing.T) {
	t.Parallel()
	want := map[string]struct {
		class    view.Class
		sentence string
		next     string
	}{
		"no version":     {view.Moving, "no version yet", ""},
		"active":         {view.Stable, "active 60m", ""},
		"pause":          {view.Moving, "step 1 of 2 (10%), pause ends in 6m", "hlnr continue shop 1.1.0"},
		"second step":    {view.Moving, "step 2 of 2 (50%), pause ends in 8m", "hlnr continue shop 1.1.0"},
		"approval":       {view.Waiting, "waits for approval since 10:00", "hlnr continue shop 1.1.0"},
		"aborted":        {view.Stable, `aborted 8m ago by ana: "sessions lost"`, "hlnr retry shop 1.1.0"},
		"crashes":        {view.Failed, "failed 110m ago: container shop: exit 1: missing DATABASE_URL", "hlnr retry shop 1.1.0"},
		"rolled back":    {view.Failed, "rolled back 8m ago: latency-p99 612 ms > 500 ms at 10%", "hlnr retry shop 1.1.0"},
		"not programmed": {view.Failed, "waits for gateway infra/public to program 10% (gateway infra/public has no listener for the host), 12s", ""},
		"pinned":         {view.Stable, `pinned to 1.0.0 until Mon 08:00 by ana@example.com: "sessions lost"`, "hlnr unpin shop"},
		"inconclusive":   {view.Waiting, "waits for a decision since 10:00; its analysis is inconclusive: latency-p99 is 0.612", "hlnr continue shop 1.1.0"},
		"no capacity":    {view.Failed, "waits for capacity: 0/3 nodes are available: insufficient cpu, 29m", "hlnr deprecate shop 1.1.0"},
		"paused":         {view.Waiting, "paused: 1.1.0 waits at 10%", "hlnr resume shop"},
		"frozen":         {view.Moving, `waits, frozen until 2030-02-04T08:00:00Z by Freeze "fair" ("trade fair")`, "hlnr deprecate shop 1.1.0"},
		"frozen start":   {view.Moving, `1.1.0 is waiting, frozen until 2030-02-04T08:00:00Z by Freeze "fair" ("trade fair")`, ""},
		"window":         {view.Moving, "waits for the window Mon–Wed 09:00–16:00 Europe/Zurich, opens in 3d", ""},
		"previews":       {view.Waiting, "waits for approval (fork)", ""},
	}
	for _, s := range viewtest.Stories() {
		w, ok := want[s.Name]
		if !ok {
			continue
		}
		delete(want, s.Name)
		got := view.New(s.Input, s.Now).Services[0].State
		next := ""
		if len(got.Next) > 0 {
			next = got.Next[0].Command
		}
		if got.Class != w.class || got.Sentence != w.sentence || next != w.next {
			t.Errorf("%s: got %s %q %q\nwant %s %q %q", s.Name, got.Class, got.Sentence, next, w.class, w.sentence, w.next)
		}
	}
	for name := range want {
		t.Errorf("there is no history %q", name)
	}
}

// TestOrder checks that services that are waiting for a user come first, followed by failed
// services and then moving services, regardless of the order of the input.
func TestOrder(t *testing.T) {
	t.Parallel()
	in, now := viewtest.Many(44)
	first := view.New(in, now)
	order := []view.Class{view.Waiting, view.Failed, view.Moving, view.Stable}
	if !slices.IsSortedFunc(first.Services, func(a, b view.Service) int {
		return slices.Index(order, a.State.Class) - slices.Index(order, b.State.Class)
	}) {
		t.Error("services are not in the order of their classes")
	}
	if c := first.Counts; c.Services != 44 || c.Waiting == 0 || c.Failed == 0 || c.Moving == 0 || c.Waiting+c.Failed+c.Moving >= 44 {
		t.Errorf("counts %+v", c)
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(in.Microservices), reflect.Swapper(in.Microservices))
	r.Shuffle(len(in.Releases), reflect.Swapper(in.Releases))
	r.Shuffle(len(in.NetworkPolicies), reflect.Swapper(in.NetworkPolicies))
	if diff := cmp.Diff(first, view.New(in, now)); diff != "" {
		t.Error(diff)
	}
}

// TestUnknownIsEmpty checks that fields that depend on objects that were not read are omitted.
func TestUnknownIsEmpty(t *testing.T) {
	t.Parallel()
	for _, s := range viewtest.Stories() {
		b := view.New(view.Input{Microservices: s.Input.Microservices}, s.Now)
		svc := b.Services[0]
		if svc.Discovery != nil {
			t.Errorf("%s: discovery without ImagePolicies: %+v", s.Name, svc.Discovery)
		}
		for _, g := range slices.Concat(svc.Groups, svc.Previews) {
			if len(g.Hosts) > 0 {
				t.Errorf("%s: hosts without NetworkPolicies: %+v", s.Name, g.Hosts)
			}
			for _, r := range g.Releases {
				if r.Pods != nil || r.Created != nil || r.Share.Programmed != nil || r.Share.Observed != nil {
					t.Errorf("%s: %s has %+v, %+v, %+v", s.Name, r.Version, r.Pods, r.Created, r.Share)
				}
			}
		}
	}
}

// FuzzStatus checks that no status makes a view panic or produce invalid JSON, and that each sentence
// is a single line and not empty.
func FuzzStatus(f *testing.F) {
	for _, s := range viewtest.Stories() {
		ms, _ := json.Marshal(s.Input.Microservices)
		rel, _ := json.Marshal(s.Input.Releases)
		hnp, _ := json.Marshal(s.Input.NetworkPolicies)
		f.Add(ms, rel, hnp, s.Now.Unix())
	}
	f.Fuzz(func(t *testing.T, ms, rel, hnp []byte, unix int64) {
		var in view.Input
		_ = json.Unmarshal(ms, &in.Microservices)
		_ = json.Unmarshal(rel, &in.Releases)
		_ = json.Unmarshal(hnp, &in.NetworkPolicies)
		checkView(t, in, time.Unix(unix%1e11, 0))
	})
}

func checkView(t interface{ Errorf(string, ...any) }, in view.Input, now time.Time) {
	b := view.New(in, now)
	for _, s := range b.Services {
		states := []view.State{s.State}
		for _, g := range slices.Concat(s.Groups, s.Previews) {
			states = append(states, g.State)
			for _, r := range g.Releases {
				states = append(states, r.State)
				if _, err := view.WhyVersion(in, s.Namespace, s.Name, r.Version, now); err != nil {
					t.Errorf("why %s: %v", r.Version, err)
				}
			}
		}
		for _, st := range states {
			if st.Sentence == "" || strings.ContainsAny(st.Sentence, "\n\r") || st.Class == "" || st.Word == "" {
				t.Errorf("state %+v", st)
			}
		}
		view.NewHistory(in, s.Namespace, s.Name, now)
	}
	for _, p := range in.NetworkPolicies {
		for _, d := range p.Status.Domains {
			_, _ = view.WhyHost(in, d.Domain, d.Path, now)
		}
	}
}

// TestAnyStatus checks the same properties as FuzzStatus, for statuses with unusual values in each field
// that a view reads.
func TestAnyStatus(t *testing.T) {
	t.Parallel()
	all := viewtest.Stories()
	rapid.Check(t, func(r *rapid.T) {
		s := all[rapid.IntRange(0, len(all)-1).Draw(r, "story")]
		raw, _ := json.Marshal(s.Input.Microservices[0])
		var ms v1alpha1.Microservice
		if err := json.Unmarshal(raw, &ms); err != nil {
			r.Fatal(err)
		}
		for i := range ms.Status.ReleaseGroups {
			g := &ms.Status.ReleaseGroups[i]
			g.Phase = rapid.SampledFrom([]v1alpha1.GroupPhase{g.Phase, "Live", "Closing", "Expired", ""}).Draw(r, "phase")
			if run := g.Rollout; run != nil {
				run.Step = rapid.Int32Range(-1, 40).Draw(r, "step")
				run.Gate = rapid.SampledFrom([]v1alpha1.Gate{"", "Together", "ConfirmRollout", "PreRollout", "ConfirmPromotion", "x"}).Draw(r, "gate")
				run.WaitsFor = rapid.SampledFrom([]string{"", "Unschedulable", "TrafficNotProgrammed", "HookUnanswered", "x"}).Draw(r, "cause")
				run.Internal.StepRevision = rapid.Int64().Draw(r, "revision")
				run.Interrupted = rapid.Bool().Draw(r, "interrupted")
			}
			for j := range g.Releases {
				g.Releases[j].Status = rapid.SampledFrom([]v1alpha1.ReleaseStatus{"pending", "canary", "active", "error", "deprecated", "x"}).Draw(r, "status")
				g.Releases[j].Reason = rapid.SampledFrom([]string{"", "AnalysisFailed", "Aborted", "HookFailed", "TrafficLost"}).Draw(r, "reason")
			}
		}
		in := s.Input
		in.Microservices = []v1alpha1.Microservice{ms}
		if rapid.Bool().Draw(r, "no releases") {
			in.Releases = nil
		}
		checkView(r, in, s.Now)
	})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 3 * time.Hour: "3h", 47 * time.Hour: "47h", 17 * 24 * time.Hour: "17d"} {
		if got := view.Age(d); got != want {
			t.Errorf("Age(%s) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0s", 38 * time.Second: "38s", 942 * time.Second: "15m42s", 3 * time.Hour: "3h", 411 * time.Hour: "17d3h"} {
		if got := view.Span(d); got != want {
			t.Errorf("Span(%s) = %s, want %s", d, got, want)
		}
	}
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{now: "12:00", now.Add(-11 * time.Hour): "01:00", now.Add(-13 * time.Hour): "Wed 23:00", now.AddDate(0, 0, -30): "2030-01-01 12:00"} {
		if got := view.Clock(at, now); got != want {
			t.Errorf("Clock(%s) = %s, want %s", at, got, want)
		}
	}
}

// BenchmarkBoard builds the board of 500 services.
func BenchmarkBoard(b *testing.B) {
	in, now := viewtest.Many(500)
	b.ReportAllocs()
	for b.Loop() {
		view.New(in, now)
	}
}
