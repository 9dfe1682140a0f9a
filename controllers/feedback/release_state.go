package feedback

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/preview"
)

// service is a Microservice with its ImagePolicy, and the objects that show the state of its
// releases.
type service struct {
	policy       *v1alpha1.ImagePolicy
	microservice *v1alpha1.Microservice
	// routes are the NetworkPolicies of the Microservice.
	routes []v1alpha1.NetworkPolicy
	// failures contains the values of status.failure. The keys are the names of releases.
	failures map[string]string
	// commits contains the commits from which releases were created. The keys are the names of releases. Unknown commits are empty.
	commits map[string]string
	// stable contains the active releases whose availability has not changed for stabilizationPeriod.
	stable map[string]bool
}

// releaseState is the reported state of one release.
type releaseState struct {
	state v1alpha1.DeploymentState
	// description is a short text that changes only with the state.
	description string
	// url is a URL at which the release is available; empty if there is none. It is not a web URL if all domains use the protocol TLS.
	url string
	// active reports whether the release is the active release of its group.
	active bool
	// unstable reports whether the last reported state is kept for now.
	unstable bool
}

// reasonMaxAge and reasonNoSlot are reasons in a group's target: the preview is too old, or is waiting for a preview
// slot.
const reasonMaxAge, reasonNoSlot = "MaxAge", "NoSlot"

// severity orders states. An environment with several Microservices has the most severe of their states.
var severity = map[v1alpha1.DeploymentState]int{
	v1alpha1.DeploymentInactive: 1, v1alpha1.DeploymentSuccess: 2, v1alpha1.DeploymentQueued: 3,
	v1alpha1.DeploymentInProgress: 4, v1alpha1.DeploymentFailure: 5,
}

// merge returns the more severe of two states. The state of an environment is success only if no Microservice in it has a more
// severe state.
func (v releaseState) merge(other releaseState) releaseState {
	out := v
	if severity[other.state] > severity[v.state] {
		out = other
	}
	out.url = preferredURL(v.url, other.url)
	if out.state != v1alpha1.DeploymentSuccess {
		out.url = ""
	}
	out.unstable = v.unstable || other.unstable
	return out
}

// stabilizationPeriod is how long a change in availability must last before it is reported.
const stabilizationPeriod = time.Minute

// stableState returns the state of a version; recorded is its last recorded state. A change in the state of an
// active release is marked as unstable, and is not reported yet, if the pods may soon change back: a success
// remains until the cause of a failure is known or the pods have been unavailable for a while, and a failure
// remains until the pods have been available for a while.
func (s *service) stableState(g *v1alpha1.ReleaseGroup, version string, recorded v1alpha1.DeploymentState) releaseState {
	v := s.stateOf(g, version)
	if !v.active {
		return v
	}
	row := releaseOf(g, version)
	lost := recorded == v1alpha1.DeploymentSuccess && !row.Available && v.state != v1alpha1.DeploymentFailure
	back := recorded == v1alpha1.DeploymentFailure && v.state != v1alpha1.DeploymentFailure
	v.unstable = (lost || back) && !s.stable[row.VersionedMicroservice]
	return v
}

// groupOf returns the group of a pull request, or nil. It prefers live groups to groups that
// are being closed.
func (s *service) groupOf(number int64) *v1alpha1.ReleaseGroup {
	var found *v1alpha1.ReleaseGroup
	for i := range s.microservice.Status.ReleaseGroups {
		g := &s.microservice.Status.ReleaseGroups[i]
		if g.PullRequest == number && (found == nil || found.Phase == v1alpha1.GroupClosing) {
			found = g
		}
	}
	return found
}

// releaseOf returns the release of a version, or nil. A version may have several releases,
// one for each configuration. releaseOf prefers the active release, and then the newest release that
// is not deprecated.
func releaseOf(g *v1alpha1.ReleaseGroup, version string) *v1alpha1.Release {
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

// stateOf returns the state of a version in a group; g may be nil.
func (s *service) stateOf(g *v1alpha1.ReleaseGroup, version string) releaseState {
	switch {
	case g == nil && s.offersVersion(version):
		return releaseState{state: v1alpha1.DeploymentQueued, description: "The image exists. The rollout has not started."}
	case g == nil:
		return releaseState{state: v1alpha1.DeploymentQueued, description: "Waiting for the ImagePolicy to offer an image."}
	case g.Phase == v1alpha1.GroupExpired && g.Target.Reason == reasonMaxAge && g.Head == version:
		return releaseState{state: v1alpha1.DeploymentInactive, description: "The preview expired because of its age. The next push creates it again."}
	case g.Phase == v1alpha1.GroupExpired && g.Head == version && g.Target.Reason != reasonNoSlot:
		return releaseState{state: v1alpha1.DeploymentInactive, description: "This version does not start: it is denied or gone, or the preview is pinned to another version."}
	case g.Phase == v1alpha1.GroupExpired && g.Head == version:
		return releaseState{state: v1alpha1.DeploymentQueued, description: "Waiting for a preview slot: the maximum number of previews has been reached."}
	case g.Phase == v1alpha1.GroupClosing:
		return releaseState{state: v1alpha1.DeploymentInactive, description: "The preview is being deleted."}
	}
	row := releaseOf(g, version)
	if row == nil {
		return s.stateOf(nil, version)
	}
	switch row.Status {
	case v1alpha1.ReleaseError:
		return releaseState{state: v1alpha1.DeploymentFailure, description: s.failure(row)}
	case v1alpha1.ReleaseDeprecated:
		return releaseState{state: v1alpha1.DeploymentInactive, description: "Replaced by another release."}
	case v1alpha1.ReleaseActive:
		if !row.Available && s.failures[row.VersionedMicroservice] != "" {
			return releaseState{state: v1alpha1.DeploymentFailure, description: s.failure(row), active: true}
		}
		if !row.Available {
			return releaseState{state: v1alpha1.DeploymentInProgress, description: "Not all pods of the release are ready.", active: true}
		}
		v := s.routedState(g.Slug, row.VersionedMicroservice)
		v.active = true
		return v
	}
	if run := g.Rollout; run != nil && run.Release == row.VersionedMicroservice && run.WaitsFor != "" {
		return releaseState{state: v1alpha1.DeploymentInProgress, description: blockedMessage(run.WaitsFor)}
	}
	return releaseState{state: v1alpha1.DeploymentInProgress, description: "The rollout is in progress."}
}

// blockedMessage describes a problem outside the release that blocks it.
func blockedMessage(cause string) string {
	sentence := cmp.Or(failureMessages[cause], blockedBy[cause], "a problem outside the release.")
	return fmt.Sprintf("Blocked (%s): %s", cause, sentence)
}

// blockedBy contains descriptions of the problems for which status.failure has no value.
var blockedBy = map[string]string{
	"TrafficNotProgrammed":       "the previous traffic change is not confirmed.",
	"NotCreated":                 "the object of the release cannot be created or changed.",
	"CanaryDomainsNotProgrammed": "the canary domains do not route to the release yet, so its PreRollout hooks are not called.",
	"HookUnanswered":             "a hook does not respond.",
}

// offersVersion reports whether the ImagePolicy offers a version.
func (s *service) offersVersion(version string) bool {
	for _, offered := range s.policy.Status.Releases {
		if offered.SemVer.Version == version {
			return true
		}
	}
	return false
}

// routedState returns the state success if all domains of a group are programmed, and the NetworkPolicies with
// these domains show the release as the active release. Without domains, an available release has the state success.
func (s *service) routedState(slug, release string) releaseState {
	success := releaseState{state: v1alpha1.DeploymentSuccess, description: "The release is available."}
	for i := range s.routes {
		route := &s.routes[i]
		if route.Spec.Provider == nil || len(route.Spec.Domains) == 0 {
			continue
		}
		// A NetworkPolicy status that does not show the release as active has not been updated since the release became active.
		if !isActive(route, slug, release) {
			return releaseState{state: v1alpha1.DeploymentInProgress, description: "The routes of the release have not been created yet."}
		}
		for _, d := range route.Status.Domains {
			switch {
			case d.Group != slug:
			case !d.Programmed:
				return releaseState{state: v1alpha1.DeploymentInProgress, description: fmt.Sprintf("A route of the release is not programmed: %s.", cmp.Or(d.Reason, "Pending"))}
			case routesTo(d, release):
				success.url = preferredURL(success.url, d.URL)
			}
		}
	}
	if success.url != "" {
		success.description = "The release is available and routed."
	}
	return success
}

// isWebURL reports whether a URL has a scheme that GitHub accepts for an environment.
func isWebURL(url string) bool {
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")
}

// preferredURL returns the first of two URLs, or the second if the first is empty or only the second is a web URL. Both may be
// empty.
func preferredURL(first, second string) string {
	if first == "" || !isWebURL(first) && isWebURL(second) {
		return second
	}
	return first
}

// isActive reports whether the status of a NetworkPolicy shows a release as the active release of its group.
func isActive(route *v1alpha1.NetworkPolicy, slug, release string) bool {
	for _, g := range route.Status.Groups {
		if g.Slug == slug {
			return g.Active == release
		}
	}
	return false
}

func routesTo(d v1alpha1.DomainStatus, release string) bool {
	for _, b := range d.Backends {
		if b.Release == release {
			return true
		}
	}
	return len(d.Backends) == 0
}

// failure describes why a release failed, with the value of status.failure and a generic sentence.
// Messages from containers, probes and registries are not copied, because readers of a pull request
// may not have access to the cluster.
func (s *service) failure(row *v1alpha1.Release) string {
	word := cmp.Or(s.failures[row.VersionedMicroservice], row.Reason, "Failed")
	if sentence := failureMessages[word]; sentence != "" {
		return word + ": " + sentence
	}
	return word + ": the release did not become available."
}

// failureMessages describe the values of status.failure.
var failureMessages = map[string]string{
	v1alpha1.FailureImageNotFound:              "the image does not exist in the registry.",
	v1alpha1.FailureImageUnusable:              "the image cannot run on a node.",
	v1alpha1.FailureImagePullBackOff:           "the image cannot be pulled.",
	v1alpha1.FailureInvalidImageName:           "the name of the image is invalid.",
	v1alpha1.FailureCreateContainerConfigError: "a ConfigMap, a Secret or one of their keys is missing.",
	v1alpha1.FailureCreateContainerError:       "a container cannot start.",
	v1alpha1.FailureCrashLoopBackOff:           "a container exits repeatedly.",
	v1alpha1.FailureQuotaExceeded:              "a ResourceQuota is exceeded.",
	v1alpha1.FailurePodSecurityViolation:       "the Pod Security level of the namespace rejects the pods.",
	v1alpha1.FailureAdmissionUnavailable:       "admission of the pods is unavailable.",
	v1alpha1.FailurePodRejected:                "the cluster rejects the pods.",
	v1alpha1.FailureUnschedulable:              "no node can run a pod.",
	v1alpha1.FailureContainerCreating:          "a node has not set up the network, the volumes or a container of a pod.",
	v1alpha1.FailureOtherReleaseRunning:        "pods of another release are still running.",
	v1alpha1.FailureReadinessFailing:           "a container runs but does not become ready.",
	v1alpha1.FailureNameConflict:               "another Deployment already uses the name of the release.",
	v1alpha1.FailureInvalidTemplate:            "the cluster rejects the pod template.",
	v1alpha1.FailureForbidden:                  "the cluster rejects the Deployment.",
}

// chooser returns the filters of the ImagePolicy. It returns nil if they are invalid. In that case, the
// versions that are already offered remain offered.
func (s *service) chooser() *preview.Chooser {
	var candidates []string
	if s.policy.Spec.Match != nil {
		candidates = s.policy.Spec.Match.Candidates
	}
	c, err := preview.Compile(*s.policy.Spec.Source.GitHub.PullRequests, candidates)
	if err != nil {
		return nil
	}
	return c
}

// previewCommit returns the commit that the preview of a pull request runs, or "" if the pull request gets no
// preview. The image of the commit need not exist. The commit is the head commit or, if the pull request is from a
// fork and received a push after its approval, the approved commit for as long as it is offered. If the filters are
// invalid, the commit is the one that is already offered.
func (s *service) previewCommit(chooser *preview.Chooser, pr *v1alpha1.PullRequest) string {
	if pr.State != v1alpha1.PullRequestOpen {
		return ""
	}
	var approved []string
	if chooser != nil {
		choice := chooser.Choose(pr)
		if choice.Taken() {
			return pr.HeadSHA
		}
		if approved = choice.Approved; len(approved) == 0 {
			return ""
		}
	}
	for _, offered := range s.policy.Status.Releases {
		if offered.PullRequest == pr.Number && (chooser == nil || slices.Contains(approved, offered.Revision)) {
			return offered.Revision
		}
	}
	return ""
}
