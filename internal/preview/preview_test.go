package preview

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

var (
	commit = strings.Repeat("a1b2c3d4", 5)
	older  = strings.Repeat("0f", 20)
)

// pull returns a pull request that no filter rejects.
func pull(edit ...func(*v1alpha1.PullRequest)) *v1alpha1.PullRequest {
	pr := &v1alpha1.PullRequest{
		Number: 12, State: v1alpha1.PullRequestOpen, HeadRef: "feature/Cart", HeadSHA: commit, BaseRef: "main", Association: "Member",
		Labels: []v1alpha1.PullRequestLabel{{Name: "preview", SHA: older}, {Name: "ok", SHA: commit}},
	}
	for _, e := range edit {
		e(pr)
	}
	return pr
}

func TestChoose(t *testing.T) {
	fork := func(pr *v1alpha1.PullRequest) { pr.Fork = true }
	draft := func(pr *v1alpha1.PullRequest) { pr.Draft = true }
	type spec = v1alpha1.GitHubPullRequests
	for name, tc := range map[string]struct {
		spec spec
		pr   *v1alpha1.PullRequest
		want Choice
	}{
		"no filters": {spec{}, pull(), Choice{}},
		"all labels": {spec{Labels: &v1alpha1.PullRequestLabels{All: []string{"preview", "ok"}}}, pull(), Choice{}},
		"a label in labels.all is missing": {spec{Labels: &v1alpha1.PullRequestLabels{All: []string{"preview", "okay"}}}, pull(),
			Choice{Verdict: "PullRequest", Reason: `it lacks the label "okay" (labels.all)`}},
		"labels in a different case": {spec{Labels: &v1alpha1.PullRequestLabels{All: []string{"Preview", "OK"}}}, pull(), Choice{}},
		"a forbidden label in a different case": {spec{Labels: &v1alpha1.PullRequestLabels{None: []string{"OK"}}}, pull(),
			Choice{Verdict: "PullRequest", Reason: `it has the label "OK" (labels.none)`}},
		"any label": {spec{Labels: &v1alpha1.PullRequestLabels{Any: []string{"x", "ok"}}}, pull(), Choice{}},
		"none of the labels in labels.any": {spec{Labels: &v1alpha1.PullRequestLabels{Any: []string{"x"}}}, pull(),
			Choice{Verdict: "PullRequest", Reason: "it has none of the labels in labels.any"}},
		"a label in labels.none": {spec{Labels: &v1alpha1.PullRequestLabels{None: []string{"ok"}}}, pull(),
			Choice{Verdict: "PullRequest", Reason: `it has the label "ok" (labels.none)`}},
		"base": {spec{Base: "main|release-.*"}, pull(), Choice{}},
		"base must match as a whole": {spec{Base: "mai|ain"}, pull(),
			Choice{Verdict: "PullRequest", Reason: `its base branch "main" does not match base "mai|ain"`}},
		"head": {spec{Head: "fix/.*"}, pull(),
			Choice{Verdict: "PullRequest", Reason: `its head branch "feature/Cart" does not match head "fix/.*"`}},
		"drafts are omitted": {spec{}, pull(draft), Choice{Verdict: "PullRequest", Reason: "it is a draft, and draft is Exclude"}},
		"drafts included":    {spec{Draft: v1alpha1.DraftInclude}, pull(draft), Choice{}},
		"drafts only":        {spec{Draft: v1alpha1.DraftOnly}, pull(), Choice{Verdict: "PullRequest", Reason: "it is not a draft, and draft is Only"}},
		"association":        {spec{Associations: []v1alpha1.AuthorAssociation{"Owner", "Member"}}, pull(), Choice{}},
		"another association": {spec{Associations: []v1alpha1.AuthorAssociation{"Owner"}}, pull(),
			Choice{Verdict: "PullRequest", Reason: `the association of its author, "Member", is not in associations`}},
		"forks by default": {spec{}, pull(fork), Choice{Verdict: "Fork", Reason: "it is from a fork, and forks.policy is Deny"}},
		"forks allowed":    {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksAllow}}, pull(fork), Choice{}},
		"fork approved":    {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}}, pull(fork), Choice{}},
		"fork approved for an earlier commit": {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "preview"}}, pull(fork),
			Choice{Verdict: "Fork", Approved: []string{older}, Reason: `the label "preview" approves an earlier commit: review the new one, remove the label, and add it again after the next poll`}},
		"fork without the label": {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "x"}}, pull(fork),
			Choice{Verdict: "Fork", Reason: `it is from a fork, and lacks the label "x" that approves its commit`}},
		"a label without a known commit approves nothing": {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "new"}},
			pull(fork, func(pr *v1alpha1.PullRequest) {
				pr.HeadSHA, pr.Labels = "", []v1alpha1.PullRequestLabel{{Name: "new"}}
			}),
			Choice{Verdict: "Fork", Reason: `the label "new" does not approve a commit, because the time at which it was added is not known: review the head commit, remove the label, and add it again after the next poll`}},
		"fork approved by a label that names its commit": {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "check:{{.SHA}}"}},
			pull(fork, func(pr *v1alpha1.PullRequest) {
				pr.Labels = []v1alpha1.PullRequestLabel{{Name: "Check:" + strings.ToUpper(commit)}}
			}), Choice{Approved: []string{commit}}},
		"fork approved by a label that names earlier commits": {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "check:{{.SHA}}"}},
			pull(fork, func(pr *v1alpha1.PullRequest) {
				pr.Labels = []v1alpha1.PullRequestLabel{{Name: "check:" + older, SHA: commit}, {Name: "check:" + strings.Repeat("1", 40)}, {Name: "a check:" + commit}}
			}),
			Choice{Verdict: "Fork", Approved: []string{older, strings.Repeat("1", 40)},
				Reason: `it is from a fork, and does not have the label that approves its commit: review commit ` + commit + `, and add the label "check:` + commit + `"`}},
		"a label that names seven digits approves nothing": {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "{{.SHA}}.ok"}},
			pull(fork, func(pr *v1alpha1.PullRequest) {
				pr.Labels = []v1alpha1.PullRequestLabel{{Name: commit[:7] + ".ok", SHA: commit}, {Name: commit + "-ok", SHA: commit}}
			}),
			Choice{Verdict: "Fork", Reason: `it is from a fork, and does not have the label that approves its commit: review commit ` + commit + `, and add the label "` + commit + `.ok"`}},
		"approval is for forks": {spec{Forks: &v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "x"}}, pull(), Choice{}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Compile(tc.spec, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.Choose(tc.pr)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCompileNamesTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		spec       v1alpha1.GitHubPullRequests
		candidates []string
		want       string
	}{
		"base":     {v1alpha1.GitHubPullRequests{Base: "("}, nil, `spec.source.github.pullRequests.base: "(" is not a valid regular expression`},
		"head":     {v1alpha1.GitHubPullRequests{Head: "a(?!b)"}, nil, `spec.source.github.pullRequests.head: "a(?!b)" is not a valid regular expression`},
		"unclosed": {v1alpha1.GitHubPullRequests{Head: "a)|(b"}, nil, `spec.source.github.pullRequests.head: "a)|(b" is not a valid regular expression`},
		"template": {v1alpha1.GitHubPullRequests{}, []string{"{{.SHA}}", "{{.Sha}}"}, "spec.match.candidates[1]: {{.Sha}} is not available here"},
		"tag":      {v1alpha1.GitHubPullRequests{}, []string{"{{.Tag}}-{{.SHA}}"}, "spec.match.candidates[0]: {{.Tag}} is not available here"},
		"branch":   {v1alpha1.GitHubPullRequests{}, []string{"{{.Number}}", "{{.Branch}}"}, `spec.match.candidates[1]: "{{.Branch}}" can produce the same tag for several pull requests`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(tc.spec, tc.candidates)
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s...", err, tc.want)
			}
		})
	}
}

func TestTags(t *testing.T) {
	for name, tc := range map[string]struct {
		forks      *v1alpha1.Forks
		fork       bool
		candidates []string
		want       []Tag
	}{
		"defaults": {nil, false, nil, []Tag{{Name: "pr-12-a1b2c3d"}, {Name: "sha-a1b2c3d"}, {Name: commit}, {Name: "pr-12", Moves: true, Inspect: true}}},
		"own": {nil, false, []string{"{{.Branch}}-{{.Number}}", "{{.Branch}}-{{.SHA7}}"},
			[]Tag{{Name: "feature-cart-12", Moves: true, Inspect: true}, {Name: "feature-cart-a1b2c3d"}}},
		"no tags":                 {nil, false, []string{"pr/{{.Number}}", "x{{.SHA}}{{.SHA}}{{.SHA}}{{.SHA}}"}, nil},
		"a fork that is approved": {&v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}, true, nil, []Tag{{Name: commit, Approved: true, Inspect: true}}},
		"not a fork, approved forks allowed": {&v1alpha1.Forks{Policy: v1alpha1.ForksApproved, Label: "ok"}, false, nil,
			[]Tag{{Name: "pr-12-a1b2c3d", Inspect: true}, {Name: "sha-a1b2c3d", Inspect: true}, {Name: commit}, {Name: "pr-12", Moves: true, Inspect: true}}},
		"a fork that is allowed": {&v1alpha1.Forks{Policy: v1alpha1.ForksAllow}, true, []string{"{{.SHA7}}", "{{.SHA}}"},
			[]Tag{{Name: commit[:7], Inspect: true}, {Name: commit}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Compile(v1alpha1.GitHubPullRequests{Forks: tc.forks}, tc.candidates)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.Tags(pull(func(pr *v1alpha1.PullRequest) { pr.Fork = tc.fork }))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOfHead(t *testing.T) {
	pushed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	merge := strings.Repeat("e", 40)
	pr := pull(func(pr *v1alpha1.PullRequest) { pr.MergeSHA, pr.HeadTime = merge, &metav1.Time{Time: pushed} })
	fork := pull(func(pr *v1alpha1.PullRequest) {
		pr.Fork, pr.MergeSHA, pr.HeadTime = true, merge, &metav1.Time{Time: pushed}
	})
	unknown := pull()
	const previous = "sha256:1"
	moves, short, approved := Tag{Moves: true}, Tag{}, Tag{Approved: true}
	for name, tc := range map[string]struct {
		pr    *v1alpha1.PullRequest
		tag   Tag
		image Image
		want  bool
	}{
		"revision is the head":                           {pr, moves, Image{Digest: "sha256:2", Revision: commit}, true},
		"revision is the merge":                          {pr, moves, Image{Digest: "sha256:2", Revision: merge}, true},
		"revision is the head, previous image":           {pr, moves, Image{Digest: previous, Revision: commit}, true},
		"revision is the head, built before the push":    {pr, moves, Image{Digest: "sha256:2", Revision: commit, Created: pushed.Add(-time.Hour)}, true},
		"built after the push":                           {pr, moves, Image{Digest: "sha256:2", Created: pushed.Add(time.Second)}, true},
		"built after the push, from an earlier merge":    {pr, moves, Image{Digest: "sha256:2", Created: pushed.Add(time.Second), Revision: "d"}, false},
		"built after the push, from the previous commit": {pr, moves, Image{Digest: "sha256:2", Created: pushed.Add(time.Second), Revision: older}, false},
		"built at the push":                              {pr, moves, Image{Digest: "sha256:2", Created: pushed}, false},
		"built before the push":                          {pr, moves, Image{Digest: "sha256:2", Created: pushed.Add(-time.Second)}, false},
		"no commit":                                      {pr, moves, Image{Digest: "sha256:2"}, false},
		"the image of the previous commit":               {pr, moves, Image{Digest: previous, Created: pushed.Add(time.Second)}, false},
		"the push time is not known":                     {unknown, moves, Image{Digest: "sha256:2", Created: pushed}, false},
		"nothing is known, not even the merge commit":    {unknown, moves, Image{}, false},
		"fork, revision is the head":                     {fork, moves, Image{Digest: "sha256:2", Revision: commit}, true},
		"fork, revision is the merge":                    {fork, moves, Image{Digest: "sha256:2", Revision: merge}, true},
		"fork, built after the push":                     {fork, moves, Image{Digest: "sha256:2", Created: pushed.Add(time.Second)}, false},
		"fork, revision is the previous commit":          {fork, moves, Image{Digest: "sha256:2", Created: pushed.Add(time.Second), Revision: older}, false},

		"revision is the merge, previous image":                 {pr, moves, Image{Digest: previous, Revision: merge}, false},
		"tag of the commit, no revision":                        {pr, short, Image{Digest: "sha256:2"}, true},
		"tag of the commit, revision of a base image":           {pr, short, Image{Digest: "sha256:2", Revision: older}, true},
		"tag with the first digits, revision is another commit": {pr, short, Image{Digest: "sha256:2", Revision: commit[:7] + older[7:]}, false},
		"approved fork, no revision":                            {fork, approved, Image{Digest: "sha256:2"}, true},
		"approved fork, revision is the head":                   {fork, approved, Image{Digest: "sha256:2", Revision: commit}, true},
		"approved fork, revision is the merge":                  {fork, approved, Image{Digest: "sha256:2", Revision: merge}, true},
		"approved fork, revision is another commit":             {fork, approved, Image{Digest: "sha256:2", Revision: older}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if why := OfHead(tc.pr, tc.tag, tc.image, previous); (why == "") != tc.want {
				t.Errorf("got %q, want image of the head: %v", why, tc.want)
			}
		})
	}
}

// TestSlug checks that the slugs of groups are DNS labels.
func TestSlug(t *testing.T) {
	for branch, want := range map[string]string{
		"feature/foo": "feature-foo-7", "1.2.x": "1-2-x-7", "UPPER_case": "upper-case-7", "--x--": "x-7", "日本": "pr-7", "": "pr-7",
		strings.Repeat("a", 39) + "/b": strings.Repeat("a", 39) + "-7",
	} {
		if got := Slug(branch, 7); got != want {
			t.Errorf("slug of %q: got %q, want %q", branch, got, want)
		}
	}
	for slug, want := range map[string]bool{"feature-foo-7": true, "1-x": false, "release": false, "a-07": false, "a-0": false, "-7": false} {
		if _, ok := Number(slug); ok != want {
			t.Errorf("%q belongs to a pull request: %v, want %v", slug, ok, want)
		}
	}
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// TestSlugProperties checks that, for any branch, a slug is a DNS label that identifies exactly one
// pull request.
func TestSlugProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		branches := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9/._-]{0,80}`))
		numbers := rapid.Int64Range(1, math.MaxInt64)
		a, n := branches.Draw(t, "branch"), numbers.Draw(t, "number")
		b, m := branches.Draw(t, "other branch"), numbers.Draw(t, "other number")
		slug := Slug(a, n)
		if !dnsLabel.MatchString(slug) {
			t.Errorf("%q is not a DNS label", slug)
		}
		if got, ok := Number(slug); !ok || got != n {
			t.Errorf("number of %q: %d, want %d", slug, got, n)
		}
		if n != m && slug == Slug(b, m) {
			t.Errorf("%q belongs to two pull requests", slug)
		}
	})
}

// TestNewestIsTotal checks that the order is total and does not depend on the order of the input.
func TestNewestIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*v1alpha1.PullRequest
		for n := range rapid.IntRange(0, 20).Draw(t, "pull requests") {
			pr := pull(func(pr *v1alpha1.PullRequest) { pr.Number = int64(n) })
			if seconds := rapid.IntRange(0, 4).Draw(t, "pushed"); seconds > 0 {
				pr.HeadTime = &metav1.Time{Time: time.Unix(int64(seconds), 0)}
			}
			if seconds := rapid.IntRange(0, 4).Draw(t, "push seen"); seconds > 0 {
				pr.PushTime = &metav1.Time{Time: time.Unix(int64(seconds), 0)}
			}
			all = append(all, pr)
		}
		want := slices.SortedFunc(slices.Values(all), Newest)
		got := slices.SortedFunc(slices.Values(rapid.Permutation(all).Draw(t, "order")), Newest)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the result depends on the order of the input:\n%s", diff)
		}
	})
}
