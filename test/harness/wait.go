package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	defaultWait = 2 * time.Minute
	defaultPoll = 200 * time.Millisecond
)

// Poll checks a condition once. done ends the wait, and detail describes the observed state. A failed check
// is repeated unless Permanent wraps its error, because servers restart and objects may not exist yet.
type Poll func(ctx context.Context) (done bool, detail string, err error)

// Waiter waits for conditions. The zero value is ready to use.
type Waiter struct {
	// Every is the time between two checks. Defaults to 200ms.
	Every time.Duration
	// Progress receives each detail that differs from the previous detail. It may be nil.
	Progress func(what, detail string, elapsed time.Duration)
}

// WaitFor waits with the zero Waiter.
func WaitFor(ctx context.Context, what string, poll Poll) error {
	return Waiter{}.For(ctx, what, poll)
}

// For calls poll immediately and then repeatedly, until poll is done, its error is permanent, or ctx ends. If
// ctx has no deadline, the wait ends after two minutes. The error contains the value of the what parameter
// and the last detail.
func (w Waiter) For(ctx context.Context, what string, poll Poll) error {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultWait)
		defer cancel()
	}
	every := w.Every
	if every <= 0 {
		every = defaultPoll
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()

	began, seen := time.Now(), "nothing"
	for {
		done, detail, err := poll(ctx)
		var permanent *permanentError
		switch {
		case errors.As(err, &permanent):
			return fmt.Errorf("wait for %s: %w", what, err)
		case err == nil && done:
			return nil
		case err != nil && ctx.Err() == nil: // After the deadline, the error would only report the deadline.
			detail = err.Error()
		}
		if detail != "" && detail != seen {
			seen = detail
			w.report(what, detail, time.Since(began))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: stopped after %s, last seen: %s: %w", what, time.Since(began).Round(time.Millisecond), seen, ctx.Err())
		}
	}
}

func (w Waiter) report(what, detail string, elapsed time.Duration) {
	if w.Progress != nil {
		w.Progress(what, detail, elapsed)
	}
}

type permanentError struct{ cause error }

func (e *permanentError) Error() string { return e.cause.Error() }
func (e *permanentError) Unwrap() error { return e.cause }

// Permanent marks an error so that the wait ends immediately if a Poll returns it. It returns nil
// for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{cause: err}
}
