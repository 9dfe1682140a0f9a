package version

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Name is the name of a version at a source that is not a registry.
type Name struct {
	// Text is the name itself.
	Text string
	// Tag is the tag of the image if it is known. If Tag is empty, Rules.Match determines the tag.
	Tag string
	// Prerelease reports whether the source marks the version as a pre-release, even if the version has no pre-release part.
	Prerelease bool
}

// Release is an offered version.
type Release struct {
	// Tag is the tag of the image.
	Tag string
	// Name is the name of the version at the source. It is empty if the source is a registry.
	Name string
	// Version is the version in normal form, without "v": "1.2.3-rc.1+build".
	Version string
	// Group is the name of the group ("1.2.x"), and Slug is its DNS label ("1-2-x").
	Group, Slug string
	// Level is the level of this version.
	Level Level
	// Held reports whether the release is beyond the limits, and is offered only because its version or
	// another version of its group is held.
	Held bool
}

// Held is a version that is in use: a release of a Microservice has this version, or a pin or a domain refers to it.
type Held struct {
	// Group is the slug of the group. It is empty for a pin that does not select a group.
	Group string
	// Version is the version in normal form, or in any other form that Parse accepts.
	Version string
	// Tag is the tag from which the version was parsed, or empty if the tag is not known. The filters for
	// tags apply only if Tag is known. Among several tags with the same version, this tag is
	// preferred.
	Tag string
}

// Refusal is the caller's decision to refuse a tag. Verdict is VerdictMinAge, VerdictExists,
// VerdictPlatform, VerdictLabels or VerdictVerify.
type Refusal struct {
	Verdict Verdict
	Reason  string
}

// Rejection is a tag that is not offered.
type Rejection struct {
	// Tag is the tag, or the name at the source if the name does not match Rules.Match. Version is the
	// version of the tag, or empty if the tag has none.
	Tag, Version string
	// Verdict identifies the filter that rejected the tag. Reason describes the cause in one line. The same
	// input always results in the same line.
	Verdict Verdict
	Reason  string

	parsed *Version
}

// Count is the number of tags that a filter rejected.
type Count struct {
	Verdict Verdict
	Tags    int
}

// Result is the result of a selection. It does not depend on the order of the tags.
type Result struct {
	// Offered contains the offered versions, sorted from the newest group to the oldest and, within a group, from the newest version to the oldest.
	Offered []Release
	// Rejected are all rejected tags. Tags with a version come first, the newest version first. All other
	// tags follow, sorted by name. The caller truncates the list.
	Rejected []Rejection
	// Counts contains the number of rejected tags for each filter that rejected tags, in the order of the filters.
	Counts []Count
	// Truncated are the groups beyond Limits.Groups, the newest first.
	Truncated []string
}

// Select combines Compile, Rank and Offer for a single use.
func Select(rules Rules, tags []string, held []Held, refused map[string]Refusal) (Result, error) {
	s, err := Compile(rules)
	if err != nil {
		return Result{}, err
	}
	return s.Rank(tags).Offer(held, refused), nil
}

// Ranking is the ordered list of tags that passed the filters. It is immutable, so a caller can
// request another offer each time it has refused more tags.
type Ranking struct {
	selector *Selector
	ranked   []ranked        // the newest version first; among equal versions, the preferred tag first
	rejected []Rejection     // in the order of Result.Rejected
	names    map[string]Name // keyed by tag; nil if the source is a registry
}

// Tags returns the sorted tags of the names, without duplicates. It returns nil if the source is a registry.
func (r *Ranking) Tags() []string { return slices.Sorted(maps.Keys(r.names)) }

// ranked is a tag that passed the filters. It has few fields, because there are many such tags, and only a few of
// them are offered.
type ranked struct {
	tag     string
	version *Version
}

// Rank applies all filters that do not need access to a registry. It ignores duplicate tags.
//
// If the list of tags may be incomplete because an error occurred, because it was truncated, or because it is
// shorter than before, the caller must add the previously offered tags, so that no offered tag is lost.
func (s *Selector) Rank(tags []string) *Ranking { return s.rank(tags, nil, nil, nil) }

// RankNames maps names to tags and applies the filters to the tags. If several names map to the same tag, only one
// name is used. Names that the source does not mark as pre-releases are preferred. Among several such names, the
// name that comes first in byte order is used. An entry that contains only a tag, for example a previously offered
// tag, is used if no name maps to that tag.
func (s *Selector) RankNames(names []Name) *Ranking {
	byTag := make(map[string]Name, len(names))
	var unmatched []Rejection
	for _, n := range slices.SortedFunc(slices.Values(names), compareNames) {
		if n.Tag == "" {
			var ok bool
			if n.Tag, ok = s.tagOf(n.Text); !ok {
				unmatched = append(unmatched, Rejection{Tag: n.Text, Verdict: VerdictMatch, Reason: s.reasons.match})
				continue
			}
		}
		if _, twice := byTag[n.Tag]; !twice {
			byTag[n.Tag] = n
		}
	}
	return s.rank(slices.Collect(maps.Keys(byTag)), byTag, nil, slices.CompactFunc(unmatched, func(a, b Rejection) bool { return a.Tag == b.Tag }))
}

func compareNames(a, b Name) int {
	rank := func(n Name) int {
		switch {
		case n.Text == "":
			return 2
		case n.Prerelease:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Text, b.Text), strings.Compare(a.Tag, b.Tag), compareBools(a.Prerelease, b.Prerelease))
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// tagOf maps a name to a tag. It returns false if the name does not match Rules.Match.
func (s *Selector) tagOf(name string) (string, bool) {
	if s.mapping == nil {
		return name, true
	}
	m := s.mapping.FindStringSubmatchIndex(name)
	if m == nil {
		return "", false
	}
	return string(s.mapping.ExpandString(nil, s.rules.Match.To, name, m)), true
}

func (s *Selector) rank(tags []string, names map[string]Name, times map[string]Timed, rejected []Rejection) *Ranking {
	sorted := tags
	if !slices.IsSorted(sorted) {
		sorted = slices.Sorted(slices.Values(tags))
	}
	r := &Ranking{selector: s, ranked: make([]ranked, 0, len(sorted)), names: names, rejected: slices.Grow(rejected, len(sorted))}
	for i, tag := range sorted {
		if i > 0 && tag == sorted[i-1] {
			continue
		}
		c := candidate{tag: tag, pre: names[tag].Prerelease, timed: times[tag]}
		verdict, reason := s.run(filters, &c)
		if verdict == "" {
			verdict, reason = s.run(versionFilters, &c)
		}
		if verdict == "" {
			r.ranked = append(r.ranked, ranked{tag, c.version})
		} else {
			r.rejected = append(r.rejected, rejection(tag, c.version, verdict, reason))
		}
	}
	slices.SortFunc(r.ranked, func(a, b ranked) int {
		if c := compare(b.version, a.version); c != 0 {
			return c
		}
		return compareTags(a.tag, b.tag)
	})
	slices.SortFunc(r.rejected, compareRejections)
	return r
}

func rejection(tag string, v *Version, verdict Verdict, reason string) Rejection {
	x := Rejection{Tag: tag, Verdict: verdict, Reason: reason, parsed: v}
	if v != nil {
		x.Version = v.Original()
	}
	return x
}

// compareTags orders tags of the same version, the preferred tag first:
// tags with more parts before tags with fewer parts, tags without "v" before tags with "v", otherwise in byte order.
func compareTags(a, b string) int {
	return cmp.Or(
		cmp.Compare(strings.Count(b, "."), strings.Count(a, ".")),
		cmp.Compare(len(a)-len(strings.TrimPrefix(a, "v")), len(b)-len(strings.TrimPrefix(b, "v"))),
		strings.Compare(a, b),
	)
}

func compareRejections(a, b Rejection) int {
	switch {
	case a.parsed != nil && b.parsed != nil:
		if c := compare(b.parsed, a.parsed); c != 0 {
			return c
		}
		return compareTags(a.Tag, b.Tag)
	case a.parsed != nil:
		return -1
	case b.parsed != nil:
		return 1
	}
	return strings.Compare(a.Tag, b.Tag)
}

// Offer applies the limits and the caller's refusals. refused maps tags to their refusals.
//
// A held version remains offered even if it is beyond the limits. A group with a held version is never omitted, because
// the group is live and fixes must reach it. All filters except the limits apply to held versions;
// see Selector.Withdrawn. The caller refuses the tag of a held version only if it has proof that the
// tag is gone.
func (r *Ranking) Offer(held []Held, refused map[string]Refusal) Result {
	return r.OfferUnless(held, refused, func(string, string) *Refusal { return nil })
}

// OfferUnless is like Offer, but calls refuse with the tag and the version of each release before it offers the release. If refuse
// returns a refusal, OfferUnless adds it to refused. The result is the same as that of repeated calls to Offer, with a call to
// refuse for each newly offered tag, but only one pass over the tags is needed.
func (r *Ranking) OfferUnless(held []Held, refused map[string]Refusal, refuse func(tag, version string) *Refusal) Result {
	o := offer{ranking: r, held: r.selector.index(held), refused: refused, refuse: refuse, groupsLeft: r.selector.rules.Limits.Groups}
	rules := r.selector.rules
	o.Rejected = make([]Rejection, 0, len(r.ranked)+len(r.rejected)) // There may be many tags, and most of them are rejected.
	for rest := r.ranked; len(rest) > 0; {
		key, n := rules.keyOf(rest[0].version), 1
		for n < len(rest) && rules.keyOf(rest[n].version) == key {
			n++
		}
		o.group(rules.nameOf(key), rest[:n])
		rest = rest[n:]
	}
	o.Rejected = merge(o.Rejected, r.rejected)
	o.Counts = count(o.Rejected)
	return o.Result
}

// offer is the state of one call to Offer.
type offer struct {
	Result
	distinct   []ranked // a buffer that is reused for each group
	ranking    *Ranking
	held       holdings
	refused    map[string]Refusal
	refuse     func(tag, version string) *Refusal
	groupsLeft int
}

// group offers versions of one group. releases are the candidates of the group, the newest first.
func (o *offer) group(name string, releases []ranked) {
	slug, limits := Slug(name), o.ranking.selector.rules.Limits
	truncated := o.groupsLeft == 0 && !o.held.group(slug)
	distinct := o.distinct[:0]
	for len(releases) > 0 {
		n := 1
		for n < len(releases) && releases[n].version.Original() == releases[0].version.Original() {
			n++
		}
		within := !truncated && (len(distinct) < limits.ReleasesPerGroup || o.held.version(slug, releases[0].version.Original()))
		if best, ok := o.choose(releases[:n], within); ok {
			distinct = append(distinct, best)
		}
		releases = releases[n:]
	}
	o.distinct = distinct
	if len(distinct) == 0 {
		return
	}
	if truncated {
		o.Truncated = append(o.Truncated, name)
		reason := fmt.Sprintf("group %q is not among the newest %d (limits.groups)", name, limits.Groups)
		for _, x := range distinct {
			o.reject(x, VerdictLimits, reason)
		}
		return
	}
	beyond := o.groupsLeft == 0
	o.groupsLeft = max(0, o.groupsLeft-1)
	for i, x := range distinct {
		version := x.version.Original()
		if i >= limits.ReleasesPerGroup && !o.held.version(slug, version) {
			o.reject(x, VerdictLimits, o.ranking.selector.reasons.perGroup)
			continue
		}
		known := o.ranking.names[x.tag]
		level := levelOf(x.version)
		if known.Prerelease {
			level = LevelCandidate
		}
		o.Offered = append(o.Offered, Release{x.tag, known.Text, version, name, slug, level, beyond || i >= limits.ReleasesPerGroup})
	}
}

// choose selects the tag for one version from among the tags that the caller did not refuse. It
// selects a held tag or, if there is none, the preferred tag. If the version is within the limits, the caller can refuse the tag,
// and choose then selects another tag.
func (o *offer) choose(same []ranked, within bool) (best ranked, ok bool) {
	best, ok = o.best(same, true, within)
	if !ok {
		best, ok = o.best(same, false, within)
	}
	for _, x := range same {
		switch refusal, no := o.refused[x.tag]; {
		case no:
			o.reject(x, refusal.Verdict, refusal.Reason)
		case x.tag != best.tag:
			o.reject(x, VerdictDuplicate, fmt.Sprintf("the same version as tag %q", best.tag))
		}
	}
	return best, ok
}

// best returns the first tag that the caller does not refuse. If held is true, it considers only held tags, and otherwise only tags that are not held.
func (o *offer) best(same []ranked, held, within bool) (ranked, bool) {
	for _, x := range same {
		if _, no := o.refused[x.tag]; no || o.held.tags[x.tag] != held {
			continue
		}
		if within {
			if refusal := o.refuse(x.tag, x.version.Original()); refusal != nil {
				o.refused[x.tag] = *refusal
				continue
			}
		}
		return x, true
	}
	return ranked{}, false
}

func (o *offer) reject(x ranked, v Verdict, reason string) {
	o.Rejected = append(o.Rejected, rejection(x.tag, x.version, v, reason))
}

// merge joins the rejections of an offer with the rejections of the ranking, in order. It merges in
// place, in the free capacity of own, starting at the end.
func merge(own, ranking []Rejection) []Rejection {
	if len(own) == 0 && len(ranking) == 0 {
		return nil
	}
	slices.SortFunc(own, compareRejections)
	i, j := len(own), len(ranking)
	all := append(own, ranking...)
	for at := i + j - 1; i > 0 && j > 0; at-- {
		if compareRejections(all[i-1], ranking[j-1]) > 0 {
			i--
			all[at] = all[i]
		} else {
			j--
			all[at] = ranking[j]
		}
	}
	copy(all, ranking[:j])
	return all
}

// verdictOrder is the order of Result.Counts.
var verdictOrder = []Verdict{VerdictName, VerdictExclude, VerdictTagFilter, VerdictMatch, VerdictParse, VerdictLevel, VerdictRange,
	VerdictDeny, VerdictMinAge, VerdictExists, VerdictPlatform, VerdictLabels, VerdictVerify, VerdictDuplicate, VerdictLimits}

func count(rejected []Rejection) (counts []Count) {
	n := map[Verdict]int{}
	for _, x := range rejected {
		n[x.Verdict]++
	}
	for _, v := range verdictOrder {
		if n[v] > 0 {
			counts = append(counts, Count{v, n[v]})
		}
	}
	return counts
}

// holdings is an index of held versions.
type holdings struct {
	groups   map[string]bool
	versions map[[2]string]bool
	tags     map[string]bool
}

func (h holdings) group(slug string) bool            { return h.groups[slug] }
func (h holdings) version(slug, version string) bool { return h.versions[[2]string{slug, version}] }

func (s *Selector) index(held []Held) holdings {
	h := holdings{map[string]bool{}, map[[2]string]bool{}, map[string]bool{}}
	for _, x := range held {
		v, err := read(x.Version)
		if err != nil {
			continue
		}
		slug := cmp.Or(x.Group, s.slugOf(v))
		h.groups[slug] = true
		h.versions[[2]string{slug, v.Original()}] = true
		if x.Tag != "" {
			h.tags[x.Tag] = true
		}
	}
	return h
}

func (s *Selector) slugOf(v *Version) string {
	return Slug(s.rules.nameOf(s.rules.keyOf(v)))
}
