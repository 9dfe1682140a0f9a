package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// Names in config/samples.
const (
	namespace  = "shop"
	service    = "shop"
	repository = "shop"
	domainV1   = "1-x.shop.localhost"
	domainV2   = "2-x.shop.localhost"
)

type options struct {
	samples, app, kubectl string
	rate                  float64
	patience              time.Duration
}

// story is the demo under way: what it has seen, and what it found wanting.
type story struct {
	options
	cluster *harness.Cluster
	out     *harness.Picture
	began   time.Time
	loads   []*harness.Load
	checks  []check
}

// check is one line of the verdict.
type check struct {
	what string
	ok   bool
	note string
}

// play tells the story from the first tag to the last; it stops at the first step
// that does not come about.
func (s *story) play(ctx context.Context) error {
	for _, chapter := range []struct {
		title string
		tell  func(context.Context) error
	}{
		{"Clean up what an earlier demo left", s.cleanUp},
		{"Apply the samples, and push 1.0.0", s.first},
		{"Push 1.1.0: a canary with 10 %, then 50 %, then all", s.canary},
		{"Push 1.2.0, which never becomes ready", s.broken},
		{"Push 1.1.1: below the one that failed, above the active one", s.below},
		{"Push 2.0.0: a second group with a domain of its own", s.second},
		{"Pin group 1.x to 1.0.0 by hand: a rollback to a release that is kept", s.pin},
		{"Take the pin away", s.unpin},
		{"Keep two releases instead of three", s.retention},
	} {
		s.say("\n== %s", chapter.title)
		step, cancel := context.WithTimeout(ctx, s.patience)
		err := chapter.tell(step)
		cancel()
		if err != nil {
			s.note(chapter.title, false, err.Error())
			return fmt.Errorf("%s: %w", chapter.title, err)
		}
	}
	return nil
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

func (s *story) note(what string, ok bool, note string) {
	s.checks = append(s.checks, check{what, ok, note})
	mark := "ok  "
	if !ok {
		mark = "FAIL"
	}
	s.say("   %s %s%s", mark, what, parenthesis(note))
}

func parenthesis(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}

// run runs kubectl, as the reader would.
func (s *story) run(ctx context.Context, args ...string) error {
	s.say("   $ kubectl %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, s.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		s.say("     %s", strings.TrimRight(line, "\n"))
	}
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// push builds and pushes an image of the sample application.
func (s *story) push(ctx context.Context, version string, env map[string]string) error {
	all := map[string]string{"VERSION": version}
	for k, v := range env {
		all[k] = v
	}
	digest, err := harness.Image{Registry: s.cluster.Registry, Repository: repository, Tag: version, Binary: s.app, Env: all}.Push(ctx)
	if err != nil {
		return err
	}
	s.say("   pushed %s:%s@%.19s…", repository, version, digest)
	return nil
}

// load begins to send requests to a domain, once it answers.
func (s *story) load(ctx context.Context, domain, phase string) error {
	if err := s.answers(ctx, domain); err != nil {
		return err
	}
	load, err := harness.StartLoad(context.WithoutCancel(ctx), harness.LoadConfig{
		Gateway: s.cluster.Gateway, Host: domain, Rate: s.rate, Duration: time.Hour, Phase: phase,
	})
	if err != nil {
		return err
	}
	s.loads = append(s.loads, load)
	s.out.Show(load.Frame)
	s.say("   %g requests per second to %s", s.rate, s.cluster.URL(domain))
	return nil
}

func (s *story) mark(phase string) {
	for _, l := range s.loads {
		l.Mark(phase)
	}
}

func (s *story) stopLoads() []harness.Report {
	var reports []harness.Report
	for _, l := range s.loads {
		reports = append(reports, l.Stop())
	}
	return reports
}

// conclude prints the table and the verdict.
func (s *story) conclude(reports []harness.Report, failed error) error {
	fmt.Println()
	if len(reports) > 0 {
		if err := harness.WriteTable(os.Stdout, reports...); err != nil {
			return err
		}
	}
	requests, lost := 0, 0
	for _, r := range reports {
		requests += r.Total.Sent
		lost += r.Total.Failed
	}
	s.checks = append(s.checks, check{"no request failed", lost == 0 && requests > 0, fmt.Sprintf("%d of %d", lost, requests)})
	fmt.Println()
	good := failed == nil
	for _, c := range s.checks {
		mark := "ok  "
		if !c.ok {
			mark, good = "FAIL", false
		}
		fmt.Printf("%s %s%s\n", mark, c.what, parenthesis(c.note))
	}
	fmt.Printf("\nThe demo took %s. The cluster stays up; open\n  %s\n  %s\nand end it with: make cluster-down\n",
		time.Since(s.began).Round(time.Second), s.cluster.URL(domainV1), s.cluster.URL(domainV2))
	if !good {
		fmt.Println("\nVerdict: FAILED")
		return errVerdict
	}
	fmt.Println("\nVerdict: PASSED")
	return nil
}

// group gives a release group of the ledger.
func group(ms *v1alpha1.Microservice, slug string) *v1alpha1.ReleaseGroup {
	for i := range ms.Status.ReleaseGroups {
		if ms.Status.ReleaseGroups[i].Slug == slug {
			return &ms.Status.ReleaseGroups[i]
		}
	}
	return nil
}

// release gives the row of a version.
func release(ms *v1alpha1.Microservice, slug, version string) *v1alpha1.Release {
	g := group(ms, slug)
	if g == nil {
		return nil
	}
	for i := range g.Releases {
		if g.Releases[i].SemVer.Version == version {
			return &g.Releases[i]
		}
	}
	return nil
}
