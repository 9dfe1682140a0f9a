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

	"github.com/heighliner/heighliner/apis/v1alpha1"
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

// follow opens a page of a server, and then its stream.
func follow(t *testing.T, server *httptest.Server, s *Server, path string) *follower {
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

// serveHTTP serves a story with the real time.
func serveHTTP(t *testing.T, name string) (*httptest.Server, *board) {
	t.Helper()
	b := story(t, name)
	server := httptest.NewUnstartedServer(nil)
	s, err := New(Options{Store: b.store, Acts: b.acts, Token: token, Hosts: []string{server.Listener.Addr().String()}, Title: "kind", Version: "v1", Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	b.Server = s
	server.Config.Handler = s
	server.Config.ReadTimeout = 50 * time.Millisecond // streams last longer
	server.Start()
	t.Cleanup(server.Close)
	return server, b
}

// TestStream: an open board gets the rows that changed, were added and were removed, and nothing else.
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

// TestStreamOfGone: the open page of a service that is deleted loads again, where it shows why, and its stream ends.
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

// TestStreamOfOutage: an outage, and its end, reach open pages.
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

// TestCut: the goroutine of a stream whose reader leaves ends, and its slot is free again.
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

// TestLongStream: a stream outlives the limit of reading a request many times.
func TestLongStream(t *testing.T) {
	t.Parallel()
	server, b := serveHTTP(t, "active")
	f := follow(t, server, b.Server, "/")
	for i := range 5 {
		data, _ := b.store.Data()
		o := data.Objects
		ms := *o.Microservices[0].DeepCopy()
		ms.Spec.Paused = i%2 == 0
		o.Microservices = []v1alpha1.Microservice{ms}
		b.store.Set(o)
		if e := await.Receive(t, "a change", f.events); e.name != "patch" {
			t.Fatalf("change %d: %+v", i, e)
		}
	}
}
