package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// cgroupLimits are the files in which Linux exposes the memory limit of a container, for cgroup v2 and for cgroup v1.
var cgroupLimits = []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}

const (
	// gcPercent is how much a large heap grows, as a percentage of the live heap, before the garbage collector runs.
	// With Go's default, the manager would use less processor time during rollouts, but more memory all the time,
	// because most of its memory is its cache. docs/explanation/scale.md contains measurements for several
	// percentages.
	gcPercent = 25
	// goDefault is Go's default for this percentage, and the maximum for small heaps.
	goDefault = 100
	// minGrowth is how much a small heap grows, in bytes, before the garbage collector runs. A quarter of a small heap would save little
	// memory, but the collector would use almost half of the processor time of a rollout.
	minGrowth = 32 << 20
	// growthInterval is how often the percentage is adapted to the size of the live heap.
	growthInterval = 5 * time.Second
	// unmanagedMemory is the memory, in bytes, that is reserved for what Go's runtime does not manage: mostly the pages of the program itself, of
	// which the manager uses up to 91 MiB. memoryLimit reserves less in small containers, and more in large ones.
	unmanagedMemory = 96 << 20
)

// ownPercent reports whether the manager sets the percentage of the garbage collector, because GOGC does not set another one than 100.
var ownPercent bool

// limitMemory sets the percentage of the garbage collector, and a soft memory limit below the memory limit of the container, so that the
// garbage collector runs more often when the memory usage is near the limit. Otherwise, garbage from many large responses, for example, could
// push the memory usage above the container's limit. GOMEMLIMIT, and a GOGC other than 100, take precedence.
func limitMemory() {
	set := debug.SetGCPercent(gcPercent)
	if ownPercent = set == goDefault; !ownPercent {
		debug.SetGCPercent(set)
	}
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // No limit is set.
		debug.SetMemoryLimit(memoryLimit("/"))
	}
}

// memoryLimit returns the limit in the cgroupLimits files below root, minus a reserve for memory that Go's runtime does not manage. The reserve is
// unmanagedMemory, but at most a quarter and at least a tenth of the limit. If there is no limit, memoryLimit returns math.MaxInt64.
func memoryLimit(root string) int64 {
	for _, name := range cgroupLimits {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 && limit < math.MaxInt64/2 {
			return limit - max(limit/10, min(limit/4, unmanagedMemory))
		}
	}
	return math.MaxInt64
}

// heapGrowth adapts the percentage of the garbage collector to the size of the live heap. It runs in every replica, and does nothing if GOGC
// sets the percentage.
type heapGrowth struct {
	ticks <-chan time.Time
	live  func() uint64 // the number of bytes that the previous garbage collection left
	set   func(percent int)
}

func newHeapGrowth() heapGrowth {
	return heapGrowth{time.Tick(growthInterval), func() uint64 { return read("/gc/heap/live:bytes") }, func(percent int) {
		if ownPercent {
			debug.SetGCPercent(percent)
		}
	}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (heapGrowth) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (h heapGrowth) Start(ctx context.Context) error {
	for percent := gcPercent; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-h.ticks:
		}
		if next := growthOf(h.live()); next != percent {
			percent = next
			h.set(percent)
		}
	}
}

// growthOf returns by how many percent a live heap grows before the garbage collector runs: by minGrowth, but not by more than goDefault or less
// than gcPercent. The percentage is a multiple of five, so that it rarely changes, because each change stops the process for a moment.
func growthOf(live uint64) int {
	percent := minGrowth * 100 / max(live, minGrowth)
	return int(max(gcPercent, percent/5*5))
}

const (
	// idleInterval is the interval over which allocations are counted.
	idleInterval = 20 * time.Second
	// idleBytes is the maximum number of bytes that an idle manager allocates in an idleInterval. The rollout of one service, or a request
	// for the metrics of 500 services, allocates less, and the rollouts of many services allocate more.
	idleBytes = 16 << 20
	// releaseIntervals is the minimum number of idleIntervals between two releases of memory. Releases must be infrequent, because each
	// release runs a full garbage collection.
	releaseIntervals = 30
	// releaseBytes is the minimum number of bytes that are allocated between two releases of memory.
	releaseBytes = 64 << 20
)

// idleMemory returns the memory of collected garbage to the operating system when the manager is idle, for example after a rollout of many services,
// and at most once every ten minutes. Go's runtime would keep this memory, which is more than a quarter of the heap, for the next allocations.
// idleMemory runs in every replica, and does nothing if GOGC sets a percentage other than goDefault.
type idleMemory struct {
	ticks     <-chan time.Time
	allocated func() uint64 // the number of bytes allocated since the process started
	release   func()
}

func newIdleMemory() idleMemory {
	return idleMemory{time.Tick(idleInterval), func() uint64 { return read("/gc/heap/allocs:bytes") }, freeMemory}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (idleMemory) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (m idleMemory) Start(ctx context.Context) error {
	before, released, intervals := m.allocated(), uint64(0), releaseIntervals
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.ticks:
		}
		now := m.allocated()
		intervals++
		if now-before < idleBytes && now-released >= releaseBytes && intervals >= releaseIntervals {
			m.release()
			released, intervals = now, 0
		}
		before = now
	}
}

// freeMemory collects garbage and returns memory to the operating system, unless GOGC sets a percentage other than goDefault.
func freeMemory() {
	if ownPercent {
		debug.FreeOSMemory()
	}
}

// read returns the value of a Go runtime metric.
func read(metric string) uint64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
