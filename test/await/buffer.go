package await

import (
	"bytes"
	"sync"
)

// Buffer holds what a program writes while a test waits for it: it is safe for a writer and a reader at the same time.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is of [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
