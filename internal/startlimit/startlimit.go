// Package startlimit limits how many rollouts start at the same time in one manager.
//
// If 1,000 services get a new version at the same moment, the API server and kube-controller-manager need minutes to
// create the pods, and every rollout takes as long as all of them together. With a limit, the first rollouts end after a few
// seconds, and an object that waits for its turn only briefly needs no status write that reports the wait.
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
	// Age is the time after which the admission of an object ends if the object makes no progress, so that rollouts whose pods
	// start slowly do not block others. With progress, an admission lasts for at most maxAges times Age. If admissions ended
	// regardless of progress, more rollouts would start when the API server is slow, and it would become even slower.
	Age time.Duration
	// Clock is the only source of time.
	Clock clock.PassiveClock

	mu       sync.Mutex
	queue    workqueue.TypedRateLimitingInterface[reconcile.Request] // nil before the controller starts
	admitted map[reconcile.Request]admission
	called   map[reconcile.Request]bool // admitted objects that have not asked again yet
	waiting  map[reconcile.Request]bool
	line     []reconcile.Request // in the order of arrival; may contain objects that no longer wait
}

// maxAges limits the duration of an admission, and maxCalledAges the time in which an object must ask after its turn has come, both as a
// multiple of Age.
const maxAges, maxCalledAges = 15, 3

// admission is the admission of one object. sequence is the sequence of the rollout state that the object last reported, or 0.
type admission struct {
	began, ends time.Time
	sequence    int64
}

// Start implements source.Source.
func (l *Limit) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = queue
	return nil
}

// Admit reports whether an object may start now. Otherwise, the object waits in line until it is enqueued, and the caller must ask again after the
// returned duration if the object has not been enqueued by then. Limit has no timer: it detects that an admission has ended after Age only when one
// of its methods is called. An object that was enqueued keeps its turn until it asks, for at most
// maxCalledAges times Age.
func (l *Limit) Admit(object reconcile.Request) (now bool, again time.Duration) {
	if l == nil || l.Max == 0 {
		return true, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance()
	if _, ok := l.admitted[object]; ok {
		if l.called[object] {
			delete(l.called, object)
			l.admit(object) // The object starts only now.
		}
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

// Progress records that the rollout of an object continues, with the current sequence of its rollout state. If the sequence has
// changed, the object remains admitted for Age from now on. Like Leave, Progress removes the object from the line.
func (l *Limit) Progress(object reconcile.Request, sequence int64) {
	l.Leave(object)
	if l == nil || l.Max == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.admitted[object]
	if !ok || a.sequence == sequence {
		return
	}
	a.sequence = sequence
	if limit, next := a.began.Add(maxAges*l.Age), l.Clock.Now().Add(l.Age); next.Before(limit) {
		a.ends = next
	} else {
		a.ends = limit
	}
	l.admitted[object] = a
}

// Decline ends the turn of an object that was enqueued but cannot start now, for example because of a freeze. An object that still
// waits stays in line.
func (l *Limit) Decline(object reconcile.Request) {
	if l == nil || l.Max == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.called[object] {
		return
	}
	delete(l.admitted, object)
	delete(l.called, object)
	l.advance()
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
// of the object has ended or is waiting, for example for a hook, or when the object was deleted.
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
		l.admitted, l.called, l.waiting = map[reconcile.Request]admission{}, map[reconcile.Request]bool{}, map[reconcile.Request]bool{}
	}
	now := l.Clock.Now()
	for object, a := range l.admitted {
		ends := a.ends
		if l.called[object] {
			ends = a.began.Add(maxCalledAges * l.Age)
		}
		if !now.Before(ends) {
			delete(l.admitted, object)
			delete(l.called, object)
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
	now := l.Clock.Now()
	l.admitted[object] = admission{began: now, ends: now.Add(l.Age)}
}
