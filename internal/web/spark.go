package web

import (
	"fmt"
	"strings"

	"github.com/heighliner/heighliner/internal/view"
)

// These constants define the size of a sparkline in its own units. sparkEdge is the margin that leaves space for the last point.
const (
	sparkWidth  = 100.0
	sparkHeight = 20.0
	sparkEdge   = 2.0
)

// sparkline is a picture that shows the values of a metric and its bounds.
type sparkline struct {
	// Points are the points of the line. X and Y are the coordinates of the last point. Bounds are the heights of the lines that mark the bounds.
	Points, X, Y string
	Bounds       []string
	// Label describes the picture for screen readers.
	Label string
}

// spark draws a metric. It returns nil if there are fewer than two values.
func spark(m view.Metric) *sparkline {
	if len(m.Values) < 2 {
		return nil
	}
	low, high := m.Values[0], m.Values[0]
	for _, v := range m.Values {
		low, high = min(low, v), max(high, v)
	}
	var words []string
	for _, b := range []struct {
		word  string
		value *float64
	}{{"at least", m.Min}, {"at most", m.Max}} {
		if b.value != nil {
			low, high = min(low, *b.value), max(high, *b.value)
			words = append(words, fmt.Sprintf("%s %g", b.word, *b.value))
		}
	}
	if high == low {
		high++
	}
	height := func(v float64) string {
		return fmt.Sprintf("%.1f", sparkHeight-sparkEdge-(v-low)/(high-low)*(sparkHeight-2*sparkEdge))
	}
	out := &sparkline{}
	var points, values []string
	for i, v := range m.Values {
		out.X, out.Y = fmt.Sprintf("%.1f", sparkEdge+float64(i)*(sparkWidth-2*sparkEdge)/float64(len(m.Values)-1)), height(v)
		points, values = append(points, out.X+","+out.Y), append(values, fmt.Sprintf("%g", v))
	}
	for _, bound := range []*float64{m.Min, m.Max} {
		if bound != nil {
			out.Bounds = append(out.Bounds, height(*bound))
		}
	}
	out.Points, out.Label = strings.Join(points, " "), m.Name+": "+strings.Join(values, ", ")
	if len(words) > 0 {
		out.Label += "; " + strings.Join(words, " and ")
	}
	return out
}
