package viewtest

import (
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// pins replaces the pins of the service with one pin, which pins group 1.x to a version.
func pins(w *world, version string) {
	w.spec.Pins = []release.Pin{{Field: "spec.updateStrategy.manual.groups[0].name", Group: "1.x", Version: version, Reason: "sessions lost", By: "ana@example.com"}}
}

// crashes makes the containers of a version or a release crash.
func crashes(w *world, name string) {
	w.broken[name], w.messages[name] = "CrashLoopBackOff", "container shop: exit 1: out of licenses"
}

// upgradedAfterFailure makes 1.2.0 active after 1.1.0 has failed.
func upgradedAfterFailure(w *world) {
	crashes(w, "1.1.0")
	w.push("1.1.0")
	w.wait(2 * time.Hour)
	w.push("1.2.0")
	w.wait(time.Hour)
}

// situations are histories in which a service is in a rare state. [Stories] does not include them.
var situations = map[string]func(w *world){
	"configuration failed": func(w *world) {
		live(w)
		w.configure("changed")
		crashes(w, w.releaseOf("1.0.0"))
		w.wait(2 * time.Hour)
	},
	"configuration failed twice": func(w *world) {
		live(w)
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(2 * time.Hour)
		w.configure("changed")
		w.wait(2 * time.Hour)
	},
	"previous configuration failed": func(w *world) {
		crashes(w, w.releaseOf("1.0.0"))
		w.push("1.0.0")
		w.wait(2 * time.Hour)
		w.configure("changed")
		w.wait(2 * time.Hour)
	},
	"pinned version failed": func(w *world) {
		live(w)
		crashes(w, "1.1.0")
		pins(w, "1.1.0")
		w.push("1.1.0")
		crashes(w, "1.2.0")
		w.push("1.2.0")
		w.wait(2 * time.Hour)
	},
	"rollback failed": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.0.0")
		pins(w, "1.0.0")
		w.wait(3 * time.Hour)
	},
	"pinned configuration failed": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		w.configure("changed")
		pins(w, "1.0.0")
		w.spec.Pins[0].Current = true
		crashes(w, "1.0.0")
		w.wait(3 * time.Hour)
	},
	"pinned release failed": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.0.0")
		pins(w, "")
		w.spec.Pins[0].Release = w.releaseOf("1.0.0")
		w.wait(3 * time.Hour)
	},
	"denied above a failure": func(w *world) {
		live(w)
		w.spec.MinimumAvailable = 0
		upgradedAfterFailure(w)
		w.deny("1.0.0")
		w.deny("1.2.0")
		w.wait(time.Hour)
	},
	"denied with a return": func(w *world) {
		live(w)
		upgradedAfterFailure(w)
		w.deny("1.2.0")
		w.wait(time.Hour)
	},
	"denied while paused": func(w *world) {
		live(w)
		upgradedAfterFailure(w)
		w.spec.Paused = true
		w.deny("1.2.0")
		w.wait(time.Hour)
	},
	"exclusive two failures": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.2.0")
		w.push("1.2.0")
		w.wait(time.Hour)
	},
	"return crashes": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.0.0")
		pins(w, "1.0.0")
		w.wait(3 * time.Minute)
	},
	"config canary": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Name: "ask", Weight: 10, Approval: true}, {Weight: 50}}
		w.configure("c2")
		w.wait(41 * time.Minute)
	},
	"config failed": func(w *world) {
		live(w)
		crashes(w, "shop-1-0-0-c2")
		w.configure("c2")
		w.wait(2 * time.Hour)
	},
	"return no capacity": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		w.broken["1.0.0"], w.messages["1.0.0"] = "Unschedulable", "0/3 nodes"
		pins(w, "1.0.0")
		w.wait(20 * time.Minute)
	},
	"pinned down frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
		crashes(w, "1.0.0")
		w.wait(2 * time.Minute)
	},
	"pinned down paused": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		w.spec.Paused = true
		w.wait(time.Minute)
		crashes(w, "1.0.0")
		w.wait(2 * time.Minute)
	},
	"unpin down frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
		crashes(w, "1.0.0")
		w.wait(2 * time.Minute)
		w.spec.Pins = nil
		w.wait(10 * time.Minute)
	},
	"unpin down paused": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		w.spec.Paused = true
		w.wait(time.Minute)
		crashes(w, "1.0.0")
		w.wait(2 * time.Minute)
		w.spec.Pins = nil
		w.wait(10 * time.Minute)
	},
	"repin down frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
		crashes(w, "1.0.0")
		w.wait(2 * time.Minute)
		pins(w, "1.1.0")
		w.wait(10 * time.Minute)
	},
	"repin down paused": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		w.spec.Paused = true
		w.wait(time.Minute)
		crashes(w, "1.0.0")
		w.wait(2 * time.Minute)
		pins(w, "1.1.0")
		w.wait(10 * time.Minute)
	},
	"preview pushed long": func(w *world) {
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
		w.now = w.now.Add(time.Minute)
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(10 * time.Minute)
	},
	"exclusive two": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.2.0")
		w.push("1.2.0")
		w.wait(5 * time.Minute)
	},
	"exclusive paused before": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.spec.Paused = true
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"exclusive return paused": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		w.spec.Paused = true
		w.spec.Pins = nil
		w.wait(5 * time.Minute)
	},
	"exclusive return frozen": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.spec.Pins = nil
		w.wait(5 * time.Minute)
	},
	"withheld return": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		w.spec.Paused = true
		pins(w, "1.0.0")
		w.wait(time.Hour)
		w.spec.Pins = nil
		w.wait(time.Hour)
	},
	"frozen return": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.spec.Pins = nil
		w.wait(time.Hour)
	},
	"return started, then frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		w.spec.Pins = nil
		w.wait(time.Minute)
		freezes(w)
		w.wait(time.Minute)
	},
	"return started, then paused": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		w.spec.Pins = nil
		w.wait(time.Minute)
		w.spec.Paused = true
		w.wait(time.Minute)
	},
	"first version crashes": func(w *world) { crashes(w, "1.0.0"); w.push("1.0.0"); w.wait(time.Hour) },
	"first version crashes frozen": func(w *world) {
		crashes(w, "1.0.0")
		w.push("1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
	},
	"withheld weight": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(4 * time.Minute)
		crashes(w, "1.1.0")
		w.wait(2 * time.Minute)
	},
	"paused start": func(w *world) { live(w); w.spec.Paused = true; w.push("1.1.0"); w.wait(4 * time.Minute) },
	"pinned frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
	},
	"pinned new frozen": func(w *world) {
		live(w)
		pins(w, "1.0.0")
		w.push("1.1.0")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
		crashes(w, "1.0.0")
		w.wait(2 * time.Minute)
	},
	"unpin frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
		w.spec.Pins = nil
		w.wait(10 * time.Minute)
	},
	"gate signed": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Name: "tenth", Weight: 10}, {Name: "ask", Weight: 50, Approval: true, Approvers: 2}}
		w.spec.Gates = []release.Point{release.PreRollout, release.ConfirmPromotion}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"gate confirm": func(w *world) {
		live(w)
		w.spec.Gates = []release.Point{release.ConfirmRollout}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"gate confirm frozen": func(w *world) {
		live(w)
		w.spec.Gates = []release.Point{release.ConfirmRollout}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
		freezes(w)
		w.wait(5 * time.Minute)
	},
	"gate first": func(w *world) {
		w.spec.Gates = []release.Point{release.ConfirmRollout}
		w.push("1.0.0")
		w.wait(5 * time.Minute)
	},
	"gate first window": func(w *world) {
		w.spec.Steps = []release.Step{{Weight: 10, Window: &release.Window{Next: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}}, {Weight: 50}}
		w.spec.Gates = []release.Point{release.PreRollout}
		w.push("1.0.0")
		w.wait(5 * time.Minute)
	},
	"gate first frozen": func(w *world) {
		w.spec.Gates = []release.Point{release.ConfirmRollout}
		w.push("1.0.0")
		w.wait(5 * time.Minute)
		freezes(w)
		w.wait(5 * time.Minute)
	},
	"gate pre": func(w *world) {
		live(w)
		w.spec.Gates = []release.Point{release.PreRollout}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"gate pre paused": func(w *world) {
		live(w)
		w.spec.Gates = []release.Point{release.PreRollout}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
		w.spec.Paused = true
		w.wait(5 * time.Minute)
	},
	"exclusive": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"exclusive crash": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"exclusive failed": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(50 * time.Minute)
	},
	"exclusive step crash": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Hour}}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
		crashes(w, "1.1.0")
		w.wait(2 * time.Minute)
	},
	"exclusive approval": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Approval: true}}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"exclusive approval crash": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Approval: true}}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
		crashes(w, "1.1.0")
		w.wait(2 * time.Minute)
	},
	"exclusive paused": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Hour}}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
		w.spec.Paused = true
		w.wait(2 * time.Minute)
	},
	"exclusive paused crash": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Hour}}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
		w.spec.Paused = true
		w.wait(2 * time.Minute)
		crashes(w, "1.1.0")
		w.wait(time.Minute)
	},
	"exclusive frozen crash": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Hour}}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
		freezes(w)
		w.wait(2 * time.Minute)
		crashes(w, "1.1.0")
		w.wait(time.Minute)
	},
	"exclusive no capacity": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.broken["1.1.0"], w.messages["1.1.0"] = "Unschedulable", "0/3 nodes"
		w.push("1.1.0")
		w.wait(30 * time.Minute)
	},
	"exclusive rejected": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.broken["1.1.0"], w.messages["1.1.0"] = "InvalidTemplate", "spec.template: invalid"
		w.push("1.1.0")
		w.wait(3 * time.Minute)
	},
	"exclusive return": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.0.0")
		pins(w, "1.0.0")
		w.wait(3 * time.Minute)
	},
	"exclusive freeze during rollout": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(time.Minute)
		freezes(w)
		w.wait(time.Second)
		delete(w.broken, "1.1.0")
		w.wait(10 * time.Hour)
	},
	"exclusive freeze during rollout with steps": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Minute}}
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(time.Minute)
		freezes(w)
		w.wait(time.Second)
		delete(w.broken, "1.1.0")
		w.wait(10 * time.Hour)
	},
	"exclusive pause during rollout": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Minute}}
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(time.Minute)
		w.spec.Paused = true
		w.wait(time.Second)
		delete(w.broken, "1.1.0")
		w.wait(10 * time.Hour)
	},
	"exclusive freeze pre": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.spec.Gates = []release.Point{release.PreRollout}
		w.push("1.1.0")
		w.wait(3 * time.Minute)
		freezes(w)
		w.wait(10 * time.Hour)
	},
	"exclusive window closes during rollout": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		open := &release.Window{Open: true}
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Minute, Window: open}}
		crashes(w, "1.1.0")
		w.push("1.1.0")
		w.wait(time.Minute)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Pause: time.Minute, Window: &release.Window{Next: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}}}
		w.wait(time.Second)
		delete(w.broken, "1.1.0")
		w.wait(10 * time.Hour)
	},
	"exclusive window before": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = []release.Step{{Name: "all", Weight: 100, Window: &release.Window{Next: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}}}
		w.push("1.1.0")
		w.wait(5 * time.Minute)
	},
	"raised step crash": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Name: "tenth", Weight: 10, Pause: time.Hour}, {Name: "half", Weight: 50}}
		measured(w, "1.1.0", v1alpha1.AnalysisRunning, "0.2", v1alpha1.MeasurementPassed)
		w.push("1.1.0")
		w.wait(25 * time.Minute)
		w.spec.Steps = []release.Step{{Name: "fifth", Weight: 20, Pause: time.Hour, Window: &release.Window{Next: time.Date(2030, 2, 4, 8, 0, 0, 0, time.UTC)}}, {Name: "half", Weight: 50}}
		w.wait(10 * time.Minute)
		crashes(w, "1.1.0")
		w.wait(2 * time.Minute)
	},
	"exclusive older": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.spec.Paused = true
		w.push("1.1.0")
		crashes(w, "1.2.0")
		w.push("1.2.0")
		w.spec.Paused = false
		w.settle()
		w.wait(5 * time.Hour)
	},
	"older group": func(w *world) {
		w.push("2.0.0")
		w.wait(time.Hour)
		w.push("1.5.0")
		w.wait(time.Hour)
	},
	"older": func(w *world) {
		live(w)
		w.spec.Steps = nil
		w.spec.Paused = true
		w.push("1.1.0")
		crashes(w, "1.2.0")
		w.push("1.2.0")
		w.spec.Paused = false
		w.settle()
		w.wait(5 * time.Hour)
	},
	"preview frozen": func(w *world) {
		w.pull(16, "1616161616161616161616161616161616161616", "Old")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
	},
	"preview frozen push": func(w *world) {
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
		freezes(w)
		w.wait(time.Minute)
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
	},
	"preview paused": func(w *world) {
		w.pull(16, "1616161616161616161616161616161616161616", "Old")
		w.wait(time.Hour)
		w.spec.Paused = true
		w.wait(time.Minute)
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
	},
	"preview paused push": func(w *world) {
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
		w.spec.Paused = true
		w.wait(time.Minute)
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
	},
	"group frozen": func(w *world) {
		live(w)
		freezes(w)
		w.wait(time.Minute)
		w.push("2.0.0")
		w.wait(time.Hour)
	},
	"group paused": func(w *world) {
		live(w)
		w.spec.Paused = true
		w.wait(time.Minute)
		w.push("2.0.0")
		w.wait(time.Hour)
	},
	"first frozen": func(w *world) { freezes(w); w.wait(time.Minute); w.push("1.0.0"); w.wait(time.Hour) },
	"first paused": func(w *world) { w.spec.Paused = true; w.wait(time.Minute); w.push("1.0.0"); w.wait(time.Hour) },
	"preview deleted pods": func(w *world) {
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
		w.broken["1717171717171717171717171717171717171717"] = "CrashLoopBackOff"
		w.wait(3 * time.Minute)
	},
	"failed active down": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.2.0")
		w.push("1.2.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		w.wait(3 * time.Minute)
	},
	"end group frozen": func(w *world) {
		live(w)
		w.push("2.0.0")
		w.wait(2 * time.Hour)
		freezes(w)
		w.wait(time.Minute)
		w.spec.Ended = []string{"1.x"}
		w.wait(time.Hour)
	},
	"the only group ended":         func(w *world) { live(w); w.spec.Ended = []string{"1.x"}; w.wait(time.Hour) },
	"the only group ended by slug": func(w *world) { live(w); w.spec.Ended = []string{"1-x"}; w.wait(time.Hour) },
	"exclusive freeze during return": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.push("1.1.0")
		w.wait(time.Hour)
		pins(w, "1.0.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		w.spec.Pins = nil
		w.wait(time.Minute)
		freezes(w)
		w.wait(time.Second)
		delete(w.broken, "1.1.0")
		w.wait(10 * time.Hour)
	},
	"exclusive gate": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.spec.Gates = []release.Point{release.ConfirmRollout}
		w.push("1.1.0")
		w.wait(3 * time.Minute)
	},
	"exclusive pre": func(w *world) {
		w.spec.Exclusive = true
		live(w)
		w.spec.Steps = nil
		w.spec.Gates = []release.Point{release.PreRollout}
		w.push("1.1.0")
		w.wait(3 * time.Minute)
	},
	"rejected Deployment": func(w *world) {
		live(w)
		w.broken["1.1.0"], w.messages["1.1.0"] = "InvalidTemplate", "spec.template: invalid"
		w.push("1.1.0")
		w.wait(3 * time.Minute)
	},
	"rejected Deployment failed": func(w *world) {
		live(w)
		w.broken["1.1.0"], w.messages["1.1.0"] = "InvalidTemplate", "spec.template: invalid"
		w.push("1.1.0")
		w.wait(30 * time.Minute)
	},
	"active down": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		w.wait(2 * time.Minute)
	},
	"active down frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		freezes(w)
		w.wait(2 * time.Minute)
	},
	"active down, fix": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		w.wait(2 * time.Minute)
		w.push("1.2.0")
		w.wait(2 * time.Minute)
	},
	"active down, fix frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Hour)
		crashes(w, "1.1.0")
		w.wait(2 * time.Minute)
		freezes(w)
		w.push("1.2.0")
		w.wait(2 * time.Minute)
	},
	"aborted frozen": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Minute)
		w.decide("1.1.0", release.Deprecate, "", "ana", "sessions lost")
		w.wait(time.Minute)
		freezes(w)
		w.wait(time.Minute)
	},
	"rolled back retry": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(time.Minute)
		crashes(w, "1.1.0")
		w.wait(time.Hour)
	},
	"preview pushed": func(w *world) {
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
		w.now = w.now.Add(time.Minute)
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(10 * time.Second)
	},
	"preview crash": func(w *world) {
		w.pull(17, "1717171717171717171717171717171717171717", "New")
		w.wait(time.Hour)
		w.now = w.now.Add(time.Minute)
		crashes(w, "2717171717171717171717171717171717171717")
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(3 * time.Minute)
	},
	"preview crashed": func(w *world) {
		crashes(w, "2717171717171717171717171717171717171717")
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(30 * time.Minute)
	},
	"preview crashed frozen": func(w *world) {
		crashes(w, "2717171717171717171717171717171717171717")
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(30 * time.Minute)
		freezes(w)
		w.wait(time.Minute)
	},
	"preview gate": func(w *world) {
		w.spec.PreviewGates = []release.Point{release.ConfirmRollout}
		w.pull(17, "2717171717171717171717171717171717171717", "New")
		w.wait(3 * time.Minute)
	},
	"closing": func(w *world) {
		live(w)
		w.push("2.0.0")
		w.wait(2 * time.Hour)
		w.spec.Ended = []string{"1.x"}
		w.wait(5 * time.Second)
	},
	"superseded": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(3 * time.Minute)
		w.push("1.2.0")
		w.wait(time.Minute)
	},
	"superseded without traffic": func(w *world) {
		live(w)
		w.broken["1.1.0"] = "Unschedulable"
		w.push("1.1.0")
		w.wait(time.Minute)
		w.push("1.2.0")
		w.wait(time.Minute)
	},
	"canary with another configuration": func(w *world) {
		live(w)
		w.push("1.1.0")
		w.wait(3 * time.Minute)
		w.configure("changed")
	},
	"step 0 weight": func(w *world) {
		live(w)
		w.spec.Steps = []release.Step{{Name: "dark", Weight: 0, Approval: true}, {Weight: 50}}
		w.push("1.1.0")
		w.wait(3 * time.Minute)
	},
}
