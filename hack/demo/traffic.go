package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/heighliner/heighliner/test/harness"
)

// These are the names in hack/demo/traffic.
const (
	domainWWW    = "www.shop.localhost"
	domainCanary = "canary.shop.localhost"
	lines        = "TCP" // Name of the load on the listener.
)

// everywhere starts sending requests to each domain and to the listener.
func (s *story) everywhere(ctx context.Context) error {
	if err := s.first(ctx); err != nil {
		return err
	}
	for _, domain := range []string{domainWWW, domainCanary} {
		if err := s.load(ctx, domain, "1.0.0 alone"); err != nil {
			return err
		}
	}
	if err := s.loadLines(ctx); err != nil {
		return err
	}
	s.out.Show(s.loads[0].Frame)
	for _, l := range s.loads {
		if err := sees(ctx, l, "1.0.0"); err != nil {
			return err
		}
	}
	s.note("two domains and the TCP port route to the active release, and so does the canary's domain while there is no canary", true, "")
	return nil
}

// loadLines starts opening connections to the TCP listener as soon as the listener responds.
func (s *story) loadLines(ctx context.Context) error {
	config := harness.LoadConfig{
		Protocol: harness.TCP, Gateway: s.cluster.GatewayTCP, Host: lines, Rate: 20, Count: 1, Phase: "1.0.0 alone", Timeout: 2 * time.Second,
	}
	err := harness.WaitFor(ctx, "the TCP port to respond", func(ctx context.Context) (bool, string, error) {
		once, err := harness.StartLoad(ctx, config)
		if err != nil {
			return false, "", harness.Permanent(err)
		}
		report := once.Wait()
		return report.Total.Answered == 1, fmt.Sprint(report.Failures), nil
	})
	if err != nil {
		return err
	}
	config.Count, config.Duration, config.Timeout = 0, time.Hour, 10*time.Second
	load, err := harness.StartLoad(context.WithoutCancel(ctx), config)
	if err != nil {
		return err
	}
	s.loads = append(s.loads, load)
	s.say("   %g connections per second to %s: each sends one line and reads one line", config.Rate, s.cluster.GatewayTCP)
	return nil
}

// everywhereByWeight follows a canary on both domains, on the canary's domain, and over TCP.
func (s *story) everywhereByWeight(ctx context.Context) error {
	if err := s.push(ctx, "1.1.0", nil); err != nil {
		return err
	}
	seen, err := s.follow(ctx, "1-x", "1.1.0")
	if err != nil {
		return err
	}
	s.note("1.1.0 went through 10% and 50% and is active", slices.Equal(seen, []int32{10, 50, 100}), fmt.Sprintf("weights %v", seen))
	for _, weight := range []int32{10, 50} {
		for _, l := range s.loads {
			host, got := l.Report().Host, l.Split(phase("1.1.0", weight)).Fraction("1.1.0")*100
			if host == domainCanary {
				s.note(fmt.Sprintf("at %d%%, %s routed to 1.1.0 only", weight, host), got == 100, fmt.Sprintf("%.1f%%", got))
				continue
			}
			s.note(fmt.Sprintf("at %d%%, clients of %s saw 1.1.0 for about this share of the requests", weight, host), got > float64(weight)-6 && got < float64(weight)+6, fmt.Sprintf("%.1f%%", got))
		}
	}
	return s.show(ctx)
}

// everywhereBack rolls back with a command, and checks that every domain and the TCP port then
// route to the previous version.
func (s *story) everywhereBack(ctx context.Context) error {
	s.mark("pinned to 1.0.0")
	if err := s.act(ctx, "rollback", service, "--reason", "demo"); err != nil {
		return err
	}
	began := time.Now()
	if err := s.active(ctx, "1-x", "1.0.0"); err != nil {
		return err
	}
	for _, l := range s.loads {
		if err := sees(ctx, l, "1.0.0"); err != nil {
			return err
		}
	}
	s.note("every domain and the TCP port route to 1.0.0 again", true, "after "+since(began))
	return s.pause(ctx, 8*time.Second) // Wait until the drain of 1.1.0 has ended.
}
