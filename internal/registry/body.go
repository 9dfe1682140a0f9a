package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// These constants define the minimum rate of a response: within each paceWindow, a response must deliver at least paceBytes or end. Without a minimum
// rate, a server could occupy a connection and keep the callers waiting indefinitely.
const (
	paceWindow = 10 * time.Second
	paceBytes  = 10 << 10
)

// These are the maximum numbers of elements in a JSON response, counted by the commas between them. A few bytes of JSON can take up a hundred bytes
// of memory once decoded, so a limit on bytes does not limit memory. The maximum for a list of tags is higher, because one page may contain all tags.
const (
	maxElements     = 1 << 15
	maxListElements = 1 << 18
)

// maxListBodies is the maximum size of a list page, as a multiple of Options.MaxBody. One page may contain all tags that are read, and each tag may
// have the maximum length.
const maxListBodies = 4

// maxRefusal is the maximum number of bytes that are read from an error response.
const maxRefusal = 64 << 10

// maxWord is the maximum number of bytes between two quotes in a list of tags. The number is limited because a decoder buffers these bytes.
const maxWord = 64 << 10

// boundedBody is a response body that fails with errTooLarge if left or elements falls below zero or a required quote is missing, and with errTooSlow if the
// body is slower than the minimum rate.
type boundedBody struct {
	io.ReadCloser
	left     int64
	elements int
	cut      bool // when left reaches zero, the body ends without an error
	spelled  bool // the body must contain a quote in every maxWord bytes
	word     int  // bytes since the last quote
	total    atomic.Int64

	ctx    context.Context // context of the request
	cancel context.CancelCauseFunc
}

// watch cancels the request if the body is slower than the minimum rate. It runs until the body is closed.
func (b *boundedBody) watch(c clock.Clock) {
	timer := c.NewTimer(paceWindow)
	defer timer.Stop()
	for before := int64(0); ; timer.Reset(paceWindow) {
		select {
		case <-b.ctx.Done():
			return
		case <-timer.C():
		}
		total := b.total.Load()
		if total-before < paceBytes {
			b.cancel(errTooSlow)
			return
		}
		before = total
	}
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	if b.cut && b.left == 0 {
		return 0, io.EOF
	}
	if b.cut {
		p = p[:min(int64(len(p)), b.left)]
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.total.Add(int64(n))
	b.left -= int64(n)
	b.elements -= bytes.Count(p[:n], []byte{','})
	if last := bytes.LastIndexByte(p[:n], '"'); last >= 0 {
		b.word = n - last
	} else {
		b.word += n
	}
	switch {
	case b.spelled && b.word > maxWord:
		b.left = -1
		return 0, errTooLarge
	case b.left < 0:
		return n - 1, errTooLarge
	case b.elements < 0:
		b.left = -1
		return n, errTooLarge
	case err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), errTooSlow):
		return n, errTooSlow
	}
	return n, err
}

// Close closes the body and stops watch.
func (b *boundedBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
