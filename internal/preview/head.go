package preview

import (
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Image is what is known of an image behind a tag that moves.
type Image struct {
	Digest string
	// Revision is the commit of its label or annotation; "" where it says none.
	Revision string
	// Created is when it says that it was built; zero where it says none.
	Created time.Time
}

// OfHead tells why an image behind a tag that moves is not of the head commit; ""
// where it is. A revision decides: it is the head commit, or the commit with which
// GitHub tests the merge now. Only an image that names none, of a pull request of the
// repository itself, counts by its age: no image built so late can be of an earlier
// commit. A fork's does not, because an image of a later push, which nobody approved,
// is younger still. former is the digest of what was offered of the pull request's
// earlier commit; "" for nothing.
func OfHead(pr *v1alpha1.PullRequest, image Image, former string) string {
	switch {
	case image.Revision != "" && (image.Revision == pr.HeadSHA || image.Revision == pr.MergeSHA):
		return ""
	case image.Revision != "":
		return "its revision is " + image.Revision + ", which is neither the head commit nor that of the merge"
	case pr.Fork:
		return "its revision is not said, which the image of a fork must under a tag without a commit"
	case image.Digest != "" && image.Digest == former:
		return "it still is the image of the former commit"
	case image.Created.IsZero() || pr.HeadTime == nil:
		return "its revision is not said, and when it was built is not known"
	case !image.Created.After(pr.HeadTime.Time):
		return "its revision is not said, and it was built before the head commit was pushed"
	}
	return ""
}
