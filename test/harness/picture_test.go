package harness

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFrameRender(t *testing.T) {
	canary := Frame{Split: SplitOf(map[string]int{"1.0.0": 90, "1.1.0": 10}), PerSecond: 50}
	labelled := canary
	labelled.Label, labelled.Failed = "1.x.shop.localhost", 3
	for name, test := range map[string]struct {
		frame Frame
		width int
		want  string
	}{
		"canary":                    {canary, 120, "1.0.0 ██████████████████░░ 90%  1.1.0 ██░░░░░░░░░░░░░░░░░░ 10%  50 req/s  0 failed"},
		"labelled":                  {labelled, 120, "1.x.shop.localhost  1.0.0 ██████████████████░░ 90%  1.1.0 ██░░░░░░░░░░░░░░░░░░ 10%  50 req/s  3 failed"},
		"shorter bars":              {canary, 79, "1.0.0 █████████░ 90%  1.1.0 █░░░░░░░░░ 10%  50 req/s  0 failed"},
		"shortest bars":             {canary, 60, "1.0.0 █████ 90%  1.1.0 █░░░░ 10%  50 req/s  0 failed"},
		"no bars":                   {canary, 40, "1.0.0 90%  1.1.0 10%  50 req/s  0 failed"},
		"cut":                       {canary, 20, "1.0.0 90%  1.1.0 10%"},
		"no width":                  {canary, 0, ""},
		"before the first response": {Frame{}, 120, "no responses yet  0 req/s  0 failed"},
		"a small share is visible":  {Frame{Split: SplitOf(map[string]int{"1.0.0": 999, "1.1.0": 1}), PerSecond: 49.6}, 120, "1.0.0 ████████████████████ 100%  1.1.0 █░░░░░░░░░░░░░░░░░░░ 0%  50 req/s  0 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.frame.Render(test.width)); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

// draw runs a picture while script writes, then stops the picture, and returns its output.
func draw(t *testing.T, terminal bool, script func(*Picture)) (out string) {
	synctest.Test(t, func(t *testing.T) {
		var buffer bytes.Buffer
		picture := NewPicture(&buffer)
		picture.width = func() (int, bool) { return 80, terminal }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { picture.Run(ctx); close(ended) }()
		script(picture)
		cancel()
		<-ended
		out = buffer.String()
	})
	return out
}

func TestPictureOnATerminal(t *testing.T) {
	frames := 0
	got := draw(t, true, func(p *Picture) {
		fmt.Fprintln(p, "pushing 1.0.0")
		p.Show(func() Frame { frames++; return Frame{PerSecond: float64(frames)} })
		time.Sleep(260 * time.Millisecond)
		fmt.Fprint(p, "pushing ")
		fmt.Fprintln(p, "1.1.0")
		fmt.Fprint(p, "unended")
	})
	const up, clear = "\r\x1b[K", "\r\x1b[K"
	want := "pushing 1.0.0\n" + up + "no responses yet  1 req/s  0 failed" +
		clear + "pushing 1.1.0\n" + up + "no responses yet  2 req/s  0 failed" + clear + "unended\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestPictureWithoutATerminal(t *testing.T) {
	got := draw(t, false, func(p *Picture) {
		p.Show(func() Frame { return Frame{PerSecond: 50} })
		time.Sleep(11 * time.Second)
		fmt.Fprintln(p, "pushing 1.0.0")
		p.Show(nil)
		time.Sleep(time.Minute)
	})
	line := "no responses yet  50 req/s  0 failed\n"
	if diff := cmp.Diff(strings.Repeat(line, 2)+"pushing 1.0.0\n", got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
