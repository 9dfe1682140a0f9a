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

// Reasons of condition FeedbackReady, beside the kinds of errors of GitHub.
const (
	reasonTooMany = "TooManyPreviews"
)

// record puts what became of a task into the records.
func record(ghr *v1alpha1.GitHubRepository, out *outcome) {
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
	here := siteOf(ghr)
	return slices.IndexFunc(ghr.Status.Feedback, func(known v1alpha1.FeedbackRecord) bool {
		return targetOf(&known, here) == targetOf(r, here)
	})
}

func recordDeployment(ghr *v1alpha1.GitHubRepository, res *result) {
	at := recordOf(ghr, res.deployment)
	if at < 0 { // somebody took the records away
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
	if res.id == 0 { // there was none to end
		ghr.Status.Feedback = slices.Delete(ghr.Status.Feedback, at, at+1)
		return
	}
	r.State, r.Checksum = res.verdict.state, res.checksum
}

func recordComment(ghr *v1alpha1.GitHubRepository, res *result) {
	here := siteOf(ghr)
	at := slices.IndexFunc(ghr.Status.Comments, func(c v1alpha1.CommentRecord) bool {
		return c.PullRequest == res.comment.PullRequest && siteOfComment(&c).from(here) == siteOfComment(res.comment).from(here)
	})
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

// report sets the condition: False while anything that failed is not yet written,
// True when all is.
func report(ghr *v1alpha1.GitHubRepository, p *plan, known *remembered, search bool) {
	set := func(value metav1.ConditionStatus, reason, message string) {
		status.Set(&ghr.Status.Conditions, ghr.Generation, v1alpha1.ConditionFeedbackReady, value, reason, message)
	}
	failed, count := worst(p, known)
	locked := lockedOf(p, known)
	switch {
	case failed != nil:
		message := failed.Error()
		if count > 1 {
			message += fmt.Sprintf(" (and %d more)", count-1)
		}
		set(metav1.ConditionFalse, reasonOf(failed), message)
	case search || len(p.writes) > len(locked):
	case ghr.Spec.Feedback == nil:
		status.Remove(&ghr.Status.Conditions, v1alpha1.ConditionFeedbackReady)
	case p.left > 0:
		set(metav1.ConditionFalse, reasonTooMany, fmt.Sprintf("%d Deployments or comments are not written: there is room for %d Deployments and %d comments: let fewer pull requests be chosen", p.left, maxRecords, maxComments))
	case len(locked) > 0:
		set(metav1.ConditionTrue, status.ReasonSucceeded, "comments that are left out, because the conversation is locked: "+status.LineOf(strings.Join(locked, ", "), maxLocked))
	case p.unknown > 0:
		set(metav1.ConditionTrue, status.ReasonSucceeded, fmt.Sprintf("releases without a Deployment, because their commit is not known: %d: give their images the label org.opencontainers.image.revision", p.unknown))
	default:
		set(metav1.ConditionTrue, status.ReasonSucceeded, "all that is to be written at GitHub is written")
	}
}

// maxLocked is the length of the numbers of locked pull requests in a message.
const maxLocked = 200

// lockedOf are the pull requests whose comment waits, because the conversation is locked.
// Who locked it wanted that; nothing is to be fixed.
func lockedOf(p *plan, known *remembered) []string {
	keys := known.locked()
	var numbers []string
	for i := range p.writes {
		if w := &p.writes[i]; w.comment != nil && keys[w.key] {
			numbers = append(numbers, fmt.Sprintf("#%d", w.comment.PullRequest))
		}
	}
	return numbers
}

// worst gives the failure that is told of, the same one for the same failures, and
// how many writes failed. Comments of locked conversations are not among them.
func worst(p *plan, known *remembered) (error, int) {
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

// reasonOf is the word for an error.
func reasonOf(err error) string {
	if own := new(status.Error); errors.As(err, &own) {
		return own.Reason
	}
	return cmp.Or(string(github.KindOf(err)), status.ReasonFailed)
}
