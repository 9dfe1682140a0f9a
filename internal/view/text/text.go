// Package text writes views for terminals and pipes. It formats a view as lines that suit the
// width, colors and characters of the reader's terminal. Writing these lines is its only side
// effect.
//
//	text.go     the options, and the width, colors and characters of lines
//	status.go   one line for each group of each service
//	tree.go     one service with all its parts
//	why.go      explanations
//	answers.go  past rollouts, previews, events and changes
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
	// Width is the width of the terminal in cells. 0 means no limit, for example for a pipe.
	Width int
	// Color enables colors for marks and states. No information depends on colors alone.
	Color bool
	// Unicode allows characters beyond ASCII.
	Unicode bool
	// Wide adds columns, and formats times as absolute times with their zone.
	Wide bool
	// Namespaces adds the namespace of each service.
	Namespaces bool
	// Now is the time of the view, in the user's zone.
	Now time.Time
	// Program is the name with which the user runs hlnr. Defaults to hlnr.
	Program string
	// Searched describes the searched namespaces, as in "in namespace shop", for messages that report that nothing was
	// found.
	Searched string
	// Home is the namespace in which commands run by default. Commands for services in other namespaces
	// include the namespace. If Home is empty, commands include the namespace only if namespaces are shown.
	Home string
}

// nothing returns a message that reports that no objects were found. The message includes the
// searched namespaces.
func (o Options) nothing(what string) string {
	return strings.TrimSpace("no " + what + " " + o.Searched)
}

// command returns an hlnr command for a service.
func (o Options) command(verb string, s *view.Service) string {
	home := o.Home
	if o.Namespaces {
		home = ""
	} else if home == "" {
		home = s.Namespace
	}
	return view.Command(cmp.Or(o.Program, "hlnr"), home, s.Namespace, verb, s.Name)
}

// minTable is the minimum width of tables. If the terminal is narrower, each service is written on
// separate lines.
const minTable = 60

// minText is the minimum width for the text that follows the first part of a line. If there is less room, the
// text begins on the next line.
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

// ascii contains the ASCII replacements for the non-ASCII characters that the renderers use.
var ascii = strings.NewReplacer(
	"✔", "+", "◐", "~", "○", "-", "✖", "x", "…", "...", "├", "|", "└", "`", "│", "|", "·", "|", "→", "->", "≤", "<=", "≥", ">=", "–", "-", "—", "-", "“", `"`, "”", `"`, "’", "'",
)

// toASCII replaces the non-ASCII characters that the renderers use. All other non-ASCII characters become
// question marks.
func toASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, ascii.Replace(text))
}

// Clean removes control characters from user text, because these could control the terminal. The result is
// one line. Tabs and line breaks become spaces.
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

// line writes one line. Text that is too wide continues on further lines after the indent.
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

// colors contains the color of each class, as an index into the terminal's palette; empty for the default color.
var colors = map[view.Class]string{view.Waiting: "5", view.Failed: "1", view.Moving: "6", view.Stable: ""}

// paint returns a string in the color of a class.
func (p *page) paint(class view.Class, text string) string {
	if c := colors[class]; p.Color && c != "" && text != "" {
		return lipgloss.NewStyle().Foreground(lipgloss.Color(c)).Render(text)
	}
	return text
}

// faint formats less important text.
func (p *page) faint(text string) string {
	if !p.Color || text == "" {
		return text
	}
	return lipgloss.NewStyle().Faint(true).Render(text)
}

// bold formats important text.
func (p *page) bold(text string) string {
	if !p.Color || text == "" {
		return text
	}
	return lipgloss.NewStyle().Bold(true).Render(text)
}

// mark returns the mark that precedes a state of a class.
func mark(class view.Class) string {
	switch class {
	case view.Waiting:
		return "! "
	case view.Failed:
		return "✖ "
	}
	return ""
}

// marks contains the mark of each status of a release.
var marks = map[string]string{"active": "✔", "canary": "◐", "deprecated": "○", "error": "✖", "pending": "…"}

// short returns a version for columns. It shortens a commit to its first seven digits.
func short(version string) string {
	if len(version) == 40 && strings.Trim(version, "0123456789abcdef") == "" {
		return version[:7]
	}
	return Clean(version)
}

// commands formats the commands of a state so that users can copy them.
func commands(s view.State) string {
	out := make([]string, len(s.Next))
	for i, n := range s.Next {
		out[i] = Clean(n.Command)
	}
	return strings.Join(out, " · ")
}

// age formats the time that has passed since a given time. With the Wide option, it formats the
// given time instead, with its zone.
func (p *page) age(t time.Time) string {
	if p.Wide {
		return t.In(p.Now.Location()).Format("2006-01-02 15:04:05 MST")
	}
	return view.Age(p.Now.Sub(t))
}
