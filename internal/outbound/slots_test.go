package outbound

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fits reports whether a slot is free now. It needs the fake time of a synctest bubble.
func fits(t *testing.T, p *Slots, namespace, address string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	leave, ok := p.Enter(ctx, namespace, address)
	if ok {
		leave()
	}
	return ok
}

// TestSlots checks that the requests of one namespace and the requests to one host leave slots for others.
func TestSlots(t *testing.T) {
	t.Parallel()
	bounds := Bounds{All: 8, Namespace: 4, Host: 4, NamespaceHost: 2}
	type ask struct{ namespace, address string }
	hosts := func(namespace string, n int) (asks []ask) {
		for i := range n {
			asks = append(asks, ask{namespace, fmt.Sprintf("http://%s-%d.example/", namespace, i)})
		}
		return asks
	}
	for name, test := range map[string]struct {
		bounds Bounds
		taken  []ask
		next   ask
		want   bool
	}{
		"nothing":                            {bounds, nil, ask{"a", "http://x"}, true},
		"below the limit for the host":       {bounds, []ask{{"a", "http://x"}}, ask{"a", "http://x"}, true},
		"at the limit for the host":          {bounds, []ask{{"a", "http://x"}, {"a", "http://x"}}, ask{"a", "http://x"}, false},
		"on other ports":                     {bounds, []ask{{"a", "http://x:1"}, {"a", "https://x:2/p"}}, ask{"a", "http://x"}, false},
		"in a different letter case":         {bounds, []ask{{"a", "http://Xy"}, {"a", "http://xY."}}, ask{"a", "http://xy"}, false},
		"at another host":                    {bounds, []ask{{"a", "http://x"}, {"a", "http://x"}}, ask{"a", "http://y"}, true},
		"of another namespace":               {bounds, []ask{{"a", "http://x"}, {"a", "http://x"}}, ask{"b", "http://x"}, true},
		"all of the host":                    {bounds, []ask{{"a", "http://x"}, {"a", "http://x"}, {"b", "http://x"}, {"b", "http://x"}}, ask{"c", "http://x"}, false},
		"all of the namespace":               {bounds, hosts("a", 4), ask{"a", "http://x"}, false},
		"all of another namespace":           {bounds, hosts("a", 4), ask{"b", "http://a-0.example"}, true},
		"all":                                {bounds, append(hosts("a", 4), hosts("b", 4)...), ask{"c", "http://x"}, false},
		"not a URL":                          {bounds, []ask{{"a", "::"}, {"a", "::"}}, ask{"a", "::"}, false},
		"bounds of 0 are 1, none taken":      {Bounds{}, nil, ask{"a", "http://x"}, true},
		"bounds of 0 are 1, one taken":       {Bounds{}, []ask{{"a", "http://x"}}, ask{"b", "http://y"}, false},
		"no namespace, share used":           {bounds, hosts("", 4), ask{"", "http://x"}, false},
		"no namespace, share of a namespace": {bounds, hosts("", 4), ask{"a", "http://x"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := NewSlots(test.bounds)
				var leave []func()
				for _, a := range test.taken {
					gone, ok := p.Enter(t.Context(), a.namespace, a.address)
					if !ok {
						t.Fatalf("no slot for %+v", a)
					}
					leave = append(leave, gone)
				}
				if got := fits(t, p, test.next.namespace, test.next.address); got != test.want {
					t.Errorf("a slot: %t, want %t", got, test.want)
				}
				if got := p.Taken(); got != len(test.taken) {
					t.Errorf("%d slots are taken, want %d", got, len(test.taken))
				}
				for _, gone := range leave {
					gone()
				}
				if !fits(t, p, test.next.namespace, test.next.address) {
					t.Error("no slot after all slots have been released")
				}
				if len(p.shares) != 0 {
					t.Errorf("%d shares remain", len(p.shares))
				}
			})
		})
	}
}

// TestSlotsOfEndedContexts checks that a request whose context is done takes no slot, and that a waiting request gets the next slot.
func TestSlotsOfEndedContexts(t *testing.T) {
	t.Parallel()
	p := NewSlots(Bounds{All: 1})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := p.Enter(ended, "a", "http://x"); ok {
		t.Error("a slot for a context that is done")
	}
	leave, ok := p.Enter(t.Context(), "a", "http://x")
	if !ok {
		t.Fatal("no slot")
	}
	var waiting sync.WaitGroup
	for i := range 20 {
		waiting.Go(func() {
			if next, ok := p.Enter(t.Context(), fmt.Sprint(i%3), fmt.Sprint("http://", i%4)); !ok {
				t.Error("no slot for a request that waits")
			} else {
				next()
			}
		})
	}
	leave()
	waiting.Wait()
	if len(p.shares) != 0 {
		t.Errorf("%d shares remain", len(p.shares))
	}
}

func TestHostOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://a.example/b":           "a.example",
		"https://A.Example.:8443/b?c":  "a.example",
		"http://user@a.example:1":      "a.example",
		"http://[::1]:80/":             "::1",
		"http://[0:0::0:1]/":           "::1",
		"http://[::ffff:127.0.0.1]:80": "127.0.0.1",
		"http://127.0.0.1:80":          "127.0.0.1",
		"/path":                        "/path",
		"http://[":                     "http://[",
		"":                             "",
	} {
		if got := HostOf(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
