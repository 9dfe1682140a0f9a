//go:build race

package hostile

// raceFactor returns half as much memory again under the race detector, with which no one runs the
// manager. make test holds the limit itself without it.
const raceFactor = 3
