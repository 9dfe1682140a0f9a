package registry

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// TestPaceOfABody checks that a response below the minimum rate is aborted, and that a slow response above this rate
// is not.
func TestPaceOfABody(t *testing.T) {
	for name, tc := range map[string]struct {
		windows []int // bytes in each window
		want    error
	}{
		"quick":                 {[]int{5}, io.EOF},
		"at the minimum":        {[]int{paceBytes, paceBytes, paceBytes, paceBytes, 1}, io.EOF},
		"nothing":               {[]int{0, 0}, errTooSlow},
		"a trickle":             {[]int{paceBytes - 1, 0}, errTooSlow},
		"a lot, then a trickle": {[]int{100 * paceBytes, 10, 0}, errTooSlow},
		"a lot, then nothing":   {[]int{100 * paceBytes, paceBytes, 0, 0}, errTooSlow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := newClock()
			out, in := io.Pipe()
			ctx, cancel := context.WithCancelCause(t.Context())
			context.AfterFunc(ctx, func() { in.CloseWithError(context.Canceled) }) // as a transport does
			body := &boundedBody{ReadCloser: out, left: 1 << 30, elements: 1 << 30, ctx: ctx, cancel: cancel}
			go body.watch(clock)
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, body)
				if err == nil {
					err = io.EOF
				}
				done <- err
			}()
			sent := 0
			for i, n := range tc.windows {
				if i > 0 {
					await.Until(t, "the body is watched", func() bool { return clock.HasWaiters() || ctx.Err() != nil })
					clock.Step(paceWindow)
					await.Until(t, "the window is checked", func() bool { return clock.HasWaiters() || ctx.Err() != nil })
				}
				if _, err := io.WriteString(in, strings.Repeat(" ", n)); err != nil {
					break
				}
				sent += n
				await.Until(t, "the bytes are read", func() bool { return int(body.total.Load()) == sent })
			}
			if ctx.Err() == nil { // Otherwise, the transport ends the read, which may happen later.
				in.Close()
			}
			if err := <-done; !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			body.Close()
			await.Until(t, "nothing is watched", func() bool { return !clock.HasWaiters() })
		})
	}
}

// TestListEndsASlowAnswer checks that a request ends long before its timeout if the registry begins a response and then sends
// no more data.
func TestListEndsASlowAnswer(t *testing.T) {
	t.Parallel()
	clock, server := newClock(), registrytest.New(t)
	server.Fail(registrytest.List, -1, registrytest.Slow())
	done := make(chan error, 1)
	go func() {
		_, err := scannerAt(clock).List(t.Context(), Request{Repository: server.Repository("acme/web"), Timeout: time.Hour})
		done <- err
	}()
	var err error
	await.Until(t, "the list ends", func() bool {
		select {
		case err = <-done:
			return true
		default:
			if clock.HasWaiters() {
				clock.Step(paceWindow)
			}
			return false
		}
	})
	if KindOf(err) != Unreachable || !strings.Contains(err.Error(), "too slow") {
		t.Errorf("kind %q: %v", KindOf(err), err)
	}
}
