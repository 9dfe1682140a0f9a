package viewtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/view"
)

// Story is a service at a moment in its history.
type Story struct {
	Name  string
	Input view.Input
	Now   time.Time
}

// twoSteps are the steps of most histories.
var twoSteps = []release.Step{{Name: "tenth", Weight: 10, Pause: 10 * time.Minute}, {Name: "half", Weight: 50, Pause: 10 * time.Minute}}

// live makes a release active and waits for an hour.
func live(w *world) {
	w.push("1.0.0")
	w.wait(time.Hour)
	w.spec.Steps = twoSteps
}

// freezes adds a freeze of the namespace that lasts until Monday.
func freezes(w *world) {
	f := v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair", Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: "ana"}}}
	f.Spec.Reason, f.Spec.Until = "trade fair", &metav1.Time{Time: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}
	w.freezes = []v1alpha1.Freeze{f}
}

// measured sets the measurements of a version.
func measured(w *world, version string, phase v1alpha1.AnalysisPhase, value string, result v1alpha1.MeasurementResult) {
	limit := 0.5
	w.spec.Analysis = true
	w.metrics = []v1alpha1.AnalysisMetric{{Name: "latency-p99", Latency: &v1alpha1.LatencyMetric{Quantile: "P99"}, ThresholdRange: v1alpha1.ValueRange{Max: &limit}}}
	w.analyses[version] = &v1alpha1.ReleaseAnalysis{
		Phase: phase, Rounds: 3, Message: "latency-p99 is " + value,
		Metrics: []v1alpha1.MetricStatus{{Name: "latency-p99", Result: result, Measurements: []v1alpha1.Measurement{{Time: metav1.NewMicroTime(w.now), Value: value, Result: result}}}},
	}
}

var stories = map[string]func(w *world){
	"no version": func(*world) {},
	"starts": func(w *world) {
		w.broken["1.0.0"] = "CrashLoopBackOff"
		w.messages["1.0.0"] = "exit 1: missing DATABASE_URL"
		w.push("1.0.0")
		w.now = w.now.Add(time.Minute)
	},
	"active":      live,
	"two groups":  func(w *world) { live(w); w.push("2.0.0"); w.wait(2 * time.Hour) },
	"pause":       func(w *world) { live(w); w.push("1.1.0"); w.wait(4 * time.Minute) },
	"second step": func(w *world) { live(w); w.push("1.1.0"); w.wait(12 * time.Minute) },
	"promoted":    func(w *world) { live(w); w.push("1.1.0"); w.wait(time.Hour) },
	"approval": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Name: "ask", Weight: 10, Approval: true}, {Weight: 50}}
		w.push("1.1.0")
		w.wait(41 * time.Minute)
	},
	"approvals": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Name: "ask", Weight: 10, Approval: true, Approvers: 2}, {Weight: 50}}
		w.push("1.1.0")
		w.wait(time.Minute)
		w.decide("1.1.0", release.Continue, "ask", "ana", "dashboards are quiet")
		w.wait(40 * time.Minute)
	},
	"continued": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Name: "ask", Weight: 10, Approval: true}}
		w.push("1.1.0")
		w.wait(time.Minute)
		w.decide("1.1.0", release.Continue, "ask", "ana", "dashboards are quiet")
		w.wait(time.Hour)
	},
	"aborted": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Minute)
		w.decide("1.1.0", release.Deprecate, "", "ana", "sessions lost")
		w.wait(8 * time.Minute)
	},
	"crashes": func(w *world) {
		live(w)
		w.broken["1.1.0"], w.messages["1.1.0"] = "CrashLoopBackOff", `container shop: exit 1: missing DATABASE_URL`
		w.push("1.1.0")
		w.wait(2 * time.Hour)
	},
	"frozen failure": func(w *world) {
		live(w)
		w.broken["1.1.0"], w.messages["1.1.0"] = "CrashLoopBackOff", `container shop: exit 1: missing DATABASE_URL`
		w.push("1.1.0")
		w.wait(2 * time.Hour)
		freezes(w)
		w.wait(time.Minute)
	},
	"no capacity": func(w *world) {
		live(w)
		w.broken["1.1.0"], w.messages["1.1.0"] = "Unschedulable", "0/3 nodes are available: insufficient cpu"
		w.push("1.1.0")
		w.wait(30 * time.Minute)
	},
	"analysis": func(w *world) {
		live(w)
		measured(w, "1.1.0", v1alpha1.AnalysisRunning, "0.212", v1alpha1.MeasurementPassed)
		w.push("1.1.0")
		w.wait(15 * time.Minute)
		next := metav1.NewMicroTime(w.now.Add(40 * time.Second))
		w.analyses["1.1.0"].NextTime = &next
	},
	"inconclusive": func(w *world) {
		live(w)
		measured(w, "1.1.0", v1alpha1.AnalysisInconclusive, "0.612", v1alpha1.MeasurementInconclusive)
		w.push("1.1.0")
		w.wait(15 * time.Minute)
	},
	"rolled back": func(w *world) {
		live(w)
		measured(w, "1.1.0", v1alpha1.AnalysisFailed, "0.612", v1alpha1.MeasurementFailed)
		w.push("1.1.0")
		w.wait(8 * time.Minute)
	},
	"not programmed": func(w *world) {
		live(w)
		w.settle()
		w.stuck = true
		w.push("1.1.0")
		w.now = w.now.Add(12 * time.Second)
	},
	"routes withheld": func(w *world) { live(w); w.stuck = true; w.push("1.1.0"); w.wait(30 * time.Minute) },
	"window": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Weight: 10}, {Weight: 50, Window: &release.Window{Next: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}}}
		w.push("1.1.0")
		w.wait(5 * time.Hour)
		w.now = time.Date(2030, 1, 31, 17, 0, 0, 0, time.UTC)
	},
	"paused":       func(w *world) { live(w); w.push("1.1.0"); w.wait(time.Minute); w.spec.Paused = true; w.wait(time.Hour) },
	"frozen":       func(w *world) { live(w); w.push("1.1.0"); w.wait(time.Minute); freezes(w); w.wait(time.Hour) },
	"frozen start": func(w *world) { live(w); freezes(w); w.push("1.1.0"); w.wait(time.Hour) },
	"pinned": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		w.spec.Pins = []release.Pin{{Field: "spec.updateStrategy.manual.groups[0].name", Group: "1.x", Version: "1.0.0", Reason: "sessions lost", By: "ana@example.com", Expire: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}}
		w.wait(time.Hour)
	},
	"one group pinned": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		w.push("2.0.0")
		w.wait(time.Hour)
		w.spec.Pins = []release.Pin{{Field: "spec.updateStrategy.manual.groups[0].name", Group: "1.x", Version: "1.0.0", Reason: "sessions lost", Expire: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}}
		w.wait(time.Hour)
	},
	"pin of nothing": func(w *world) {
		live(w)
		w.spec.Pins = []release.Pin{{Field: "spec.updateStrategy.manual.groups[0].name", Group: "1.x", Version: "9.9.9"}}
		w.wait(time.Hour)
	},
	"previews": func(w *world) {
		w.titles[19] = "From a fork"
		w.verdicts = []v1alpha1.RefusedCandidate{{Version: fmt.Sprintf("%040x", 19), Verdict: "Fork", Reason: "pull request 19 (cart): it is from a fork and has no preview label"}}
		w.pull(16, strings.Repeat("16", 20), "Old cart")
		w.now = w.now.Add(time.Minute)
		w.pull(17, strings.Repeat("17", 20), "New checkout")
		w.wait(3 * time.Hour)
		w.pull(18, strings.Repeat("18", 20), "No slot left")
		w.wait(time.Minute)
	},
	"rejected": func(w *world) {
		live(w)
		w.verdicts = []v1alpha1.RefusedCandidate{{Version: "1.3.0-rc.1", Verdict: "Level", Reason: "prereleases are off"}, {Version: "latest", Verdict: "Parse", Reason: "not a version"}}
	},
}

// Stories runs all histories. In each history, the service is named shop.
func Stories() []Story {
	out := make([]Story, 0, len(stories))
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		out = append(out, play(name, "shop"))
	}
	return out
}

// historyOf returns the history or situation with the given name, or nil.
func historyOf(name string) func(*world) {
	if f := stories[name]; f != nil {
		return f
	}
	return situations[name]
}

// Play returns a service at the end of a history or situation. It returns false if no history or situation has this name.
func Play(name, service string) (Story, bool) {
	if historyOf(name) == nil {
		return Story{}, false
	}
	return play(name, service), true
}

// Moments returns a service at each moment of a history at which something changed. The last moment is the end of
// the history.
func Moments(name, service string) (out []Story) {
	w := newWorld(service)
	moment := func() { out = append(out, Story{Name: name, Input: w.input(), Now: w.now}) }
	w.seen = moment
	historyOf(name)(w)
	moment()
	return out
}

func play(name, service string) Story {
	w := newWorld(service)
	historyOf(name)(w)
	return Story{Name: name, Input: w.input(), Now: w.now}
}

// Many returns n services that are in different states at the same point in time.
func Many(n int) (view.Input, time.Time) {
	var in view.Input
	names := slices.Sorted(maps.Keys(stories))
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	in.Namespace = namespace
	for i := range n {
		s := play(names[i%len(names)], fmt.Sprintf("s%03d", i))
		in.Microservices = append(in.Microservices, s.Input.Microservices...)
		in.Releases = append(in.Releases, s.Input.Releases...)
		in.NetworkPolicies = append(in.NetworkPolicies, s.Input.NetworkPolicies...)
		in.ImagePolicies = append(in.ImagePolicies, s.Input.ImagePolicies...)
		in.Repositories = append(in.Repositories, s.Input.Repositories...)
	}
	return in, now
}
