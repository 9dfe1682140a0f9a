package hook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

var shop = types.NamespacedName{Namespace: "shop", Name: "new"}

// world contains a pool and a receiver that listens on loopback.
type world struct {
	*Pool
	server   *httptest.Server
	requeued chan types.NamespacedName
	stop     context.CancelFunc
}

// play starts a pool with options.
func play(t *testing.T, receive http.HandlerFunc, options ...func(*Options)) *world {
	t.Helper()
	w := &world{server: httptest.NewServer(receive), requeued: make(chan types.NamespacedName, 1000)}
	t.Cleanup(w.server.Close)
	policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Policy: policy, UserAgent: "heighliner/test", Wait: func(int) time.Duration { return time.Millisecond },
		Credentials: func(context.Context, string, *v1alpha1.Hook) (Credentials, error) {
			return Credentials{}, errors.New("this must not be called")
		},
	}
	for _, change := range options {
		change(&o)
	}
	if w.Pool, err = NewPool(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	t.Cleanup(cancel)
	w.Start(ctx, func(name types.NamespacedName) { w.requeued <- name })
	return w
}

// question returns a call to the receiver of the world.
func (w *world) question(t v1alpha1.HookType, id string) Call {
	q := Call{Hook: v1alpha1.Hook{Name: strings.ToLower(string(t)), Type: t, URL: w.server.URL + "/hook?token=abc"}, Body: Body{ID: id, Type: t}}
	return q
}

func (w *world) ask(questions ...Call) time.Time { return w.Ask(shop, questions, questions) }

// outcome waits until the call is answered.
func (w *world) outcome(t *testing.T, id string) Outcome {
	t.Helper()
	for {
		if o, ok := w.Outcomes(shop)[id]; ok {
			return o
		}
		await.Receive(t, "an outcome of "+id, w.requeued)
	}
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	type want struct {
		yes     bool
		message string
	}
	for name, test := range map[string]struct {
		receive http.HandlerFunc
		want    want
	}{
		"200":                {status(200, ""), want{true, "HTTP 200"}},
		"202 with a message": {status(202, "\n gate is open \nmore"), want{true, "HTTP 202: gate is open"}},
		"203":                {status(203, ""), want{true, "HTTP 203"}},
		"204":                {status(204, ""), want{true, "HTTP 204"}},
		"205":                {status(205, ""), want{false, "HTTP 205"}},
		"403":                {status(403, "freeze until Monday"), want{false, "HTTP 403: freeze until Monday"}},
		"500":                {status(500, ""), want{false, "HTTP 500"}},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/hook" {
				panic("the redirect was followed")
			}
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, want{false, "HTTP 307: redirects are not followed"}},
		"unprintable characters": {status(409, "a\x00b\x1b[31mc"), want{false, "HTTP 409: a b [31mc"}},
		"a long answer":          {status(409, strings.Repeat("x", 1<<20)), want{false, "HTTP 409: " + strings.Repeat("x", maxMessage-10)}},
		"a connection that ends": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}, want{false, "EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := play(t, test.receive)
			w.ask(w.question(v1alpha1.HookPreRollout, "id"))
			o := w.outcome(t, "id")
			if diff := cmp.Diff(test.want, want{o.Yes, o.Message}, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if o.Attempts != 1 || o.Time.IsZero() {
				t.Errorf("%+v: want one attempt, and its time", o)
			}
		})
	}
}

// TestRequest checks that a call contains the body, the headers and, if there is a key, a signature that
// the receiver can verify.
func TestRequest(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	key := []byte("a secret key")
	type seen struct {
		header http.Header
		raw    []byte
		method string
	}
	got := make(chan seen, 1)
	w := play(t, func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, raw, r.Method}
	}, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Credentials = func(_ context.Context, namespace string, h *v1alpha1.Hook) (Credentials, error) {
			if namespace != "shop" || h.SecretRef.Name != "key" {
				return Credentials{}, fmt.Errorf("read Secret %q of %q: wrong one", h.SecretRef.Name, namespace)
			}
			return Credentials{Key: key}, nil
		}
	})
	q := w.question(v1alpha1.HookPreRollout, "0d6f")
	q.Hook.SecretRef = &v1alpha1.Reference{Name: "key"}
	q.Body.Version = "1.4.3"
	w.ask(q)
	if o := w.outcome(t, "0d6f"); !o.Yes {
		t.Fatalf("%+v", o)
	}
	s := <-got
	var body Body
	if err := json.Unmarshal(s.raw, &body); err != nil {
		t.Fatal(err)
	}
	want := q.Body
	want.Time = now
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "heighliner/test", HeaderDelivery: "0d6f", HeaderTimestamp: "1896091200",
		HeaderSignature: Sign(key, "1896091200", s.raw),
	} {
		if s.header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, s.header.Get(name), value)
		}
	}
	if s.method != http.MethodPost {
		t.Errorf("method %s", s.method)
	}
}

// TestSign checks that the signature is equal to the signature that another HMAC implementation
// computes.
func TestSign(t *testing.T) {
	t.Parallel()
	// printf '1896091200.{}' | openssl dgst -sha256 -hmac key
	const want = "sha256=89be1c253c8c366a82199ea70bf1bdf595c23c0161b1dae2265a33ca4893d889"
	if got := Sign([]byte("key"), "1896091200", []byte("{}")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if Sign([]byte("key"), "1896091201", []byte("{}")) == want || Sign([]byte("yek"), "1896091200", []byte("{}")) == want {
		t.Error("the signature is the same for another timestamp or another key")
	}
}

// TestFailuresContainNoSecrets checks that the message of a failure contains neither the query of the URL nor the key.
func TestFailuresContainNoSecrets(t *testing.T) {
	t.Parallel()
	w := play(t, status(200, ""))
	const down = "http://127.0.0.1:1" // The kernel never assigns this port to a server of another test.
	for name, test := range map[string]struct {
		change func(*Call)
		want   string
	}{
		"no server":        {func(q *Call) { q.Hook.URL = down + "/?token=abc" }, "connection refused"},
		"a refused range":  {func(q *Call) { q.Hook.URL = "http://[fe80::1]/?token=abc" }, "--outbound-allow"},
		"metadata":         {func(q *Call) { q.Hook.URL = "http://169.254.169.254/?token=abc" }, "metadata service"},
		"a missing Secret": {func(q *Call) { q.Hook.SecretRef = &v1alpha1.Reference{Name: "key"} }, "this must not be called"},
	} {
		t.Run(name, func(t *testing.T) {
			q := w.question(v1alpha1.HookPreRollout, name)
			test.change(&q)
			w.ask(q)
			o := w.outcome(t, name)
			if o.Yes || !strings.Contains(o.Message, test.want) || strings.Contains(o.Message, "abc") {
				t.Errorf("%+v, want a no with %q", o, test.want)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := play(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	q := w.question(v1alpha1.HookEvent, "id")
	q.Hook.Timeout, q.Hook.Retries = "1s", new(int32)
	w.ask(q) // The receiver responds when the test ends.
	if o := w.outcome(t, "id"); o.Yes || o.Message != "no response within 1s" {
		t.Errorf("%+v", o)
	}
}

// TestCA checks that a server with a self-signed certificate is trusted only if this certificate is the CA of the hook.
func TestCA(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(status(200, ""))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, test := range map[string]struct {
		ca   []byte
		want string
	}{
		"trusted":   {ca, "HTTP 200"},
		"untrusted": {nil, "certificate"},
		"not PEM":   {[]byte("none"), "no valid certificate in PEM format found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := play(t, nil, func(o *Options) {
				o.Credentials = func(context.Context, string, *v1alpha1.Hook) (Credentials, error) {
					return Credentials{CA: test.ca}, nil
				}
			})
			q := w.question(v1alpha1.HookPreRollout, "id")
			q.Hook.URL, q.Hook.CASecretRef = server.URL, &v1alpha1.Reference{Name: "ca"}
			w.ask(q)
			if o := w.outcome(t, "id"); o.Yes != (test.want == "HTTP 200") || !strings.Contains(o.Message, test.want) {
				t.Errorf("%+v, want %q", o, test.want)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	three := int32(3)
	for name, test := range map[string]struct {
		kind     v1alpha1.HookType
		retries  *int32
		failures int
		want     Outcome
	}{
		"a check is not repeated":           {v1alpha1.HookPreRollout, nil, 1, Outcome{Attempts: 1, Message: "HTTP 500"}},
		"a check with retries":              {v1alpha1.HookRollout, &three, 3, Outcome{Yes: true, Attempts: 4, Message: "HTTP 200"}},
		"a message is repeated":             {v1alpha1.HookEvent, nil, 2, Outcome{Yes: true, Attempts: 3, Message: "HTTP 200"}},
		"a message that is not accepted":    {v1alpha1.HookPostRollout, nil, 9, Outcome{Attempts: 4, Message: "HTTP 500"}},
		"a gate is not repeated":            {v1alpha1.HookConfirmPromotion, nil, 1, Outcome{Attempts: 1, Message: "HTTP 500"}},
		"a rollback is not repeated either": {v1alpha1.HookRollback, nil, 1, Outcome{Attempts: 1, Message: "HTTP 500"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			ids := sync.Map{}
			w := play(t, func(w http.ResponseWriter, r *http.Request) {
				ids.Store(r.Header.Get(HeaderDelivery), true)
				if int(calls.Add(1)) <= test.failures {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			q := w.question(test.kind, "id")
			q.Hook.Retries = test.retries
			w.ask(q)
			got := w.outcome(t, "id")
			got.Time = time.Time{}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			ids.Range(func(id, _ any) bool {
				if id != "id" {
					t.Errorf("a repeated call has the ID %v", id)
				}
				return true
			})
		})
	}
}

// TestNoAnswerDecidesNothing checks that a missing answer decides nothing. A check is called again, and only a
// response from the receiver itself approves or rejects the release.
func TestNoAnswerDecidesNothing(t *testing.T) {
	t.Parallel()
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
	const down = "http://127.0.0.1:1" // The kernel never assigns this port to a server of another test.
	for name, test := range map[string]struct {
		receive http.HandlerFunc
		change  func(*v1alpha1.Hook)
		verdict bool
	}{
		"no server":             {nil, func(h *v1alpha1.Hook) { h.URL = down }, false},
		"the connection ends":   {hangUp, nil, false},
		"too many requests":     {status(429, ""), nil, false},
		"bad gateway":           {status(502, ""), nil, false},
		"unavailable":           {status(503, "no endpoints"), nil, false},
		"gateway timeout":       {status(504, ""), nil, false},
		"a missing Secret":      {nil, func(h *v1alpha1.Hook) { h.SecretRef = &v1alpha1.Reference{Name: "key"} }, false},
		"a refused address":     {nil, func(h *v1alpha1.Hook) { h.URL = "http://169.254.169.254/" }, false},
		"a server error":        {status(500, "2 of 9 tests"), nil, true},
		"a conflict":            {status(409, ""), nil, true},
		"no such path":          {status(404, ""), nil, true},
		"a key that is refused": {status(401, ""), nil, true},
		"a redirect":            {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, nil, true},
	} {
		for _, kind := range []v1alpha1.HookType{v1alpha1.HookPreRollout, v1alpha1.HookRollout} {
			t.Run(string(kind)+": "+name, func(t *testing.T) {
				t.Parallel()
				w := play(t, test.receive)
				q := w.question(kind, "id")
				if test.change != nil {
					test.change(&q.Hook)
				}
				w.ask(q)
				o := w.outcome(t, "id")
				want := v1alpha1.HookWaiting
				if test.verdict {
					want = v1alpha1.HookFailed
				}
				if got := phaseOf(kind, o); got != want || o.Unanswered == test.verdict || o.Message == "" {
					t.Errorf("%s after %+v, want %s", got, o, want)
				}
			})
		}
	}
	t.Run("no response in time", func(t *testing.T) {
		t.Parallel()
		end := make(chan struct{})
		w := play(t, func(http.ResponseWriter, *http.Request) { <-end })
		t.Cleanup(func() { close(end) })
		q := w.question(v1alpha1.HookPreRollout, "id")
		q.Hook.Timeout = "1s"
		w.ask(q)
		if o := w.outcome(t, "id"); !o.Unanswered {
			t.Errorf("%+v", o)
		}
	})
}

// TestCheckIsAskedAgain checks that an unanswered check is called again after increasing waits until it is answered, and
// that it is called immediately after its hook is edited.
func TestCheckIsAskedAgain(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	var elapsed atomic.Int64
	w := play(t, func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, func(o *Options) {
		o.Now = func() time.Time { return now.Add(time.Duration(elapsed.Load())) }
		o.Wait = func(retry int) time.Duration { return time.Duration(retry) * time.Minute }
	})
	q := w.question(v1alpha1.HookPreRollout, "id")
	attempts := func(n int) Outcome {
		t.Helper()
		for {
			if o := w.outcome(t, "id"); o.Attempts >= n {
				return o
			}
			await.Receive(t, "another outcome", w.requeued)
		}
	}
	w.ask(q)
	attempts(1)
	for n := 1; n <= 3; n++ {
		at := w.ask(q)
		if want := now.Add(time.Duration(elapsed.Load())).Add(time.Duration(n) * time.Minute); !at.Equal(want) {
			t.Fatalf("after %d calls, the hook is called again at %s, want %s", n, at, want)
		}
		elapsed.Add(int64(n) * int64(time.Minute))
		if at := w.ask(q); !at.IsZero() {
			t.Fatalf("it is due, and waits until %s", at)
		}
		attempts(n + 1)
	}
	away.Store(false)
	q.Hook.Metadata = map[string]v1alpha1.HookMetadataValue{"suite": "short"}
	if at := w.ask(q); !at.IsZero() {
		t.Fatalf("it was fixed, and waits until %s", at)
	}
	if o := attempts(5); !o.Yes || o.Unanswered {
		t.Errorf("%+v", o)
	}
}

// TestPermanentRejection checks that a response with status 412 to a waiting gate is final, so that the gate is not called again. For
// other hooks, the status counts as an ordinary negative response.
func TestPermanentRejection(t *testing.T) {
	t.Parallel()
	for kind, want := range map[v1alpha1.HookType]bool{
		v1alpha1.HookConfirmRollout: true, v1alpha1.HookConfirmTrafficIncrease: true, v1alpha1.HookConfirmPromotion: true,
		v1alpha1.HookPreRollout: false, v1alpha1.HookRollout: false, v1alpha1.HookRollback: false, v1alpha1.HookPostRollout: false, v1alpha1.HookEvent: false,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			w := play(t, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				w.WriteHeader(StatusRefused)
				fmt.Fprintln(w, "the change was withdrawn")
			})
			q := w.question(kind, "id")
			none := int32(0)
			q.Hook.Retries = &none
			w.ask(q)
			got := w.outcome(t, "id")
			got.Time = time.Time{}
			if diff := cmp.Diff(Outcome{Refused: want, Attempts: 1, Message: "HTTP 412: the change was withdrawn"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if next := w.ask(q); want && (!next.IsZero() || calls.Load() != 1) {
				t.Errorf("it is called again at %s, after %d calls", next, calls.Load())
			}
		})
	}
}

// TestPolling checks that a gate is called once per interval until it approves, and not afterwards.
func TestPolling(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var clock atomic.Int64
	now := func() time.Time { return began.Add(time.Duration(clock.Load())) }
	w := play(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 3 {
			w.WriteHeader(http.StatusConflict)
		}
	}, func(o *Options) { o.Now = now })
	q := w.question(v1alpha1.HookConfirmPromotion, "id")
	q.Hook.Interval = "30s"
	answered := func(attempts int) Outcome {
		t.Helper()
		for {
			if o := w.outcome(t, "id"); o.Attempts == attempts {
				return o
			}
			<-w.requeued
		}
	}
	w.ask(q)
	answered(1)
	if next := w.ask(q); !next.Equal(began.Add(30 * time.Second)) {
		t.Errorf("called again at %s, want in 30s", next)
	}
	clock.Store(int64(29 * time.Second))
	w.ask(q)
	if calls.Load() != 1 {
		t.Errorf("%d calls within an interval", calls.Load())
	}
	clock.Store(int64(30 * time.Second))
	w.ask(q)
	answered(2)
	clock.Store(int64(60 * time.Second))
	w.ask(q)
	if o := answered(3); !o.Yes {
		t.Errorf("%+v", o)
	}
	clock.Store(int64(90 * time.Second))
	if next := w.ask(q); !next.IsZero() {
		t.Errorf("an open gate is called again at %s", next)
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls, want 3", calls.Load())
	}
}

// TestEditedHook checks that an edited hook is called immediately, and that its outcome contains the time at which the edit was observed.
func TestEditedHook(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	now := func() time.Time { return began.Add(time.Duration(clock.Load())) }
	w := play(t, status(409, "not yet"), func(o *Options) { o.Now = now })
	q := w.question(v1alpha1.HookConfirmPromotion, "id")
	q.Hook.Interval = "1h"
	w.ask(q)
	if o := w.outcome(t, "id"); !o.Edited.IsZero() {
		t.Errorf("it was not edited: %+v", o)
	}
	clock.Store(int64(time.Second))
	q.Hook.URL = w.server.URL + "/fixed"
	w.ask(q)
	for {
		if o := w.outcome(t, "id"); o.Attempts == 2 {
			if !o.Edited.Equal(began.Add(time.Second)) {
				t.Errorf("%+v", o)
			}
			break
		}
		<-w.requeued
	}
	if next := w.ask(q); !next.Equal(began.Add(time.Second + time.Hour)) {
		t.Errorf("called again at %s, want in an hour", next)
	}
}

func TestUncallable(t *testing.T) {
	t.Parallel()
	w := play(t, status(200, ""))
	q := w.question(v1alpha1.HookRollback, "id")
	q.Hook.URL = "http://169.254.169.254/latest"
	w.ask(q)
	o := w.outcome(t, "id")
	if !Uncallable(v1alpha1.HookStatus{Message: o.Message}) {
		t.Errorf("message %q", o.Message)
	}
	if Uncallable(v1alpha1.HookStatus{Message: "HTTP 409: cannot be called: it sleeps"}) {
		t.Error("the text of a server is mistaken for ours")
	}
}

// TestAbandoned checks that a call that is no longer needed is canceled, unless it delivers a
// message.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind v1alpha1.HookType
		end  func(*world)
		goes bool
	}{
		"a gate":                {v1alpha1.HookConfirmPromotion, func(w *world) { w.Ask(shop, nil, nil) }, true},
		"a check":               {v1alpha1.HookRollout, func(w *world) { w.Ask(shop, nil, nil) }, true},
		"a message":             {v1alpha1.HookEvent, func(w *world) { w.Ask(shop, nil, nil) }, false},
		"a message, no release": {v1alpha1.HookEvent, func(w *world) { w.Forget(shop) }, true},
		"a message, no manager": {v1alpha1.HookEvent, func(w *world) { w.stop() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came, gone, open := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
			w := play(t, func(_ http.ResponseWriter, r *http.Request) {
				came <- struct{}{}
				_, _ = io.Copy(io.Discard, r.Body) // The server notices that the caller is gone only after this.
				select {
				case <-r.Context().Done():
					close(gone)
				case <-open:
				}
			})
			w.ask(w.question(test.kind, "id"))
			<-came
			test.end(w)
			if !test.goes {
				close(open)
				if o := <-w.requeued; o != shop {
					t.Errorf("requeued %v", o)
				}
				w.Ask(shop, nil, nil)
				if w.Releases() != 0 {
					t.Error("a canceled call is remembered")
				}
				return
			}
			await.Receive(t, "the end of the call", gone)
			if len(w.requeued) > 0 {
				t.Error("an abandoned call requeues the release")
			}
		})
	}
}

// TestOrder checks that the messages of a hook are sent in order and one at a time, even if some are slow.
func TestOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	var under atomic.Int32
	w := play(t, func(_ http.ResponseWriter, r *http.Request) {
		if under.Add(1) > 1 {
			t.Error("two calls of one hook at the same time")
		}
		mu.Lock()
		got = append(got, r.Header.Get(HeaderDelivery))
		mu.Unlock()
		under.Add(-1)
	})
	var want []string
	for i := range 8 {
		id := fmt.Sprint(i)
		want = append(want, id)
		w.ask(w.question(v1alpha1.HookEvent, id))
	}
	w.outcome(t, "7")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMessagesDoNotPileUp checks that only a limited number of messages is kept for a hook whose calls hang, and that these are the newest.
func TestMessagesDoNotPileUp(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	var begun, calls, under atomic.Int32
	// The calls hang while their credentials are being read, before the request is sent: a server would notice the end of a
	// canceled call only after the next call had begun.
	w := play(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) }, func(o *Options) {
		o.Credentials = func(ctx context.Context, _ string, _ *v1alpha1.Hook) (Credentials, error) {
			begun.Add(1)
			if under.Add(1) > 1 {
				t.Error("two calls of one hook at the same time")
			}
			defer under.Add(-1)
			select {
			case <-open:
			case <-ctx.Done():
			}
			return Credentials{}, ctx.Err()
		}
	})
	for i := range 50 {
		q := w.question(v1alpha1.HookEvent, fmt.Sprint(i))
		q.Hook.SecretRef = &v1alpha1.Reference{Name: "key"}
		w.ask(q)
	}
	await.Until(t, "the first call", func() bool { return begun.Load() > 0 })
	close(open)
	w.outcome(t, "49")
	if n := calls.Load(); n > maxStale+2 {
		t.Errorf("%d messages were delivered, want at most %d", n, maxStale+2)
	}
}

// TestBounds checks that the number of calls in progress stays within the limits, and that a host that hangs does not prevent
// calls to other hosts.
func TestBounds(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	var under, most atomic.Int32
	w := play(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // A server notices that a request was canceled only after the body has been read.
		n := under.Add(1)
		defer under.Add(-1)
		for {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		select {
		case <-open:
		case <-r.Context().Done():
		}
	})
	name := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)} }
	for i := range 100 {
		q := w.question(v1alpha1.HookConfirmPromotion, fmt.Sprint(i))
		q.Hook.Timeout = "1m"
		w.Ask(name(i), []Call{q}, []Call{q})
	}
	other := httptest.NewServer(status(200, ""))
	t.Cleanup(other.Close)
	q := w.question(v1alpha1.HookConfirmPromotion, "other")
	q.Hook.Timeout = "1m"
	q.Hook.URL = strings.Replace(other.URL, "127.0.0.1", "localhost", 1) // A different port does not make a different host.
	w.ask(q)
	if o := w.outcome(t, "other"); !o.Yes {
		t.Errorf("another host: %+v", o)
	}
	close(open)
	for left := 100; left > 0; {
		if <-w.requeued != shop { // The release with the call to the other host is also enqueued.
			left--
		}
	}
	if got := most.Load(); got > maxHostCalls {
		t.Errorf("%d concurrent calls to a host, want at most %d", got, maxHostCalls)
	}
	for i := range 100 {
		w.Ask(name(i), nil, nil)
	}
	w.Ask(shop, nil, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.releases) != 0 || w.slots.Taken() != 0 {
		t.Errorf("left behind: %d releases, %d slots", len(w.releases), w.slots.Taken())
	}
}

// TestOneNamespaceDoesNotBlockOthers checks that a namespace whose endpoints hang does not prevent the calls of
// another namespace. The namespace with the hanging endpoints may use many spellings of one host, many hosts, or the
// host that both namespaces call.
func TestOneNamespaceDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		host func(i int) string // of call i
		want int                // concurrent calls
	}{
		"one host in many spellings": {func(i int) string {
			spelt := []byte("hooks.example")
			for bit := range 4 {
				if i>>bit&1 == 1 {
					spelt[bit] -= 'a' - 'A'
				}
			}
			return string(spelt) + strings.Repeat(".", i%2)
		}, maxHostCalls},
		"a name for each call":             {func(i int) string { return fmt.Sprintf("h%d.hooks.example", i) }, maxShare},
		"a host that both namespaces call": {func(int) string { return "both.example" }, maxHostCalls},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan struct{}, 2*maxCalls)
			w := play(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/good" {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body) // A server notices that a request was canceled only after the body has been read.
				arrived <- struct{}{}
				<-r.Context().Done()
			}, func(o *Options) { o.Policy = o.Policy.WithResolver(loopback{}) })
			at := func(host, path string) string {
				return "http://" + host + w.server.URL[strings.LastIndex(w.server.URL, ":"):] + path
			}
			for i := range 2 * maxCalls {
				q := w.question(v1alpha1.HookConfirmPromotion, fmt.Sprint(i))
				q.Hook.Timeout, q.Hook.URL = "1m", at(test.host(i), "/hang")
				w.Ask(types.NamespacedName{Namespace: "evil", Name: fmt.Sprint(i)}, []Call{q}, []Call{q})
			}
			for range test.want {
				<-arrived
			}
			q := w.question(v1alpha1.HookConfirmPromotion, "mine")
			q.Hook.URL = at("both.example", "/good")
			w.ask(q)
			if o := w.outcome(t, "mine"); !o.Yes {
				t.Errorf("another namespace: %+v", o)
			}
			if got := w.slots.Taken(); got > test.want {
				t.Errorf("%d calls of one namespace are in progress, want at most %d", got, test.want)
			}
			w.stop()
		})
	}
}

// loopback resolves all names to the loopback address.
type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// TestNotStarted checks that a pool that was not started makes no calls.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	p, err := NewPool(Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := Call{Hook: v1alpha1.Hook{Name: "a", Type: v1alpha1.HookEvent}, Body: Body{ID: "id"}}
	if next := p.Ask(shop, []Call{q}, []Call{q}); !next.IsZero() || p.Releases() != 0 {
		t.Errorf("next %s, %d releases", next, p.Releases())
	}
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	for retry, base := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 99: 16 * time.Second} {
		if got := backOff(retry); got < base || got > base+base/4 {
			t.Errorf("before retry %d: %s, want %s and at most a quarter more", retry, got, base)
		}
	}
}

// TestPanicOfACall checks that a call that panics counts as a call without a response, and that its slot is released.
func TestPanicOfACall(t *testing.T) {
	t.Parallel()
	w := play(t, status(200, ""), func(o *Options) {
		o.Credentials = func(context.Context, string, *v1alpha1.Hook) (Credentials, error) { panic("a secret of a tenant") }
	})
	q := w.question(v1alpha1.HookPreRollout, "a")
	q.Hook.SecretRef = &v1alpha1.Reference{Name: "key"}
	w.ask(q)
	if got := w.outcome(t, "a"); !got.Unanswered || got.Message != contain.ErrPanic.Error() {
		t.Errorf("the outcome is %+v", got)
	}
	if n := w.slots.Taken(); n > 0 {
		t.Errorf("%d slots are taken", n)
	}
}
