package imagepolicy

import (
	"context"
	"slices"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/version"
)

// Explanation is what an ImagePolicy would offer if its first look were now and
// nobody held a version.
type Explanation struct {
	// Result has a verdict for each tag.
	version.Result
	// Images that are offered, by tag; empty where no registry was asked.
	Images map[string]v1alpha1.ReleaseImage
	// Tags that were read, and whether there are more than spec.limits.tags.
	Tags int
	Cut  bool
}

// Explain looks at the policy's source as the controller does, and gives the verdict
// of each tag. auth is the credential, and platform the one that an image must be
// there for where spec.platforms names none. The error is of the specification, or
// the first one of the registry: the explanation beside the latter has what was
// learned all the same.
func Explain(ctx context.Context, policy *v1alpha1.ImagePolicy, source Scanner, auth registry.Credential, platform string) (Explanation, error) {
	o := unused(policy, platform)
	if o.problem != nil {
		return Explanation{}, o.problem
	}
	ctx, cancel := context.WithTimeout(ctx, maxLook)
	defer cancel()
	a := &asker{look: newLook(o.question, auth, true), clock: clock.RealClock{}, scanner: source, ctx: ctx}
	s := scan(o, a, nil, nil)
	return Explanation{Result: s.result, Images: s.images, Tags: s.tags, Cut: s.truncated}, s.err
}

// ExplainTags gives the verdict of each tag of a list, without a registry: each is
// taken for an image of all platforms. Of a policy with a list written by hand, a tag
// that is not in tags does not exist.
func ExplainTags(policy *v1alpha1.ImagePolicy, tags []string) (Explanation, error) {
	o := unused(policy, "")
	if o.problem != nil {
		return Explanation{}, o.problem
	}
	listed, missing := tags, map[string]version.Refusal{}
	if o.pinned != nil {
		listed = o.pinned
		for _, tag := range o.pinned {
			if !slices.Contains(tags, tag) {
				missing[tag] = noImage
			}
		}
	}
	return Explanation{
		Result: o.selector.Rank(listed).Offer(nil, missing),
		Tags:   len(listed), Cut: o.pinned == nil && o.question.maxTags > 0 && len(listed) > o.question.maxTags,
	}, nil
}

// unused is a policy that was never looked at, and that looks.
func unused(policy *v1alpha1.ImagePolicy, platform string) *observed {
	policy = policy.DeepCopy()
	policy.Status, policy.Spec.Suspend = v1alpha1.ImagePolicyStatus{}, false
	return specified(policy, platform)
}

// noImage refuses a tag that the registry does not have.
var noImage = version.Refusal{Verdict: version.VerdictExists, Reason: "the registry has no image of this tag"}
