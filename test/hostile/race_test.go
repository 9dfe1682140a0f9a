//go:build race

package hostile

// raceFactor allows half as much memory again under the race detector, which is not used in
// production. make test checks the limit itself without it.
const raceFactor = 3
