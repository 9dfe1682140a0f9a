package githubtest

import (
	"slices"
	"strings"
)

// SetLateMerges sets whether a pull request keeps its previous test merge after a push, until the pull request itself has been read or Merge has
// been called. Similarly, on GitHub, the list of pull requests shows the previous test merge until the pull request itself is read.
func (r *Repository) SetLateMerges(late bool) { r.change(func() { r.lateMerges = late }) }

// Merge creates a new test merge of a pull request with its base, and returns the SHA of the merge. It emits no event.
func (r *Repository) Merge(n int) (sha string) {
	r.change(func() {
		p := r.pull(n)
		sha = r.merge(p.HeadSHA)
		p.MergeCommitSHA = sha
	})
	return sha
}

// mergeAfterRead is called after a pull request has been read. It creates the new test merge if SetLateMerges delayed it.
func (r *Repository) mergeAfterRead(p *PullRequest) {
	if r.lateMerges && !p.Closed && !slices.Contains(r.parents[p.MergeCommitSHA], p.HeadSHA) {
		p.MergeCommitSHA = r.merge(p.HeadSHA)
	}
}

// merge creates a commit that merges a head with its base, and returns the SHA of the commit.
func (r *Repository) merge(head string) string {
	sha := r.commit()
	r.parents[sha] = []string{strings.Repeat("0", 40), head}
	return sha
}

// parents returns the parents of a commit in GitHub's format.
func (s *Server) parents(x *exchange, sha string) []any {
	all := []any{}
	for _, parent := range x.repo.parents[sha] {
		url := x.base + "/repos/" + x.repo.FullName() + "/git/commits/" + parent
		all = append(all, map[string]any{"sha": parent, "url": url, "html_url": web(x.repo) + "/commit/" + parent})
	}
	return all
}
