package imagepolicy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// The functions below construct all events for policies. An event about a change to a condition has
// the condition's reason and message.

func tagMovedEvent(version string) status.Event {
	return status.WarningEvent("TagMoved", "Scan", fmt.Sprintf("the tag of version %s moved to another image: the new image is a new release of the same version", version))
}

// withdrawnBecause describes why a version or group is no longer offered.
var withdrawnBecause = map[v1alpha1.WithdrawReason]string{
	v1alpha1.WithdrawnDenied:   "an entry in spec.deny matches",
	v1alpha1.WithdrawnExcluded: "not selected by the specification of the ImagePolicy",
	v1alpha1.WithdrawnGone:     "two scans confirmed that the tag no longer exists in the registry",
	v1alpha1.WithdrawnClosed:   "the pull request is closed",
}

func withdrawnEvent(w v1alpha1.Withdrawal) status.Event {
	what := "version " + w.Version
	if w.Version == "" {
		what = "all versions"
	}
	verb := "is"
	if w.Version == "" {
		verb = "are"
	}
	return status.WarningEvent(string(w.Reason), "Withdraw", fmt.Sprintf("%s of group %s %s no longer offered: %s", what, w.Group, verb, withdrawnBecause[w.Reason]))
}

// recordEvents records the events for a status that was written.
func (r *Reconciler) recordEvents(policy, before *v1alpha1.ImagePolicy) {
	was, is := before.Status, policy.Status
	r.events.Transitions(policy, was.Conditions, is.Conditions, "Scan",
		status.TransitionRule{Kind: v1alpha1.ConditionReady, Good: metav1.ConditionTrue, Worry: true, Passing: []string{reasonScanning}},
		status.TransitionRule{Kind: v1alpha1.ConditionSourceReachable, Good: metav1.ConditionTrue, Worry: true},
		status.TransitionRule{Kind: v1alpha1.ConditionRateLimited, Good: metav1.ConditionFalse, Worry: true},
	)
	for _, version := range movedTags(was.Releases, is.Releases) {
		r.events.Record(policy, tagMovedEvent(version))
	}
	for _, w := range is.Withdrawn {
		if !slices.ContainsFunc(was.Withdrawn, func(x v1alpha1.Withdrawal) bool {
			return x.Group == w.Group && x.Version == w.Version && x.Reason == w.Reason
		}) {
			r.events.Record(policy, withdrawnEvent(w))
		}
	}
}

// movedTags returns the versions whose tag now refers to another image in the same repository.
func movedTags(was, is []v1alpha1.OfferedRelease) []string {
	digests := map[[2]string]string{}
	for _, rel := range was {
		ref, digest, _ := strings.Cut(rel.Images[0].Image, "@")
		digests[[2]string{ref, rel.SemVer.Version}] = digest
	}
	var versions []string
	for _, rel := range is {
		ref, digest, _ := strings.Cut(rel.Images[0].Image, "@")
		if d := digests[[2]string{ref, rel.SemVer.Version}]; d != "" && d != digest {
			versions = append(versions, rel.SemVer.Version)
		}
	}
	return versions
}
