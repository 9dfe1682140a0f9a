package release

import (
	"fmt"
	"strings"
)

// render formats a plan as text, for users and golden files.
func render(p Result) string {
	var b strings.Builder
	for _, e := range p.Ensure {
		verb := "raise"
		switch {
		case e.Create:
			verb = "create"
		case e.Stamp > 0:
			verb = "revive"
		}
		fmt.Fprintf(&b, "  %s %s to %d", verb, e.Release, e.Replicas)
		if e.Stamp > 0 {
			fmt.Fprintf(&b, " stamp %d", e.Stamp)
		}
		b.WriteByte('\n')
	}
	if p.Changed {
		fmt.Fprintf(&b, "  rollout state %d\n", p.State.Sequence)
		for i := range p.State.Groups {
			b.WriteString(renderGroup(&p.State.Groups[i]))
		}
	}
	for _, r := range p.Retire {
		if r.Delete {
			fmt.Fprintf(&b, "  delete %s\n", r.Release)
		} else {
			fmt.Fprintf(&b, "  shrink %s to %d\n", r.Release, r.Replicas)
		}
	}
	for _, n := range p.Notes {
		kind := "state"
		if n.Event {
			kind = "event"
		}
		if n.Warning {
			kind = "warning " + kind
		}
		fmt.Fprintf(&b, "  %s %s %s: %s\n", kind, n.Slug, n.Reason, n.Message)
	}
	if !p.RequeueTime.IsZero() {
		fmt.Fprintf(&b, "  requeue at %s\n", p.RequeueTime.Sub(t0))
	}
	return b.String()
}

func renderGroup(g *Group) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    %s %s revision %d", g.Name, g.Phase, g.TrafficRevision)
	if g.Target.Release != "" {
		fmt.Fprintf(&b, " target %s (%s)", g.Target.Release, g.Target.Reason)
	}
	if g.Superseded > 0 {
		fmt.Fprintf(&b, " superseded %d", g.Superseded)
	}
	if g.Rollout != nil {
		fmt.Fprintf(&b, " run %s step %d", g.Rollout.Release, g.Rollout.Step)
	}
	b.WriteByte('\n')
	for _, r := range g.Releases {
		fmt.Fprintf(&b, "      %s %s %d%%", r.Release, r.Status, r.Weight)
		if r.Promoted > 0 {
			fmt.Fprintf(&b, " promoted %d", r.Promoted)
		}
		if r.Zero != nil {
			fmt.Fprintf(&b, " out since revision %d", r.Zero.Revision)
		}
		fmt.Fprintf(&b, " %s\n", r.Reason)
	}
	return b.String()
}

// record writes a plan to the golden log if the plan changes something.
func (w *world) record(p Result) {
	if w.log == nil || !p.Changed && len(p.Ensure) == 0 && len(p.Retire) == 0 {
		return
	}
	for ; len(w.trace) > 0; w.trace = w.trace[1:] {
		fmt.Fprintf(w.log, "# %s\n", w.trace[0])
	}
	fmt.Fprintf(w.log, "%s\n%s", w.clock(), render(p))
}
