package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWaiter(t *testing.T) {
	cause := errors.New("spec refused")
	for name, test := range map[string]struct {
		poll      func(check int) (bool, string, error)
		deadline  time.Duration
		took      time.Duration
		progress  []string
		wantError string
		wantCause error
	}{
		"immediately": {poll: func(int) (bool, string, error) { return true, "", nil }},
		"after progress": {
			poll: func(check int) (bool, string, error) { return check == 4, fmt.Sprintf("%d of 2 pods", check/2), nil },
			took: 800 * time.Millisecond, progress: []string{"shop 0 of 2 pods 0s", "shop 1 of 2 pods 400ms"},
		},
		"errors pass": {
			poll: func(check int) (bool, string, error) {
				if check < 2 {
					return false, "", errors.New("connection refused")
				}
				return true, "", nil
			},
			took: 400 * time.Millisecond, progress: []string{"shop connection refused 0s"},
		},
		"done does not hide an error": {
			poll:     func(check int) (bool, string, error) { return true, "", errors.New("stale") },
			deadline: time.Second, took: time.Second, progress: []string{"shop stale 0s"},
			wantError: "wait for shop: stopped after 1s, last seen: stale: context deadline exceeded", wantCause: context.DeadlineExceeded,
		},
		"permanent": {
			poll:      func(int) (bool, string, error) { return false, "", fmt.Errorf("apply: %w", Permanent(cause)) },
			wantError: "wait for shop: apply: spec refused", wantCause: cause,
		},
		"default deadline": {
			poll: func(int) (bool, string, error) { return false, "no pod", nil },
			took: 2 * time.Minute, progress: []string{"shop no pod 0s"},
			wantError: "wait for shop: stopped after 2m0s, last seen: no pod: context deadline exceeded", wantCause: context.DeadlineExceeded,
		},
		"nothing seen": {
			poll:     func(int) (bool, string, error) { return false, "", nil },
			deadline: 500 * time.Millisecond, took: 500 * time.Millisecond,
			wantError: "wait for shop: stopped after 500ms, last seen: nothing: context deadline exceeded", wantCause: context.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				var progress []string
				waiter := Waiter{Progress: func(what, detail string, elapsed time.Duration) {
					progress = append(progress, fmt.Sprint(what, " ", detail, " ", elapsed))
				}}
				began, check := time.Now(), -1
				err := waiter.For(ctx, "shop", func(context.Context) (bool, string, error) {
					check++
					return test.poll(check)
				})
				if took := time.Since(began); took != test.took {
					t.Errorf("took %s, want %s", took, test.took)
				}
				if diff := cmp.Diff(test.progress, progress); diff != "" {
					t.Errorf("progress (-want +got):\n%s", diff)
				}
				if !errors.Is(err, test.wantCause) || err != nil && err.Error() != test.wantError {
					t.Errorf("error is %v, want %q", err, test.wantError)
				}
			})
		})
	}
	if Permanent(nil) != nil {
		t.Error("Permanent(nil) is an error")
	}
}
