package imagepolicy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// Bounds of the status, in number (the schema's) and in bytes of JSON: together
// they keep the object below 256 KiB. What is cut is unknown to a Microservice,
// which is never a reason to stop a release.
const (
	maxCandidates  = 20
	maxReleases    = 1024
	maxWithdrawn   = 1024
	releasesBytes  = 160 << 10
	withdrawnBytes = 64 << 10
)

// outcome is the part of the status that is decided: all but the conditions.
type outcome struct {
	// decided says that it speaks of the present specification.
	decided   bool
	releases  []v1alpha1.OfferedRelease
	withdrawn []v1alpha1.Withdrawal
	rejected  []v1alpha1.RejectedCount
	refused   []v1alpha1.RefusedCandidate
	// cut says that not all that is offered has room in the status.
	cut bool
}

// decide turns a scan into what is offered and withdrawn. It is pure.
func decide(o *observed, s scanned, now time.Time) outcome {
	st := &o.policy.Status
	out := outcome{releases: st.Releases, withdrawn: st.Withdrawn, rejected: st.Rejected, refused: st.Candidates}
	if o.selector == nil {
		return out // what the last readable rules decided stands
	}
	if s.pulled != nil {
		return decidePulls(o, s, out, now)
	}
	if !s.looked && len(offeredBefore(o)) == 0 {
		out.releases = nil // what there is, is of another repository
		return out
	}
	out.decided = true
	out.releases, out.cut = nil, false
	for _, rel := range s.result.Offered {
		images := s.images[rel.Tag]
		if len(images) == 0 {
			continue
		}
		of := o.detail(rel)
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
	out.cut = len(out.releases) < offered
	out.withdrawn = fit(withdraw(o, s, now), maxWithdrawn, withdrawnBytes)
	if s.looked {
		out.rejected, out.refused = refused(s)
	}
	return out
}

// decidePulls is decide for pull requests. What a GitHubRepository that cannot be read
// names is not known, and stays.
func decidePulls(o *observed, s scanned, out outcome, now time.Time) outcome {
	out.decided = o.github.known || o.policy.Spec.Suspend
	offered := len(s.pulled.releases)
	out.releases = fit(s.pulled.releases, maxReleases, releasesBytes)
	out.cut = len(out.releases) < offered
	out.withdrawn = fit(o.withdrawPulls(s.pulled, now), maxWithdrawn, withdrawnBytes)
	if s.looked {
		out.rejected, out.refused = refused(s)
	}
	return out
}

// detail of a version that GitHub names, or that it named when it was offered.
func (o *observed) detail(rel version.Release) detail {
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

// fit cuts a list to at most n items and so many bytes of JSON.
func fit[T any](items []T, n, bytes int) []T {
	for i := range items {
		raw, err := json.Marshal(items[i])
		if bytes -= len(raw) + 1; i == n || bytes < 0 || err != nil {
			return items[:i]
		}
	}
	return items
}

// withdraw says which held versions are taken back: those that the rules refuse
// now, and those that were taken back for a fact that is not seen twice. A
// withdrawal stands, with its time, until the version is offered again or nobody
// holds it any more.
func withdraw(o *observed, s scanned, now time.Time) []v1alpha1.Withdrawal {
	gone, excluded := s.gone, unlisted(o)
	for _, h := range s.excluded {
		if holds(o.held, version.Held{Group: h.Group, Version: h.Version}) && !offers(s.result.Offered, h) {
			excluded = append(excluded, version.Held{Group: h.Group, Version: h.Version})
		}
	}
	for _, w := range o.policy.Status.Withdrawn {
		h := version.Held{Group: w.Group, Version: w.Version}
		switch {
		case w.Version == "" || offers(s.result.Offered, h) || !holds(o.held, h):
		case w.Reason == v1alpha1.WithdrawnGone:
			gone = append(gone, h)
		case w.Reason == v1alpha1.WithdrawnExcluded:
			excluded = append(excluded, h) // its tag, which the rules refused, is not known any more
		}
	}
	all := o.selector.Withdrawn(o.held, gone, s.result.Offered)
	for _, h := range excluded {
		if !withdrawn(all, h) {
			all = append(all, version.Withdrawal{Group: h.Group, Version: h.Version, Reason: version.Excluded})
		}
	}
	slices.SortFunc(all, func(a, b version.Withdrawal) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), -version.Compare(a.Version, b.Version))
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

// unlisted are held versions that a list written by hand does not give: there,
// absence is a word of the specification.
func unlisted(o *observed) []version.Held {
	if o.pinned == nil {
		return nil
	}
	listed := o.selector.Rank(o.pinned).Offer(o.held, nil).Offered
	var out []version.Held
	for _, h := range o.held {
		if h.Group != "" && !offers(listed, h) {
			out = append(out, version.Held{Group: h.Group, Version: h.Version})
		}
	}
	return out
}

// withdrawn says that a version is taken back already, alone or with its group.
func withdrawn(all []version.Withdrawal, h version.Held) bool {
	return slices.ContainsFunc(all, func(w version.Withdrawal) bool {
		return w.Group == h.Group && (w.Version == h.Version || w.Version == "")
	})
}

func holds(held []version.Held, h version.Held) bool {
	return slices.ContainsFunc(held, func(x version.Held) bool { return x.Group == h.Group && x.Version == h.Version })
}

func offers(offered []version.Release, h version.Held) bool {
	return slices.ContainsFunc(offered, func(r version.Release) bool { return r.Slug == h.Group && r.Version == h.Version })
}

func refused(s scanned) (counts []v1alpha1.RejectedCount, first []v1alpha1.RefusedCandidate) {
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
			c.FirstSeenTime = ptr.To(metav1.NewTime(s.seen.of(version.Release{Tag: x.Tag, Version: x.Version}).Truncate(time.Second)))
		}
		first = append(first, c)
	}
	return counts, first
}

// count says how much is offered, as in "4 in 2 groups".
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
