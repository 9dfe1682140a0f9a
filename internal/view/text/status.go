package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"github.com/heighliner/heighliner/internal/view"
)

// Status writes one line for each group of each service, followed by the counts.
func Status(out io.Writer, b view.Board, o Options) error {
	p := &page{Options: o}
	p.freezes(b.Freezes)
	p.notifications(b.Notifications)
	if len(b.Services) == 0 {
		text := p.nothing("services")
		if b.Counts.Services > 0 {
			text = "none of " + counts(b.Counts)
		}
		p.line("", "", text)
		return p.write(out)
	}
	rows := p.rows(b)
	if p.Width > 0 && p.Width < minTable || !p.fits(rows) {
		p.cards(rows)
	} else {
		p.table(rows)
	}
	p.line("", "", counts(b.Counts))
	return p.write(out)
}

// freezes writes the freezes that apply now, each with the number of services that are waiting for it
// to end.
func (p *page) freezes(list []view.Freeze) {
	for _, f := range list {
		if !f.Active || f.Effect == nil || f.Effect.Services == 0 {
			continue
		}
		text := Clean(f.Sentence) + " (" + f.Kind + " " + Clean(f.Name) + ")"
		if n := len(f.Effect.Waiting); n == 1 {
			text += "; 1 service waits for it to end"
		} else if n > 1 {
			text += fmt.Sprintf("; %d services wait for it to end", n)
		}
		p.line("", "  ", p.paint(view.Moving, text))
	}
}

// notifications writes the NotificationPolicies that do not deliver all messages.
func (p *page) notifications(list []view.NotificationProblem) {
	for _, n := range list {
		name := Clean(n.Name)
		if p.Namespaces {
			name = Clean(n.Namespace) + "/" + name
		}
		p.line("", "  ", p.paint(view.Failed, "NotificationPolicy "+name+": "+Clean(n.Message)))
	}
}

// row is the row of a service or a group.
type row struct {
	namespace, service, group, active, canary, share string
	state                                            view.State
	text                                             string
}

// rows returns the rows of the table. The first row of a service contains the name of the service. If the
// service has no groups and no previews, has a problem itself, or is frozen while no group or preview is, this
// row shows the state of the service.
func (p *page) rows(b view.Board) (out []row) {
	for i := range b.Services {
		s := &b.Services[i]
		first := len(out)
		for _, g := range s.Groups {
			out = append(out, p.groupRow(g))
		}
		if len(s.Previews) > 0 {
			out = append(out, p.previewRow(s))
		}
		if len(out) == first {
			out = append(out, row{state: s.State, text: Clean(s.State.Sentence)})
		}
		r := &out[first]
		r.namespace, r.service = Clean(s.Namespace), Clean(s.Name)
		frozen := func(g view.Group) bool { return g.State.Word == view.WordFrozen }
		if s.State.Word == view.WordProblem || s.State.Word == view.WordFrozen && !slices.ContainsFunc(s.Groups, frozen) && !slices.ContainsFunc(s.Previews, frozen) {
			r.state, r.text = s.State, Clean(s.State.Sentence)
		}
		if s.Paused && s.State.Word != view.WordPaused {
			r.text = "paused, " + r.text
		}
	}
	return out
}

// Row is a row of a table for a group of a service, or for all previews of the service.
type Row struct {
	// Group, Active, Canary, Share and Text are the cells. Text describes the state.
	Group, Active, Canary, Share, Text string
	// State is the state, with the actions that the user can take.
	State view.State
}

// Rows returns the rows of a service: one for each group and one for all previews, but at least one.
func Rows(s view.Service) (out []Row) {
	for _, r := range (&page{}).rows(view.Board{Services: []view.Service{s}}) {
		out = append(out, Row{Group: r.group, Active: r.active, Canary: r.canary, Share: r.share, Text: r.text, State: r.state})
	}
	return out
}

func (p *page) groupRow(g view.Group) row {
	r := row{group: Clean(g.Name), active: short(g.Active), canary: short(g.Canary), state: g.State, text: Clean(g.State.Sentence)}
	if g.CanaryWeight != nil {
		r.share = fmt.Sprintf("%d%%", *g.CanaryWeight)
		if slices.ContainsFunc(g.Releases, func(x view.Release) bool { return x.Version == g.Canary && x.Share.Since != nil }) {
			r.share = "requested " + r.share // The weight is not programmed yet.
		}
	}
	if v := short(g.State.Version); (g.State.Class == view.Failed || g.State.Word == view.WordAborted) && v != "" && v != r.canary && !strings.HasPrefix(r.text, v) {
		r.text = v + " " + r.text
	}
	return r
}

// previewRow counts the previews of a service, and shows the state of the preview that needs the most attention.
func (p *page) previewRow(s *view.Service) row {
	best, n := s.Previews[0], map[view.Class]int{}
	for _, g := range s.Previews {
		n[g.State.Class]++
		if n[g.State.Class] == 1 && rank(g.State.Class) < rank(best.State.Class) {
			best = g
		}
	}
	r := row{group: fmt.Sprintf("%d previews", len(s.Previews)), state: best.State}
	if len(s.Previews) == 1 {
		r.group = "1 preview"
	}
	r.state.Next = []view.Action{{Verb: "previews", Command: p.command("previews", s)}}
	switch c := best.State.Class; c {
	case view.Stable:
		r.text, r.state.Next = "all active", nil
	default:
		r.text = fmt.Sprintf("%d of them: pr-%d %s", n[c], best.PullRequest.Number, Clean(best.State.Sentence))
	}
	return r
}

func rank(c view.Class) int {
	return map[view.Class]int{view.Waiting: 0, view.Failed: 1, view.Moving: 2, view.Stable: 3}[c]
}

func (r row) cells(namespaces bool) []string {
	out := []string{cmp.Or(r.service, ""), r.group, r.active, r.canary, r.share}
	if namespaces {
		out = append([]string{r.namespace}, out...)
	}
	return out
}

func (p *page) headers() []string {
	out := []string{"SERVICE", "GROUP", "ACTIVE", "CANARY", "SHARE", "STATE"}
	if p.Namespaces {
		out = append([]string{"NAMESPACE"}, out...)
	}
	return out
}

// before returns the total width of the columns before the state.
func (p *page) before(rows []row) int {
	headers := p.headers()
	widths := make([]int, len(headers)-1)
	for i := range widths {
		widths[i] = lipgloss.Width(headers[i])
	}
	total := 0
	for _, r := range rows {
		for i, c := range r.cells(p.Namespaces) {
			widths[i] = max(widths[i], lipgloss.Width(c))
		}
	}
	for _, w := range widths {
		total += w + gap
	}
	return total
}

// gap is the space between columns, and minState is the minimum width of the last column.
const (
	gap      = 3
	minState = 24
)

// fits reports whether the table leaves enough room for the states.
func (p *page) fits(rows []row) bool { return p.Width == 0 || p.before(rows)+minState <= p.Width }

// table writes all rows. It truncates states that are too wide. Commands that do not fit next to the state
// are written on a separate line.
func (p *page) table(rows []row) {
	room := 0
	if p.Width > 0 {
		room = p.Width - p.before(rows)
	}
	t := newTable(p).Headers(p.headers()...)
	below := make([]string, len(rows))
	for i, r := range rows {
		text, next := mark(r.state.Class)+r.text, commands(r.state)
		if !proposes(r.state) {
			next = ""
		}
		switch {
		case next == "":
		case room == 0 || lipgloss.Width(text)+gap+lipgloss.Width(next) <= room:
			text += strings.Repeat(" ", gap) + next
		default:
			below[i] = next
		}
		if room > 0 {
			text = cut(text, room)
		}
		t.Row(append(r.cells(p.Namespaces), p.paint(r.state.Class, text))...)
	}
	lines := strings.Split(strings.TrimRight(t.Render(), "\n"), "\n")
	for i, l := range lines {
		p.b.WriteString(strings.TrimRight(l, " ") + "\n")
		if i > 0 && i-1 < len(below) && below[i-1] != "" {
			p.line("    ", "    ", below[i-1])
		}
	}
}

// proposes reports whether the commands of a state are shown. They are shown if the state
// requires a user action or results from a pin.
func proposes(s view.State) bool {
	return s.Class == view.Waiting || s.Class == view.Failed || s.Word == view.WordPinned
}

// newTable returns a table without borders, with a gap after each column except the last.
func newTable(p *page) *table.Table {
	return table.New().Border(lipgloss.HiddenBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderHeader(false).BorderColumn(false).BorderRow(false).Wrap(false).
		StyleFunc(func(row, _ int) lipgloss.Style {
			style := lipgloss.NewStyle().PaddingRight(gap)
			if row == table.HeaderRow && p.Color {
				style = style.Bold(true)
			}
			return style
		})
}

// cut truncates a string to a maximum width.
func cut(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if lipgloss.Width(b.String())+lipgloss.Width(string(r)) >= width {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// cards writes each row on separate lines, for narrow terminals.
func (p *page) cards(rows []row) {
	for _, r := range rows {
		name := r.service
		if p.Namespaces && r.namespace != "" {
			name = r.namespace + "/" + name
		}
		head := strings.Join(filled(name, r.group, r.active), " ")
		if r.canary != "" {
			head += " → " + strings.Join(filled(r.canary, r.share), " ")
		}
		indent := "  "
		if name == "" {
			head = "  " + head
		}
		p.line("", indent, p.bold(head))
		p.line(indent, indent, p.paint(r.state.Class, mark(r.state.Class)+r.text))
		if proposes(r.state) {
			for _, n := range r.state.Next {
				p.line(indent, indent, Clean(n.Command))
			}
		}
	}
}

// filled returns the strings that are not empty.
func filled(texts ...string) (out []string) {
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}

// counts formats the counts of a board: "5 services: 1 waits for you, 1 failed, 1 moving".
func counts(c view.Counts) string {
	text := fmt.Sprintf("%d services", c.Services)
	if c.Services == 1 {
		text = "1 service"
	}
	var parts []string
	for _, x := range []struct {
		n         int
		one, many string
	}{{c.Waiting, "waits for you", "wait for you"}, {c.Failed, "failed", "failed"}, {c.Moving, "moving", "moving"}, {c.Unreconciled, "not reconciled yet", "not reconciled yet"}} {
		switch {
		case x.n == 1:
			parts = append(parts, "1 "+x.one)
		case x.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.many))
		}
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}
