package shard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m, apiserver.Options{Empty: true}, &env)) }

func TestOf(t *testing.T) {
	for _, count := range []int{1, 2, 3, 7, Max} {
		sizes := make([]int, count)
		for i := range 1000 * count {
			sizes[Of(fmt.Sprintf("namespace-%d", i), count)]++
		}
		for shard, size := range sizes {
			if size < 800 || size > 1200 {
				t.Errorf("of %d shards, shard %d has %d of %d namespaces", count, shard, size, 1000*count)
			}
		}
	}
	// If the hash changed, two replicas of different versions could reconcile the same namespace.
	for namespace, want := range map[string]int{"": 1, "default": 0, "shop": 2, "kube-system": 2} {
		if got := Of(namespace, 3); got != want {
			t.Errorf("%q is in shard %d of 3, want %d", namespace, got, want)
		}
	}
}

func TestNilHoldsEverything(t *testing.T) {
	var s *Shards
	if !s.Holds("shop") || !s.HoldsFirst() || !s.Since("shop").IsZero() {
		t.Error("nil does not hold a namespace")
	}
	called := 0
	gate := s.Gate(nil, nil)
	r := gate.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		called++
		return reconcile.Result{}, nil
	}))
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil || called != 1 {
		t.Errorf("it reconciled %d times: %v", called, err)
	}
	if err := gate.Start(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestNewRefusesCounts(t *testing.T) {
	for _, count := range []int{-1, 0, Max + 1} {
		if _, err := New(Options{Count: count}); err == nil {
			t.Errorf("%d shards are accepted", count)
		}
	}
}

// TestTurns checks that a replica takes its first shard immediately, and delays each further shard by the given patience, so that three replicas that
// start at the same time get the same number of shards.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			holder = map[int]int{}
			at     = map[int][]time.Duration{}
			taken  = errors.New("another replica holds it")
			began  = time.Now()
			all    sync.WaitGroup
		)
		for replica := range 3 {
			turns := newTurns(10 * time.Second)
			for shard := range 6 {
				all.Go(func() {
					err := turns.take(t.Context(), time.Now(), func() error {
						mu.Lock()
						defer mu.Unlock()
						if _, held := holder[shard]; held {
							return taken
						}
						holder[shard] = replica
						at[replica] = append(at[replica], time.Since(began))
						return nil
					})
					if err != nil && !errors.Is(err, taken) {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		for replica := range 3 {
			if want := []time.Duration{0, 10 * time.Second}; !slices.Equal(at[replica], want) {
				t.Errorf("replica %d took shards after %v, want %v", replica, at[replica], want)
			}
		}
	})
}

func TestTurnEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(time.Hour)
		turns.held = 1
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := turns.take(ctx, time.Now(), func() error { t.Error("it was taken"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// replica is a process that takes shards.
type replica struct {
	*Shards
	*testing.T
	// cut makes all requests fail while it is true.
	cut atomic.Bool
	// slow, while it is true, makes writes time out, and makes reads take nearly as long as the
	// timeout.
	slow atomic.Bool
	// reads counts the reads that got a response.
	reads atomic.Int32
	stop  context.CancelFunc
	done  chan error
}

// start starts a replica. Its Leases are valid for as long as those of the manager, so that a busy machine does not make it
// lose them.
func start(t *testing.T, namespace, name string, count int) *replica {
	t.Helper()
	return startWith(t, namespace, name, count, 100*time.Millisecond)
}

// startWith starts a replica with the given time between two renewals or attempts.
func startWith(t *testing.T, namespace, name string, count int, retry time.Duration) *replica {
	t.Helper()
	r := &replica{T: t, done: make(chan error, 1)}
	config := rest.CopyConfig(env.Config)
	config.Timeout = RenewDeadline / 2 // as in the manager
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if r.cut.Load() {
				return nil, errors.New("the network is cut")
			}
			if r.slow.Load() && req.Method != http.MethodGet {
				<-req.Context().Done()
				return nil, req.Context().Err()
			} else if r.slow.Load() {
				time.Sleep(config.Timeout * 4 / 5)
			}
			response, err := next.RoundTrip(req)
			if err == nil && req.Method == http.MethodGet {
				r.reads.Add(1)
			}
			return response, err
		})
	})
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Shards, err = newShards(Options{
		Count: count, Namespace: namespace, Identity: name, Leases: leases,
	}, times{lease: LeaseDuration, renew: RenewDeadline, retry: retry, patience: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.done <- r.Start(ctx) }()
	t.Cleanup(cancel)
	return r
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// ends waits until a replica stops, and returns its error.
func (r *replica) ends() error {
	r.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(await.Limit):
		r.Fatal("the replica does not stop")
		return nil
	}
}

// names contains three namespaces, one in each of three shards.
var names = func() (out [3]string) {
	for i, found := 0, 0; found < 3; i++ {
		name := fmt.Sprintf("team-%d", i)
		if out[Of(name, 3)] == "" {
			out[Of(name, 3)], found = name, found+1
		}
	}
	return out
}()

// held waits until each shard is held by one of the replicas.
func held(t *testing.T, replicas ...*replica) {
	t.Helper()
	await.Nil(t, func(context.Context) error {
		for _, name := range names {
			holders := 0
			for _, r := range replicas {
				if r.Holds(name) {
					holders++
				}
			}
			if holders != 1 {
				return fmt.Errorf("%d replicas hold %s", holders, name)
			}
		}
		return nil
	})
}

// TestTakeover checks that each shard is held by one replica. A replica that loses its network connection stops, and other replicas take its shards.
// Two replicas never hold the same shard at the same time.
func TestTakeover(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	a := start(t, namespace, "a", 3)
	await.Until(t, "a to hold a shard", func() bool { return slices.ContainsFunc(names[:], a.Holds) }) // A replica that holds none cannot lose one.
	b := start(t, namespace, "b", 3)
	twice := make(chan string, 1)
	watched, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for watched.Err() == nil {
			for _, name := range names {
				if a.Holds(name) && b.Holds(name) {
					select {
					case twice <- name:
					default:
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	held(t, a, b)
	a.cut.Store(true)
	if err := a.ends(); !errors.Is(err, ErrLost) {
		t.Errorf("without a network, it stopped with %v, want %v", err, ErrLost)
	}
	held(t, b)
	select {
	case name := <-twice:
		t.Errorf("two replicas held %s at the same time", name)
	default:
	}
	b.stop()
	if err := b.ends(); err != nil {
		t.Error(err)
	}
}

// TestDeletedLease checks that the holder of a Lease creates it again after a user deletes it. The holder keeps its shards, and no other replica
// creates the Lease.
func TestDeletedLease(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	a := start(t, namespace, "a", 3)
	held(t, a)
	b := start(t, namespace, "b", 3)
	await.Until(t, "b to read the Leases several times", func() bool { return b.reads.Load() > 30 })
	for i := range 3 {
		if err := a.Leases.Leases(namespace).Delete(t.Context(), LeaseName(i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// If b considered a deleted Lease free, it would create the Lease immediately, or at the latest when the Lease would have expired.
	for end := time.Now().Add(2 * a.times.lease); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, name := range names {
			if !a.Holds(name) || b.Holds(name) {
				t.Fatalf("a holds %s: %t, b: %t", name, a.Holds(name), b.Holds(name))
			}
		}
	}
	for i := range 3 {
		if holder := holderOf(t, namespace, i); holder != "a" {
			t.Errorf("shard %d is held by %q", i, holder)
		}
	}
}

// TestTakenLease checks that, if another replica holds its Lease, as after a manual edit, a replica stops reconciling at its next renewal, and
// its Start returns. It releases the Leases of its other shards before that.
func TestTakenLease(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	a := start(t, namespace, "a", 3)
	held(t, a)
	var lease coordination.Lease
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: LeaseName(1)}, &lease); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":"b"}}`))
	if err := env.Client.Patch(t.Context(), &lease, patch); err != nil {
		t.Fatal(err)
	}
	if err := a.ends(); !errors.Is(err, ErrLost) {
		t.Errorf("got %v, want %v", err, ErrLost)
	}
	if a.Holds(names[1]) {
		t.Error("it holds the shard of another replica")
	}
	for _, i := range []int{0, 2} {
		if holder := holderOf(t, namespace, i); holder != "" {
			t.Errorf("shard %d is held by %q after the replica stopped, want it released", i, holder)
		}
	}
}

// TestSlowServer covers a replica whose writes time out, and whose last read returns after the renew deadline. It checks that this replica stops before
// another replica holds its shards.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	a := startWith(t, namespace, "a", 3, RetryPeriod) // With the manager's times, the last read returns after the Leases expire.
	held(t, a)
	b := start(t, namespace, "b", 3)
	a.slow.Store(true)
	end := time.Now().Add(await.Limit)
	for took := 0; took < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("b holds %d of 3 shards", took)
		}
		took = 0
		for _, name := range names {
			if !b.Holds(name) {
				continue
			}
			if took++; a.Holds(name) {
				t.Fatalf("both hold %s", name)
			}
			if len(a.done) == 0 {
				t.Fatalf("b holds %s while a is still running", name)
			}
		}
	}
	if err := a.ends(); !errors.Is(err, ErrLost) {
		t.Errorf("got %v, want %v", err, ErrLost)
	}
}

// TestReleaseAfterReconciles checks that a Lease is not released before the last reconcile has ended. Another replica then takes the Lease without
// waiting for it to expire.
func TestReleaseAfterReconciles(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	a := start(t, namespace, "a", 3)
	held(t, a)
	begun, end := make(chan struct{}), make(chan struct{})
	reconciler := a.Gate(nil, nil).Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		close(begun)
		<-end
		return reconcile.Result{}, nil
	}))
	go reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: names[1], Name: "shop"}})
	<-begun
	a.stop()
	time.Sleep(300 * time.Millisecond) // This is longer than a write of the Leases. If a Lease were released during this time, the test would fail below.
	for i := range 3 {
		if holder := holderOf(t, namespace, i); holder != "a" {
			t.Errorf("shard %d is held by %q during a reconcile", i, holder)
		}
	}
	close(end)
	if err := a.ends(); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		if holder := holderOf(t, namespace, i); holder != "" {
			t.Errorf("shard %d is held by %q after the replica stopped", i, holder)
		}
	}
	b := start(t, namespace, "b", 3)
	held(t, b)
	if result, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: names[1]}}); err != nil || !result.IsZero() {
		t.Errorf("a stopped replica reconciled an object: %v, %v", result, err)
	}
}

// TestInterruptedReconciles checks that the error of a reconcile whose context is done is ignored.
func TestInterruptedReconciles(t *testing.T) {
	var s *Shards
	interrupted := fmt.Errorf("get Secret %q: %w", "github", context.Canceled)
	for _, test := range []struct {
		name    string
		stopped bool
		err     error
		wrong   bool
	}{
		{"the manager stops", true, interrupted, false},
		{"only a request was canceled", false, interrupted, true},
		{"another error while the manager stops", true, errors.New("refused"), true},
	} {
		ctx, stop := context.WithCancel(t.Context())
		if test.stopped {
			stop()
		}
		r := s.Gate(nil, nil).Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, test.err
		}))
		if _, err := r.Reconcile(ctx, reconcile.Request{}); (err != nil) != test.wrong {
			t.Errorf("%s: %v", test.name, err)
		}
		stop()
	}
}

// TestLossCancelsReconciles checks that the loss of a shard cancels its reconciles, and that reconciles of other shards continue.
func TestLossCancelsReconciles(t *testing.T) {
	s, err := New(Options{Count: 3})
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 3 {
		if err := s.open(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
	}
	contexts := make(chan context.Context)
	end := make(chan struct{})
	var interrupted atomic.Int32
	r := s.Gate(nil, nil).Reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		contexts <- ctx
		<-end
		if interrupted.Add(1)%2 == 0 { // An interrupted reconcile is not an error, whichever of these errors it returns.
			return reconcile.Result{}, ctx.Err()
		}
		return reconcile.Result{}, context.Cause(ctx)
	}))
	var running [3]context.Context
	var all sync.WaitGroup
	for i, namespace := range names {
		all.Go(func() {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace}}); err != nil {
				t.Error(err)
			}
		})
		running[i] = <-contexts
	}
	s.held[1].end(ErrLost)
	select {
	case <-running[1].Done():
	case <-time.After(await.Limit):
		t.Fatal("the reconcile of the lost shard continues")
	}
	if cause := context.Cause(running[1]); !errors.Is(cause, ErrLost) {
		t.Errorf("it ended with %v", cause)
	}
	for _, i := range []int{0, 2} {
		if err := running[i].Err(); err != nil {
			t.Errorf("the reconcile of shard %d: %v", i, err)
		}
	}
	close(end)
	all.Wait()
	if err := s.open(t.Context(), 1); err != nil { // an elector that is late
		t.Fatal(err)
	}
	if s.Holds(names[1]) {
		t.Error("a lost shard is held again")
	}
}

// record is a lock in memory.
type record struct {
	resourcelock.LeaderElectionRecord
}

func (r *record) Identity() string                          { return "a" }
func (r *record) Describe() string                          { return "record" }
func (r *record) RecordEvent(string)                        {}
func (r *record) write(w resourcelock.LeaderElectionRecord) { r.LeaderElectionRecord = w }
func (r *record) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &r.LeaderElectionRecord, nil, nil
}

func (r *record) Create(_ context.Context, w resourcelock.LeaderElectionRecord) error {
	r.write(w)
	return nil
}

func (r *record) Update(_ context.Context, w resourcelock.LeaderElectionRecord) error {
	r.write(w)
	return nil
}

// TestReleaseIsRefused checks two cases in which the release of a Lease must not be written. client-go's elector releases the Lease that it last
// read, even if another replica has taken that Lease. The elector also releases its own Lease after a failed renewal while reconciles are running.
func TestReleaseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		holder string
		idle   bool
		want   string
	}{
		"when another replica holds the Lease": {"b", true, "b"},
		"while a reconcile may run":            {"a", false, "a"},
		"allowed while idle":                   {"a", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lock := &record{}
			losses := 0
			p := &patient{Interface: lock, turns: newTurns(0), lease: time.Minute, keep: time.Minute,
				lost: func() { losses++ }, idle: func() bool { return c.idle }}
			if err := p.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}); err != nil {
				t.Fatal(err)
			}
			lock.HolderIdentity = c.holder
			if _, _, err := p.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := p.Update(t.Context(), resourcelock.LeaderElectionRecord{})
			if (err != nil) != (c.want != "") || lock.HolderIdentity != c.want {
				t.Errorf("the Lease is held by %q, want %q: %v", lock.HolderIdentity, c.want, err)
			}
			if lost := c.holder == "b"; (losses == 1) != lost {
				t.Errorf("reported as lost %d times", losses)
			}
		})
	}
}

func holderOf(t *testing.T, namespace string, shard int) string {
	t.Helper()
	var lease coordination.Lease
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: LeaseName(shard)}, &lease); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// listed is a cache that contains objects.
type listed struct {
	client.Reader
	leases []coordination.Lease
}

func (l listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*coordination.LeaseList).Items = l.leases
	return nil
}

// TestGate checks that a replica enqueues the objects of a shard when it takes the shard, and reconciles no other objects.
func TestGate(t *testing.T) {
	s, err := New(Options{Count: 3})
	if err != nil {
		t.Fatal(err)
	}
	var objects []coordination.Lease
	for _, namespace := range names {
		objects = append(objects, coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}})
	}
	var reconciled []string
	gate := s.Gate(listed{leases: objects}, &coordination.LeaseList{})
	r := gate.Reconciler(reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
		reconciled = append(reconciled, req.Namespace)
		return reconcile.Result{}, nil
	}))
	all := func() {
		for _, namespace := range names {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "shop"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	all()
	if reconciled != nil {
		t.Errorf("it reconciled %v and holds nothing", reconciled)
	}
	if err := s.open(t.Context(), 0); err != nil { // The controller has not started yet. When it starts, its watches add the objects.
		t.Fatal(err)
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	if err := gate.Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if !s.HoldsFirst() {
		t.Error("it does not hold the first shard")
	}
	before := time.Now()
	if err := s.open(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if since := s.Since(names[2]); since.Before(before) {
		t.Errorf("it holds %s since %s, want a time after %s", names[2], since, before)
	}
	if since := s.Since(names[1]); !since.IsZero() {
		t.Errorf("it holds %s since %s, although it did not take that shard", names[1], since)
	}
	if q.Len() != 1 {
		t.Fatalf("it enqueued %d objects, want 1", q.Len())
	}
	if got, _ := q.Get(); got.Namespace != names[2] {
		t.Errorf("it enqueued %s, want the object in %s", got, names[2])
	}
	all()
	if want := []string{names[0], names[2]}; !slices.Equal(reconciled, want) {
		t.Errorf("it reconciled %v, want %v", reconciled, want)
	}
}

// TestResume checks that a new process, and a replica that takes a shard, continue work in progress before they reconcile other objects.
func TestResume(t *testing.T) {
	s, err := New(Options{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	var objects []coordination.Lease
	for _, name := range []string{"stable", "canary"} {
		objects = append(objects, coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}})
	}
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	next := func(after, name string, want int) {
		t.Helper()
		got, priority, _ := q.GetWithPriority()
		if got.Name != name || priority != want {
			t.Errorf("%s: got %s with priority %d, want %s with %d", after, got.Name, priority, name, want)
		}
		q.Done(got)
	}
	gate := s.Gate(listed{leases: objects}, &coordination.LeaseList{})
	resumed := gate.Resume(func(o client.Object) bool { return o.GetName() == "canary" })
	for i := range objects {
		e := event.CreateEvent{Object: &objects[i], IsInInitialList: true}
		(&handler.EnqueueRequestForObject{}).Create(t.Context(), e, q)
		resumed.Create(t.Context(), e, q)
	}
	next("listed", "canary", queue.Progress)
	next("listed", "stable", handler.LowPriority)
	if err := errors.Join(gate.Start(t.Context(), q), s.open(t.Context(), 0)); err != nil {
		t.Fatal(err)
	}
	next("taken", "canary", queue.Progress)
	next("taken", "stable", handler.LowPriority)
}
