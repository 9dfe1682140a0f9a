package preview

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// forks returns the policy for forks. By default, forks are denied.
func (c *Chooser) forks() v1alpha1.Forks {
	if c.spec.Forks == nil {
		return v1alpha1.Forks{Policy: v1alpha1.ForksDeny}
	}
	return *c.spec.Forks
}

// NeedsApproval reports whether each commit of a pull request needs approval.
func (c *Chooser) NeedsApproval(pr *v1alpha1.PullRequest) bool {
	return pr.Fork && c.forks().Policy == v1alpha1.ForksApproved
}

func (c *Chooser) byFork(pr *v1alpha1.PullRequest) Choice {
	switch forks := c.forks(); {
	case !pr.Fork || forks.Policy == v1alpha1.ForksAllow:
		return Choice{}
	case forks.Policy != v1alpha1.ForksApproved:
		return Choice{Verdict: VerdictFork, Reason: "it is from a fork, and forks.policy is Deny"}
	case !slices.ContainsFunc(c.candidates, func(text string) bool { return names(text, "SHA") }):
		return Choice{Verdict: VerdictFork, Reason: "no tag in match.candidates contains the full commit SHA, which forks.policy Approved requires for images from forks: add one with {{.SHA}}"}
	case names(forks.Label, "SHA"):
		return approvedByName(pr, forks.Label)
	default:
		return approved(pr, forks.Label)
	}
}

// wholeCommit matches a full commit SHA.
const wholeCommit = `([0-9a-f]{40}|[0-9a-f]{64})`

// approvedByName checks whether a pull request from a fork has a label that contains the SHA of its head commit.
// The time at which the label was added does not matter.
func approvedByName(pr *v1alpha1.PullRequest, template string) Choice {
	before, after, _ := strings.Cut(template, "{{.SHA}}")
	label := regexp.MustCompile(`(?i)^` + regexp.QuoteMeta(before) + wholeCommit + regexp.QuoteMeta(after) + `$`)
	var approved []string
	for _, l := range pr.Labels {
		if match := label.FindStringSubmatch(l.Name); match != nil {
			approved = append(approved, strings.ToLower(match[1]))
		}
	}
	if slices.Contains(approved, pr.HeadSHA) {
		return Choice{Approved: approved}
	}
	return Choice{Verdict: VerdictFork, Approved: approved,
		Reason: fmt.Sprintf("it is from a fork, and does not have the label that approves its commit: review commit %s, and add the label %q", pr.HeadSHA, before+pr.HeadSHA+after)}
}

// approved checks whether a pull request from a fork has the label that approves its head commit. The label
// approves the commit that was the head commit when the label was first observed.
func approved(pr *v1alpha1.PullRequest, label string) Choice {
	for _, l := range pr.Labels {
		switch {
		case !strings.EqualFold(l.Name, label):
		case l.SHA == pr.HeadSHA && l.SHA != "":
			return Choice{}
		case l.SHA == "":
			return Choice{Verdict: VerdictFork,
				Reason: fmt.Sprintf("the label %q does not approve a commit, because the time at which it was added is not known: review the head commit, remove the label, and add it again after the next poll", label)}
		default:
			return Choice{Verdict: VerdictFork, Approved: []string{l.SHA},
				Reason: fmt.Sprintf("the label %q approves an earlier commit: review the new one, remove the label, and add it again after the next poll", label)}
		}
	}
	return Choice{Verdict: VerdictFork, Reason: fmt.Sprintf("it is from a fork, and lacks the label %q that approves its commit", label)}
}
