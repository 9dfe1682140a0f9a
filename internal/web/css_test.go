package web

import (
	"strings"
	"testing"
)

// TestWordsDoNotBreak checks that neither headings nor short columns break inside words.
func TestWordsDoNotBreak(t *testing.T) {
	t.Parallel()
	css, err := files.ReadFile("assets/board.css")
	if err != nil {
		t.Fatal(err)
	}
	var whole string
	for rule := range strings.SplitSeq(string(css), "}") {
		selectors, body, _ := strings.Cut(rule, "{")
		for selector := range strings.SplitSeq(selectors, ",") {
			selector = strings.TrimSpace(selector)
			if strings.Contains(body, "overflow-wrap: anywhere") && (selector == "th" || selector == "td" || selector == "thead th") {
				t.Errorf("%s breaks inside words", selector)
			}
			if strings.Contains(body, "white-space: nowrap") {
				whole += "\n" + selector + "\n"
			}
		}
	}
	for _, selector := range []string{"thead th", `td[data-label="Since"]`, `td[data-label="Took"]`, `td[data-label="Started"]`, `td[data-label="Share"]`, `td[data-label="Status"]`} {
		if !strings.Contains(whole, "\n"+selector+"\n") {
			t.Errorf("%s breaks", selector)
		}
	}
}
