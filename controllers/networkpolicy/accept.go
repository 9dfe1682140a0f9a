package networkpolicy

import (
	"fmt"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// verdict is what is known of objects that were written.
type verdict = providers.Verdict

// followVerdict tells how far a Service that follows a group is (rule 36): it is
// confirmed when its EndpointSlices name only endpoints of the release, at least
// one of them ready. Where the release itself has none ready, it is masked, and
// waiting for one would keep the release that mends it from coming.
func (d *decider) followVerdict(s resources.Service, g *v1alpha1.ReleaseGroup) verdict {
	active := mainOf(g)
	if active == nil || s.Release != active.VersionedMicroservice {
		return verdict{Reason: reasonNoReadyEndpoints, Message: fmt.Sprintf("Service %q stays on release %q until the active one has a ready endpoint", s.Name, s.Release)}
	}
	return d.carriedOut(s)
}

// carriedOut says whether a following Service leads to the release that was decided
// and to nothing else.
func (d *decider) carriedOut(s resources.Service) verdict {
	pending := verdict{Pending: true, Reason: reasonPending, Message: fmt.Sprintf("the EndpointSlices of Service %q do not name the endpoints of release %q yet", s.Name, s.Release)}
	if d.selected(s.Name) != s.Release {
		return pending
	}
	own, released := d.endpoints[s.Name], d.endpoints[d.releaseService(s.Release)]
	for _, e := range own.all {
		if !slices.Contains(released.all, e) {
			return pending
		}
	}
	if len(own.ready) == 0 && len(released.ready) > 0 {
		return pending
	}
	return verdict{Accepted: true}
}
