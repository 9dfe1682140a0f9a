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

// notScanned means that the image has not been requested yet. It is not a rejection.
var notScanned = &version.Refusal{}

func rejectf(v version.Verdict, format string, args ...any) *version.Refusal {
	return &version.Refusal{Verdict: v, Reason: fmt.Sprintf(format, args...)}
}

// isFinal reports whether the labels or the signature of an image are the reason for a rejection. If an offered
// image is rejected for such a reason after a change to the policy or the keys, it is withdrawn.
func isFinal(r *version.Refusal) bool {
	return r != nil && (r.Verdict == version.VerdictLabels || r.Verdict == version.VerdictVerify)
}

// findImages finds the images of a tag in all repositories of the policy. It checks that the images exist for
// all platforms, have the required labels, and are signed. vars are the variables for label values.
func (s *selection) findImages(o *observed, a *recordReader, tag string, vars preview.Vars) ([]v1alpha1.ReleaseImage, *version.Refusal) {
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
	if refusal := s.check(o, a, images, vars); refusal != nil {
		return nil, refusal
	}
	return images, nil
}

// unreachable rejects an image if the registry cannot be reached, and otherwise returns nil.
func (s *selection) unreachable() *version.Refusal {
	if !s.scanned || s.failures >= maxFailures {
		return rejectf(version.VerdictExists, "not requested, because requests to the registry failed")
	}
	return nil
}

// checkSignatures checks only the signatures of existing images.
func (s *selection) checkSignatures(o *observed, a *recordReader, images []v1alpha1.ReleaseImage) *version.Refusal {
	if refusal := s.unreachable(); refusal != nil {
		return refusal
	}
	return s.checkAllSigned(o, a, images)
}

// check checks the labels and signatures of existing images.
func (s *selection) check(o *observed, a *recordReader, images []v1alpha1.ReleaseImage, vars preview.Vars) *version.Refusal {
	if refusal := s.unreachable(); refusal != nil {
		return refusal
	}
	vars.Tag = cmp.Or(vars.Tag, tagOf(images))
	if refusal := s.checkLabels(o, a, images[0].Digest, vars); refusal != nil {
		return refusal
	}
	return s.checkAllSigned(o, a, images)
}

// checkAllSigned checks the signatures of images.
func (s *selection) checkAllSigned(o *observed, a *recordReader, images []v1alpha1.ReleaseImage) *version.Refusal {
	for i := range images {
		if refusal := s.checkSigned(o, a, i, images[i].Digest); refusal != nil {
			return refusal
		}
	}
	return nil
}

// exists requests the image of a tag in one repository, and checks its platforms.
func (s *selection) exists(o *observed, a *recordReader, i int, tag string) (registry.Image, *version.Refusal) {
	of := ""
	if i > 0 {
		of = " of " + o.policy.Spec.AdditionalImages[i-1].Image
	}
	image, err := a.Resolve(i, tag)
	switch {
	case errors.Is(err, errNotScanned):
		return image, notScanned
	case is(err, registry.NotFound):
		if i == 0 && o.github != nil {
			s.missing[tag] = true
		}
		return image, rejectf(version.VerdictExists, "the registry has no image%s with this tag", of)
	case is(err, registry.Malformed):
		return image, rejectf(version.VerdictExists, "%s", err)
	case err != nil:
		if s.noteImageError(err); s.unreadable == 1 && !s.readable {
			s.readable = a.readsAnother(o, tag)
		}
		return image, rejectf(version.VerdictExists, "the image%s cannot be read: %s", of, err)
	}
	s.readable = true
	for _, p := range o.platforms {
		if len(image.Platforms) == 0 {
			return image, rejectf(version.VerdictPlatform, "the image%s does not specify its platform, but %s is required: build it for that platform, or exclude the tag with spec.tagFilter", of, p)
		}
		if !image.Supports(p) {
			return image, rejectf(version.VerdictPlatform, "the image%s supports %s but not %s: build it for that platform, or set spec.platforms", of, strings.Join(image.Platforms, ", "), p)
		}
	}
	return image, nil
}

// readsAnother reports whether the registry returns the image of an offered tag other than the given tag. If it
// does, neither the registry nor the credential is the cause of the error for the given tag.
func (a *recordReader) readsAnother(o *observed, than string) bool {
	for i := range o.policy.Status.Releases {
		if images := o.policy.Status.Releases[i].Images; len(images) > 0 && tagOf(images) != than {
			_, err := a.Resolve(0, tagOf(images))
			return err == nil
		}
	}
	return false
}

// matchedLabels returns the names of the labels in spec.match.
func (o *observed) matchedLabels() (names []string) {
	if o.policy.Spec.Match != nil {
		for _, l := range o.policy.Spec.Match.Labels {
			names = append(names, l.Name)
		}
	}
	return names
}

// checkLabels checks an image's labels and annotations.
func (s *selection) checkLabels(o *observed, a *recordReader, digest string, vars preview.Vars) *version.Refusal {
	match := o.policy.Spec.Match
	if match == nil || len(match.Labels) == 0 {
		return nil
	}
	image, err := a.Inspect(0, digest, o.platforms[0])
	switch {
	case errors.Is(err, errNotScanned):
		return notScanned
	case is(err, registry.Malformed):
		return rejectf(version.VerdictLabels, "the image's labels cannot be read: %s", err)
	case err != nil:
		s.noteError(err)
		return rejectf(version.VerdictExists, "the image's labels cannot be read: %s", err)
	}
	for _, l := range match.Labels {
		got, ok := image.Labels[l.Name]
		if !ok {
			return rejectf(version.VerdictLabels, "the image has no label %q", l.Name)
		}
		if l.Value == "" {
			continue
		}
		want, err := vars.Expand(l.Value)
		if err != nil {
			return rejectf(version.VerdictLabels, "the value of label %q must be %q, but %s", l.Name, l.Value, err)
		}
		if got != want {
			return rejectf(version.VerdictLabels, "the image's label %q is %q instead of %q", l.Name, got, want)
		}
	}
	return nil
}

// checkSigned checks that an image is signed with one of the keys in spec.verify. If the signature cannot be read, the image
// counts as missing, not as unsigned.
func (s *selection) checkSigned(o *observed, a *recordReader, i int, digest string) *version.Refusal {
	if o.policy.Spec.Verify == nil || o.unverified {
		return nil
	}
	result, err := a.Verify(i, digest)
	switch {
	case errors.Is(err, errNotScanned):
		return notScanned
	case err != nil:
		s.noteError(err)
		return rejectf(version.VerdictExists, "the image's signature cannot be read: %s", err)
	case result.Verdict != cosign.Verified:
		return rejectf(version.VerdictVerify, "%s: %s", result.Verdict, result.Reason)
	}
	return nil
}

// repositories returns the policy's repositories; the first is spec.image.
func repositories(p *v1alpha1.ImagePolicy) []string {
	all := []string{p.Spec.Image}
	for _, x := range p.Spec.AdditionalImages {
		all = append(all, x.Image)
	}
	return all
}

// isCurrent reports whether an offered release has the repositories and containers that the current
// specification defines.
func isCurrent(p *v1alpha1.ImagePolicy, rel *v1alpha1.OfferedRelease) bool {
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

// repositoryOfImage returns the repository of an image reference of the form repository:tag@digest.
func repositoryOfImage(image string) string {
	ref, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") {
		return ref[:i]
	}
	return ref
}
