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
	// Untimed are tags of which the time is not known, where times give the versions and
	// the registry did not tell all: then none is judged.
	Untimed int
	// Unverified says that spec.verify is set, and that no signature was looked at.
	Unverified bool
}

// Progress of an Explain, which never goes back.
type Progress struct {
	// Timed tags of all Times, where times give the versions.
	Timed, Times int
	// Images that were asked for beside these.
	Images int
}

// Explain looks at the policy's source as the controller does, and gives the verdict
// of each tag. auth is the credential, for all repositories of the registry of
// spec.image, tls what spec.certSecretRef would give, and platform the one that an image must be there for where
// spec.platforms names none. Signatures are not looked at: see Unverified. A source at
// GitHub is known in a cluster only, and an error. The error is of the specification, or
// the first one of the registry: the explanation beside the latter has what was
// learned all the same. Each image is asked for once, and after three failures the rest
// is not; but the times of thousands of images take minutes, and a slow registry hours:
// ctx bounds it, and its cause is then the error. progress, unless nil, is told after
// each image.
func Explain(ctx context.Context, policy *v1alpha1.ImagePolicy, source Scanner, auth registry.Credential, tls registry.TLS, platform string, progress func(Progress)) (Explanation, error) {
	o := unused(policy, platform)
	if o.problem != nil {
		return Explanation{}, o.problem
	}
	if o.github != nil {
		return Explanation{}, errGitHub
	}
	by := access{auths: make([]registry.Credential, len(o.question.repositories())), tls: tls}
	for i, repository := range o.question.repositories() {
		if registry.Host(repository) == registry.Host(policy.Spec.Image) {
			by.auths[i] = auth
		}
	}
	o.unverified = true
	a := &asker{look: newLook(o.question, by, true), clock: clock.RealClock{}, scanner: source, ctx: ctx, counts: o.selector.Chooses, timeable: math.MaxInt, tell: progress}
	s := scan(o, a, nil, nil)
	images := map[string]v1alpha1.ReleaseImage{}
	for tag, found := range s.images {
		images[tag] = found[0]
	}
	explanation := Explanation{Result: s.result, Images: images, Tags: s.tags, Cut: s.truncated, Untimed: s.untimed, Unverified: policy.Spec.Verify != nil}
	err := s.err
	if errors.Is(err, errLate) {
		err = fmt.Errorf("ask the registry: %w", context.Cause(ctx))
	}
	if err != nil && s.untimed > 0 {
		err = fmt.Errorf("of %d of %d tags the time is not known, and without all of them none is judged: %w", s.untimed, s.tags, err)
	}
	return explanation, err
}

// ExplainTags gives the verdict of each tag of a list, without a registry: each is
// taken for an image of all platforms. Of a policy with a list written by hand, a tag
// that is not in tags does not exist.
func ExplainTags(policy *v1alpha1.ImagePolicy, tags []string) (Explanation, error) {
	o := unused(policy, "")
	if o.problem != nil {
		return Explanation{}, o.problem
	}
	if o.github != nil {
		return Explanation{}, errGitHub
	}
	if o.timed() {
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
	return Explanation{
		Result: o.selector.Rank(listed).Offer(nil, missing),
		Tags:   len(listed), Unverified: policy.Spec.Verify != nil, Cut: o.pinned == nil && o.question.maxTags > 0 && len(listed) > o.question.maxTags,
	}, nil
}

var errTimes = errors.New("spec.versioning.scheme PushTime: a list of tags does not tell the times of their images: ask the registry")

var errGitHub = errors.New("spec.source.github: what GitHub says is kept by a GitHubRepository of a cluster: see status.candidates of the ImagePolicy there")

// unused is a policy that was never looked at, and that looks.
func unused(policy *v1alpha1.ImagePolicy, platform string) *observed {
	policy = policy.DeepCopy()
	policy.Status, policy.Spec.Suspend = v1alpha1.ImagePolicyStatus{}, false
	return specified(policy, platform)
}
