package hook

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
)

// The defaults for hooks.
const (
	defaultTimeout  = 10 * time.Second
	defaultInterval = 10 * time.Second
	defaultRetries  = 3 // for notifications; by default, checks have no retries
)

func timeout(h *v1alpha1.Hook) time.Duration { return min(h.Timeout.Std(defaultTimeout), maxTimeout) }

func interval(h *v1alpha1.Hook) time.Duration {
	return max(time.Second, cmp.Or(h.Interval.Std(0), defaultInterval))
}

func retries(h *v1alpha1.Hook) int {
	switch {
	case polled(h.Type):
		return 0
	case h.Retries != nil:
		return int(*h.Retries)
	case message(h.Type):
		return defaultRetries
	}
	return 0
}

// backOff returns the wait before a retry. The wait begins at one second and doubles with each retry, up to 16
// seconds. A random duration of up to a quarter of the wait is added, so that calls that failed together are not
// retried together.
func backOff(retry int) time.Duration {
	d := time.Second << min(max(retry-1, 0), 4)
	return d + rand.N(d/4)
}

// try repeats a call until the answer is positive or there are no more retries. It returns false if ctx is done.
func (p *Pool) try(ctx context.Context, namespace string, q Call, attempts int, before <-chan struct{}) (Outcome, bool) {
	if before != nil {
		<-before // A canceled delivery also waits, so that when it has ended, all previous deliveries have ended too.
	}
	for retry := 0; ; retry++ {
		if retry > 0 && !sleep(ctx, p.wait(retry)) {
			return Outcome{}, false
		}
		leave, ok := p.slots.Enter(ctx, namespace, q.Hook.URL)
		if !ok {
			return Outcome{}, false
		}
		began := time.Now()
		var answer reply
		if err := contain.Panics(func() error { answer = p.attempt(ctx, namespace, &q); return nil }); err != nil {
			answer = reply{unanswered: true, message: line(err.Error())}
		}
		leave()
		if ctx.Err() != nil {
			return Outcome{}, false
		}
		attempts++
		p.observe(q.Hook.Type, answer.yes, time.Since(began))
		if answer.yes || retry >= retries(&q.Hook) {
			refused := answer.refused && refuses(q.Hook.Type)
			return Outcome{Yes: answer.yes, Refused: refused, Unanswered: answer.unanswered, Attempts: attempts, Message: answer.message, Time: p.now()}, true
		}
	}
}

// attempt makes one call. It reads the credentials each time, so that a corrected Secret takes
// effect.
func (p *Pool) attempt(ctx context.Context, namespace string, q *Call) reply {
	var credentials Credentials
	if q.Hook.SecretRef != nil || q.Hook.CASecretRef != nil {
		read, cancel := context.WithTimeout(ctx, timeout(&q.Hook))
		defer cancel()
		var err error
		if credentials, err = p.credentials(read, namespace, &q.Hook); err != nil {
			return reply{unanswered: true, message: line(err.Error())}
		}
	}
	return p.call(ctx, q, credentials)
}

// sleep returns false if ctx is done before the duration has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
