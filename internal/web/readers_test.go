package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// byHeader trusts a header. It is only for tests.
type byHeader struct {
	login string
	until time.Time
}

func (b byHeader) Reader(r *http.Request) (Reader, error) {
	user := r.Header.Get("User")
	if user == "" {
		return Reader{}, &Problem{Status: http.StatusUnauthorized, Title: "Log in"}
	}
	return Reader{User: user, Until: b.until}, nil
}

func (b byHeader) Login() string { return b.login }

func (byHeader) Serve(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == "/login/callback" {
		return &Problem{Status: http.StatusForbidden, Title: "Refused", Link: "/login", LinkText: "Try again"}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// byNamespace contains the names of the namespaces that each user may see.
type byNamespace struct {
	mu   sync.Mutex
	may  map[string][]string
	down error
}

func (b *byNamespace) Scope(_ context.Context, r Reader, namespaces []string) (Scope, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down != nil {
		return Scope{}, b.down
	}
	may := slices.Clone(b.may[r.User])
	if slices.Contains(may, "*") {
		return Scope{}, nil
	}
	may = slices.DeleteFunc(may, func(n string) bool { return !slices.Contains(namespaces, n) })
	return Scope{Key: "only " + strings.Join(may, " "), Missing: []string{r.User + " sees " + strings.Join(may, " ")}, Filter: func(o cluster.Objects) cluster.Objects {
		in := o
		in.Microservices, in.Events = nil, nil
		for i := range o.Microservices {
			if slices.Contains(may, o.Microservices[i].Namespace) {
				in.Microservices = append(in.Microservices, o.Microservices[i])
			}
		}
		for i := range o.Events {
			if slices.Contains(may, o.Events[i].Namespace) {
				in.Events = append(in.Events, o.Events[i])
			}
		}
		return in
	}}, nil
}

// readers returns a board with two services, shop/shop and bank/bank. The user ana sees all services, and bob sees only those in shop.
func readers(t *testing.T, identity byHeader) (*board, *byNamespace) {
	t.Helper()
	s := viewtest.Stories()[0]
	o := cluster.Objects{Input: s.Input}
	bank := *o.Microservices[0].DeepCopy()
	bank.Namespace, bank.Name = "bank", "bank"
	o.Microservices = append(slices.Clone(o.Microservices), bank)
	secret := event("bank", "a secret of the bank", s.Now.Add(-time.Minute))
	secret.Namespace, secret.Regarding.Namespace = "bank", "bank"
	o.Events = []eventsv1.Event{event("shop", "an event of the shop", s.Now.Add(-time.Minute)), secret}
	b := &board{TB: t, store: cluster.NewStore(o), acts: &fakeActs{may: true}, clock: clocktesting.NewFakeClock(s.Now)}
	access := &byNamespace{may: map[string][]string{"ana": {"*"}, "bob": {"shop"}}}
	var err error
	if b.Server, err = New(Options{Store: b.store, Acts: b.acts, Identity: identity, Access: access, Secure: true, Hosts: []string{host}, Title: "kind", Version: "v1", Clock: b.clock}); err != nil {
		t.Fatal(err)
	}
	return b, access
}

func as(user string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Set("User", user) }
}

// TestReaders checks that each reader sees what they may see on every page, and nothing else.
func TestReaders(t *testing.T) {
	t.Parallel()
	b, access := readers(t, byHeader{})
	asJSON := func(r *http.Request) { r.Header.Set("Accept", "application/json") }
	for range 2 { // the second time from shared boards
		for _, path := range []string{"/", "/?q=bank", "/?namespace=bank", "/events", "/events.atom", "/discovery", "/previews", "/services/bank/bank", "/services/bank/bank/history", "/services/bank/bank/acts/pause"} {
			for _, form := range []func(*http.Request){asJSON, func(*http.Request) {}} {
				w := b.request("GET", path, nil, as("bob"), form)
				body := strings.NewReplacer("q=bank", "", `value="bank"`, "", "namespace=bank", "", "sees shop", "", "There is no service bank in namespace bank", "", "/services/bank/bank", "").Replace(w.Body.String())
				if strings.Contains(body, "bank") || strings.HasPrefix(path, "/services") && w.Code != http.StatusNotFound {
					t.Errorf("bob, %s: %d %s", path, w.Code, body)
				}
				if w := b.request("GET", path, nil, as("ana"), form); w.Code != http.StatusOK || path != "/previews" && !strings.Contains(path, "/acts/") && !strings.Contains(w.Body.String(), "bank") {
					t.Errorf("ana, %s: %d %s", path, w.Code, w.Body)
				}
			}
		}
	}
	if w := b.request("POST", "/services/bank/bank/acts/pause", url.Values{}, as("bob")); w.Code != http.StatusNotFound || len(b.acts.done) > 0 {
		t.Errorf("act on a service that cannot be seen: %d %+v", w.Code, b.acts.done)
	}
	page := b.request("GET", "/", nil, as("bob")).Body.String()
	if got := textOf(t, page); !strings.Contains(got, "bob") || strings.Contains(got, "Log out") || !strings.Contains(got, "Not shown: bob sees shop") || !strings.Contains(got, "All 1") {
		t.Error(got)
	}
	if h := b.request("GET", "/", nil, as("ana")).Header().Get("Strict-Transport-Security"); h == "" {
		t.Error("no Strict-Transport-Security")
	}
	access.mu.Lock()
	access.down = errors.New("connection refused")
	access.mu.Unlock()
	if w := b.request("GET", "/", nil, as("ana")); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "shop") || len(faults(t, w.Body.String())) > 0 {
		t.Errorf("access unknown: %d %s", w.Code, w.Body)
	}
}

// TestAnonymous checks that unknown readers get only static files. A user is redirected to the login, and a program gets an error.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	b, _ := readers(t, byHeader{login: "/login"})
	script := func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "cors") }
	for name, tc := range map[string]struct {
		method, path string
		body         url.Values
		edit         func(*http.Request)
		want         int
		location     string
	}{
		"page":                       {"GET", "/events?q=a%26b", nil, nil, 303, "/login?return=%2Fevents%3Fq%3Da%2526b"},
		"page requested by a script": {"GET", "/", nil, script, 401, ""},
		"JSON":                       {"GET", "/", nil, func(r *http.Request) { r.Header.Set("Accept", "application/json") }, 401, ""},
		"stream":                     {"GET", "/live?page=/", nil, nil, 401, ""},
		"act":                        {"POST", "/services/shop/shop/acts/pause", url.Values{}, nil, 401, ""},
		"token":                      {"GET", "/?token=", nil, script, 401, ""},
		"login":                      {"GET", "/login", nil, nil, 204, ""},
		"callback":                   {"GET", "/login/callback", nil, nil, 403, ""},
		"logout":                     {"POST", "/logout", url.Values{}, nil, 204, ""},
		"forged logout":              {"POST", "/logout", url.Values{}, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, ""},
		"forged act":                 {"POST", "/services/shop/shop/acts/pause", url.Values{}, func(r *http.Request) { as("ana")(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, ""},
		"asset":                      {"GET", b.templates.names["board.css"], nil, nil, 200, ""},
		"other host":                 {"GET", "/", nil, func(r *http.Request) { as("ana")(r); r.Host = "evil.example.com" }, 421, ""},
	} {
		edits := []func(*http.Request){as("")}
		if tc.edit != nil {
			edits = append(edits, tc.edit)
		}
		w := b.request(tc.method, tc.path, tc.body, edits...)
		if got := w.Header().Get("Location"); w.Code != tc.want || got != tc.location {
			t.Errorf("%s: %d to %q, want %d to %q", name, w.Code, got, tc.want, tc.location)
		}
		if strings.Contains(w.Body.String(), "bank") {
			t.Errorf("%s shows data", name)
		}
	}
	if got := textOf(t, b.request("GET", "/", nil, as("ana")).Body.String()); !strings.Contains(got, "ana Log out") {
		t.Error(got)
	}
	if len(b.acts.done) > 0 {
		t.Errorf("acts %+v", b.acts.done)
	}
}

// TestWithdrawn checks that objects disappear from an open page when the permission to read them is withdrawn, and that later changes to these
// objects are not sent.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	b, access := readers(t, byHeader{})
	s := &stream{Server: b.Server, w: httptest.NewRecorder(), url: &url.URL{Path: "/"}}
	s.control = http.NewResponseController(s.w)
	r := httptest.NewRequest(http.MethodGet, "/live", nil)
	as("ana")(r)
	r = r.WithContext(WithReader(r.Context(), Reader{User: "ana"}))
	before, err := s.render(r)
	if err != nil {
		t.Fatal(err)
	}
	access.mu.Lock()
	access.may["ana"] = []string{"shop"}
	access.mu.Unlock()
	after, err := s.render(r)
	if err != nil {
		t.Fatal(err)
	}
	p := between(before, after)
	if p == nil || !slices.Equal(p.Gone, []string{"s-bank.bank"}) {
		t.Fatalf("patch %+v", p)
	}
	raw, err := json.Marshal(p.Set)
	if err != nil || strings.Contains(string(raw), "bank.bank") {
		t.Errorf("%s", raw)
	}
	s.url = &url.URL{Path: "/services/bank/bank"}
	if _, err := s.render(r); !errors.Is(err, errEnded) {
		t.Errorf("page that the user is not allowed to see: %v", err)
	}
}

// TestStreamEndsWithTheSession checks that an open page gets no changes after its reader has logged out, even if the session would have lasted longer.
func TestStreamEndsWithTheSession(t *testing.T) {
	t.Parallel()
	b, _ := readers(t, byHeader{until: time.Now().Add(time.Hour)})
	w := httptest.NewRecorder()
	s := &stream{Server: b.Server, w: w, control: http.NewResponseController(w), url: &url.URL{Path: "/"}}
	r := httptest.NewRequest(http.MethodGet, "/live", nil)
	as("ana")(r)
	r = r.WithContext(WithReader(r.Context(), Reader{User: "ana"}))
	if _, err := s.render(r); err != nil {
		t.Fatal(err)
	}
	r.Header.Del("User") // the session ended
	if _, err := s.render(r); !errors.Is(err, errEnded) || !strings.Contains(w.Body.String(), "event: stale") {
		t.Errorf("%v, want the stream to end; it sent %q", err, w.Body)
	}
}

// TestUntil checks that a stream ends when its reader must authenticate again, and that no reader can use all
// streams.
func TestUntil(t *testing.T) {
	t.Parallel()
	b, _ := readers(t, byHeader{until: time.Unix(1, 0)})
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- b.request("GET", "/live?page=/", nil, as("ana")) }()
	select {
	case w := <-done:
		if w.Code != http.StatusOK {
			t.Errorf("%d", w.Code)
		}
	case <-time.After(time.Minute):
		t.Fatal("the stream did not end")
	}
	for range maxOfReader {
		if !b.follows("ana", 1) {
			t.Fatal("too few streams")
		}
	}
	if w := b.request("GET", "/live?page=/", nil, as("ana")); w.Code != http.StatusTooManyRequests {
		t.Errorf("one more stream: %d", w.Code)
	}
	if w := b.request("GET", "/live?page=/", nil, as("bob")); w.Code != http.StatusOK {
		t.Errorf("another reader: %d", w.Code)
	}
}

// TestScopes checks that the number of boards is limited, and that they share rows.
func TestScopes(t *testing.T) {
	t.Parallel()
	s := viewtest.Stories()[0]
	b := serve(t, s.Input, s.Now)
	data, _ := b.store.Data()
	var first *entry
	for i := range 2 * maxBoards {
		m, err := b.boards.of(string(rune('a'+i))).get(b.Server, data, Scope{Key: "x"})
		if err != nil {
			t.Fatal(err)
		}
		e := m.services["shop/shop"]
		if first == nil {
			first = e
		}
		if e == nil || e != first {
			t.Fatal("rows are not shared")
		}
	}
	if n := len(b.boards.byKey); n != maxBoards || len(b.boards.used) != maxBoards {
		t.Errorf("%d boards", n)
	}
	var none v1alpha1.MicroserviceList
	data.Microservices = none.Items
	b.boards.keep(nil, 0)
	if len(b.boards.rows) != 0 {
		t.Error("rows of deleted services are kept")
	}
}
