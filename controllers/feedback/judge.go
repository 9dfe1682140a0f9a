package feedback

import (
	"cmp"
	"fmt"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// stream is a Microservice with the ImagePolicy that it takes its versions from, and
// all that tells what became of them.
type stream struct {
	policy       *v1alpha1.ImagePolicy
	microservice *v1alpha1.Microservice
	// routes are the NetworkPolicies of the Microservice.
	routes []v1alpha1.NetworkPolicy
	// failures are the words of status.failure by release.
	failures map[string]string
	// settled are the active releases that came, or went, a while ago.
	settled map[string]bool
}

// verdict is what is told of one release.
type verdict struct {
	state v1alpha1.DeploymentState
	// text is short and stable: the same for the same facts.
	text string
	// url at which it is reached; "" for none.
	url string
	// active says that it is the release that its group serves.
	active bool
	// hold says that what was told last stands for now.
	hold bool
}

// expiredMaxAge is the reason of a group's target that says that a preview was too old.
const expiredMaxAge = "MaxAge"

// ranks of states: what tells most of an environment with several Microservices.
var ranks = map[v1alpha1.DeploymentState]int{
	v1alpha1.DeploymentInactive: 1, v1alpha1.DeploymentSuccess: 2, v1alpha1.DeploymentQueued: 3,
	v1alpha1.DeploymentInProgress: 4, v1alpha1.DeploymentFailure: 5,
}

// worse gives the one that tells more: an environment is a success when all of it
// is.
func (v verdict) worse(other verdict) verdict {
	out := v
	if ranks[other.state] > ranks[v.state] {
		out = other
	}
	out.url = cmp.Or(v.url, other.url)
	if out.state != v1alpha1.DeploymentSuccess {
		out.url = ""
	}
	out.hold = v.hold || other.hold
	return out
}

// settle is how long a release must have come or gone before that is told.
const settle = time.Minute

// steady is the verdict over a version of which told was told last. A release whose
// pods come and go is told of once: a success stands until a cause is known or the
// pods are away for a while, and a failure until they are there for a while.
func (s *stream) steady(g *v1alpha1.ReleaseGroup, version string, told v1alpha1.DeploymentState) verdict {
	v := s.judge(g, version)
	if !v.active {
		return v
	}
	row := rowOf(g, version)
	lost := told == v1alpha1.DeploymentSuccess && !row.Available && v.state != v1alpha1.DeploymentFailure
	back := told == v1alpha1.DeploymentFailure && v.state != v1alpha1.DeploymentFailure
	v.hold = (lost || back) && !s.settled[row.VersionedMicroservice]
	return v
}

// group gives the group of a pull request; nil for none. One that goes gives way to
// one that lives.
func (s *stream) group(number int64) *v1alpha1.ReleaseGroup {
	var found *v1alpha1.ReleaseGroup
	for i := range s.microservice.Status.ReleaseGroups {
		g := &s.microservice.Status.ReleaseGroups[i]
		if g.PullRequest == number && (found == nil || found.Phase == v1alpha1.GroupClosing) {
			found = g
		}
	}
	return found
}

// rowOf gives the row of a version; nil for none. A version may have several, one
// for each configuration: the one that serves tells most, then the newest that is
// not done with.
func rowOf(g *v1alpha1.ReleaseGroup, version string) *v1alpha1.Release {
	var found *v1alpha1.Release
	for i := range g.Releases {
		row := &g.Releases[i]
		if row.SemVer.Version != version {
			continue
		}
		if row.Status == v1alpha1.ReleaseActive {
			return row
		}
		if found == nil || found.Status == v1alpha1.ReleaseDeprecated && row.Status != v1alpha1.ReleaseDeprecated {
			found = row
		}
	}
	return found
}

// judge says what became of a version of a group; g may be nil.
func (s *stream) judge(g *v1alpha1.ReleaseGroup, version string) verdict {
	switch {
	case g == nil && s.offers(version):
		return verdict{state: v1alpha1.DeploymentQueued, text: "The image is there. The release is about to begin."}
	case g == nil:
		return verdict{state: v1alpha1.DeploymentQueued, text: "Waiting for the image."}
	case g.Phase == v1alpha1.GroupExpired && g.Target.Reason == expiredMaxAge && g.Head == version:
		return verdict{state: v1alpha1.DeploymentInactive, text: "The last push is too long ago. The next one brings the preview back."}
	case g.Phase == v1alpha1.GroupExpired && g.Head == version:
		return verdict{state: v1alpha1.DeploymentQueued, text: "Waiting for a place: as many previews run as may."}
	case g.Phase == v1alpha1.GroupClosing:
		return verdict{state: v1alpha1.DeploymentInactive, text: "The preview is taken down."}
	}
	row := rowOf(g, version)
	if row == nil {
		return s.judge(nil, version)
	}
	switch row.Status {
	case v1alpha1.ReleaseError:
		return verdict{state: v1alpha1.DeploymentFailure, text: s.failure(row)}
	case v1alpha1.ReleaseDeprecated:
		return verdict{state: v1alpha1.DeploymentInactive, text: "Another release took its place."}
	case v1alpha1.ReleaseActive:
		if !row.Available && s.failures[row.VersionedMicroservice] != "" {
			return verdict{state: v1alpha1.DeploymentFailure, text: s.failure(row), active: true}
		}
		if !row.Available {
			return verdict{state: v1alpha1.DeploymentInProgress, text: "Not all of its pods are ready.", active: true}
		}
		v := s.routed(g.Slug, row.VersionedMicroservice)
		v.active = true
		return v
	}
	if run := g.Run; run != nil && run.Release == row.VersionedMicroservice && run.WaitsFor != "" {
		return verdict{state: v1alpha1.DeploymentInProgress, text: waiting(run.WaitsFor)}
	}
	return verdict{state: v1alpha1.DeploymentInProgress, text: "Its pods start."}
}

// waiting says what a release waits for that is not its own fault.
func waiting(cause string) string {
	sentence := cmp.Or(sentences[cause], blockers[cause], "a cause outside of the release.")
	return fmt.Sprintf("It waits (%s): %s", cause, sentence)
}

// blockers say what the causes mean that a release waits for, and that are no words of
// status.failure.
var blockers = map[string]string{
	"TrafficNotProgrammed": "its routes are not programmed.",
	"NotCreated":           "the cluster refuses its object.",
}

// offers says that the image of a version was found.
func (s *stream) offers(version string) bool {
	for _, offered := range s.policy.Status.Releases {
		if offered.SemVer.Version == version {
			return true
		}
	}
	return false
}

// routed says whether all domains that lead to a group are programmed, with the
// release behind them. Without such a domain an available release is all there is.
func (s *stream) routed(slug, release string) verdict {
	success := verdict{state: v1alpha1.DeploymentSuccess, text: "The release is available."}
	for i := range s.routes {
		route := &s.routes[i]
		if route.Spec.Provider == nil || len(route.Spec.Domains) == 0 {
			continue
		}
		// Before the policy has seen the release, it cannot say what leads there.
		if !carries(route, slug, release) {
			return verdict{state: v1alpha1.DeploymentInProgress, text: "Its routes are not written yet."}
		}
		for _, d := range route.Status.Domains {
			switch {
			case d.Group != slug:
			case !d.Programmed:
				return verdict{state: v1alpha1.DeploymentInProgress, text: fmt.Sprintf("Its route is not programmed: %s.", cmp.Or(d.Reason, "Pending"))}
			case success.url == "" && leadsTo(d, release):
				success.url = d.URL
			}
		}
	}
	if success.url != "" {
		success.text = "The release is available and routed."
	}
	return success
}

// carries says that a NetworkPolicy names a release as the active one of its group.
func carries(route *v1alpha1.NetworkPolicy, slug, release string) bool {
	for _, g := range route.Status.Groups {
		if g.Slug == slug {
			return g.Active == release
		}
	}
	return false
}

func leadsTo(d v1alpha1.DomainStatus, release string) bool {
	for _, b := range d.Backends {
		if b.Release == release {
			return true
		}
	}
	return len(d.Backends) == 0
}

// failure says why a release failed: the word of its status and a sentence of ours.
// What containers, probes and registries said stays in the cluster, because a pull
// request is read by people who may not read that.
func (s *stream) failure(row *v1alpha1.Release) string {
	word := cmp.Or(s.failures[row.VersionedMicroservice], row.Reason, "Failed")
	if sentence := sentences[word]; sentence != "" {
		return word + ": " + sentence
	}
	return word + ": the release did not become available."
}

// sentences say what the words of status.failure mean.
var sentences = map[string]string{
	v1alpha1.FailureImageNotFound:              "the registry has no such image.",
	v1alpha1.FailureImageUnusable:              "a node may not or cannot run the image.",
	v1alpha1.FailureImagePullBackOff:           "the image cannot be pulled.",
	v1alpha1.FailureInvalidImageName:           "the name of the image cannot be read.",
	v1alpha1.FailureCreateContainerConfigError: "a ConfigMap, a Secret or a key of it is missing.",
	v1alpha1.FailureCreateContainerError:       "a container cannot be started.",
	v1alpha1.FailureCrashLoopBackOff:           "a container ends again and again.",
	v1alpha1.FailureQuotaExceeded:              "a ResourceQuota leaves no room.",
	v1alpha1.FailurePodSecurityViolation:       "the Pod Security level of the namespace refuses the pods.",
	v1alpha1.FailureAdmissionUnavailable:       "the cluster could not decide about the pods.",
	v1alpha1.FailurePodRejected:                "the cluster refuses the pods.",
	v1alpha1.FailureUnschedulable:              "no node takes a pod.",
	v1alpha1.FailureReadinessFailing:           "a container runs and does not become ready.",
	v1alpha1.FailureNameConflict:               "a Deployment of that name exists already.",
	v1alpha1.FailureInvalidTemplate:            "the cluster refuses the pod template.",
	v1alpha1.FailureForbidden:                  "the cluster refuses the Deployment.",
}
