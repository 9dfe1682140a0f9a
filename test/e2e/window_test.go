//go:build e2e

package e2e

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestWindow runs a canary up to a step whose deploy window opens within two minutes, in a time zone that no
// test machine uses. While it is waiting, the canary keeps the traffic of the previous step, even if the
// manager is killed, and it does not continue before the window opens. An aborted release is rolled back
// even while the window is closed.
func TestWindow(t *testing.T) {
	s := newService(t, "window").steps(v1alpha1.CanaryStep{Name: "tenth", Weight: 10}, v1alpha1.CanaryStep{Name: "half", Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "2s"}})
	s.start("1.0.0")
	l := s.load(30, false)

	const zone = "Asia/Kolkata" // UTC+05:30, without daylight saving time.
	there, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	opens := time.Now().Add(45 * time.Second).Truncate(time.Minute).Add(time.Minute)
	window := func(from time.Time) {
		t.Helper()
		clock := func(at time.Time) v1alpha1.ClockTime { return v1alpha1.ClockTime(at.In(there).Format("15:04")) }
		change(t, s.ms, func(ms *v1alpha1.Microservice) {
			ms.Spec.UpdateStrategy.Canary.Steps[1].Window = &v1alpha1.DeployWindow{TimeZone: zone, From: clock(from), To: clock(from.Add(time.Hour))}
		})
	}
	window(opens)
	s.push("1.1.0")
	s.waits("1.1.0", 10, "Window", opens.UTC().Format(time.RFC3339))
	l.Mark("closed")
	k := &killer{random: rand.New(rand.NewPCG(1, 1)), wanted: 1}
	if err := k.kill(t.Context()); err != nil {
		t.Fatal(err)
	}

	var weight int32
	var after time.Duration
	s.until("the canary to get more than 10%", func(ms *v1alpha1.Microservice) (bool, string) {
		weight, after = row(ms, "1.1.0").Weight, time.Since(opens)
		return weight != 10, ""
	})
	t.Logf("the canary got %d%% %s after its window opened", weight, after.Round(time.Millisecond))
	if weight != 50 || after < 0 || after > 10*time.Second {
		t.Errorf("the canary got %d%% %s after its window opened", weight, after)
	}
	if f := l.Split("closed").Fraction("1.1.0"); f > 0.2 {
		t.Errorf("%.1f%% of the requests went to the canary while the window of the 50%% step was closed", f*100)
	}
	s.active("1.1.0")

	l.Mark("aborted")
	window(opens.Add(12 * time.Hour))
	s.push("1.2.0")
	s.waits("1.2.0", 10, "Window", opens.Add(12*time.Hour).UTC().Format(time.RFC3339))
	s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
	s.sees(l, "1.1.0")
	s.active("1.1.0")
	verdict(t, l)
}

// waits waits until a canary has the given weight and the Progressing condition shows why the canary is waiting: the
// condition has the given reason, and its message contains the given word.
func (s *service) waits(version string, weight int32, reason, word string) {
	s.t.Helper()
	s.until(version+" to wait: "+reason, func(ms *v1alpha1.Microservice) (bool, string) {
		r, c := row(ms, version), meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionProgressing)
		if r == nil || c == nil {
			return false, "not observed yet"
		}
		return r.Weight == weight && c.Reason == reason && strings.Contains(c.Message, word), c.Reason + ": " + c.Message
	})
	s.confirmed()
}
