package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMemoryLimit checks that the limit of the garbage collector leaves room for the program itself in the container.
func TestMemoryLimit(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"version 2":                  {map[string]string{cgroupLimits[0]: "536870912\n"}, 416 << 20},
		"version 1":                  {map[string]string{cgroupLimits[1]: "1000\n"}, 750},
		"no limit":                   {map[string]string{cgroupLimits[0]: "max\n"}, math.MaxInt64},
		"no limit, version 1":        {map[string]string{cgroupLimits[1]: "9223372036854771712\n"}, math.MaxInt64},
		"invalid value":              {map[string]string{cgroupLimits[0]: "-5"}, math.MaxInt64},
		"no cgroup":                  {nil, math.MaxInt64},
		"version 2 takes precedence": {map[string]string{cgroupLimits[0]: "2000", cgroupLimits[1]: "1000"}, 1500},
		"a large container":          {map[string]string{cgroupLimits[0]: "10000000000"}, 9000000000},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range test.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := memoryLimit(root); got != test.want {
				t.Errorf("limit %d, want %d", got, test.want)
			}
		})
	}
}

// TestGarbageCollection checks that the manager collects garbage earlier than by default, unless GOGC is set. The test is not
// parallel, because the setting applies to the whole process.
func TestGarbageCollection(t *testing.T) {
	before := debug.SetGCPercent(goDefault)
	defer debug.SetGCPercent(before)
	defer func(own bool) { ownPercent = own }(ownPercent)
	for set, want := range map[int]int{goDefault: gcPercent, 200: 200, -1: -1} {
		debug.SetGCPercent(set)
		limitMemory()
		if ownPercent != (set == goDefault) {
			t.Errorf("with GOGC=%d, the manager sets the percentage: %t", set, ownPercent)
		}
		if got := debug.SetGCPercent(set); got != want {
			t.Errorf("with GOGC=%d, the percentage is %d, want %d", set, got, want)
		}
	}
}

// TestIdleMemory checks that memory is returned when the manager is idle and has allocated enough, but not too often.
func TestIdleMemory(t *testing.T) {
	t.Parallel()
	ticks, totals, ended := make(chan time.Time), make(chan uint64), make(chan error)
	interval := -1
	var released []int
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- idleMemory{
			ticks:     ticks,
			allocated: func() uint64 { interval++; return <-totals },
			release:   func() { released = append(released, interval) },
		}.Start(ctx)
	}()
	total := uint64(releaseBytes) / 2
	totals <- total
	allocate := func(n int, bytes uint64) {
		for range n {
			total += bytes
			ticks <- time.Time{}
			totals <- total
		}
	}
	allocate(2, 0)                      // 1, 2: not enough was allocated
	allocate(2, releaseBytes)           // 3, 4: busy
	allocate(2, idleBytes)              // 5, 6: still busy
	allocate(1, idleBytes-1)            // 7: idle
	allocate(1, releaseBytes)           // 8: busy
	allocate(releaseIntervals-2, 0)     // 9 to 36: too early
	allocate(1, 0)                      // 37: ten minutes after 7
	allocate(2*releaseIntervals, 1<<10) // not enough was allocated
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{7, 37}, released); diff != "" {
		t.Error(diff)
	}
}

// TestHeapGrowth checks that a small heap grows by at least minGrowth between two garbage collections, or doubles, that a large heap grows by
// gcPercent, and that only changes are set.
func TestHeapGrowth(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 100, 1 << 20: 100, 32 << 20: 100, 33 << 20: 95, 64 << 20: 50, 100 << 20: 30, 128 << 20: 25, 1 << 30: 25, math.MaxUint64: 25} {
		if got := growthOf(live); got != want {
			t.Errorf("a live heap of %d MiB grows by %d%%, want %d%%", live>>20, got, want)
		}
	}
	ticks, ended := make(chan time.Time), make(chan error)
	live := []uint64{1 << 30, 64 << 20, 64 << 20, 65 << 20, 1 << 30}
	var set []int
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- heapGrowth{ticks: ticks, live: func() uint64 { next := live[0]; live = live[1:]; return next }, set: func(percent int) { set = append(set, percent) }}.Start(ctx)
	}()
	for range 5 {
		ticks <- time.Time{}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{50, 45, 25}, set); diff != "" {
		t.Error(diff)
	}
}

// TestFreeMemory checks that garbage is collected, unless GOGC sets the percentage. The test is not parallel, because the setting applies to the
// whole process.
func TestFreeMemory(t *testing.T) {
	before := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(before)
	defer func(own bool) { ownPercent = own }(ownPercent)
	for _, percent := range []int{-1, gcPercent} {
		ownPercent = percent == gcPercent
		allocated, cycles := read("/gc/heap/allocs:bytes"), read("/gc/cycles/forced:gc-cycles")
		garbage = make([]byte, 1<<20)
		if grown := read("/gc/heap/allocs:bytes") - allocated; grown < 1<<20 {
			t.Errorf("%d bytes were allocated", grown)
		}
		if freeMemory(); (read("/gc/cycles/forced:gc-cycles") > cycles) != (percent == gcPercent) {
			t.Errorf("GOGC=%d: %d collections", percent, read("/gc/cycles/forced:gc-cycles")-cycles)
		}
	}
}

var garbage []byte
