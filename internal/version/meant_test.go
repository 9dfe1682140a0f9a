package version

import (
	"strings"
	"testing"
)

// TestMeant checks that a pin may contain the tag of its version.
func TestMeant(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "1.2.3_4": "1.2.3+4", "2024.01.05": "2024.1.5",
		"1.2.3.04": "1.2.3.4", "v1.2.3.4": "1.2.3.4", "1.2.3.4-rc": "1.2.3.4-rc",
		"vv1.2.3": "vv1.2.3", "1.2": "1.2", "v1": "v1", "": "", "v": "v", "1.2-rc.1": "1.2-rc.1",
		"4f2d1c9e": "4f2d1c9e", "v4f2d1c9e": "v4f2d1c9e", "1.x": "1.x", "latest": "latest", "1.2.3.4.5.6.7": "1.2.3.4.5.6.7",
	} {
		if got := Meant(text); got != want {
			t.Errorf("%q means %q, want %q", text, got, want)
		}
		if !Names(text, want) || !Names(want, want) || Names(text, want+"0") {
			t.Errorf("%q does not name %q alone", text, want)
		}
	}
}

// TestMatches checks that users may enter the beginning of a commit, but not the beginning of any other version.
func TestMatches(t *testing.T) {
	commit := strings.Repeat("4f2d", 10)
	for text, want := range map[string]bool{commit: true, commit[:7]: true, commit[:6]: false, "4f2d4f3": false, "": false, commit + "0": false} {
		if got := Matches(text, commit); got != want {
			t.Errorf("%q matches the commit: %t", text, got)
		}
	}
	if long := "1.14.100-rc.20260105123045.0123456789abc"; len(long) != len(commit) || Matches("1.14.10", long) {
		t.Errorf("1.14.10 matches %s, although this is not a commit", long)
	}
	if Matches("1.2.3-rc", "1.2.3-rc.1") || !Matches("v1.2.3", "1.2.3") {
		t.Error("wrong result for a version that is not a commit")
	}
}
