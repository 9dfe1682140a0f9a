package version

import (
	"cmp"
	"slices"
	"strings"
)

// Reason of a withdrawal.
type Reason string

// The reasons, the strongest first.
const (
	// Denied: deny names the version.
	Denied Reason = "Denied"
	// Excluded: the rules no longer admit the version, or no longer make its group.
	Excluded Reason = "Excluded"
	// Gone: the caller proved that the image does not exist any more.
	Gone Reason = "Gone"
)

// Withdrawal of a held version, or, with Version "", of a whole group.
type Withdrawal struct {
	// Group is the slug.
	Group string
	// Version as it is held, in normal form; "" is the whole group.
	Version string
	Reason  Reason
}

// Withdrawn returns which held versions are withdrawn, and why; what is offered
// never is. A version that is merely absent from a list is not withdrawn. gone
// are the versions whose absence the caller proved. The result is sorted, the
// same for any order of the arguments, and, when nothing else changes, the same
// the next time.
//
// A group none of whose held versions the current grouping puts into it is
// withdrawn as a whole, so that the Microservice can close it only after a new
// group holds its traffic; versions of it that are denied are named besides.
func (s *Selector) Withdrawn(held, gone []Held, offered []Release) []Withdrawal {
	w := withdrawing{selector: s, offered: map[[2]string]bool{}, gone: map[[2]string]bool{}}
	for _, r := range offered {
		w.offered[[2]string{r.Slug, r.Version}] = true
	}
	for _, g := range gone {
		group, text, _ := s.normal(g)
		w.gone[[2]string{group, text}] = true
	}
	made := map[string]bool{} // by slug: the current grouping makes it
	for _, h := range held {
		if group, _, own := s.normal(h); group != "" {
			made[group] = made[group] || group == own
		}
	}
	var all []Withdrawal
	for group, ok := range made {
		if !ok {
			all = append(all, Withdrawal{group, "", Excluded})
		}
	}
	for _, h := range held {
		group, text, own := s.normal(h)
		reason := w.judge(h, group, text, own)
		if group == "" || reason == "" || reason == Excluded && !made[group] {
			continue
		}
		all = append(all, Withdrawal{group, text, reason})
	}
	slices.SortFunc(all, func(a, b Withdrawal) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), -compareWithdrawn(a.Version, b.Version), strings.Compare(string(a.Reason), string(b.Reason)))
	})
	return slices.Compact(all)
}

// compareWithdrawn puts the whole group above its versions.
func compareWithdrawn(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(len(b), len(a))
	}
	return Compare(a, b)
}

type withdrawing struct {
	selector      *Selector
	offered, gone map[[2]string]bool
}

// judge returns the reason to withdraw one held version, "" for none.
func (w withdrawing) judge(h Held, group, text, own string) Reason {
	key := [2]string{group, text}
	if w.offered[key] {
		return ""
	}
	v, err := read(h.Version)
	if err == nil {
		for _, d := range w.selector.deny {
			if d.names(v) {
				return Denied
			}
		}
	}
	switch {
	case err != nil || group != own:
		return Excluded
	case h.Tag != "" && w.selector.refusesTag(h.Tag, text):
		return Excluded
	}
	if verdict, _ := w.selector.run(versionFilters, &candidate{version: v}); verdict != "" {
		return Excluded
	}
	if w.gone[key] {
		return Gone
	}
	return ""
}

// refusesTag reports whether the rules no longer read this version from the tag.
func (s *Selector) refusesTag(tag, version string) bool {
	c := candidate{tag: tag, timed: Timed{Version: version}}
	verdict, _ := s.run(filters, &c)
	return verdict != "" || c.version.Original() != version
}

// normal returns the group that holds a version, the version in normal form, and the group into
// which the current grouping puts it ("" where it is none).
func (s *Selector) normal(h Held) (group, text, own string) {
	v, err := read(h.Version)
	if err != nil {
		return h.Group, h.Version, ""
	}
	own = s.slugOf(v)
	return cmp.Or(h.Group, own), v.Original(), own
}
