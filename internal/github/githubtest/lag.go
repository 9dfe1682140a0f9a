package githubtest

import (
	"maps"
	"slices"
	"time"
)

// moment is a repository as it was from a time on.
type moment struct {
	from time.Time
	was  *Repository
}

// SetLag makes reads see each repository as it was some time before, as those of
// GitHub's replicas may: what was just written is not there yet. 0, the default, is
// none. What is written is always decided on by what is true.
func (s *Server) SetLag(lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = lag
	for _, r := range s.repos {
		r.past = nil
		r.keep()
	}
}

// keep notes what is true now.
func (r *Repository) keep() {
	if r.s.lag > 0 {
		r.past = append(r.past, moment{r.s.options.Clock.Now(), r.clone()})
	}
}

// seen returns what a read sees.
func (r *Repository) seen() *Repository {
	seen := r
	limit := r.s.options.Clock.Now().Add(-r.s.lag)
	for i, m := range r.past {
		if i == 0 || !m.from.After(limit) {
			seen = m.was
		}
	}
	return seen
}

func (r *Repository) clone() *Repository {
	c := *r
	c.past, c.commits, c.parents, c.tags = nil, maps.Clone(r.commits), maps.Clone(r.parents), slices.Clone(r.tags)
	c.pulls, c.releases, c.deployments, c.comments = copies(r.pulls), copies(r.releases), copies(r.deployments), copies(r.comments)
	return &c
}

func copies[T any](all []*T) []*T {
	var copied []*T
	for _, one := range all {
		c := *one
		copied = append(copied, &c)
	}
	return copied
}
