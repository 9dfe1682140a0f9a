package explain

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// TestProgress checks that progress is reported every few seconds, but not immediately.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ticks := &ticker{out: &out, every: 5 * time.Second, now: func() time.Time { return now }}
	for i := range 120 { // Each report is a tenth of a second later.
		p := imagepolicy.Progress{Timed: min(10*i, 1000), Times: 1000, Images: max(0, i-100)}
		ticks.report(p)
		now = now.Add(100 * time.Millisecond)
	}
	ticks.report(imagepolicy.Progress{Images: 1})
	now = now.Add(5 * time.Second)
	ticks.report(imagepolicy.Progress{Images: 1})
	want := []string{
		"hlnr: read the build times of 500 of 1000 tags", "hlnr: read the build times of 1000 tags; read 0 images", "hlnr: read 1 image", "",
	}
	if diff := cmp.Diff(want, strings.Split(out.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestExplainOfManyTimes checks that the progress of a run is written only to standard error, and that an incomplete run ends with an error
// that contains the fix.
func TestExplainOfManyTimes(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	var reported []imagepolicy.Progress
	for i := range 3 {
		server.PushImage(t, "shop", fmt.Sprintf("t%d", i), registrytest.Image(t, "shop", "linux/amd64", time.Now().Add(-time.Duration(i+1)*time.Minute)))
	}
	manifest := strings.Replace(smallPolicy, "registry.example.com/shop", server.Repository("shop")+", versioning: {scheme: PushTime}", 1)
	options := options{file: "-", platform: "linux/amd64", output: outputTable, refused: 10, timeout: time.Minute}
	var stdout bytes.Buffer
	err := options.run(t.Context(), nil, strings.NewReader(manifest), &stdout, func(p imagepolicy.Progress) { reported = append(reported, p) })
	if want := (imagepolicy.Progress{Timed: 3, Times: 3, Images: 3}); err != nil || reported[len(reported)-1] != want || !strings.Contains(stdout.String(), "3 tags: 3 offered") {
		t.Errorf("%v, progress %+v, want %+v at the end; output:\n%s", err, reported, want, stdout.String())
	}

	code, out, stderr := hlnr(t, manifest, "explain", "-f", "-", "--timeout", "1ns")
	if code != cli.ExitTimeout || out != "" || !strings.Contains(stderr, "not complete after 1ns: select fewer tags with spec.tagFilter, or increase --timeout") {
		t.Errorf("without time: exit code %d, output %q, error %q", code, out, stderr)
	}

	// The result for a registry that fails during a run differs from the result for a registry without tags.
	fails := func(status int, code string) {
		tags := 0 // The lock of the server protects this number.
		server.FailWhen(func(r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/t") {
				tags++
			}
			return tags > 1
		}, -1, registrytest.Status(status, code))
	}
	fails(http.StatusBadGateway, "UNKNOWN")
	code, out, stderr = hlnr(t, manifest, "explain", "-f", "-")
	if code != cli.ExitFailed || out != "" || !strings.Contains(stderr, "the build times of 2 of 3 tags are unknown, and all are needed") || !strings.Contains(stderr, "502") {
		t.Errorf("a registry that fails: exit code %d, output %q, error %q", code, out, stderr)
	}

	// The command still requests the other images after the registry rejects some images.
	server.Heal()
	fails(http.StatusForbidden, "DENIED")
	code, out, stderr = hlnr(t, manifest, "explain", "-f", "-")
	if code != cli.ExitYes || !strings.Contains(out, "3 tags: 1 offered") || strings.Count(out, "403 Forbidden (DENIED)") != 2 {
		t.Errorf("a registry that rejects two images: exit code %d, output %q, error %q", code, out, stderr)
	}
}
