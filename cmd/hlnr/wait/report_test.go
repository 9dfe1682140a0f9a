package wait

import (
	"bytes"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestTimesOfLines checks that a line about a state that was reached before the command started has the time that the objects record, or
// no time.
func TestTimesOfLines(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 14, 0, 0, 0, time.UTC)
	for format, want := range map[string]string{
		cli.FormatText: "" +
			"          found           version 1.3.0\n" +
			"13:59:00  started         in group 1.x\n" +
			"2026-11-24 14:00:00  active          100%\n" +
			"14:00:05  routes          programmed\n",
		cli.FormatJSON: "" +
			`{"kind":"WaitChange","apiVersion":"view.hlnr.io/v1","time":"2026-11-25T14:00:00Z","what":"found","text":"version 1.3.0"}` + "\n" +
			`{"kind":"WaitChange","apiVersion":"view.hlnr.io/v1","time":"2026-11-25T14:00:00Z","what":"started","text":"in group 1.x","since":"2026-11-25T13:59:00Z"}` + "\n" +
			`{"kind":"WaitChange","apiVersion":"view.hlnr.io/v1","time":"2026-11-25T14:00:00Z","what":"active","text":"100%","since":"2026-11-24T14:00:00Z"}` + "\n" +
			`{"kind":"WaitChange","apiVersion":"view.hlnr.io/v1","time":"2026-11-25T14:00:05Z","what":"routes","text":"programmed","since":"2026-11-25T14:00:05Z"}` + "\n",
	} {
		var out bytes.Buffer
		f := cli.New("hlnr", "test", genericiooptions.IOStreams{Out: &out})
		clock := clocktesting.NewFakeClock(now)
		f.Clock = clock
		w := newWaiter(f)
		w.output = &cli.Output{Format: format}
		lines := []line{{What: "found", Text: "version 1.3.0"}, {"started", "in group 1.x", now.Add(-time.Minute)}, {"active", "100%", now.Add(-24 * time.Hour)}}
		if err := w.show(lines); err != nil {
			t.Fatal(err)
		}
		clock.Step(5 * time.Second)
		if err := w.show(append(lines, line{What: "routes", Text: "programmed"})); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%q: got\n%s\nwant\n%s", format, out.String(), want)
		}
	}
}

// TestLinesOfARelease checks that a release is reported as available only while it is available,
// and that each line has the time that the objects record.
func TestLinesOfARelease(t *testing.T) {
	t.Parallel()
	created, available, active := time.Unix(100, 0), time.Unix(200, 0), time.Unix(300, 0)
	for name, c := range map[string]struct {
		available bool
		pods      int32
		ready     string
		want      []line
	}{
		"available":              {true, 2, "2/2", []line{{"available", "2/2 pods", available}}},
		"not available, no pods": {false, 0, "0/2", nil},
		"available, but no pods": {true, 0, "0/2", nil},
	} {
		s := fixture(func(s *snapshot) {
			r := &s.ms.Status.ReleaseGroups[0].Releases[0]
			r.Available, r.LastTransitionTime = c.available, metav1.NewMicroTime(active)
			s.release = &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
			s.release.Status.Available, s.release.Status.Ready = c.pods, c.ready
			s.release.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: "True", LastTransitionTime: metav1.NewTime(available)}}
		})
		got, _ := question{version: "1.2.0", state: forActive, command: command}.judge(s)
		want := slices.Concat([]line{{"started", "in group 1.x", created}}, c.want, []line{{"active", "100%", active}})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
