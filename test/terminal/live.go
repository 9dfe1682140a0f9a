package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// window is a tmux terminal that runs one program.
type window struct {
	*Stage
	socket string
	width  int
}

// exited precedes the exit code that the window shows after its program has exited.
const exited = "EXITED WITH "

// open starts the program in a window of a new tmux server, which is stopped when the test ends.
func (s *Stage) open(width, height int, args ...string) *window {
	s.Helper()
	w := &window{s, filepath.Join(s.TempDir(), "tmux"), width}
	words := []string{s.Hlnr}
	for _, a := range append(args, "-n", s.Namespace) {
		words = append(words, "'"+a+"'")
	}
	w.tmux("-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height),
		"LC_ALL=C.UTF-8 KUBECONFIG='"+s.Kubeconfig+"' "+strings.Join(words, " ")+"; echo "+exited+"$?; exec sleep 1000000")
	s.Cleanup(func() { _ = exec.Command("tmux", "-S", w.socket, "kill-server").Run() })
	return w
}

func (w *window) tmux(args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "tmux", append([]string{"-u", "-S", w.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("tmux %s: %v\n%s\ninstall the package tmux, as make test does", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// screen returns the content of the window.
func (w *window) screen() string { w.Helper(); return w.tmux("capture-pane", "-p") }

// shows waits until the window shows all of the given strings.
func (w *window) shows(texts ...string) {
	w.Helper()
	w.until(fmt.Sprintf("the window of %d columns to show %q", w.width, texts), func() string {
		screen := w.screen()
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return fmt.Sprintf("no %q in\n%s", text, screen)
			}
		}
		return ""
	})
}

// press sends keys one after the other.
func (w *window) press(keys ...string) {
	w.Helper()
	for _, k := range keys {
		w.tmux("send-keys", k)
	}
}

// resize changes the size of the window.
func (w *window) resize(width, height int) {
	w.Helper()
	w.width = width
	w.tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// live follows 1.3.0 in a terminal, resizes the terminal, and controls the release with keys.
func (s *Stage) live() {
	s.publish("1.3.0", false)
	s.wait(cli.ExitYes, "1.3.0", nil, "--for", "approval")
	w := s.open(120, 40, "tree", s.Name, "-w")
	w.shows(s.Name, "1.3.0  canary", "1.2.0  active", "10%", "waits for approval", "q quit", "c continue")
	for _, width := range []int{20, 80, 200} {
		w.resize(width, 30)
		// The full help is shown only if there is enough space. Its first key is always shown.
		w.shows(s.Name, "1.3.0", "q quit")
		for line := range strings.SplitSeq(w.screen(), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				s.Errorf("a line with width %d in a window with width %d: %q", n, width, line)
			}
		}
		w.press("c")
		w.shows("continue 1.3.0 [y/N]")
		w.press("n")
		w.shows("q quit")
	}
	if _, r := row(s.microservice(), "1.3.0"); r == nil || r.Decision != nil {
		s.Fatalf("a key without a confirmation made a decision: %+v", r)
	}

	w.resize(160, 40)
	w.press("w")
	w.shows("1.3.0 is live with a share of 10%", "press Enter to return")
	w.press("Enter")
	w.shows("q quit")
	w.press("l")
	if s.Log != "" {
		w.shows(s.Log)
	}
	w.shows("press Enter to return")
	w.press("Enter")
	w.shows("q quit", "step 1 of 2")

	w.press("c")
	w.shows("continue 1.3.0 [y/N]")
	w.press("y")
	w.shows("Continue of step tenth", "applied", "press Enter to return")
	w.press("Enter")
	w.shows("q quit", "50%", "step 2 of 2")
	if _, r := row(s.microservice(), "1.3.0"); r == nil || r.Decision == nil || r.Decision.Action != v1alpha1.DecisionContinue {
		s.Errorf("the decision is not in the status: %+v", r)
	}

	// The window also shows changes by other commands.
	s.decide(v1alpha1.DecisionAdopt, "adopt", s.Name, "1.3.0")
	w.shows("1.3.0  active", "q quit")
	w.press("q")
	w.shows(exited + "0")
}
