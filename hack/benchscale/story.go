package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// product is a release platform to measure.
type product interface {
	name() string
	// agent is the program's name in the user agent of its requests.
	agent() string
	// definitions are files and folders with CustomResourceDefinitions.
	definitions() []string
	// start installs and starts the product.
	start(ctx context.Context, p *plane) (*process, error)
	// metrics and profiles are the addresses of the product's metrics and of net/http/pprof. They are empty if the product does not serve them.
	metrics() string
	profiles() string
	// list returns an empty list of the kind whose objects show whether a phase has reached its goal.
	// There is one object for each service.
	list() client.ObjectList
	// phases are the phases of the benchmark, in order.
	phases() []phase
}

// phase is a change to all services, and the state that follows.
type phase struct {
	name string
	// hidden reports whether the phase only prepares the following phase, and is not reported.
	hidden bool
	// before is called once, before the first change; it may be nil.
	before func(ctx context.Context) error
	// change changes the service with the given number. If change is nil, nothing changes during the
	// phase, and the phase lasts for options.rest.
	change func(ctx context.Context, service int) error
	// single is the number of services that are changed one after another: each service is changed when the
	// previous service has a new pod. If single is 0, all services are changed.
	single int
	// goal reports whether an object has reached the goal of the phase.
	goal func(client.Object) bool
	// decision is a user's decision that is made during the phase; it may be nil.
	decision *decision
}

// decision is a change to one service while other services are changing, such as a pin.
type decision struct {
	apply, undo func(ctx context.Context, service int) error
	// observed reports whether the product has acted, and goal whether the decision has taken full effect.
	observed, goal func(client.Object) bool
	// status is the resource whose status shows that the product has acted, as in the audit log.
	status string
}

// madeDecision is a decision about one service: when it was made, and when a watch delivered the first status that shows that the product
// has observed it.
type madeDecision struct {
	service      string
	at, observed time.Time
}

// serviceName returns the name of a service, and of all its objects.
func serviceName(service int) string { return fmt.Sprintf("svc-%05d", service) }

// story runs and measures the phases of one product.
type story struct {
	*options
	product product
	plane   *plane
	process *process
	audit   *auditLog
	say     func(string, ...any)

	tracker *tracker
	pods    *podTimes
}

// play runs all phases. If a phase fails, play returns the completed phases and an error.
func (s *story) play(ctx context.Context) (*productResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.tracker = track(ctx, s.plane.client, s.product.list())
	s.pods = followPods(ctx, s.plane.client)
	result := &productResult{Name: s.product.name()}
	if _, err := s.audit.read(); err != nil { // Do not count the requests made during the start.
		return result, err
	}
	phases, err := upTo(s.product.phases(), s.until)
	if err != nil {
		return result, err
	}
	for i, p := range phases {
		s.say("%s", p.name)
		measured, err := s.phase(ctx, fmt.Sprintf("%02d", i+1), p)
		if err != nil {
			return result, fmt.Errorf("%s: %s: %w", s.product.name(), p.name, err)
		}
		if !p.hidden {
			result.Phases = append(result.Phases, *measured)
			s.say("%s: %s", p.name, measured.summary())
		}
	}
	if s.options.profiles != "" && s.product.profiles() != "" {
		err := download(ctx, "http://"+s.product.profiles()+"/debug/pprof/heap?gc=1", filepath.Join(s.options.profiles, "end.heap.pb.gz"))
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

// upTo returns the phases up to and including the phase with the given name, and all later phases without changes. If the name is empty, it
// returns all phases.
func upTo(phases []phase, name string) ([]phase, error) {
	if name == "" {
		return phases, nil
	}
	last := slices.IndexFunc(phases, func(p phase) bool { return !p.hidden && p.name == name })
	if last < 0 {
		return nil, fmt.Errorf("check -until: unknown phase %q", name)
	}
	return slices.Concat(phases[:last+1], slices.DeleteFunc(slices.Clone(phases[last+1:]), func(p phase) bool { return p.change != nil })), nil
}

// phase changes all services, waits until all services have reached the goal, and then until there are no more writes.
func (s *story) phase(ctx context.Context, number string, p phase) (*phaseResult, error) {
	if p.before != nil {
		if err := p.before(ctx); err != nil {
			return nil, err
		}
	}
	queues, err := scrape(ctx, s.product.metrics())
	if err != nil {
		return nil, err
	}
	before, err := s.process.usage()
	if err != nil {
		return nil, err
	}
	s.plane.images.reset()
	stopProfile := func() {}
	if !p.hidden {
		stopProfile = profile(ctx, s.product.profiles(), s.options.profiles, number+"-"+fileName(p.name), s.say)
	}
	defer func() { stopProfile() }()
	result := &phaseResult{Name: p.name, Services: s.services}
	if p.single > 0 {
		result.Services = min(p.single, s.services)
	}
	began := time.Now()
	if p.change == nil {
		err = s.pause(ctx)
	} else {
		err = s.changeAll(ctx, p, result, began)
	}
	if err != nil {
		return nil, err
	}
	result.Seconds = time.Since(began).Seconds()
	atGoal, err := s.process.usage()
	if err != nil {
		return nil, err
	}
	if p.change == nil {
		if result.requests, err = s.audit.read(); err != nil {
			return nil, err
		}
		result.Settled = true
	} else if err := s.untilQuiet(ctx, result); err != nil {
		return nil, err
	}
	stopProfile()
	stopProfile = func() {}
	after, err := s.process.usage()
	if err != nil {
		return nil, err
	}
	ended, err := scrape(ctx, s.product.metrics())
	if err != nil {
		return nil, err
	}
	status := ""
	if p.decision != nil {
		status = p.decision.status
	}
	result.finish(s.product.agent(), status, before, atGoal, after)
	result.Queues = map[string]queue{}
	for name, q := range ended {
		// After an hour, a histogram can be reset, because controller-runtime limits the number of its buckets.
		if d := q.since(queues[name]); d.Passes > 0 && d.Worked >= 0 && d.Waited >= 0 {
			result.Queues[name] = d
		}
	}
	result.Registry = s.plane.images.reset()
	return result, nil
}

// fileName replaces spaces and commas in the name of a phase.
func fileName(name string) string {
	out := []rune(name)
	for i, r := range out {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			out[i] = '-'
		}
	}
	return string(out)
}

// pause waits for the duration of a phase without changes.
func (s *story) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.rest):
		return s.plane.failed()
	}
}

// changeAll changes all services, several at a time, and waits for the goal.
func (s *story) changeAll(ctx context.Context, p phase, result *phaseResult, began time.Time) error {
	change := s.changeTogether
	if p.single > 0 {
		change = s.changeSingly
	}
	if err := change(ctx, p, result); err != nil {
		return fmt.Errorf("change a service: %w", err)
	}
	applied := time.Now()
	reached, err := s.tracker.await(ctx, s.services, s.patience, s.plane.failed, func(format string, arguments ...any) {
		s.say("%s: %s", p.name, fmt.Sprintf(format, arguments...))
	})
	if err != nil && ctx.Err() == nil && s.plane.failed() == nil { // Otherwise the error already contains the last lines of the log.
		return errors.Join(err, s.note())
	}
	if err != nil {
		return err
	}
	result.Reached = reached.Sub(began).Seconds()
	result.AfterLast = max(0, reached.Sub(applied).Seconds())
	return nil
}

// changeTogether changes all services, several at a time. It waits for the services in a batch before it
// changes the next batch.
func (s *story) changeTogether(ctx context.Context, p phase, result *phaseResult) error {
	s.tracker.aim(func(client.Object) bool { return false })
	size := s.services
	if s.batch > 0 {
		size = min(size, s.batch)
	}
	for from := 0; from < s.services; from += size {
		to := min(from+size, s.services)
		group, changing := errgroup.WithContext(ctx)
		group.SetLimit(s.writers)
		for i := from; i < to; i++ {
			group.Go(func() error { return p.change(changing, i) })
		}
		if from == 0 {
			s.tracker.aim(p.goal)
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if from > 0 && p.decision != nil {
			if err := s.decideFor(ctx, p.decision, from-1, result); err != nil {
				return err
			}
		}
		if to == s.services {
			break
		}
		if _, err := s.tracker.await(ctx, to, s.patience, s.plane.failed, func(string, ...any) {}); err != nil {
			return err
		}
		s.say("%s: %d of %d", p.name, to, s.services)
	}
	return nil
}

// decideFor makes a decision about one service, measures how soon the product acts and the decision takes full effect, and then reverses
// the decision.
func (s *story) decideFor(ctx context.Context, d *decision, service int, result *phaseResult) error {
	name := serviceName(service)
	generation := s.tracker.generation(name)
	changed := func(o client.Object) bool { return o.GetGeneration() > generation }
	observed := s.tracker.when(name, func(o client.Object) bool { return changed(o) && d.observed(o) })
	reached := s.tracker.when(name, func(o client.Object) bool { return changed(o) && d.goal(o) })
	began := time.Now()
	if err := d.apply(ctx, service); err != nil {
		return err
	}
	for _, wait := range []struct {
		at      <-chan time.Time
		seconds *[]float64
	}{{observed, &result.ObservedSeconds}, {reached, &result.DecidedSeconds}} {
		select {
		case at := <-wait.at:
			if wait.seconds == &result.ObservedSeconds {
				result.decisions = append(result.decisions, madeDecision{name, began, at})
			}
			*wait.seconds = append(*wait.seconds, at.Sub(began).Seconds())
			slices.Sort(*wait.seconds)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.patience):
			return fmt.Errorf("wait for the decision about %s: no effect after %s", name, s.patience)
		}
	}
	return d.undo(ctx, service)
}

// actedSeconds returns the sorted times from decisions until the API server had stored the status that shows the decision, according to the audit
// log: this is the last write of the status of the service that began before a watch delivered this status.
func actedSeconds(decisions []madeDecision, requests []request, agent, status string) (seconds []float64) {
	for _, d := range decisions {
		var write request
		for _, r := range requests {
			if r.agent == agent && r.resource == status && r.name == d.service && r.writes() && !r.failed && r.at.After(d.at) && r.at.Before(d.observed) && r.at.After(write.at) {
				write = r
			}
		}
		if !write.at.IsZero() {
			seconds = append(seconds, write.ended.Sub(d.at).Seconds())
		}
	}
	slices.Sort(seconds)
	return seconds
}

// changeSingly changes some services one after another, and measures the time until each service has a new pod.
func (s *story) changeSingly(ctx context.Context, p phase, result *phaseResult) error {
	s.tracker.aim(p.goal)
	for i := range min(p.single, s.services) {
		created := s.pods.next(serviceName(i))
		began := time.Now()
		if err := p.change(ctx, i); err != nil {
			return err
		}
		select {
		case at := <-created:
			result.PodSeconds = append(result.PodSeconds, at.Sub(began).Seconds())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.patience):
			return fmt.Errorf("wait for a pod of %s: no pod after %s", serviceName(i), s.patience)
		}
		if err := s.plane.failed(); err != nil {
			return err
		}
	}
	slices.Sort(result.PodSeconds)
	return nil
}

// note prints the end of the product's log after a failure.
func (s *story) note() error {
	_, err := fmt.Fprintf(os.Stderr, "the last lines of %s:\n%s\n", s.process.name, s.process.tail())
	return err
}

// longestSettle limits the wait for a product that does not stop writing.
const longestSettle = 5 * time.Minute

// untilQuiet reads the audit log until neither the product nor kube-controller-manager has written anything
// for some time.
func (s *story) untilQuiet(ctx context.Context, result *phaseResult) error {
	began := time.Now()
	last := began
	for {
		requests, err := s.audit.read()
		if err != nil {
			return err
		}
		for _, r := range requests {
			if r.writes() && !r.lease() && (r.agent == s.product.agent() || r.agent == controllerManager) && r.at.After(last) {
				last = r.at
			}
		}
		result.requests = append(result.requests, requests...)
		if time.Since(last) > s.settle {
			result.Settled = true
			return s.plane.failed()
		}
		if time.Since(began) > longestSettle {
			return s.plane.failed()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
