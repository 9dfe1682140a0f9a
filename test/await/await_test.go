package await

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWithin checks that a wait ends as soon as the state is reached. If the state is not reached, the wait must
// return the last error from before the limit.
func TestWithin(t *testing.T) {
	t.Parallel()
	notYet := errors.New("not yet")
	for name, test := range map[string]struct {
		check func(context.Context, time.Duration) error
		limit time.Duration
		want  error
		took  time.Duration
	}{
		"immediately": {func(context.Context, time.Duration) error { return nil }, time.Minute, nil, 0},
		"later": {func(_ context.Context, at time.Duration) error {
			if at < time.Second {
				return notYet
			}
			return nil
		}, time.Minute, nil, 1055 * time.Millisecond},
		"never": {func(context.Context, time.Duration) error { return notYet }, time.Minute, notYet, time.Minute},
		"an interrupted check reports what was observed before": {func(ctx context.Context, at time.Duration) error {
			if at == 0 {
				return notYet
			}
			<-ctx.Done()
			return ctx.Err()
		}, time.Minute, notYet, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := within(t.Context(), test.limit, func(ctx context.Context) error { return test.check(ctx, time.Since(began)) })
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestStatesThatAreThere(t *testing.T) {
	t.Parallel()
	Nil(t, func(context.Context) error { return nil })
	tries := 0
	Until(t, "the third attempt", func() bool { tries++; return tries == 3 })
	values := make(chan int, 1)
	values <- 7
	if got := Receive(t, "a value", values); got != 7 {
		t.Errorf("received %d, want 7", got)
	}
	close(values)
	if got := Receive(t, "the end", values); got != 0 {
		t.Errorf("received %d from a closed channel", got)
	}
}
