package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
)

// report writes the status, if it differs, and tells of transitions. A write holds
// only for the status that was read: half of an older one is never mixed in.
func (r *Reconciler) report(ctx context.Context, o *observed, s scanned, out outcome) error {
	policy := o.policy
	before := policy.DeepCopy()
	st := &policy.Status
	st.Releases, st.Withdrawn, st.Rejected, st.Candidates = out.releases, out.withdrawn, out.rejected, out.refused
	st.Offered, st.Latest, st.Source = count(out.releases), latest(out.releases), sourceOf(policy)
	switch {
	case s.answered && s.pulled != nil && s.unasked: // a part of it is done
	case s.answered:
		st.LastHandledRequest = s.requested
	case o.problem != nil && !policy.Spec.Suspend:
		st.LastHandledRequest = o.question.requested
	}
	if out.decided && !s.undecided || policy.Spec.Suspend || o.problem != nil || s.err != nil && !transient(s.err) {
		st.ObservedGeneration = policy.Generation
	}
	switch {
	case policy.Spec.Verify == nil:
		st.VerifiedBy = ""
	case s.keys != "" && s.looked && !s.unasked && !s.undecided:
		st.VerifiedBy = s.keys
	}
	if o.github != nil && o.github.known && o.github.id != "" {
		st.RepositoryID = o.github.id
	}
	if s.listed && (st.Scan == nil || st.Scan.Checksum != s.checksum || st.Scan.Tags != int32(s.tags)) {
		st.Scan = &v1alpha1.ImageScan{Tags: int32(s.tags), Checksum: s.checksum, ChangedTime: metav1.NewTime(r.clock.Now())}
	}
	setConditions(o, s, out)
	wrote, err := status.Patch(ctx, r.Client, FieldOwner, policy, before, status.AtResourceVersion)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if wrote {
		r.tell(policy, before)
	}
	return nil
}

// tell emits an event for each transition.
func (r *Reconciler) tell(policy, before *v1alpha1.ImagePolicy) {
	was, is := before.Status, policy.Status
	r.events.Transitions(policy, was.Conditions, is.Conditions, "Scan",
		status.Told{Kind: v1alpha1.ConditionReady, Good: metav1.ConditionTrue},
		status.Told{Kind: v1alpha1.ConditionSourceReachable, Good: metav1.ConditionTrue, Worry: true},
		status.Told{Kind: v1alpha1.ConditionRateLimited, Good: metav1.ConditionFalse, Worry: true},
	)
	if is.Latest != was.Latest && is.Latest != "" {
		r.events.Normal(policy, "NewVersion", "Scan", fmt.Sprintf("latest version is %s", is.Latest))
	}
	for _, version := range moved(was.Releases, is.Releases) {
		r.events.Warning(policy, "TagMoved", "Scan", fmt.Sprintf("the tag of version %s names another image now: it is a new release of the same version", version))
	}
	for _, w := range is.Withdrawn {
		if slices.ContainsFunc(was.Withdrawn, func(x v1alpha1.Withdrawal) bool {
			return x.Group == w.Group && x.Version == w.Version && x.Reason == w.Reason
		}) {
			continue
		}
		what := "version " + w.Version
		if w.Version == "" {
			what = "all versions"
		}
		r.events.Warning(policy, string(w.Reason), "Withdraw", fmt.Sprintf("%s of group %s: withdrawn", what, w.Group))
	}
}

// moved are the versions whose tag, of the same repository, names another image.
func moved(was, is []v1alpha1.OfferedRelease) []string {
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

// setConditions says in conditions what a pass found. It is pure.
func setConditions(o *observed, s scanned, out outcome) {
	conds, gen := &o.policy.Status.Conditions, o.policy.Generation
	setReachable(o, s)
	setTruncated(o, s, out)
	switch {
	case o.problem != nil && o.problem.Class == status.Waiting:
		status.Reconciling(conds, gen, o.problem.Reason, o.problem.Error())
	case o.problem != nil:
		status.Stalled(conds, gen, o.problem.Reason, o.problem.Error())
	case o.policy.Spec.Suspend:
		status.Ready(conds, gen, "Suspended", "spec.suspend is set: nothing is looked for, and what is offered stays offered")
	case s.err != nil && !out.decided:
		reason, message := failure(s.err)
		if transient(s.err) {
			status.Reconciling(conds, gen, reason, message)
			return
		}
		status.Stalled(conds, gen, reason, message)
	case s.err != nil && !transient(s.err):
		reason, message := failure(s.err)
		status.Stalled(conds, gen, reason, message+"; what is offered stays offered")
	case o.stale != nil && o.stale.Class == status.Terminal:
		status.Stalled(conds, gen, o.stale.Reason, o.stale.Error()+"; what is offered stays offered")
	case s.undecided:
		reason, message := "Looking", "the look at the registry is not done"
		if s.err != nil {
			reason, message = failure(s.err)
		}
		status.Reconciling(conds, gen, reason, message+"; what is offered stays offered, and is judged by this specification once that is possible")
	case s.unasked && len(out.releases) == 0:
		status.Reconciling(conds, gen, "Looking", "the look at the registry is not done: others of this namespace or registry come first, or the registry is slow")
	case len(out.releases) == 0 && s.err != nil:
		reason, message := failure(s.err)
		status.Reconciling(conds, gen, reason, message)
	case len(out.releases) == 0 && s.untimed > 0:
		status.Reconciling(conds, gen, "Looking", fmt.Sprintf("of %d of %d tags the time of the image is not known yet, and none is offered before; choose tags with spec.tagFilter, or delete old ones", s.untimed, s.tags))
	case s.pulled != nil && len(out.releases) == 0:
		status.Ready(conds, gen, "NoPullRequests", noVersions(s, out)) // that is no fault
	case len(out.releases) == 0:
		status.Stalled(conds, gen, "NoVersions", noVersions(s, out))
	default:
		status.Ready(conds, gen, status.ReasonSucceeded, "offers "+count(out.releases)+untagged(s))
	}
}

// untagged says of which versions the tags are deleted while the images remain; "" of
// none.
func untagged(s scanned) string {
	const most = 5
	if len(s.untagged) == 0 {
		return ""
	}
	named := strings.Join(s.untagged[:min(most, len(s.untagged))], ", ")
	if more := len(s.untagged) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("; deleted are the tags of %s, whose images remain and stay offered: add the versions to spec.deny, or set spec.untagged to Withdraw", named)
}

// noVersions says why nothing is offered: how many each filter refused, and an example of
// the last of them.
func noVersions(s scanned, out outcome) string {
	what := "tags"
	switch {
	case s.pulled != nil:
		what = "pull requests"
		if s.tags == 0 {
			return "no pull request is open"
		}
	case s.tags == 0:
		return "the repository has no tags yet"
	}
	var parts []string
	for _, c := range out.rejected {
		parts = append(parts, fmt.Sprintf("%s refused %d", c.Verdict, c.Count))
	}
	message := fmt.Sprintf("none of %d %s is offered: %s", s.tags, what, strings.Join(parts, ", "))
	if c, ok := lastRefused(out); ok {
		message += fmt.Sprintf("; for example %q: %s", c.Version, c.Reason)
	}
	return message
}

// lastRefused is the candidate that came the furthest: of the last filter that refused
// anything. What mends it is nearest to an offer.
func lastRefused(out outcome) (last v1alpha1.RefusedCandidate, ok bool) {
	for _, count := range slices.Backward(out.rejected) {
		for _, c := range out.refused {
			if c.Verdict == count.Verdict {
				return c, true
			}
		}
	}
	return last, false
}

// setReachable says whether the registry answers. A pass that did not ask leaves
// what the last one said.
func setReachable(o *observed, s scanned) {
	conds, gen := &o.policy.Status.Conditions, o.policy.Generation
	limited := s.err != nil && is(s.err, registry.RateLimited)
	switch {
	case limited:
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionTrue, "TooManyRequests", fmt.Sprintf("the registry asked for a pause until %s; what is offered stays offered, and a longer spec.interval asks less often", retryTime(s.err).UTC().Format(time.RFC3339)))
	case s.looked || s.err != nil:
		status.Set(conds, gen, v1alpha1.ConditionRateLimited, metav1.ConditionFalse, "NotLimited", "the registry asks for no pause")
	}
	switch {
	case s.err != nil:
		reason, message := failure(s.err)
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionFalse, reason, message)
	case o.stale != nil:
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionFalse, o.stale.Reason, o.stale.Error()+"; what is offered stays offered")
	case s.looked:
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionTrue, "Answered", "the registry answers")
	case o.problem != nil:
		status.Set(conds, gen, v1alpha1.ConditionSourceReachable, metav1.ConditionUnknown, o.problem.Reason, o.problem.Error())
	}
}

func setTruncated(o *observed, s scanned, out outcome) {
	conds, gen := &o.policy.Status.Conditions, o.policy.Generation
	switch {
	case !s.looked:
	case s.truncated:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionTrue, "TooManyTags", fmt.Sprintf("only %d tags were read: raise spec.limits.tags, choose tags with spec.tagFilter, or delete old ones", s.tags))
	case out.cut:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionTrue, "TooManyReleases", fmt.Sprintf("only the first %d releases have room in the status: lower spec.limits, or narrow spec.versioning.range", len(out.releases)))
	case len(s.result.Truncated) > 0:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionTrue, "TooManyGroups", fmt.Sprintf("groups beyond spec.limits.groups: %s; narrow spec.versioning.range, or raise the limit", strings.Join(s.result.Truncated, ", ")))
	default:
		status.Set(conds, gen, v1alpha1.ConditionTruncated, metav1.ConditionFalse, "Complete", "all tags and groups are considered")
	}
}

// failure gives the reason and message of a registry's error.
func failure(err error) (reason, message string) {
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
