package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// slowFreezes delays the creation of a freeze, and rejects each further freeze, as the API server does.
type slowFreezes struct {
	*fakeActs
	calls      atomic.Int32
	begun, end chan struct{}
}

func (f *slowFreezes) Freeze(ctx context.Context, x Freeze) (Outcome, error) {
	if f.calls.Add(1) > 1 {
		return Outcome{}, &Problem{Status: http.StatusConflict, Title: "This is not possible now", Text: `Freeze "freeze" exists`}
	}
	close(f.begun)
	<-f.end
	return f.fakeActs.Freeze(ctx, x)
}

// TestDoubleSubmissionOfAFreeze checks that, if the form for a freeze is submitted twice at the same time, for example by a double-click, one freeze
// is created, and both submissions show its result.
func TestDoubleSubmissionOfAFreeze(t *testing.T) {
	t.Parallel()
	synctest.Test(t, doubleSubmissionOfAFreeze)
}

func doubleSubmissionOfAFreeze(t *testing.T) {
	b := story(t, "active")
	slow := &slowFreezes{fakeActs: b.acts, begun: make(chan struct{}), end: make(chan struct{})}
	b.Server.Acts = slow
	values := url.Values{"namespace": {"shop"}, "until": {"4h"}, "reason": {"fair"}}
	first, second := make(chan int, 1), make(chan int, 1)
	go func() { first <- b.request("POST", "/freezes/freeze", values).Code }()
	<-slow.begun
	go func() { second <- b.request("POST", "/freezes/freeze", values).Code }()
	synctest.Wait() // The second submission waits for the first one, or has ended.
	close(slow.end)
	if x, y := <-first, <-second; x != http.StatusSeeOther || y != http.StatusSeeOther || slow.calls.Load() != 1 {
		t.Errorf("%d, %d, %d freezes", x, y, slow.calls.Load())
	}
}

// TestDoubleClick covers a double-click whose second click arrives after the action of the first click has ended, because the action takes
// less time than the double-click. The same form, identified by its id, shows the result of its action, and not an error.
func TestDoubleClick(t *testing.T) {
	t.Parallel()
	b := rollbacks(t)
	const path = "/services/shop/shop/acts/rollback"
	show := b.acts.preview
	b.acts.preview = func(a Act) Outcome {
		o := show(a)
		if len(b.acts.done) > 0 {
			o.Text += "; this replaces the pin to " + b.acts.done[0].Target // in the same words as hlnr
		}
		return o
	}
	f := only(t, b.get(path))
	for i := range 2 {
		w := b.request("POST", path, f.values)
		if w.Code != http.StatusSeeOther || len(b.acts.done) != 1 {
			t.Errorf("submission %d of one form: %d, %d acts, %q", i+1, w.Code, len(b.acts.done), firstLine(textOf(t, w.Body.String())))
		}
	}
}

// TestPinDuringAFreeze checks that, if a pin is waiting for the end of a freeze, its result and its preview show the
// freeze.
func TestPinDuringAFreeze(t *testing.T) {
	t.Parallel()
	b := rollbacks(t)
	const path, freeze = "/services/shop/shop/acts/rollback", `Freeze "fair", until 2030-01-04T08:00:00Z ("trade fair")`
	show := b.acts.preview
	b.acts.freeze = freeze
	b.acts.preview = func(a Act) Outcome {
		o := show(a)
		o.Frozen = freeze
		return o
	}
	page := b.get(path)
	if text := textOf(t, page); !strings.Contains(text, freeze) {
		t.Errorf("the preview does not name the freeze: %s", firstLine(text))
	}
	w := b.request("POST", path, only(t, page).values)
	if text := textOf(t, b.get(w.Header().Get("Location"))); !strings.Contains(text, "nothing new starts until the freeze ends: "+freeze) {
		t.Errorf("the result does not name the freeze: %d %s", w.Code, firstLine(text))
	}
}

// TestFreezeAgain checks that the same freeze can be created again some time later, even from an old page.
func TestFreezeAgain(t *testing.T) {
	t.Parallel()
	b := story(t, "active")
	values := url.Values{"namespace": {"shop"}, "until": {"4h"}, "reason": {"fair"}, "id": {"a"}}
	for range 2 {
		b.request("POST", "/freezes/freeze", values)
	}
	b.clock.Step(repeated)
	b.request("POST", "/freezes/freeze", values)
	values.Del("id") // as in a request from a program, which has no form
	for range 2 {
		b.request("POST", "/freezes/freeze", values)
	}
	if n := len(b.acts.frozen); n != 4 {
		t.Errorf("%d freezes from five requests, of which the second repeats the first", n)
	}
}

func firstLine(s string) string {
	if i := strings.Index(s, "The preview"); i >= 0 {
		s = s[i:]
	}
	return s[:min(len(s), 120)]
}
