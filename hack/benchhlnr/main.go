// Command benchhlnr measures how long users wait for hlnr when the API server stores many services: until the
// first output of status and tree, until tree --watch shows a change, and until help and completions are
// printed. It also measures the memory of tree --watch. It prints its measurements without checking them,
// because machines differ in speed and load. The processor time of a command does not depend on the load.
//
//	main.go      the measurements
//	services.go  the services
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
)

func main() {
	b := &bench{}
	flag.StringVar(&b.hlnr, "hlnr", "bin/hlnr", "hlnr")
	flag.IntVar(&b.runs, "runs", 20, "number of measurements of each command")
	flag.IntVar(&b.services, "services", 200, "services for status and tree")
	flag.IntVar(&b.watched, "watched", 500, "services for tree --watch")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "benchhlnr:", err)
		os.Exit(1)
	}
}

// bench contains the settings of a run.
type bench struct {
	hlnr                    string
	runs, services, watched int
	env                     *apiserver.Env
}

func (b *bench) run(ctx context.Context) (err error) {
	for _, args := range [][]string{{"--help"}, {"completion", "bash"}, {"tree", "--help"}} {
		if err := b.first(ctx, "no cluster", args...); err != nil {
			return err
		}
	}
	if b.env, err = apiserver.Start(apiserver.Options{}); err != nil {
		return fmt.Errorf("start API server: %w", err)
	}
	defer func() {
		if stopErr := b.env.Stop(); err == nil {
			err = stopErr
		}
	}()
	few, many := fmt.Sprintf("%d services", b.services), fmt.Sprintf("%d services", b.watched)
	if err := create(ctx, b.env.Client, "few", b.services); err != nil {
		return err
	}
	for _, args := range [][]string{{"status"}, {"status", "-A"}, {"tree", nameOf(b.services / 2)}, {"__complete", "tree", ""}} {
		if err := b.first(ctx, few, b.on("few", args)...); err != nil {
			return err
		}
	}
	if err := create(ctx, b.env.Client, "many", b.watched); err != nil {
		return err
	}
	return b.watch(ctx, many, nameOf(b.watched/2))
}

// on adds the flags for the cluster and the namespace to the arguments of hlnr. For a completion, it inserts
// them before the word to complete.
func (b *bench) on(namespace string, args []string) []string {
	cluster := []string{"--kubeconfig", b.env.Kubeconfig(), "-n", namespace}
	if args[0] == "__complete" {
		return slices.Insert(slices.Clone(args), len(args)-1, cluster...)
	}
	return append(slices.Clone(args), cluster...)
}

// first measures the time to the first output.
func (b *bench) first(ctx context.Context, where string, args ...string) error {
	var took, used []time.Duration
	for range b.runs {
		cmd := exec.CommandContext(ctx, b.hlnr, args...)
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return err
		}
		_, err = out.Read(make([]byte, 1))
		took = append(took, time.Since(began))
		_, drained := io.Copy(io.Discard, out)
		if err := errors.Join(err, drained, cmd.Wait()); err != nil {
			return fmt.Errorf("hlnr %s: %w: %s", strings.Join(args, " "), err, problems.String())
		}
		used = append(used, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	shown := args
	if i := slices.Index(args, "--kubeconfig"); i >= 0 {
		shown = slices.Concat(args[:i], args[i+4:])
	}
	slices.Sort(used)
	report("first output of hlnr "+strings.Join(shown, " "), where, took, fmt.Sprintf(", CPU time until it exits %d ms", used[len(used)/2].Milliseconds()))
	return nil
}

// watch measures the time from a change to a service until tree --watch prints the line that shows the change, and the
// memory of tree --watch.
func (b *bench) watch(ctx context.Context, where, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.hlnr, b.on("many", []string{"tree", name, "--watch"})...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	// New watches first list all objects; only changes after that are measured.
	var took []time.Duration
	for i := range b.runs + 1 {
		weight := int32(11 + i)
		if err := b.weigh(ctx, name, weight); err != nil {
			return err
		}
		began := time.Now()
		if err := await(ctx, lines, fmt.Sprintf("%d%%", weight)); err != nil {
			return err
		}
		if i > 0 {
			took = append(took, time.Since(began))
		}
	}
	memory, err := peak(cmd.Process.Pid)
	if err != nil {
		return err
	}
	report("hlnr tree --watch shows a change", where, took, fmt.Sprintf(", at most %.1f MiB of memory", memory))
	cancel()
	_ = cmd.Wait() // An error is expected, because the command was interrupted.
	return nil
}

// weigh changes the weight of a service's canary.
func (b *bench) weigh(ctx context.Context, name string, weight int32) error {
	ms := &v1alpha1.Microservice{}
	if err := b.env.Client.Get(ctx, client.ObjectKey{Namespace: "many", Name: name}, ms); err != nil {
		return err
	}
	for i := range ms.Status.ReleaseGroups {
		for j := range ms.Status.ReleaseGroups[i].Releases {
			if r := &ms.Status.ReleaseGroups[i].Releases[j]; r.Status == v1alpha1.ReleaseCanary {
				r.Weight = weight
			}
		}
	}
	return b.env.Client.Status().Update(ctx, ms)
}

// await waits for a line that contains a string.
func await(ctx context.Context, lines <-chan string, text string) error {
	limit := time.After(time.Minute)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit:
			return fmt.Errorf("no line contains %q", text)
		case line, more := <-lines:
			if !more {
				return fmt.Errorf("tree --watch exited before a line contained %q", text)
			}
			if strings.Contains(line, text) {
				return nil
			}
		}
	}
}

// peak returns the largest resident memory of a process so far, in MiB, as reported by Linux.
func peak(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}

func report(what, where string, took []time.Duration, more string) {
	slices.Sort(took)
	fmt.Printf("%s, %s: median %d ms, longest %d ms of %d%s\n", what, where, took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds(), len(took), more)
}
