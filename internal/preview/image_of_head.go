package preview

import (
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Image is the metadata of the image that a tag refers to.
type Image struct {
	Digest string
	// Revision is the commit in the revision label or annotation of the image, or empty if there is none.
	Revision string
	// Created is the build time of the image. Zero means unknown.
	Created time.Time
}

// OfHead returns "" if an image counts as built from the head commit, and otherwise the reason why it does not.
// Call OfHead for the images of tags for which Inspect is set. previous is the digest that was offered for an
// earlier commit of the pull request, or "" if there is none.
//
// If the tag contains no commit SHA, or if the pull request needs approval, the revision must be the head commit or
// its test merge commit. Otherwise, the revision may differ, because images inherit the revision label from their base
// image. However, an image is rejected if its revision begins with the first seven digits of the head commit but is
// neither the head commit nor its test merge commit, because the revision is then another commit with the same digits.
//
// If the tag contains no commit SHA, an image without a revision is checked by its age: an image that was built after
// the push cannot be the image of an earlier commit. If the tag contains no commit SHA and the pull request is from a
// fork, an image without a revision is rejected instead, because the image of a later, unapproved push is even newer and
// would pass this check.
func OfHead(pr *v1alpha1.PullRequest, tag Tag, image Image, previous string) string {
	switch {
	case image.Revision == "":
		return byAge(pr, tag, image, previous)
	case image.Revision == pr.HeadSHA:
		return ""
	case image.Revision == pr.MergeSHA && image.Digest == previous && previous != "":
		return previousImage
	case image.Revision == pr.MergeSHA:
		return ""
	case tag.Moves || tag.Approved || sameDigits(image.Revision, pr.HeadSHA):
		return "its revision is " + image.Revision + ", which is neither the head commit nor the merge commit"
	}
	return ""
}

const previousImage = "it is still the image of the previous commit"

// byAge does the same as OfHead, but for an image without a revision.
func byAge(pr *v1alpha1.PullRequest, tag Tag, image Image, previous string) string {
	switch {
	case !tag.Moves:
		return ""
	case pr.Fork:
		return "it has no revision label, which is required for images from forks if the tag does not contain the commit"
	case image.Digest != "" && image.Digest == previous:
		return previousImage
	case image.Created.IsZero() || pr.HeadTime == nil:
		return "it has no revision label, and its build time or the time of the head commit is unknown"
	case !image.Created.After(pr.HeadTime.Time):
		return "it has no revision label, and was built before the head commit was pushed"
	}
	return ""
}

// sameDigits reports whether two commits have the same first seven digits.
func sameDigits(a, b string) bool { return len(b) >= 7 && strings.HasPrefix(a, b[:7]) }
