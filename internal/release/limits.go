package release

import (
	"fmt"
	"slices"
)

// Bounds of the status, which its schema holds too: a plan that is beyond them could
// not be written, and nothing could be done any more.
const (
	// maxGroups is how many groups there may be.
	maxGroups = 256
	// maxRows is how many rows a group may have, and maxAllRows all of them.
	maxRows    = 32
	maxAllRows = 512
)

// Failed marks the failures that a full group has forgotten.
type Failed struct {
	// Version: up to this one nothing is tried by itself that has no row.
	Version string
	// Config with which they failed. With another one the mark is void.
	Config string
}

// quota is how many rows each group may have. What has expired needs none.
func (b *book) quota() int {
	groups := 0
	for i := range b.groups {
		if g := &b.groups[i]; g.Phase != Expired || len(g.Releases) > 0 {
			groups++
		}
	}
	return min(maxRows, maxAllRows/min(max(1, groups), maxGroups))
}

// rows of all groups.
func (b *book) rows() (n int) {
	for i := range b.groups {
		n += len(b.groups[i].Releases)
	}
	return n
}

// room makes room for one more row, and says whether there is any: a full group
// forgets failures. What serves, is kept, or is named by a route stays.
func (s *scope) room() bool {
	for len(s.g.Releases) >= s.quota() || s.rows() >= maxAllRows {
		if !s.forget() {
			return false
		}
	}
	return true
}

// forget drops the failure of the lowest version. The mark keeps it, and all below
// it, from being tried again by themselves. The commits of a pull request have no
// order: of these, those go that are not offered any more.
func (s *scope) forget() bool {
	kept := s.kept()
	var lowest *Row
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		if !s.forgettable(*r, kept) {
			continue
		}
		if _, offered := s.offered(r.Release); offered && s.g.Level == preview {
			continue
		}
		if lowest == nil || compare(r.Version, lowest.Version) < 0 {
			lowest = r
		}
	}
	if lowest == nil {
		return false
	}
	if s.g.Level != preview && lowest.Config == s.o.Config {
		s.g.Failed = Failed{Version: lowest.Version, Config: lowest.Config}
	}
	s.dropRow(lowest.Release)
	return true
}

// fit leaves out of what a lost record is rebuilt from what there is no room for:
// the oldest that are in no route, then the oldest, and never the active one.
func (s *scope) fit(cs []Child, active int) ([]Child, int) {
	for _, routed := range []bool{false, true} {
		for i := 0; i < len(cs) && len(cs) > s.quota(); {
			if i == active || s.referenced(cs[i].Release) && !routed {
				i++
				continue
			}
			if cs = slices.Delete(cs, i, i+1); i < active {
				active--
			}
		}
	}
	return cs, active
}

// forgettable says that a row is a failure that nothing refers to.
func (s *scope) forgettable(r Row, kept []string) bool {
	if r.Status != Error || r.Release == s.g.Target.Release || slices.Contains(kept, r.Release) {
		return false
	}
	for _, p := range s.o.Spec.Pins {
		if p.Version == r.Version && p.names(s.g.Slug, s.g.Name, s.g.PullRequest) && !expired(p, s.now) {
			return false
		}
	}
	return s.drained(r)
}

// forgotten says that a version is not to be tried by itself, because it may have
// failed before, and the group was too full to keep it.
func (s *scope) forgotten(c Candidate) bool {
	f := s.g.Failed
	return f.Version != "" && f.Config == s.o.Config && compare(c.Version, f.Version) <= 0 && s.g.Row(c.Release) == nil
}

// withinLimits keeps a group within its share of the status, and drops the mark of
// forgotten failures when nothing below it could be chosen any more.
func withinLimits(s *scope) {
	for len(s.g.Releases) > s.quota() && s.forget() {
	}
	f := s.g.Failed
	if f.Version == "" {
		return
	}
	if a := s.g.ActiveRow(); s.g.Phase != Live || s.o.Config != "" && f.Config != s.o.Config || a != nil && compare(f.Version, a.Version) <= 0 && !s.free(a) {
		s.g.Failed = Failed{}
		return
	}
	s.state(nil, true, "FailuresForgotten", fmt.Sprintf("versions of group %s up to %s are not tried by themselves: more failed than status.releaseGroups holds; pin one of them, or push a newer version", s.g.Name, f.Version))
}

// free says that the target may be below a release, which is withdrawn.
func (s *scope) free(r *Row) bool {
	_, out := s.withdrawn(r.Version)
	return out
}

// crowded says that a release cannot start for want of room.
func (s *scope) crowded(version string) {
	s.state(nil, true, "TooManyReleases", fmt.Sprintf("%s waits: status.releaseGroups holds %d releases for group %s, and routes name them or they are kept; take versions out of spec.domains of networkpolicies.hlnr.io, or lower spec.updateStrategy.minimumAvailable", version, len(s.g.Releases), s.g.Name))
}
