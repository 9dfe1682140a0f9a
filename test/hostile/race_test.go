//go:build race

package hostile

// raceFactor counts halves: with the race detector, which is not used in production, the limit is 50%
// higher. make test checks the limit without the race detector.
const raceFactor = 3
