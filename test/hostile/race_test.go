//go:build race

package hostile

// raceFactor counts halves: with the race detector, which is not used in production, the limit is half as large again.
// make test checks the limit without the race detector.
const raceFactor = 3
