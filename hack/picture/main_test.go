package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestDraw tests that the picture is well-formed, that its legend lists the versions in ascending order, that text is
// escaped, that steps have no marks, and that shares are fractions of the total.
func TestDraw(t *testing.T) {
	t.Parallel()
	var r record
	if err := json.Unmarshal([]byte(`{"domain": "a.example.com", "samples": [
		{"seconds": 1, "programmed": {"1.9.0": 100}, "answered": {"1.9.0": 50}},
		{"seconds": 2, "programmed": {"1.9.0": 90, "1.10.0": 10}, "answered": {"1.9.0": 44, "1.10.0": 6}, "failed": 2},
		{"seconds": 3, "programmed": {"1.10.0": 100}, "answered": {"1.10.0": 50}}],
		"marks": [{"seconds": 1.5, "text": "1.10.0 <starts>"}, {"seconds": 2, "text": "1.10.0 at 10%"}]}`), &r); err != nil {
		t.Fatal(err)
	}
	svg := draw(r)
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	older, newer := strings.Index(svg, ">1.9.0<"), strings.Index(svg, ">1.10.0<")
	if older < 0 || newer < older {
		t.Errorf("the legend is not in the order of the versions:\n%s", svg)
	}
	for _, want := range []string{"failed: 2", "1.10.0 &lt;starts&gt;", "a.example.com"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture does not contain %q", want)
		}
	}
	if strings.Contains(svg, "at 10%") {
		t.Error("a step has a mark")
	}
	if diff := shares(map[string]float64{"a": 30, "b": 10})["a"]; diff != 0.75 {
		t.Errorf("share %v, want 0.75", diff)
	}
}
