//go:build !race

package hostile

// raceFactor counts halves: without the race detector, the limit is not increased.
const raceFactor = 2
