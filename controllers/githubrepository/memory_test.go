package githubrepository

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/github"
)

// manyPullRequests returns 2000 pull requests, each with a title of 4000 characters.
func manyPullRequests() github.PullRequests {
	var list github.PullRequests
	for n := range 2000 {
		list.Items = append(list.Items, github.PullRequest{Number: n + 1, State: github.Open, Title: strings.Repeat("a", 4000)})
	}
	return list
}

// TestAnswersAreBounded checks that responses for many repositories do not occupy memory for an hour, and
// that callers still get the responses.
func TestAnswersAreBounded(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Now())
	s := newRequestCache(clock)
	client := &github.Client{}
	list := manyPullRequests()
	requests := 0
	read := func(name string) {
		t.Helper()
		got, _, err := cached(t.Context(), s, client, github.Repo{Owner: "acme", Name: name}, "pulls", clock.Now().Add(-time.Minute), func(context.Context) (github.PullRequests, error) {
			requests++
			return list, nil
		})
		if err != nil || len(got.Items) != len(list.Items) {
			t.Fatalf("%d pull requests, %v", len(got.Items), err)
		}
		clock.Step(time.Second)
	}
	for n := range 20 {
		read(fmt.Sprint("shop-", n))
		read(fmt.Sprint("shop-", n)) // the newest response is kept
	}
	if requests != 20 {
		t.Errorf("%d requests, want 20", requests)
	}
	for range 3 { // newer responses to the same requests replace the previous ones
		clock.Step(2 * time.Minute)
		read("shop-19")
	}
	s.mu.Lock() // The last request removes old responses while its caller continues.
	size := 0
	for _, a := range s.answers {
		size += a.size()
	}
	if size > maxAnswers || size < maxAnswers/2 {
		t.Errorf("%d bytes are kept, want at most %d", size, maxAnswers)
	}
	if size != s.size {
		t.Errorf("%d bytes are kept, but %d are counted", size, s.size)
	}
	s.mu.Unlock()
	clock.Step(2 * answerLifetime)
	read("shop-0")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) != 1 || s.size != s.answers[slices.Collect(maps.Keys(s.answers))[0]].size() {
		t.Errorf("after all responses but one have expired, %d responses with %d bytes are kept", len(s.answers), s.size)
	}
}

// TestReportedPollsKeepNoAnswers checks that the lists of a poll are not kept after the poll has been
// reported.
func TestReportedPollsKeepNoAnswers(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "shop"}
	ls := newPollCache(1)
	reported := make(chan types.NamespacedName, 1)
	ls.run(t.Context(), func(key types.NamespacedName) { reported <- key })
	at := time.Now()
	ls.start(key, &poll{query: query{wanted: wanted{pulls: true}}, startedAt: at}, func(_ context.Context, l *poll) {
		l.pulls = &pullRequests{time: at, listed: manyPullRequests().Items, more: true, unusable: map[int64]bool{7: true}}
		l.releases, l.tags = &github.List[github.Release]{}, &github.List[github.Tag]{}
		l.due = at.Add(time.Hour)
	})
	<-reported
	before := ls.entry(key)
	if before.reported || len(before.poll.pulls.listed) != 2000 {
		t.Fatal("the poll is complete without its results")
	}
	ls.markReported(key, before.poll, nil)
	after := ls.entry(key)
	p := after.poll.pulls
	if !after.reported || !after.lastPoll.Equal(at) || p == nil || !p.more || !p.unusable[7] || !after.poll.answers(before.poll.query, at) {
		t.Errorf("after the report: %+v", after)
	}
	if len(p.listed) > 0 || after.poll.releases != nil || after.poll.tags != nil {
		t.Error("the lists are kept after the report")
	}
}

// TestPanicOfAPoll checks that a request or a poll that panics fails, that the poll discards its responses, and that both are repeated
// later.
func TestPanicOfAPoll(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Now())
	s, repo := newRequestCache(clock), github.Repo{Owner: "acme", Name: "shop"}
	if _, _, err := cached(t.Context(), s, &github.Client{}, repo, "tags", clock.Now(), func(context.Context) (int, error) { panic("a secret of a tenant") }); !errors.Is(err, contain.ErrPanic) {
		t.Errorf("the error is %v", err)
	}
	if n, _, err := cached(t.Context(), s, &github.Client{}, repo, "tags", clock.Now(), func(context.Context) (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Errorf("the next request: %d, %v", n, err)
	}
	l := &poll{query: query{interval: time.Hour, wanted: wanted{pulls: true}}, pulls: &pullRequests{}}
	(&poller{poll: l, reconciler: &Reconciler{clock: clock}, ctx: t.Context()}).runContained(nil) // without a cache
	if !errors.Is(l.err, contain.ErrPanic) || l.pulls != nil || !l.due.After(clock.Now()) {
		t.Errorf("the poll is %+v", l)
	}
}
