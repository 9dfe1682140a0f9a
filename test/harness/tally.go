package harness

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// recentSeconds is the number of seconds for which the tally stores counts for Recent.
	recentSeconds = 60
	// histogramMax is the maximum latency of the histogram. The timeout of requests is lower.
	histogramMax = time.Minute
)

// Tally counts requests by phase and version. A request belongs to the phase in which it was sent, regardless of when its response
// arrives. The tally does not read a clock: the caller passes the time of each event. It is safe for concurrent use.
type Tally struct {
	mu       sync.Mutex
	phases   []*phase // The phases, in the order of their first mark.
	current  *phase
	recent   [recentSeconds]second
	keep     int
	failures []Failure
	failed   int
}

// Ticket identifies a request in progress. Send returns the ticket; the caller passes it to Done exactly once.
type Ticket struct {
	phase *phase
	sent  time.Time
}

// Outcome is the result of a request.
type Outcome struct {
	// Version is the value of the X-Version header. It is empty if there is no response, or if the response
	// does not have the header.
	Version string
	// Status is the HTTP status. It is 0 if there is no response.
	Status int
	// Failure is the reason why the request counts as failed. It is empty if the request succeeded.
	Failure string
}

type phase struct {
	name     string
	started  time.Time
	counts   Counts
	latency  *hdrhistogram.Histogram // Latencies of successful responses, in microseconds.
	versions map[string]*hdrhistogram.Histogram
}

// second contains the counts for one second of wall clock time. Its index is the number of the second, which
// distinguishes it from a second in an earlier round of the ring buffer.
type second struct {
	index  int64
	counts Counts
}

// NewTally begins the first phase at now. It keeps the details of at most as many failures as keep
// specifies, but counts all failures.
func NewTally(firstPhase string, now time.Time, keep int) *Tally {
	l := &Tally{keep: keep}
	l.Mark(firstPhase, now)
	return l
}

// Mark begins a phase. If the name was used before, Mark continues that phase.
func (l *Tally) Mark(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.phases {
		if known.name == name {
			l.current = known
			return
		}
	}
	l.current = &phase{name: name, started: now, latency: newHistogram(), versions: map[string]*hdrhistogram.Histogram{}}
	l.phases = append(l.phases, l.current)
}

// Send counts a request as sent in the current phase.
func (l *Tally) Send(now time.Time) Ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.counts.Sent++
	l.secondOf(now).Sent++
	return Ticket{phase: l.current, sent: now}
}

// Done counts the outcome of a ticket's request.
func (l *Tally) Done(ticket Ticket, now time.Time, outcome Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ticket.phase.counts.add(outcome)
	l.secondOf(now).add(outcome)
	took := now.Sub(ticket.sent)
	if outcome.Failure == "" {
		ticket.phase.record(outcome.Version, took)
		return
	}
	l.failed++
	if len(l.failures) < l.keep {
		l.failures = append(l.failures, Failure{At: ticket.sent, Took: took, Phase: ticket.phase.name, Outcome: outcome})
	}
}

// Split returns the shares of versions in the successful responses of a phase, or nil for an unknown phase.
func (l *Tally) Split(phaseName string) Split {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.phases {
		if known.name == phaseName {
			return known.counts.Split()
		}
	}
	return nil
}

// Recent returns the counts for the complete seconds that ended in the given period before now. A period below 1 s counts as 1 s,
// and a period above 59 s counts as 59 s. Sent counts requests by the time at which they were sent; Answered and Failed
// count them by the time at which they ended.
func (l *Tally) Recent(now time.Time, within time.Duration) Counts {
	seconds := min(max(int64(within/time.Second), 1), recentSeconds-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	var total Counts
	for index := now.Unix() - seconds; index < now.Unix(); index++ {
		if slot := &l.recent[index%recentSeconds]; slot.index == index {
			total.merge(slot.counts)
		}
	}
	return total
}

// Failed returns the number of failed requests in all phases.
func (l *Tally) Failed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Report returns all counts so far.
func (l *Tally) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := phase{name: "total", started: l.phases[0].started, latency: newHistogram(), versions: map[string]*hdrhistogram.Histogram{}}
	report := Report{Failures: slices.Clone(l.failures), FailuresOmitted: l.failed - len(l.failures)}
	for _, each := range l.phases {
		report.Phases = append(report.Phases, each.report())
		total.merge(each)
	}
	report.Total = total.report()
	return report
}

func (l *Tally) secondOf(now time.Time) *Counts {
	index := now.Unix()
	slot := &l.recent[index%recentSeconds]
	if slot.index != index {
		*slot = second{index: index}
	}
	return &slot.counts
}

func (p *phase) record(version string, took time.Duration) {
	if p.versions[version] == nil {
		p.versions[version] = newHistogram()
	}
	micros := min(max(took, time.Microsecond), histogramMax).Microseconds()
	_ = p.latency.RecordValue(micros) // The value is within the bounds of the histogram, so this cannot fail.
	_ = p.versions[version].RecordValue(micros)
}

func (p *phase) merge(other *phase) {
	p.counts.merge(other.counts)
	p.latency.Merge(other.latency)
	for version, histogram := range other.versions {
		if p.versions[version] == nil {
			p.versions[version] = newHistogram()
		}
		p.versions[version].Merge(histogram)
	}
}

func (p *phase) report() Phase {
	versions := map[string]Latency{}
	for version, histogram := range p.versions {
		versions[version] = latencyOf(histogram)
	}
	return Phase{Name: p.name, Started: p.started, Counts: p.counts.clone(), Latency: latencyOf(p.latency), VersionLatency: versions}
}

// newHistogram returns a histogram from 1 microsecond to histogramMax with an error below one percent.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, histogramMax.Microseconds(), 2)
}

func latencyOf(histogram *hdrhistogram.Histogram) Latency {
	at := func(percentile float64) time.Duration {
		return time.Duration(histogram.ValueAtPercentile(percentile)) * time.Microsecond
	}
	return Latency{P50: at(50), P90: at(90), P99: at(99), Max: time.Duration(histogram.Max()) * time.Microsecond}
}

// Counts are the outcomes of the requests in a phase or a period. Requests in progress are in Sent, but
// neither in Answered nor in Failed.
type Counts struct {
	// Sent is the number of sent requests. The version is known only for answered requests.
	Sent int
	// Answered is the number of successful responses.
	Answered int
	// Failed is the number of failed requests: no response in time, a broken connection, a bad status, or a response without a version.
	Failed int
	// Versions contains Answered and Failed by X-Version. The key is empty for failures without a version.
	Versions map[string]VersionCounts
}

// VersionCounts are the counts of a version.
type VersionCounts struct {
	Answered int
	Failed   int
}

// Split returns the shares of versions in the successful responses.
func (c Counts) Split() Split {
	answered := map[string]int{}
	for version, counts := range c.Versions {
		if counts.Answered > 0 {
			answered[version] = counts.Answered
		}
	}
	return SplitOf(answered)
}

func (c *Counts) add(outcome Outcome) {
	if outcome.Failure == "" {
		c.merge(Counts{Answered: 1, Versions: map[string]VersionCounts{outcome.Version: {Answered: 1}}})
		return
	}
	c.merge(Counts{Failed: 1, Versions: map[string]VersionCounts{outcome.Version: {Failed: 1}}})
}

func (c *Counts) merge(other Counts) {
	c.Sent += other.Sent
	c.Answered += other.Answered
	c.Failed += other.Failed
	if c.Versions == nil && len(other.Versions) > 0 {
		c.Versions = map[string]VersionCounts{}
	}
	for version, counts := range other.Versions {
		sum := c.Versions[version]
		sum.Answered += counts.Answered
		sum.Failed += counts.Failed
		c.Versions[version] = sum
	}
}

func (c Counts) clone() Counts {
	c.Versions = maps.Clone(c.Versions)
	return c
}

// Latency contains percentiles of the latencies of successful responses, accurate to within one percent. Latencies are measured
// from the time at which the request was due.
type Latency struct {
	P50, P90, P99, Max time.Duration
}

// Phase contains the counts of a phase.
type Phase struct {
	// Name is the name of the phase.
	Name string
	// Started is the time of the first mark with this name.
	Started time.Time
	Counts
	// Latency is the latency of all versions.
	Latency Latency
	// VersionLatency is the latency of each version with at least one successful response.
	VersionLatency map[string]Latency
}

// Failure is a failed request.
type Failure struct {
	// At is the time at which the request was due. Took is the time from then until the request ended.
	At   time.Time
	Took time.Duration
	// Phase is the phase in which the request was sent.
	Phase string
	Outcome
}

// Report is the content of a tally at a point in time.
type Report struct {
	// Host is the host of the requests.
	Host string
	// Phases are the phases, in the order of their first mark.
	Phases []Phase
	// Total contains the counts of all phases.
	Total Phase
	// Failures are the first failures, in the order in which the requests ended. Their number is limited.
	Failures []Failure
	// FailuresOmitted is the number of failures without details.
	FailuresOmitted int
}
