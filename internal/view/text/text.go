// Package text writes views for terminals and pipes. It is pure: it formats a view as lines for the
// width, colors and characters of the reader's terminal.
//
//	text.go     the options, and the width, colors and characters of lines
//	status.go   one line for each group of each service
//	tree.go     one service with all its parts
//	answers.go  answers of why, past rollouts, previews, events and changes
package text

import (
	"cmp"
	"io"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"

	"github.com/heighliner/heighliner/internal/view"
)

// Options are the properties of the user's terminal.
type Options struct {
	// Width of the terminal in cells; 0 for no limit, as for a pipe.
	Width int
	// Color enables colors of marks and states. Colors never carry information on their own.
	Color bool
	// Unicode allows characters beyond ASCII.
	Unicode bool
	// Wide adds columns, and formats times as absolute times with their zone.
	Wide bool
	// Namespaces includes the namespace of each service.
	Namespaces bool
	// Now is the time of the view, in the user's zone.
	Now time.Time
	// Program is the name by which the user calls hlnr. Defaults to hlnr.
	Program string
	// Searched describes what was searched, as in "in namespace shop", for messages that nothing was
	// found.
	Searched string
	// Home is the namespace in which commands act by default: commands for services in other namespaces
	// include the namespace. If it is empty, commands include it only if namespaces are shown.
	Home string
}

// nothing returns the message that no objects were found, with where they were searched.
func (o Options) nothing(what string) string {
	return strings.TrimSpace("no " + what + " " + o.Searched)
}

// command returns a command of hlnr for a service.
func (o Options) command(verb string, s *view.Service) string {
	home := o.Home
	if o.Namespaces {
		home = ""
	} else if home == "" {
		home = s.Namespace
	}
	return view.Command(cmp.Or(o.Program, "hlnr"), home, s.Namespace, verb, s.Name)
}

// minTable is the minimum width of tables; below it each service is on separate lines.
const minTable = 60

// minText is the minimum width of a text next to its first part; otherwise it begins on the next
// line.
const minText = 12

// page collects the lines of one output.
type page struct {
	Options
	b strings.Builder
}

// write writes the page to a writer in one call.
func (p *page) write(out io.Writer) error {
	text := p.b.String()
	if !p.Unicode {
		text = toASCII(text)
	}
	_, err := io.WriteString(out, text)
	return err
}

// ascii replaces the characters of the renderers by ASCII.
var ascii = strings.NewReplacer(
	"✔", "+", "◐", "~", "○", "-", "✖", "x", "…", "...", "├", "|", "└", "`", "│", "|", "·", "|", "→", "->", "≤", "<=", "≥", ">=", "–", "-", "—", "-", "“", `"`, "”", `"`, "’", "'",
)

// toASCII replaces the characters of the renderers; other characters become a question mark.
func toASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, ascii.Replace(text))
}

// Clean removes control characters from text of users, which could control the terminal. The result is
// one line: tabs and line breaks become spaces.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, text)
}

// line writes one line; text that is too wide continues on further lines, after the indent.
func (p *page) line(first, indent, text string) {
	if p.Width == 0 || lipgloss.Width(first+text) <= p.Width {
		p.b.WriteString(strings.TrimRight(first+text, " ") + "\n")
		return
	}
	width := max(8, p.Width-max(lipgloss.Width(first), lipgloss.Width(indent)))
	if p.Width-lipgloss.Width(first) < minText && lipgloss.Width(indent) < lipgloss.Width(first) {
		p.b.WriteString(strings.TrimRight(first, " ") + "\n")
		first, width = indent, max(8, p.Width-lipgloss.Width(indent))
	}
	for i, l := range strings.Split(lipgloss.Wrap(text, width, ""), "\n") {
		before := indent
		if i == 0 {
			before = first
		}
		p.b.WriteString(strings.TrimRight(before+strings.TrimRight(l, " "), " ") + "\n")
	}
}

// colors are the colors of classes and marks, from the terminal's own palette.
var colors = map[view.Class]string{view.Waiting: "5", view.Failed: "1", view.Moving: "6", view.Stable: ""}

// paint returns a text in the color of a class.
func (p *page) paint(class view.Class, text string) string {
	if c := colors[class]; p.Color && c != "" && text != "" {
		return lipgloss.NewStyle().Foreground(lipgloss.Color(c)).Render(text)
	}
	return text
}

// faint formats a less important text.
func (p *page) faint(text string) string {
	if !p.Color || text == "" {
		return text
	}
	return lipgloss.NewStyle().Faint(true).Render(text)
}

// bold formats an important text.
func (p *page) bold(text string) string {
	if !p.Color || text == "" {
		return text
	}
	return lipgloss.NewStyle().Bold(true).Render(text)
}

// mark returns the mark of a class in front of a state.
func mark(class view.Class) string {
	switch class {
	case view.Waiting:
		return "! "
	case view.Failed:
		return "✖ "
	}
	return ""
}

// marks are the marks of the statuses of releases.
var marks = map[string]string{"active": "✔", "canary": "◐", "deprecated": "○", "error": "✖", "pending": "…"}

// short returns a version for columns: the first seven digits of a commit.
func short(version string) string {
	if len(version) == 40 && strings.Trim(version, "0123456789abcdef") == "" {
		return version[:7]
	}
	return Clean(version)
}

// commands formats the commands of a state, ready to copy.
func commands(s view.State) string {
	out := make([]string, len(s.Next))
	for i, n := range s.Next {
		out[i] = Clean(n.Command)
	}
	return strings.Join(out, " · ")
}

// age formats the age of a time or, if wide, the time with its zone.
func (p *page) age(t time.Time) string {
	if p.Wide {
		return t.In(p.Now.Location()).Format("2006-01-02 15:04:05 MST")
	}
	return view.Age(p.Now.Sub(t))
}
