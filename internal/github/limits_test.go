package github

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/github/githubtest"
)

// retryAt checks when an error allows the caller to try again.
func (w *world) retryAt(err error, want time.Duration) {
	w.t.Helper()
	var got time.Time
	if e, ok := err.(*Error); ok {
		got = e.RetryAt
	}
	if !got.Equal(w.clock.Now().Add(want)) {
		w.t.Errorf("try again in %s, want %s", got.Sub(w.clock.Now()), want)
	}
}

func TestPrimaryLimit(t *testing.T) {
	for name, by429 := range map[string]bool{"403": false, "429": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(1)
			if by429 {
				w.LimitBy429()
			}
			w.SetLimit("secret-a", 5000, 0, 20*time.Minute)
			c := w.token()
			for range 3 { // sent once; afterwards refused by the client
				_, err := c.OpenPullRequests(t.Context(), shop)
				isKind(t, err, RateLimited)
				w.retryAt(err, 20*time.Minute)
			}
			_, err := c.EnsureDeployment(t.Context(), shop, Deployment{SHA: w.repo.PullRequest(1).HeadSHA, Environment: "pr-1", Marker: "m"})
			isKind(t, err, RateLimited)
			if got := w.Count("", 0); got != 1 {
				t.Errorf("%d requests during the pause, want 1", got)
			}
			w.clock.Step(20*time.Minute - time.Second)
			_, err = c.OpenPullRequests(t.Context(), shop)
			isKind(t, err, RateLimited)
			w.clock.Step(time.Second)
			if _, err := c.OpenPullRequests(t.Context(), shop); err != nil {
				t.Errorf("after the reset: %v", err)
			}
			if got := w.Count("", 0); got != 2 {
				t.Errorf("%d requests, want 2", got)
			}
			want := Budget{Limit: 5000, Remaining: 4999, Reset: w.clock.Now().Add(time.Hour)}
			if diff := cmp.Diff(want, c.Budget()); diff != "" {
				t.Errorf("budget (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLastRequestOfTheHour checks that no request is sent after a 200 response that reports that no requests
// remain, because GitHub would refuse any further request.
func TestLastRequestOfTheHour(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	w.SetLimit("secret-a", 5000, 1, 20*time.Minute)
	c := w.token()
	if _, err := c.PullRequest(t.Context(), shop, 1); err != nil {
		t.Fatal(err)
	}
	_, err := c.EnsureComment(t.Context(), shop, 1, CommentState{}, Comment{Key: "m", Body: "b"})
	isKind(t, err, RateLimited)
	w.retryAt(err, 20*time.Minute)
	w.counts(map[githubtest.Request]int{{Route: pullRoute, Status: 200}: 1})
}

func TestReserveIsForWrites(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	w.SetLimit("secret-a", 100, 11, 20*time.Minute)
	c := w.token()
	read := func() error { _, err := c.PullRequest(t.Context(), shop, 1); return err }
	if err := read(); err != nil { // 10 remain
		t.Fatal(err)
	}
	w.repo.Edit(1, "edited", func(p *githubtest.PullRequest) { p.Title = "Another" })
	if err := read(); err != nil { // 9 remain
		t.Fatal(err)
	}
	for range 3 {
		err := read()
		isKind(t, err, Reserved)
		w.retryAt(err, 20*time.Minute)
	}
	if got := w.Count(pullRoute, 0); got != 2 {
		t.Errorf("%d reads, want 2", got)
	}
	if _, err := c.EnsureDeployment(t.Context(), shop, Deployment{SHA: w.repo.PullRequest(1).HeadSHA, Environment: "pr-1", Marker: "m"}); err != nil {
		t.Errorf("write within the reserve: %v", err)
	}
	w.clock.Step(20 * time.Minute)
	if err := read(); err != nil {
		t.Errorf("after the reset: %v", err)
	}
}

func TestSecondaryLimits(t *testing.T) {
	tests := map[string]struct {
		fault githubtest.Fault
		want  time.Duration
	}{
		"403 with Retry-After":    {githubtest.Fault{Answer: githubtest.SecondaryLimit, RetryAfter: 90 * time.Second, Times: 1}, 90 * time.Second},
		"429 with Retry-After":    {githubtest.Fault{Answer: githubtest.SecondaryLimit429, RetryAfter: time.Minute, Times: 1}, time.Minute},
		"403 without Retry-After": {githubtest.Fault{Answer: githubtest.SecondaryLimit, Times: 1}, time.Minute},
		"429 without Retry-After": {githubtest.Fault{Answer: githubtest.SecondaryLimit429, Times: 1}, time.Minute},
		"a day":                   {githubtest.Fault{Answer: githubtest.SecondaryLimit, RetryAfter: 24 * time.Hour, Times: 1}, maxPause},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open(1)
			w.Fail(test.fault)
			w.AddToken("secret-b", githubtest.Access{})
			c := w.token()
			for range 3 {
				_, err := c.OpenPullRequests(t.Context(), shop)
				isKind(t, err, RateLimited)
				w.retryAt(err, test.want)
			}
			if got := c.Budget().PausedUntil; !got.Equal(w.clock.Now().Add(test.want)) {
				t.Errorf("paused until %s", got)
			}
			if got := w.Count("", 0); got != 1 {
				t.Errorf("%d requests during the pause, want 1", got)
			}
			if _, err := w.client(Credential{Token: "secret-b"}).OpenPullRequests(t.Context(), shop); err != nil {
				t.Errorf("another credential is also paused: %v", err)
			}
			w.clock.Step(test.want)
			if _, err := c.OpenPullRequests(t.Context(), shop); err != nil {
				t.Errorf("after the pause: %v", err)
			}
			if got := c.Budget().PausedUntil; !got.IsZero() {
				t.Errorf("paused until %s after the pause", got)
			}
		})
	}
}

// TestPausesGrow checks that pauses become longer when a limit is reached again, as GitHub requires.
func TestPausesGrow(t *testing.T) {
	w := newWorld(t)
	c := w.token()
	w.Fail(githubtest.Fault{Answer: githubtest.SecondaryLimit, Times: 4})
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		_, err := c.OpenPullRequests(t.Context(), shop)
		isKind(t, err, RateLimited)
		w.retryAt(err, want)
		w.clock.Step(want)
	}
	if _, err := c.OpenPullRequests(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	w.Fail(githubtest.Fault{Answer: githubtest.SecondaryLimit, Times: 1})
	_, err := c.OpenPullRequests(t.Context(), shop)
	w.retryAt(err, time.Minute)
}

// TestMissingPermissionPausesNothing checks that a 403 response alone does not cause a pause.
func TestMissingPermissionPausesNothing(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	w.AddToken("secret-b", githubtest.Access{Permissions: map[string]string{"pull_requests": "read", "deployments": "read"}})
	c := w.client(Credential{Token: "secret-b"})
	_, err := c.EnsureDeployment(t.Context(), shop, Deployment{SHA: w.repo.PullRequest(1).HeadSHA, Environment: "pr-1", Marker: "m"})
	isKind(t, err, Forbidden)
	if _, err := c.OpenPullRequests(t.Context(), shop); err != nil {
		t.Errorf("a read after a refused write: %v", err)
	}
}

func TestLimitsOfAnInstallation(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	w.AddApp(7, &key().PublicKey)
	w.Install(7, "acme", false, githubtest.Access{})
	c := w.client(Credential{App: &App{ID: 7, Owner: "acme", PrivateKey: keyPEM()}})
	w.Fail(githubtest.Fault{Route: tokenRoute, Answer: githubtest.SecondaryLimit, RetryAfter: time.Minute, Times: 1})
	for range 2 {
		_, err := c.OpenPullRequests(t.Context(), shop)
		isKind(t, err, RateLimited)
		w.retryAt(err, time.Minute)
	}
	if got := w.Count("", 0); got != 2 { // one request for the installation, and one for its token
		t.Errorf("%d requests, want 2", got)
	}
	w.clock.Step(time.Minute)
	if _, err := c.OpenPullRequests(t.Context(), shop); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// TestWritesArePaced checks that writes stay within the number that GitHub accepts in a minute.
func TestWritesArePaced(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	c := w.token()
	sha := w.repo.PullRequest(1).HeadSHA
	write := func(i int) error {
		_, err := c.EnsureDeployment(t.Context(), shop, Deployment{SHA: sha, Environment: fmt.Sprintf("pr-1-%d", i), Marker: "m"})
		return err
	}
	for i := range writeBurst {
		if err := write(i); err != nil {
			t.Fatal(err)
		}
	}
	err := write(writeBurst)
	isKind(t, err, RateLimited)
	w.retryAt(err, 2*time.Second)
	if got := len(w.repo.Deployments()); got != writeBurst {
		t.Errorf("%d deployments, want %d", got, writeBurst)
	}
	w.clock.Step(2 * time.Second)
	if err := write(writeBurst); err != nil {
		t.Error(err)
	}
}

func TestPoolIsBoundedAndForgetsTheIdle(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2100, 3, 1, 12, 0, 0, 0, time.UTC))
	limited := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "3000")
		rw.WriteHeader(http.StatusTooManyRequests)
	}))
	defer limited.Close()
	pool := NewPool(Options{Clock: clock, MaxClients: 2, Outbound: loopback(t)})
	get := func(token string) *Client {
		t.Helper()
		return must(pool.Client(Config{BaseURL: limited.URL, Credential: Credential{Token: token}}))(t)
	}
	paused := get("a")
	if _, err := paused.Tags(t.Context(), shop); KindOf(err) != RateLimited {
		t.Fatalf("error %v, want a limit", err)
	}
	clock.Step(time.Second)
	b := get("b")
	clock.Step(time.Second)
	get("c") // b is dropped, because a, which was used before b, is paused
	if get("a") != paused {
		t.Error("a paused client was dropped before one that is not paused")
	}
	if len(pool.clients) != 2 {
		t.Errorf("%d clients, want 2", len(pool.clients))
	}
	if get("b") == b {
		t.Error("b was kept beyond the limit")
	}
	clock.Step(2 * time.Hour)
	get("d")
	if len(pool.clients) != 1 {
		t.Errorf("%d clients after two idle hours, want 1", len(pool.clients))
	}
}

func TestBudgetsByHost(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	if _, err := w.token().OpenPullRequests(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	want := map[string][]Budget{w.token().Host(): {{Limit: 5000, Remaining: 4999, Reset: w.clock.Now().Add(time.Hour)}}}
	if diff := cmp.Diff(want, w.pool.Budgets()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStoreIsBounded(t *testing.T) {
	s := newStore(10_000)
	put := func(key string, size int) {
		s.put(&stored{key: key, header: http.Header{}, packed: make([]byte, size)})
	}
	for i := range 100 {
		put(fmt.Sprintf("a %03d", i), 700)
		if s.size > s.max || len(s.entries) != s.order.Len() {
			t.Fatalf("%d bytes in %d entries (%d in order), want at most %d bytes", s.size, len(s.entries), s.order.Len(), s.max)
		}
	}
	if s.get("a 099") == nil || s.get("a 000") != nil {
		t.Error("the last response is gone, or the first is kept")
	}
	put("b large", 5_000)
	if s.get("b large") != nil {
		t.Error("a response that fills half of the store is kept")
	}
	put("b", 100)
	s.drop("a ")
	if len(s.entries) != 1 || s.get("b") == nil || s.size != s.get("b").size() {
		t.Errorf("%d entries of %d bytes after the entries with the prefix a were dropped", len(s.entries), s.size)
	}
	put("b", 300)
	if s.size != s.get("b").size() {
		t.Errorf("%d bytes after a new response for the same key, want %d", s.size, s.get("b").size())
	}
}
