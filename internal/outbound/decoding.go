package outbound

import (
	"context"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Decoding limits the total memory that responses use while they are being decoded. A limit for each response is not sufficient, because many
// large responses may be decoded at the same time. A Decoding is safe for concurrent use.
type Decoding struct {
	memory, perValue int64
	free             *semaphore.Weighted
}

const (
	// perByte is the memory in bytes that each byte of text needs during decoding: for the buffer of the decoder, which doubles when it
	// grows, and for a decoded string.
	perByte = 4
	// blockSize is the size of the blocks in which text is stored, so that the text is not copied while it grows.
	blockSize = 32 << 10
)

// NewDecoding returns a Decoding that limits the memory to the given number of bytes. Each JSON value counts as perValue bytes, in addition
// to its text. A response that needs more than the limit is decoded alone.
func NewDecoding(memory, perValue int64) *Decoding {
	return &Decoding{memory: memory, perValue: perValue, free: semaphore.NewWeighted(memory)}
}

// Hold reads a body to its end, closes it, and returns its content once there is enough memory to decode the content. The memory is released
// when the returned body is closed or read to its end. The memory is also released when the context is done, because some decoders do not close
// every body. A server that sends slowly does not occupy this memory. Errors come from the body or the context.
func (d *Decoding) Hold(ctx context.Context, body io.ReadCloser) (*Held, error) {
	defer body.Close()
	h := &Held{}
	var values elements
	for {
		if last := len(h.blocks) - 1; last < 0 || len(h.blocks[last]) == cap(h.blocks[last]) {
			h.blocks = append(h.blocks, make([]byte, 0, blockSize))
		}
		last := len(h.blocks) - 1
		used := h.blocks[last]
		n, err := body.Read(used[len(used):cap(used)])
		values.read(used[len(used) : len(used)+n])
		h.blocks[last] = used[:len(used)+n]
		h.size += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	need := min(d.memory, int64(h.size)*perByte+int64(values.count)*d.perValue)
	if err := d.free.Acquire(ctx, need); err != nil {
		return nil, fmt.Errorf("wait for memory to decode a response: %w", err)
	}
	h.release = sync.OnceFunc(func() { d.free.Release(need) })
	context.AfterFunc(ctx, h.release)
	return h, nil
}

// Held is text that has been read completely. It is not safe for concurrent use.
type Held struct {
	blocks  [][]byte
	size    int
	block   int // block to read next; at is the position in this block
	at      int
	release func()
}

// Len returns the size of the text in bytes.
func (h *Held) Len() int { return h.size }

// CopyTo writes the complete text. The text can still be read afterwards.
func (h *Held) CopyTo(w io.Writer) error {
	for _, block := range h.blocks {
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// Read reads the text.
func (h *Held) Read(p []byte) (int, error) {
	for h.block < len(h.blocks) && h.at == len(h.blocks[h.block]) {
		h.block, h.at = h.block+1, 0
	}
	if h.block == len(h.blocks) {
		h.release()
		return 0, io.EOF
	}
	n := copy(p, h.blocks[h.block][h.at:])
	h.at += n
	return n, nil
}

// Close releases the memory for decoding the text.
func (h *Held) Close() error {
	h.release()
	h.blocks, h.block, h.at = nil, 0, 0
	return nil
}
