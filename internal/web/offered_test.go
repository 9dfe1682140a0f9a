package web

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// actLink matches a link to the form of an action on the service shop, to which all test histories belong.
var actLink = regexp.MustCompile(`href="/services/shop/shop/acts/([^"]+)"`)

// TestOfferedActs checks that the planner applies each decision that the page of a service offers.
func TestOfferedActs(t *testing.T) {
	t.Parallel()
	last := map[string]viewtest.Moment{}
	for _, m := range viewtest.Decisions() {
		last[m.Name] = m
	}
	offered := 0
	for name, m := range last {
		page := serve(t, m.Input, m.Now).get("/services/shop/shop")
		for _, l := range actLink.FindAllStringSubmatch(page, -1) {
			verb, query, _ := strings.Cut(strings.ReplaceAll(l[1], "&amp;", "&"), "?")
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(decides, verb) {
				continue
			}
			offered++
			if out := m.Decide(actVerbs[verb], values.Get("target")); out != "Applied" {
				t.Errorf("%s: %s %s: %s", name, verb, values.Get("target"), out)
			}
		}
	}
	if offered == 0 {
		t.Error("no page offers a decision")
	}
}

// TestOutageOfAnExclusiveGroup checks that a service counts as failed if its exclusive group has no serving pod.
func TestOutageOfAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("exclusive crash", "shop")
	if got := textOf(t, serve(t, s.Input, s.Now).get("/?state=failed")); !strings.Contains(got, "out of licenses; no pod serves traffic") {
		t.Errorf("the board, state failed: %s", got)
	}
}
