package imagepolicy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// Bounds of the status.
const (
	maxCandidates = 20
	maxWithdrawn  = 1024
)

// outcome is the part of the status that is decided: all but the conditions.
type outcome struct {
	// decided says that it speaks of the present specification.
	decided   bool
	releases  []v1alpha1.OfferedRelease
	withdrawn []v1alpha1.Withdrawal
	rejected  []v1alpha1.RejectedCount
	refused   []v1alpha1.RefusedCandidate
}

// decide turns a scan into what is offered and withdrawn. It is pure.
func decide(o *observed, s scanned, now time.Time) outcome {
	st := &o.policy.Status
	out := outcome{releases: st.Releases, withdrawn: st.Withdrawn, rejected: st.Rejected, refused: st.Candidates}
	if o.selector == nil {
		return out
	}
	if !s.looked && len(offeredBefore(o)) == 0 {
		return out
	}
	out.decided = true
	out.releases = nil
	for _, rel := range s.result.Offered {
		image, ok := s.images[rel.Tag]
		if !ok || image.Digest == "" {
			continue
		}
		out.releases = append(out.releases, v1alpha1.OfferedRelease{
			SemVer: v1alpha1.SemVer{Name: rel.Group, Version: rel.Version},
			Group:  rel.Slug,
			Level:  v1alpha1.ReleaseLevel(rel.Level),
			Images: []v1alpha1.ReleaseImage{image},
		})
	}
	out.withdrawn = withdraw(o, s, now)
	if s.looked {
		out.rejected, out.refused = refuse(s.result)
	}
	return out
}

// withdraw keeps the time of withdrawals that stand already.
func withdraw(o *observed, s scanned, now time.Time) []v1alpha1.Withdrawal {
	var out []v1alpha1.Withdrawal
	gone := s.gone
	for _, w := range o.policy.Status.Withdrawn {
		if w.Reason == v1alpha1.WithdrawnGone && w.Version != "" && !offers(s.result.Offered, w) {
			gone = append(gone, version.Held{Group: w.Group, Version: w.Version})
		}
	}
	for _, w := range o.selector.Withdrawn(o.held, gone, s.result.Offered) {
		x := v1alpha1.Withdrawal{Group: w.Group, Version: w.Version, Reason: v1alpha1.WithdrawReason(w.Reason), Time: metav1.NewTime(now)}
		for _, before := range o.policy.Status.Withdrawn {
			if before.Group == x.Group && before.Version == x.Version && before.Reason == x.Reason {
				x.Time = before.Time
			}
		}
		if len(out) < maxWithdrawn {
			out = append(out, x)
		}
	}
	return out
}

func offers(offered []version.Release, w v1alpha1.Withdrawal) bool {
	return slices.ContainsFunc(offered, func(r version.Release) bool { return r.Slug == w.Group && r.Version == w.Version })
}

func refuse(res version.Result) (counts []v1alpha1.RejectedCount, first []v1alpha1.RefusedCandidate) {
	for _, c := range res.Counts {
		counts = append(counts, v1alpha1.RejectedCount{Verdict: string(c.Verdict), Count: int32(c.Tags)})
	}
	for _, x := range res.Rejected {
		if len(first) == maxCandidates {
			break
		}
		name := x.Version
		if name == "" {
			name = x.Tag
		}
		first = append(first, v1alpha1.RefusedCandidate{
			Version: status.LineOf(name, 128), Verdict: string(x.Verdict), Reason: status.LineOf(x.Reason, 256),
		})
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
