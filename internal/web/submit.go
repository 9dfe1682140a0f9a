package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// actTimeout limits the duration of an action and of the wait for its outcome.
const actTimeout = time.Minute

// repeated is how long the result of a form is kept for a second submission. The second click of a double-click may arrive after the action of the
// first click has ended.
const repeated = 10 * time.Second

// submissions contains the forms that are being submitted, and those that were submitted recently.
type submissions struct {
	running singleflight.Group
	mu      sync.Mutex
	recent  []submission // oldest first; at most maxDone
}

// submission is a form that was submitted, with its result.
type submission struct {
	key    string
	result done
	at     time.Time
}

// once performs the action of a form. The key contains the reader and all values of the form. If a form is submitted twice, for example by a
// double-click, only one action is performed, and both submissions get its result. The action continues if the browser cancels the first submission.
// If the form has no ID, only concurrent submissions count as one action, because a reader may want to repeat the action later.
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
