package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/test/await"
)

// follower is an open page.
type follower struct {
	events chan sent
	cancel context.CancelFunc
}

type sent struct{ name, data string }

// follow opens a page of a server, and then the stream of the page.
func follow(t testing.TB, server *httptest.Server, s *Server, path string) *follower {
	t.Helper()
	do := func(ctx context.Context, target string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.Token)
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	page := do(t.Context(), path)
	var b strings.Builder
	if _, err := bufio.NewReader(page.Body).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	_ = page.Body.Close()
	ctx, cancel := context.WithCancel(t.Context())
	q := url.Values{"page": {attrOf(t, b.String(), "body", "data-page", "data-page")}, "state": {attrOf(t, b.String(), "body", "data-page", "data-state")}}
	response := do(ctx, "/live?"+q.Encode())
	if response.StatusCode != http.StatusOK {
		t.Fatalf("stream: %s", response.Status)
	}
	f := &follower{events: make(chan sent, 100), cancel: cancel}
	go func() {
		defer response.Body.Close()
		defer close(f.events)
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 8<<20)
		var e sent
		for lines.Scan() {
			switch k, v, _ := strings.Cut(lines.Text(), ": "); k {
			case "event":
				e.name = v
			case "data":
				e.data = v
			case "":
				if e.name != "" {
					f.events <- e
				}
				e = sent{}
			}
		}
	}()
	return f
}

// serveHTTP serves a story with the real clock.
func serveHTTP(t testing.TB, name string) (*httptest.Server, *board) {
	t.Helper()
	b := story(t, name)
	return b.listen(t), b
}

// listen serves a board over HTTP, with the real clock.
func (b *board) listen(t testing.TB) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	s, err := New(Options{Store: b.store, Acts: b.acts, Token: token, Hosts: []string{server.Listener.Addr().String()}, Title: "kind", Version: "v1", Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	b.Server = s
	server.Config.Handler = s
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// TestStream checks that an open board gets the changed, added and removed rows, and nothing else.
func TestStream(t *testing.T) {
	t.Parallel()
	server, b := serveHTTP(t, "approval")
	f := follow(t, server, b.Server, "/")
	other := viewtest.Stories()[slices.IndexFunc(viewtest.Stories(), func(s viewtest.Story) bool { return s.Name == "active" })].Input
	data, _ := b.store.Data()
	o := data.Objects
	ms := *o.Microservices[0].DeepCopy()
	ms.Spec.Paused = true
	added := *other.Microservices[0].DeepCopy()
	added.Name = "zoo"
	o.Microservices = slices.Clone(o.Microservices)
	o.Microservices[0] = ms
	o.Microservices = append(o.Microservices, added)
	b.store.Set(o)
	var p patch
	e := await.Receive(t, "the change", f.events)
	if err := json.Unmarshal([]byte(e.data), &p); err != nil || e.name != "patch" {
		t.Fatalf("%+v %v", e, err)
	}
	ids := map[string]element{}
	for _, x := range p.Set {
		ids[x.ID] = x
	}
	if row := ids["s-shop.shop"]; !strings.Contains(row.HTML, "paused") || row.Parent != "services" {
		t.Errorf("row %+v", row)
	}
	if row := ids["s-shop.zoo"]; row.After != "s-shop.shop" || !strings.Contains(row.HTML, "zoo") {
		t.Errorf("row %+v", row)
	}
	if counts := ids["counts"]; !strings.Contains(counts.HTML, "<b>2</b>") {
		t.Errorf("counts %+v", counts)
	}
	o.Microservices = slices.Clone(o.Microservices[:1])
	b.store.Set(o)
	p = patch{}
	if err := json.Unmarshal([]byte(await.Receive(t, "the removal", f.events).data), &p); err != nil || !slices.Equal(p.Gone, []string{"s-shop.zoo"}) {
		t.Errorf("%+v %v", p, err)
	}
}

// TestStreamOfGone checks that the page of a deleted service is loaded again and shows the reason, and that its stream ends.
func TestStreamOfGone(t *testing.T) {
	t.Parallel()
	server, b := serveHTTP(t, "active")
	f := follow(t, server, b.Server, "/services/shop/shop")
	b.store.Set(cluster.Objects{})
	if e := await.Receive(t, "the removal", f.events); e.name != "stale" {
		t.Errorf("%+v", e)
	}
	await.Until(t, "the end", func() bool {
		select {
		case _, open := <-f.events:
			return !open
		default:
			return false
		}
	})
}

// TestStreamOfOutage checks that open pages are notified of an outage, and of its end.
func TestStreamOfOutage(t *testing.T) {
	t.Parallel()
	server, b := serveHTTP(t, "active")
	f := follow(t, server, b.Server, "/services/shop/shop")
	b.store.SetOutage(&cluster.Outage{Since: time.Unix(0, 0), Cause: "connection refused"})
	if e := await.Receive(t, "the outage", f.events); !strings.Contains(e.data, "connection refused") {
		t.Errorf("%+v", e)
	}
	b.store.SetOutage(nil)
	if e := await.Receive(t, "its end", f.events); strings.Contains(e.data, "connection refused") || !strings.Contains(e.data, "banner") {
		t.Errorf("%+v", e)
	}
}

// TestCut checks that the goroutine of a stream ends when its reader disconnects, and releases its slot.
func TestCut(t *testing.T) {
	server, b := serveHTTP(t, "active")
	server.Client().CloseIdleConnections()
	before := runtime.NumGoroutine()
	var all []*follower
	for range 20 {
		all = append(all, follow(t, server, b.Server, "/"))
	}
	if n := len(b.streams); n != 20 {
		t.Errorf("%d streams", n)
	}
	for _, f := range all {
		f.cancel()
	}
	await.Until(t, "the end of the streams", func() bool {
		server.Client().CloseIdleConnections()
		return len(b.streams) == 0 && runtime.NumGoroutine() <= before+5
	})
}

// deadlines records the deadlines that a handler sets for its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

// SetReadDeadline is called by [http.ResponseController].
func (d *deadlines) SetReadDeadline(t time.Time) error { d.read = append(d.read, t); return nil }

// SetWriteDeadline is called by [http.ResponseController].
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = append(d.write, t); return nil }

// TestStreamLimits checks that the read deadline of a request does not end a stream, and that each write has its own
// deadline.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	b := story(t, "active")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the reader disconnects after the first write
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/live?page=%2F", nil)
	r.Host = host
	r.Header.Set("Authorization", "Bearer "+token)
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	b.ServeHTTP(w, r)
	if len(w.read) != 1 || !w.read[0].IsZero() {
		t.Errorf("read deadlines %v", w.read)
	}
	if len(w.write) != 1 || !w.write[0].Equal(b.clock.Now().Add(takeTimeout)) {
		t.Errorf("write deadlines %v", w.write)
	}
	if got := w.Body.String(); !strings.HasPrefix(got, "event: stale\nid: ") || len(b.streams) != 0 {
		t.Errorf("%q, %d streams", got, len(b.streams))
	}
}

// BenchmarkOpenBoards measures the time from a change to one of 2,000 services until fifty open boards receive it, and the
// size of the heap that contains the server, the objects and the readers.
func BenchmarkOpenBoards(b *testing.B) {
	const boards = 50
	in, now := viewtest.Many(2000)
	s := serve(b, in, now)
	server := s.listen(b)
	var all []*follower
	for range boards {
		all = append(all, follow(b, server, s.Server, "/"))
	}
	for i := 0; b.Loop(); i++ {
		data, _ := s.store.Data()
		o := data.Objects
		o.Microservices = slices.Clone(o.Microservices)
		o.Microservices[7].Spec.Paused = i%2 == 0
		s.store.Set(o)
		for _, f := range all {
			for e := (sent{}); !strings.Contains(e.data, "s-shop."+o.Microservices[7].Name); {
				if e = await.Receive(b, "the change", f.events); e.name == "" {
					b.Fatal("a stream ended")
				}
			}
		}
	}
	b.StopTimer()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
	for _, f := range all {
		f.cancel()
	}
}
