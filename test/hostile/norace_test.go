//go:build !race

package hostile

// raceFactor is twice the factor by which the limit is multiplied. Without the race detector, the limit is not
// increased.
const raceFactor = 2
