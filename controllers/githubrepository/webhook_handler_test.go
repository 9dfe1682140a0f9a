package githubrepository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/test/await"
)

// door is a test's webhook server.
type door struct {
	*story
	address string
	web     *http.Client

	mu      sync.Mutex
	passed  []string // hints in the form "name [numbers]"
	results map[string]int
	elected chan struct{}
	hooks   *webhookHandler
	// elsewhere reports whether another replica reconciles the namespace.
	elsewhere bool
}

// serve accepts deliveries for the repository shop, whose secret is "signs".
func serve(t *testing.T) *door {
	s := begin(t)
	d := &door{story: s, results: map[string]int{}, elected: make(chan struct{})}
	close(d.elected)
	d.hooks = (&webhookHandler{
		repositories: s.client, secrets: s.client, writer: s.client, clock: s.clock, elected: d.elected, holds: func(string) bool { return !d.elsewhere },
		hint: func(key types.NamespacedName, numbers map[int64]notice) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.passed = append(d.passed, fmt.Sprint(key.Name, " ", slices.Sorted(maps.Keys(numbers))))
		},
		count: func(result string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.results[result]++
		},
	}).init()
	server := httptest.NewServer(d.hooks)
	t.Cleanup(server.Close)
	d.address, d.web = server.URL, server.Client()
	s.secret("webhook", "secret", "signs")
	s.repository("shop", func(r *v1alpha1.GitHubRepositorySpec) { r.WebhookSecretRef = &v1alpha1.Reference{Name: "webhook"} })
	return d
}

func (d *door) path(name string) string { return d.address + "/github/" + d.namespace + "/" + name }

// send sends a delivery, and returns the status code of the response.
func (d *door) send(delivery githubtest.Delivery, secret string) int {
	d.Helper()
	code, err := delivery.Send(d.Context(), d.web, d.path("shop"), []byte(secret))
	if err != nil {
		d.Fatal(err)
	}
	return code
}

// after waits for a duration, and returns the hints since the last call.
func (d *door) after(wait time.Duration) []string {
	d.clock.Step(wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	passed := d.passed
	d.passed = nil
	slices.Sort(passed)
	return passed
}

func TestDeliveriesThatAreRefused(t *testing.T) {
	d := serve(t)
	n := d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	d.repository("without")
	d.repository("unsaid", func(r *v1alpha1.GitHubRepositorySpec) { r.WebhookSecretRef = &v1alpha1.Reference{Name: "absent"} })
	d.secret("empty", "secret", "")
	d.repository("empty", func(r *v1alpha1.GitHubRepositorySpec) { r.WebhookSecretRef = &v1alpha1.Reference{Name: "empty"} })
	event := d.repo.PullRequestEvent(n, "opened")
	var none string
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   int
		result string
	}{
		"another secret": {func(r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", githubtest.Sign(event.Payload, []byte("guessed")))
		}, 401, "Unauthorized"},
		"no signature": {func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, 401, "Unauthorized"},
		"only a SHA-1 signature": {func(r *http.Request) {
			r.Header.Set("X-Hub-Signature", "sha1="+strings.Repeat("0", 40))
			r.Header.Del("X-Hub-Signature-256")
		}, 401, "Unauthorized"},
		"a signature with an empty secret": {func(r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", githubtest.Sign(event.Payload, nil))
		}, 401, "Unauthorized"},
		"another body":            {func(r *http.Request) { body(r, []byte(`{"action":"opened"}`)) }, 401, "Unauthorized"},
		"content type of a form":  {func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, "UnsupportedMediaType"},
		"read":                    {func(r *http.Request) { r.Method = http.MethodGet }, 405, "MethodNotAllowed"},
		"put":                     {func(r *http.Request) { r.Method = http.MethodPut }, 405, "MethodNotAllowed"},
		"large":                   {func(r *http.Request) { body(r, make([]byte, maxPayload+1)) }, 413, "TooLarge"},
		"large, without a length": {func(r *http.Request) { body(r, make([]byte, maxPayload+1)); r.ContentLength = -1 }, 413, "TooLarge"},
		"without id":              {func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") }, 400, "Malformed"},
		"elsewhere":               {func(r *http.Request) { r.URL.Path = "/github/" + d.namespace + "/absent" }, 401, "Unknown"},
		"without webhook":         {func(r *http.Request) { r.URL.Path = "/github/" + d.namespace + "/without" }, 401, "Unknown"},
		"secret is absent":        {func(r *http.Request) { r.URL.Path = "/github/" + d.namespace + "/unsaid" }, 401, "Unknown"},
		"secret is empty": {func(r *http.Request) {
			r.URL.Path = "/github/" + d.namespace + "/empty"
			r.Header.Set("X-Hub-Signature-256", githubtest.Sign(event.Payload, nil))
		}, 401, "Unknown"},
		"another path": {func(r *http.Request) { r.URL.Path = "/" }, 404, "Unknown"},
		"a deep path":  {func(r *http.Request) { r.URL.Path += "/more" }, 404, "Unknown"},
		"no name":      {func(r *http.Request) { r.URL.Path = "/github/" + d.namespace + "/" }, 404, "Unknown"},
	} {
		request, err := event.Request(t.Context(), d.path("shop"), []byte("signs"))
		if err != nil {
			t.Fatal(err)
		}
		test.change(request)
		d.mu.Lock()
		before := d.results[test.result]
		d.mu.Unlock()
		response, err := d.web.Do(request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != test.want || err != nil {
			t.Errorf("%s: answered %d %s%v, want %d", name, response.StatusCode, text, err, test.want)
		}
		d.mu.Lock()
		if d.results[test.result] != before+1 {
			t.Errorf("%s: results are %v, want one more %s", name, d.results, test.result)
		}
		d.mu.Unlock()
		if test.result == "Unknown" && test.want == 401 || name == "another secret" {
			if none != "" && none != string(text) {
				t.Errorf("%s: the response is %q, but other responses with status 401 are %q", name, text, none)
			}
			none = string(text)
		}
		if strings.Contains(string(text), "signs") {
			t.Errorf("%s: the response contains the secret: %s", name, text)
		}
	}
	same(t, "passed on", d.after(time.Minute), []string(nil))
}

func body(r *http.Request, text []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
}

// TestDeliveryAfterAnError checks that a delivery that could not be processed is processed when GitHub sends it again.
func TestDeliveryAfterAnError(t *testing.T) {
	d := serve(t)
	n := d.repo.Open(githubtest.PullRequest{HeadRef: "x"})
	delivery := d.repo.PullRequestEvent(n, "edited")
	working := d.hooks.repositories
	d.hooks.repositories = unlisted{working}
	same(t, "response after an error", d.send(delivery, "signs"), 503)
	d.hooks.repositories = working
	same(t, "response to the same delivery", d.send(delivery, "signs"), 202)
	same(t, "hints", d.after(time.Minute), []string{fmt.Sprintf("shop [%d]", n)})
	same(t, "response to a duplicate", d.send(delivery, "signs"), 202)
	same(t, "hints of a duplicate", len(d.after(time.Minute)), 0)
}

// unlisted is a client that cannot list objects.
type unlisted struct{ client.Reader }

func (unlisted) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the cache has not started")
}

// TestHints checks that deliveries within a second are combined into one hint, and that a repeated delivery is
// not a hint.
func TestHints(t *testing.T) {
	d := serve(t)
	for range 3 {
		d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	}
	first := d.repo.PullRequestEvent(1, "opened")
	for what, delivery := range map[string]githubtest.Delivery{
		"first": first, "second": d.repo.PullRequestEvent(3, "closed"), "push": d.repo.PushEvent("main", strings.Repeat("a", 40)),
		"package": d.repo.PackageEvent("package", "shop"), "package of an App": d.repo.PackageEvent("registry_package", "shop"), "ping": d.repo.Ping(),
	} {
		if code := d.send(delivery, "signs"); code != 202 {
			t.Errorf("%s: answered %d", what, code)
		}
	}
	same(t, "passed on immediately", d.after(coalesceDelay/2), []string(nil))
	same(t, "response to a later delivery", d.send(d.repo.PackageEvent("package", "shop"), "signs"), 202)
	last := d.clock.Now()
	same(t, "passed on after a second", d.after(coalesceDelay/2), []string{"shop [1 3]"})
	d.announced("shop", v1alpha1.AnnotationPackageDeliveredAt, "")
	same(t, "time of the last delivery", d.get("shop").Annotations[v1alpha1.AnnotationPackageDeliveredAt], last.UTC().Format(time.RFC3339Nano))
	same(t, "polls that other replicas should start", d.get("shop").Annotations[v1alpha1.AnnotationDeliveredAt], "")
	same(t, "response to a repeated delivery", d.send(first, "signs"), 202)
	same(t, "passed on from a repeated delivery", d.after(coalesceDelay), []string(nil))
	d.mu.Lock()
	same(t, "results", d.results, map[string]int{"Accepted": 6, "Ignored": 1, "Duplicate": 1})
	d.mu.Unlock()

	cart := d.github.AddRepository("acme/cart")
	same(t, "response for another repository", d.send(cart.PushEvent("main", strings.Repeat("a", 40)), "signs"), 202)
	same(t, "passed on for another repository", d.after(coalesceDelay), []string(nil))

	same(t, "response after the delivery was forgotten", func() int { d.clock.Step(rememberedFor); return d.send(first, "signs") }(), 202)
	same(t, "passed on after the delivery was forgotten", d.after(coalesceDelay), []string{"shop [1]"})
}

// TestHintsAreBounded checks that any number of hints cause only a few polls, and that the last hint causes a
// poll.
func TestHintsAreBounded(t *testing.T) {
	d := serve(t)
	d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	polls := 0
	for range 60 {
		d.send(d.repo.PullRequestEvent(1, "synchronize"), "signs")
		polls += len(d.after(time.Second))
	}
	if most := pollBurst + int(time.Minute/pollInterval) + 1; polls > most || polls < pollBurst {
		t.Errorf("%d polls in a minute, want up to %d", polls, most)
	}
	d.send(d.repo.PullRequestEvent(1, "closed"), "signs")
	if got := d.after(pollInterval); len(got) == 0 {
		t.Error("the last hint caused no poll")
	}

	codes := map[int]int{}
	for range deliveryBurst + 50 {
		codes[d.send(d.repo.PullRequestEvent(1, "edited"), "signs")]++
	}
	same(t, "responses to a flood of deliveries", codes, map[int]int{202: deliveryBurst, 429: 50})
	d.clock.Step(10 * time.Second)
	same(t, "response after the flood", d.send(d.repo.PullRequestEvent(1, "edited"), "signs"), 202)
}

// TestUnsignedDeliveries checks that unsigned deliveries, which anyone can send, use neither the rate nor the slots
// of signed deliveries, and cause few reads of Secrets.
func TestUnsignedDeliveries(t *testing.T) {
	d := serve(t)
	reads := &countingReader{Reader: d.hooks.secrets}
	d.hooks.secrets = reads
	n := d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	codes := map[int]int{}
	for range deliveryBurst + 50 {
		codes[d.send(d.repo.PullRequestEvent(n, "edited"), "guessed")]++
	}
	same(t, "responses to a flood of deliveries", codes, map[int]int{401: deliveryBurst + 50})
	same(t, "response to a signed delivery", d.send(d.repo.PullRequestEvent(n, "edited"), "signs"), 202)
	same(t, "reads of the Secret", reads.count, 1)

	d.secret("webhook", "secret", "changed")
	d.clock.Step(secretAge)
	same(t, "response with the previous Secret", d.send(d.repo.PullRequestEvent(n, "edited"), "signs"), 401)
	same(t, "response with the current Secret", d.send(d.repo.PullRequestEvent(n, "edited"), "changed"), 202)
	same(t, "reads of the Secret", reads.count, 2)
}

type countingReader struct {
	client.Reader
	count int
}

func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.count++
	return c.Reader.Get(ctx, key, obj, opts...)
}

// TestDeliveriesShareTheCache checks that a delivery does not copy all GitHubRepositories of its namespace, whose statuses may be
// large.
func TestDeliveriesShareTheCache(t *testing.T) {
	d := serve(t)
	lists := &listOptions{Reader: d.hooks.repositories}
	d.hooks.repositories = lists
	same(t, "response", d.send(d.repo.Ping(), "signs"), 202)
	same(t, "lists that copy their objects", lists.copied, 0)
	same(t, "lists", lists.count, 1)
}

// listOptions counts lists, and those that copy their objects.
type listOptions struct {
	client.Reader
	count, copied int
}

func (l *listOptions) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	l.count++
	if o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
		l.copied++
	}
	return l.Reader.List(ctx, list, opts...)
}

// TestDeliveriesAreRetried checks that a delivery is passed to the other replicas although the first writes fail, and that the
// number of writes is limited.
func TestDeliveriesAreRetried(t *testing.T) {
	for name, test := range map[string]struct{ failures, want int }{"twice": {2, 3}, "always": {1000, maxWrites}} {
		t.Run(name, func(t *testing.T) {
			d := serve(t)
			d.elsewhere = true
			writer := &failingWriter{Writer: d.hooks.writer, failures: test.failures}
			d.hooks.writer = writer
			d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
			d.send(d.repo.PullRequestEvent(1, "opened"), "signs")
			d.send(d.repo.PackageEvent("package", "shop"), "signs")
			for n := range test.want {
				d.clock.Step(pollInterval)
				await.Until(t, fmt.Sprint("write ", n+1), func() bool { return int(writer.writes.Load()) == n+1 && (n+1 == test.want || d.clock.HasWaiters()) })
			}
			d.clock.Step(time.Hour)
			time.Sleep(50 * time.Millisecond) // Another write would follow.
			same(t, "writes", int(writer.writes.Load()), test.want)
			if test.failures < maxWrites {
				d.announced("shop", v1alpha1.AnnotationDeliveredAt, "")
				d.announced("shop", v1alpha1.AnnotationPackageDeliveredAt, "")
			}
		})
	}
}

// failingWriter fails the first patches.
type failingWriter struct {
	client.Writer
	failures int
	writes   atomic.Int32
}

func (w *failingWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if int(w.writes.Add(1)) <= w.failures {
		return errors.New("the API server is overloaded")
	}
	return w.Writer.Patch(ctx, obj, patch, opts...)
}

// TestSlowDeliveries checks that slow requests, whose signatures have not been checked yet, do not block deliveries
// for the same or other repositories, and that slow requests from one address do not block other addresses.
func TestSlowDeliveries(t *testing.T) {
	d := serve(t)
	slow := func() {
		body, end := io.Pipe()
		t.Cleanup(func() { end.Close() })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.path("shop"), body)
		if err != nil {
			t.Error(err)
			return
		}
		request.Header.Set("X-Hub-Signature-256", "sha256=00")
		request.Header.Set("Content-Type", "application/json")
		go end.Write([]byte("{"))
		if response, err := d.web.Do(request); err == nil { // otherwise, the test has ended
			response.Body.Close()
		}
	}
	for range maxDeliveriesFrom - 1 {
		go slow()
	}
	await.Nil(t, func(context.Context) error {
		if n := d.hooks.slots.count("all"); n != maxDeliveriesFrom-1 {
			return fmt.Errorf("%d deliveries are in progress", n)
		}
		return nil
	})
	n := d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
	same(t, "response for the same repository", d.send(d.repo.PullRequestEvent(n, "opened"), "signs"), 202)
	leave, ok := d.hooks.slots.enter(slot{"from 127.0.0.1", maxDeliveriesFrom})
	if !ok {
		t.Fatal("the address has no slot")
	}
	same(t, "response while the address has no slot", d.send(d.repo.PullRequestEvent(n, "edited"), "signs"), 503)
	leave()
	same(t, "response after a slot is free", d.send(d.repo.PullRequestEvent(n, "edited"), "signs"), 202)
}

// TestDeliveriesOfAnApp covers a delivery from a GitHub App, which has only one webhook: the GitHubRepository for
// the delivery's repository handles the delivery if it is in the same namespace and refers to the same Secret.
func TestDeliveriesOfAnApp(t *testing.T) {
	d := serve(t)
	cart := d.github.AddRepository("acme/cart")
	signed := func(secret string) func(*v1alpha1.GitHubRepositorySpec) {
		return func(r *v1alpha1.GitHubRepositorySpec) {
			r.Repo, r.WebhookSecretRef = "cart", &v1alpha1.Reference{Name: secret}
		}
	}
	d.secret("other", "secret", "signs")
	d.repository("cart", signed("webhook"))
	d.repository("elsewhere", signed("other"))
	same(t, "response", d.send(cart.PushEvent("main", strings.Repeat("a", 40)), "signs"), 202)
	same(t, "passed on", d.after(coalesceDelay), []string{"cart []"})
	suspended := githubtest.Delivery{ID: "1", Event: "installation", Payload: []byte(`{"action":"suspend"}`)}
	same(t, "response", d.send(suspended, "signs"), 202)
	same(t, "passed on about an installation", d.after(coalesceDelay), []string{"cart []", "shop []"})

	// The repository is renamed, and no poll has observed this yet.
	d.pass("shop")
	d.repo.Rename("acme/store")
	renamed := githubtest.Delivery{ID: "2", Event: "push", Payload: fmt.Appendf(nil, `{"repository":{"id":%d,"full_name":"acme/store"}}`, d.repo.ID())}
	same(t, "response", d.send(renamed, "signs"), 202)
	same(t, "passed on after a rename", d.after(coalesceDelay), []string{"shop []"})
}

// TestLargePush covers the delivery for a push of 2,048 commits, the maximum in one of GitHub's deliveries.
// The delivery is larger than the part that is kept.
func TestLargePush(t *testing.T) {
	d := serve(t)
	commit := fmt.Sprintf(`{"id":%q,"message":%q}`, strings.Repeat("a", 40), strings.Repeat("m", 1400))
	payload := fmt.Sprintf(`{"ref":"refs/heads/main","repository":{"full_name":"acme/shop"},"commits":[%s%s]}`, strings.Repeat(commit+",", 2047), commit)
	same(t, "response", d.send(githubtest.Delivery{ID: "1", Event: "push", Payload: []byte(payload)}, "signs"), 202)
	same(t, "passed on", d.after(coalesceDelay), []string{"shop []"})
	same(t, "response to a wrong signature", d.send(githubtest.Delivery{ID: "2", Event: "push", Payload: []byte(payload)}, "guessed"), 401)
}

// announced waits until deliveries have set an annotation of a repository to another value than before, and returns the value.
func (d *door) announced(name, annotation, before string) (value string) {
	d.Helper()
	await.Nil(d, func(context.Context) error {
		if value = d.get(name).Annotations[annotation]; value == before {
			return fmt.Errorf("the annotation %s is %q", annotation, value)
		}
		return nil
	})
	return value
}

// observe passes the current annotations of a repository to the handler of the watch, as an update.
func (d *door) observe(name string) {
	d.Helper()
	now := d.get(name)
	before := now.DeepCopy()
	before.Annotations = nil
	d.reconciler.delivered(func(string) bool { return !d.elsewhere }).Update(d.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: now}, nil)
}

// TestReplicasAskTheOther checks that a replica that does not reconcile the namespace requests the poll from
// the replica that reconciles it, announces packages to all replicas, and does not repeat what a user requested.
func TestReplicasAskTheOther(t *testing.T) {
	for name, other := range map[string]func(*door){
		"not the leader":           func(d *door) { d.hooks.elected = make(chan struct{}) },
		"has another shard":        func(d *door) { d.elsewhere = true },
		"neither leader nor shard": func(d *door) { d.hooks.elected, d.elsewhere = make(chan struct{}), true },
	} {
		t.Run(name, func(t *testing.T) {
			d := serve(t)
			other(d)
			d.repo.Open(githubtest.PullRequest{HeadRef: "feature"})
			d.policy("previews", "shop", ofPulls)
			d.pass("shop")
			d.repo.Close(1, true)
			same(t, "response", d.send(d.repo.PullRequestEvent(1, "closed"), "signs"), 202)
			d.send(d.repo.PackageEvent("package", "shop"), "signs")
			same(t, "passed on here", d.after(coalesceDelay), []string(nil))
			d.announced("shop", v1alpha1.AnnotationDeliveredAt, "")
			d.announced("shop", v1alpha1.AnnotationPackageDeliveredAt, "")
			same(t, "requests of a user", d.get("shop").Annotations[v1alpha1.AnnotationRequestedAt], "")
			d.elsewhere = true
			d.observe("shop")
			same(t, "repositories that a replica without the shard tracks", len(d.reconciler.polls.entry(d.key("shop")).hints), 0)
			r, _ := d.story.pass("shop")
			same(t, "closed before the delivery is observed", numbers(r, v1alpha1.PullRequestClosed), []int64(nil))
			d.elsewhere = false
			present := d.get("shop")
			removed := present.DeepCopy()
			removed.Annotations = nil
			d.reconciler.delivered(func(string) bool { return true }).Update(d.Context(), event.UpdateEvent{ObjectOld: present, ObjectNew: removed}, nil)
			same(t, "hints after the annotation was removed", len(d.reconciler.polls.entry(d.key("shop")).hints), 0)
			d.observe("shop")
			r, _ = d.story.pass("shop")
			same(t, "closed", numbers(r, v1alpha1.PullRequestClosed), []int64{1})
		})
	}
}

func TestWebhookReady(t *testing.T) {
	d := serve(t)
	r, _ := d.story.pass("shop")
	same(t, "path", r.Status.WebhookPath, "/github/"+d.namespace+"/shop")
	same(t, "WebhookReady", condition(r, "WebhookReady"), "True Listening: accepting deliveries at status.webhookPath")
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.WebhookSecretRef.Name = "absent" })
	r = d.poll("shop")
	wantCondition(t, r, "WebhookReady", `False SecretNotFound: spec.webhookSecretRef.name: Secret "absent"`)
	wantCondition(t, r, "Ready", "True")
	d.secret("absent", "key", "signs")
	r = func() *v1alpha1.GitHubRepository { d.clock.Step(credentialCheckInterval); return d.poll("shop") }()
	wantCondition(t, r, "WebhookReady", `False InvalidSecret: spec.webhookSecretRef.name: Secret "absent" does not have the key "secret"`)
	d.reconciler.servesWebhooks = false
	d.secret("absent", "secret", "signs")
	r = func() *v1alpha1.GitHubRepository { d.clock.Step(credentialCheckInterval); return d.poll("shop") }()
	wantCondition(t, r, "WebhookReady", "False NotServed")
	d.edit("shop", func(r *v1alpha1.GitHubRepository) { r.Spec.WebhookSecretRef = nil })
	r = d.poll("shop")
	same(t, "without webhook", r.Status.WebhookPath+condition(r, "WebhookReady"), "")
}

// TestServerEnds checks that the server closes slow connections, and stops when its context is
// done.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	s := &webhookServer{address: "127.0.0.1:-1"}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "--webhook-bind-address") {
		t.Errorf("without an address: %v", err)
	}
	if s.NeedLeaderElection() {
		t.Error("replicas other than the leader accept no deliveries")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&webhookServer{address: "127.0.0.1:0", handler: http.NotFoundHandler()}).Start(ctx) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
