package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// live is a tree that is redrawn in place.
type live struct {
	factory         *cli.Factory
	namespace, name string
	input           view.Input
	service         view.Service
	options         text.Options
	tree            text.TreeOptions
	// run runs an hlnr command while the tree is hidden.
	run func(words []string) tea.Cmd

	height, offset int
	// asked is the action that the user selected but has not confirmed yet. It belongs to the state that was shown when
	// the user selected it.
	asked *choice
	// note is the message below the tree, or empty if there is none.
	note string
}

// choice is an action that is possible now.
type choice struct {
	view.Action
	// step is the number of the current step of the rollout. 1 is the first step, and 0 means no step.
	step int32
}

// words returns the words of the command for an action, without the connection flags, because the factory already contains them. A
// continue command includes the number of the current step, so that it cannot apply to a later step.
func (l *live) words(c choice) []string {
	words := append(strings.Fields(l.factory.Name()), strings.Fields(strings.TrimPrefix(c.Command, l.factory.Program()))...)
	if c.Verb == "continue" && c.step > 0 {
		words = append(words, "--step", strconv.Itoa(int(c.step)))
	}
	return words
}

// The messages that the live tree handles.
type (
	// objectsRead reports that the objects changed.
	objectsRead struct{ input view.Input }
	// watchLost reports that a watch was interrupted.
	watchLost struct{ err error }
	// second reports that another second has passed, so the displayed ages have changed.
	second struct{}
	// ran reports that a command has ended.
	ran struct{ err error }
)

// Init starts the clock.
func (l *live) Init() tea.Cmd { return tick() }

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return second{} }) }

// Update handles changed objects, clock ticks, changes to the size of the terminal, and pressed keys.
func (l *live) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case objectsRead:
		l.input, l.note = m.input, ""
	case watchLost:
		l.note = "the watch was interrupted and is resuming: " + m.err.Error()
	case ran:
		if l.note = ""; m.err != nil {
			l.note = m.err.Error()
		}
	case tea.WindowSizeMsg:
		l.options.Width, l.height = m.Width, m.Height
	case tea.KeyPressMsg:
		return l, l.key(m.String())
	case second:
		l.refresh()
		return l, tick()
	}
	l.refresh()
	return l, nil
}

// refresh computes the view at the current time.
func (l *live) refresh() {
	l.options.Now = l.factory.Now()
	if s, ok := view.NewService(l.input, l.namespace, l.name, l.options.Now); ok {
		l.service = s
		if now := l.asked; now != nil {
			if now = l.action(l.asked.Verb); now == nil || *now != *l.asked {
				l.note, l.asked = l.asked.Verb+" was not performed: the rollout has changed", nil
			}
		}
		return
	}
	l.note = "Microservice " + l.name + " no longer exists"
}

// keys contains the key and the verb of each action.
var keys = []struct{ key, verb string }{{"c", "continue"}, {"d", "deprecate"}, {"r", "retry"}, {"a", "adopt"}}

// key handles a pressed key. An action requires confirmation.
func (l *live) key(key string) tea.Cmd {
	if l.asked != nil {
		asked := *l.asked
		l.asked = nil
		if key == "y" {
			return l.run(l.words(asked))
		}
		return nil
	}
	switch key {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "up", "k":
		l.offset = max(0, l.offset-1)
	case "down", "j":
		l.offset++
	case "pgup":
		l.offset = max(0, l.offset-l.room())
	case "pgdown", "space":
		l.offset += l.room()
	case "p":
		l.tree.Pods = !l.tree.Pods
	case "A":
		l.tree.All = !l.tree.All
	case "w":
		return l.run(l.command("why"))
	case "l":
		if action := l.action("logs"); action != nil {
			return l.run(l.words(*action))
		}
		return l.run(append(l.command("logs"), "--tail", fmt.Sprint(max(20, l.height))))
	}
	for _, k := range keys {
		if action := l.action(k.verb); k.key == key && action != nil {
			l.asked, l.note = action, ""
		}
	}
	return nil
}

// command returns the words of a command about the service.
func (l *live) command(verb string) []string {
	return append(strings.Fields(l.factory.Name()), verb, l.name)
}

// action returns the available action for the given verb, or nil. An action of the service takes precedence over the
// actions of its releases.
func (l *live) action(verb string) *choice {
	states := []view.State{l.service.State}
	for _, g := range slices.Concat(l.service.Groups, l.service.Previews) {
		for _, r := range g.Releases {
			states = append(states, r.State)
		}
	}
	for _, s := range states {
		if i := slices.IndexFunc(s.Next, func(a view.Action) bool { return a.Verb == verb }); i >= 0 {
			return &choice{s.Next[i], s.Step}
		}
	}
	return nil
}

// room returns the number of lines that are available for the tree.
func (l *live) room() int { return max(1, l.height-2) }

// View draws the tree, and a line with the keys below the tree.
func (l *live) View() tea.View {
	lines := l.lines()
	l.offset = max(0, min(l.offset, len(lines)-l.room()))
	shown := lines[l.offset:min(len(lines), l.offset+l.room())]
	v := tea.NewView(strings.Join(shown, "\n") + strings.Repeat("\n", l.room()-len(shown)+1) + l.help())
	v.AltScreen = true
	return v
}

func (l *live) lines() []string {
	var b strings.Builder
	if err := text.Tree(&b, l.service, l.options, l.tree); err != nil {
		return []string{err.Error()}
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// help returns the request to confirm the selected action, the note, or the keys that currently have an effect.
func (l *live) help() string {
	switch {
	case l.asked != nil:
		return cutLine(strings.TrimRight(l.asked.Verb+" "+l.asked.Target, " ")+" [y/N]: "+l.asked.Command, l.options.Width)
	case l.note != "":
		return cutLine(l.note, l.options.Width)
	}
	parts := []string{"q quit"}
	for _, k := range keys {
		if l.action(k.verb) != nil {
			parts = append(parts, k.key+" "+k.verb)
		}
	}
	parts = append(parts, "w why", "l logs", "p pods", "A all")
	return cutLine(strings.Join(parts, "  "), l.options.Width)
}

// cutLine truncates a line to a width in characters. A width of 0 means no limit.
func cutLine(line string, width int) string {
	if r := []rune(line); width > 0 && len(r) > width {
		return string(r[:width])
	}
	return line
}

// newLive returns a live tree of objects that were already read.
func newLive(f *cli.Factory, namespace, name string, in view.Input, o text.Options, t text.TreeOptions) *live {
	l := &live{factory: f, namespace: namespace, name: name, input: in, options: o, tree: t, height: 24}
	l.refresh()
	return l
}

// watchLive redraws the tree until the user quits.
func watchLive(called context.Context, f *cli.Factory, l *live, acts []cli.NewCommand) error {
	ctx, stop := context.WithCancel(called)
	defer stop()
	l.run = func(words []string) tea.Cmd {
		return tea.Exec(&inner{ctx: ctx, factory: f, words: words, commands: acts}, func(err error) tea.Msg { return ran{err} })
	}
	program := tea.NewProgram(l, tea.WithContext(ctx), tea.WithInput(f.In), tea.WithOutput(f.Out), tea.WithoutSignalHandler())
	problem := make(chan error, 1)
	go func() {
		err := watch(ctx, f, l.namespace, l.name, l.input, func(in view.Input) { program.Send(objectsRead{in}) }, func(err error) { program.Send(watchLost{err}) })
		problem <- err
		program.Quit()
	}()
	_, err := program.Run()
	stop()
	watched := <-problem
	switch {
	case err != nil && !errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrInterrupted):
		return fmt.Errorf("draw: %w", err)
	case watched != nil && !errors.Is(watched, context.Canceled):
		return watched
	}
	return called.Err() // The error is nil if the user quit.
}

// inner runs an hlnr command in the terminal of the live tree, and waits for Enter.
type inner struct {
	ctx         context.Context
	factory     *cli.Factory
	words       []string
	commands    []cli.NewCommand
	in          io.Reader
	out, errOut io.Writer
}

// SetStdin implements [tea.ExecCommand].
func (i *inner) SetStdin(in io.Reader) { i.in = in }

// SetStdout implements [tea.ExecCommand].
func (i *inner) SetStdout(out io.Writer) { i.out = out }

// SetStderr implements [tea.ExecCommand].
func (i *inner) SetStderr(out io.Writer) { i.errOut = out }

// Run runs the command, writes its errors to the standard error of hlnr, and waits until the user presses Enter.
func (i *inner) Run() error {
	words := i.words[1:]
	if strings.HasPrefix(i.factory.Name(), "kubectl ") {
		words = i.words[2:]
	}
	cli.Run(i.ctx, i.factory, words, i.commands...)
	fmt.Fprint(i.out, "\npress Enter to return ")
	return awaitEnter(i.in)
}

// awaitEnter reads to the end of a line. It does not read any further, because later input consists of keys for the live tree.
func awaitEnter(in io.Reader) error {
	for b := make([]byte, 1); ; {
		n, err := in.Read(b)
		switch {
		case n > 0 && b[0] == '\n':
			return nil
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
