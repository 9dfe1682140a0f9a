package githubrepository

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sha returns the SHA of a commit by number.
func sha(n int) string { return fmt.Sprintf("%040x", n) }

// drawPull draws a random response from GitHub about a pull request.
func drawPull(t *rapid.T, number int, state github.State) github.PullRequest {
	p := github.PullRequest{
		Number: number, State: state, HeadRef: "feature", BaseRef: "main",
		HeadSHA:        sha(rapid.IntRange(1, 4).Draw(t, "head")),
		MergeCommitSHA: rapid.SampledFrom([]string{"", sha(8), sha(9)}).Draw(t, "merge"),
		Labels:         rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID[string]).Draw(t, "labels"),
		Title:          rapid.StringN(0, 100, 400).Draw(t, "title"),
		Fork:           rapid.Bool().Draw(t, "fork"),
		CreatedAt:      epoch.Add(-time.Duration(rapid.IntRange(0, 48).Draw(t, "age")) * time.Hour),
	}
	if state == github.Closed {
		p.ClosedAt = epoch.Add(-time.Minute)
	}
	return p
}

func drawState(t *rapid.T) github.State {
	return rapid.SampledFrom([]github.State{github.Open, github.Closed}).Draw(t, "state")
}

// drawPoll draws a random poll: some pull requests are listed, and some are requested by number.
func drawPoll(t *rapid.T) (*pullRequests, mergeContext) {
	p := &pullRequests{
		time: epoch, asked: map[int64]github.PullRequest{}, dates: map[string]time.Time{},
		more: rapid.Bool().Draw(t, "more"),
	}
	for n := 1; n <= 6; n++ {
		switch rapid.SampledFrom([]string{"listed", "asked", "neither"}).Draw(t, "where") {
		case "listed":
			p.listed = append(p.listed, drawPull(t, n, github.Open))
		case "asked":
			p.asked[int64(n)] = drawPull(t, n, drawState(t))
		}
	}
	for n := range 4 {
		if rapid.Bool().Draw(t, "dated") {
			p.dates[sha(n+1)] = epoch.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "date")) * time.Second)
		}
	}
	m := mergeContext{gap: rapid.Bool().Draw(t, "gap"), wanted: map[string]bool{"c": rapid.Bool().Draw(t, "wanted")}}
	if rapid.Bool().Draw(t, "restarted") {
		m.lastPoll = epoch.Add(-time.Minute)
	}
	return p, m
}

// drawKnown draws a random state that up to three polls can produce.
func drawKnown(t *rapid.T) []v1alpha1.PullRequest {
	var known []v1alpha1.PullRequest
	for range rapid.IntRange(0, 3).Draw(t, "polls") {
		known = merge(known, first(drawPoll(t)), mergeContext{})
	}
	return known
}

func first(p *pullRequests, _ mergeContext) *pullRequests { return p }

func byNumber(all []v1alpha1.PullRequest) map[int64]v1alpha1.PullRequest {
	m := map[int64]v1alpha1.PullRequest{}
	for _, pr := range all {
		m[pr.Number] = pr
	}
	return m
}

func TestMergeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		known := drawKnown(t)
		p, m := drawPoll(t)
		before := byNumber(known)
		merged := merge(known, p, m)
		after := byNumber(merged)
		listed := map[int64]github.PullRequest{}
		for _, g := range p.listed {
			listed[int64(g.Number)] = g
		}

		if !slices.IsSortedFunc(merged, func(a, b v1alpha1.PullRequest) int { return int(b.Number - a.Number) }) || len(after) != len(merged) {
			t.Fatalf("pull requests are not in order, or occur twice: %v", merged)
		}
		for n, k := range before {
			pr, there := after[n]
			answer, asked := p.asked[n]
			_, in := listed[n]
			switch {
			case !there:
				t.Fatalf("pull request %d was lost", n)
			case !asked && !in:
				if d := fmt.Sprint(pr) == fmt.Sprint(k); !d {
					t.Fatalf("pull request %d changed without a poll: %v, was %v", n, pr, k)
				}
			case k.State == v1alpha1.PullRequestOpen && pr.State == v1alpha1.PullRequestClosed && (!asked || answer.State != github.Closed):
				t.Fatalf("pull request %d was closed without a response", n)
			case asked && answer.State == github.Closed && pr.State != v1alpha1.PullRequestClosed:
				t.Fatalf("pull request %d stays open although GitHub reports it as closed", n)
			}
		}
		for n, pr := range after {
			k, was := before[n]
			if (pr.State == v1alpha1.PullRequestClosed) != (pr.ClosedTime != nil) {
				t.Fatalf("pull request %d has been %s since %v", n, pr.State, pr.ClosedTime)
			}
			if was && k.HeadSHA == pr.HeadSHA && k.HeadTime != nil && !pr.HeadTime.Equal(k.HeadTime) {
				t.Fatalf("the time of the head of pull request %d changed", n)
			}
			if pushed := was && k.HeadSHA != pr.HeadSHA; pushed && pr.HeadTime != nil && pr.HeadTime.Time.Before(m.lastPoll) {
				t.Fatalf("pull request %d was pushed before the poll that saw another head", n)
			}
			for _, label := range pr.Labels {
				i := slices.IndexFunc(k.Labels, func(l v1alpha1.PullRequestLabel) bool { return l.Name == label.Name })
				switch {
				case i >= 0 && k.Labels[i].SHA != label.SHA:
					t.Fatalf("label %q of pull request %d moved to another commit", label.Name, n)
				case i < 0 && label.SHA != "" && (pr.Fork || was) && (!was || k.HeadSHA != pr.HeadSHA || label.SHA != k.HeadSHA):
					t.Fatalf("label %q of pull request %d approves commit %s, but no poll saw them together", label.Name, n, label.SHA)
				case i < 0 && label.SHA != "" && pr.Fork && (m.gap || k.State == v1alpha1.PullRequestClosed):
					t.Fatalf("label %q of pull request %d approves commit %s without a poll", label.Name, n, label.SHA)
				}
			}
			_, asked := p.asked[n]
			if _, in := listed[n]; pr.State == v1alpha1.PullRequestOpen && (asked || in) {
				switch {
				case pr.PushTime == nil || pr.PushTime.After(epoch):
					t.Fatalf("pull request %d was pushed at %s, after the poll", n, pr.PushTime)
				case was && k.HeadSHA != pr.HeadSHA && !pr.PushTime.Equal(timestamp(epoch)):
					t.Fatalf("the new head of pull request %d was pushed at %s", n, pr.PushTime)
				case was && k.HeadSHA == pr.HeadSHA && k.HeadTime != nil && !pr.PushTime.Equal(k.PushTime):
					t.Fatalf("the push time of pull request %d changed to %s", n, pr.PushTime)
				}
				if pr.HeadTime != nil && pr.HeadTime.After(epoch) {
					t.Fatalf("the head of pull request %d is from %s, after the poll", n, pr.HeadTime)
				}
			}
			if len([]rune(pr.Title)) > maxTitle {
				t.Fatalf("title of %d characters", len([]rune(pr.Title)))
			}
		}
		if again := merge(merged, p, m); fmt.Sprint(again) != fmt.Sprint(merged) {
			t.Fatalf("the second result is %v, the first was %v", again, merged)
		}
		slices.Reverse(p.listed)
		if turned := merge(known, p, m); fmt.Sprint(turned) != fmt.Sprint(merged) {
			t.Fatalf("with another order the result is %v, was %v", turned, merged)
		}
	})
}

// TestRetainProperties checks that the retained pull requests do not depend on the order and are within the
// bounds, and that pull requests in use are dropped last.
func TestRetainProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		known := drawKnown(t)
		held := map[int64]bool{}
		for _, pr := range known {
			held[pr.Number] = rapid.Bool().Draw(t, "held")
		}
		now := epoch.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)
		room := rapid.IntRange(0, 4000).Draw(t, "room")
		kept, left := retainPullRequests(known, held, now, room)
		if size := sizeOf(kept); len(kept) > 0 && size > room+2 {
			t.Fatalf("%d bytes, want at most %d", size, room)
		}
		shuffled := rapid.Permutation(known).Draw(t, "order")
		if again, _ := retainPullRequests(shuffled, held, now, room); fmt.Sprint(again) != fmt.Sprint(kept) {
			t.Fatalf("with another order, %v are kept, want %v", again, kept)
		}
		all, none := retainPullRequests(known, held, now, maxBytes)
		if none != 0 {
			t.Fatalf("%d do not fit into the whole status", none)
		}
		if len(all) != len(kept)+left {
			t.Fatalf("%d of %[3]d are kept and %[2]d omitted", len(kept), left, len(all))
		}
		there := byNumber(kept)
		for _, pr := range known {
			needed := pr.State == v1alpha1.PullRequestOpen || held[pr.Number] || now.Sub(pr.ClosedTime.Time) <= keepClosed
			if _, ok := byNumber(all)[pr.Number]; ok != needed {
				t.Fatalf("pull request %d is kept: %t, want %t", pr.Number, ok, needed)
			}
			if _, ok := there[pr.Number]; !ok && pr.State == v1alpha1.PullRequestClosed && held[pr.Number] {
				for _, k := range kept {
					if k.State == v1alpha1.PullRequestOpen {
						t.Fatalf("pull request %d, which is closed and in use, was dropped before the open pull request %d", pr.Number, k.Number)
					}
				}
			}
			if _, ok := there[pr.Number]; !ok && held[pr.Number] {
				for _, k := range kept {
					if !held[k.Number] {
						t.Fatalf("pull request %d, which is in use, was dropped before %d", pr.Number, k.Number)
					}
				}
			}
		}
	})
}

// TestRetainBounds checks that the status of a repository with too many pull requests stays below its bound, and
// that the pull requests with the newest pushes are kept.
func TestRetainBounds(t *testing.T) {
	t.Parallel()
	var all []v1alpha1.PullRequest
	for n := range 800 {
		all = append(all, v1alpha1.PullRequest{
			Number: int64(n), State: v1alpha1.PullRequestOpen, HeadRef: strings.Repeat("x", 255), HeadSHA: sha(n), MergeSHA: sha(n),
			HeadTime: timestamp(epoch.Add(time.Duration(n%400) * time.Minute)), BaseRef: "main", Title: strings.Repeat("é", 40),
		})
	}
	kept, left := retainPullRequests(all, nil, epoch, maxBytes)
	size := sizeOf(kept)
	if size > maxBytes || size < maxBytes-2000 || len(kept)+left != len(all) {
		t.Errorf("%d of %d bytes for %d pull requests, and %d omitted", size, maxBytes, len(kept), left)
	}
	oldest := slices.MinFunc(kept, func(a, b v1alpha1.PullRequest) int { return a.HeadTime.Compare(b.HeadTime.Time) })
	for _, pr := range all {
		if _, ok := byNumber(kept)[pr.Number]; !ok && pr.HeadTime.After(oldest.HeadTime.Time) {
			t.Fatalf("pull request %d with head time %s was omitted, but %d with head time %s was kept", pr.Number, pr.HeadTime, oldest.Number, oldest.HeadTime)
		}
	}
	for n := range all {
		all[n].HeadRef, all[n].Title, all[n].MergeSHA = "x", "", ""
	}
	if kept, _ := retainPullRequests(all, nil, epoch, maxBytes); len(kept) != maxPullRequests {
		t.Errorf("%d small pull requests are kept, want %d", len(kept), maxPullRequests)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	g := github.PullRequest{Number: 1, State: github.Open, HeadSHA: sha(1)}
	for n := range 30 {
		g.Labels = append(g.Labels, fmt.Sprintf("%02d-%s", 29-n, strings.Repeat("é", 60)))
	}
	pr := merge(nil, &pullRequests{time: epoch, listed: []github.PullRequest{g}}, mergeContext{wanted: map[string]bool{}})[0]
	if len(pr.Labels) != someLabels || !strings.HasPrefix(pr.Labels[0].Name, "00-") {
		t.Errorf("%d labels, first %q", len(pr.Labels), pr.Labels[0].Name)
	}
	if n := len([]rune(pr.Labels[0].Name)); n != maxLabel {
		t.Errorf("a label has %d characters", n)
	}
}

// TestLateDate checks that a head commit whose date is read late does not count as older than the poll
// before its push.
func TestLateDate(t *testing.T) {
	t.Parallel()
	known := []v1alpha1.PullRequest{{Number: 1, State: v1alpha1.PullRequestOpen, HeadSHA: sha(1), HeadTime: timestamp(epoch.Add(-time.Hour))}}
	g := github.PullRequest{Number: 1, State: github.Open, HeadSHA: sha(2)}
	poll := &pullRequests{time: epoch, listed: []github.PullRequest{g}, dates: map[string]time.Time{}}
	saw := mergeContext{lastPoll: epoch.Add(-time.Minute)}
	late := pushTimes(known, poll, saw)
	known = merge(known, poll, saw)
	if known[0].HeadTime != nil {
		t.Fatalf("a head without a date has the time %s", known[0].HeadTime)
	}
	same(t, "commits to request", undatedHeads(known, poll), []string{sha(2)})
	poll.time = epoch.Add(time.Minute)
	again := pushTimes(known, poll, mergeContext{lastPoll: epoch, pushes: late})
	same(t, "pushes", maps.Collect(maps.All(again)), late)
	poll.dates[sha(2)] = epoch.Add(-24 * time.Hour) // the committer date
	got := merge(known, poll, mergeContext{lastPoll: epoch, pushes: again})[0].HeadTime
	same(t, "time", got, &metav1.Time{Time: epoch.Add(-time.Minute)})
	same(t, "pushes that remain", len(pushTimes(known, poll, mergeContext{lastPoll: epoch, pushes: again})), 0)
}

// TestOfferedVersionsAreRetained checks that a pull request that an ImagePolicy offers is kept, regardless of
// the number of newer pull requests and the length of text from other users.
func TestOfferedVersionsAreRetained(t *testing.T) {
	t.Parallel()
	many := func(n int, change func(int, *v1alpha1.PullRequest)) []v1alpha1.PullRequest {
		all := []v1alpha1.PullRequest{{Number: 1, State: v1alpha1.PullRequestOpen, HeadRef: "cart", HeadSHA: sha(1), PushTime: timestamp(epoch)}}
		for i := range n {
			pr := v1alpha1.PullRequest{
				Number: int64(i + 2), State: v1alpha1.PullRequestOpen, HeadRef: "x", HeadSHA: sha(i + 2), PushTime: timestamp(epoch.Add(time.Duration(i) * time.Minute)),
			}
			change(i, &pr)
			all = append(all, pr)
		}
		return all
	}
	long := func(_ int, pr *v1alpha1.PullRequest) {
		pr.HeadRef, pr.Title, pr.Fork = strings.Repeat("x", 240), strings.Repeat("é", 80), true
		pr.HeadTime = timestamp(epoch.AddDate(73, 0, 0))
	}
	for name, test := range map[string]struct {
		all  []v1alpha1.PullRequest
		held map[int64]bool
	}{
		"offered, and 500 are newer":                             {many(500, func(int, *v1alpha1.PullRequest) {}), map[int64]bool{1: true}},
		"offered, with 500 pull requests of other users":         {many(500, long), map[int64]bool{1: true}},
		"not offered yet, with 500 pull requests of other users": {many(500, long), nil},
	} {
		kept, left := retainPullRequests(test.all, test.held, epoch, maxBytes)
		if _, ok := byNumber(kept)[1]; !ok || left == 0 {
			t.Errorf("%s: known is %t, and %d are omitted", name, ok, left)
		}
	}
}

// TestDates checks that committer dates are not trusted.
func TestDates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		date, head, push time.Time
	}{
		"in the future": {epoch.AddDate(73, 0, 0), epoch, epoch},
		"ten days old":  {epoch.AddDate(0, 0, -10), epoch.AddDate(0, 0, -10), epoch.Add(-time.Hour)},
		"later than the creation of the pull request": {epoch.Add(-time.Minute), epoch.Add(-time.Minute), epoch.Add(-time.Minute)},
	} {
		g := github.PullRequest{Number: 1, State: github.Open, HeadSHA: sha(1), HeadRef: "x", CreatedAt: epoch.Add(-time.Hour)}
		poll := &pullRequests{time: epoch, listed: []github.PullRequest{g}, dates: map[string]time.Time{sha(1): test.date}}
		got := merge(nil, poll, mergeContext{})[0]
		same(t, name+": head", got.HeadTime, timestamp(test.head))
		same(t, name+": push", got.PushTime, timestamp(test.push))
		poll.time = epoch.AddDate(0, 1, 0)
		same(t, name+": a month later", merge([]v1alpha1.PullRequest{got}, poll, mergeContext{})[0], got)
	}
}

func TestNatural(t *testing.T) {
	t.Parallel()
	names := []string{"v1.10.0", "v1.9.0", "v1.9", "v1.9.0-rc.10", "v1.9.0-rc.9", "v01.9.0", "shop/v2", "é"}
	slices.SortFunc(names, natural)
	same(t, "order", names, []string{"shop/v2", "v1.9", "v01.9.0", "v1.9.0", "v1.9.0-rc.9", "v1.9.0-rc.10", "v1.10.0", "é"})
}

// TestTagsOfTwoPolicies checks that the tags of each ImagePolicy get their share of the status.
func TestTagsOfTwoPolicies(t *testing.T) {
	t.Parallel()
	list := &github.List[github.Tag]{}
	for n := range 600 {
		list.Items = append(list.Items, github.Tag{Name: fmt.Sprintf("web/v1.%d.0", n), SHA: sha(n)})
	}
	for n := range 400 {
		list.Items = append(list.Items, github.Tag{Name: fmt.Sprintf("api/v1.%d.0", n), SHA: sha(n)})
	}
	for n := range 10 {
		list.Items = append(list.Items, github.Tag{Name: fmt.Sprintf("cart/v1.%d.0", n), SHA: sha(n)})
	}
	const api, cart, web = "api/v(.*)", "cart/v(.*)", "web/v(.*)"
	for name, test := range map[string]struct {
		patterns []string
		want     map[string]int
	}{
		"two":                        {[]string{api, web}, map[string]int{"api": 250, "web": 250}},
		"a small selection":          {[]string{cart, web}, map[string]int{"cart": 10, "web": 490}},
		"three":                      {[]string{api, cart, web}, map[string]int{"api": 245, "cart": 10, "web": 245}},
		"all tags, and some of them": {[]string{"", api}, map[string]int{"web": 250, "api": 250}},
		"an invalid expression":      {[]string{"(", api}, map[string]int{"api": 400}},
	} {
		tags, left := tagsOf(list, strings.Join(test.patterns, separator), nil)
		got := map[string]int{}
		for _, tag := range tags {
			part, _, _ := strings.Cut(tag.Name, "/")
			got[part]++
		}
		same(t, name, got, test.want)
		if name == "two" && (left != 500 || tags[0].Name != "web/v1.599.0") {
			t.Errorf("%s: %d are omitted, the first tag is %s", name, left, tags[0].Name)
		}
	}
}

func TestTagsAreBounded(t *testing.T) {
	t.Parallel()
	list := &github.List[github.Tag]{}
	for n := range 2000 {
		list.Items = append(list.Items, github.Tag{Name: fmt.Sprintf("v0.0.%d", n), SHA: sha(n)})
	}
	tags, left := tagsOf(list, "", nil)
	same(t, "kept and omitted", []int{len(tags), left}, []int{maxTags, 1500})
	same(t, "highest", tags[0].Name, "v0.0.1999")
	tags, _ = tagsOf(list, `v0\.0\.1?[0-9]{1,3}`, []v1alpha1.GitHubRelease{{Tag: "v0.0.7"}, {Tag: "v0.0.1998"}, {Tag: "not-wanted"}})
	same(t, "with releases, the lowest", tags[len(tags)-1].Name, "v0.0.7")
	same(t, "with releases, the highest", tags[0].Name, "v0.0.1999")
	for n := range list.Items {
		list.Items[n].Name += strings.Repeat("x", 240)
	}
	if tags, left := tagsOf(list, "", nil); sizeOf(tags) > maxTagBytes || len(tags)+left != 2000 {
		t.Errorf("%d tags of %d bytes, and %d omitted", len(tags), sizeOf(tags), left)
	}
	tags, _ = tagsOf(list, `v0\.0\.7x*`+separator+`nothing`, nil)
	same(t, "by pattern", len(tags), 1)
}
