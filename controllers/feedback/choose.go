package feedback

import (
	"regexp"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// chosen says that an ImagePolicy takes a pull request, as far as the pull request
// itself decides: whether an image is there is another question. Rules that cannot
// be read choose nothing.
func chosen(rules *v1alpha1.GitHubPullRequests, pr *v1alpha1.PullRequest) bool {
	return pr.State == v1alpha1.PullRequestOpen &&
		draftChosen(rules.Draft, pr.Draft) &&
		matches(rules.Base, pr.BaseRef) && matches(rules.Head, pr.HeadRef) &&
		(len(rules.Associations) == 0 || slices.Contains(rules.Associations, pr.Association)) &&
		labelsChosen(rules.Labels, pr.Labels) &&
		(!pr.Fork || forkChosen(rules.Forks, pr))
}

func draftChosen(policy v1alpha1.DraftPolicy, draft bool) bool {
	switch policy {
	case v1alpha1.DraftInclude:
		return true
	case v1alpha1.DraftOnly:
		return draft
	}
	return !draft
}

// matches says that a regular expression matches all of a name; "" matches any.
func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	return err == nil && re.MatchString(name)
}

func labelsChosen(rules *v1alpha1.PullRequestLabels, labels []v1alpha1.PullRequestLabel) bool {
	if rules == nil {
		return true
	}
	on := func(name string) bool {
		return slices.ContainsFunc(labels, func(l v1alpha1.PullRequestLabel) bool { return l.Name == name })
	}
	for _, name := range rules.All {
		if !on(name) {
			return false
		}
	}
	return (len(rules.Any) == 0 || slices.ContainsFunc(rules.Any, on)) && !slices.ContainsFunc(rules.None, on)
}

// forkChosen says whether a pull request from a fork is taken. An approval holds for
// the commit at which the label was put on.
func forkChosen(forks *v1alpha1.Forks, pr *v1alpha1.PullRequest) bool {
	switch {
	case forks == nil:
		return false
	case forks.Policy == v1alpha1.ForksAllow:
		return true
	case forks.Policy == v1alpha1.ForksApproved:
		return slices.ContainsFunc(pr.Labels, func(l v1alpha1.PullRequestLabel) bool {
			return l.Name == forks.Label && l.SHA != "" && l.SHA == pr.HeadSHA
		})
	}
	return false
}
