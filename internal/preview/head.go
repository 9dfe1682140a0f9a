package preview

import (
	"cmp"
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
// where it is: by its revision, which is the head commit or the commit with which
// GitHub tests the merge, or because no image built so late can be of an earlier
// commit. former is what was offered of the pull request's earlier commit, if
// anything was.
func OfHead(pr *v1alpha1.PullRequest, image, former Image) string {
	switch {
	case image.Revision != "" && (image.Revision == pr.HeadSHA || image.Revision == pr.MergeSHA):
		return ""
	case image.Revision != "" && image.Revision == former.Revision:
		return "its revision is the former commit"
	case image.Digest != "" && image.Digest == former.Digest:
		return "it still is the image of the former commit"
	case image.Created.IsZero() || pr.HeadTime == nil:
		return "its revision is " + cmp.Or(image.Revision, "not said") + ", and when it was built is not known"
	case !image.Created.After(pr.HeadTime.Time):
		return "its revision is " + cmp.Or(image.Revision, "not said") + ", and it was built before the head commit was pushed"
	}
	return ""
}
