package githubrepository

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
)

// Bounds on releases and tags: the numbers that the schema allows, and the total sizes in bytes of JSON.
const (
	maxReleases     = 100
	maxReleaseBytes = 30_000
	maxTags         = 500
	maxTagBytes     = 70_000
)

// releasesOf returns the newest releases, and the number of releases that do not fit into the status.
func releasesOf(list *github.List[github.Release]) ([]v1alpha1.GitHubRelease, int) {
	all := slices.Clone(list.Items)
	slices.SortStableFunc(all, func(a, b github.Release) int {
		return cmp.Or(b.Published.Compare(a.Published), cmp.Compare(b.ID, a.ID))
	})
	var result []v1alpha1.GitHubRelease
	for _, r := range all {
		result = append(result, v1alpha1.GitHubRelease{Tag: r.Tag, Prerelease: r.Prerelease, PublishedTime: timestamp(r.Published)})
	}
	return fit(result, maxReleases, maxReleaseBytes)
}

// tagsOf returns the selected tags that fit into the status, and the number of tags that do not fit. Tags with a
// release come first, because their commits are needed, followed by the highest tags. Each regular expression gets the
// same share.
func tagsOf(list *github.List[github.Tag], names string, releases []v1alpha1.GitHubRelease) ([]v1alpha1.GitHubTag, int) {
	all := make([]v1alpha1.GitHubTag, 0, len(list.Items))
	for _, t := range list.Items {
		all = append(all, v1alpha1.GitHubTag{Name: t.Name, SHA: t.SHA})
	}
	highest := func(a, b v1alpha1.GitHubTag) int { return natural(b.Name, a.Name) }
	slices.SortFunc(all, highest)
	// Each regular expression selects one tag per round. turn contains the first round in which a tag is selected. The
	// keys are the names of the tags.
	turn := map[string]int{}
	for _, text := range strings.Split(names, separator) {
		pattern, err := regexp.Compile("^(?:" + text + ")$")
		if err != nil {
			continue // the ImagePolicy reports the invalid expression
		}
		n := 0
		for _, t := range all {
			if text != "" && !pattern.MatchString(t.Name) {
				continue
			}
			if first, taken := turn[t.Name]; !taken || n < first {
				turn[t.Name] = n
			}
			n++
		}
	}
	for _, r := range releases {
		if _, ok := turn[r.Tag]; ok {
			turn[r.Tag] = -1
		}
	}
	wanted := slices.DeleteFunc(all, func(t v1alpha1.GitHubTag) bool { _, ok := turn[t.Name]; return !ok })
	slices.SortStableFunc(wanted, func(a, b v1alpha1.GitHubTag) int { return cmp.Compare(turn[a.Name], turn[b.Name]) })
	kept, left := fit(wanted, maxTags, maxTagBytes)
	slices.SortFunc(kept, highest)
	return kept, left
}

// fit returns as many items as the bounds allow, and the number of omitted items.
func fit[T any](all []T, count, bytes int) ([]T, int) {
	size := 0
	for i, x := range all {
		if size += sizeOf(x) + 1; i == count || size > bytes {
			return all[:i], len(all) - i
		}
	}
	return all, 0
}

// natural compares names. It compares the numbers within names by value.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := part(x), part(y)
		x, y = x[len(m):], y[len(n):]
		if digit(m[0]) && digit(n[0]) {
			m, n = strings.TrimLeft(m, "0"), strings.TrimLeft(n, "0")
			if c := cmp.Compare(len(m), len(n)); c != 0 {
				return c
			}
		}
		if c := strings.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// part returns the digits at the start of a name or, if it does not start with a digit, the text before the first digit.
func part(name string) string {
	for i := range len(name) {
		if digit(name[i]) != digit(name[0]) {
			return name[:i]
		}
	}
	return name
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
