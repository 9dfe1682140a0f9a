package microservice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

// Reasons for the PreviewsReady condition. The first reason that applies is reported.
const (
	reasonPreviewsFailed   = "PreviewsFailed"
	reasonPreviewsStarting = "PreviewsStarting"
	reasonPreviewsReady    = "PreviewsAvailable"
)

// groupsWithoutPreviews returns the groups that are not previews.
func groupsWithoutPreviews(ms *v1alpha1.Microservice) []v1alpha1.ReleaseGroup {
	i := slices.IndexFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.Level == v1alpha1.LevelPreview })
	if i < 0 {
		return ms.Status.ReleaseGroups
	}
	return slices.DeleteFunc(slices.Clone(ms.Status.ReleaseGroups), func(g v1alpha1.ReleaseGroup) bool { return g.Level == v1alpha1.LevelPreview })
}

// ofPreview reports whether a group is a preview.
func ofPreview(ms *v1alpha1.Microservice, slug string) bool {
	return slices.ContainsFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool {
		return g.Slug == slug && g.Level == v1alpha1.LevelPreview
	})
}

// ofPullRequests reports whether an ImagePolicy offers pull requests, even if none is open.
func ofPullRequests(p *v1alpha1.ImagePolicy) bool {
	return p != nil && p.Spec.Source != nil && p.Spec.Source.GitHub != nil && p.Spec.Source.GitHub.PullRequests != nil
}

// previewCount counts a Microservice's previews by state.
type previewCount struct {
	// groups is the number of previews in all phases, live is the number of previews with a slot, and
	// available is the number of previews that are available.
	groups, live, available int
	// starting is the number of previews that are starting, and queued is the number of previews that
	// are waiting until fewer previews are starting.
	starting, queued int
	// slotless is the number of previews without a slot, old is the number of previews that expired because
	// of their age, and idle is the number of previews without a version to start.
	slotless, old, idle int
	// failed describes the failed previews, for example "#12 (CrashLoopBackOff)". The previous
	// releases of these previews continue to serve traffic.
	failed []string
}

func countPreviews(w *pass) (p previewCount) {
	for i := range w.ms.Status.ReleaseGroups {
		g := &w.ms.Status.ReleaseGroups[i]
		if g.Level != v1alpha1.LevelPreview {
			continue
		}
		p.groups++
		switch {
		case g.Phase == v1alpha1.GroupExpired && g.Target.Reason == string(release.NoSlot):
			p.slotless++
		case g.Phase == v1alpha1.GroupExpired && g.Target.Reason == string(release.MaxAge):
			p.old++
		case g.Phase == v1alpha1.GroupExpired:
			p.idle++
		case g.Phase == v1alpha1.GroupLive:
			p.live++
			p.count(w, g)
		}
	}
	for _, n := range w.plan.Notes {
		if n.Reason == release.AwaitingTurn {
			p.queued++
		}
	}
	return p
}

// count counts a preview with a slot.
func (p *previewCount) count(w *pass, g *v1alpha1.ReleaseGroup) {
	if row := g.ActiveRelease(); row != nil && row.Available && programmed(w.facts.Policies, g.Slug) {
		p.available++
	}
	if g.Rollout != nil {
		p.starting++
	}
	for _, r := range g.Releases {
		if r.Status == v1alpha1.ReleaseError {
			p.failed = append(p.failed, fmt.Sprintf("#%d (%s)", g.PullRequest, r.Reason))
		}
	}
}

// setPreviews sets the PreviewsReady condition from the number of available previews. Ready does not depend on
// previews.
func setPreviews(w *pass) {
	ms, p := w.ms, countPreviews(w)
	if p.groups == 0 {
		status.Remove(&ms.Status.Conditions, v1alpha1.ConditionPreviewsReady)
		return
	}
	reason := reasonPreviewsReady
	switch {
	case len(p.failed) > 0:
		reason = reasonPreviewsFailed
	case p.available < p.live || p.starting > 0:
		reason = reasonPreviewsStarting
	}
	parts := []string{fmt.Sprintf("%d of %d previews are available", p.available, p.live)}
	say := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	say(p.starting, "starting")
	say(p.queued, "waiting to start")
	say(p.slotless, "without a slot (spec.previews.maxGroups)")
	say(p.old, "expired (spec.previews.maxAge)")
	say(p.idle, "without a version to start (pinned, denied, or no longer offered)")
	if len(p.failed) > 0 {
		parts = append(parts, "failed: "+strings.Join(p.failed, ", "))
	}
	status.Set(&ms.Status.Conditions, ms.Generation, v1alpha1.ConditionPreviewsReady, status.True(p.available == p.live), reason, strings.Join(parts, "; "))
}
