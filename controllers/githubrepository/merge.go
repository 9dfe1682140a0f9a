package githubrepository

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// Bounds of the schema on what is kept of a pull request: characters, and labels.
const (
	maxAuthor   = 64
	maxHeadRepo = 140
	maxLabel    = 50
	maxTitle    = 80
	maxLabels   = 100 // of those that ImagePolicies name; GitHub allows as many
	someLabels  = 20  // of all others, with those
)

// pulls is what a look learned about pull requests.
type pulls struct {
	// time before the list was asked for.
	time time.Time
	// listed are open.
	listed []github.PullRequest
	// unusable are numbers of open ones that cannot be read: what is known of them stays.
	unusable map[int64]bool
	// more were open than GitHub was asked for.
	more bool
	// asked for by number, because the list lacked them.
	asked map[int64]github.PullRequest
	// dates of the committers, by commit.
	dates map[string]time.Time
	// parents of trial merges, by commit.
	parents map[string][]string
	// other says that what is known is of another repository.
	other bool
}

// memory is what a merge goes by beside what is known and what a look learned.
type memory struct {
	// gap says that nobody looked for a while: a head may have changed meanwhile, and
	// have changed back.
	gap bool
	// wanted are the labels that ImagePolicies name.
	wanted map[string]bool
	// saw is the time of the last look whose result is what is known; zero: it was
	// that of an earlier process.
	saw time.Time
	// pushes gives the time before which a head, by headOf, that has no date yet was
	// not pushed.
	pushes map[string]time.Time
}

// merge gives what is known of pull requests after a look, highest number first. It is
// pure, and does nothing a second time. Nothing leaves the result and nothing is closed
// but by an answer about its number.
func merge(known []v1alpha1.PullRequest, p *pulls, m memory) []v1alpha1.PullRequest {
	merged := map[int64]v1alpha1.PullRequest{}
	before := map[int64]v1alpha1.PullRequest{}
	for _, k := range known {
		if p.other { // all that was open there is closed here
			k = closed(k, p.time)
		} else {
			before[k.Number] = k
		}
		merged[k.Number] = k
	}
	take := func(g github.PullRequest) {
		k, was := before[int64(g.Number)]
		switch {
		case g.State == github.Open:
			merged[int64(g.Number)] = open(g, k, was, p, m)
		case !was: // somebody held it, and nobody knew it any more
			merged[int64(g.Number)] = closed(open(g, k, was, p, m), firstTime(g.ClosedAt, p.time))
		case k.State == v1alpha1.PullRequestOpen:
			merged[int64(g.Number)] = closed(k, firstTime(g.ClosedAt, p.time))
		}
	}
	for _, g := range p.listed {
		take(g)
	}
	for _, g := range p.asked { // later than the list
		take(g)
	}
	result := make([]v1alpha1.PullRequest, 0, len(merged))
	for _, pr := range merged {
		result = append(result, pr)
	}
	slices.SortFunc(result, func(a, b v1alpha1.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return result
}

// firstTime gives the first time that is not zero.
func firstTime(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// closed is what was known of a pull request that is closed since t.
func closed(k v1alpha1.PullRequest, t time.Time) v1alpha1.PullRequest {
	if k.State != v1alpha1.PullRequestClosed {
		k.State, k.ClosedTime = v1alpha1.PullRequestClosed, stamp(t)
	}
	return k
}

// open is an open pull request, of which k was known before, if was is true.
func open(g github.PullRequest, k v1alpha1.PullRequest, was bool, p *pulls, m memory) v1alpha1.PullRequest {
	pr := v1alpha1.PullRequest{
		Number: int64(g.Number), State: v1alpha1.PullRequestOpen,
		HeadRef: g.HeadRef, HeadSHA: g.HeadSHA, MergeSHA: mergeSHA(g, k, p), BaseRef: g.BaseRef,
		Fork: g.Fork, HeadRepo: g.HeadRepo, Author: g.Author, Association: associations[g.Association],
		Draft: g.Draft, Title: status.LineOf(g.Title, maxTitle),
	}
	if len(pr.HeadRepo) > maxHeadRepo {
		pr.HeadRepo = "" // no repository has such a name
	}
	if len(pr.Author) > maxAuthor {
		pr.Author = ""
	}
	pr.HeadTime = headTime(g, k, was, p, m)
	pr.PushTime = pushTime(g, k, was, p)
	pr.Labels = labels(g, k, was, m)
	return pr
}

// mergeSHA is the trial merge of the head commit. What GitHub lists may be that of the
// push before, until the pull request itself is read: only a commit that has the head
// among its parents counts. Until there is one, the last one of the same head does.
func mergeSHA(g github.PullRequest, k v1alpha1.PullRequest, p *pulls) string {
	switch {
	case slices.Contains(p.parents[g.MergeCommitSHA], g.HeadSHA):
		return g.MergeCommitSHA
	case k.HeadSHA == g.HeadSHA:
		return k.MergeSHA
	}
	return ""
}

// unmerged are the trial merges of which it is not known whether they are of the head
// commit, newest pull request first.
func unmerged(known []v1alpha1.PullRequest, p *pulls) []string {
	merges := map[string]string{}
	if !p.other {
		for _, k := range known {
			merges[headOf(k.Number, k.HeadSHA)] = k.MergeSHA
		}
	}
	var commits []string
	for _, g := range p.open() {
		if g.MergeCommitSHA != "" && merges[headOf(int64(g.Number), g.HeadSHA)] != g.MergeCommitSHA && !slices.Contains(commits, g.MergeCommitSHA) {
			commits = append(commits, g.MergeCommitSHA)
		}
	}
	return commits
}

// pushTime is when the head commit was first seen. One that was there when the pull
// request was first seen was pushed when that was opened, or later where the commit was
// made later. It is never after the look: a committer's date may be anything.
func pushTime(g github.PullRequest, k v1alpha1.PullRequest, was bool, p *pulls) *metav1.Time {
	switch {
	case was && k.HeadSHA != g.HeadSHA:
		return stamp(p.time)
	case was && k.PushTime != nil && k.HeadTime != nil:
		return k.PushTime
	}
	pushed := g.CreatedAt
	if k.PushTime != nil {
		pushed = k.PushTime.Time
	}
	if date := p.dates[g.HeadSHA]; date.After(pushed) {
		pushed = date
	}
	if pushed.IsZero() || pushed.After(p.time) {
		pushed = p.time
	}
	return stamp(pushed)
}

// headTime is a time before which no image of the head commit can have been built.
// The committer's date is whatever the committer wrote; that of a push which happened
// between two looks is at least that of the former look. nil: not known yet.
func headTime(g github.PullRequest, k v1alpha1.PullRequest, was bool, p *pulls, m memory) *metav1.Time {
	if was && k.HeadSHA == g.HeadSHA && k.HeadTime != nil {
		return k.HeadTime
	}
	date, dated := p.dates[g.HeadSHA]
	if !dated {
		return nil
	}
	if date.After(p.time) {
		date = p.time // it was there by then, whatever the committer's clock says
	}
	if least := pushedAfter(g, k, was, m); least.After(date) {
		date = least
	}
	return stamp(date)
}

// pushedAfter is a time before which the head was not pushed; zero: not known.
func pushedAfter(g github.PullRequest, k v1alpha1.PullRequest, was bool, m memory) time.Time {
	switch {
	case !was:
		return time.Time{}
	case k.HeadSHA == g.HeadSHA:
		return m.pushes[headOf(k.Number, k.HeadSHA)]
	case m.saw.IsZero() && k.HeadTime != nil:
		return k.HeadTime.Time // the former head was there by then
	}
	return m.saw
}

// pushes remembers, after a look, when the heads were pushed whose date is not known.
func pushes(known []v1alpha1.PullRequest, p *pulls, m memory) map[string]time.Time {
	result := map[string]time.Time{}
	if p.other {
		return result
	}
	before := map[int64]v1alpha1.PullRequest{}
	for _, k := range known {
		before[k.Number] = k
	}
	for _, g := range p.open() {
		k, was := before[int64(g.Number)]
		if after := pushedAfter(g, k, was, m); !after.IsZero() && p.dates[g.HeadSHA].IsZero() {
			result[headOf(k.Number, g.HeadSHA)] = after
		}
	}
	return result
}

// labels of a pull request, those that ImagePolicies name and then others by name, each
// with the head commit at which it was seen to be put on: who approves a commit by it
// has seen no later one. Where nobody knows at which head that was, it is bound to none:
// it came together with another head, or while nobody looked, or with a pull request
// that is new, because the head may have changed since. What is not of a fork needs no
// approval.
func labels(g github.PullRequest, k v1alpha1.PullRequest, was bool, m memory) []v1alpha1.PullRequestLabel {
	sha := g.HeadSHA
	unseen := !was || m.gap || k.State == v1alpha1.PullRequestClosed || len(k.Labels) >= someLabels
	if was && k.HeadSHA != g.HeadSHA || g.Fork && unseen {
		sha = ""
	}
	var result []v1alpha1.PullRequestLabel
	for _, name := range g.Labels {
		label := v1alpha1.PullRequestLabel{Name: cut(name, maxLabel), SHA: sha}
		if i := slices.IndexFunc(k.Labels, func(l v1alpha1.PullRequestLabel) bool { return l.Name == label.Name }); i >= 0 {
			label = k.Labels[i]
		}
		result = append(result, label)
	}
	byName := func(a, b v1alpha1.PullRequestLabel) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(result, byName)
	result = slices.CompactFunc(result, func(a, b v1alpha1.PullRequestLabel) bool { return a.Name == b.Name })
	slices.SortStableFunc(result, func(a, b v1alpha1.PullRequestLabel) int {
		return cmp.Compare(m.rank(a.Name), m.rank(b.Name))
	})
	named := 0
	for named < len(result) && m.rank(result[named].Name) == 0 {
		named++
	}
	result = result[:min(len(result), max(someLabels, named), maxLabels)]
	slices.SortFunc(result, byName)
	return result
}

// rank of a label: 0 for one that an ImagePolicy names, in any case as GitHub reads it,
// with any commit where it names one by {{.SHA}}.
func (m memory) rank(label string) int {
	label = strings.ToLower(label)
	if m.wanted[label] || m.wanted[wholeCommit.ReplaceAllString(label, "{{.sha}}")] {
		return 0
	}
	return 1
}

var wholeCommit = regexp.MustCompile(`[0-9a-f]{40}`)

// cut gives the first n characters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n])
}

// associations by the words of GitHub.
var associations = map[string]v1alpha1.AuthorAssociation{
	"OWNER": "Owner", "MEMBER": "Member", "COLLABORATOR": "Collaborator", "CONTRIBUTOR": "Contributor",
	"FIRST_TIME_CONTRIBUTOR": "FirstTimeContributor", "FIRST_TIMER": "FirstTimer", "MANNEQUIN": "Mannequin", "NONE": "None",
}

// stamp is a time as the API server keeps it, in whole seconds.
func stamp(t time.Time) *metav1.Time {
	at := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &at
}

// open are those that are, newest first.
func (p *pulls) open() []github.PullRequest {
	all := slices.Clone(p.listed)
	for _, g := range p.asked {
		if g.State == github.Open {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b github.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return all
}

// missing are the numbers that are not in a list, of pull requests that were open or
// that somebody holds though they are not known.
func missing(known []v1alpha1.PullRequest, p *pulls, held map[int64]bool) []int64 {
	there := maps.Clone(p.unusable)
	if there == nil {
		there = map[int64]bool{}
	}
	for _, g := range p.listed {
		there[int64(g.Number)] = true
	}
	var numbers []int64
	for _, k := range known {
		if k.State == v1alpha1.PullRequestOpen && !there[k.Number] {
			numbers = append(numbers, k.Number)
		}
		there[k.Number] = true
	}
	for _, n := range slices.Sorted(maps.Keys(held)) {
		if held[n] && n > 0 && !there[n] {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// undated are the head commits whose date decides about an image, newest pull request
// first.
func undated(known []v1alpha1.PullRequest, p *pulls) []string {
	dated := map[string]bool{}
	if !p.other {
		for _, k := range known {
			dated[headOf(k.Number, k.HeadSHA)] = k.HeadTime != nil
		}
	}
	var commits []string
	for _, g := range p.open() {
		if !dated[headOf(int64(g.Number), g.HeadSHA)] && !slices.Contains(commits, g.HeadSHA) {
			commits = append(commits, g.HeadSHA)
		}
	}
	return commits
}

// headOf names a head commit of a pull request.
func headOf(number int64, sha string) string { return fmt.Sprintf("%d@%s", number, sha) }

// keepClosed is how long a closed pull request is known at least, for whoever has not
// heard of it yet.
const keepClosed = 24 * time.Hour

// Bounds of the status: pull requests, and bytes of the whole, in JSON.
const (
	maxPulls = 500
	maxBytes = 250_000
)

// retain leaves out the closed pull requests that nobody holds any more, and then as
// many as have no room in so many bytes of JSON, and says how many of those there are.
// What somebody holds goes last, closed before open, because the end is news; before it
// go closed ones, then those of forks, whom anybody can open, then all others; among
// themselves those of the oldest pushes.
func retain(all []v1alpha1.PullRequest, held map[int64]bool, now time.Time, room int) ([]v1alpha1.PullRequest, int) {
	const (
		ended = iota
		fork
		own
		offered
		news
	)
	rank := func(pr *v1alpha1.PullRequest) int {
		closed := pr.State == v1alpha1.PullRequestClosed
		switch {
		case closed && held[pr.Number]:
			return news
		case closed:
			return ended
		case held[pr.Number]:
			return offered
		case pr.Fork:
			return fork
		}
		return own
	}
	order := slices.DeleteFunc(slices.Clone(all), func(pr v1alpha1.PullRequest) bool {
		return rank(&pr) == ended && pr.ClosedTime != nil && now.Sub(pr.ClosedTime.Time) > keepClosed
	})
	slices.SortFunc(order, func(a, b v1alpha1.PullRequest) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), pushed(&b).Compare(pushed(&a)), cmp.Compare(b.Number, a.Number))
	})
	var kept []v1alpha1.PullRequest
	size := 0
	for _, pr := range order {
		size += sizeOf(pr) + 1
		if len(kept) == maxPulls || size > room {
			break
		}
		kept = append(kept, pr)
	}
	slices.SortFunc(kept, func(a, b v1alpha1.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return kept, len(order) - len(kept)
}

// pushed is when a head was; zero where nobody knows.
func pushed(pr *v1alpha1.PullRequest) time.Time {
	for _, at := range []*metav1.Time{pr.PushTime, pr.HeadTime} {
		if at != nil {
			return at.Time
		}
	}
	return time.Time{}
}

// sizeOf a value in JSON.
func sizeOf(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return maxBytes // no type of the API fails; one that did would have no room
	}
	return len(data)
}
