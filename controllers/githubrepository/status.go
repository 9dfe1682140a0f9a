package githubrepository

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons for the Truncated condition.
const (
	reasonTooManyPulls    = "TooManyPullRequests"
	reasonTooManyReleases = "TooManyReleases"
	reasonTooManyTags     = "TooManyTags"
)

// webhookPath returns the path that accepts deliveries of a webhook, or "" if there is no webhook.
func webhookPath(repository *v1alpha1.GitHubRepository) string {
	if repository.Spec.WebhookSecretRef == nil {
		return ""
	}
	return pathPrefix + repository.Namespace + "/" + repository.Name
}

// pathPrefix is the prefix of all paths that accept deliveries.
const pathPrefix = "/github/"

// applyPoll updates the status with the results of a poll, and returns the push times to
// keep. Parts of the status without new results do not change.
func applyPoll(o *observed, known cacheEntry, now time.Time) map[string]time.Time {
	st, l := &o.repository.Status, known.poll
	if l.repository == nil {
		return known.pushes
	}
	if l.otherRepository && l.pulls == nil {
		if l.query.wanted.pulls {
			return known.pushes // never mix the pull requests of two repositories
		}
		l.pulls = &pullRequests{time: l.startedAt, other: true}
	}
	st.Repository, st.RepositoryID = l.repository.Repo.String(), l.repository.ID
	st.ResolvedFrom = l.query.repo.String()
	var cut truncation
	switch {
	case !l.query.wanted.releases:
		st.Releases = nil
	case l.releases != nil:
		var left int
		st.Releases, left = releasesOf(l.releases)
		cut.add(reasonTooManyReleases, "releases", left, l.releases.Truncated)
	}
	switch {
	case !l.query.wanted.tags:
		st.Tags = nil
	case l.tags != nil:
		var left int
		var first []v1alpha1.GitHubRelease
		if l.query.wanted.commits {
			first = st.Releases
		}
		st.Tags, left = tagsOf(l.tags, l.query.wanted.names, first)
		cut.add(reasonTooManyTags, "tags", left, l.tags.Truncated)
	}
	late := known.pushes
	if l.pulls != nil {
		late = applyPullRequests(o, known, now, &cut)
	}
	// If no part is truncated now but a part was not read, the condition is kept, because that part may have been
	// truncated before.
	if cut.reason != "" || l.err == nil && (l.pulls != nil || !pullsWereCut(st)) {
		cut.set(&st.Conditions, o.repository.Generation)
	}
	return late
}

// minPullBytes is the minimum size that is reserved for pull requests in the status.
const minPullBytes = 100_000

// maxGap is the maximum time between the end of the interval and the next poll. After a longer time, there is a
// gap in polling.
const maxGap = 5 * time.Minute

func applyPullRequests(o *observed, known cacheEntry, now time.Time, cut *truncation) map[string]time.Time {
	st, p := &o.repository.Status, known.poll.pulls
	q := &known.poll.query
	m := mergeContext{gap: known.lastPoll.IsZero() || p.time.Sub(known.lastPoll) > q.interval+maxGap, wanted: labelSet(q.wanted.labels), lastRead: known.lastRead, maxGap: q.interval + maxGap, lastPoll: known.lastPoll, pushes: known.pushes}
	late := pushTimes(st.PullRequests, p, m)
	merged := merge(st.PullRequests, p, m)
	held := maps.Clone(o.offered)
	for _, record := range st.Feedback {
		if record.State != v1alpha1.DeploymentInactive {
			held[record.PullRequest] = true
		}
	}
	open := int32(0)
	for _, pr := range merged {
		if pr.State == v1alpha1.PullRequestOpen {
			open++
		}
	}
	st.PullRequests, st.OpenPullRequests = nil, &open
	var left int
	st.PullRequests, left = retainPullRequests(merged, held, now, max(minPullBytes, maxBytes-sizeOf(st)))
	cut.add(reasonTooManyPulls, "pull requests", left, p.more)
	return late
}

// labelSet returns the labels of a query.
func labelSet(joined string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.SplitSeq(joined, separator) {
		set[name] = true
	}
	return set
}

// pullsWereCut reports whether pull requests were omitted, according to the Truncated condition.
func pullsWereCut(st *v1alpha1.GitHubRepositoryStatus) bool {
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionTruncated)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reasonTooManyPulls
}

// truncation describes the items that do not fit into the status.
type truncation struct {
	reason string // the reason for pull requests if they are truncated, and otherwise the first reason
	parts  []string
}

// add records that items do not fit, or that there are more items than are read.
func (c *truncation) add(reason, what string, left int, more bool) {
	if left == 0 && !more {
		return
	}
	if c.reason == "" || reason == reasonTooManyPulls {
		c.reason = reason
	}
	switch {
	case left == 0:
		c.parts = append(c.parts, fmt.Sprintf("only the first 2000 %s are read", what))
	case more:
		c.parts = append(c.parts, fmt.Sprintf("%d of the first 2000 %s do not fit into the status, and only the first 2000 are read", left, what))
	default:
		c.parts = append(c.parts, fmt.Sprintf("%d %s do not fit into the status", left, what))
	}
}

func (c *truncation) set(conds *[]metav1.Condition, generation int64) {
	if c.reason == "" {
		status.Set(conds, generation, v1alpha1.ConditionTruncated, metav1.ConditionFalse, "Complete", "the status is complete")
		return
	}
	status.Set(conds, generation, v1alpha1.ConditionTruncated, metav1.ConditionTrue, c.reason, strings.Join(c.parts, "; ")+
		": closed pull requests, pull requests from forks, pull requests with the oldest pushes, older releases and lower tags are omitted; close or delete items that you do not need, or select tags with spec.match.name of the ImagePolicies")
}

// setReady sets the conditions Ready, Reconciling, Stalled and RateLimited. It makes no requests.
func setReady(o *observed, known cacheEntry) {
	st, gen := &o.repository.Status, o.repository.Generation
	conds, l := &st.Conditions, known.poll
	answered := l != nil && l.query.isSame(o.query)
	switch {
	case o.problem != nil:
		status.Stalled(conds, gen, o.problem.Reason, o.problem.Error())
		return
	case o.repository.Spec.Suspend:
		status.Ready(conds, gen, "Suspended", "spec.suspend is true: GitHub is not polled, and the status is kept")
		return
	case !answered && neverReported(o) && known.task != nil:
		status.Reconciling(conds, gen, "Polling", "the first poll is not complete: polls of the same namespace or server are queued, or the server is slow")
		return
	case !answered:
		return
	}
	if limited(l.err) {
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionTrue, string(github.KindOf(l.err)), l.err.Error()+"; next request after "+retryTime(l.err).UTC().Format(time.RFC3339))
	} else {
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionFalse, "NotLimited", "requests to GitHub are not limited")
	}
	switch reason, message := "", ""; {
	case l.err == nil:
		status.Ready(conds, gen, status.ReasonSucceeded, summary(st, l))
	case transient(l.err):
		reason, message = failure(l.err)
		status.Reconciling(conds, gen, reason, message)
	default:
		reason, message = failure(l.err)
		status.Stalled(conds, gen, reason, message)
	}
}

// amount formats a count: "1 tag", "2 tags".
func amount(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// summary returns the message of the Ready condition after a poll.
func summary(st *v1alpha1.GitHubRepositoryStatus, l *poll) string {
	var parts []string
	w := l.query.wanted
	if w.pulls && st.OpenPullRequests != nil {
		parts = append(parts, amount(int(*st.OpenPullRequests), "open pull request"))
	}
	if w.releases {
		parts = append(parts, amount(len(st.Releases), "release"))
	}
	if w.tags {
		parts = append(parts, amount(len(st.Tags), "tag"))
	}
	if len(parts) == 0 {
		return "GitHub is reachable; no ImagePolicy that is allowed to use this repository reads from it"
	}
	text := "read " + strings.Join(parts, ", ")
	if l.pulls != nil && len(l.pulls.unusable) > 0 {
		text += fmt.Sprintf("; omitted because the branch name cannot be displayed: pull request %d", slices.Min(slices.Collect(maps.Keys(l.pulls.unusable))))
		if more := len(l.pulls.unusable) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return text
}

// setWebhook sets the WebhookReady condition, which reports whether deliveries of a webhook are
// accepted.
func setWebhook(o *observed, known cacheEntry, serves bool) {
	conds, gen := &o.repository.Status.Conditions, o.repository.Generation
	problem, checked := o.webhook, o.secretsRead
	if l := known.poll; !checked && l != nil && l.query.isSame(o.query) {
		problem, checked = l.webhook, true
	}
	set := func(value metav1.ConditionStatus, reason, message string) {
		status.Set(conds, gen, v1alpha1.ConditionWebhookReady, value, reason, message)
	}
	switch {
	case o.repository.Spec.WebhookSecretRef == nil:
		status.Remove(conds, v1alpha1.ConditionWebhookReady)
	case !serves:
		set(metav1.ConditionFalse, "NotServed", "the manager does not accept deliveries: start it with --webhook-bind-address; GitHub is polled after each interval")
	case !checked:
	case problem != nil:
		set(metav1.ConditionFalse, problem.Reason, problem.Error())
	default:
		set(metav1.ConditionTrue, "Listening", "accepting deliveries at status.webhookPath")
	}
}
