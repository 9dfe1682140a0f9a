package preview

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/test/await"
)

// FuzzSlug checks that the slug of a branch is a DNS label that contains the number of the pull request.
func FuzzSlug(f *testing.F) {
	f.Add("feature/Cart", int64(12))
	f.Add("ſ\u212a--İ", int64(9223372036854775807))
	f.Add("a-12", int64(3))
	f.Fuzz(func(t *testing.T, branch string, number int64) {
		if number <= 0 {
			return
		}
		slug := Slug(branch, number)
		if !dnsLabel.MatchString(slug) {
			t.Fatalf("%q of %q is not a DNS label", slug, branch)
		}
		if n, ok := Number(slug); !ok || n != number {
			t.Fatalf("%q is read as %d, %t", slug, n, ok)
		}
		if Branch(Branch(branch)) != Branch(branch) {
			t.Fatalf("%q: Branch is not idempotent: %q, %q", branch, Branch(branch), Branch(Branch(branch)))
		}
	})
}

// FuzzTags checks that the tags of a pull request are valid, and that no other pull request has them.
func FuzzTags(f *testing.F) {
	f.Add("pr-{{.Number}}-{{.SHA7}}", "main", "feature/.*", "topic", "abc", int64(3), "preview")
	f.Add("{{.Branch}}-{{.SHA}}{{.Tag}}", "", "", "x", strings.Repeat("a", 40), int64(3), "")
	f.Fuzz(func(t *testing.T, template, base, head, ref, sha string, number int64, label string) {
		if strings.Contains(base+head, "{") || len(base)+len(head) > 200 {
			return
		}
		defer await.Quick(t)()
		c, err := Compile(v1alpha1.GitHubPullRequests{Base: base, Head: head, Labels: &v1alpha1.PullRequestLabels{Any: []string{label}}}, []string{template})
		if err != nil {
			return
		}
		pr := &v1alpha1.PullRequest{Number: number, HeadRef: ref, BaseRef: ref, HeadSHA: sha, Labels: []v1alpha1.PullRequestLabel{{Name: label, SHA: sha}}, Fork: number%2 == 0}
		choice := c.Choose(pr)
		if !choice.Taken() && choice.Reason == "" {
			t.Fatal("refused without a reason")
		}
		for _, tag := range c.Tags(pr) {
			if !version.IsTag(tag.Name) {
				t.Fatalf("%q is not a tag", tag.Name)
			}
			other := *pr
			other.HeadSHA = strings.Repeat("b", 40)
			other.Number = number + 1
			if sha == other.HeadSHA {
				continue
			}
			for _, its := range c.Tags(&other) {
				if its.Name == tag.Name && len(sha) == 40 {
					t.Fatalf("two pull requests have the tag %q from the template %q: %+v %+v", tag.Name, template, pr, other)
				}
			}
		}
	})
}
