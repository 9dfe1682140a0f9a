package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the root of the repository, relative to this package.
const root = "../.."

// TestUpToDate checks that the committed files are up to date.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	for path, want := range files() {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the output of hack/dashboards (%v): run make dashboards", path, err)
		}
	}
}

// TestAlerts runs the unit tests of the alerts in promtool.
func TestAlerts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", root + "/config/components/alerts/rules.yaml"}, {"test", "rules", "testdata/alerts.yaml"}} {
		out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v (make test installs promtool; to install it manually: apt-get install prometheus)\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts()[0].Rules {
		silent, fires := "{alertname: "+r.Alert+", eval_time", "- alertname: "+r.Alert+"\n"
		if !bytes.Contains(tests, []byte(silent)) || !bytes.Contains(tests, []byte(fires)) {
			t.Errorf("%s needs a unit test in which it fires, and a unit test in which it does not fire", r.Alert)
		}
	}
}

// TestRunbooks checks that each alert has a runbook that contains its name, and that each runbook belongs to an alert
// and has the same sections as the others.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	named := map[string]bool{"README.md": true}
	folder := filepath.Join(root, "docs", "how-to", "runbooks")
	for _, r := range alerts()[0].Rules {
		page := strings.TrimPrefix(r.Annotations["runbook_url"], runbooks)
		named[page] = true
		text, err := os.ReadFile(filepath.Join(folder, page))
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		for _, part := range []string{"`" + r.Alert + "`", "\n## Meaning\n", "\n## Checks\n", "\n## Fix\n", "\n## When you can ignore the alert\n", "hlnr "} {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s lacks %q", page, strings.TrimSpace(part))
			}
		}
	}
	pages, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if !named[p.Name()] {
			t.Errorf("no alert links %s", p.Name())
		}
	}
}
