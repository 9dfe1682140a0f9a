package release

import (
	"fmt"
	"testing"
	"time"
)

func TestPodShare(t *testing.T) {
	for _, c := range []struct{ weight, n, want int }{
		{10, 10, 1}, {50, 10, 5}, {99, 10, 9}, {100, 10, 10}, {0, 10, 1},
		{25, 10, 2}, {26, 10, 3}, {5, 10, 1}, {15, 10, 1}, {16, 10, 2}, // The remainders are equal, so the active release gets the pod.
		{50, 3, 1}, {67, 3, 2}, {99, 3, 2}, {50, 2, 1}, {99, 2, 1},
		{1, 1, 1}, {99, 1, 1}, {100, 1, 1},
	} {
		if got := PodShare(c.weight, c.n); got != c.want {
			t.Errorf("%d%% of %d pods are %d, want %d", c.weight, c.n, got, c.want)
		}
	}
	for n := 1; n <= 50; n++ {
		for weight := 1; weight <= 100; weight++ {
			got := PodShare(weight, n)
			if weight < PodWeight(got, n)-(100+n-1)/n || got < 1 || n > 1 && weight < 100 && got >= n {
				t.Errorf("%d%% of %d pods are %d", weight, n, got)
			}
		}
	}
}

// PodWeight returns a number of pods as a percentage of n pods.
func PodWeight(pods, n int) int { return pods * 100 / n }

// workers contains histories of Microservices whose pods are divided between the releases or have no policy.
var workers = []scene{
	{"the numbers of pods follow the weights once the pods of the canary are available", func(h tale) {
		h.worker(10)
		h.steps(Step{Weight: 10, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute})
		h.startup = 20 * time.Second
		h.push("1.1.0")
		h.run(10 * time.Second)
		h.replicas("starts", 10, 1)
		h.run(30 * time.Second)
		h.want("first step", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.replicas("first step", 9, 1)
		h.run(65 * time.Second)
		h.want("second step", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.replicas("second step", 5, 5)
		h.run(10 * time.Minute)
		h.want("end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.replicas("end", 0, 10)
	}},
	{"a canary that fails loses its pods immediately, and the active release gets all its pods back", func(h tale) {
		h.worker(10)
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.replicas("step", 5, 5)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(5 * time.Second)
		h.replicas("rolled back", 10, 0)
	}},
	{"an autoscaler of the Microservice changes the replicas of both releases", func(h tale) {
		h.worker(10)
		h.steps(Step{Weight: 50, Approval: true}, Step{Weight: 60, Approval: true})
		h.push("1.1.0")
		h.run(time.Hour) // longer than the progress deadline
		h.decideOn("1.1.0", Continue, "1")
		h.events("the approved size is not missing", Blocked, "")
		h.run(time.Minute)
		h.replicas("ten", 4, 6)
		h.edit("size", func(s *Spec) { s.Replicas = 20 })
		h.run(time.Minute)
		h.replicas("twenty", 8, 12)
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.run(time.Minute)
		h.replicas("four", 2, 2)
		h.want("four", map[string]string{"1.0.0": "active 40", "1.1.0": "canary 60"})
	}},
	{"the active release keeps its pods while the pods of the canary are not available", func(h tale) {
		h.worker(4)
		h.steps(Step{Weight: 25, Pause: time.Minute}, Step{Weight: 75, Pause: time.Hour})
		h.push("1.1.0")
		h.run(30 * time.Second)
		h.startup = 48 * time.Hour
		h.run(3 * time.Minute)
		h.want("first step", map[string]string{"1.0.0": "active 75", "1.1.0": "canary 25"})
		h.replicas("first step", 3, 3)
	}},
	{"two versions of a worker with one pod both run during a step", func(h tale) {
		h.worker(1)
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.replicas("step", 1, 1)
	}},
	{"without steps, the next release gets all its pods first", func(h tale) {
		h.worker(4)
		h.startup = 20 * time.Second
		h.push("1.1.0")
		h.run(10 * time.Second)
		h.replicas("starts", 4, 4)
		h.run(time.Minute)
		h.replicas("end", 0, 4)
	}},
	{"a policy that is deleted does not change how a group splits traffic", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 10 })
		h.live()
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("step", map[string]string{"1.1.0": "canary 50"})
		h.removePolicy("web")
		h.run(time.Minute)
		h.replicas("without the policy", 10, 10)
	}},
	{"a worker whose policy is deleted right after the promotion keeps pods that routes may refer to", func(h tale) {
		h.edit("split", func(s *Spec) { s.Replicas, s.SplitBy, s.Drain = 4, SplitByPods, 10*time.Minute })
		h.live()
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("promoted", map[string]string{"1.1.0": "active 100"})
		h.removePolicy("web")
		h.run(5 * time.Second)
		h.replicas("while its routes may still exist", 4, 4)
		h.run(time.Hour)
		h.replicas("drained", 0, 4)
	}},
	{"an exclusive release starts when the pods of the active release have terminated", func(h tale) {
		h.exclusive(2)
		h.startup, h.grace = 20*time.Second, time.Minute
		h.push("1.1.0")
		h.run(30 * time.Second)
		h.want("during the replacement", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.replicas("replacement", 0, 2)
		h.runs("replacement", 0, 0)
		h.run(2 * time.Minute)
		h.want("end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.runs("end", 0, 2)
	}},
	{"the time in which the pods of the active release terminate does not count against the deadline", func(h tale) {
		h.exclusive(1)
		h.startup, h.grace = 9*time.Minute, time.Hour
		h.push("1.1.0")
		h.run(50 * time.Minute)
		h.want("terminating", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.run(25 * time.Minute)
		h.want("end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	}},
	{"the active release replaces a failed exclusive release after the pods of that release have terminated", func(h tale) {
		h.exclusive(1)
		h.steps(Step{Weight: 100, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("step", map[string]string{"1.0.0": "active 0", "1.1.0": "canary 100"})
		h.runs("step", 0, 1)
		h.grace = 30 * time.Second
		h.decideOn("1.1.0", Deprecate, "")
		h.run(10 * time.Second)
		h.want("aborted", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.runs("aborted", 0, 0)
		h.run(time.Minute)
		h.runs("back", 1, 0)
	}},
	{"at the deadline, the active release replaces an exclusive release that never starts, whatever the cause", func(all tale) {
		for _, cause := range []string{"CrashLoopBackOff", "ImagePullBackOff", "Unschedulable", "QuotaExceeded", "AdmissionUnavailable"} {
			h := tale{newWorld()}
			h.exclusive(1)
			h.broken["1.1.0"] = cause
			h.push("1.1.0")
			h.run(9 * time.Minute)
			h.want(cause, map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
			h.run(5 * time.Minute)
			h.want(cause, map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
			h.runs(cause, 1, 0)
			if h.err != nil {
				all.fail("%s: %v", cause, h.err)
			}
		}
	}},
	{"a freeze or a pause prevents a replacement from beginning while the API server rejects an exclusive release", func(all tale) {
		for what, set := range map[string]func(*Spec){"freeze": func(s *Spec) { s.Freeze = &Freeze{Name: "f", Reason: "r"} }, "pause": func(s *Spec) { s.Paused = true }} {
			h := tale{newWorld()}
			h.exclusive(1)
			h.broken["1.1.0"] = "InvalidTemplate"
			h.push("1.1.0")
			h.run(2 * time.Minute)
			h.edit(what, set)
			h.run(time.Minute)
			h.object("1.1.0").why = ""
			h.run(20 * time.Minute)
			h.runs(what, 1, 0)
			h.edit("end", func(s *Spec) { s.Freeze, s.Paused = nil, false })
			h.run(time.Minute)
			h.runs("end of the "+what, 0, 1)
			if h.err != nil {
				all.fail("%s: %v", what, h.err)
			}
		}
	}},
	{"an older version does not start after an exclusive release fails", func(h tale) {
		h.exclusive(1)
		h.broken["1.1.0"], h.broken["1.2.0"] = "CrashLoopBackOff", "CrashLoopBackOff"
		h.push("1.1.0", "1.2.0")
		down := time.Duration(0)
		for range 60 {
			h.run(time.Minute)
			if h.object("1.0.0").ready == 0 {
				down += time.Minute
			}
		}
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.1.0": "", "1.2.0": "error 0"})
		if down > 11*time.Minute {
			h.fail("no pod ran for %s", down)
		}
	}},
	{"the active release gets its pods back if the object of an exclusive release cannot be created again", func(h tale) {
		h.exclusive(1)
		h.startup = 5 * time.Minute
		h.push("1.1.0")
		h.run(30 * time.Second)
		h.runs("replacement", 0, 0)
		h.refuse = true
		h.remove(h.object("1.1.0"))
		h.run(7 * time.Minute)
		if n := h.object("1.0.0").ready; n != 1 {
			h.fail("no release has pods: 1.0.0 has %d replicas", h.object("1.0.0").Replicas)
		}
	}},
	{"an exclusive release has as many replicas as the release that it replaces", func(h tale) {
		h.exclusive(2)
		h.autoscale(h.object("1.0.0"), 10)
		h.run(time.Minute)
		h.startup = time.Minute
		h.push("1.1.0")
		h.run(30 * time.Second)
		if n := h.object("1.1.0").Replicas; n < 10 {
			h.fail("1.0.0 had 10 replicas, and 1.1.0 starts with %d", n)
		}
	}},
	{"the active release keeps its pods while the objects of an exclusive release are rejected", func(h tale) {
		h.exclusive(1)
		h.broken["1.1.0"] = "InvalidTemplate"
		h.push("1.1.0")
		h.run(5 * time.Minute)
		h.want("rejected", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.runs("rejected", 1, 0)
		h.run(10 * time.Minute)
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.runs("failed", 1, 0)
	}},
	{"the active release of an exclusive group gets its pods back when a rejected release supersedes its successor", func(all tale) {
		for cause := range rejected {
			h := tale{newWorld()}
			h.exclusive(1)
			h.steps(Step{Weight: 100, Pause: time.Hour}, Step{Weight: 100, Pause: time.Hour})
			h.push("1.1.0")
			h.run(time.Minute)
			h.runs("step", 0, 1)
			h.broken["1.2.0"] = string(cause)
			h.push("1.2.0")
			h.run(2 * time.Minute)
			h.want("rejected", map[string]string{"1.0.0": "active 100", "1.2.0": "pending 0"})
			if n := h.object("1.0.0").ready; n != 1 {
				h.fail("rejected: 1.0.0 has %d ready pods, want 1", n)
			}
			h.object("1.2.0").why = ""
			h.run(2 * time.Minute)
			h.want("accepted", map[string]string{"1.0.0": "active 0", "1.2.0": "canary 100"})
			if n := h.object("1.0.0").ready; n != 0 {
				h.fail("accepted: 1.0.0 has %d ready pods, want 0", n)
			}
			if h.err != nil {
				all.fail("%s: %v", cause, h.err)
			}
		}
	}},
	{"the active release keeps its pods while an exclusive release waits for its window or for the end of a pause", func(h tale) {
		h.exclusive(1)
		h.steps(Step{Weight: 100, Window: &Window{}}) // open for the first twenty minutes of each hour
		h.run(29 * time.Minute)
		h.push("1.1.0")
		h.run(20 * time.Minute)
		h.want("closed", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.runs("closed", 1, 0)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.run(15 * time.Minute)
		h.runs("open and paused", 1, 0)
		h.edit("continue", func(s *Spec) { s.Paused = false })
		h.run(time.Minute)
		h.want("end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.runs("end", 0, 1)
	}},
	{"a rollback of an exclusive group also replaces the pods", func(h tale) {
		h.exclusive(1)
		h.push("1.1.0")
		h.run(time.Minute)
		h.runs("1.1.0", 0, 1)
		h.grace = 20 * time.Second
		h.edit("pin", func(s *Spec) { s.Pins = []Pin{{Version: "1.0.0"}} })
		h.run(5 * time.Second)
		h.runs("replacement", 0, 0)
		h.run(time.Minute)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.runs("back", 1, 0)
	}},
	{"with SplitByRoutes, a group without a policy keeps all pods of both releases", func(h tale) {
		h.worker(4)
		h.edit("split", func(s *Spec) { s.SplitBy = SplitByRoutes })
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.replicas("step", 4, 4)
	}},
}

func TestWorkers(t *testing.T) {
	for _, sc := range workers {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			h := tale{newWorld()}
			sc.play(h)
			if h.err != nil {
				t.Error(h.err)
			}
		})
	}
}

// worker makes 1.0.0 active without a policy.
func (h tale) worker(replicas int) {
	h.edit("size", func(s *Spec) { s.Replicas = replicas })
	h.push("1.0.0")
	h.run(time.Minute)
	h.want("worker", map[string]string{"1.0.0": "active 100"})
}

// exclusive makes 1.0.0 active in an exclusive group without a policy.
func (h tale) exclusive(replicas int) {
	h.edit("exclusive", func(s *Spec) { s.Exclusive = true })
	h.worker(replicas)
}

// runs checks how many ready pods 1.0.0 and 1.1.0 have.
func (h tale) runs(when string, active, canary int) {
	got := func(version string) int {
		if o := h.object(version); o != nil {
			return o.ready
		}
		return 0
	}
	if have, want := fmt.Sprint(got("1.0.0"), got("1.1.0")), fmt.Sprint(active, canary); have != want {
		h.fail("%s: 1.0.0 and 1.1.0 have %s ready pods, want %s", when, have, want)
	}
}

// replicas checks how many replicas 1.0.0 and 1.1.0 have.
func (h tale) replicas(when string, active, canary int) {
	got := func(version string) int {
		if o := h.object(version); o != nil {
			return o.Replicas
		}
		return 0
	}
	if have, want := fmt.Sprint(got("1.0.0"), got("1.1.0")), fmt.Sprint(active, canary); have != want {
		h.fail("%s: 1.0.0 and 1.1.0 have %s replicas, want %s", when, have, want)
	}
}
