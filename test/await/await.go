// Package await lets tests wait for a state, and never for a fixed time.
//
// A wait ends as soon as the state is reached. Its limit is so long that only a failure reaches it, however
// busy the machine is. Therefore, no test uses a shorter limit for waits, or checks the duration of a wait.
//
//	await.go    the waits
//	buffer.go   output that a test reads while a program writes it
package await

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Limit is the time after which a wait fails.
const Limit = 2 * time.Minute

// shortest and longest are the bounds of the pause between two checks. Most states are reached within milliseconds,
// and later checks are less frequent.
const (
	shortest = time.Millisecond
	longest  = 200 * time.Millisecond
)

// Nil waits until check returns nil. If this takes too long, the test fails with the last error of check.
func Nil(t testing.TB, check func(context.Context) error) {
	t.Helper()
	if err := within(t.Context(), Limit, check); err != nil {
		t.Fatalf("after %s: %v", Limit, err)
	}
}

// Until waits until ok returns true. If this takes too long, the test fails, and the message
// describes the expected state with the what parameter, such as "all slots to be taken".
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	missing := errors.New("not observed")
	err := within(t.Context(), Limit, func(context.Context) error {
		if ok() {
			return nil
		}
		return missing
	})
	if err != nil {
		t.Fatalf("wait for %s: not within %s", what, Limit)
	}
}

// Receive returns the next value of a channel, or the zero value if the channel is closed. If this
// takes too long, the test fails with a message that contains what, a description of the value.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case value := <-from:
		return value
	case <-limit.C:
		t.Fatalf("wait for %s: not within %s", what, Limit)
		panic("unreachable")
	}
}

// within calls check repeatedly, and returns nil as soon as check returns nil. After the limit, it returns the
// last error that check returned before the limit.
func within(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := errors.New("the check did not return before the limit")
	for pause := shortest; ; pause = min(2*pause, longest) {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // After the limit, the error would only report the limit.
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(pause):
		}
	}
}

// hang is longer than the duration of any work for which Quick is used, however busy the machine is.
const hang = 30 * time.Second

// Quick starts a timer for work that takes milliseconds, and returns a function that stops the timer. The test
// fails if the timer has run for more than half a minute, because an input that makes the work slow is a bug.
// For example:
//
//	defer await.Quick(t)()
func Quick(t interface {
	Helper()
	Errorf(string, ...any)
}) func() {
	began := time.Now()
	return func() {
		t.Helper()
		if took := time.Since(began); took > hang {
			t.Errorf("the work took %s", took)
		}
	}
}
