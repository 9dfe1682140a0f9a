package imagepolicy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// Bounds on the status, as numbers of items (as in the schema) and in bytes of JSON. Together they keep the
// object below 256 KiB. A Microservice does not stop a release that is missing from the status because of these
// bounds.
const (
	maxCandidates  = 20
	maxReleases    = 1024
	maxWithdrawn   = 1024
	releasesBytes  = 160 << 10
	withdrawnBytes = 64 << 10
)

// plan is the status, except for its conditions.
type plan struct {
	// decided reports whether the plan is based on the current specification.
	decided    bool
	releases   []v1alpha1.OfferedRelease
	withdrawn  []v1alpha1.Withdrawal
	rejected   []v1alpha1.RejectedCount
	candidates []v1alpha1.RefusedCandidate
	// otherRepository reports whether the releases in the previous status are from another repository.
	otherRepository bool
	// truncated reports whether some releases do not fit into the status.
	truncated bool
}

// newPlan plans the offered and withdrawn versions. It is pure.
func newPlan(o *observed, s selection, now time.Time) plan {
	st := &o.policy.Status
	out := plan{releases: st.Releases, withdrawn: st.Withdrawn, rejected: st.Rejected, candidates: st.Candidates}
	if o.selector == nil {
		return out // the offer of the last valid specification remains
	}
	if s.pulled != nil {
		return newPullRequestPlan(o, s, out, now)
	}
	if !s.scanned && len(offeredBefore(o)) == 0 {
		out.otherRepository = len(out.releases) > 0
		out.releases = nil // the releases belong to another repository
		return out
	}
	out.decided = true
	out.releases, out.truncated = nil, false
	for _, rel := range s.result.Offered {
		images := s.images[rel.Tag]
		if len(images) == 0 {
			continue
		}
		of := o.detailOf(rel)
		out.releases = append(out.releases, v1alpha1.OfferedRelease{
			SemVer:      v1alpha1.SemVer{Name: rel.Group, Version: rel.Version},
			Group:       rel.Slug,
			Level:       v1alpha1.ReleaseLevel(rel.Level),
			Images:      images,
			ReleaseTime: of.time,
			Revision:    of.revision,
			URL:         of.url,
			Held:        rel.Held,
		})
	}
	offered := len(out.releases)
	out.releases = fit(out.releases, maxReleases, releasesBytes)
	out.truncated = len(out.releases) < offered
	out.withdrawn = fit(withdraw(o, s, now), maxWithdrawn, withdrawnBytes)
	switch {
	case s.scanned:
		out.rejected, out.candidates = rejections(s)
	case st.ObservedGeneration != o.policy.Generation:
		out.rejected, out.candidates = nil, nil // They are the results of an earlier specification.
	}
	return out
}

// newPullRequestPlan plans the status for pull requests. While the GitHubRepository cannot be read,
// the status does not change.
func newPullRequestPlan(o *observed, s selection, out plan, now time.Time) plan {
	out.decided = o.github.known || o.policy.Spec.Suspend
	offered := len(s.pulled.releases)
	out.releases = fit(s.pulled.releases, maxReleases, releasesBytes)
	out.truncated = len(out.releases) < offered
	out.withdrawn = fit(o.withdrawPulls(s.pulled, now), maxWithdrawn, withdrawnBytes)
	if s.scanned {
		out.rejected, out.candidates = rejections(s)
	}
	return out
}

// detailOf returns the details of a version from GitHub or, if GitHub no longer lists the version, from the previous status.
func (o *observed) detailOf(rel version.Release) detail {
	if o.github == nil {
		return detail{}
	}
	if of, ok := o.github.details[rel.Name]; ok && rel.Name != "" {
		return of
	}
	for _, was := range o.policy.Status.Releases {
		if was.SemVer.Version == rel.Version && tagOf(was.Images) == rel.Tag {
			return detail{was.ReleaseTime, was.Revision, was.URL}
		}
	}
	return detail{}
}

// fit truncates a list to at most n items and at most the given number of bytes of JSON.
func fit[T any](items []T, n, bytes int) []T {
	for i := range items {
		raw, err := json.Marshal(items[i])
		if bytes -= len(raw) + 1; i == n || bytes < 0 || err != nil {
			return items[:i]
		}
	}
	return items
}

// withdraw returns the withdrawn versions that are in use: versions that the policy rejects, versions that are
// gone, and versions that were withdrawn earlier for a reason that can no longer be observed. A withdrawal and
// its time remain until the version is offered again or is no longer in use.
func withdraw(o *observed, s selection, now time.Time) []v1alpha1.Withdrawal {
	gone, excluded := s.gone, notListed(o)
	for _, h := range s.excluded {
		if isInUse(o.inUse, version.Held{Group: h.Group, Version: h.Version}) && !offers(s.result.Offered, h) {
			excluded = append(excluded, version.Held{Group: h.Group, Version: h.Version})
		}
	}
	for _, w := range o.policy.Status.Withdrawn {
		h := version.Held{Group: w.Group, Version: w.Version}
		switch {
		case w.Version == "" || offers(s.result.Offered, h) || !isInUse(o.inUse, h):
		case w.Reason == v1alpha1.WithdrawnGone:
			gone = append(gone, h)
		case w.Reason == v1alpha1.WithdrawnExcluded:
			excluded = append(excluded, h) // the tag, which the rules rejected, is no longer known
		}
	}
	all := o.selector.Withdrawn(o.inUse, gone, s.result.Offered)
	for _, h := range excluded {
		if !withdrawn(all, h) {
			all = append(all, version.Withdrawal{Group: h.Group, Version: h.Version, Reason: version.Excluded})
		}
	}
	slices.SortFunc(all, func(a, b version.Withdrawal) int {
		return cmp.Or(lastReason(a)-lastReason(b), cmp.Compare(a.Group, b.Group), -version.Compare(a.Version, b.Version))
	})
	out := make([]v1alpha1.Withdrawal, 0, len(all))
	for _, w := range all {
		x := v1alpha1.Withdrawal{Group: w.Group, Version: w.Version, Reason: v1alpha1.WithdrawReason(w.Reason), Time: metav1.NewTime(now)}
		for _, before := range o.policy.Status.Withdrawn {
			if before.Group == x.Group && before.Version == x.Version && before.Reason == x.Reason {
				x.Time = before.Time
			}
		}
		out = append(out, x)
	}
	return out
}

// lastReason returns 0 for a version that a user denies, which must not receive traffic, and 1 for all other
// versions. If the list is too long, versions for which it returns 1 are omitted first.
func lastReason(w version.Withdrawal) int {
	if w.Reason == version.Denied {
		return 0
	}
	return 1
}

// notListed returns the versions in use that are not in an explicit list. Absence from an explicit
// list withdraws a version.
func notListed(o *observed) []version.Held {
	if o.pinned == nil {
		return nil
	}
	listed := o.selector.Rank(o.pinned).Offer(o.inUse, nil).Offered
	var out []version.Held
	for _, h := range o.inUse {
		if h.Group != "" && !offers(listed, h) {
			out = append(out, version.Held{Group: h.Group, Version: h.Version})
		}
	}
	return out
}

// withdrawn reports whether a version is already withdrawn, individually or with its group.
func withdrawn(all []version.Withdrawal, h version.Held) bool {
	return slices.ContainsFunc(all, func(w version.Withdrawal) bool {
		return w.Group == h.Group && (w.Version == h.Version || w.Version == "")
	})
}

func isInUse(held []version.Held, h version.Held) bool {
	return slices.ContainsFunc(held, func(x version.Held) bool { return x.Group == h.Group && x.Version == h.Version })
}

func offers(offered []version.Release, h version.Held) bool {
	return slices.ContainsFunc(offered, func(r version.Release) bool { return r.Slug == h.Group && r.Version == h.Version })
}

func rejections(s selection) (counts []v1alpha1.RejectedCount, first []v1alpha1.RefusedCandidate) {
	for _, c := range s.result.Counts {
		counts = append(counts, v1alpha1.RejectedCount{Verdict: string(c.Verdict), Count: int32(c.Tags)})
	}
	for _, x := range s.result.Rejected {
		if len(first) == maxCandidates {
			break
		}
		name := x.Version
		if name == "" {
			name = x.Tag
		}
		c := v1alpha1.RefusedCandidate{Version: status.LineOf(name, 128), Verdict: string(x.Verdict), Reason: status.LineOf(x.Reason, 256)}
		if x.Verdict == version.VerdictMinAge {
			c.FirstSeenTime = ptr.To(metav1.NewTime(s.firstSeen.of(version.Release{Tag: x.Tag, Version: x.Version}).Truncate(time.Second)))
		}
		first = append(first, c)
	}
	return counts, first
}

// count formats the number of offered releases, for example "4 in 2 groups".
func count(releases []v1alpha1.OfferedRelease) string {
	groups := map[string]bool{}
	for _, r := range releases {
		groups[r.Group] = true
	}
	if len(groups) == 1 {
		return fmt.Sprintf("%d in 1 group", len(releases))
	}
	return fmt.Sprintf("%d in %d groups", len(releases), len(groups))
}

// inWords formats the number of offered releases for a message, for example "4 versions in 2 groups".
func inWords(releases []v1alpha1.OfferedRelease) string {
	if len(releases) == 1 {
		return "1 version in 1 group"
	}
	return strings.Replace(count(releases), " in ", " versions in ", 1)
}

// firstReportDelay is the time after which a new policy reports that its first scan is not complete.
const firstReportDelay = 10 * time.Second

// reportable reports whether the status must be updated. That is the case if the selection is complete, if the rules
// withdraw a version, or if the first scan is slow. A withdrawal by the rules never waits for a registry.
// For pull requests, partial results are reported, because one scan covers only some of the pull requests.
func reportable(o *observed, s selection, out plan, known cacheEntry, now time.Time) bool {
	return !s.incomplete || s.pulled != nil && s.scanned || out.decided && withdraws(o.policy.Status.Releases, out.releases) ||
		neverReported(o) && known.task != nil && now.Sub(known.task.since) >= firstReportDelay
}

// neverReported reports whether the status is still empty.
func neverReported(o *observed) bool {
	return meta.FindStatusCondition(o.policy.Status.Conditions, v1alpha1.ConditionReady) == nil
}

// withdraws reports whether any release is no longer offered.
func withdraws(before, now []v1alpha1.OfferedRelease) bool {
	return slices.ContainsFunc(before, func(b v1alpha1.OfferedRelease) bool {
		return !slices.ContainsFunc(now, func(n v1alpha1.OfferedRelease) bool { return n.Group == b.Group && n.SemVer == b.SemVer })
	})
}

// requeueAfter returns the time until the next reconcile; 0 if none needs to be scheduled. A queued or running
// scan enqueues the policy when it ends. Any problem is checked again after the interval, because the problem may
// be with a Secret, and Secrets are not watched.
func requeueAfter(o *observed, s selection, known cacheEntry, now time.Time) time.Duration {
	due := time.Time{}
	if known.record != nil {
		due = known.record.due
	}
	if !s.offerableAt.IsZero() && s.offerableAt.Before(due) {
		due = s.offerableAt // a version can be offered at that time
	}
	switch {
	case o.policy.Spec.Suspend:
		return 0
	case o.problem != nil:
		return o.query.interval
	case known.task != nil && neverReported(o):
		return firstReportDelay
	case known.task != nil:
		return 0
	default:
		return max(time.Second, due.Sub(now))
	}
}
