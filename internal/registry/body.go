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

// The minimum pace of an answer: each window must contain this number of bytes, or the end. A
// slower answer would occupy a connection, and its callers, for as long as the server decides.
const (
	paceWindow = 10 * time.Second
	paceBytes  = 10 << 10
)

// The most elements of an answer in JSON, which are counted by the commas between
// them: a few bytes of text can take a hundred in memory, so the bound on bytes is
// none on memory. A list of tags may be one page of all of them.
const (
	maxElements     = 1 << 15
	maxListElements = 1 << 18
)

// maxListBodies is how many bodies of Options.MaxBody a list may take: one page may be
// all of the tags that are read, each as long as a tag may be.
const maxListBodies = 4

// maxRefusal is how much is read of an answer that is an error.
const maxRefusal = 64 << 10

// maxWord is the number of bytes between two quotes of a list. A decoder keeps as many.
const maxWord = 64 << 10

// boundedBody is an answer that fails with errTooLarge instead of giving more than
// left bytes or elements, and with errTooSlow when it falls below the floor.
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

// watch ends the request when the body falls below the floor, until it is closed.
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

// Close ends the watch too.
func (b *boundedBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
