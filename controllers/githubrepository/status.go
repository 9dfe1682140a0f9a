package githubrepository

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons of the condition Truncated.
const (
	reasonTooManyPulls    = "TooManyPullRequests"
	reasonTooManyReleases = "TooManyReleases"
	reasonTooManyTags     = "TooManyTags"
)

// report writes the status, if it differs, and tells of transitions. A write holds
// only for the status that was read: half of an older one is never mixed in.
func (r *Reconciler) report(ctx context.Context, o *observed, known remembered) error {
	repository := o.repository
	before := repository.DeepCopy()
	st := &repository.Status
	st.WebhookPath = webhookPath(repository)
	learned := known.fresh(o.question)
	var late map[string]time.Time
	if learned {
		late = learn(o, known, r.clock.Now())
	}
	answered := known.answered(o.question)
	if answered || o.problem != nil {
		st.LastHandledRequest = o.question.requested
	}
	if answered || o.quiet() {
		st.ObservedGeneration = repository.Generation
	}
	setReady(o, known)
	setWebhook(o, known, r.serves)
	wrote, err := status.Patch(ctx, r.Client, FieldOwner, repository, before, status.AtResourceVersion)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if learned {
		r.looks.report(client.ObjectKeyFromObject(repository), known.look, late)
	}
	if wrote {
		r.tell(repository, before)
	}
	return nil
}

// webhookPath is where deliveries of a webhook are taken; "": nowhere.
func webhookPath(repository *v1alpha1.GitHubRepository) string {
	if repository.Spec.WebhookSecretRef == nil {
		return ""
	}
	return pathPrefix + repository.Namespace + "/" + repository.Name
}

// pathPrefix of all paths at which deliveries are taken.
const pathPrefix = "/github/"

// learn puts what a look learned into the status, and gives what is to be remembered
// of pushes. What the look did not learn stays as it was.
func learn(o *observed, known remembered, now time.Time) map[string]time.Time {
	st, l := &o.repository.Status, known.look
	if l.repository == nil {
		return known.pushes
	}
	if l.other && l.pulls == nil {
		if l.question.wants.pulls {
			return known.pushes // or pull requests of both would be taken for those of one
		}
		l.pulls = &pulls{time: l.begun, other: true}
	}
	st.Repository, st.RepositoryID = l.repository.Repo.String(), l.repository.ID
	st.ResolvedFrom = l.question.repo.String()
	var cut overflow
	switch {
	case !l.question.wants.releases:
		st.Releases = nil
	case l.releases != nil:
		var left int
		st.Releases, left = releasesOf(l.releases)
		cut.note(reasonTooManyReleases, "releases", left, l.releases.Truncated)
	}
	switch {
	case !l.question.wants.tags:
		st.Tags = nil
	case l.tags != nil:
		var left int
		st.Tags, left = tagsOf(l.tags, l.question.wants.names)
		cut.note(reasonTooManyTags, "tags", left, l.tags.Truncated)
	}
	late := known.pushes
	if l.pulls != nil {
		late = learnPulls(o, known, now, &cut)
	}
	// A part that was not read may have been cut before.
	if cut.reason != "" || l.err == nil && (l.pulls != nil || !pullsWereCut(st)) {
		cut.set(&st.Conditions, o.repository.Generation)
	}
	return late
}

// minPullBytes is the room in the status that pull requests have, whatever else has.
const minPullBytes = 100_000

// longestGap is how long after its time a look may come and still count as the next one.
const longestGap = 5 * time.Minute

func learnPulls(o *observed, known remembered, now time.Time, cut *overflow) map[string]time.Time {
	st, p := &o.repository.Status, known.look.pulls
	q := &known.look.question
	m := memory{gap: known.saw.IsZero() || p.time.Sub(known.saw) > q.interval+longestGap, wanted: map[string]bool{}, saw: known.saw, pushes: known.pushes}
	for name := range strings.SplitSeq(q.wants.labels, separator) {
		m.wanted[name] = true
	}
	late := pushes(st.PullRequests, p, m)
	merged := merge(st.PullRequests, p, m)
	held := maps.Clone(o.held)
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
	st.PullRequests, left = retain(merged, held, now, max(minPullBytes, maxBytes-sizeOf(st)))
	cut.note(reasonTooManyPulls, "pull requests", left, p.more)
	return late
}

// pullsWereCut says that the last look left open pull requests out.
func pullsWereCut(st *v1alpha1.GitHubRepositoryStatus) bool {
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionTruncated)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reasonTooManyPulls
}

// overflow is what had no room.
type overflow struct {
	reason string // pull requests', if they are among it
	parts  []string
}

// note that so many have no room, or that there were more than are read.
func (c *overflow) note(reason, what string, left int, more bool) {
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
		c.parts = append(c.parts, fmt.Sprintf("%d %s of the first 2000 have no room, and more are not read", left, what))
	default:
		c.parts = append(c.parts, fmt.Sprintf("%d %s have no room", left, what))
	}
}

func (c *overflow) set(conds *[]metav1.Condition, generation int64) {
	if c.reason == "" {
		status.Set(conds, generation, v1alpha1.ConditionTruncated, metav1.ConditionFalse, "Complete", "all that is wanted is in the status")
		return
	}
	status.Set(conds, generation, v1alpha1.ConditionTruncated, metav1.ConditionTrue, c.reason, strings.Join(c.parts, "; ")+
		": closed pull requests, those of forks and of the oldest pushes, older releases and lower tags are left out; close or delete what nobody needs, or choose tags by spec.match.name of their ImagePolicies")
}

// setReady says in conditions what is wrong, or what was found. It is pure.
func setReady(o *observed, known remembered) {
	st, gen := &o.repository.Status, o.repository.Generation
	conds, l := &st.Conditions, known.look
	answered := l != nil && l.question == o.question
	switch {
	case o.problem != nil:
		status.Stalled(conds, gen, o.problem.Reason, o.problem.Error())
		return
	case o.repository.Spec.Suspend:
		status.Ready(conds, gen, "Suspended", "spec.suspend is set: GitHub is not asked, and what is known stays known")
		return
	case !answered && silent(o) && known.task != nil:
		status.Reconciling(conds, gen, "Looking", "the look at GitHub is not done: others of this namespace or server come first, or the server is slow")
		return
	case !answered:
		return
	}
	if limited(l.err) {
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionTrue, string(github.KindOf(l.err)), l.err.Error()+"; next request after "+retryTime(l.err).UTC().Format(time.RFC3339))
	} else {
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionFalse, "NotLimited", "GitHub asks for no pause")
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

// amount counts things: "1 tag", "2 tags".
func amount(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// summary of what is known after a look.
func summary(st *v1alpha1.GitHubRepositoryStatus, l *look) string {
	var parts []string
	w := l.question.wants
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
		return "GitHub answers; no ImagePolicy that may use it reads anything"
	}
	text := "read " + strings.Join(parts, ", ")
	if l.pulls != nil && len(l.pulls.unusable) > 0 {
		text += fmt.Sprintf("; left out, because nothing can be shown of the name of its branch: pull request %d", slices.Min(slices.Collect(maps.Keys(l.pulls.unusable))))
		if more := len(l.pulls.unusable) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return text
}

// setWebhook says whether deliveries of a webhook are taken.
func setWebhook(o *observed, known remembered, serves bool) {
	conds, gen := &o.repository.Status.Conditions, o.repository.Generation
	problem, checked := o.webhook, o.checked
	if l := known.look; !checked && l != nil && l.question == o.question {
		problem, checked = l.webhook, true
	}
	set := func(value metav1.ConditionStatus, reason, message string) {
		status.Set(conds, gen, v1alpha1.ConditionWebhookReady, value, reason, message)
	}
	switch {
	case o.repository.Spec.WebhookSecretRef == nil:
		status.Remove(conds, v1alpha1.ConditionWebhookReady)
	case !serves:
		set(metav1.ConditionFalse, "NotServed", "the manager takes no deliveries: start it with --webhook-bind-address; GitHub is asked with the interval")
	case !checked:
	case problem != nil:
		set(metav1.ConditionFalse, problem.Reason, problem.Error())
	default:
		set(metav1.ConditionTrue, "Listening", "deliveries are taken at status.webhookPath")
	}
}

// tell emits an event for each transition.
func (r *Reconciler) tell(repository, before *v1alpha1.GitHubRepository) {
	was, is := before.Status, repository.Status
	r.events.Transitions(repository, was.Conditions, is.Conditions, "Look",
		status.Told{Kind: v1alpha1.ConditionReady, Good: metav1.ConditionTrue},
		status.Told{Kind: v1alpha1.ConditionRateLimited, Good: metav1.ConditionFalse, Worry: true},
		status.Told{Kind: v1alpha1.ConditionTruncated, Good: metav1.ConditionFalse, Worry: true},
		status.Told{Kind: v1alpha1.ConditionWebhookReady, Good: metav1.ConditionTrue, Worry: true},
	)
	if was.Repository != "" && was.Repository != is.Repository {
		r.events.Normal(repository, "Renamed", "Look", fmt.Sprintf("the repository is %s now, and was %s", is.Repository, was.Repository))
	}
}
