//go:build !race

package hostile

// raceFactor is 2 halves.
const raceFactor = 2
