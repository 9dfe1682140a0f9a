// Package startlimit limits how many rollouts start at the same time in one manager.
//
// If 1,000 services get a new version at the same moment, the API server and kube-controller-manager need minutes to
// create the pods, and every rollout takes as long as all of them together. With a limit, the first rollouts end after
// seconds, and no status has to report that a rollout is only waiting for its turn.
package startlimit

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Limit admits a limited number of objects at a time. The others wait in line, and are enqueued when it is their turn. It
// is a source of the controller whose objects it admits. Nothing is stored: after a restart, objects that have not started
// ask again. The zero value and nil admit every object.
type Limit struct {
	// Max is the number of objects that are admitted at a time. 0 means no limit.
	Max int
	// Age is the maximum time for which an object is admitted, so that slow rollouts do not block others.
	Age time.Duration
	// Clock is the only source of time.
	Clock clock.PassiveClock

	mu       sync.Mutex
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request] // nil before the controller starts
	admitted map[reconcile.Request]time.Time                         // the end of each admission
	called   map[reconcile.Request]bool                              // objects whose turn has come, but that have not asked again yet
	waiting  map[reconcile.Request]bool
	line     []reconcile.Request // in the order of arrival; may contain objects that no longer wait
}

// Start implements source.Source.
func (l *Limit) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = queue
	return nil
}

// Admit reports whether an object may start now. Otherwise the object waits in line until it is enqueued. The caller must then ask again after the
// returned duration. Limit has no timer: it detects that an admission has ended after Age only when one of its methods is called. An object that
// was enqueued keeps its turn until it asks, even if that takes longer than Age.
func (l *Limit) Admit(object reconcile.Request) (now bool, again time.Duration) {
	if l == nil || l.Max == 0 {
		return true, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	if _, ok := l.admitted[object]; ok || l.called[object] {
		delete(l.called, object)
		return true, 0
	}
	if len(l.admitted) < l.Max { // The line is empty, because advance admits from it first.
		l.admit(object)
		return true, 0
	}
	if !l.waiting[object] {
		l.waiting[object] = true
		l.line = append(l.line, object)
	}
	return false, l.Age * time.Duration(1+slices.Index(l.line, object)/l.Max)
}

// Leave removes from the line an object that no longer needs to wait. It does not end an admission.
func (l *Limit) Leave(object reconcile.Request) {
	if l == nil || l.Max == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, object)
	delete(l.called, object)
}

// Done ends the admission of an object, or its wait, and admits the next objects in line. The caller calls it when the rollout
// of the object has ended or is waiting, or when the object was deleted.
func (l *Limit) Done(object reconcile.Request) {
	if l == nil || l.Max == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.admitted, object)
	delete(l.waiting, object)
	delete(l.called, object)
	l.advance()
}

// Counts returns the numbers of admitted and waiting objects.
func (l *Limit) Counts() (admitted, waiting int) {
	if l == nil || l.Max == 0 {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	return len(l.admitted), len(l.waiting)
}

// advance ends admissions that are too old, and admits and enqueues objects from the line while there is room.
func (l *Limit) advance() {
	if l.admitted == nil {
		l.admitted, l.called, l.waiting = map[reconcile.Request]time.Time{}, map[reconcile.Request]bool{}, map[reconcile.Request]bool{}
	}
	now := l.Clock.Now()
	for object, until := range l.admitted {
		if !now.Before(until) {
			delete(l.admitted, object)
		}
	}
	for len(l.line) > 0 && len(l.admitted) < l.Max {
		next := l.line[0]
		l.line = l.line[1:]
		if !l.waiting[next] {
			continue
		}
		delete(l.waiting, next)
		l.admit(next)
		l.called[next] = true
		if l.queue != nil {
			l.queue.Add(next)
		}
	}
	if len(l.line) == 0 {
		l.line = nil // frees the array
	}
}

func (l *Limit) admit(object reconcile.Request) {
	l.admitted[object] = l.Clock.Now().Add(l.Age)
}
