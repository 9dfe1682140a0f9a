package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// actTimeout limits an act and the wait for its outcome.
const actTimeout = time.Minute

// repeated is how long the result of a form is kept for a second submission: the second click of a double click may arrive after the
// act of the first one is done.
const repeated = 10 * time.Second

// submissions are the forms that are being executed, and those that were executed just now.
type submissions struct {
	running singleflight.Group
	mu      sync.Mutex
	recent  []submission // oldest first; at most maxDone
}

// submission is a form that was executed.
type submission struct {
	key    string
	result done
	at     time.Time
}

// once executes the act of a form, by a key that contains the reader and all of the form. A form that is submitted twice, as by a double
// click, is one act, whose result both submissions get; it continues if the browser drops the first one. Without an ID of
// the form only submissions at the same time are one: the same act may be wanted again.
func (x *submissions) once(ctx context.Context, id, key string, now func() time.Time, act func(context.Context) (done, error)) (done, error) {
	result, err, _ := x.running.Do(key, func() (any, error) {
		if known, is := x.find(key, now()); is && id != "" {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
		defer cancel()
		result, err := act(ctx)
		if err == nil {
			x.keep(submission{key: key, result: result, at: now()})
		}
		return result, err
	})
	if err != nil {
		return done{}, err
	}
	return result.(done), nil
}

func (x *submissions) find(key string, now time.Time) (done, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.recent, func(s submission) bool { return s.key == key && now.Sub(s.at) < repeated })
	if i < 0 {
		return done{}, false
	}
	return x.recent[i].result, true
}

func (x *submissions) keep(s submission) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent = slices.DeleteFunc(x.recent, func(old submission) bool { return old.key == s.key || s.at.Sub(old.at) >= repeated })
	if len(x.recent) == maxDone {
		x.recent = slices.Delete(x.recent, 0, 1)
	}
	x.recent = append(x.recent, s)
}
