package startlimit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func object(i int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: fmt.Sprint("service-", i)}}
}

// added drains a queue.
func added(q workqueue.TypedRateLimitingInterface[reconcile.Request]) (out []reconcile.Request) {
	for q.Len() > 0 {
		r, _ := q.Get()
		q.Done(r)
		out = append(out, r)
	}
	return out
}

func newLimit(t interface{ Fatal(...any) }, most int) (*Limit, *clocktesting.FakeClock, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	l := &Limit{Max: most, Age: 20 * time.Second, Clock: clock}
	if err := l.Start(nil, q); err != nil { //nolint:staticcheck // Start does not use the context.
		t.Fatal(err)
	}
	return l, clock, q
}

// TestTurns checks that objects start in the order in which they asked, when others are done or too old.
func TestTurns(t *testing.T) {
	t.Parallel()
	l, clock, q := newLimit(t, 2)
	for i, want := range []bool{true, true, false, false, false} {
		if got, _ := l.Admit(object(i)); got != want {
			t.Errorf("object %d: admitted %v, want %v", i, got, want)
		}
	}
	may := func(i int) bool {
		now, _ := l.Admit(object(i))
		return now
	}
	if !may(0) || may(2) {
		t.Error("a second request changed the answer")
	}
	if admitted, waiting := l.Counts(); admitted != 2 || waiting != 3 {
		t.Errorf("%d admitted and %d waiting, want 2 and 3", admitted, waiting)
	}
	if _, again := l.Admit(object(4)); again != 2*l.Age {
		t.Errorf("the third in line should ask after %s, want %s", again, 2*l.Age)
	}
	l.Done(object(3)) // It was deleted while it waited.
	l.Done(object(1))
	if got, want := added(q), []reconcile.Request{object(2)}; !slices.Equal(got, want) {
		t.Errorf("enqueued %v, want %v", got, want)
	}
	if !may(2) || may(4) || may(5) {
		t.Error("object 2 has its turn, and 4 and 5 do not")
	}
	clock.Step(20 * time.Second)
	if !may(5) {
		t.Error("the admissions of 0 and 2 should have ended")
	}
	if got, want := added(q), []reconcile.Request{object(4), object(5)}; !slices.Equal(got, want) {
		t.Errorf("enqueued %v, want %v", got, want)
	}
}

// TestTurnIsKept checks that an object that was enqueued starts even if more than Age passes before it asks, and that an object that leaves
// the line has no turn.
func TestTurnIsKept(t *testing.T) {
	t.Parallel()
	l, clock, _ := newLimit(t, 1)
	l.Admit(object(0))
	l.Admit(object(1))
	l.Admit(object(2))
	l.Admit(object(3))
	l.Leave(object(2))
	l.Done(object(0)) // It is the turn of 1, which is busy.
	clock.Step(time.Minute - time.Second)
	if now, _ := l.Admit(object(4)); now {
		t.Error("4 starts before 3")
	}
	if now, _ := l.Admit(object(1)); !now {
		t.Error("1 lost its turn")
	}
	if admitted, _ := l.Counts(); admitted != 1 {
		t.Errorf("%d objects are admitted after a late start, want 1", admitted)
	}
	clock.Step(l.Age)
	if now, _ := l.Admit(object(1)); now {
		t.Error("1 has a second turn")
	}
	if now, _ := l.Admit(object(3)); !now {
		t.Error("3 has no turn")
	}
}

// TestDecline checks that an object that cannot start gives its turn to the next one, and that an object that waits stays in line.
func TestDecline(t *testing.T) {
	t.Parallel()
	l, clock, q := newLimit(t, 1)
	for i := range 4 {
		l.Admit(object(i))
	}
	l.Decline(object(2)) // It is not its turn.
	l.Done(object(0))
	l.Decline(object(1))
	if got, want := added(q), []reconcile.Request{object(1), object(2)}; !slices.Equal(got, want) {
		t.Errorf("enqueued %v, want %v", got, want)
	}
	clock.Step(maxCalledAges * l.Age)
	if now, _ := l.Admit(object(2)); now {
		t.Error("2 keeps its turn although it asks too late")
	}
	if got, want := added(q), []reconcile.Request{object(3)}; !slices.Equal(got, want) {
		t.Errorf("enqueued %v, want %v", got, want)
	}
}

// TestProgress checks that an object remains admitted while its rollout makes progress, but not for longer than maxAges times Age.
func TestProgress(t *testing.T) {
	t.Parallel()
	l, clock, _ := newLimit(t, 1)
	l.Admit(object(0))
	may := func() bool {
		now, _ := l.Admit(object(1))
		return now
	}
	step := l.Age - time.Second
	for sequence := range int64(14) {
		l.Progress(object(0), sequence+1)
		clock.Step(step)
		if may() {
			t.Fatalf("another object is admitted after %s of progress", time.Duration(sequence+1)*step)
		}
	}
	l.Progress(object(0), 14) // The sequence has not changed.
	clock.Step(time.Second)
	if !may() {
		t.Error("an object without progress blocks others")
	}
	l.Progress(object(0), 15)
	if may(); len(l.admitted) != 1 {
		t.Error("an object whose admission has ended is admitted again by its progress")
	}

	l, clock, _ = newLimit(t, 1)
	l.Admit(object(0))
	for sequence := range int64(maxAges) {
		if may() {
			t.Fatalf("another object is admitted before %d times Age", maxAges)
		}
		clock.Step(l.Age - time.Nanosecond)
		l.Progress(object(0), sequence+1)
	}
	clock.Step(maxAges)
	if !may() {
		t.Errorf("an object that makes progress blocks others for longer than %d times Age", maxAges)
	}

	l, _, _ = newLimit(t, 1)
	l.Admit(object(0))
	l.Admit(object(1))
	l.Progress(object(1), 1)
	l.Done(object(0))
	if now, _ := l.Admit(object(2)); !now {
		t.Error("an object that continues without an admission is in line")
	}
}

// TestNoLimit checks that nil and a limit of 0 admit every object.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	for _, l := range []*Limit{nil, {}} {
		for i := range 1000 {
			if now, _ := l.Admit(object(i)); !now {
				t.Fatal("not admitted")
			}
		}
		l.Done(object(0))
		l.Leave(object(1))
		l.Progress(object(2), 1)
		l.Decline(object(3))
		if admitted, waiting := l.Counts(); admitted != 0 || waiting != 0 {
			t.Errorf("%d admitted and %d waiting", admitted, waiting)
		}
	}
}

// TestEveryObjectStarts plays random histories: never more than Max objects are admitted, and an object that asks again
// whenever it is enqueued, or after Age, gets its turn.
func TestEveryObjectStarts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, clock, q := newLimit(t, rapid.IntRange(1, 5).Draw(t, "max"))
		const objects = 12
		started, asked := map[reconcile.Request]bool{}, map[reconcile.Request]bool{}
		ask := func(o reconcile.Request) {
			asked[o] = true
			if now, _ := l.Admit(o); now {
				started[o] = true
			}
			if n, _ := l.Counts(); n > l.Max {
				t.Fatalf("%d objects are admitted, the limit is %d", n, l.Max)
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			o := object(rapid.IntRange(0, objects-1).Draw(t, "object"))
			switch rapid.IntRange(0, 3).Draw(t, "action") {
			case 0, 1:
				ask(o)
			case 2:
				l.Done(o)
				delete(asked, o)
			case 3:
				clock.Step(rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second}).Draw(t, "time"))
			}
			if rapid.Bool().Draw(t, "the queue is fast") {
				for _, next := range added(q) {
					ask(next)
				}
			}
		}
		for range objects {
			clock.Step(20 * time.Second)
			for o := range asked {
				if !started[o] {
					ask(o)
				}
			}
			for _, next := range added(q) {
				ask(next)
			}
		}
		for o := range asked {
			if !started[o] {
				t.Errorf("%s never had its turn", o)
			}
		}
	})
}
