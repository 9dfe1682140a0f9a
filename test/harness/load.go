package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// These are the limits of a load. Loads are intended for measurements on one machine, not for stress tests.
const (
	maxRate     = 2000.0
	maxDuration = 2 * time.Hour
	maxCount    = 1_000_000
	maxInFlight = 512
	maxTimeout  = 30 * time.Second
	// maxAnswer is the maximum number of bytes that are read from a response.
	maxAnswer = 1 << 20
)

// LoadConfig configures a load. Zero values select the defaults.
type LoadConfig struct {
	// Protocol is the protocol of the requests. Defaults to HTTP1.
	Protocol Protocol
	// Gateway is the address to connect to. It is a loopback address with a port, such as 127.0.0.1:8000, or an address in
	// Network. Required.
	Gateway string
	// Network is the path of an isolated network namespace, such as Addresses.Network, in which to connect to Gateway. This
	// requires root. Defaults to the network namespace of this process, in which only loopback addresses are allowed.
	Network string
	// Host is the value of the Host header, with or without a port: the domain of the Microservice. It identifies the load
	// in reports, even for TCP and UDP, which do not send it. Required.
	Host string
	// Path is the path and the query of requests. Defaults to "/".
	Path string
	// Header is sent with every request, for routes that match headers.
	Header http.Header
	// Rate is the number of requests per second. It must be above 0 and at most 2000. Required.
	Rate float64
	// Count is the number of requests, at most 1,000,000; 0 means that only Duration ends the load.
	Count int
	// Duration is the duration of the load, at most 2h; 0 means that only Count ends the load. Duration or
	// Count is required.
	Duration time.Duration
	// Timeout is the timeout of a request, at most 30s. Defaults to 10s.
	Timeout time.Duration
	// NoKeepAlive opens a connection for every request. Otherwise, connections are reused. If the server closes a
	// reused connection in an orderly way, the request is sent again over a new connection, as HTTP clients do.
	NoKeepAlive bool
	// Phase is the name of the first phase. Defaults to "start".
	Phase string
	// KeepFailures is the number of failures whose details are kept. Defaults to 20.
	KeepFailures int
}

func (c LoadConfig) withDefaults() LoadConfig {
	if c.Protocol == "" {
		c.Protocol = HTTP1
	}
	if c.Path == "" {
		c.Path = "/"
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Phase == "" {
		c.Phase = "start"
	}
	if c.KeepFailures == 0 {
		c.KeepFailures = 20
	}
	return c
}

func (c LoadConfig) validate() error {
	if c.Network == "" {
		if err := CheckLoopback(c.Gateway); err != nil {
			return fmt.Errorf("check gateway: %w", err)
		}
	} else if _, err := netip.ParseAddrPort(c.Gateway); err != nil {
		return fmt.Errorf("check gateway: parse address %q: must be an IP and a port such as 10.250.0.1:8000", c.Gateway)
	}
	switch {
	case c.Host == "":
		return errors.New("check host: it is required: set it to the domain of the Microservice")
	case !(c.Rate > 0 && c.Rate <= maxRate): // This form of the condition rejects NaN.
		return fmt.Errorf("check rate: must be above 0 and at most %g per second, not %g", maxRate, c.Rate)
	case c.Count < 0 || c.Count > maxCount:
		return fmt.Errorf("check count: must be 0 to %d, not %d", maxCount, c.Count)
	case c.Duration < 0 || c.Duration > maxDuration:
		return fmt.Errorf("check duration: must be 0s to %s, not %s", maxDuration, c.Duration)
	case c.Count == 0 && c.Duration == 0:
		return errors.New("check end: set count or duration, because a load must end")
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return fmt.Errorf("check timeout: must be above 0s and at most %s, not %s", maxTimeout, c.Timeout)
	case c.Path[0] != '/':
		return fmt.Errorf("check path: must begin with /, not %q", c.Path)
	case c.KeepFailures < 0:
		return fmt.Errorf("check keepFailures: must be at least 0, not %d", c.KeepFailures)
	}
	return nil
}

// CheckLoopback rejects every address except a literal loopback IP with a port, so that no test traffic leaves the machine.
func CheckLoopback(address string) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse address %q: must be an IP and a port such as 127.0.0.1:8000", address)
	}
	if !parsed.Addr().IsLoopback() {
		return fmt.Errorf("refuse address %q: only loopback addresses are allowed", address)
	}
	return nil
}

// Load sends requests at a constant rate, regardless of whether earlier requests were answered, and counts their outcomes.
type Load struct {
	config   LoadConfig
	exchange exchange
	tally    *Tally
	slots    chan struct{} // slots limits the number of requests in progress.
	flights  sync.WaitGroup
	stop     context.CancelFunc
	ended    chan struct{}
}

// StartLoad starts sending requests. The load ends after its count or its duration, when ctx ends, or when Stop
// is called, whichever comes first. Requests in progress still get their responses. If config is invalid, the
// error contains the name of the invalid field.
func StartLoad(ctx context.Context, config LoadConfig) (*Load, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	exchange, err := newExchange(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	l := &Load{
		config:   config,
		exchange: exchange,
		tally:    NewTally(config.Phase, time.Now(), config.KeepFailures),
		slots:    make(chan struct{}, maxInFlight),
		stop:     stop,
		ended:    make(chan struct{}),
	}
	go l.run(ctx)
	return l, nil
}

// Mark begins a phase. All requests that are sent from now on belong to it. If the name was used before, Mark continues that
// phase.
func (l *Load) Mark(phase string) { l.tally.Mark(phase, time.Now()) }

// Split returns the shares of versions in the successful responses of a phase, or nil for an unknown phase.
func (l *Load) Split(phase string) Split { return l.tally.Split(phase) }

// Recent returns the counts for the complete seconds that ended in the given period before now. A period below 1 s counts
// as 1 s, and a period above 59 s counts as 59 s.
func (l *Load) Recent(within time.Duration) Counts { return l.tally.Recent(time.Now(), within) }

// Report returns all counts so far.
func (l *Load) Report() Report {
	report := l.tally.Report()
	report.Host = l.config.Host
	return report
}

// Stop stops sending, waits for the requests in progress, and returns the final report. It can be called
// repeatedly.
func (l *Load) Stop() Report {
	l.stop()
	return l.Wait()
}

// Wait waits for the end of the load and then for the requests in progress, and returns the final report.
func (l *Load) Wait() Report {
	<-l.ended
	return l.Report()
}

// run sends each request at its scheduled time. After a delay on this machine, it immediately sends all
// requests that are due. Latencies are measured from the scheduled time, so they include such a delay.
func (l *Load) run(ctx context.Context) {
	defer close(l.ended)
	defer l.exchange.close()
	defer l.flights.Wait()
	defer l.stop()

	schedule := schedule{start: time.Now(), config: l.config}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		due, ok := schedule.due(n)
		if !ok {
			return
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		l.launch(ctx, due)
	}
}

// schedule defines the time at which each request is due.
type schedule struct {
	start  time.Time
	config LoadConfig
}

// due returns the time of request n, counted from 0, and false if the load ends before this time.
func (s schedule) due(n int) (time.Time, bool) {
	offset := time.Duration(float64(n) / s.config.Rate * float64(time.Second))
	if s.config.Count > 0 && n >= s.config.Count || s.config.Duration > 0 && offset >= s.config.Duration {
		return time.Time{}, false
	}
	return s.start.Add(offset), true
}

func (l *Load) launch(ctx context.Context, due time.Time) {
	ticket := l.tally.Send(due)
	select {
	case l.slots <- struct{}{}:
	default:
		l.tally.Done(ticket, time.Now(), Outcome{Failure: fmt.Sprintf("not sent: %d requests are in progress", maxInFlight)})
		return
	}
	l.flights.Go(func() {
		defer func() { <-l.slots }()
		outcome := l.exchange.ask(context.WithoutCancel(ctx)) // The end of the load must not cancel requests in progress.
		l.tally.Done(ticket, time.Now(), outcome)
	})
}
