package feedback

import (
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/preview"
)

// chooser gives the filters of the stream's ImagePolicy; nil: they cannot be read,
// and what is offered stays offered.
func (s *stream) chooser() *preview.Chooser {
	var candidates []string
	if s.policy.Spec.Match != nil {
		candidates = s.policy.Spec.Match.Candidates
	}
	c, err := preview.Compile(*s.policy.Spec.Source.GitHub.PullRequests, candidates)
	if err != nil {
		return nil
	}
	return c
}

// headOf gives the commit of a pull request that is to have a preview, whether or not
// its image is there; "" for none. It is the head commit, but where a fork was pushed
// to since it was approved: then it is the approved one, as long as it is offered.
func (s *stream) headOf(chooser *preview.Chooser, pr *v1alpha1.PullRequest) string {
	if pr.State != v1alpha1.PullRequestOpen {
		return ""
	}
	var approved []string
	if chooser != nil {
		choice := chooser.Choose(pr)
		if choice.Taken() {
			return pr.HeadSHA
		}
		if approved = choice.Approved; len(approved) == 0 {
			return ""
		}
	}
	for _, offered := range s.policy.Status.Releases {
		if offered.PullRequest == pr.Number && (chooser == nil || slices.Contains(approved, offered.Revision)) {
			return offered.Revision
		}
	}
	return ""
}
