package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stories are the histories whose plans are stored, in order, in testdata.
var stories = map[string]func(tale){
	"first-release": func(h tale) {
		h.startup = 5 * time.Second
		h.steps(twoSteps...)
		h.live()
	},
	"canary": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Hour)
	},
	"broken-and-patch-below": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(15 * time.Minute)
		h.push("1.1.1")
		h.run(time.Hour)
	},
	"second-group": func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Hour)
	},
	"pin-and-unpin": func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(twoSteps...)
		h.startup = 5 * time.Second
		h.pin(Pin{Group: "1.x", Version: "1.0.0", Reason: "slow search"})
		h.run(time.Hour)
		h.pin()
		h.run(time.Hour)
	},
	"pin-expires": func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0", Expire: h.now.Add(time.Hour)})
		h.push("1.1.0")
		h.run(2 * time.Hour)
	},
	"minimum-available": func(h tale) {
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0", "1.3.0"} {
			h.push(v)
			h.run(time.Hour)
		}
	},
	"deprecate-and-retry": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Hour)
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Hour)
	},
	"adopt": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Hour)
	},
	"continue": func(h tale) {
		h.live()
		h.steps(Step{Name: "check", Weight: 20, Approval: true})
		h.push("1.1.0")
		h.run(time.Hour)
		h.decideOn("1.1.0", Continue, "check")
		h.run(time.Hour)
	},
	"paused": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.push("1.2.0")
		h.run(time.Hour)
		h.edit("not paused", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
	},
	"superseded": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.push("1.2.0")
		h.run(time.Hour)
	},
	"closed": func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour)
	},
	"excluded": func(h tale) {
		h.live()
		h.withdrawGroup("1-x", Excluded)
		h.push("2.0.0")
		h.run(time.Hour)
	},
	"steps-edited": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.steps(Step{Weight: 5}, Step{Weight: 30, Pause: time.Hour})
		h.run(time.Minute)
		h.steps()
		h.run(time.Minute)
	},
	"traffic-not-programmed": func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.nets["web"].stuck = true
		h.push("1.1.0")
		h.run(15 * time.Minute)
	},
	"record-lost": func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.loseState()
		h.run(time.Hour)
	},
}

// TestGolden compares the successive plans of the stories with
// testdata/*.golden. With -update, it writes these files.
func TestGolden(t *testing.T) {
	for name, play := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.log = &strings.Builder{}
			play(tale{w})
			if w.err != nil {
				t.Fatal(w.err)
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(w.log.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), w.log.String()); d != "" {
				t.Errorf("the plans changed (if this is intended, run the test with -update):\n%s", d)
			}
		})
	}
}
