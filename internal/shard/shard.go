// Package shard divides the namespaces among the replicas of the manager. Each namespace belongs to one shard, and each shard belongs to the
// replica that holds its Lease.
//
// shard.go  the Leases of shards, and which replica takes which shard
// gate.go   restricts a controller to the namespaces of this replica
// lease.go  writes the Lease of a shard, and detects its loss
// turn.go   lets replicas with fewer shards acquire a shard first
//
// A replica holds a shard until its process exits. A replica that loses a Lease cancels the reconciles of that shard, and its process exits.
// Therefore, a running controller never loses a namespace, and the state that it keeps in memory about an object remains valid. To balance the
// shards again, restart the replicas.
package shard

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Max is the maximum number of shards. Each shard has a Lease that its holder renews every two seconds.
const Max = 32

// These durations apply to the Leases. They equal those of controller-runtime's leader election.
const (
	LeaseDuration = 15 * time.Second
	RenewDeadline = 10 * time.Second
	RetryPeriod   = 2 * time.Second
)

// patience, multiplied by the number of shards that a replica already holds, is how long the replica
// waits before it takes a free shard.
const patience = 10 * time.Second

// LeaseName returns the name of the Lease of a shard. Shards are numbered from 0.
func LeaseName(shard int) string { return fmt.Sprintf("shard-%d.manager.hlnr.io", shard) }

// Of returns the shard of a namespace if there are count shards. Objects without a namespace belong to the shard of the empty name.
func Of(namespace string, count int) int {
	h := fnv.New32a()
	h.Write([]byte(namespace)) // never fails
	return int(h.Sum32() % uint32(count))
}

// Options configure Shards.
type Options struct {
	// Count is the number of shards, from 1 to Max. All replicas must use the same number. Change it only while no replica is
	// running, because the shard of a namespace depends on it.
	Count int
	// Namespace is the namespace of the Leases.
	Namespace string
	// Identity identifies this process in the Leases. It must be different for each process, because the Leases of a process that has exited remain
	// until they expire.
	Identity string
	// Leases is a client whose requests time out before RenewDeadline.
	Leases coordinationv1.LeasesGetter
	// Metrics registers the gauges that show which shards this replica holds; nil means no gauges.
	Metrics prometheus.Registerer
}

// Shards contains the shards of all namespaces, and records which of them this replica holds. It is a
// controller-runtime Runnable. A nil *Shards holds every namespace.
type Shards struct {
	Options
	// held contains the tenure of each shard.
	held []tenure
	// Each reconcile locks passes for reading. When the replica shuts down, it locks passes for writing.
	passes sync.RWMutex
	closed atomic.Bool
	turns  *turns
	times  times

	mu    sync.Mutex
	gates []*Gate
}

// tenure is the period in which this replica holds a shard. It begins and ends at most once.
type tenure struct {
	begun atomic.Pointer[time.Time]
	// Context is the parent of the contexts of reconciles. It ends with the tenure.
	context.Context
	end context.CancelCauseFunc
}

func (t *tenure) runs() bool { return t.begun.Load() != nil && t.Err() == nil }

// New returns the shards of this replica. Before Start, the replica holds no shard.
func New(o Options) (*Shards, error) {
	return newShards(o, times{LeaseDuration, RenewDeadline, RetryPeriod, patience})
}

// times are the durations of client-go's leader election, and the patience.
type times struct{ lease, renew, retry, patience time.Duration }

func newShards(o Options, t times) (*Shards, error) {
	if o.Count < 1 || o.Count > Max {
		return nil, fmt.Errorf("%d shards: specify 1 to %d", o.Count, Max)
	}
	s := &Shards{Options: o, held: make([]tenure, o.Count), times: t, turns: newTurns(t.patience)}
	for i := range s.held {
		s.held[i].Context, s.held[i].end = context.WithCancelCause(context.Background())
	}
	if o.Metrics == nil {
		return s, nil
	}
	for i := range s.held {
		gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "heighliner_shard_held",
			Help:        "1 while this replica holds the Lease of a namespace shard, otherwise 0",
			ConstLabels: prometheus.Labels{"shard": fmt.Sprint(i)},
		}, func() float64 {
			if s.held[i].runs() {
				return 1
			}
			return 0
		})
		if err := o.Metrics.Register(gauge); err != nil {
			return nil, fmt.Errorf("register the metric of shard %d: %w", i, err)
		}
	}
	return s, nil
}

// Holds reports whether this replica reconciles the objects of a namespace.
func (s *Shards) Holds(namespace string) bool {
	return s == nil || s.held[Of(namespace, s.Count)].runs()
}

// Since returns the time at which this replica took the shard of a namespace, or zero if it has not taken the shard, or if there are no shards.
func (s *Shards) Since(namespace string) time.Time {
	if s != nil {
		if begun := s.held[Of(namespace, s.Count)].begun.Load(); begun != nil {
			return *begun
		}
	}
	return time.Time{}
}

// HoldsFirst reports whether this replica holds the first shard. That replica does the work that must be done once for all namespaces.
func (s *Shards) HoldsFirst() bool { return s == nil || s.held[0].runs() }

// ErrLost is returned by Start if a Lease could not be renewed. Another replica may then hold the shard, so the process must exit.
var ErrLost = errors.New("the Lease of a shard was lost")

// Start takes shards and holds them until ctx is done, or until a shard is lost. The loss of a shard is an error. In both cases, Start waits for the
// running reconciles to end (after a loss, only briefly) and releases the Leases, so that other replicas continue immediately.
func (s *Shards) Start(ctx context.Context) error {
	// When ctx is done, reconciles may still be running. The Leases are renewed until the last reconcile has
	// ended.
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		s.close()
		release()
	})
	ended := make(chan error, 1) // Only the first error is returned.
	report := func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	var electors sync.WaitGroup
	for i := range s.Count {
		elector, err := s.elector(i, report)
		if err != nil {
			return err
		}
		electors.Go(func() {
			elector.Run(held)
			if held.Err() == nil {
				report(fmt.Errorf("%w: %s", ErrLost, LeaseName(i)))
			}
		})
	}
	select {
	case err := <-ended: // The process exits before other replicas take the lost shard. Until then, it releases the other shards.
		released := make(chan struct{})
		go func() {
			defer close(released)
			s.close()
			release()
			electors.Wait()
		}()
		select {
		case <-released:
		case <-time.After((s.times.lease - s.times.renew - s.times.retry) / 2):
		}
		return err
	case <-ctx.Done():
		electors.Wait()
		return nil
	}
}

// elector returns the elector that takes and renews the Lease of a shard.
func (s *Shards) elector(shard int, failed func(error)) (*leaderelection.LeaderElector, error) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: LeaseName(shard)},
		Client:     s.Leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: s.Identity},
	}
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &patient{Interface: lock, turns: s.turns, lease: s.times.lease, keep: s.times.renew + s.times.retry, idle: s.closed.Load, lost: func() {
			s.held[shard].end(ErrLost)
			failed(fmt.Errorf("%w: %s was not renewed in time, or another replica holds it", ErrLost, LeaseName(shard)))
		}}, Name: LeaseName(shard),
		LeaseDuration: s.times.lease, RenewDeadline: s.times.renew, RetryPeriod: s.times.retry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if err := s.open(ctx, shard); err != nil && ctx.Err() == nil {
					failed(err)
				}
			},
			OnStoppedLeading: func() { s.held[shard].end(ErrLost) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create the leader elector of shard %d: %w", shard, err)
	}
	return e, nil
}

// open allows the reconciles of a shard, and enqueues its objects.
func (s *Shards) open(ctx context.Context, shard int) error {
	s.held[shard].begun.Store(new(time.Now()))
	s.mu.Lock()
	gates := s.gates
	s.mu.Unlock()
	for _, g := range gates {
		if err := g.enqueue(ctx, shard); err != nil {
			return err
		}
	}
	klog.FromContext(ctx).Info("reconciling the namespaces of a shard", "shard", shard, "of", s.Count)
	return nil
}

// close waits until no reconcile is running, and allows none afterwards.
func (s *Shards) close() {
	s.passes.Lock()
	defer s.passes.Unlock()
	s.closed.Store(true)
}

// pass reports whether a reconcile of a namespace may run. It returns the context of the reconcile, which ends when the shard is lost. The
// caller must call leave at the end of the reconcile.
func (s *Shards) pass(ctx context.Context, namespace string) (_ context.Context, leave func(), ok bool) {
	s.passes.RLock()
	held := &s.held[Of(namespace, s.Count)]
	if s.closed.Load() || !held.runs() {
		s.passes.RUnlock()
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return ctx, func() {
		stop()
		cancel(nil)
		s.passes.RUnlock()
	}, true
}
