package githubtest

import (
	"slices"
	"strings"
)

// SetLateMerges makes pushes keep the trial merge of the push before, as GitHub's list
// of pull requests does until the single pull request was read. That, or Merge, makes
// the new one.
func (r *Repository) SetLateMerges(late bool) { r.change(func() { r.lateMerges = late }) }

// Merge makes a new trial merge of a pull request with its base, and gives its SHA.
// Nothing is emitted.
func (r *Repository) Merge(n int) (sha string) {
	r.change(func() {
		p := r.pull(n)
		sha = r.merge(p.HeadSHA)
		p.MergeCommitSHA = sha
	})
	return sha
}

// mergeAfterRead makes a late merge of a pull request that was read.
func (r *Repository) mergeAfterRead(p *PullRequest) {
	if r.lateMerges && !p.Closed && !slices.Contains(r.parents[p.MergeCommitSHA], p.HeadSHA) {
		p.MergeCommitSHA = r.merge(p.HeadSHA)
	}
}

// merge makes a commit that merges a head with its base, and gives its SHA.
func (r *Repository) merge(head string) string {
	sha := r.commit()
	r.parents[sha] = []string{strings.Repeat("0", 40), head}
	return sha
}

// parents of a commit, as GitHub gives them.
func (s *Server) parents(x *exchange, sha string) []any {
	all := []any{}
	for _, parent := range x.repo.parents[sha] {
		url := x.base + "/repos/" + x.repo.FullName() + "/git/commits/" + parent
		all = append(all, map[string]any{"sha": parent, "url": url, "html_url": web(x.repo) + "/commit/" + parent})
	}
	return all
}
