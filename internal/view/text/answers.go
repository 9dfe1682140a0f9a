package text

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/heighliner/heighliner/internal/view"
)

// History writes a table of past rollouts.
func History(out io.Writer, h view.History, o Options) error {
	p := &page{Options: o}
	if len(h.Rollouts) == 0 {
		p.line("", "", "no releases")
		return p.write(out)
	}
	rows := make([][]string, 0, len(h.Rollouts))
	for _, r := range h.Rollouts {
		started, took, who := "", "", "policy"
		if r.Result.Word == view.WordPinned {
			who = strings.TrimSpace("pin " + by(r.Result.By))
		}
		if r.Started != nil {
			started = view.Clock(r.Started.Time, p.Now)
			if p.Wide {
				started = p.age(r.Started.Time)
			}
		}
		if r.Duration > 0 {
			took = view.Span(time.Duration(r.Duration) * time.Second)
		}
		if d := r.Decision; d != nil {
			who = strings.TrimSpace(strings.ToLower(d.Action) + " " + by(cmp.Or(d.By, "an unnamed user")))
		}
		rows = append(rows, []string{short(r.Version), Clean(r.Group), started, took, who, marks[r.Status] + " " + Clean(r.Result.Sentence)})
	}
	p.grid([]string{"VERSION", "GROUP", "STARTED", "DURATION", "DECIDED", "RESULT"}, rows)
	return p.write(out)
}

// grid writes a table. If the table is too wide, it writes the cells of each row one after another, without columns.
func (p *page) grid(headers []string, rows [][]string) {
	total := 0
	for i := range headers {
		w := lipgloss.Width(headers[i])
		for _, r := range rows {
			if i < len(headers)-1 {
				w = max(w, lipgloss.Width(r[i]))
			}
		}
		total += w + gap
	}
	if p.Width > 0 && (p.Width < minTable || total+minState > p.Width) {
		for _, r := range rows {
			p.line("", "  ", strings.Join(filled(r...), "  "))
		}
		return
	}
	t := newTable(p).Headers(headers...)
	for _, r := range rows {
		last := len(r) - 1
		if p.Width > 0 {
			r[last] = cut(r[last], p.Width-total+lipgloss.Width(headers[last])+gap)
		}
		t.Row(r...)
	}
	for l := range strings.SplitSeq(strings.TrimRight(t.Render(), "\n"), "\n") {
		p.b.WriteString(strings.TrimRight(l, " ") + "\n")
	}
}

// Previews writes a table of previews.
func Previews(out io.Writer, v view.Previews, o Options) error {
	p := &page{Options: o}
	var rows [][]string
	for _, s := range v.Services {
		name := Clean(s.Name)
		if p.Namespaces {
			name = Clean(s.Namespace) + "/" + name
		}
		for _, g := range s.Previews {
			r, url := g.PullRequest, ""
			for _, h := range g.Hosts {
				if h.Programmed {
					url = Clean(cmp.Or(h.URL, h.Host))
					break
				}
			}
			state := mark(g.State.Class) + Clean(g.State.Sentence)
			if r.Until != nil {
				state += ", until " + view.Clock(r.Until.Time, p.Now)
			}
			rows = append(rows, []string{name, fmt.Sprintf("pr-%d", r.Number), cut(Clean(r.Title), 30), Clean(r.Author), short(cmp.Or(g.Active, r.Head)), url, p.paint(g.State.Class, state)})
		}
	}
	if len(rows) == 0 {
		p.line("", "", p.nothing("previews"))
		return p.write(out)
	}
	p.grid([]string{"SERVICE", "PREVIEW", "TITLE", "AUTHOR", "COMMIT", "URL", "STATE"}, rows)
	return p.write(out)
}

// Events writes one line with aligned columns for each event, the newest last.
func Events(out io.Writer, v view.Events, o Options) error {
	p := &page{Options: o}
	if len(v.Events) == 0 {
		p.line("", "", p.nothing("events")+"; the API server keeps events for an hour by default")
	}
	ages, reasons, objects := 0, 0, 0
	for _, e := range v.Events {
		ages, reasons = max(ages, lipgloss.Width(p.age(e.Time.Time))), max(reasons, lipgloss.Width(Clean(e.Reason)))
		objects = max(objects, lipgloss.Width(p.objectOf(e)))
	}
	for _, e := range v.Events {
		class := view.Stable
		if e.Type == "Warning" {
			class = view.Failed
		}
		text := padded(p.age(e.Time.Time), ages) + padded(p.paint(class, Clean(e.Reason)), reasons) + padded(p.objectOf(e), objects) + Clean(e.Note)
		if e.Count > 1 {
			text += fmt.Sprintf(" (%d times)", e.Count)
		}
		p.line("", "    ", text)
	}
	return p.write(out)
}

// objectOf returns the object of an event.
func (p *page) objectOf(e view.Event) string {
	if p.Namespaces {
		return Clean(e.Namespace) + "/" + Clean(e.Object)
	}
	return Clean(e.Object)
}

// padded pads a string with spaces to a width, and appends two spaces.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-lipgloss.Width(text))+2)
}

// Changes writes one line for each change to a service.
func Changes(out io.Writer, changes []view.Change, o Options) error {
	p := &page{Options: o}
	for _, c := range changes {
		at := p.Now.Format("15:04:05")
		if p.Wide {
			at = p.Now.Format(time.RFC3339)
		}
		p.line("", "          ", at+"  "+Clean(c.Group)+"  "+short(c.Version)+"  "+p.paint(c.Class, Clean(c.Text)))
	}
	return p.write(out)
}
