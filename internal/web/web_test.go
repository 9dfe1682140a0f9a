package web

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

const (
	token = "0123456789abcdef0123456789abcdef"
	host  = "127.0.0.1:8095"
)

// fakeActs records actions, and rejects them on request.
type fakeActs struct {
	mu     sync.Mutex
	may    bool
	not    []string // RBAC verbs that the reader lacks
	refuse error
	done   []Act
	frozen []Freeze
	// preview returns the preview of an action; nil means a constant preview. handle is the manager's reaction to an action; nil means no reaction.
	preview func(Act) Outcome
	handle  func(Act)
	// freeze describes a freeze during which no release starts; empty means no freeze.
	freeze string
	// uid is the UID of the freeze that the preview of a thaw shows; empty means that the preview shows none.
	uid string
}

func (f *fakeActs) May(context.Context, string) []string {
	return ActsOf(func(verb, _ string) bool { return f.may && !slices.Contains(f.not, verb) })
}

func (f *fakeActs) Preview(_ context.Context, a Act) (Outcome, error) {
	if f.preview != nil {
		return f.preview(a), f.refuse
	}
	return Outcome{Text: "would " + a.Verb, Effects: []string{"1.x: 1.1.0 gets 50%"}, By: "ana", Command: "hlnr " + a.Verb + " shop"}, f.refuse
}

func (f *fakeActs) Do(_ context.Context, a Act) (Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return Outcome{}, f.refuse
	}
	f.done = append(f.done, a)
	if f.handle != nil {
		go f.handle(a)
	}
	return Outcome{Text: "shop 1.1.0: " + a.Verb + " by ana", Frozen: f.freeze}, nil
}

func (f *fakeActs) MayFreeze(context.Context, string) (bool, bool) { return f.may, f.may }

func (f *fakeActs) PreviewFreeze(_ context.Context, x Freeze) (Outcome, error) {
	o := Outcome{Text: fmt.Sprintf("would freeze %q until %q", x.Namespace, x.Until), By: "ana", Command: "hlnr freeze"}
	if x.Thaw && f.uid != "" {
		o.UID, o.Generation = f.uid, 7
	}
	return o, f.refuse
}

func (f *fakeActs) Freeze(_ context.Context, x Freeze) (Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return Outcome{}, f.refuse
	}
	if x.UID != "" && x.UID != f.uid {
		return Outcome{}, &Problem{Status: http.StatusConflict, Title: "This is not possible now", Text: "it was replaced"}
	}
	f.frozen = append(f.frozen, x)
	return Outcome{Text: "done by ana"}, nil
}

// board is a server with objects that tests can change.
type board struct {
	testing.TB
	*Server
	store *cluster.Store
	acts  *fakeActs
	clock *clocktesting.FakeClock
}

func serve(t testing.TB, in view.Input, now time.Time, events ...eventsv1.Event) *board {
	t.Helper()
	if events == nil {
		events = []eventsv1.Event{}
	}
	b := &board{TB: t, store: cluster.NewStore(cluster.Objects{Input: in, Events: events}), acts: &fakeActs{may: true}, clock: clocktesting.NewFakeClock(now)}
	s, err := New(Options{Store: b.store, Acts: b.acts, Token: token, Hosts: []string{host}, Title: "kind", Version: "v1", Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	s.outcomeTimeout = 50 * time.Millisecond
	b.Server = s
	return b
}

// story returns a board with the shop service at a point in its history.
func story(t testing.TB, name string) *board {
	t.Helper()
	all := viewtest.Stories()
	i := slices.IndexFunc(all, func(s viewtest.Story) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no history %q", name)
	}
	return serve(t, all[i].Input, all[i].Now)
}

// request sends a request with the session cookie. edit changes the request before it is sent.
func (b *board) request(method, target string, body url.Values, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	b.Helper()
	var in io.Reader
	if body != nil {
		in = strings.NewReader(body.Encode())
	}
	r := httptest.NewRequest(method, target, in)
	r.Host = host
	r.AddCookie(&http.Cookie{Name: "hlnr-8095", Value: b.session()})
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// get returns a page, which must exist.
func (b *board) get(target string) string {
	b.Helper()
	w := b.request("GET", target, nil)
	if w.Code != http.StatusOK {
		b.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	return w.Body.String()
}

func (b *board) json(target string, into any) {
	b.Helper()
	w := b.request("GET", target, nil, func(r *http.Request) { r.Header.Set("Accept", "application/json") })
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		b.Fatalf("%s: %d %s", target, w.Code, w.Header().Get("Content-Type"))
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		b.Fatalf("%s: %v", target, err)
	}
}

// textOf returns the text of a page as readers see it, with one space between words.
func textOf(t testing.TB, page string) string {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(page))
	var out strings.Builder
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(strings.Fields(out.String()), " ")
		case html.TextToken:
			out.WriteString(string(z.Text()))
		default:
			if name, _ := z.TagName(); string(name) != "wbr" {
				out.WriteString(" ")
			}
		}
	}
}

// paths returns the paths of all pages of the shop service in a story.
func (b *board) paths() []string {
	out := []string{"/", "/?q=shop&sort=age", "/previews", "/discovery", "/freezes", "/events", "/services/shop/shop", "/services/shop/shop/history", "/services/shop/shop/discovery"}
	data, _ := b.store.Data()
	for i := range data.Releases {
		out = append(out, "/services/shop/shop/releases/"+data.Releases[i].Name)
	}
	return out
}

// attribute returns the value of an attribute, or "no" if the attribute is missing.
func attribute(n *html.Node, name string) string {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "no"
	}
	return n.Attr[i].Val
}

// change changes the Microservice of a board.
func (b *board) change(edit func(*v1alpha1.Microservice)) {
	data, _ := b.store.Data()
	o := data.Objects
	ms := o.Microservices[0].DeepCopy()
	edit(ms)
	o.Microservices = []v1alpha1.Microservice{*ms}
	b.store.Set(o)
	b.clock.Step(10 * time.Second)
}

// TestPages checks that each page of each story is HTML with a title, a main landmark, one heading, tables with headers, unique ids, and no external
// content. It also checks that each page is available as JSON in the view.hlnr.io/v1 format.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, s := range viewtest.Stories() {
		b := serve(t, s.Input, s.Now)
		for _, path := range b.paths() {
			for _, fault := range faults(t, b.get(path)) {
				t.Errorf("%s: %s: %s", s.Name, path, fault)
			}
			var value metav1.TypeMeta
			b.json(path, &value)
			if value.APIVersion != view.APIVersion || value.Kind == "" {
				t.Errorf("%s: %s: %+v", s.Name, path, value)
			}
		}
	}
}

// faults returns the faults in the structure of a page.
func faults(t testing.TB, page string) (out []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	count, ids := map[string]int{}, map[string]int{}
	for n := range root.Descendants() {
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				out = append(out, "attribute "+a.Key+" of "+n.Data)
			}
		}
		if n.Type == html.ElementNode {
			count[n.Data]++
			if attr["id"] != "" {
				ids[attr["id"]]++
			}
			switch {
			case n.Data == "script" && (attr["src"] == "" || !strings.HasPrefix(attr["src"], "/assets/")), n.Data == "link" && !strings.HasPrefix(attr["href"], "/assets/"):
				out = append(out, "asset "+attr["src"]+attr["href"])
			case n.Data == "th" && attr["scope"] == "":
				out = append(out, "th without scope")
			case n.Data == "style":
				out = append(out, "inline style")
			case n.Data == "a" && attr["href"] == "":
				out = append(out, "link without address")
			case (n.Data == "input" || n.Data == "select") && attr["type"] != "hidden" && !inside(n, "label"):
				out = append(out, n.Data+" "+attr["name"]+" without label")
			case n.Data == "form" && attr["method"] == "":
				out = append(out, "form without method")
			}
		}
	}
	for _, name := range []string{"title", "main", "h1", "header", "footer"} {
		if count[name] != 1 {
			out = append(out, fmt.Sprintf("%d %s", count[name], name))
		}
	}
	if count["caption"] != count["table"] {
		out = append(out, "table without caption")
	}
	for id, n := range ids {
		if n > 1 {
			out = append(out, "id twice: "+id)
		}
	}
	return out
}

func inside(n *html.Node, name string) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.Data == name {
			return true
		}
	}
	return false
}

// TestWords checks that pages contain the sentences of the view.
func TestWords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		story, path string
		want        []string
	}{
		"board":       {"approval", "/", []string{"All 1", "Waiting for you 1", "shop 1.x 1.0.0 1.1.0", "10%", "waits for approval since 10:00 Continue"}},
		"service":     {"approval", "/services/shop/shop", []string{"1.1.0 waits for approval since 10:00", "step 1 of 2, waits for approval", "✔ programmed", "1.1.0 10%", "next: 50%, then 100%", "Continue Deprecate Adopt"}},
		"failure":     {"rolled back", "/services/shop/shop", []string{"1.1.0 rolled back 8m ago: latency-p99 612 ms > 500 ms at 10%", "Retry"}},
		"crash":       {"crashes", "/", []string{"1.1.0 failed 110m ago: container shop: exit 1: missing DATABASE_URL"}},
		"decision":    {"continued", "/services/shop/shop", []string{`Continue by ana`, "dashboards are quiet"}},
		"pin":         {"pinned", "/services/shop/shop", []string{`pinned to 1.0.0 until Mon 08:00 by ana@example.com: "sessions lost"`, "Unpin"}},
		"previews":    {"previews", "/previews", []string{"#17 New checkout by ana", "https://cart-17.shop.example.com", "waits for approval (fork)", "waits for a preview slot"}},
		"discovery":   {"rejected", "/services/shop/shop/discovery", []string{"1.3.0-rc.1 Level prereleases are off", "latest Parse not a version", "1.0.0 1.x"}},
		"empty board": {"no version", "/", []string{"shop", "no version yet"}},
		"no events":   {"active", "/events", []string{"Nothing happened"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := textOf(t, story(t, tc.story).get(tc.path))
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in %s", want, got)
				}
			}
		})
	}
}

// TestEmpty checks that a board without services shows how to create the first one.
func TestEmpty(t *testing.T) {
	t.Parallel()
	got := textOf(t, serve(t, view.Input{}, time.Unix(1e9, 0)).get("/"))
	for _, want := range []string{"No services yet", "kubectl apply", "hlnr doctor"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// TestFilter checks that the filter, the search and the order are part of the URL.
func TestFilter(t *testing.T) {
	t.Parallel()
	in, now := viewtest.Many(48)
	b := serve(t, in, now)
	names := func(path string) (out []string) {
		var v view.Board
		b.json(path, &v)
		for _, s := range v.Services {
			out = append(out, s.Name)
		}
		return out
	}
	all := names("/")
	for path, check := range map[string]func([]string) bool{
		"/?state=failed":                func(l []string) bool { return len(l) > 0 && len(l) < len(all) },
		"/?q=s003":                      func(l []string) bool { return slices.Equal(l, []string{"s003"}) },
		"/?q=S003.EXAMPLE.com":          func(l []string) bool { return slices.Equal(l, []string{"s003"}) || len(l) == 0 },
		"/?q=%2317":                     func(l []string) bool { return len(l) > 0 && len(l) < 10 },
		"/?q=no+such+thing":             func(l []string) bool { return len(l) == 0 },
		"/?namespace=other":             func(l []string) bool { return len(l) == 0 },
		"/?sort=name":                   func(l []string) bool { return slices.IsSorted(l) && len(l) == len(all) },
		"/?sort=version":                func(l []string) bool { return len(l) == len(all) },
		"/?sort=share":                  func(l []string) bool { return len(l) == len(all) && !slices.Equal(l, all) },
		"/?sort=%3Cscript%3E&q=%3Cb%3E": func(l []string) bool { return len(l) == 0 },
	} {
		if got := names(path); !check(got) {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := textOf(t, b.get("/?q=no+such+thing")); !strings.Contains(got, "None of the 48 services matches") {
		t.Error(got)
	}
}

// TestMarkup checks that markup in names, messages and queries is displayed as text.
func TestMarkup(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\u202e"
	b := story(t, "approval")
	data, _ := b.store.Data()
	o := data.Objects
	o.Microservices[0].Status.ReleaseGroups[0].Name = evil
	o.Microservices[0].Status.Conditions = append(o.Microservices[0].Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "Evil", Message: evil})
	o.ImagePolicies[0].Status.Releases[0].URL = "javascript:alert(1)"
	o.ImagePolicies[0].Status.Candidates = []v1alpha1.RefusedCandidate{{Version: evil, Verdict: evil, Reason: evil}}
	o.NetworkPolicies[0].Status.Domains[0].URL = "javascript:alert(1)"
	o.NetworkPolicies[0].Status.Domains[0].Domain = evil
	o.Events = []eventsv1.Event{event("shop", evil, b.clock.Now())}
	o.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: evil, Labels: map[string]string{v1alpha1.LabelRelease: o.Releases[0].Name}}}}
	b.store.Set(o)
	b.clock.Step(time.Second)
	for _, path := range append(b.paths(), "/?q="+url.QueryEscape(evil), "/events?q="+url.QueryEscape("script"), "/services/shop/shop/acts/pin?target="+url.QueryEscape(evil)) {
		page := b.get(path)
		if found := faults(t, page); len(found) > 0 {
			t.Errorf("%s: %v", path, found)
		}
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") || strings.Contains(page, `href="javascript:`) {
			t.Errorf("%s has markup from the cluster", path)
		}
	}
	w := b.request("GET", "/events.atom", nil)
	var f feed
	if err := xml.Unmarshal(w.Body.Bytes(), &f); err != nil || len(f.Entries) != 1 || !strings.Contains(f.Entries[0].Content, "<script>") {
		t.Errorf("feed: %v %+v", err, f)
	}
}

func event(name, note string, at time.Time) eventsv1.Event {
	return eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name + at.String()}, EventTime: metav1.NewMicroTime(at), Type: "Warning", Reason: "Started", Note: note,
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Microservice", Namespace: "shop", Name: name},
	}
}

// TestManyEvents checks that pages and the feed show the newest of ten thousand events.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	s := viewtest.Stories()[0]
	events := make([]eventsv1.Event, 10_000)
	for i := range events {
		events[i] = event("shop", fmt.Sprintf("note %05d", i), s.Now.Add(-time.Duration(len(events)-i)*time.Second))
	}
	b := serve(t, s.Input, s.Now, events...)
	for path, limit := range map[string]int{"/events": maxOnPage, "/services/shop/shop": maxEvents, "/events.atom": maxAtom} {
		page := b.get(path)
		if got := strings.Count(page, "note 0"); got != limit {
			t.Errorf("%s has %d events, want %d", path, got, limit)
		}
		if first := strings.Index(page, "note 09999"); first < 0 || first > strings.Index(page, "note 09998") {
			t.Errorf("%s: the newest event is not the first", path)
		}
	}
	if page := b.get("/events?q=00042"); strings.Count(page, "note 0") != 1 {
		t.Error("an old event is not found")
	}
}

// TestGone checks that the page of a deleted object explains what to do.
func TestGone(t *testing.T) {
	t.Parallel()
	b := story(t, "active")
	b.get("/services/shop/shop")
	b.store.Set(cluster.Objects{Events: []eventsv1.Event{}})
	b.clock.Step(time.Second)
	for _, path := range []string{"/services/shop/shop", "/services/shop/shop/releases/x", "/services/shop/shop/acts/pause", "/nothing", "/services/shop"} {
		w := b.request("GET", path, nil)
		if w.Code != http.StatusNotFound || len(faults(t, w.Body.String())) > 0 {
			t.Errorf("%s: %d %v", path, w.Code, faults(t, w.Body.String()))
		}
	}
	if w := b.request("POST", "/services/shop/shop/acts/pause", url.Values{}); w.Code != http.StatusNotFound || len(b.acts.done) > 0 {
		t.Errorf("act on a deleted service: %d", w.Code)
	}
}

// TestOutage checks that pages show when the data became outdated, but only while it is outdated.
func TestOutage(t *testing.T) {
	t.Parallel()
	b := story(t, "active")
	b.store.SetOutage(&cluster.Outage{Since: b.clock.Now().Add(-time.Minute), Cause: "connection refused"})
	if got := textOf(t, b.get("/")); !strings.Contains(got, "Data as of 09:59: the API server is not available (connection refused)") {
		t.Error(got)
	}
	b.store.SetOutage(nil)
	if got := textOf(t, b.get("/")); strings.Contains(got, "not available") {
		t.Error(got)
	}
}

// TestRefused checks that requests from anyone other than the reader get no data and change nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := story(t, "approval")
	const act = "/services/shop/shop/acts/continue"
	form := url.Values{"target": {"1.1.0"}, "id": {"web-1"}}
	header := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	anonymous := func(r *http.Request) { r.Header.Del("Cookie") }
	for name, tc := range map[string]struct {
		method, path string
		body         url.Values
		edit         []func(*http.Request)
		want         int
	}{
		"no session":                {"GET", "/", nil, []func(*http.Request){anonymous}, 401},
		"no session for JSON":       {"GET", "/", nil, []func(*http.Request){anonymous, header("Accept", "application/json")}, 401},
		"no session for assets":     {"GET", "/assets/x.css", nil, []func(*http.Request){anonymous}, 401},
		"no session for acts":       {"POST", act, form, []func(*http.Request){anonymous}, 401},
		"no session for the stream": {"GET", "/live?page=/", nil, []func(*http.Request){anonymous}, 401},
		"wrong token":               {"GET", "/?token=wrong", nil, []func(*http.Request){anonymous}, 401},
		"wrong bearer":              {"GET", "/", nil, []func(*http.Request){anonymous, header("Authorization", "Bearer wrong")}, 401},
		"bearer":                    {"GET", "/", nil, []func(*http.Request){anonymous, header("Authorization", "Bearer "+token)}, 200},
		"token":                     {"GET", "/events?q=a&token=" + token, nil, []func(*http.Request){anonymous}, 303},
		"session as the token":      {"GET", "/?token=" + b.session(), nil, []func(*http.Request){anonymous}, 401},
		"token as the session":      {"GET", "/", nil, []func(*http.Request){anonymous, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "hlnr-8095", Value: token}) }}, 401},
		"other host":                {"GET", "/", nil, []func(*http.Request){func(r *http.Request) { r.Host = "evil.example.com:8095" }}, 421},
		"other port":                {"GET", "/", nil, []func(*http.Request){func(r *http.Request) { r.Host = "127.0.0.1" }}, 421},
		"cross-site form":           {"POST", act, form, []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 403},
		"same-site form":            {"POST", act, form, []func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 403},
		"form from another origin":  {"POST", act, form, []func(*http.Request){func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }, header("Origin", "http://127.0.0.1:9999")}, 403},
		"act by GET":                {"GET", act + "?id=web-1", nil, nil, 200},
		"unknown act":               {"POST", "/services/shop/shop/acts/delete", form, nil, 404},
		"act with another method":   {"DELETE", act, nil, nil, 405},
		"long query":                {"GET", "/?q=" + strings.Repeat("a", maxQuery), nil, nil, 414},
		"long form":                 {"POST", act, url.Values{"reason": {strings.Repeat("a", maxBody)}}, nil, 400},
	} {
		w := b.request(tc.method, tc.path, tc.body, tc.edit...)
		if w.Code != tc.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tc.want)
		}
		if w.Code >= 400 && strings.Contains(w.Body.String(), "1.1.0") {
			t.Errorf("%s shows data", name)
		}
		for k, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"} {
			if got := w.Header().Get(k); got != want {
				t.Errorf("%s: %s is %q", name, k, got)
			}
		}
		if location := w.Header().Get("Location"); strings.Contains(location, token) || w.Code == 303 && location != "/events?q=a" {
			t.Errorf("%s: Location %q", name, location)
		}
	}
	if len(b.acts.done) > 0 {
		t.Errorf("acts %+v", b.acts.done)
	}
}

// TestToken checks that the URL that the command prints creates a session cookie that scripts and other sites cannot use.
func TestToken(t *testing.T) {
	t.Parallel()
	b := story(t, "active")
	w := b.request("GET", "//evil.example.com/?token="+token, nil, func(r *http.Request) { r.Header.Del("Cookie") })
	c := w.Result().Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteLaxMode || c[0].Path != "/" || strings.Contains(c[0].Value, token) {
		t.Errorf("cookies %v", c)
	}
	if l := w.Header().Get("Location"); !strings.HasPrefix(l, "/") || strings.HasPrefix(l, "//") {
		t.Errorf("redirect to %q", l)
	}
}

// TestActs checks that a button opens a page with the effects, that the form performs the action once, and that the page of the service shows the result.
func TestActs(t *testing.T) {
	t.Parallel()
	b := story(t, "approval")
	link := attrOf(t, b.get("/"), "a", "data-act", "href")
	if link != "/services/shop/shop/acts/continue?target=1.1.0" {
		t.Fatalf("button to %q", link)
	}
	page := b.get(link)
	for _, want := range []string{"would continue", "1.x: 1.1.0 gets 50%", "Recorded as ana", "hlnr continue shop", "Reason"} {
		if !strings.Contains(textOf(t, page), want) {
			t.Errorf("no %q in %s", want, textOf(t, page))
		}
	}
	id := attrOf(t, page, "input", "name=id", "value")
	form := url.Values{"target": {"1.1.0"}, "id": {id}, "reason": {" checked the logs "}}
	w := b.request("POST", "/services/shop/shop/acts/continue", form)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := Act{Verb: "continue", Namespace: "shop", Service: "shop", Target: "1.1.0", Reason: "checked the logs", ID: id}
	if len(b.acts.done) != 1 || b.acts.done[0] != want || len(id) < 10 {
		t.Errorf("acts %+v", b.acts.done)
	}
	if got := textOf(t, b.get(w.Header().Get("Location"))); !strings.Contains(got, "shop 1.1.0: continue by ana") {
		t.Error(got)
	}
}

// TestRefusedActs checks that the error of a refused action is shown together with the form, and with the status of its cause.
func TestRefusedActs(t *testing.T) {
	t.Parallel()
	b := story(t, "approval")
	b.acts.refuse = &Problem{Status: http.StatusForbidden, Title: "The API server refused this", Text: "denied by policy <b>decisions</b>"}
	w := b.request("POST", "/services/shop/shop/acts/continue", url.Values{"target": {"1.1.0"}, "reason": {"my reason"}})
	if got := textOf(t, w.Body.String()); w.Code != http.StatusForbidden || !strings.Contains(got, "denied by policy <b>decisions</b>") && !strings.Contains(got, "denied by policy &lt;b&gt;decisions") {
		t.Errorf("%d %s", w.Code, got)
	}
	b.acts.refuse = errors.New("connection refused")
	if w := b.request("POST", "/services/shop/shop/acts/pause", url.Values{}); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "connection refused") {
		t.Errorf("%d", w.Code)
	}
	b.acts.refuse, b.acts.may = nil, false
	if strings.Contains(b.get("/services/shop/shop"), "data-act") || strings.Contains(b.get("/"), "data-act") {
		t.Error("buttons for a reader who may not act")
	}
	for _, verb := range []string{"continue", "pause"} {
		if w := b.request("POST", "/services/shop/shop/acts/"+verb, url.Values{}); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", verb, w.Code)
		}
	}
	// The reader may perform all actions except continue, adopt and retry.
	b.acts.may, b.acts.not = true, []string{"continue", "adopt", "retry"}
	if page := b.get("/services/shop/shop"); strings.Contains(page, "/acts/continue") || strings.Contains(page, "/acts/adopt") || !strings.Contains(page, "/acts/deprecate") || !strings.Contains(page, "/acts/pin") {
		t.Error("the buttons do not match the verbs of the reader")
	}
	if page := b.get("/"); strings.Contains(page, "/acts/continue") || !strings.Contains(page, "/acts/deprecate") {
		t.Error("the buttons in the rows of the board do not match the verbs of the reader")
	}
	if w := b.request("POST", "/services/shop/shop/acts/continue", url.Values{}); w.Code != http.StatusForbidden {
		t.Errorf("continue without the verb: %d", w.Code)
	}
	b.Server.Acts = nil
	if w := b.request("POST", "/services/shop/shop/acts/continue", url.Values{}); w.Code != http.StatusForbidden || strings.Contains(b.get("/"), "data-act") {
		t.Errorf("read-only: %d", w.Code)
	}
	if len(b.acts.done) > 0 {
		t.Errorf("acts %+v", b.acts.done)
	}
}

// attrOf returns an attribute of the first element that has the given name and another given attribute, which is specified as "name" or
// "name=value".
func attrOf(t testing.TB, page, element, with, attr string) string {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(page))
	key, value, hasValue := strings.Cut(with, "=")
	for z.Next() != html.ErrorToken {
		tok := z.Token()
		if tok.Data != element {
			continue
		}
		found, out := false, ""
		for _, a := range tok.Attr {
			found = found || a.Key == key && (!hasValue || a.Val == value)
			if a.Key == attr {
				out = a.Val
			}
		}
		if found {
			return out
		}
	}
	t.Fatalf("no %s with %s", element, with)
	return ""
}

// transfer returns the compressed size of a first visit to a page, which consists of the page and its assets.
func (b *board) transfer(path string) int {
	b.Helper()
	compressed := func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") }
	w := b.request("GET", path, nil, compressed)
	total := w.Body.Len()
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		b.Fatal(err)
	}
	page, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	for _, asset := range []string{attrOf(b, string(page), "link", "rel=stylesheet", "href"), attrOf(b, string(page), "link", "rel=icon", "href"), attrOf(b, string(page), "script", "type=module", "src")} {
		w := b.request("GET", asset, nil, compressed)
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			b.Errorf("%s: %d", asset, w.Code)
		}
		total += w.Body.Len()
	}
	return total
}

// TestTransfer checks that the first visit to a board of 2,000 services transfers less than 100 KiB.
func TestTransfer(t *testing.T) {
	t.Parallel()
	in, now := viewtest.Many(2000)
	got := serve(t, in, now).transfer("/")
	t.Logf("first visit to a board with 2,000 services: %d bytes", got)
	if got > 100<<10 {
		t.Errorf("%d bytes, want at most %d", got, 100<<10)
	}
}

// BenchmarkBoard measures the time to write a board of 2,000 services, both for the first board and after a change to one service.
func BenchmarkBoard(b *testing.B) {
	in, now := viewtest.Many(2000)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			s := serve(b, in, now)
			s.get("/")
		}
	})
	b.Run("change", func(b *testing.B) {
		s := serve(b, in, now)
		s.get("/")
		for i := 0; b.Loop(); i++ {
			data, _ := s.store.Data()
			o := data.Objects
			o.Microservices = slices.Clone(o.Microservices)
			o.Microservices[7].Spec.Paused = i%2 == 0
			s.store.Set(o)
			s.clock.Step(time.Second)
			s.get("/")
		}
	})
}
