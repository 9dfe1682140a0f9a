package imagepolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
)

// reasonScanning is the reason that conditions have until a scan is complete.
const reasonScanning = "Scanning"

// setConditions sets the conditions. It is pure.
func setConditions(o *observed, s selection, out plan) {
	conds, gen := &o.policy.Status.Conditions, o.policy.Generation
	setReachable(o, s)
	setTruncated(o, s, out)
	switch {
	case o.problem != nil && o.problem.Class == status.Waiting:
		status.Reconciling(conds, gen, o.problem.Reason, o.problem.Error())
	case o.problem != nil:
		status.Stalled(conds, gen, o.problem.Reason, o.problem.Error())
	case o.policy.Spec.Suspend:
		status.Ready(conds, gen, "Suspended", "spec.suspend is true: the registry is not scanned, and offered versions remain offered")
	case s.err != nil && !out.decided:
		reason, message := reasonOf(s.err)
		if transient(s.err) {
			status.Reconciling(conds, gen, reason, message)
			return
		}
		status.Stalled(conds, gen, reason, message)
	case s.err != nil && !transient(s.err):
		reason, message := reasonOf(s.err)
		status.Stalled(conds, gen, reason, message+"; offered versions remain offered")
	case o.stale != nil && o.stale.Class == status.Terminal:
		status.Stalled(conds, gen, o.stale.Reason, o.stale.Error()+"; offered versions remain offered")
	case s.undecided:
		reason, message := reasonScanning, "the scan of the registry is not complete"
		if s.err != nil {
			reason, message = reasonOf(s.err)
		}
		status.Reconciling(conds, gen, reason, message+"; offered versions remain offered, and are checked against this specification as soon as possible")
	case s.incomplete && len(out.releases) == 0:
		status.Reconciling(conds, gen, reasonScanning, "the scan of the registry is not complete: other scans in the same namespace or of the same registry are queued, or the registry is slow")
	case len(out.releases) == 0 && s.err != nil:
		reason, message := reasonOf(s.err)
		status.Reconciling(conds, gen, reason, message)
	case len(out.releases) == 0 && s.untimed > 0:
		status.Reconciling(conds, gen, reasonScanning, fmt.Sprintf("the build times of %d of %d tags are not known yet, and all are needed; select tags with spec.tagFilter, or delete old tags", s.untimed, s.tags))
	case s.pulled != nil && len(out.releases) == 0:
		status.Ready(conds, gen, "NoPullRequests", noVersions(s, out)) // not an error
	case len(out.releases) == 0:
		status.Stalled(conds, gen, "NoVersions", noVersions(s, out))
	default:
		status.Ready(conds, gen, status.ReasonSucceeded, "offers "+inWords(out.releases)+untaggedNote(s))
	}
}

// untaggedNote lists the versions whose tags were deleted but whose images remain.
func untaggedNote(s selection) string {
	const most = 5
	if len(s.untagged) == 0 {
		return ""
	}
	named := strings.Join(s.untagged[:min(most, len(s.untagged))], ", ")
	if more := len(s.untagged) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("; the registry no longer has tags for these versions, whose images are still offered: %s; to withdraw them, add them to spec.deny, or set spec.untagged to Withdraw", named)
}

// noVersions explains why nothing is offered. The text contains the number of candidates that each filter
// rejected, and one of the candidates that the last of these filters rejected.
func noVersions(s selection, out plan) string {
	what := "tag"
	switch {
	case s.pulled != nil:
		what = "pull request"
		if s.tags == 0 {
			return "no pull request is open"
		}
	case s.tags == 0:
		return "the source has no tags or releases yet"
	}
	var parts []string
	for _, c := range out.rejected {
		parts = append(parts, fmt.Sprintf("%s rejected %d", c.Verdict, c.Count))
	}
	message := fmt.Sprintf("none of the %d %ss is offered: %s", s.tags, what, strings.Join(parts, ", "))
	if s.tags == 1 {
		message = fmt.Sprintf("the only %s is not offered: %s", what, strings.Join(parts, ", "))
	}
	if c, ok := lastRefused(out); ok {
		message += fmt.Sprintf("; for example %q: %s", c.Version, c.Reason)
	}
	return message
}

// lastRefused returns a candidate that was rejected by the last filter that rejected any candidates.
// Fewer changes are necessary to offer such a candidate than to offer others.
func lastRefused(out plan) (last v1alpha1.RefusedCandidate, ok bool) {
	for _, count := range slices.Backward(out.rejected) {
		for _, c := range out.candidates {
			if c.Verdict == count.Verdict {
				return c, true
			}
		}
	}
	return last, false
}

// setReachable sets SourceReachable and RateLimited. If there was neither a scan nor an error, it does not change them.
func setReachable(o *observed, s selection) {
	conds, gen := &o.policy.Status.Conditions, o.policy.Generation
	limited := s.err != nil && is(s.err, registry.RateLimited)
	switch {
	case limited:
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionTrue, "TooManyRequests", fmt.Sprintf("the registry limits requests until %s at the latest; offered versions remain offered; increase spec.interval to send fewer requests", shownRetry(s.err).Format(time.RFC3339)))
	case s.scanned || s.err != nil:
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionFalse, "NotLimited", "requests to the registry are not limited")
	}
	switch {
	case s.err != nil:
		reason, message := reasonOf(s.err)
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionFalse, reason, message)
	case o.stale != nil:
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionFalse, o.stale.Reason, o.stale.Error()+"; offered versions remain offered")
	case s.scanned:
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionTrue, "Answered", "the registry is reachable")
	case o.problem != nil:
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionUnknown, o.problem.Reason, o.problem.Error())
	}
}

func setTruncated(o *observed, s selection, out plan) {
	conds, gen := &o.policy.Status.Conditions, o.policy.Generation
	switch {
	case !s.scanned:
	case s.truncated:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionTrue, "TooManyTags", fmt.Sprintf("the maximum number of tags was read (%d): increase spec.limits.tags, select tags with spec.tagFilter, or delete old tags", s.tags))
	case out.truncated && s.pulled != nil:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionTrue, "TooManyReleases", fmt.Sprintf("only the first %d releases fit into the status: decrease spec.limits.groups, or select fewer pull requests", len(out.releases)))
	case out.truncated:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionTrue, "TooManyReleases", fmt.Sprintf("only the first %d releases fit into the status: decrease spec.limits.groups or spec.limits.releasesPerGroup, or narrow spec.versioning.range", len(out.releases)))
	case len(s.result.Truncated) > 0:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionTrue, "TooManyGroups", fmt.Sprintf("not offered, because of spec.limits.groups: %s; increase the limit, or select fewer versions or pull requests", strings.Join(s.result.Truncated, ", ")))
	default:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionFalse, "Complete", "no tags or groups are omitted")
	}
}

// reasonOf returns the condition reason and message for a registry error.
func reasonOf(err error) (reason, message string) {
	var e *registry.Error
	if errors.As(err, &e) {
		return string(e.Kind), e.Error()
	}
	return "Failed", err.Error()
}

func transient(err error) bool {
	var e *registry.Error
	return !errors.As(err, &e) || e.Kind.Transient()
}

// shownRetry returns the latest time of the next scan after a rate limit, rounded up to a multiple of five minutes, so that short
// pauses that follow each other do not change the statuses of all policies each time.
func shownRetry(err error) time.Time {
	return retryTime(err).UTC().Add(spread + 5*time.Minute - time.Nanosecond).Truncate(5 * time.Minute)
}

func retryTime(err error) time.Time {
	var e *registry.Error
	if errors.As(err, &e) {
		return e.RetryAt
	}
	return time.Time{}
}

func latest(releases []v1alpha1.OfferedRelease) string {
	if len(releases) == 0 {
		return ""
	}
	return status.Short(releases[0].SemVer.Version)
}
