package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/test/await"
)

// Play runs the whole scenario. It ends with 2.0.0 active, and 2.1.0 in error.
func (s *Stage) Play() {
	for _, act := range []struct {
		name string
		play func()
	}{
		{"without a cluster", s.offline}, {"first version", s.first}, {"canary", s.canary}, {"pins", s.pins},
		{"abort and retry", s.abort}, {"live", s.live}, {"end of a group", s.endGroup}, {"broken version", s.broken},
	} {
		whole := s.T
		if !whole.Run(act.name, func(t *testing.T) {
			s.T = t
			defer func() {
				if t.Failed() {
					s.dump()
				}
				s.T = whole
			}()
			act.play()
		}) {
			return
		}
	}
}

// dump prints the state after a part of the scenario has failed.
func (s *Stage) dump() {
	for _, args := range [][]string{{"tree", s.Name, "--pods", "--all"}, {"why", s.Name}, {"doctor"}} {
		r := s.call("", args...)
		s.Logf("hlnr %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
}

// publish pushes a version, and makes the manager scan for it.
func (s *Stage) publish(version string, broken bool) {
	s.Helper()
	s.Push(version, broken)
	s.eventually(cli.ExitYes, []string{"latest " + version}, "scan", s.Name, "--timeout", s.Limit.String())
}

// wait runs hlnr wait for a version, and checks the result.
func (s *Stage) wait(code cli.Code, version string, parts []string, args ...string) {
	s.Helper()
	s.want(code, parts, append([]string{"wait", s.Name, version, "--timeout", s.Limit.String()}, args...)...)
}

// decide records a decision, and checks that it is applied.
func (s *Stage) decide(action v1alpha1.DecisionAction, args ...string) {
	s.Helper()
	r := s.want(cli.ExitYes, []string{"applied"}, append(args, "--timeout", s.Limit.String())...)
	if !strings.Contains(r.Stdout, string(action)) {
		s.Errorf("the output of hlnr %s does not contain the action %s: %s", strings.Join(args, " "), action, r.Stdout)
	}
}

// first starts the service.
func (s *Stage) first() {
	s.want(cli.ExitUsage, []string{"there is no Microservice"}, "wait", s.Name, "1.0.0", "--timeout", "1s")
	s.want(cli.ExitYes, []string{"no services"}, "status")
	s.Push("1.0.0", false)
	for _, o := range s.Objects {
		if err := s.Client.Create(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
	s.wait(cli.ExitYes, "1.0.0", []string{"found", "started", "active"})
	s.wait(cli.ExitNo, "1.0.0", []string{"1.0.0 is active, and does not wait for approval"}, "--for", "approval")
	s.wait(cli.ExitUsage, "1.0.0", []string{`"none"`, "tenth"}, "--for", "step=none")
	s.want(cli.ExitTimeout, []string{"9.9.9 is not active after 1s"}, "wait", s.Name, "9.9.9", "--timeout", "1s")
	s.want(cli.ExitNo, []string{"no release to continue"}, "continue", s.Name)
	s.want(cli.ExitUsage, []string{"has no spec.updateStrategy.canary.analysis"}, "analysis", "test", s.Name)
	s.want(cli.ExitYes, []string{s.Name}, "__complete", "continue", "")
	s.status()
	s.tree()
}

// canary runs the steps of 1.1.0, with all read-only commands.
func (s *Stage) canary() {
	followed := s.follow()
	s.publish("1.1.0", false)
	s.wait(cli.ExitYes, "1.1.0", nil, "--for", "canary")
	s.wait(cli.ExitYes, "1.1.0", nil, "--for", "step=tenth")
	s.wait(cli.ExitYes, "1.1.0", nil, "--for", "approval")
	s.wait(cli.ExitWaits, "1.1.0", []string{"1.1.0 waits for approval: hlnr continue -n " + s.Namespace + " " + s.Name + " 1.1.0"})
	s.readAll("1.0.0", "1.1.0")
	s.plan()
	s.doctor()

	dry := s.want(cli.ExitYes, []string{"Continue of step tenth", "Nothing was written: dry run."}, "continue", s.Name, "--dry-run")
	if _, r := row(s.microservice(), "1.1.0"); r == nil || r.Decision != nil {
		s.Fatalf("a dry run made a decision: %+v\n%s", r, dry.Stdout)
	}
	s.decide(v1alpha1.DecisionContinue, "continue", s.Name, "--reason", "looked at the logs")
	s.wait(cli.ExitYes, "1.1.0", nil, "--for", "step=half")
	s.want(cli.ExitTimeout, []string{"its status is canary, step half, 50% (2 of 2)"}, "wait", s.Name, "1.1.0", "--timeout", "1s")

	s.want(cli.ExitYes, []string{"paused"}, "pause", s.Name)
	s.wait(cli.ExitWaits, "1.1.0", []string{s.Name + " is paused: hlnr resume -n " + s.Namespace + " " + s.Name})
	s.want(cli.ExitNo, []string{"is already paused"}, "pause", s.Name)
	s.status()
	s.want(cli.ExitYes, []string{"resumed"}, "resume", s.Name)
	s.status()
	s.tree()

	s.decide(v1alpha1.DecisionAdopt, "adopt", s.Name, "1.1.0", "--reason", "urgent fix")
	s.wait(cli.ExitYes, "1.1.0", []string{"active"})
	s.history("1.0.0", "1.1.0")
	s.want(cli.ExitYes, []string{"adopt"}, "history", s.Name)
	lines := followed("1.1.0  active 100%")
	for _, want := range []string{"1.0.0  active", "1.1.0  canary 10%", "1.1.0  canary 50%", "1.1.0  active 100%"} {
		if !strings.Contains(lines, want) {
			s.Errorf("the output of tree --watch does not contain %q:\n%s", want, lines)
		}
	}
}

// follow runs tree --watch without a terminal. The returned function waits until tree --watch has printed the text
// in last, stops tree --watch, and returns its output.
func (s *Stage) follow() (stop func(last string) string) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	cmd := exec.CommandContext(ctx, s.Hlnr, "tree", s.Name, "--watch", "-n", s.Namespace)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "KUBECONFIG="+s.Kubeconfig)
	var out, errOut await.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // The exit code is checked below.
	}()
	s.Cleanup(func() { cancel(); <-ended })
	return func(last string) string {
		s.Helper()
		await.Until(s.T, "tree --watch to print "+last+" or to exit", func() bool {
			select {
			case <-ended:
				return true
			default:
				return strings.Contains(out.String(), last)
			}
		})
		cancel()
		<-ended
		if code := cli.Code(cmd.ProcessState.ExitCode()); code != cli.ExitInterrupted {
			s.Errorf("tree --watch exited with code %d: %s", code, errOut.String())
		}
		return out.String()
	}
}

// pins rolls back to 1.0.0, and returns to 1.1.0.
func (s *Stage) pins() {
	s.want(cli.ExitYes, []string{"kind: Microservice"}, "rollback", s.Name, "--print-patch")
	s.want(cli.ExitYes, []string{"Nothing was written: dry run."}, "rollback", s.Name, "--dry-run")
	if m := s.microservice().Spec.UpdateStrategy.Manual; m != nil {
		s.Fatalf("--print-patch or --dry-run wrote a pin: %+v", m)
	}
	r := s.want(cli.ExitYes, nil, "rollback", s.Name, "--until", "4h", "--reason", "sessions lost", "-o", "json")
	var done struct{ Action, Version, Reason, Until string }
	if err := json.Unmarshal([]byte(r.Stdout), &done); err != nil || done.Action != "Pin" || done.Version != "1.0.0" || done.Reason != "sessions lost" || done.Until == "" {
		s.Errorf("rollback: %v: %s", err, r.Stdout)
	}
	if m := s.microservice().Spec.UpdateStrategy.Manual; m == nil || len(m.Groups) != 1 || m.Groups[0].Reason != "sessions lost" || m.Groups[0].ExpireTime == nil {
		s.Errorf("the pin is %+v", m)
	}
	s.wait(cli.ExitYes, "1.0.0", []string{"active"})
	s.wait(cli.ExitNo, "1.1.0", []string{"1.1.0"})
	s.why(cli.ExitNo, []string{"1.1.0 is not live"}, s.Name, "1.1.0")
	s.eventually(cli.ExitYes, []string{"pinned to 1.0.0", "sessions lost"}, "status")
	s.status()
	s.tree()
	s.want(cli.ExitYes, []string{"pinned to 1.1.0"}, "pin", s.Name, "1.1.0", "--until", "4h")
	s.wait(cli.ExitYes, "1.1.0", []string{"active"})
	s.want(cli.ExitYes, nil, "unpin", s.Name)
	s.want(cli.ExitNo, []string{"is not pinned"}, "unpin", s.Name)
	s.wait(cli.ExitYes, "1.1.0", []string{"active"})
	s.status()
}

// abort makes 1.2.0 fail through a decision, and makes it active after a retry.
func (s *Stage) abort() {
	s.publish("1.2.0", false)
	s.wait(cli.ExitYes, "1.2.0", nil, "--for", "approval")
	s.decide(v1alpha1.DecisionDeprecate, "deprecate", s.Name, "--reason", "error rate")
	s.wait(cli.ExitNo, "1.2.0", nil)
	s.why(cli.ExitNo, []string{"1.2.0 is not live", "hlnr retry", "error rate"}, s.Name, "1.2.0")
	s.status()
	s.tree()
	s.decide(v1alpha1.DecisionRetry, "retry", s.Name, "--reason", "it was the database")
	s.eventually(cli.ExitYes, nil, "wait", s.Name, "1.2.0", "--for", "approval", "--timeout", s.Limit.String())
	s.decide(v1alpha1.DecisionContinue, "promote", s.Name)
	s.wait(cli.ExitYes, "1.2.0", nil, "--for", "step=half")
	s.decide(v1alpha1.DecisionAdopt, "promote", s.Name, "1.2.0", "--full")
	s.wait(cli.ExitYes, "1.2.0", []string{"active"})
	s.history("1.2.0", "1.1.0")
}

// endGroup ends group 1.x while 2.x is active.
func (s *Stage) endGroup() {
	s.publish("2.0.0", false)
	s.wait(cli.ExitYes, "2.0.0", []string{"active"})
	s.status()
	s.want(cli.ExitYes, []string{"Nothing was written: dry run."}, "end-group", s.Name, "1.x", "--dry-run")
	s.want(cli.ExitYes, []string{": the group loses its traffic"}, "end-group", s.Name, "1.x")
	s.until("group 1.x to end", func() string {
		ms := s.microservice()
		if slices.ContainsFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.Name == "1.x" && g.Phase == v1alpha1.GroupLive }) {
			return fmt.Sprintf("%+v", ms.Status.ReleaseGroups)
		}
		return ""
	})
	s.want(cli.ExitNo, []string{"is already in spec.endedGroups"}, "end-group", s.Name, "1.x")
	s.status()
	s.tree()
}

// broken makes 2.1.0 fail.
func (s *Stage) broken() {
	s.publish("2.1.0", true)
	s.wait(cli.ExitNo, "2.1.0", []string{"2.1.0"})
	s.why(cli.ExitNo, []string{"2.1.0 is not live: it failed", "2.0.0 serves group 2.x"}, s.Name, "2.1.0")
	s.status()
	s.tree()
	s.history("2.1.0", "2.0.0")
}
