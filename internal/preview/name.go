package preview

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/version"
)

// maxBranch is the length of a branch as a DNS label: with the longest number there
// is room for both in 63 characters.
const maxBranch = 40

// Branch gives a branch as a DNS label of at most 40 characters: "feature/Cart" is
// "feature-cart". One without a letter or digit of ASCII is "pr".
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

// Slug gives the DNS label of a pull request's group: its branch, cut to 40
// characters, and its number. Two pull requests never have the same.
func Slug(branch string, number int64) string {
	return Branch(branch) + "-" + strconv.FormatInt(number, 10)
}

// Number reads the number of a slug; false where it can be none of a pull request.
func Number(slug string) (int64, bool) {
	i := strings.LastIndexByte(slug, '-')
	if i < 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(slug[i+1:], 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == slug[i+1:]
}

// IsCommit says that a version is one of a pull request: a commit in full, in
// hexadecimal.
func IsCommit(version string) bool {
	return len(version) >= 40 && strings.Trim(version, "0123456789abcdef") == ""
}

// Vars are the variables of templates; "" is one that is not known.
type Vars struct {
	// Tag is the name that the source gives, or the image's tag.
	Tag string
	// SHA is the commit in full; {{.SHA7}} is its first seven digits.
	SHA string
	// Number of the pull request, and its Branch as a DNS label.
	Number, Branch string
}

// VarsOf gives those of a pull request.
func VarsOf(pr *v1alpha1.PullRequest) Vars {
	return Vars{SHA: pr.HeadSHA, Number: strconv.FormatInt(pr.Number, 10), Branch: Branch(pr.HeadRef)}
}

var variable = regexp.MustCompile(`\{\{\.(\w+)\}\}`)

// Expand puts the variables into a text. The error names one that there is not, or
// that is not known.
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
		return "", fmt.Errorf("%s is not known here", unknown)
	}
	return out, nil
}

// Tag is one under which the image of a head commit may be.
type Tag struct {
	Name string
	// Moves: it has no commit in it, so that an image under it may be of an earlier one.
	Moves bool
	// Approved: it is of a fork whose commit needs an approval. Then it holds the whole
	// commit.
	Approved bool
	// Inspect: what its image says of itself decides whether it is of the head commit; see
	// OfHead.
	Inspect bool
}

// names says that a template has a variable.
func names(text, variable string) bool { return strings.Contains(text, "{{."+variable+"}}") }

// namesCommit says that a template's tags are of one commit, or of those few with the
// same first digits.
func namesCommit(text string) bool { return names(text, "SHA") || names(text, "SHA7") }

// namesPull says that no two pull requests have a tag of a template, as far as their
// commits differ. By a branch alone they can: "feature/cart", and "feature-cart" of a
// fork.
func namesPull(text string) bool { return namesCommit(text) || names(text, "Number") }

// Tags of the pull request's image, in the order in which they are tried. A template
// that gives no tag is left out. A fork whose commit needs an approval has only those
// that hold the whole commit: a commit with the same first digits is found in seconds,
// and what an image says of itself is written by whoever wrote its Dockerfile. Where
// images of forks may be in the registry, a tag with the first digits of a commit can be
// that of a fork's.
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
