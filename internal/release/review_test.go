package release

import (
	"time"
)

// causes are histories that a review of the planner found.
var causes = []scene{
	{"a policy that never confirmed does not make the active release dead", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.blind("odd")
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.startup = time.Minute
		h.run(30 * time.Second)
		h.want("not all pods are up", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		h.run(time.Minute)
		h.want("all pods are up", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"a policy that never confirmed does not take the active release's pods", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.blind("odd")
		h.broken["1.1.0"] = "QuotaExceeded"
		h.push("1.1.0")
		h.run(time.Hour)
		h.ready("it has all the traffic", "1.0.0", 4)
	}},
	{"a policy that never confirmed does not keep a bad canary", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.steps(Step{Weight: 50, Pause: 24 * time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("half", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.blind("odd")
		o := h.object("1.1.0")
		o.ready, o.why = 1, "CrashLoopBackOff"
		h.run(time.Hour)
		h.want("given up", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.state("given up", "OnlyServing", false)
	}},
}

func init() { histories = append(histories, causes...) }

// blind adds a policy whose gateway accepts nothing, and that saw no endpoint of any
// release in its first pass.
func (h tale) blind(name string) {
	n := h.policy(name)
	n.stuck = true
	for _, o := range h.objects {
		r := n.reports[o.Slug]
		r.Slug, r.Reason = o.Slug, "NotAccepted"
		r.Masked = union(r.Masked, []string{o.Release})
		n.reports[o.Slug] = r
	}
}

// once lets the manager make one plan, before any neighbour works.
func (h tale) once() {
	h.plan(h.leaders[0], lags{})
	for h.perform(h.leaders[0]) {
	}
}

// failedPeer is another Microservice at which a version failed.
func failedPeer(version string) *world {
	w := newWorld()
	w.ledger.Groups = []Group{{Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, Releases: []Row{{Release: version, Version: version, Status: Error, Reason: "CrashLoopBackOff"}}}}
	return w
}
