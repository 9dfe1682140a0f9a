//go:build !race

package hostile

// raceFactor is 2 halves: the limit itself.
const raceFactor = 2
