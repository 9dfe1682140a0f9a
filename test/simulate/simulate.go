// Package simulate runs random histories in tests. Each history is generated from a seed, many histories run
// concurrently, and a failing history is shortened.
package simulate

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Histories selects the histories that a test runs, based on flags.
type Histories struct {
	flags string
	count *int
	seed  *uint64
}

// Flags defines the NAME.histories and NAME.seed flags of a test. Assign its result to a variable
// of the test's package.
func Flags(name, test string) Histories {
	return Histories{
		flags: name,
		count: flag.Int(name+".histories", 0, "number of histories that "+test+" plays, each with its own seed; 0 means a few hundred, or fewer with -short"),
		seed:  flag.Uint64(name+".seed", 0, "seed of the first history of "+test+"; each later history has the next seed; 0 means the same seeds each time, or different seeds each time if -"+name+".histories is set"),
	}
}

// Long reports whether the flags specify a number of histories.
func (h Histories) Long() bool { return *h.count > 0 }

// Count is the number of occurrences of something.
type Count struct {
	What string
	N    int
}

// Play defines how a test runs a seed's history.
type Play struct {
	// Package is the folder of the test, for the command that replays a history.
	Package string
	// Quick is the number of histories with -short, and Usual is the number of histories without flags.
	Quick, Usual int
	// GC is the garbage collection target percentage during the test, as in debug.SetGCPercent.
	GC int
	// Seed runs a seed's history. It must count the same things in the same order each time, and must be safe
	// for concurrent use.
	Seed func(seed uint64) ([]Count, error)
	// Shrink makes a seed's failing history as short as possible. It returns the history's failure and
	// description.
	Shrink func(seed uint64) (err error, history string)
}

// progressEvery is the time between two lines of progress.
const progressEvery = 10 * time.Second

// Run runs the histories, as many concurrently as there are processors, until one fails. It logs the progress
// and the counts. After a failure, it logs the seed, the history, and a command that replays the history.
func (h Histories) Run(t *testing.T, p Play) {
	t.Helper()
	n, from := h.chosen(p, testing.Short(), uint64(time.Now().UnixNano()))
	var (
		next, failed atomic.Uint64
		lock         sync.Mutex
		sum          []Count
		wait         sync.WaitGroup
		done         = make(chan struct{})
	)
	defer debug.SetGCPercent(debug.SetGCPercent(p.GC))
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for failed.Load() == 0 {
				i := next.Add(1) - 1
				if i >= uint64(n) {
					return
				}
				counts, err := p.Seed(from + i)
				if err != nil {
					failed.CompareAndSwap(0, from+i)
				}
				lock.Lock()
				sum = add(sum, append([]Count{{"histories", 1}}, counts...))
				lock.Unlock()
			}
		})
	}
	go func() {
		wait.Wait()
		close(done)
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for start, playing := time.Now(), true; playing; {
		select {
		case <-done:
			playing = false
		case <-tick.C:
			lock.Lock()
			played := sum
			lock.Unlock()
			if len(played) > 0 {
				t.Log(progress(played[0].N, n, time.Since(start)))
			}
		}
	}
	t.Logf("from seed %d: %s", from, format(sum))
	if seed := failed.Load(); seed > 0 {
		err, history := p.Shrink(seed)
		t.Errorf("seed %d: %v\nreplay: go test %s -run %s -%s.seed=%d\nshortened history:\n%s", seed, err, p.Package, t.Name(), h.flags, seed, history)
	}
}

// chosen returns the number of histories to run, and the first seed, which is not 0.
func (h Histories) chosen(p Play, short bool, other uint64) (n int, from uint64) {
	switch n, from = *h.count, *h.seed; {
	case n > 0 && from == 0:
		return n, max(1, other)
	case n > 0:
		return n, from
	case from > 0:
		return 1, from
	case short:
		return p.Quick, 1
	}
	return p.Usual, 1
}

// add adds counts to sum, item by item, and returns the result. Both contain the same items in the same order. sum may
// be nil.
func add(sum, counts []Count) []Count {
	if sum == nil {
		return counts
	}
	sum = slices.Clone(sum)
	for i := range sum {
		sum[i].N += counts[i].N
	}
	return sum
}

// format returns counts as text.
func format(counts []Count) string {
	var parts []string
	for _, c := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", c.N, c.What))
	}
	return strings.Join(parts, ", ")
}

// progress returns a line about the progress made so far. since is the time that has passed since
// the start.
func progress(played, n int, since time.Duration) string {
	rate := float64(played) / since.Seconds()
	left := time.Duration(math.Ceil(float64(n-played)/rate)) * time.Second
	return fmt.Sprintf("%d of %d histories, %.0f a second, %s remain", played, n, rate, left)
}

// Shorten removes those parts of a failing history that are not needed for the failure.
func Shorten[T any](history []T, fails func([]T) bool) []T {
	for size := len(history) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(history); {
			if fewer := slices.Delete(slices.Clone(history), i, i+size); fails(fewer) {
				history = fewer
			} else {
				i += size
			}
		}
	}
	return history
}
