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

// The minimum rate of a response: each window must contain this number of bytes, or the end. A
// slower response would occupy a connection, and its callers, for as long as the server decides.
const (
	paceWindow = 10 * time.Second
	paceBytes  = 10 << 10
)

// The maximum number of elements in a JSON response, counted by the commas between them: a few
// bytes of text can take a hundred in memory, so a limit on bytes does not limit memory. A list of
// tags may have all tags on one page.
const (
	maxElements     = 1 << 15
	maxListElements = 1 << 18
)

// maxListBodies is the size limit of a page of a list, in units of Options.MaxBody: one page may
// contain all tags that are read, each of the maximum length.
const maxListBodies = 4

// maxRefusal is how many bytes of an error response are read.
const maxRefusal = 64 << 10

// maxWord is the maximum number of bytes between two quotes of a list. A decoder buffers as many.
const maxWord = 64 << 10

// boundedBody is a response body that fails with errTooLarge after left bytes or elements, and with
// errTooSlow below the minimum rate.
type boundedBody struct {
	io.ReadCloser
	left     int64
	elements int
	cut      bool // it ends after left bytes without an error
	spelled  bool // it has a quote in each maxWord bytes
	word     int  // bytes since the last quote
	total    atomic.Int64

	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
}

// watch cancels the request when the body falls below the minimum rate, until it is closed.
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

// Close also ends the watch.
func (b *boundedBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
