package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// controllerManager is the name of kube-controller-manager in user agents.
const controllerManager = "kube-controller-manager"

// report is the JSON output.
type report struct {
	Services   int             `json:"services"`
	Namespaces int             `json:"namespaces"`
	Source     string          `json:"source"`
	Comment    string          `json:"comment,omitempty"`
	Began      time.Time       `json:"began"`
	Products   []productResult `json:"products"`
}

type productResult struct {
	Name   string        `json:"name"`
	Phases []phaseResult `json:"phases"`
}

// phaseResult is the cost of a phase. Counts and times are totals over all services.
type phaseResult struct {
	Name string `json:"name"`
	// Services is the number of services that were changed, or that existed in a phase without changes.
	Services int `json:"services"`
	// Reached is the time from the first change until the last service reached the goal. AfterLast is the time from the last change until the goal was reached.
	Reached   float64 `json:"reachedSeconds"`
	AfterLast float64 `json:"afterLastSeconds"`
	// Seconds is the time until the goal was reached, or the duration of a phase without changes.
	Seconds float64 `json:"seconds"`
	// Settled is false if there were still writes five minutes after the goal was reached.
	Settled bool `json:"settled"`
	// Writes and Reads are the numbers of requests that the product sent until there were no more writes, excluding requests for
	// Leases. Refused is the number of writes with an error response. Follow is the number of writes by kube-controller-manager.
	// FollowBudgeted is the number of these writes to Deployments, ReplicaSets, EndpointSlices and PodDisruptionBudgets. FollowRefused is the number of
	// writes in FollowBudgeted with an error response: kube-controller-manager repeats them after a conflict.
	Writes         int `json:"writes"`
	Refused        int `json:"refused"`
	Reads          int `json:"reads"`
	Follow         int `json:"follow"`
	FollowBudgeted int `json:"followBudgeted"`
	FollowRefused  int `json:"followRefused"`
	Leases         int `json:"leases"`
	// Kinds are the numbers of requests, by program and kind.
	Kinds map[string]map[string]int `json:"kinds"`
	// CPUToGoal and CPU are the processor time of the product in seconds: until the goal, and until there were no more writes.
	CPUToGoal float64 `json:"cpuToGoalSeconds"`
	CPU       float64 `json:"cpuSeconds"`
	// Resident and Peak are the memory of the product in bytes: at the end of the phase, and the maximum since the
	// product was started.
	Resident int64 `json:"residentBytes"`
	Peak     int64 `json:"peakBytes"`
	// PodSeconds are the sorted times from a change to the first pod, for services that were changed one after another.
	PodSeconds []float64 `json:"podSeconds,omitempty"`
	// ActedSeconds are the sorted times from a user's decision during the phase until the product had written the status of the service, according to
	// the audit log. ObservedSeconds and DecidedSeconds are the times until a watch delivered this status to the benchmark, and until the watch reported
	// that the decision had taken full effect.
	ActedSeconds    []float64 `json:"actedSeconds,omitempty"`
	ObservedSeconds []float64 `json:"observedSeconds,omitempty"`
	DecidedSeconds  []float64 `json:"decidedSeconds,omitempty"`
	// Queues are the work queues by name.
	Queues map[string]queue `json:"queues"`
	// Registry is the number of requests to the registry by kind.
	Registry map[string]int `json:"registry"`

	requests  []request
	decisions []madeDecision
}

// finish computes the counts of requests and, from the writes to the status resource, the times until the product acted on decisions.
func (r *phaseResult) finish(agent, status string, before, atGoal, after usage) {
	r.ActedSeconds = actedSeconds(r.decisions, r.requests, agent, status)
	r.Kinds = map[string]map[string]int{}
	for _, q := range r.requests {
		if !q.writes() && !q.reads() {
			continue
		}
		if r.Kinds[q.agent] == nil {
			r.Kinds[q.agent] = map[string]int{}
		}
		r.Kinds[q.agent][q.kind()]++
		switch {
		case q.lease():
			if q.agent == agent {
				r.Leases++
			}
		case q.agent == controllerManager && q.writes():
			r.Follow++
			if q.budgeted() {
				r.FollowBudgeted++
				if q.failed {
					r.FollowRefused++
				}
			}
		case q.agent != agent:
		case q.reads():
			r.Reads++
		default:
			r.Writes++
			if q.failed {
				r.Refused++
			}
		}
	}
	r.requests = nil
	r.CPUToGoal, r.CPU = (atGoal.CPU - before.CPU).Seconds(), (after.CPU - before.CPU).Seconds()
	r.Resident, r.Peak = after.Resident, after.Peak
}

// percentile returns a percentile of sorted numbers. It is 0 if there are no numbers.
func percentile(sorted []float64, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// summary returns one line about a phase.
func (r *phaseResult) summary() string {
	return fmt.Sprintf("%.1f s, %.1f s after the last change; per service %s writes, %s writes that follow, %s reads, %.0f ms of CPU time; %d MiB of memory",
		r.Seconds, r.AfterLast, r.per(r.Writes), r.per(r.Follow), r.per(r.Reads), r.each(1000*r.CPU), r.Resident>>20)
}

// write prints tables, and writes the results to a file if its name is not empty.
func (r *report) write(out io.Writer, file string) error {
	if len(r.Products) == 0 {
		return nil
	}
	var b strings.Builder
	for i := range r.Products {
		r.table(&b, &r.Products[i])
	}
	if len(r.Products) > 1 {
		r.comparison(&b)
	}
	r.podTimes(&b)
	r.decisions(&b)
	for i := range r.Products {
		r.kinds(&b, &r.Products[i])
		r.queues(&b, &r.Products[i])
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	if file == "" {
		return nil
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode results: %w", err)
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// per formats a number per service.
func (r *phaseResult) per(n int) string { return fmt.Sprintf("%.1f", r.each(float64(n))) }

// each returns a number per service.
func (r *phaseResult) each(n float64) float64 { return n / float64(r.Services) }

func (r *report) table(b *strings.Builder, p *productResult) {
	fmt.Fprintf(b, "\n%s, services: %d, namespaces: %d. Writes, reads and CPU are per service, until there were no more writes.\n\n", p.Name, r.Services, r.Namespaces)
	fmt.Fprintln(b, "| phase | seconds | after the last change | writes | refused | writes that follow | writes that follow, to workloads and EndpointSlices | of these, refused | reads | CPU ms | CPU ms until reached | memory MiB | registry |")
	fmt.Fprintln(b, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, x := range p.Phases {
		registry := 0
		for _, n := range x.Registry {
			registry += n
		}
		name := x.Name
		if !x.Settled {
			name += " (still writing)"
		}
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %s | %s | %s | %s | %s | %s | %.1f | %.1f | %d | %s |\n", name, x.Seconds, x.AfterLast,
			x.per(x.Writes), x.per(x.Refused), x.per(x.Follow), x.per(x.FollowBudgeted), x.per(x.FollowRefused), x.per(x.Reads), x.each(1000*x.CPU), x.each(1000*x.CPUToGoal), x.Resident>>20, x.per(registry))
	}
}

// podTimes prints the times from a change to the first pod.
func (r *report) podTimes(b *strings.Builder) {
	for _, p := range r.Products {
		for _, x := range p.Phases {
			if n := len(x.PodSeconds); n > 0 {
				fmt.Fprintf(b, "\n%s, %s: from the change to the first pod, %d services one after another: median %.0f ms, 99th percentile %.0f ms, longest %.0f ms.\n",
					p.Name, x.Name, n, 1000*percentile(x.PodSeconds, 50), 1000*percentile(x.PodSeconds, 99), 1000*x.PodSeconds[n-1])
			}
		}
	}
}

// decisions prints how soon decisions took effect.
func (r *report) decisions(b *strings.Builder) {
	for _, p := range r.Products {
		for _, x := range p.Phases {
			n := len(x.ObservedSeconds)
			if n == 0 {
				continue
			}
			fmt.Fprintf(b, "\n%s, %s: %d decisions about services of the previous batch. ", p.Name, x.Name, n)
			if acted := len(x.ActedSeconds); acted > 0 {
				fmt.Fprintf(b, "From a decision until the status is stored, according to the audit log (%d decisions): median %.0f ms, longest %.0f ms. ",
					acted, 1000*percentile(x.ActedSeconds, 50), 1000*x.ActedSeconds[acted-1])
			}
			fmt.Fprintf(b, "Until a watch delivers the status: median %.0f ms, longest %.0f ms; until the full effect: median %.1f s, longest %.1f s.\n",
				1000*percentile(x.ObservedSeconds, 50), 1000*x.ObservedSeconds[n-1], percentile(x.DecidedSeconds, 50), x.DecidedSeconds[n-1])
		}
	}
}

// comparison prints the phases that all products have, side by side.
func (r *report) comparison(b *strings.Builder) {
	fmt.Fprintf(b, "\nSide by side, per service\n\n| phase |")
	for _, p := range r.Products {
		fmt.Fprintf(b, " %s: seconds | writes | with writes that follow | writes that follow, to workloads and EndpointSlices | of these, refused | reads | CPU ms | MiB |", p.Name)
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", 8*len(r.Products)))
	for _, x := range r.Products[0].Phases {
		row := "| " + x.Name + " |"
		complete := true
		for _, p := range r.Products {
			i := slices.IndexFunc(p.Phases, func(y phaseResult) bool { return y.Name == x.Name })
			if i < 0 {
				complete = false
				break
			}
			y := p.Phases[i]
			row += fmt.Sprintf(" %.1f | %s | %s | %s | %s | %s | %.1f | %d |", y.Seconds, y.per(y.Writes), y.per(y.Writes+y.Follow), y.per(y.FollowBudgeted), y.per(y.FollowRefused), y.per(y.Reads), y.each(1000*y.CPU), y.Resident>>20)
		}
		if complete {
			fmt.Fprintln(b, row)
		}
	}
}

// kinds prints the writes of each program by kind, the most frequent first, and all reads of the product.
func (r *report) kinds(b *strings.Builder, p *productResult) {
	totals := map[[2]string]int{}
	for _, x := range p.Phases {
		for agent, kinds := range x.Kinds {
			for kind, n := range kinds {
				totals[[2]string{agent, kind}] += n
			}
		}
	}
	rows := slices.SortedFunc(maps.Keys(totals), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), -cmp.Compare(totals[a], totals[b]), cmp.Compare(a[1], b[1]))
	})
	fmt.Fprintf(b, "\n%s: requests per service by program and kind\n\n| program | request |", p.Name)
	for _, x := range p.Phases {
		fmt.Fprintf(b, " %s |", x.Name)
	}
	fmt.Fprintf(b, "\n|---|---|%s\n", strings.Repeat("---|", len(p.Phases)))
	for _, row := range rows {
		if row[0] == "benchscale" || float64(totals[row]) < 0.02*float64(r.Services) { // Requests of benchscale itself, and rare requests, are omitted.
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", row[0], row[1])
		for _, x := range p.Phases {
			fmt.Fprintf(b, " %.2f |", x.each(float64(x.Kinds[row[0]][row[1]])))
		}
		fmt.Fprintln(b)
	}
}

// queues prints the work queues.
func (r *report) queues(b *strings.Builder, p *productResult) {
	fmt.Fprintf(b, "\n%s: work queues\n\n| phase | queue | reconciles per service | wait, mean ms | wait, 99th percentile below s | reconcile, mean ms |\n|---|---|---|---|---|---|\n", p.Name)
	for _, x := range p.Phases {
		for _, name := range slices.Sorted(maps.Keys(x.Queues)) {
			q := x.Queues[name]
			fmt.Fprintf(b, "| %s | %s | %.1f | %.1f | %g | %.2f |\n", x.Name, name, x.each(q.Passes), 1000*q.Waited/q.Passes, q.WaitedP99, 1000*q.Worked/q.Passes)
		}
	}
}
