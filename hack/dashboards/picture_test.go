//go:build dashboards

package main

import (
	"bytes"
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strings"
)

// picture is the result of a panel's query.
type picture struct {
	title, unit string
	lines       []result
}

// Size of a picture in pixels, number of pictures in each row, and maximum number of lines in a legend.
const (
	width, height, columns = 380, 170, 3
	maxLegend              = 4
)

var colours = []string{"#3274d9", "#e0752d", "#299c46", "#a352cc", "#c4162a", "#777777"}

// draw returns an SVG with the results of a dashboard's queries.
func draw(name string, pictures []picture) []byte {
	var out bytes.Buffer
	rows := (len(pictures) + columns - 1) / columns
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", columns*width, rows*height)
	fmt.Fprintf(&out, "<title>Results of the queries of the dashboard %s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", html.EscapeString(name))
	for i, p := range pictures {
		fmt.Fprintf(&out, `<g transform="translate(%d %d)">`+"\n", i%columns*width+10, i/columns*height+10)
		p.draw(&out)
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func (p picture) draw(out *bytes.Buffer) {
	const w, h, top = width - 20, 80, 20
	first, last, most := math.Inf(1), math.Inf(-1), 0.0
	for _, l := range p.lines {
		for _, v := range l.Values {
			if n := number(v); !math.IsNaN(n) {
				at := v[0].(float64)
				first, last, most = min(first, at), max(last, at), max(most, n)
			}
		}
	}
	fmt.Fprintf(out, `<text y="10" font-weight="bold" fill="#222222">%s</text>`+"\n", html.EscapeString(p.title))
	fmt.Fprintf(out, `<rect y="%d" width="%d" height="%d" fill="none" stroke="#cccccc"/><text x="%d" y="%d" text-anchor="end" fill="#777777">%.4g %s</text>`+"\n",
		top, w, h, w-4, top+12, most, html.EscapeString(p.unit))
	for i, l := range p.lines {
		var points []string
		for _, v := range l.Values {
			if n := number(v); !math.IsNaN(n) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", (v[0].(float64)-first)/max(1, last-first)*w, top+h-n/max(most, 1e-9)*h))
			}
		}
		colour := colours[i%len(colours)]
		fmt.Fprintf(out, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", colour, strings.Join(points, " "))
		if i < maxLegend {
			fmt.Fprintf(out, `<text y="%d" fill="%s">%s</text>`+"\n", top+h+12+11*i, colour, html.EscapeString(legend(l.Metric)))
		}
	}
}

// legend returns the legend of a series: the values of the labels other than namespace, instance and job.
func legend(labels map[string]string) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k == "namespace" || k == "instance" || k == "job" {
			continue
		}
		words = append(words, labels[k])
	}
	return strings.Join(words, " ")
}
