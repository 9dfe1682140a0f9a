// Command picture draws a demo's record as an SVG: the weights that the gateway accepted, and the versions
// that clients saw, over time.
//
//	bin/demo -record docs/images/demo.json
//	go run ./hack/picture docs/images/demo.json docs/images/demo.svg
package main

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// record is the format of the demo's record.
type record struct {
	Domain  string `json:"domain"`
	Samples []struct {
		Seconds    float64            `json:"seconds"`
		Programmed map[string]float64 `json:"programmed"`
		Answered   map[string]float64 `json:"answered"`
		Failed     int                `json:"failed"`
	} `json:"samples"`
	Marks []struct {
		Seconds float64 `json:"seconds"`
		Text    string  `json:"text"`
	} `json:"marks"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: picture RECORD.json PICTURE.svg")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if len(r.Samples) < 2 {
		return fmt.Errorf("%s: no samples", from)
	}
	return os.WriteFile(to, []byte(draw(r)), 0o644)
}

// These are sizes in pixels.
const (
	width, height = 1020, 480
	left, right   = 60, 940
	panel         = 150
	first, second = 60, 260
)

// colors are the colors of versions, oldest first. Labels identify the versions independently of
// color.
var colors = []string{"#2f6fb3", "#e08a1e", "#3f9b63", "#b04a8b", "#7a6fd0", "#7f8790"}

// point contains the shares at a point in time.
type point struct {
	seconds float64
	shares  map[string]float64
}

func draw(r record) string {
	var asked, seen []point
	failed := 0
	for _, s := range r.Samples {
		asked = append(asked, point{s.Seconds, shares(s.Programmed)})
		seen = append(seen, point{s.Seconds, shares(s.Answered)})
		failed += s.Failed
	}
	versions := versionsOf(append(slices.Clone(asked), seen...))
	end := r.Samples[len(r.Samples)-1].Seconds
	x := func(seconds float64) float64 { return left + (right-left)*seconds/end }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	for i, version := range versions {
		at := left + 90*i
		fmt.Fprintf(&b, `<rect x="%d" y="14" width="14" height="14" fill="%s"/><text x="%d" y="26" fill="#1c2330">%s</text>`+"\n", at, colorOf(i), at+20, html.EscapeString(version))
	}
	area(&b, "weights as the gateway accepted them", first, asked, versions, x)
	area(&b, fmt.Sprintf("responses that clients of %s received; failed: %d", r.Domain, failed), second, seen, versions, x)
	for _, m := range r.Marks {
		if !strings.Contains(m.Text, "%") { // A mark for each step would be too much.
			fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#1c2330" stroke-dasharray="3 3"/><text transform="translate(%.1f %d) rotate(25)" font-size="11" fill="#1c2330">%s</text>`+"\n",
				x(m.Seconds), first, second+panel, x(m.Seconds), second+panel+16, html.EscapeString(m.Text))
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#5b6475">%.0f s</text>`+"\n</svg>\n", right+8, second+panel+4, end)
	return b.String()
}

// area draws a panel of stacked shares.
func area(b *strings.Builder, title string, top int, points []point, versions []string, x func(float64) float64) {
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#5b6475">%s</text>`+"\n", left, top-8, html.EscapeString(title))
	base := make([]float64, len(points))
	for i, version := range versions {
		var up, down []string
		for j, p := range points {
			low, high := base[j], base[j]+p.shares[version]
			base[j] = high
			up = append(up, fmt.Sprintf("%.1f %.1f", x(p.seconds), float64(top)+panel*(1-high)))
			down = append(down, fmt.Sprintf("%.1f %.1f", x(p.seconds), float64(top)+panel*(1-low)))
		}
		slices.Reverse(down)
		fmt.Fprintf(b, `<path d="M%sZ" fill="%s"><title>%s</title></path>`+"\n", strings.Join(append(up, down...), "L"), colorOf(i), html.EscapeString(version))
	}
	for _, percent := range []int{0, 50, 100} {
		y := top + panel - panel*percent/100
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#5b6475">%d%%</text>`+"\n", left-8, y+4, percent)
	}
}

// shares returns the shares of the total, from 0 to 1.
func shares(counts map[string]float64) map[string]float64 {
	total := 0.0
	for _, n := range counts {
		total += n
	}
	out := map[string]float64{}
	for version, n := range counts {
		if n > 0 {
			out[version] = n / total
		}
	}
	return out
}

// versionsOf returns the versions of all points, lowest first.
func versionsOf(points []point) []string {
	known := map[string]bool{}
	for _, p := range points {
		for version := range p.shares {
			known[version] = true
		}
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		x, errX := semver.NewVersion(a)
		y, errY := semver.NewVersion(b)
		if errX != nil || errY != nil {
			return strings.Compare(a, b)
		}
		return x.Compare(y)
	})
}

func colorOf(i int) string { return colors[min(i, len(colors)-1)] }
