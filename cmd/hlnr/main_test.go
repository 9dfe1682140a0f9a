package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// hlnr runs the command.
func hlnr(t *testing.T, stdin string, args ...string) (code cli.Code, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	f := cli.New("hlnr", version, genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &err})
	code = cli.Run(t.Context(), f, args, commands...)
	return code, out.String(), err.String()
}

func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	if code, stdout, stderr := hlnr(t, "", "nonsense"); code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, `unknown command "nonsense"`) {
		t.Errorf("exit code %d, output %q, error %q", code, stdout, stderr)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"version":         {[]string{"version"}, "hlnr dev\n"},
		"--version":       {[]string{"--version"}, "hlnr version dev\n"},
		"--help":          {[]string{"--help"}, "Check:"},
		"no command":      {[]string{}, "Check:"},
		"explain, --help": {[]string{"explain", "--help"}, "hlnr explain -f policy.yaml --docker-config"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, stdout, stderr := hlnr(t, "", test.args...); code != cli.ExitYes || stderr != "" || !strings.Contains(stdout, test.want) {
				t.Errorf("exit code %d, output %q, error %q", code, stdout, stderr)
			}
		})
	}
}

// TestBinary checks that the binary returns the exit codes, and prints its version.
func TestBinary(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "hlnr")
	args := []string{"build", "-trimpath", "-ldflags", "-X main.version=v1.2.3", "-o", binary}
	if raceDetector() {
		args = append(args, "-race") // The packages are already compiled with this flag. Without it, all packages would be compiled again, which takes minutes.
	}
	if out, err := exec.CommandContext(t.Context(), "go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for name, test := range map[string]struct {
		args []string
		code cli.Code
		want string
	}{
		"version": {[]string{"version"}, cli.ExitYes, "hlnr v1.2.3\n"},
		"yes":     {[]string{"explain", "-f", "explain/testdata/explain/deny/policy.yaml", "--tags", "explain/testdata/explain/deny/tags"}, cli.ExitYes, "1.3.0 "},
		"no":      {[]string{"explain", "-f", "explain/testdata/explain/nothing/policy.yaml", "--tags", "explain/testdata/explain/nothing/tags"}, cli.ExitNo, "none offered"},
		"usage":   {[]string{"explain"}, cli.ExitUsage, "hlnr: --file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), binary, test.args...)
			out, _ := cmd.CombinedOutput()
			if code := cli.Code(cmd.ProcessState.ExitCode()); code != test.code || !strings.Contains(string(out), test.want) {
				t.Errorf("exit code %d, output %q; want %d and %q", code, out, test.code, test.want)
			}
		})
	}
}

// TestKrewManifest checks that the krew manifest contains each archive with its platform, checksum and binary.
func TestKrewManifest(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, platform := range []string{"linux-amd64", "windows-arm64"} {
		if err := os.WriteFile(filepath.Join(folder, "kubectl-hlnr-"+platform+".tar.gz"), []byte(platform), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "../../hack/krew/manifest.sh", "v0.3.0", "https://example.com/v0.3.0", folder).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version, ShortDescription, Homepage string
			Platforms                           []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if got.Metadata.Name != "hlnr" || got.Spec.Version != "v0.3.0" || got.Spec.ShortDescription == "" || got.Spec.Homepage == "" || len(got.Spec.Platforms) != 2 {
		t.Fatalf("%s", out)
	}
	p := got.Spec.Platforms[1]
	if p.Selector.MatchLabels["os"] != "windows" || p.Selector.MatchLabels["arch"] != "arm64" || p.Bin != "kubectl-hlnr.exe" ||
		p.URI != "https://example.com/v0.3.0/kubectl-hlnr-windows-arm64.tar.gz" || p.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte("windows-arm64"))) {
		t.Errorf("%+v", p)
	}
}

// raceDetector reports whether this test runs with the race detector.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}
