package change

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
)

// maxVersions is the maximum number of versions in each list of versions in a plan.
const maxVersions = 5

// versions describes how a change to an ImagePolicy affects which versions are offered. It considers only the tags that the
// last scan recorded, which might not include all rejected tags.
func versions(before, after *v1alpha1.ImagePolicy) []string {
	const other = "to see which versions the policy would offer, run hlnr explain -f FILE (only for images in a registry)"
	if before == nil || before.Spec.Image != after.Spec.Image {
		return []string{other}
	}
	tags := knownTags(before)
	was, err := imagepolicy.ExplainTags(before, tags)
	if err != nil {
		return []string{other}
	}
	is, err := imagepolicy.ExplainTags(after, tags)
	if err != nil {
		return []string{other}
	}
	offered := func(e imagepolicy.Explanation) (names []string) {
		for _, r := range e.Offered {
			names = append(names, r.Version)
		}
		return names
	}
	old, now := offered(was), offered(is)
	reasons := map[string]string{}
	for _, r := range is.Rejected {
		reasons[r.Version] = strings.TrimSuffix(fmt.Sprintf("%s: %s", r.Verdict, r.Reason), ": ")
	}
	var in, out, lines []string
	for _, v := range now {
		if !slices.Contains(old, v) {
			in = append(in, v)
		}
	}
	for _, v := range old {
		if !slices.Contains(now, v) {
			if reasons[v] != "" {
				v += " (" + reasons[v] + ")"
			}
			out = append(out, v)
		}
	}
	lines = append(lines, listed("also offered: ", in)...)
	lines = append(lines, listed("no longer offered: ", out)...)
	if len(lines) == 0 {
		lines = append(lines, "the same versions are offered")
	}
	if newest, last := first(now), first(old); newest != last {
		lines = append(lines, fmt.Sprintf("the newest version is %s instead of %s", orNone(newest), orNone(last)))
	}
	return append(lines, fmt.Sprintf("this applies to the %d tags that the last scan recorded; to check all tags, run hlnr explain -f FILE", len(tags)))
}

// knownTags returns the offered tags and the recorded rejected tags of a policy.
func knownTags(p *v1alpha1.ImagePolicy) (tags []string) {
	add := func(tag string) {
		if tag != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	for _, r := range p.Status.Releases {
		tag := r.SemVer.Version
		if len(r.Images) > 0 {
			if image, _, _ := strings.Cut(r.Images[0].Image, "@"); strings.LastIndex(image, ":") > strings.LastIndex(image, "/") {
				tag = image[strings.LastIndex(image, ":")+1:]
			}
		}
		add(tag)
	}
	for _, c := range p.Status.Candidates {
		add(c.Version)
	}
	return tags
}

// listed returns a line with at most maxVersions names and the number of the remaining names, or no line if there are no names.
func listed(before string, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	if more := len(names) - maxVersions; more > 0 {
		names = append(slices.Clone(names[:maxVersions]), fmt.Sprintf("%d more", more))
	}
	return []string{before + strings.Join(names, ", ")}
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func orNone(name string) string {
	if name == "" {
		return "none"
	}
	return name
}
