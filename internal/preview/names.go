package preview

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/version"
)

// maxBranch is the maximum length of the DNS label to which a branch is converted. A label of this
// length and the longest number together fit into 63 characters.
const maxBranch = 40

// Branch converts a branch to a DNS label of at most 40 characters: "feature/Cart" becomes
// "feature-cart". A branch without ASCII letters or digits becomes "pr".
func Branch(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		if r < '0' || r > '9' && r < 'a' || r > 'z' {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	label := b.String()
	if len(label) > maxBranch {
		label = strings.TrimRight(label[:maxBranch], "-")
	}
	if label == "" {
		return "pr"
	}
	return label
}

// Slug returns the DNS label of a pull request's group. The label consists of the branch (at most 40 characters)
// and the number of the pull request. It is unique.
func Slug(branch string, number int64) string {
	return Branch(branch) + "-" + strconv.FormatInt(number, 10)
}

// Number returns the number in a slug. It returns false if the slug does not belong to a pull request.
func Number(slug string) (int64, bool) {
	i := strings.LastIndexByte(slug, '-')
	if i < 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(slug[i+1:], 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == slug[i+1:]
}

// IsCommit reports whether a version is a full commit SHA. Such a version belongs to a pull request.
func IsCommit(version string) bool {
	return len(version) >= 40 && strings.Trim(version, "0123456789abcdef") == ""
}

// Vars are the variables of templates. A variable whose value is not known is empty.
type Vars struct {
	// Tag is the name of the version in its source, or the tag of the image.
	Tag string
	// SHA is the full commit SHA. {{.SHA7}} stands for its first seven digits.
	SHA string
	// Number is the number of the pull request, and Branch is its branch as a DNS label.
	Number, Branch string
}

// VarsOf returns the variables of a pull request.
func VarsOf(pr *v1alpha1.PullRequest) Vars {
	return Vars{SHA: pr.HeadSHA, Number: strconv.FormatInt(pr.Number, 10), Branch: Branch(pr.HeadRef)}
}

var variable = regexp.MustCompile(`\{\{\.(\w+)\}\}`)

// Expand replaces the variables in a string. The error contains the last variable that does not exist or
// whose value is not known.
func (v Vars) Expand(text string) (string, error) {
	known := map[string]string{"Tag": v.Tag, "SHA": v.SHA, "SHA7": v.SHA[:min(7, len(v.SHA))], "Number": v.Number, "Branch": v.Branch}
	var unknown string
	out := variable.ReplaceAllStringFunc(text, func(match string) string {
		value := known[variable.FindStringSubmatch(match)[1]]
		if value == "" {
			unknown = match
		}
		return value
	})
	if unknown != "" {
		return "", fmt.Errorf("%s is not available here", unknown)
	}
	return out, nil
}

// Tag is a candidate tag for the image of a head commit.
type Tag struct {
	Name string
	// Moves reports whether the tag contains no commit SHA. The image of such a tag may belong to an earlier
	// commit.
	Moves bool
	// Approved reports whether the tag belongs to a pull request whose commits need approval. Such a tag
	// contains the full SHA.
	Approved bool
	// Inspect reports whether to use the metadata of the image to decide whether the image was built from
	// the head commit. See OfHead.
	Inspect bool
}

// names reports whether a template contains a variable.
func names(text, variable string) bool { return strings.Contains(text, "{{."+variable+"}}") }

// namesCommit reports whether the tags from a template identify a commit, by its full SHA or by its
// first digits.
func namesCommit(text string) bool { return names(text, "SHA") || names(text, "SHA7") }

// namesPull reports whether the tags from a template identify a pull request. A branch alone does
// not identify it: "feature/cart" and the branch "feature-cart" of a fork are converted to the same DNS label.
func namesPull(text string) bool { return namesCommit(text) || names(text, "Number") }

// Tags returns the candidate tags of the pull request's image, in the order of their templates. It skips
// templates that do not produce a valid tag. If the commits of the pull request need approval, Tags returns only
// tags with the full SHA, because an attacker can create a commit with the same first digits in seconds, and the
// author of a Dockerfile controls the metadata of the image. If images from forks may be in the registry, Tags
// sets Inspect for tags with only the first digits of a commit, because the image of such a tag may be from a fork.
func (c *Chooser) Tags(pr *v1alpha1.PullRequest) []Tag {
	var tags []Tag
	vars, approved := VarsOf(pr), c.NeedsApproval(pr)
	for _, text := range c.candidates {
		name, err := vars.Expand(text)
		if err != nil || !version.IsTag(name) || approved && !names(text, "SHA") {
			continue
		}
		tag := Tag{Name: name, Moves: !namesCommit(text), Approved: approved}
		tag.Inspect = tag.Moves || approved || !names(text, "SHA") && c.forks().Policy != v1alpha1.ForksDeny
		tags = append(tags, tag)
	}
	return tags
}
