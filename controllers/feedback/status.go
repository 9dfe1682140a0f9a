package feedback

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons for the FeedbackReady condition, in addition to the kinds of GitHub errors.
const (
	reasonTooMany = "TooManyPreviews"
)

// recordResults updates the records with the results of a task.
func recordResults(ghr *v1alpha1.GitHubRepository, out *applied) {
	for _, found := range out.found {
		if recordOf(ghr, &found) < 0 {
			ghr.Status.Feedback = append(ghr.Status.Feedback, found)
		}
	}
	for i := range out.results {
		if out.results[i].comment != nil {
			recordComment(ghr, &out.results[i])
		} else {
			recordDeployment(ghr, &out.results[i])
		}
	}
}

func recordOf(ghr *v1alpha1.GitHubRepository, r *v1alpha1.FeedbackRecord) int {
	here := repositoryOf(ghr)
	return slices.IndexFunc(ghr.Status.Feedback, func(known v1alpha1.FeedbackRecord) bool {
		return targetOf(&known, here) == targetOf(r, here)
	})
}

func recordDeployment(ghr *v1alpha1.GitHubRepository, res *result) {
	at := recordOf(ghr, res.deployment)
	if at < 0 { // the records were removed
		if res.id == 0 {
			return
		}
		at = len(ghr.Status.Feedback)
		ghr.Status.Feedback = append(ghr.Status.Feedback, *res.deployment)
	}
	r := &ghr.Status.Feedback[at]
	r.DeploymentID = res.id
	if res.err != nil {
		return
	}
	if res.id == 0 { // there is no Deployment to make inactive
		ghr.Status.Feedback = slices.Delete(ghr.Status.Feedback, at, at+1)
		return
	}
	r.State, r.Checksum = res.want.state, res.checksum
}

func recordComment(ghr *v1alpha1.GitHubRepository, res *result) {
	here := repositoryOf(ghr)
	at := slices.IndexFunc(ghr.Status.Comments, func(c v1alpha1.CommentRecord) bool {
		return c.PullRequest == res.comment.PullRequest && repositoryOfComment(&c).otherThan(here) == repositoryOfComment(res.comment).otherThan(here)
	})
	if res.hasNoComment() {
		if at >= 0 {
			ghr.Status.Comments = slices.Delete(ghr.Status.Comments, at, at+1)
		}
		return
	}
	if at < 0 {
		at = len(ghr.Status.Comments)
		ghr.Status.Comments = append(ghr.Status.Comments, *res.comment)
	}
	c := &ghr.Status.Comments[at]
	c.CommentID, c.Deletions = res.kept.ID, deletionsOf(res.kept)
	if res.err == nil {
		c.Checksum = res.checksum
	}
}

// hasNoComment reports whether there is no comment to edit: none was found, or the search for it was rejected. In the
// latter case, a comment was probably never written. The record of a comment that was deleted twice remains, so that the
// comment is not written again.
func (r *result) hasNoComment() bool {
	if !r.editsOnly() || r.kept.ID != 0 || r.kept.Dismissed {
		return false
	}
	switch github.KindOf(r.err) {
	case github.Forbidden, github.Locked, github.NotFound:
		return true
	}
	return r.err == nil
}

// setCondition sets FeedbackReady to False while a write is failing or the limits are exceeded, and to True once
// everything is written except comments in locked conversations. If feedback is not configured, it removes the
// condition after the cleanup.
func setCondition(ghr *v1alpha1.GitHubRepository, p *plan, known *repositoryEntry, search bool) {
	set := func(value metav1.ConditionStatus, reason, message string) {
		status.Set(&ghr.Status.Conditions, ghr.Generation, v1alpha1.ConditionFeedbackReady, value, reason, message)
	}
	failed, count := reportedFailure(p, known)
	locked := lockedPullRequests(p, known)
	switch {
	case failed != nil:
		message := failed.Error()
		if count > 1 {
			message += fmt.Sprintf(" (%d failed writes in total)", count)
		}
		set(metav1.ConditionFalse, reasonOf(failed), message)
	case search || len(p.writes) > len(locked):
	case ghr.Spec.Feedback == nil:
		status.Remove(&ghr.Status.Conditions, v1alpha1.ConditionFeedbackReady)
	case p.omitted > 0:
		set(metav1.ConditionFalse, reasonTooMany, fmt.Sprintf("%d deployments or comments on GitHub are not written, because the limit is %d deployments and %d comments: select fewer pull requests", p.omitted, maxRecords, maxComments))
	case len(locked) > 0:
		set(metav1.ConditionTrue, status.ReasonSucceeded, "comments not written because the conversation is locked: "+status.LineOf(strings.Join(locked, ", "), maxLocked))
	case p.unknownCommits > 0:
		set(metav1.ConditionTrue, status.ReasonSucceeded, fmt.Sprintf("releases without a deployment on GitHub, because their commit is unknown: %d; a commit is known if the release or the ImagePolicy contains it, or if status.tags contains the tag of the version", p.unknownCommits))
	default:
		set(metav1.ConditionTrue, status.ReasonSucceeded, "GitHub is up to date")
	}
}

// maxLocked is the maximum length, in bytes, of the list of locked pull requests in a message.
const maxLocked = 200

// lockedPullRequests returns the pull requests whose comments are not written because their conversations are
// locked. This is not an error, because a user locked the conversations.
func lockedPullRequests(p *plan, known *repositoryEntry) []string {
	keys := known.locked()
	var numbers []string
	for i := range p.writes {
		if w := &p.writes[i]; w.comment != nil && keys[w.key] {
			numbers = append(numbers, fmt.Sprintf("#%d", w.comment.PullRequest))
		}
	}
	return numbers
}

// reportedFailure returns the failure to report, chosen deterministically, and the number of failed writes.
// Comments in locked conversations do not count.
func reportedFailure(p *plan, known *repositoryEntry) (error, int) {
	var failed error
	key, count := "", 0
	for i := range p.writes {
		f, ok := known.failures[p.writes[i].key]
		if !ok || github.KindOf(f.err) == github.Locked {
			continue
		}
		if count++; failed == nil || p.writes[i].key < key {
			failed, key = f.err, p.writes[i].key
		}
	}
	if f, ok := known.failures[""]; ok {
		return f.err, max(1, count)
	}
	return failed, count
}

// reasonOf returns the condition reason for an error.
func reasonOf(err error) string {
	if own := new(status.Error); errors.As(err, &own) {
		return own.Reason
	}
	return cmp.Or(string(github.KindOf(err)), status.ReasonFailed)
}
