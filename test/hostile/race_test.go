//go:build race

package hostile

// raceFactor gives half as much memory again under the race detector, with which nobody
// runs the manager. The limit itself is held by go test ./test/hostile, without it.
const raceFactor = 3
