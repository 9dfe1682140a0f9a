package text

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/heighliner/heighliner/internal/view"
)

// Why writes an answer: the summary, the lines of the explanation, and the next action.
func Why(out io.Writer, a view.Answer, o Options) error {
	p := &page{Options: o}
	class := map[view.Result]view.Class{view.Serving: view.Stable, view.NotServing: view.Failed, view.ForPerson: view.Waiting}[a.Result]
	p.line("", "", p.paint(class, Clean(a.Summary)))
	if len(a.Lines) > 0 {
		p.b.WriteString("\n")
	}
	names, texts := 0, 0
	for _, l := range a.Lines {
		names, texts = max(names, lipgloss.Width(l.Name)), max(texts, min(maxText, lipgloss.Width(Clean(l.Text))))
	}
	for _, l := range a.Lines {
		first := "  " + Clean(l.Name) + strings.Repeat(" ", names-lipgloss.Width(l.Name)) + "  "
		text := Clean(l.Text)
		if l.Object != "" {
			text += strings.Repeat(" ", max(0, texts-lipgloss.Width(text))) + "   " + p.faint(Clean(l.Object))
		}
		indent := strings.Repeat(" ", lipgloss.Width(first))
		if p.Width > 0 && p.Width < minTable {
			first, indent = "  "+Clean(l.Name)+" ", "    "
		}
		p.line(first, indent, text)
	}
	if a.Do != "" {
		p.b.WriteString("\n")
		p.line("", "", Clean(a.Do))
	}
	return p.write(out)
}

// maxText is the maximum width of the aligned text of a line. If the text is wider, the object of the line is not aligned with the
// objects of other lines.
const maxText = 72
