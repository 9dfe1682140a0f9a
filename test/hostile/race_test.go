//go:build race

package hostile

// raceFactor is twice the factor by which the limit is multiplied. With the race detector, which is not used in
// production, the limit is 50% higher. "make test" checks the limit without the race detector.
const raceFactor = 3
