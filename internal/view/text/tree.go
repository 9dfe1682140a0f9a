package text

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// TreeOptions define which parts of a service are shown.
type TreeOptions struct {
	// Pods lists each pod. Without this option, only the pods that are not ready are listed.
	Pods bool
	// All includes releases that are not retained, all previews, and rejected versions.
	All bool
}

// maxPreviews is the maximum number of previews in a tree without All.
const maxPreviews = 5

// Tree writes a service with its groups, releases, CronJobs and problems.
func Tree(out io.Writer, s view.Service, o Options, t TreeOptions) error {
	p := &page{Options: o}
	p.head(s)
	for _, g := range s.Groups {
		p.b.WriteString("\n")
		p.group(g, g.Name, t)
	}
	shown := s.Previews
	if !t.All && len(shown) > maxPreviews {
		shown = slices.Clone(shown)
		slices.SortStableFunc(shown, func(a, b view.Group) int { return cmp.Compare(rank(a.State.Class), rank(b.State.Class)) })
		shown = shown[:maxPreviews]
	}
	for _, g := range shown {
		p.b.WriteString("\n")
		p.group(g, fmt.Sprintf("pr-%d", g.PullRequest.Number), t)
	}
	if n := len(s.Previews) - len(shown); n > 0 {
		p.line("", "", p.faint(fmt.Sprintf("and %d more previews: use --all, or %s", n, Clean(p.command("previews", &s)))))
	}
	p.followers(s)
	p.problems(s)
	if t.All {
		p.rejected(s)
	}
	return p.write(out)
}

// followers writes the CronJobs that follow the service.
func (p *page) followers(s view.Service) {
	if len(s.Followers) > 0 {
		p.b.WriteString("\n")
	}
	for _, f := range s.Followers {
		text, class := Clean(cmp.Or(f.Message, "is not handled by the manager yet")), view.Stable
		switch {
		case f.Release == "":
			class = view.Moving
		case f.Version != "":
			text = "follows " + Clean(f.Version)
			if f.Suspended {
				text += ", suspended"
			}
		}
		p.line("", "  ", "CronJob "+p.bold(Clean(f.Name))+"  "+p.paint(class, text))
	}
}

// head writes the name of a service, the number of its rollouts in progress, and its state.
func (p *page) head(s view.Service) {
	name, n := Clean(s.Name), 0
	if p.Namespaces {
		name = Clean(s.Namespace) + "/" + name
	}
	for _, g := range slices.Concat(s.Groups, s.Previews) {
		if g.Canary != "" {
			n++
		}
	}
	parts := []string{p.bold(name)}
	switch {
	case n == 1:
		parts = append(parts, "1 rollout")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d rollouts", n))
	}
	if s.Paused {
		parts = append(parts, "paused")
	}
	text := Headline(s)
	if s.State.Word != view.WordPaused {
		parts = append(parts, p.paint(s.State.Class, text))
	}
	p.line("", "  ", strings.Join(parts, " · "))
	for _, f := range s.Freezes {
		p.line("  ", "    ", p.paint(view.Moving, Clean(f.Sentence)+" ("+f.Kind+" "+Clean(f.Name)+")"))
	}
}

// group writes a group with its hosts and releases.
func (p *page) group(g view.Group, name string, t TreeOptions) {
	p.line("", "  ", strings.Join(append([]string{p.bold(Clean(name))}, p.hosts(g)...), "  "))
	if r := g.PullRequest; r != nil && (r.Title != "" || r.Author != "") {
		p.line("  ", "  ", p.faint(strings.Join(filled(quoted(r.Title), by(r.Author)), " ")))
	}
	shown := make([]view.Release, 0, len(g.Releases))
	for _, r := range g.Releases {
		if r.Status != "deprecated" || r.Retained || t.All {
			shown = append(shown, r)
		}
	}
	order := []string{"active", "canary", "pending", "error", "deprecated"}
	slices.SortStableFunc(shown, func(a, b view.Release) int {
		return cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status))
	})
	if len(shown) == 0 {
		p.line(" └ ", "   ", p.paint(g.State.Class, Clean(g.State.Sentence)))
		return
	}
	widths := columns(p, shown)
	for i, r := range shown {
		branch, stem := " ├ ", " │ "
		if i == len(shown)-1 {
			branch, stem = " └ ", "   "
		}
		p.release(r, branch, stem, widths, t)
	}
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%q", Clean(text))
}

func by(author string) string {
	if author == "" {
		return ""
	}
	return "by " + Clean(author)
}

// hosts returns the hosts of a group, with the reason if a host is not programmed.
func (p *page) hosts(g view.Group) (out []string) {
	for _, h := range g.Hosts {
		text := Clean(cmp.Or(h.URL, h.Host+h.Path))
		if !h.Programmed {
			text += " (" + Clean(cmp.Or(h.Message, h.Reason, "not programmed")) + ")"
			text = p.paint(view.Failed, text)
		}
		out = append(out, text)
	}
	return out
}

// cells returns the cells of a release: mark and version, status, share, pods, age.
func (p *page) cells(r view.Release) []string {
	share, pods, age := "–", "", ""
	if r.Share.Asked != nil && (r.Status == "active" || r.Status == "canary") {
		share = r.Share.String(p.Now)
	}
	if r.Pods != nil {
		pods = fmt.Sprintf("%d/%d pods", r.Pods.Available, r.Pods.Wanted)
		if r.Pods.Wanted == 0 {
			pods = "0 pods"
		}
	}
	if r.Since != nil {
		age = p.age(r.Since.Time)
	}
	return []string{marks[r.Status] + " " + short(r.Version), r.Status, share, pods, age}
}

// columns returns the width of each column in the rows of releases.
func columns(p *page, releases []view.Release) []int {
	widths := make([]int, 5)
	for _, r := range releases {
		for i, c := range p.cells(r) {
			widths[i] = max(widths[i], lipgloss.Width(c))
		}
	}
	return widths
}

// release writes a release on one line, and the state of its rollout on the following lines.
func (p *page) release(r view.Release, branch, stem string, widths []int, t TreeOptions) {
	var b strings.Builder
	narrow := p.Width > 0 && p.Width < minTable
	for i, c := range p.cells(r) {
		space := max(0, widths[i]-lipgloss.Width(c))
		if i == 0 {
			c = p.paint(classOf(r), c)
		}
		if narrow {
			space = 0
		}
		if c == "" && narrow {
			continue
		}
		b.WriteString(c + strings.Repeat(" ", space) + "  ")
	}
	b.WriteString(p.paint(r.State.Class, Sentence(r)))
	p.line(branch, stem+"  ", b.String())
	inner := stem + "   "
	if r.Rollout != nil {
		p.rollout(r, inner)
	} else if next := commands(r.State); next != "" {
		p.line(inner, inner, next)
	}
	if p.Wide {
		for _, image := range r.Images {
			p.line(inner, inner, p.faint(Clean(image)))
		}
	}
	p.pods(r, inner, t)
}

// classOf returns the class that determines the color of a release's mark.
func classOf(r view.Release) view.Class {
	switch r.Status {
	case "error":
		return view.Failed
	case "canary", "pending":
		return view.Moving
	}
	return view.Stable
}

// Headline returns the state of a service, with the version that the state is about.
func Headline(s view.Service) string {
	text := Clean(s.State.Sentence)
	if v := short(s.State.Version); v != "" && s.State.Word != view.WordPinned && s.State.Class != view.Moving && !strings.Contains(text, v) {
		text = v + " " + text
	}
	return text
}

// Sentence returns the sentence that describes a release, without the words that its status already
// shows.
func Sentence(r view.Release) string {
	text := Clean(r.State.Sentence)
	switch r.State.Word {
	case view.WordActive:
		text = "deployed by policy"
		if d := r.Decision; d != nil && d.Outcome == "Applied" && d.By != "" {
			text = strings.ToLower(d.Action) + " by " + Clean(d.By)
		}
		if r.Commit != "" {
			text += ", from " + Clean(r.Commit[:min(8, len(r.Commit))])
		}
		if r.State.Detail != "" {
			text = Clean(r.State.Detail)
		}
	case view.WordRetained:
		text = "retained for rollback"
	}
	if s := r.Rollout; s != nil && s.Step > 0 && !strings.HasPrefix(text, "step ") {
		text = fmt.Sprintf("step %d of %d, %s", s.Step, s.Steps, text)
	}
	return text
}

// checkMarks contains the mark of each result of a check.
var checkMarks = map[view.CheckResult]string{view.CheckPassed: "✔", view.CheckWaiting: "…", view.CheckFailed: "✖"}

// rollout writes the checks of the current step of a release, the next steps, and the actions that
// the user can take.
func (p *page) rollout(r view.Release, indent string) {
	var checks []string
	for _, c := range r.Rollout.Checks {
		checks = append(checks, checkMarks[c.Result]+" "+Clean(c.Message))
	}
	if len(checks) > 0 {
		p.line(indent, indent, strings.Join(checks, "   "))
	}
	next := make([]string, len(r.Rollout.Next))
	for i, w := range r.Rollout.Next {
		next[i] = fmt.Sprintf("%d%%", w)
	}
	text := "next: " + strings.Join(next, ", then ")
	if c := commands(r.State); c != "" {
		text += "   " + c
	}
	p.line(indent, indent, text)
}

// pods writes the pods of a release, either only the pods that are not ready or all pods.
func (p *page) pods(r view.Release, indent string, t TreeOptions) {
	if r.Pods == nil {
		return
	}
	for _, pod := range r.Pods.Pods {
		if pod.Ready && !t.Pods {
			continue
		}
		text := Clean(pod.Name) + "  " + Clean(pod.Phase)
		if pod.Ready {
			text = Clean(pod.Name) + "  ready"
		}
		if pod.Restarts > 0 {
			text += fmt.Sprintf("  %d restarts", pod.Restarts)
		}
		if pod.Message != "" && !pod.Ready {
			text += ": " + Clean(pod.Message)
		}
		p.line(indent, indent+"  ", p.faint(text))
	}
}

// shownByStates contains the reasons of those problems that the sentences about releases already
// describe.
var shownByStates = []string{"ReleaseFailed", "Blocked", "TogetherHeld", "AnalysisInconclusive", "AnalysisNoTraffic"}

// problems writes a service's problems, except those that the states above already show.
func (p *page) problems(s view.Service) {
	first := true
	for _, x := range s.Problems {
		if slices.Contains(shownByStates, x.Reason) || x.Condition == v1alpha1.ConditionFrozen && s.State.Word == view.WordFrozen || strings.Contains(s.State.Sentence, x.Message) {
			continue
		}
		if first {
			p.b.WriteString("\n")
			first = false
		}
		p.line("! ", "  ", p.paint(view.Failed, Clean(x.Object+" "+x.Reason+": "+x.Message)))
	}
}

// rejected writes the rejected versions of a service.
func (p *page) rejected(s view.Service) {
	if s.Discovery == nil || len(s.Discovery.Rejected) == 0 {
		return
	}
	p.b.WriteString("\n")
	p.line("", "  ", "rejected by ImagePolicy "+Clean(s.Discovery.Policy)+":")
	for _, v := range s.Discovery.Rejected {
		p.line("  ", "    ", Clean(v.Version+"  "+v.Verdict+"  "+v.Reason))
	}
}
