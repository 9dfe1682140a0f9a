package show

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view/text"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/test/await"
)

// TestWatchLines checks that the output without a terminal contains a line for each release, and then a line for each change.
func TestWatchLines(t *testing.T) {
	t.Parallel()
	s := stage(t, "approval")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, messages await.Buffer
	f := cli.New("hlnr", "v1", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &messages})
	f.Clock = clocktesting.NewFakeClock(s.story.Now)
	code := make(chan cli.Code, 1)
	go func() {
		code <- cli.Run(ctx, f, []string{"tree", "shop", "-w", "--kubeconfig", env.Kubeconfig(), "-n", s.namespace}, NewCommands()...)
	}()
	await.Until(t, "the first lines", func() bool { return strings.Count(out.String(), "\n") == 2 })
	var ms v1alpha1.Microservice
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "shop"}, &ms); err != nil {
			return err
		}
		ms.Status.ReleaseGroups[0].Rollout.Interrupted = true
		for i := range ms.Status.ReleaseGroups[0].Releases {
			if r := &ms.Status.ReleaseGroups[0].Releases[i]; r.Status == v1alpha1.ReleaseCanary {
				r.Weight = 20
			}
		}
		return env.Client.Status().Update(ctx, &ms)
	})
	await.Until(t, "the change", func() bool { return strings.Contains(out.String(), "1.x  1.1.0  canary 20%") })
	cancel()
	if got := await.Receive(t, "the exit code", code); got != cli.ExitInterrupted {
		t.Errorf("exit code %d: %s", got, messages.String())
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("escape sequences outside of a terminal: %q", out.String())
	}
}

// newTestLive returns a live tree of a story, and the list to which the tree adds the commands that it runs.
func newTestLive(t *testing.T, name string) (*live, *[]string) {
	t.Helper()
	for _, s := range viewtest.Stories() {
		if s.Name != name {
			continue
		}
		f := cli.New("hlnr", "v1", genericiooptions.IOStreams{})
		f.Clock = clocktesting.NewFakeClock(s.Now)
		l := newLive(f, "shop", "shop", s.Input, text.Options{Unicode: true, Width: 80}, text.TreeOptions{})
		ran := &[]string{}
		l.run = func(words []string) tea.Cmd {
			*ran = append(*ran, strings.Join(words, " "))
			return nil
		}
		return l, ran
	}
	t.Fatalf("there is no story %q", name)
	return nil, nil
}

func press(l *live, keys ...string) {
	for _, k := range keys {
		r := []rune(k)
		l.Update(tea.KeyPressMsg{Code: r[0], Text: k})
	}
}

// TestLiveAsks checks that actions require confirmation, and that only actions that the state allows are possible.
func TestLiveAsks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		story string
		keys  []string
		want  string
	}{
		"yes":                       {"approval", []string{"c", "y"}, "hlnr continue shop 1.1.0 --step 1"},
		"no":                        {"approval", []string{"c", "n"}, ""},
		"another key":               {"approval", []string{"d", "d", "y"}, ""},
		"abort":                     {"approval", []string{"d", "y"}, "hlnr deprecate shop 1.1.0"},
		"nothing to do":             {"active", []string{"c", "y", "d", "y", "r", "y"}, ""},
		"retry":                     {"rolled back", []string{"r", "y"}, "hlnr retry shop 1.1.0"},
		"why without confirmation":  {"active", []string{"w"}, "hlnr why shop"},
		"logs without confirmation": {"active", []string{"l"}, "hlnr logs shop --tail 24"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, ran := newTestLive(t, test.story)
			press(l, test.keys...)
			if got := strings.Join(*ran, ", "); got != test.want {
				t.Errorf("ran %q, want %q", got, test.want)
			}
		})
	}
}

// TestLiveKeepsTheConnection checks that the live tree shows commands with the connection flags, and runs them without these flags, because it
// runs them with the same factory.
func TestLiveKeepsTheConnection(t *testing.T) {
	t.Parallel()
	l, ran := newTestLive(t, "approval")
	if err := cli.NewRoot(l.factory).ParseFlags([]string{"--context", "the production"}); err != nil {
		t.Fatal(err)
	}
	l.input.Program = l.factory.Program()
	l.refresh()
	press(l, "c")
	if got, want := l.asked.Command, "hlnr --context 'the production' continue shop 1.1.0"; got != want {
		t.Errorf("asks about %q, want %q", got, want)
	}
	press(l, "y", "w")
	if got, want := strings.Join(*ran, ", "), "hlnr continue shop 1.1.0 --step 1, hlnr why shop"; got != want {
		t.Errorf("ran %q, want %q", got, want)
	}
}

// TestLiveForgetsAStaleQuestion checks that a question disappears if the rollout changes, because a confirmation is valid only for the
// state that was shown with the question.
func TestLiveForgetsAStaleQuestion(t *testing.T) {
	t.Parallel()
	l, ran := newTestLive(t, "approval")
	press(l, "c")
	if got := l.View().Content; !strings.Contains(got, "continue 1.1.0 [y/N]") {
		t.Errorf("no question about 1.1.0:\n%s", got)
	}
	l.Update(objectsRead{l.input})
	if l.asked == nil {
		t.Error("the question is gone although nothing changed")
	}
	in := l.input
	in.Microservices = slices.Clone(in.Microservices)
	ms := in.Microservices[0].DeepCopy()
	for i := range ms.Status.ReleaseGroups {
		if run := ms.Status.ReleaseGroups[i].Rollout; run != nil {
			run.Step++
		}
	}
	in.Microservices[0] = *ms
	l.Update(objectsRead{in})
	if got := l.View().Content; l.asked != nil || !strings.Contains(got, "continue was not performed: the rollout has changed") {
		t.Errorf("asked %+v:\n%s", l.asked, got)
	}
	press(l, "y")
	if len(*ran) > 0 {
		t.Errorf("ran %q", *ran)
	}
}

// TestAwaitEnter checks that awaitEnter ignores all input before Enter.
func TestAwaitEnter(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\n", "quit please\n", ""} {
		in := strings.NewReader(text + "next")
		if text == "" {
			in = strings.NewReader("")
		}
		if err := awaitEnter(in); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if rest, _ := io.ReadAll(in); text != "" && string(rest) != "next" {
			t.Errorf("%q: left %q", text, rest)
		}
	}
}

// TestLivePicture checks that the tree fits the window, and scrolls.
func TestLivePicture(t *testing.T) {
	t.Parallel()
	l, _ := newTestLive(t, "previews")
	for _, size := range [][2]int{{120, 40}, {80, 12}, {40, 6}, {20, 3}, {10, 1}} {
		l.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, key := range []string{"j", "j", "k", "A", "p"} {
			press(l, key)
			lines := strings.Split(l.View().Content, "\n")
			if len(lines) > max(3, size[1]) {
				t.Errorf("%d lines in a window of %d", len(lines), size[1])
			}
		}
	}
	l.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	if got := l.View(); !got.AltScreen || !strings.Contains(got.Content, "q quit") || !strings.Contains(got.Content, "pr-17") {
		t.Errorf("%s", got.Content)
	}
	l.Update(watchLost{context.DeadlineExceeded})
	if got := l.View().Content; !strings.Contains(got, "interrupted") {
		t.Errorf("%s", got)
	}
	if _, cmd := l.Update(second{}); cmd == nil {
		t.Error("the clock does not advance")
	}
}
