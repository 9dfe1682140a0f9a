package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/preview"
)

// repository returns the objects from which the versions of a service come. It returns nil for objects that do
// not exist or were not read.
func (s *service) repository() (*v1alpha1.ImagePolicy, *v1alpha1.GitHubRepository) {
	p := s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]
	if p == nil {
		return nil, nil
	}
	k, ok := p.GitHubRepositoryKey()
	if !ok {
		return p, nil
	}
	return p, s.repos[k]
}

// endState returns the state of a closing group, or of an expired preview that is still waiting for hooks. This is also the
// state of the release for which the PostPreview hooks of the group are called.
func (s *service) endState(g *v1alpha1.ReleaseGroup) State {
	x := State{Word: WordDraining, Class: Moving, Detail: s.endHooks(g)}
	if g.End != nil {
		x.Since = micros(&g.End.Time)
	}
	return x
}

// endHooks describes the wait for the PostPreview hooks of a preview or, before that, for Jobs of other hooks. It returns "" if there is no
// such wait.
func (s *service) endHooks(g *v1alpha1.ReleaseGroup) string {
	if g.End == nil {
		for i := range g.Releases {
			if text := s.activeJobs(g, &g.Releases[i]); text != "" {
				return text
			}
		}
		return ""
	}
	text := "it waits for its hooks of type PostPreview"
	if o := s.release(g.End.Release); o != nil {
		for _, h := range o.Status.Hooks {
			if h.Type == v1alpha1.HookPostPreview && h.Phase == v1alpha1.HookWaiting && h.Message != "" {
				text += ": " + h.Message
			}
		}
	}
	return text
}

// activeJobs describes why a draining release is waiting if Jobs of its hooks have not ended. It returns "" if there are
// no such Jobs.
func (s *service) activeJobs(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) string {
	o := s.release(row.VersionedMicroservice)
	switch {
	case o == nil || o.Status.ActiveJobs == 0:
		return ""
	case g.Phase == v1alpha1.GroupLive:
		return "it waits until the Jobs of its hooks have ended"
	}
	return "it waits until the Jobs of its hooks other than PostPreview have ended" // These are hook Jobs that run before the hooks of type PostPreview.
}

// pullRequest returns the known fields of a preview's pull request.
func (s *service) pullRequest(g *v1alpha1.ReleaseGroup) *PullRequest {
	out := &PullRequest{Number: g.PullRequest, Head: g.Head, Pushed: micros(g.HeadTime)}
	if n, ok := preview.Number(g.Slug); ok && out.Number == 0 {
		out.Number = n
	}
	policy, repo := s.repository()
	if policy != nil {
		for _, r := range policy.Status.Releases {
			if r.PullRequest == out.Number && out.Number > 0 {
				out.Fork, out.URL = r.Fork, r.URL
			}
		}
	}
	if repo != nil {
		for i := range repo.Status.PullRequests {
			if pr := &repo.Status.PullRequests[i]; pr.Number == out.Number {
				out.fill(pr)
			}
		}
	}
	s.limit(out)
	return out
}

// fill sets the fields that GitHub reports about a pull request.
func (p *PullRequest) fill(pr *v1alpha1.PullRequest) {
	p.Title, p.Author, p.Fork = pr.Title, pr.Author, pr.Fork
	p.Head = cmp.Or(p.Head, pr.HeadSHA)
	if p.Pushed == nil {
		p.Pushed = metas(pr.PushTime)
	}
	if pr.State == v1alpha1.PullRequestClosed {
		p.Closed = metas(pr.ClosedTime)
	}
}

// limit sets the time by which a preview ends at the latest.
func (s *service) limit(p *PullRequest) {
	spec := s.ms.Spec.Previews
	if spec == nil {
		return
	}
	switch {
	case p.Closed != nil:
		p.Until = timeOf(p.Closed.Add(spec.KeepAfterClose.Std(0)))
	case p.Pushed != nil && spec.MaxAge.Std(0) > 0:
		p.Until = timeOf(p.Pushed.Add(spec.MaxAge.Std(0)))
	}
}

// expired returns the state of a preview without releases.
func (s *service) expired(g *v1alpha1.ReleaseGroup) State {
	if g.Target.Reason == "MaxAge" {
		x := State{Word: WordExpired, Class: Stable, Reason: g.Target.Reason, Detail: "its last push is older than spec.previews.maxAge; push a commit to start it again"}
		if s.ms.Spec.Previews != nil && s.ms.Spec.Previews.MaxAge != "" {
			x.Detail = fmt.Sprintf("its last push is older than %s; push a commit to start it again", Age(s.ms.Spec.Previews.MaxAge.Std(time.Duration(0))))
		}
		return x
	}
	if g.Target.Reason != "" && g.Target.Reason != "NoSlot" {
		detail := "no version can start: the preview's head commit is denied or gone"
		if strings.HasPrefix(g.Target.Reason, "Pin") {
			detail = "its pin prevents a release from starting"
		}
		return State{Word: WordEmpty, Class: Failed, Reason: g.Target.Reason, Detail: detail}
	}
	return State{Word: WordNoSlot, Class: Moving, Reason: cmp.Or(g.Target.Reason, "NoSlot")}
}

// unapproved returns the open pull requests that come from forks, are waiting for approval and have no group.
func (s *service) unapproved(known []Group) (out []Group) {
	policy, repo := s.repository()
	if policy == nil || repo == nil {
		return nil
	}
	for i := range repo.Status.PullRequests {
		pr := &repo.Status.PullRequests[i]
		at := slices.IndexFunc(policy.Status.Candidates, func(c v1alpha1.RefusedCandidate) bool {
			return c.Verdict == string(preview.VerdictFork) && c.Version == pr.HeadSHA
		})
		if pr.State != v1alpha1.PullRequestOpen || at < 0 || !approves(policy) || slices.ContainsFunc(known, func(g Group) bool { return g.PullRequest.Number == pr.Number }) {
			continue
		}
		g := Group{Name: preview.Slug(pr.HeadRef, pr.Number), Slug: preview.Slug(pr.HeadRef, pr.Number), PullRequest: &PullRequest{Number: pr.Number}}
		g.PullRequest.fill(pr)
		g.State = s.withSentence(State{Word: WordForkApproval, Class: Waiting, Reason: string(preview.VerdictFork), Detail: policy.Status.Candidates[at].Reason, Since: metas(pr.PushTime)})
		out = append(out, g)
	}
	return out
}

// approves reports whether a policy requires approval for pull requests from forks. Without this
// requirement, no pull request waits for approval.
func approves(p *v1alpha1.ImagePolicy) bool {
	s := p.Spec.Source
	if s == nil || s.GitHub == nil || s.GitHub.PullRequests == nil {
		return false
	}
	f := s.GitHub.PullRequests.Forks
	return f != nil && f.Policy == v1alpha1.ForksApproved
}
