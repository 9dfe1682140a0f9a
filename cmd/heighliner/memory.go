package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// cgroupLimits are where Linux shows the memory limit of a container: cgroups of version 2 and 1.
var cgroupLimits = []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}

// limitMemory makes the garbage collector work harder near the memory limit of the container, which
// would otherwise be reached with garbage: many large answers at a time are one reason. GOMEMLIMIT
// takes precedence.
func limitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // none is set
		debug.SetMemoryLimit(memoryLimit("/"))
	}
}

// memoryLimit returns nine tenths of the limit that a file system shows; without one no limit.
func memoryLimit(root string) int64 {
	for _, name := range cgroupLimits {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 && limit < math.MaxInt64/2 {
			return limit / 10 * 9
		}
	}
	return math.MaxInt64
}
