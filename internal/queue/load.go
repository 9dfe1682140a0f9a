package queue

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// crowd is the number of objects that wait for a reconcile in one queue under load. With the default number of workers,
	// the last of them waits for about a second.
	crowd = 50
	// patience is how many times longer reports of progress may be delayed under load.
	patience = 6
)

// Load recognizes that the controllers of this process have more work than they can do soon, such as when a
// thousand services are upgraded at the same time. Steps then take longer than usual, and each status that only reports
// progress would delay them further.
//
// Each controller watches the Load as a Source, which adds its queue. The zero value is ready to use. A nil Load has no queues.
type Load struct {
	mu     sync.RWMutex
	queues []interface{ Len() int }
}

// Start adds the queue of a controller. It implements source.Source.
func (l *Load) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues = append(l.queues, queue)
	return nil
}

// Factor returns the factor by which a report that only shows progress may be later than usual: 1, or 6 if more than 50 objects
// wait in one of the queues.
func (l *Load) Factor() int {
	if l == nil {
		return 1
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, queue := range l.queues {
		if queue.Len() > crowd {
			return patience
		}
	}
	return 1
}

// Patience returns how long a report that only shows progress may be delayed, given how long it may usually be delayed.
func (l *Load) Patience(usually time.Duration) time.Duration {
	return usually * time.Duration(l.Factor())
}
