package preview

import (
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Image is what is known of an image behind a tag.
type Image struct {
	Digest string
	// Revision is the commit of its label or annotation; "" where it says none.
	Revision string
	// Created is when it says that it was built; zero where it says none.
	Created time.Time
}

// OfHead gives the reason why an image is not of the head commit; "" where it is. It is
// to be asked about the images of a tag with Inspect set. former is the digest of what
// was offered of the pull request's earlier commit; "" for nothing.
//
// A revision decides where the tag does not: it is the head commit, or the trial merge
// of it. Under a tag that holds a commit of a pull request that needs no approval, a
// revision may be another one, because images inherit that label from their base; but
// one that begins with the digits of the tag shows that another commit has them as well.
// Only an image without a revision, of a pull request of the repository itself, counts
// by its age: no image built so late can be of an earlier commit. A fork's does not,
// because an image of a later push, which no one approved, is younger still.
func OfHead(pr *v1alpha1.PullRequest, tag Tag, image Image, former string) string {
	switch {
	case image.Revision == "":
		return byAge(pr, tag, image, former)
	case image.Revision == pr.HeadSHA:
		return ""
	case image.Revision == pr.MergeSHA && image.Digest == former && former != "":
		return formerImage
	case image.Revision == pr.MergeSHA:
		return ""
	case tag.Moves || tag.Approved || sameDigits(image.Revision, pr.HeadSHA):
		return "its revision is " + image.Revision + ", which is neither the head commit nor that of the merge"
	}
	return ""
}

const formerImage = "it still is the image of the former commit"

// byAge is OfHead for an image without a revision.
func byAge(pr *v1alpha1.PullRequest, tag Tag, image Image, former string) string {
	switch {
	case !tag.Moves:
		return ""
	case pr.Fork:
		return "it has no revision label, which images of forks need if the tag does not contain the commit"
	case image.Digest != "" && image.Digest == former:
		return formerImage
	case image.Created.IsZero() || pr.HeadTime == nil:
		return "it has no revision label, and its build time is not known"
	case !image.Created.After(pr.HeadTime.Time):
		return "it has no revision label, and was built before the head commit was pushed"
	}
	return ""
}

// sameDigits reports whether two commits have the same first seven digits.
func sameDigits(a, b string) bool { return len(b) >= 7 && strings.HasPrefix(a, b[:7]) }
