package githubtest

import (
	"maps"
	"slices"
	"time"
)

// moment is the state of a repository from a given time on.
type moment struct {
	from time.Time
	was  *Repository
}

// SetLag sets the age of the state that reads return. It applies to all repositories. GitHub's replicas may lag in the
// same way: recent writes are not visible yet. The default, 0, means no lag. Writes always use the current state.
func (s *Server) SetLag(lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = lag
	for _, r := range s.repos {
		r.past = nil
		r.keep()
	}
}

// keep records the current state.
func (r *Repository) keep() {
	if r.s.lag > 0 {
		r.past = append(r.past, moment{r.s.options.Clock.Now(), r.clone()})
	}
}

// seen returns the state that a read returns.
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
