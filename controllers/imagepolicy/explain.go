package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/version"
)

// Explanation is what an ImagePolicy would offer after its first scan if no version were in use.
type Explanation struct {
	// Result contains the decision for each tag.
	version.Result
	// Images contains the offered images by tag. It is empty if the registry was not scanned.
	Images map[string]v1alpha1.ReleaseImage
	// Tags is the number of tags. Cut reports whether there are more tags than spec.limits.tags allows.
	Tags int
	Cut  bool
	// Untimed is the number of tags whose build time is not known. It is zero unless the policy orders tags by
	// build time. If Untimed is not zero, no tag is evaluated.
	Untimed int
	// Unverified reports whether spec.verify is set, but no signature was verified.
	Unverified bool
}

// Check returns an error if a policy's specification contains an error that the schema does not
// detect, such as an invalid range or regular expression. It returns nil if there is no error.
func Check(policy *v1alpha1.ImagePolicy) error {
	if o := withoutStatus(policy, ""); o.problem != nil {
		return o.problem
	}
	return nil
}

// Progress is the progress of Explain. Its numbers never decrease.
type Progress struct {
	// Timed is the number of tags with a known build time, and Times is the number of all tags, if the policy
	// orders tags by build time.
	Timed, Times int
	// Images is the number of images that were requested, not counting requests for build times.
	Images int
}

// Explain scans the source of the policy as the controller does, and returns the decision on each tag. auth
// is the credential for all repositories of spec.image's registry, tls is the content of spec.certSecretRef,
// and platform is the default for spec.platforms. Signatures are not verified: see Unverified. Explain
// returns an error for a GitHub source, because such a source requires a cluster.
//
// The error is a problem with the specification, or the registry's first error. In the latter case, the
// explanation contains the results so far. Each image is requested once, and no more requests are sent after
// three failures. Reading the build times of thousands of images takes minutes, or hours with a slow
// registry. If ctx is done before all times are read, the error wraps context.Cause(ctx). progress is called
// after each image; it may be nil.
func Explain(ctx context.Context, policy *v1alpha1.ImagePolicy, source Scanner, auth registry.Credential, tls registry.TLS, platform string, progress func(Progress)) (Explanation, error) {
	o := withoutStatus(policy, platform)
	if o.problem != nil {
		return Explanation{}, o.problem
	}
	if o.github != nil {
		return Explanation{}, errGitHub
	}
	by := access{auths: make([]registry.Credential, len(o.query.repositories())), tls: tls}
	for i, repository := range o.query.repositories() {
		if registry.Host(repository) == registry.Host(policy.Spec.Image) {
			by.auths[i] = auth
		}
	}
	o.unverified = true
	a := &recordReader{scanRecord: newScanRecord(o.query, by, true), clock: clock.RealClock{}, scanner: source, ctx: ctx, counts: o.selector.Chooses, timesLeft: math.MaxInt, report: progress}
	s := selectReleases(o, a, nil, nil)
	images := map[string]v1alpha1.ReleaseImage{}
	for tag, found := range s.images {
		images[tag] = found[0]
	}
	explanation := Explanation{Result: s.result, Images: images, Tags: s.tags, Cut: s.truncated, Untimed: s.untimed, Unverified: policy.Spec.Verify != nil}
	err := s.err
	if errors.Is(err, errTimedOut) {
		err = fmt.Errorf("scan the registry: %w", context.Cause(ctx))
	}
	if err != nil && s.untimed > 0 {
		err = fmt.Errorf("the build times of %d of %d tags are unknown, and all are needed: %w", s.untimed, s.tags, err)
	}
	return explanation, err
}

// ExplainTags returns the decision on each tag in tags. It does not read a registry: each tag is treated as an image that
// supports all platforms. For a policy with an explicit list, a listed tag that is not in tags is treated as missing.
func ExplainTags(policy *v1alpha1.ImagePolicy, tags []string) (Explanation, error) {
	o := withoutStatus(policy, "")
	if o.problem != nil {
		return Explanation{}, o.problem
	}
	if o.github != nil {
		return Explanation{}, errGitHub
	}
	if o.byBuildTime() {
		return Explanation{}, errTimes
	}
	listed, missing := tags, map[string]version.Refusal{}
	if o.pinned != nil {
		listed = o.pinned
		for _, tag := range o.pinned {
			if !slices.Contains(tags, tag) {
				missing[tag] = *noImage()
			}
		}
	}
	counted := 0
	for _, tag := range listed {
		if o.selector.Chooses(tag) {
			counted++
		}
	}
	return Explanation{
		Result: o.selector.Rank(listed).Offer(nil, missing),
		Tags:   len(listed), Unverified: policy.Spec.Verify != nil, Cut: o.pinned == nil && o.query.maxTags > 0 && counted > o.query.maxTags,
	}, nil
}

var errTimes = errors.New("spec.versioning.scheme PushTime: a list of tags does not contain the build times of images: scan the registry")

var errGitHub = errors.New("spec.source.github: GitHub sources can be explained only in a cluster: see status.candidates of the ImagePolicy there")

// withoutStatus returns a policy's observed state before its first scan.
func withoutStatus(policy *v1alpha1.ImagePolicy, platform string) *observed {
	policy = policy.DeepCopy()
	policy.Status, policy.Spec.Suspend = v1alpha1.ImagePolicyStatus{}, false
	return fromSpec(policy, platform)
}
