package imagepolicy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/preview"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/version"
)

func compareRefs(a, b ref) int {
	return cmp.Or(cmp.Compare(a.image, b.image), cmp.Compare(a.identifier, b.identifier))
}

// unknown is no refusal: the registry was not asked yet.
var unknown = &version.Refusal{}

func refuse(v version.Verdict, format string, args ...any) *version.Refusal {
	return &version.Refusal{Verdict: v, Reason: fmt.Sprintf(format, args...)}
}

// final says that a refusal is by what the image is, and not by what it lacks: a
// policy that was changed takes back what it offered before.
func final(r *version.Refusal) bool {
	return r != nil && (r.Verdict == version.VerdictLabels || r.Verdict == version.VerdictVerify)
}

// find finds the images of a tag in all repositories of the policy, and judges them:
// they exist, for the platforms, with the labels, signed. vars are those of the
// labels' values.
func (s *scanned) find(o *observed, a *asker, tag string, vars preview.Vars) ([]v1alpha1.ReleaseImage, *version.Refusal) {
	if refusal := s.unreachable(); refusal != nil {
		return nil, refusal
	}
	var images []v1alpha1.ReleaseImage
	for i, repository := range repositories(o.policy) {
		image, refusal := s.exists(o, a, i, tag)
		if refusal != nil {
			return nil, refusal
		}
		found := v1alpha1.ReleaseImage{Image: repository + ":" + tag + "@" + image.Digest, Digest: image.Digest}
		if i > 0 {
			found.ContainerName = o.policy.Spec.AdditionalImages[i-1].ContainerName
		}
		images = append(images, found)
	}
	if refusal := s.judge(o, a, images, vars); refusal != nil {
		return nil, refusal
	}
	return images, nil
}

// unreachable refuses an image of which the registry cannot be asked; nil where it can.
func (s *scanned) unreachable() *version.Refusal {
	if !s.looked || s.failures >= maxFailures {
		return refuse(version.VerdictExists, "the registry could not be asked for the image")
	}
	return nil
}

// judgeSignatures judges images, which exist, by their signatures alone.
func (s *scanned) judgeSignatures(o *observed, a *asker, images []v1alpha1.ReleaseImage) *version.Refusal {
	if refusal := s.unreachable(); refusal != nil {
		return refusal
	}
	return s.allSigned(o, a, images)
}

// judge judges images, which exist, by what they are.
func (s *scanned) judge(o *observed, a *asker, images []v1alpha1.ReleaseImage, vars preview.Vars) *version.Refusal {
	if refusal := s.unreachable(); refusal != nil {
		return refusal
	}
	vars.Tag = cmp.Or(vars.Tag, tagOf(images))
	if refusal := s.labelled(o, a, images[0].Digest, vars); refusal != nil {
		return refusal
	}
	return s.allSigned(o, a, images)
}

// allSigned judges the signatures of images.
func (s *scanned) allSigned(o *observed, a *asker, images []v1alpha1.ReleaseImage) *version.Refusal {
	for i := range images {
		if refusal := s.signed(o, a, i, images[i].Digest); refusal != nil {
			return refusal
		}
	}
	return nil
}

// exists asks for the image of a tag in one repository.
func (s *scanned) exists(o *observed, a *asker, i int, tag string) (registry.Image, *version.Refusal) {
	of := ""
	if i > 0 {
		of = " of " + o.policy.Spec.AdditionalImages[i-1].Image
	}
	image, err := a.Resolve(i, tag)
	switch {
	case errors.Is(err, errUnasked):
		return image, unknown
	case is(err, registry.NotFound):
		if i == 0 && o.github != nil {
			s.missing[tag] = true
		}
		return image, refuse(version.VerdictExists, "the registry has no image%s of this tag", of)
	case is(err, registry.Malformed):
		return image, refuse(version.VerdictExists, "%s", err)
	case err != nil:
		s.fail(err)
		return image, refuse(version.VerdictExists, "the image%s cannot be read: %s", of, err)
	}
	for _, p := range o.platforms {
		if len(image.Platforms) == 0 {
			return image, refuse(version.VerdictPlatform, "the image%s names no platform, and is to be for %s: build it for that, or leave the tag out with spec.tagFilter", of, p)
		}
		if !image.Supports(p) {
			return image, refuse(version.VerdictPlatform, "the image%s is for %s and not for %s: build it for that, or set spec.platforms", of, strings.Join(image.Platforms, ", "), p)
		}
	}
	return image, nil
}

// labelled judges the labels and annotations of an image.
func (s *scanned) labelled(o *observed, a *asker, digest string, vars preview.Vars) *version.Refusal {
	match := o.policy.Spec.Match
	if match == nil || len(match.Labels) == 0 {
		return nil
	}
	image, err := a.Inspect(0, digest, o.platforms[0])
	switch {
	case errors.Is(err, errUnasked):
		return unknown
	case is(err, registry.Malformed):
		return refuse(version.VerdictLabels, "the image's labels cannot be read: %s", err)
	case err != nil:
		s.fail(err)
		return refuse(version.VerdictExists, "the image's labels cannot be read: %s", err)
	}
	for _, l := range match.Labels {
		got, ok := image.Labels[l.Name]
		if !ok {
			return refuse(version.VerdictLabels, "the image has no label %q", l.Name)
		}
		if l.Value == "" {
			continue
		}
		want, err := vars.Expand(l.Value)
		if err != nil {
			return refuse(version.VerdictLabels, "the value of label %q is to be %q, and %s", l.Name, l.Value, err)
		}
		if got != want {
			return refuse(version.VerdictLabels, "the image's label %q is %q, and not %q", l.Name, got, want)
		}
	}
	return nil
}

// signed judges whether a key of spec.verify signed an image. A registry that does not
// answer is no verdict.
func (s *scanned) signed(o *observed, a *asker, i int, digest string) *version.Refusal {
	if o.policy.Spec.Verify == nil || o.unverified {
		return nil
	}
	result, err := a.Verify(i, digest)
	switch {
	case errors.Is(err, errUnasked):
		return unknown
	case err != nil:
		s.fail(err)
		return refuse(version.VerdictExists, "the image's signature cannot be read: %s", err)
	case result.Verdict != cosign.Verified:
		return refuse(version.VerdictVerify, "%s: %s", result.Verdict, result.Reason)
	}
	return nil
}

// repositories of the policy: the first is spec.image.
func repositories(p *v1alpha1.ImagePolicy) []string {
	all := []string{p.Spec.Image}
	for _, x := range p.Spec.AdditionalImages {
		all = append(all, x.Image)
	}
	return all
}

// carried says that an offered release is of the present repositories, with their
// containers.
func carried(p *v1alpha1.ImagePolicy, rel *v1alpha1.OfferedRelease) bool {
	if len(rel.Images) != 1+len(p.Spec.AdditionalImages) {
		return false
	}
	for i, repository := range repositories(p) {
		image, container := rel.Images[i], ""
		if i > 0 {
			container = p.Spec.AdditionalImages[i-1].ContainerName
		}
		if repositoryOfImage(image.Image) != repository || image.ContainerName != container || image.Digest == "" {
			return false
		}
	}
	return true
}

// repositoryOfImage reads the repository of an image, written repository:tag@digest.
func repositoryOfImage(image string) string {
	ref, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") {
		return ref[:i]
	}
	return ref
}
