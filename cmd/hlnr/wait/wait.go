// Package wait implements the "hlnr wait" command, which waits until a version reaches a state. For pipelines, the command
// prints one line per change, and exits with a code that indicates the result.
//
//	wait.go    the command and its watches
//	judge.go   pure functions that determine the facts about a version, the answer, and its exit code
//	report.go  the output
package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view/text"
)

// resync is the maximum time between two reads. It limits how late a change is read if a watch ends without an error.
const resync = 5 * time.Second

// waiter is one run of the command.
type waiter struct {
	*cli.Factory
	client    client.WithWatch
	namespace string
	name      string
	question  question
	output    *cli.Output
	out       io.Writer
	// shown maps each kind of fact to the text that was printed for it. read reports whether the objects were read
	// at least once.
	shown map[string]string
	read  bool
}

func newWaiter(f *cli.Factory) *waiter {
	return &waiter{Factory: f, out: f.Out, shown: map[string]string{}}
}

// Until waits until a version of a Microservice in the namespace of the command is active. The version can also be the name of a
// release. Output and errors are the same as for "hlnr wait". If the output format is neither text nor JSON, Until prints nothing.
func Until(ctx context.Context, f *cli.Factory, name, version string, timeout time.Duration, output *cli.Output) error {
	w := newWaiter(f)
	w.question.state, w.output = forActive, output
	if output.Format != cli.FormatText && output.Format != cli.FormatJSON {
		w.out = io.Discard
	}
	return w.run(ctx, name, version, timeout)
}

// NewCommand returns the command.
func NewCommand(f *cli.Factory) *cobra.Command {
	w := newWaiter(f)
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "wait MICROSERVICE VERSION|RELEASE",
		Short:   "Wait until a version is active or has reached a step, for use in CI pipelines",
		GroupID: cli.GroupSee,
		Long: `wait prints one line per change until the version is in the state that --for specifies, or in a later state. The
command ends early if the version cannot reach the state. The command keeps waiting while the API
server is not responding, while the manager has not observed the latest change to the Microservice or to
its ImagePolicy, while the image of the version is not signed, and while the version is active without
a ready pod or without its routes. A change to a ConfigMap or a Secret does not change the
Microservice: the command does not wait until the manager has observed it.
Each line begins with the time of the change. If a state was reached before the command started, the
line begins with the time that the objects record, or contains no time. With -o json, each line is a
JSON object. The last object has the kind Wait, and contains the result: Yes, No, TimedOut or Waits.
RELEASE is the name of a VersionedMicroservice.

Exit codes: 0: the version is in that state; 2: the Microservice or the step does not exist; 3: the
version failed, was filtered out or was superseded, another version is pinned, or the group or the
Microservice is ending; 4: the timeout expired; 5: the version is waiting for a user or for the end of a
freeze, unless --through-approvals is set.`,
		Example: `  # Wait in a pipeline, after 1.3.0 was pushed
  hlnr wait shop 1.3.0 --timeout 30m

  # Wait until the version gets its first traffic, or until it is waiting for approval
  hlnr wait shop 1.3.0 --for canary
  hlnr wait shop 1.3.0 --for approval

  # Print only the result, for a program
  hlnr wait shop 1.3.0 -o json | tail -n 1`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: f.CompleteNames(1, func() client.ObjectList { return &v1alpha1.MicroserviceList{} }),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.run(cmd.Context(), args[0], args[1], timeout)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.question.state, "for", forActive, "state to wait for: active, canary, step=NAME or approval")
	flags.DurationVar(&timeout, "timeout", 30*time.Minute, "how long to wait")
	flags.BoolVar(&w.question.throughApprovals, "through-approvals", false, "keep waiting while the version waits for a user, or for the end of a freeze")
	w.output = cli.AddOutput(cmd, cli.FormatJSON)
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{forActive, forCanary, forStep, forApproval}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	return cmd
}

// errOver is the cancellation cause of the wait's context when the timeout expires.
var errOver = errors.New("the timeout expired")

func (w *waiter) run(ctx context.Context, name, wanted string, timeout time.Duration) error {
	if timeout <= 0 {
		return cli.Usage(fmt.Errorf("--timeout: invalid value %s: must be greater than 0", timeout))
	}
	if s := w.question.state; s != forActive && s != forCanary && s != forApproval && (!strings.HasPrefix(s, forStep) || s == forStep) {
		return cli.Usage(fmt.Errorf("--for: %q is not a state: use active, canary, step=NAME or approval", s))
	}
	_, name, _ = cutResource(name)
	w.name, w.question.version, w.question.command = name, version.Meant(wanted), w.Command
	var err error
	if w.client, err = w.Client(); err != nil {
		return err
	}
	if w.namespace, err = w.Namespace(); err != nil {
		return err
	}
	return w.follow(ctx, timeout)
}

// follow reads and evaluates the objects until there is an answer or the timeout expires. The timeout of the command does not limit the
// first read. The command therefore returns an answer even if the timeout is short.
func (w *waiter) follow(ctx context.Context, timeout time.Duration) error {
	within, cancel := context.WithTimeoutCause(ctx, timeout, errOver)
	defer cancel()
	changes := w.watch(within)
	var last snapshot
	for limit := ctx; ; limit = within {
		s, err := w.snapshot(limit)
		switch {
		case err != nil && last.ms == nil:
			return err
		case err != nil && errors.Is(context.Cause(within), errOver):
			return w.over(last, timeout)
		case cli.CodeOf(err) == cli.ExitUsage:
			return w.end(&answer{cli.ExitNo, fmt.Sprintf("Microservice %s was deleted", w.name)})
		case err != nil && (ctx.Err() != nil || !passes(err)):
			return err
		case err != nil:
			fmt.Fprintf(w.ErrOut, "hlnr: the API server is not responding, and hlnr is trying again: %s\n", text.Clean(err.Error()))
		default:
			last = s
			if err := w.judge(s); !errors.Is(err, errOpen) {
				return err
			}
		}
		select {
		case <-within.Done():
			if errors.Is(context.Cause(within), errOver) {
				return w.over(last, timeout)
			}
			return ctx.Err()
		case <-changes:
		case <-w.Clock.After(resync):
		}
	}
}

// errOpen is the error for a question that has no answer yet.
var errOpen = errors.New("there is no answer yet")

// judge prints the new facts, and updates the release that the command follows. It ends the command if there is an answer, and otherwise returns errOpen.
func (w *waiter) judge(s snapshot) error {
	if err := w.known(s); err != nil {
		return err
	}
	lines, a := w.question.judge(s)
	w.question.followed = w.question.follows(s)
	if err := w.show(lines); err != nil {
		return err
	}
	if a == nil {
		return errOpen
	}
	return w.end(a)
}

// passes reports whether another attempt can succeed after an error. This is the case if the API server could not be reached, was
// busy, or returned an internal error.
func passes(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsUnexpectedServerError(err)
}

// cutResource splits a string such as "msvc/shop" into the resource and the name.
func cutResource(text string) (resource, name string, found bool) {
	if before, after, found := strings.Cut(text, "/"); found {
		return before, after, true
	}
	return "", text, false
}

// known returns an error if the step that --for specifies does not exist.
func (w *waiter) known(s snapshot) error {
	name, is := strings.CutPrefix(w.question.state, forStep)
	if !is {
		return nil
	}
	if _, ok := stepNumber(s.ms, name); !ok {
		return cli.Unknown("canary step of "+w.name, name, stepNames(s.ms))
	}
	return nil
}

// snapshot reads the objects of the Microservice.
func (w *waiter) snapshot(ctx context.Context) (snapshot, error) {
	s := snapshot{ms: &v1alpha1.Microservice{}, now: w.Now()}
	err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name}, s.ms)
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == w.name:
		var list v1alpha1.MicroserviceList
		if err := w.client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
			return s, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return s, cli.UnknownMicroservice(ctx, w.client, "Microservice", w.namespace, w.name, names)
	case err != nil:
		return s, err
	}
	s.ms.Status.Convert()
	policy := &v1alpha1.ImagePolicy{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: s.ms.Spec.ImagePolicyRef.Name}, policy); err == nil {
		s.policy = policy
	} else if client.IgnoreNotFound(err) != nil {
		return s, err
	}
	var routing v1alpha1.NetworkPolicyList
	if err := w.client.List(ctx, &routing, client.InNamespace(w.namespace)); err != nil && !apierrors.IsForbidden(err) {
		return s, err
	}
	for i := range routing.Items {
		if routing.Items[i].MicroserviceName() == w.name {
			s.routing = append(s.routing, routing.Items[i])
		}
	}
	if _, row := w.question.row(s); row != nil {
		release := &v1alpha1.VersionedMicroservice{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: row.VersionedMicroservice}, release); err == nil {
			s.release = release
		} else if client.IgnoreNotFound(err) != nil {
			return s, err
		}
	}
	return s, nil
}

// watch reports changes to the objects until ctx is done. If the user is not allowed to watch the objects, watch reports no
// changes, and the command reads the objects only at intervals of resync.
func (w *waiter) watch(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{}, 1)
	for _, list := range []client.ObjectList{&v1alpha1.MicroserviceList{}, &v1alpha1.ImagePolicyList{}, &v1alpha1.NetworkPolicyList{}} {
		go func() {
			for ctx.Err() == nil {
				if watcher, err := w.client.Watch(ctx, list, client.InNamespace(w.namespace)); err == nil {
					forward(ctx, watcher, changes)
				}
				select {
				case <-ctx.Done():
				case <-w.Clock.After(resync):
				}
			}
		}()
	}
	return changes
}

// forward reports each event of a watch until the watch ends.
func forward(ctx context.Context, watcher watch.Interface, changes chan<- struct{}) {
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, more := <-watcher.ResultChan():
			if !more {
				return
			}
			select {
			case changes <- struct{}{}:
			default: // The channel already contains a change.
			}
		}
	}
}

// over ends the command when the timeout expires, and reports the state of the version.
func (w *waiter) over(s snapshot, timeout time.Duration) error {
	return w.end(&answer{cli.ExitTimeout, w.question.late(s, timeout)})
}
