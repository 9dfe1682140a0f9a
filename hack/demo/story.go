package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// These are the names in config/samples.
const (
	namespace  = "shop"
	service    = "shop"
	repository = "shop"
	domainV1   = "1-x.shop.localhost"
	domainV2   = "2-x.shop.localhost"
)

type options struct {
	samples, app, kubectl, hlnr string
	rate                        float64
	patience                    time.Duration
}

// script defines a demo.
type script struct {
	// samples is the default folder to apply.
	samples string
	// chapters are the parts of the demo, in order.
	chapters []chapter
	// judge checks all requests.
	judge func(*story, []harness.Report) check
	// domains are the domains that users can open at the end.
	domains []string
}

type chapter struct {
	title string
	play  func(*story, context.Context) error
}

var scripts = map[string]script{
	"main": {
		samples: "config/samples",
		chapters: []chapter{
			{"Clean up after an earlier demo", (*story).cleanUp},
			{"Apply the samples, and push 1.0.0", (*story).first},
			{"Push 1.1.0: a canary with 10%, then 50%, then all", (*story).canary},
			{"Push 1.2.0, which never becomes ready", (*story).broken},
			{"Push 1.1.1: lower than the failed version, higher than the active version", (*story).below},
			{"Push 2.0.0: a second group with its own domain", (*story).second},
			{"Pin group 1.x to 1.0.0 manually: a rollback to a retained release", (*story).pin},
			{"Remove the pin", (*story).unpin},
			{"Keep two releases instead of three", (*story).retention},
		},
		judge:   (*story).noneFailed,
		domains: []string{domainV1, domainV2},
	},
	"analysis": {
		samples: "hack/demo/analysis",
		chapters: []chapter{
			{"Clean up after an earlier demo", (*story).cleanUp},
			{"Apply the samples with an analysis, and push 1.0.0", (*story).first},
			{"Push 1.1.0, a good version: 30%, then 60%, then all", (*story).good},
			{"Push 1.2.0, which responds to 5% of its requests with errors", (*story).failing},
			{"Push 1.3.0, which takes 400 ms for each response", (*story).slow},
			{"Push 1.4.0, which gets no requests: it waits, and a user continues it", (*story).silentContinued},
			{"Push 1.5.0, which gets no requests: it waits, and a user aborts it", (*story).silentAborted},
			{"Push 1.6.0, which gets no requests, with an analysis that treats missing traffic as a failure", (*story).silentFailed},
		},
		judge:   (*story).onlyCanariesFailed,
		domains: []string{domainV1},
	},
	"traffic": {
		samples: "hack/demo/traffic",
		chapters: []chapter{
			{"Clean up after an earlier demo", (*story).cleanUp},
			{"Apply the samples with three domains and a TCP port, and push 1.0.0", (*story).everywhere},
			{"Push 1.1.0: 10%, then 50%, then all, on two domains and the TCP port", (*story).everywhereByWeight},
			{"Pin group 1.x to 1.0.0 manually", (*story).everywhereBack},
		},
		judge:   (*story).noneFailed,
		domains: []string{domainV1, domainWWW, domainCanary},
	},
	"jobs": {
		samples: "hack/demo/jobs",
		chapters: []chapter{
			{"Clean up after an earlier demo", (*story).cleanUp},
			{"Apply the samples with three Jobs, and push 1.0.0", (*story).firstWithJobs},
			{"Push 1.1.0: a migration before its first pod, a smoke test before its first request, and a cleanup at the end of its rollout", (*story).migrated},
			{"Push 1.2.0, whose migration fails", (*story).locked},
			{"Push 1.3.0, and kill the manager while its migration is running", (*story).killed},
		},
		judge:   (*story).noneFailed,
		domains: []string{domainV1},
	},
	"workers": {
		samples: "hack/demo/workers",
		chapters: []chapter{
			{"Clean up after an earlier demo", (*story).cleanUp},
			{"Start a queue, apply the samples of a worker that gets no requests, and push 1.0.0", (*story).work},
			{"Push 1.1.0, which fails its jobs", (*story).badWorker},
			{"Push 1.2.0: one pod of ten, then five, then all", (*story).goodWorker},
			{"Wait until the queue is empty", (*story).emptyQueue},
		},
		judge: (*story).noJobLost,
	},
	"previews": {
		samples: "hack/demo/previews",
		chapters: []chapter{
			{"Clean up after an earlier demo", (*story).cleanUp},
			{"Start a server that stands in for GitHub", (*story).gitHub},
			{"Open a pull request, before its image exists", (*story).opened},
			{"Push its image", (*story).built},
			{"Push three more commits, whose images come later", (*story).pushes},
			{"A pull request from a fork: denied until a maintainer approves its commit", (*story).fork},
			{"Close both pull requests", (*story).closed},
		},
		judge: (*story).reported,
	},
}

// story is the demo in progress, with its checks so far.
type story struct {
	options
	script   script
	cluster  *harness.Cluster
	out      *harness.Picture
	began    time.Time
	loads    []*harness.Load
	checks   []check
	ends     []end
	hub      *standIn
	jobs     *jobReports
	queue    *harness.Queue
	recorder recorder
}

// check is a line of the result.
type check struct {
	what string
	ok   bool
	note string
}

// play runs the chapters of the demo. It stops at the first chapter that fails.
func (s *story) play(ctx context.Context) error {
	for _, chapter := range s.script.chapters {
		s.say("\n== %s", chapter.title)
		step, cancel := context.WithTimeout(ctx, s.patience)
		err := chapter.play(s, step)
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

// run runs kubectl, as a user would.
func (s *story) run(ctx context.Context, args ...string) error {
	_, err := s.command(ctx, "kubectl", s.kubectl, args)
	return err
}

// act runs hlnr on the sample, as a user would.
func (s *story) act(ctx context.Context, args ...string) error {
	_, err := s.command(ctx, "hlnr", s.hlnr, append(args, "-n", namespace))
	return err
}

// ask runs hlnr, and returns its output and its exit code, because some exit codes other than 0 are
// not failures.
func (s *story) ask(ctx context.Context, args ...string) (answer string, code int, err error) {
	answer, err = s.command(ctx, "hlnr", s.hlnr, append(args, "-n", namespace))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 1 {
		return answer, exit.ExitCode(), nil
	}
	return answer, 0, err
}

// command runs a program as a user would, and shows the command with its output.
func (s *story) command(ctx context.Context, name, program string, args []string) (string, error) {
	shown := make([]string, len(args))
	for i, a := range args {
		if shown[i] = a; strings.Contains(a, " ") {
			shown[i] = strconv.Quote(a)
		}
	}
	s.say("   $ %s %s", name, strings.Join(shown, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig, "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		s.say("     %s", strings.TrimRight(line, "\n"))
	}
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
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

// load starts sending requests to a domain as soon as the domain responds.
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
	s.recorder.start(ctx, s.cluster.Client, domain, load)
	s.say("   %g requests per second to %s", s.rate, s.cluster.URL(domain))
	return nil
}

func (s *story) mark(phase string) {
	s.recorder.mark(phase)
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

// conclude prints the table and the result.
func (s *story) conclude(reports []harness.Report, failed error) error {
	fmt.Println()
	if len(reports) > 0 {
		if err := harness.WriteTable(os.Stdout, reports...); err != nil {
			return err
		}
	}
	if err := writeEnds(os.Stdout, s.ends); err != nil {
		return err
	}
	s.checks = append(s.checks, s.script.judge(s, reports))
	fmt.Println()
	good := failed == nil
	for _, c := range s.checks {
		mark := "ok  "
		if !c.ok {
			mark, good = "FAIL", false
		}
		fmt.Printf("%s %s%s\n", mark, c.what, parenthesis(c.note))
	}
	fmt.Printf("\nThe demo took %s. The cluster stays up", time.Since(s.began).Round(time.Second))
	if len(s.script.domains) > 0 {
		fmt.Print("; open")
	}
	fmt.Println()
	for _, domain := range s.script.domains {
		fmt.Printf("  %s\n", s.cluster.URL(domain))
	}
	fmt.Printf("Open the board: KUBECONFIG=%s %s web -A\n", os.Getenv("KUBECONFIG"), s.hlnr)
	fmt.Println("Stop the cluster with: make cluster-down")
	if !good {
		fmt.Println("\nResult: FAILED")
		return errFailed
	}
	fmt.Println("\nResult: PASSED")
	return nil
}

// noneFailed checks that all requests succeeded.
func (s *story) noneFailed(reports []harness.Report) check {
	requests, lost := 0, 0
	for _, r := range reports {
		requests += r.Total.Sent
		lost += r.Total.Failed
	}
	return check{"no request failed", lost == 0 && requests > 0, fmt.Sprintf("%d of %d", lost, requests)}
}

// group returns a release group from the status, or nil.
func group(ms *v1alpha1.Microservice, slug string) *v1alpha1.ReleaseGroup {
	for i := range ms.Status.ReleaseGroups {
		if ms.Status.ReleaseGroups[i].Slug == slug {
			return &ms.Status.ReleaseGroups[i]
		}
	}
	return nil
}

// release returns a version's release, or nil.
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
