// Package weights records how the weights of releases change, because objects contain only the current weights. The record is kept only in memory.
package weights

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/view"
)

// maxPoints is the maximum number of points for each group. Only the newest points are kept.
const maxPoints = 48

// History contains the weights of services since they were first observed. The zero value is ready to use. History is not safe for
// concurrent use.
type History struct {
	services map[types.NamespacedName][]view.GroupWeights
}

// Observe records the weights of the services at a given time. It drops services that no longer exist and groups that
// are not live, and ignores previews, because they have no steps.
func (w *History) Observe(services []v1alpha1.Microservice, now time.Time) {
	next := make(map[types.NamespacedName][]view.GroupWeights, len(services))
	for i := range services {
		ms := &services[i]
		k := types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}
		before := w.services[k]
		groups := before[:0:0]
		for j := range ms.Status.ReleaseGroups {
			g := &ms.Status.ReleaseGroups[j]
			if g.Level == v1alpha1.LevelPreview || g.PullRequest > 0 || g.Phase != v1alpha1.GroupLive {
				continue
			}
			known := view.GroupWeights{Group: g.Name}
			if at := slices.IndexFunc(before, func(x view.GroupWeights) bool { return x.Group == g.Name }); at >= 0 {
				known = before[at]
			}
			groups = append(groups, with(known, sharesOf(g), now))
		}
		next[k] = groups
	}
	w.services = next
}

// with returns a group with an additional point if the shares changed. It does not change the points that readers already have.
func with(g view.GroupWeights, shares []view.WeightShare, now time.Time) view.GroupWeights {
	n := len(g.Points)
	if len(shares) == 0 || n > 0 && slices.Equal(g.Points[n-1].Shares, shares) {
		return g
	}
	g.Points = append(slices.Clone(g.Points[max(0, n-maxPoints+1):]), view.WeightPoint{Time: metav1.Time{Time: now.UTC()}, Shares: shares})
	return g
}

// sharesOf returns the shares of those releases of a group that have a weight above zero. The active release comes first, and the newest
// canary comes last.
func sharesOf(g *v1alpha1.ReleaseGroup) (out []view.WeightShare) {
	for _, wanted := range []v1alpha1.ReleaseStatus{v1alpha1.ReleaseActive, v1alpha1.ReleaseCanary} {
		for _, r := range slices.Backward(g.Releases) {
			if r.Status == wanted && r.Weight > 0 {
				out = append(out, view.WeightShare{Release: r.VersionedMicroservice, Version: status.Short(r.SemVer.Version), Weight: r.Weight})
			}
		}
	}
	return out
}

// Of returns those groups of a service whose weights have changed since they were first observed.
func (w *History) Of(namespace, name string) (out []view.GroupWeights) {
	for _, g := range w.services[types.NamespacedName{Namespace: namespace, Name: name}] {
		if len(g.Points) > 1 {
			out = append(out, g)
		}
	}
	return out
}

// Services returns the number of services at the latest observation.
func (w *History) Services() int { return len(w.services) }
