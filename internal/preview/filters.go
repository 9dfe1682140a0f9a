package preview

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/version"
)

// These are the verdicts on pull requests that are not offered.
const (
	// VerdictPullRequest means that the labels, a branch, the draft state or the author's association do not match the filters.
	VerdictPullRequest version.Verdict = "PullRequest"
	// VerdictFork means that the pull request is from a fork, and its head commit is neither allowed nor approved.
	VerdictFork version.Verdict = "Fork"
)

// Chooser applies the filters of spec.source.github.pullRequests. It is immutable
// and safe for concurrent use.
type Chooser struct {
	spec       v1alpha1.GitHubPullRequests
	base, head *regexp.Regexp // nil matches any
	candidates []string
}

// DefaultCandidates are the defaults of spec.match.candidates.
var DefaultCandidates = []string{"pr-{{.Number}}-{{.SHA7}}", "sha-{{.SHA7}}", "{{.SHA}}", "pr-{{.Number}}"}

// Compile compiles the filters and the tag templates, which default to DefaultCandidates.
// The error contains the path of the first invalid field.
func Compile(spec v1alpha1.GitHubPullRequests, candidates []string) (*Chooser, error) {
	const field = "spec.source.github.pullRequests."
	c := &Chooser{spec: spec, candidates: candidates}
	if len(candidates) == 0 {
		c.candidates = DefaultCandidates
	}
	var err error
	if c.base, err = whole(field+"base", spec.Base); err != nil {
		return nil, err
	}
	if c.head, err = whole(field+"head", spec.Head); err != nil {
		return nil, err
	}
	every := Vars{SHA: strings.Repeat("0", 40), Number: "1", Branch: "main"}
	for i, text := range c.candidates {
		if _, err := every.Expand(text); err != nil {
			return nil, fmt.Errorf("spec.match.candidates[%d]: %w: write {{.Number}}, {{.SHA}}, {{.SHA7}} or {{.Branch}}", i, err)
		}
		if !namesPull(text) {
			return nil, fmt.Errorf("spec.match.candidates[%d]: %q can produce the same tag for several pull requests: add {{.Number}}, {{.SHA}} or {{.SHA7}} to it", i, text)
		}
	}
	return c, nil
}

// whole compiles a pattern that must match a whole name. It returns nil for an empty pattern.
func whole(field, pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, fmt.Errorf("%s: %q is not a valid regular expression: use RE2 syntax, which has no lookaround and no backreferences", field, pattern)
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}

// Choice is the decision about whether the current head commit of a pull request is offered.
type Choice struct {
	// Verdict identifies the filter that rejects the pull request. It is empty if the pull request is selected.
	Verdict version.Verdict
	// Reason is the reason for the rejection, on one line. It is deterministic.
	Reason string
	// Approved are the commits of a fork that the labels of the pull request approve. Releases of these
	// commits may remain offered. If the head commit is selected and Approved is nil, releases of earlier
	// commits may remain offered too: either no commit needs approval, or the label identifies only the commit
	// that was approved most recently, and whether earlier commits were approved is not known.
	Approved []string
}

// Taken reports whether the head commit is selected.
func (c Choice) Taken() bool { return c.Verdict == "" }

// Choose applies the filters to an open pull request.
func (c *Chooser) Choose(pr *v1alpha1.PullRequest) Choice {
	for _, refuses := range []func(*v1alpha1.PullRequest) string{c.byLabels, c.byBranches, c.byDraft, c.byAuthor} {
		if reason := refuses(pr); reason != "" {
			return Choice{Verdict: VerdictPullRequest, Reason: reason}
		}
	}
	return c.byFork(pr)
}

func (c *Chooser) byLabels(pr *v1alpha1.PullRequest) string {
	wanted := c.spec.Labels
	if wanted == nil {
		return ""
	}
	for _, name := range wanted.All {
		if !carries(pr, name) {
			return fmt.Sprintf("it lacks the label %q (labels.all)", name)
		}
	}
	if len(wanted.Any) > 0 && !slices.ContainsFunc(wanted.Any, func(name string) bool { return carries(pr, name) }) {
		return "it has none of the labels in labels.any"
	}
	for _, name := range wanted.None {
		if carries(pr, name) {
			return fmt.Sprintf("it has the label %q (labels.none)", name)
		}
	}
	return ""
}

func carries(pr *v1alpha1.PullRequest, name string) bool {
	return slices.ContainsFunc(pr.Labels, func(l v1alpha1.PullRequestLabel) bool { return strings.EqualFold(l.Name, name) })
}

func (c *Chooser) byBranches(pr *v1alpha1.PullRequest) string {
	switch {
	case c.base != nil && !c.base.MatchString(pr.BaseRef):
		return fmt.Sprintf("its base branch %q does not match base %q", pr.BaseRef, c.spec.Base)
	case c.head != nil && !c.head.MatchString(pr.HeadRef):
		return fmt.Sprintf("its head branch %q does not match head %q", pr.HeadRef, c.spec.Head)
	}
	return ""
}

func (c *Chooser) byDraft(pr *v1alpha1.PullRequest) string {
	switch policy := cmp.Or(c.spec.Draft, v1alpha1.DraftExclude); {
	case policy == v1alpha1.DraftExclude && pr.Draft:
		return "it is a draft, and draft is Exclude"
	case policy == v1alpha1.DraftOnly && !pr.Draft:
		return "it is not a draft, and draft is Only"
	}
	return ""
}

func (c *Chooser) byAuthor(pr *v1alpha1.PullRequest) string {
	if len(c.spec.Associations) == 0 || slices.Contains(c.spec.Associations, pr.Association) {
		return ""
	}
	return fmt.Sprintf("the association of its author, %q, is not in associations", cmp.Or(pr.Association, "None"))
}

// Pushed returns the time at which the head commit was pushed. If that is not known, it returns the
// earliest time at which images of the commit can exist. It returns nil if neither is known.
func Pushed(pr *v1alpha1.PullRequest) *metav1.Time {
	if pr.PushTime != nil {
		return pr.PushTime
	}
	return pr.HeadTime
}

// Newest orders pull requests by their latest push, newest first. Pull requests without a known push time
// come last. Among pull requests with the same push time, the one with the higher number comes first.
func Newest(a, b *v1alpha1.PullRequest) int {
	var pushA, pushB int64
	if t := Pushed(a); t != nil {
		pushA = t.UnixNano()
	}
	if t := Pushed(b); t != nil {
		pushB = t.UnixNano()
	}
	return cmp.Or(cmp.Compare(pushB, pushA), cmp.Compare(b.Number, a.Number))
}
