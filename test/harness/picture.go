package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	// frameEvery is the interval of the live picture. plainEvery is the interval of the plain lines that
	// replace the picture if the output is not a terminal.
	frameEvery = 250 * time.Millisecond
	plainEvery = 5 * time.Second
	// frameWindow is the period over which a picture shows the split and the rate.
	frameWindow = 5 * time.Second
	// plainWidth is the maximum width of a line if the output is not a terminal.
	plainWidth = 120
)

// Frame is the content of the picture at a point in time.
type Frame struct {
	// Label identifies the subject of the split, such as the domain. It may be empty.
	Label string
	// Split contains the shares of the last five seconds. It is empty before the first response.
	Split Split
	// PerSecond is the rate of responses, successful or not, over the last five seconds.
	PerSecond float64
	// Failed is the number of failed requests since the start of the load.
	Failed int
}

// Frame returns a picture of the last five seconds of the load. The rate is correct after five seconds.
func (l *Load) Frame() Frame {
	recent := l.Recent(frameWindow)
	return Frame{
		Split:     recent.Split(),
		PerSecond: float64(recent.Answered+recent.Failed) / frameWindow.Seconds(),
		Failed:    l.tally.Failed(),
	}
}

// Render returns the frame as a line of at most width characters. It contains bars if they fit, and is truncated if necessary.
func (f Frame) Render(width int) string {
	for _, cells := range []int{20, 10, 5} {
		if line := f.line(cells); utf8.RuneCountInString(line) <= width {
			return line
		}
	}
	line := []rune(f.line(0))
	return string(line[:min(len(line), max(width, 0))])
}

func (f Frame) line(cells int) string {
	var parts []string
	if f.Label != "" {
		parts = append(parts, f.Label)
	}
	if len(f.Split) == 0 {
		parts = append(parts, "no responses yet")
	}
	for i, percent := range f.Split.Percents() {
		share := f.Split[i]
		words := []string{share.Version, bar(share.Fraction, cells), fmt.Sprintf("%d%%", percent)}
		if cells == 0 {
			words = []string{words[0], words[2]}
		}
		parts = append(parts, strings.Join(words, " "))
	}
	parts = append(parts, fmt.Sprintf("%.0f req/s", f.PerSecond), fmt.Sprintf("%d failed", f.Failed))
	return strings.Join(parts, "  ")
}

// bar returns a bar in which the given fraction of the cells is filled. A fraction above 0 fills at least one cell.
func bar(fraction float64, cells int) string {
	full := int(math.Round(fraction * float64(cells)))
	if fraction > 0 {
		full = max(full, 1)
	}
	full = min(full, cells)
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// Picture shows a live line at the bottom of a terminal, below the text that is written through the Picture.
// If the output is not a terminal, the Picture writes a plain line every five seconds instead. It is safe for
// concurrent use.
type Picture struct {
	out   io.Writer
	width func() (columns int, terminal bool)

	mu     sync.Mutex
	source func() Frame
	text   []byte // The text of an incomplete line.
	drawn  bool   // Whether the live line is on the terminal.
}

// NewPicture returns a picture that writes to out. The picture shows nothing until Show is called.
func NewPicture(out io.Writer) *Picture {
	return &Picture{out: out, width: func() (int, bool) { return widthOf(out) }}
}

func widthOf(out io.Writer) (int, bool) {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return plainWidth, false
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return plainWidth, false
	}
	return width - 1, true // Some terminals wrap after a full last column.
}

// Show draws the frames that source returns from now on. For example, source can be the Frame method of a load. If
// source is nil, the picture shows nothing.
func (p *Picture) Show(source func() Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source = source
	p.clear()
}

// Run draws until ctx ends. Then it removes the live line and writes the remaining text.
func (p *Picture) Run(ctx context.Context) {
	every := plainEvery
	if _, terminal := p.width(); terminal {
		every = frameEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.finish()
			return
		case <-ticker.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// Write writes complete lines of text above the live line. It buffers the beginning of an incomplete line.
func (p *Picture) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, text...)
	end := bytes.LastIndexByte(p.text, '\n') + 1
	if end == 0 {
		return len(text), nil
	}
	wasDrawn := p.drawn
	p.clear()
	_, err := p.out.Write(p.text[:end])
	p.text = append(p.text[:0], p.text[end:]...)
	if wasDrawn {
		p.draw()
	}
	return len(text), err
}

func (p *Picture) draw() {
	if p.source == nil {
		return
	}
	width, terminal := p.width()
	line := p.source().Render(width)
	if !terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprint(p.out, "\r\x1b[K"+line)
	p.drawn = true
}

func (p *Picture) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *Picture) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if len(p.text) > 0 {
		fmt.Fprintf(p.out, "%s\n", p.text)
		p.text = nil
	}
}
