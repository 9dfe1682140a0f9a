package outbound

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestDecodingIsBounded checks that texts are decoded one after the other if each of them needs all of the memory. A text
// releases the memory when it is closed or completely read, or when its context is done.
func TestDecodingIsBounded(t *testing.T) {
	text := "[" + strings.Repeat("{},", 50_000) + "{}]"
	d := NewDecoding(1<<20, 1<<10)
	for name, end := range map[string]func(*Held, context.CancelFunc){
		"closed": func(h *Held, _ context.CancelFunc) { _ = h.Close(); _ = h.Close() },
		"read":   func(h *Held, _ context.CancelFunc) { _, _ = io.Copy(io.Discard, h) },
		"ended":  func(_ *Held, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h, err := d.Hold(ctx, io.NopCloser(iotest.HalfReader(strings.NewReader(text))))
			if err != nil {
				t.Fatal(err)
			}
			if h.Len() != len(text) {
				t.Errorf("%d bytes, want %d", h.Len(), len(text))
			}
			short, stop := context.WithCancel(t.Context())
			stop()
			if _, err := d.Hold(short, io.NopCloser(strings.NewReader(text))); !errors.Is(err, context.Canceled) {
				t.Errorf("a second text at the same time: %v, want the text to wait", err)
			}
			end(h, cancel)
			again, err := d.Hold(t.Context(), io.NopCloser(strings.NewReader(text)))
			if err != nil {
				t.Fatalf("after the first one: %v", err)
			}
			var copied strings.Builder
			if err := again.CopyTo(&copied); err != nil || copied.String() != text {
				t.Errorf("a copy of %d bytes, %v", copied.Len(), err)
			}
			if read, err := io.ReadAll(again); err != nil || string(read) != text {
				t.Errorf("read %d bytes, %v", len(read), err)
			}
		})
	}
	if _, err := d.Hold(t.Context(), io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("[]"))))); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("an interrupted text: %v, want %v", err, iotest.ErrTimeout)
	}
}
