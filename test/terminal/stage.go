// Package terminal runs the hlnr commands that a user runs during rollouts. It runs each command as a process
// against a cluster with a manager, and compares the command's text output with its JSON output, and the JSON
// output with the objects. The end-to-end tests run the scenario on a node. A test in cmd/heighliner runs it
// on an API server, with stand-ins for the kubelet and the gateway.
//
//	stage.go    the cluster of a scenario, and calls of commands
//	play.go     the parts of the scenario, in order
//	read.go     the read-only commands, in the middle of a rollout
//	files.go    the commands that check manifests
//	live.go     tree -w on a terminal, with keys and in windows of several sizes
//	compare.go  comparison of text, JSON, and objects
package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// Stage is the cluster of a scenario. The Microservice, its ImagePolicy, and its NetworkPolicy have the same
// name. The ImagePolicy groups by major version, and the canary has the steps that [Steps] returns.
type Stage struct {
	*testing.T
	// Client reads the objects without a cache.
	Client client.Client
	// Hlnr is the path of the program, and Kubeconfig is the path of its kubeconfig.
	Hlnr, Kubeconfig string
	// Namespace and Name identify the Microservice and the policies.
	Namespace, Name string
	// Objects are created after the first version has been pushed.
	Objects []client.Object
	// Push makes a version available in the registry. A broken version never becomes ready.
	Push func(version string, broken bool)
	// Host returns a group's host, by the group's slug. Gateway is the Gateway of its route, as namespace/name.
	Host    func(group string) string
	Gateway string
	// Log is part of each pod's log. It is empty if there is no kubelet and logs therefore cannot be read.
	Log string
	// Doctor is the expected exit code of doctor.
	Doctor cli.Code
	// Limit is the maximum duration of each wait.
	Limit time.Duration
}

// Steps returns the canary steps of the Microservice: a step that requires approval, and a step that takes an hour.
func Steps() []v1alpha1.CanaryStep {
	return []v1alpha1.CanaryStep{
		{Name: "tenth", Weight: 10, Approval: &v1alpha1.CanaryApproval{}},
		{Name: "half", Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "1h"}},
	}
}

// Result is the result of a run of the program.
type Result struct {
	Code           cli.Code
	Stdout, Stderr string
}

// call runs the program in the scenario's namespace, with the given input.
func (s *Stage) call(input string, args ...string) Result {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), s.Limit+time.Minute)
	defer cancel()
	namespace := []string{"-n", s.Namespace}
	if args[0] == "__complete" { // The word to complete comes last.
		args = slices.Insert(slices.Clone(args), len(args)-1, namespace...)
	} else {
		args = append(slices.Clone(args), namespace...)
	}
	cmd := exec.CommandContext(ctx, s.Hlnr, args...)
	// With --kubeconfig, the commands in the output would contain this flag.
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "NO_COLOR=1", "KUBECONFIG="+s.Kubeconfig)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.Fatalf("hlnr %s: %v", strings.Join(args, " "), err)
	}
	return Result{cli.Code(cmd.ProcessState.ExitCode()), out.String(), errOut.String()}
}

// want runs the program, checks its exit code, and checks that each of the given parts appears on its standard
// output or standard error.
func (s *Stage) want(code cli.Code, parts []string, args ...string) Result {
	s.Helper()
	return s.wantOf("", code, parts, args...)
}

func (s *Stage) wantOf(input string, code cli.Code, parts []string, args ...string) Result {
	s.Helper()
	r := s.call(input, args...)
	if fault := r.fault(code, parts); fault != "" {
		s.Fatalf("hlnr %s: %s", strings.Join(args, " "), fault)
	}
	return r
}

// fault describes how a result differs from the expected result. It is empty if the result is as expected.
func (r Result) fault(code cli.Code, parts []string) string {
	if r.Code != code {
		return fmt.Sprintf("exit code %d, want %d\n%s%s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, part := range parts {
		if !strings.Contains(r.Stdout+r.Stderr, part) {
			return fmt.Sprintf("no %q in\n%s%s", part, r.Stdout, r.Stderr)
		}
	}
	return ""
}

// eventually runs the program until the result is as expected, because the manager reports some states later.
func (s *Stage) eventually(code cli.Code, parts []string, args ...string) {
	s.Helper()
	s.until("hlnr "+strings.Join(args, " "), func() string { return s.call("", args...).fault(code, parts) })
}

// until polls until fault returns an empty string.
func (s *Stage) until(what string, fault func() string) {
	s.Helper()
	end := time.Now().Add(s.Limit)
	for {
		last := fault()
		if last == "" {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("%s: after %s: %s", what, s.Limit, last)
		}
		select {
		case <-s.Context().Done():
			s.Fatal(s.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// read runs a command with -o json, and decodes its output.
func read[T any](s *Stage, args ...string) (out T) {
	s.Helper()
	r := s.call("", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil {
		s.Fatalf("hlnr %s -o json: %v: exit code %d\n%s%s", strings.Join(args, " "), err, r.Code, r.Stdout, r.Stderr)
	}
	return out
}

// microservice returns the current Microservice.
func (s *Stage) microservice() *v1alpha1.Microservice {
	s.Helper()
	ms := &v1alpha1.Microservice{}
	if err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, ms); err != nil {
		s.Fatal(err)
	}
	ms.Status.Convert()
	return ms
}

// row returns a version's release, with its group, or nil.
func row(ms *v1alpha1.Microservice, version string) (*v1alpha1.ReleaseGroup, *v1alpha1.Release) {
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		for j := range g.Releases {
			if g.Releases[j].SemVer.Version == version {
				return g, &g.Releases[j]
			}
		}
	}
	return nil, nil
}
