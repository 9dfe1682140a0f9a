package version

import (
	"cmp"
	"slices"
	"strings"
)

// Reason is the reason for a withdrawal.
type Reason string

// The reasons for a withdrawal, the strongest reason first.
const (
	// Denied means that deny contains the version.
	Denied Reason = "Denied"
	// Excluded means that the rules no longer admit the version, or no longer create its group.
	Excluded Reason = "Excluded"
	// Gone means that the caller proved that the image no longer exists.
	Gone Reason = "Gone"
)

// Withdrawal is the withdrawal of a held version or, if Version is empty, of a whole group.
type Withdrawal struct {
	// Group is the slug of the group.
	Group string
	// Version is the held version in normal form. It is empty if the whole group is withdrawn.
	Version string
	Reason  Reason
}

// Withdrawn returns the held versions that are withdrawn, and the reasons. An offered version is never
// withdrawn, and no version is withdrawn only because it is absent from a list. gone contains the versions
// whose absence the caller proved. The result is sorted, and depends only on the elements of the
// arguments, not on their order.
//
// If the current grouping no longer assigns any of a group's held versions to the group, the whole
// group is withdrawn, so that the Microservice closes it only after a new group has taken over
// its traffic. Denied versions of such a group are also returned individually.
func (s *Selector) Withdrawn(held, gone []Held, offered []Release) []Withdrawal {
	w := withdrawing{selector: s, offered: map[[2]string]bool{}, gone: map[[2]string]bool{}}
	for _, r := range offered {
		w.offered[[2]string{r.Slug, r.Version}] = true
	}
	for _, g := range gone {
		group, text, _ := s.normal(g)
		w.gone[[2]string{group, text}] = true
	}
	made := map[string]bool{} // keyed by slug; whether the current grouping creates the group
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

// compareWithdrawn orders the withdrawal of a whole group above the withdrawals of its versions.
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

// judge returns the reason why a held version is withdrawn, or an empty string if it is not withdrawn.
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

// refusesTag reports whether the rules now reject the tag, or parse another version from it.
func (s *Selector) refusesTag(tag, version string) bool {
	c := candidate{tag: tag, timed: Timed{Version: version}}
	verdict, _ := s.run(filters, &c)
	return verdict != "" || c.version.Original() != version
}

// normal returns the group that contains a version, the version in normal form, and the group into
// which the current grouping puts the version. If the version cannot be parsed, text is the
// unchanged version, and own is empty.
func (s *Selector) normal(h Held) (group, text, own string) {
	v, err := read(h.Version)
	if err != nil {
		return h.Group, h.Version, ""
	}
	own = s.slugOf(v)
	return cmp.Or(h.Group, own), v.Original(), own
}
