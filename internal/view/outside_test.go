package view

import (
	"slices"
	"testing"

	"github.com/heighliner/heighliner/internal/release"
)

// TestProblemsInWords checks that each problem outside a release for which a rollout can wait is described in words.
func TestProblemsInWords(t *testing.T) {
	for _, reason := range release.OutsideReasons() {
		if words := ProblemInWords(string(reason)); words == string(reason) {
			t.Errorf("%s is not described in words", reason)
		}
	}
	for reason := range outside {
		if !slices.Contains(release.OutsideReasons(), release.Reason(reason)) {
			t.Errorf("%s is described, but is not a problem outside a release", reason)
		}
	}
}
