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

// Bounds on a pull request in the status: the lengths of texts in characters, and the numbers of labels.
const (
	maxAuthor   = 64
	maxHeadRepo = 140
	maxLabel    = 50
	maxTitle    = 80
	maxLabels   = 100 // bounds the labels to which ImagePolicies refer; GitHub allows the same number per pull request
	someLabels  = 20  // bounds all labels of a pull request if ImagePolicies refer to fewer of them
)

// pullRequests contains the responses for pull requests in a poll.
type pullRequests struct {
	// time is the time at which the list was requested.
	time time.Time
	// listed contains the open pull requests in the list.
	listed []github.PullRequest
	// unusable contains the numbers of open pull requests that cannot be read. Their previous state is kept.
	unusable map[int64]bool
	// more reports whether there are more open pull requests than were read.
	more bool
	// asked contains the pull requests that were requested by number because they were missing from the list.
	asked map[int64]github.PullRequest
	// dates contains the committer dates of commits. The keys are the commits.
	dates map[string]time.Time
	// parents contains the parents of test merges. The keys are the commits of the test merges.
	parents map[string][]string
	// other reports whether the previous state belongs to another repository.
	other bool
}

// mergeContext contains the inputs to a merge in addition to the previous state and the poll.
type mergeContext struct {
	// gap reports whether there was a period without polls. In that case, a head commit may have changed and changed
	// back.
	gap bool
	// wanted contains the labels to which ImagePolicies refer.
	wanted map[string]bool
	// lastRead contains, for each open pull request, the poll that read its labels. The keys are the numbers of the
	// pull requests.
	lastRead map[int64]lastRead
	// maxGap is how long a pull request may go without a poll before there is a gap; 0 means no limit.
	maxGap time.Duration
	// lastPoll is the time of the poll that produced the previous state; zero if an earlier process ran this poll.
	lastPoll time.Time
	// pushes contains, for each head commit without a date, a time before which it was not
	// pushed. headOf returns the keys.
	pushes map[string]time.Time
}

// merge merges a poll into the known pull requests, and returns them with the highest number first. It is pure
// and idempotent. Unless the repository was replaced, a pull request is marked as closed only because of the
// response to a request for its number.
func merge(known []v1alpha1.PullRequest, p *pullRequests, m mergeContext) []v1alpha1.PullRequest {
	merged := map[int64]v1alpha1.PullRequest{}
	before := map[int64]v1alpha1.PullRequest{}
	for _, k := range known {
		if p.other { // all pull requests of the previous repository are closed
			k = closedPullRequest(k, p.time)
		} else {
			before[k.Number] = k
		}
		merged[k.Number] = k
	}
	take := func(g github.PullRequest) {
		k, was := before[int64(g.Number)]
		switch {
		case g.State == github.Open && was && isBeforeClosed(g, k):
		case g.State == github.Open:
			merged[int64(g.Number)] = openPullRequest(g, k, was, p, m)
		case !was: // an ImagePolicy offers a pull request that was not known before
			merged[int64(g.Number)] = closedPullRequest(openPullRequest(g, k, was, p, m), firstTime(g.ClosedAt, p.time))
		case k.State == v1alpha1.PullRequestOpen:
			merged[int64(g.Number)] = closedPullRequest(k, firstTime(g.ClosedAt, p.time))
		}
	}
	for _, g := range p.listed {
		take(g)
	}
	for _, g := range p.asked { // requested after the list
		take(g)
	}
	result := make([]v1alpha1.PullRequest, 0, len(merged))
	for _, pr := range merged {
		result = append(result, pr)
	}
	slices.SortFunc(result, func(a, b v1alpha1.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return result
}

// isBeforeClosed reports whether a response shows a pull request as it was before it was closed. This
// happens if one of GitHub's replicas lags. If the pull request was reopened, its last change is newer.
func isBeforeClosed(g github.PullRequest, k v1alpha1.PullRequest) bool {
	return k.State == v1alpha1.PullRequestClosed && k.ClosedTime != nil && !g.UpdatedAt.IsZero() && g.UpdatedAt.Before(k.ClosedTime.Time)
}

// firstTime returns the first time that is not zero.
func firstTime(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// closedPullRequest marks a pull request as closed at t.
func closedPullRequest(k v1alpha1.PullRequest, t time.Time) v1alpha1.PullRequest {
	if k.State != v1alpha1.PullRequestClosed {
		k.State, k.ClosedTime = v1alpha1.PullRequestClosed, timestamp(t)
	}
	return k
}

// openPullRequest returns the new state of an open pull request. k is the previous state, if any; was reports
// whether there is one.
func openPullRequest(g github.PullRequest, k v1alpha1.PullRequest, was bool, p *pullRequests, m mergeContext) v1alpha1.PullRequest {
	pr := v1alpha1.PullRequest{
		Number: int64(g.Number), State: v1alpha1.PullRequestOpen,
		HeadRef: g.HeadRef, HeadSHA: g.HeadSHA, MergeSHA: mergeSHA(g, k, p), BaseRef: g.BaseRef,
		Fork: g.Fork, HeadRepo: g.HeadRepo, Author: g.Author, Association: associations[g.Association],
		Draft: g.Draft, Title: status.LineOf(g.Title, maxTitle),
	}
	if len(pr.HeadRepo) > maxHeadRepo {
		pr.HeadRepo = "" // no repository can have such a long name
	}
	if len(pr.Author) > maxAuthor {
		pr.Author = ""
	}
	pr.HeadTime = headTime(g, k, was, p, m)
	pr.PushTime = pushTime(g, k, was, p)
	if was && m.maxGap > 0 && p.time.Sub(m.lastRead[pr.Number].time) > m.maxGap {
		m.gap = true
	}
	pr.Labels = labels(g, k, was, m)
	return pr
}

// mergeSHA returns the test merge of the head commit. In lists, GitHub may return the test merge of the
// previous push. Therefore, only a commit that has the head commit as a parent is accepted. Until GitHub returns
// such a commit, mergeSHA returns the last known test merge of the same head commit.
func mergeSHA(g github.PullRequest, k v1alpha1.PullRequest, p *pullRequests) string {
	switch {
	case slices.Contains(p.parents[g.MergeCommitSHA], g.HeadSHA):
		return g.MergeCommitSHA
	case k.HeadSHA == g.HeadSHA:
		return k.MergeSHA
	}
	return ""
}

// unknownMerges returns the test merges whose parents must be read, in the order of knownFirst.
func unknownMerges(known []v1alpha1.PullRequest, p *pullRequests) []string {
	merges := map[string]string{}
	if !p.other {
		for _, k := range known {
			merges[headOf(k.Number, k.HeadSHA)] = k.MergeSHA
		}
	}
	var commits []string
	for _, g := range p.knownFirst(known) {
		if g.MergeCommitSHA != "" && merges[headOf(int64(g.Number), g.HeadSHA)] != g.MergeCommitSHA && !slices.Contains(commits, g.MergeCommitSHA) {
			commits = append(commits, g.MergeCommitSHA)
		}
	}
	return commits
}

// pushTime returns the time at which the head commit was first seen. The first known head commit of a
// pull request is assumed to have been pushed when the pull request was opened, or at the commit's committer
// date if that is later. The result is never later than the poll, because a committer date is not reliable.
func pushTime(g github.PullRequest, k v1alpha1.PullRequest, was bool, p *pullRequests) *metav1.Time {
	switch {
	case was && k.HeadSHA != g.HeadSHA:
		return timestamp(p.time)
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
	return timestamp(pushed)
}

// headTime returns a time before which no image of the head commit can have been built, or nil if no such
// time is known. A committer date is not reliable, but a push between two polls must have happened after the
// first of these polls.
func headTime(g github.PullRequest, k v1alpha1.PullRequest, was bool, p *pullRequests, m mergeContext) *metav1.Time {
	if was && k.HeadSHA == g.HeadSHA && k.HeadTime != nil {
		return k.HeadTime
	}
	date, dated := p.dates[g.HeadSHA]
	if !dated {
		return nil
	}
	if date.After(p.time) {
		date = p.time // the commit existed by then
	}
	if least := notPushedBefore(g, k, was, m); least.After(date) {
		date = least
	}
	return timestamp(date)
}

// notPushedBefore returns a time before which the head commit was not pushed; zero if no such time is known.
func notPushedBefore(g github.PullRequest, k v1alpha1.PullRequest, was bool, m mergeContext) time.Time {
	switch {
	case !was:
		return time.Time{}
	case k.HeadSHA == g.HeadSHA:
		return m.pushes[headOf(k.Number, k.HeadSHA)]
	case m.lastPoll.IsZero() && k.HeadTime != nil:
		return k.HeadTime.Time // the previous head commit existed by then
	}
	return m.lastPoll
}

// pushTimes returns the value of mergeContext.pushes for the next merge.
func pushTimes(known []v1alpha1.PullRequest, p *pullRequests, m mergeContext) map[string]time.Time {
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
		if after := notPushedBefore(g, k, was, m); !after.IsZero() && p.dates[g.HeadSHA].IsZero() {
			result[headOf(k.Number, g.HeadSHA)] = after
		}
	}
	return result
}

// labels returns the labels of a pull request, sorted by name. If there are too many, the labels to which
// ImagePolicies refer take precedence over other labels. Each label has the head commit at which it was added,
// because a reviewer who approves a commit with a label has not seen later commits. A label's commit is empty
// if the label appeared together with a new head commit, because its commit is then unknown. For a pull request
// from a fork, the commit is also unknown if the pull request is new or was reopened, if there was a gap in polling,
// or if the label could have been omitted before. Other pull requests require no approval.
func labels(g github.PullRequest, k v1alpha1.PullRequest, was bool, m mergeContext) []v1alpha1.PullRequestLabel {
	sha := g.HeadSHA
	unseen := !was || m.gap || k.State == v1alpha1.PullRequestClosed
	if was && k.HeadSHA != g.HeadSHA || g.Fork && unseen {
		sha = ""
	}
	var result []v1alpha1.PullRequestLabel
	for _, name := range g.Labels {
		label := v1alpha1.PullRequestLabel{Name: cut(name, maxLabel), SHA: sha}
		if g.Fork && m.truncated(k, label.Name) {
			label.SHA = ""
		}
		if i := slices.IndexFunc(k.Labels, func(l v1alpha1.PullRequestLabel) bool { return strings.EqualFold(l.Name, label.Name) }); i >= 0 {
			label.SHA = k.Labels[i].SHA
		}
		result = append(result, label)
	}
	byName := func(a, b v1alpha1.PullRequestLabel) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(result, byName)
	result = slices.CompactFunc(result, func(a, b v1alpha1.PullRequestLabel) bool { return a.Name == b.Name })
	slices.SortStableFunc(result, func(a, b v1alpha1.PullRequestLabel) int {
		return cmp.Compare(rank(m.wanted, a.Name), rank(m.wanted, b.Name))
	})
	named := 0
	for named < len(result) && refersTo(m.wanted, result[named].Name) {
		named++
	}
	result = result[:min(len(result), max(someLabels, named), maxLabels)]
	slices.SortFunc(result, byName)
	return result
}

// truncated reports whether a pull request may have had a label that is not among its known labels, because the known
// labels are truncated. Labels to which ImagePolicies referred when the pull request was read are not truncated.
func (m mergeContext) truncated(k v1alpha1.PullRequest, label string) bool {
	return len(k.Labels) >= maxLabels || len(k.Labels) >= someLabels && !refersTo(m.lastRead[k.Number].labels, label)
}

// rank returns 0 for a label to which ImagePolicies refer, and 1 for other labels.
func rank(wanted map[string]bool, label string) int {
	if refersTo(wanted, label) {
		return 0
	}
	return 1
}

// refersTo reports whether an ImagePolicy refers to a label. The comparison ignores case, as GitHub does, and
// accepts any commit for {{.SHA}}.
func refersTo(wanted map[string]bool, label string) bool {
	label = strings.ToLower(label)
	return wanted[label] || wanted[wholeCommit.ReplaceAllString(label, "{{.sha}}")]
}

var wholeCommit = regexp.MustCompile(`[0-9a-f]{40}`)

// cut returns the first n characters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n])
}

// associations maps GitHub's names to author associations.
var associations = map[string]v1alpha1.AuthorAssociation{
	"OWNER": "Owner", "MEMBER": "Member", "COLLABORATOR": "Collaborator", "CONTRIBUTOR": "Contributor",
	"FIRST_TIME_CONTRIBUTOR": "FirstTimeContributor", "FIRST_TIMER": "FirstTimer", "MANNEQUIN": "Mannequin", "NONE": "None",
}

// timestamp truncates a time to whole seconds, because the API server stores only whole seconds.
func timestamp(t time.Time) *metav1.Time {
	at := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &at
}

// open returns the open pull requests, newest first.
func (p *pullRequests) open() []github.PullRequest {
	all := slices.Clone(p.listed)
	for _, g := range p.asked {
		if g.State == github.Open {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b github.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return all
}

// knownFirst returns the open pull requests: first the known ones and then the others, both newest first. Therefore,
// pull requests that do not fit into the status do not delay requests for the known ones.
func (p *pullRequests) knownFirst(known []v1alpha1.PullRequest) []github.PullRequest {
	numbers := map[int64]bool{}
	for _, k := range known {
		numbers[k.Number] = !p.other
	}
	all := p.open()
	slices.SortStableFunc(all, func(a, b github.PullRequest) int {
		switch first := numbers[int64(a.Number)]; {
		case first == numbers[int64(b.Number)]:
			return 0
		case first:
			return -1
		}
		return 1
	})
	return all
}

// missing returns the numbers of pull requests that are not in the list, but were open before or are offered
// by an ImagePolicy.
func missing(known []v1alpha1.PullRequest, p *pullRequests, held map[int64]bool) []int64 {
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

// undatedHeads returns the head commits whose dates must be read, in the order of knownFirst.
func undatedHeads(known []v1alpha1.PullRequest, p *pullRequests) []string {
	dated := map[string]bool{}
	if !p.other {
		for _, k := range known {
			dated[headOf(k.Number, k.HeadSHA)] = k.HeadTime != nil
		}
	}
	var commits []string
	for _, g := range p.knownFirst(known) {
		if !dated[headOf(int64(g.Number), g.HeadSHA)] && !slices.Contains(commits, g.HeadSHA) {
			commits = append(commits, g.HeadSHA)
		}
	}
	return commits
}

// headOf returns the key of a head commit of a pull request.
func headOf(number int64, sha string) string { return fmt.Sprintf("%d@%s", number, sha) }

// keepClosed is the minimum time for which closed pull requests that fit into the status are kept, so that controllers
// can observe that they were closed.
const keepClosed = 24 * time.Hour

// Bounds on the status: the number of pull requests, and the total size in bytes of JSON.
const (
	maxPullRequests = 500
	maxBytes        = 250_000
)

// retainPullRequests drops closed pull requests that are no longer offered and were closed more than keepClosed ago.
// It then drops more pull requests until the others are within maxPullRequests and the given number of bytes of JSON,
// and returns the number of pull requests that it drops for this reason. It first drops the other closed pull
// requests that are no longer offered, then pull requests from forks, which anyone can open, then other pull
// requests, then offered pull requests, and finally closed pull requests that are still offered, because ImagePolicies
// have not observed the change yet. Within each of these classes, it drops the pull requests with the oldest pushes
// first. A pull request with a deployment that is not inactive counts as offered.
func retainPullRequests(all []v1alpha1.PullRequest, held map[int64]bool, now time.Time, room int) ([]v1alpha1.PullRequest, int) {
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
		if len(kept) == maxPullRequests || size > room {
			break
		}
		kept = append(kept, pr)
	}
	slices.SortFunc(kept, func(a, b v1alpha1.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return kept, len(order) - len(kept)
}

// pushed returns the time at which the head commit was pushed; zero if it is not known.
func pushed(pr *v1alpha1.PullRequest) time.Time {
	for _, at := range []*metav1.Time{pr.PushTime, pr.HeadTime} {
		if at != nil {
			return at.Time
		}
	}
	return time.Time{}
}

// sizeOf returns the size of a value in JSON.
func sizeOf(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return maxBytes // cannot happen for API types
	}
	return len(data)
}
