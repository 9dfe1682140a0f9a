package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

var update = flag.Bool("update", false, "update the outputs in testdata")

// hlnr runs the command.
func hlnr(t *testing.T, stdin string, args ...string) (code cli.Code, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	f := cli.New("hlnr", "dev", genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &err})
	code = cli.Run(t.Context(), f, args, NewCommand)
	return code, out.String(), err.String()
}

// file writes a file for the test.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestExplainTags checks the output for each folder in testdata/explain. A folder contains a policy, tags and the expected
// output. The order of the tags does not matter.
func TestExplainTags(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("testdata/explain/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no folder: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			read := func(name string) string {
				text, err := os.ReadFile(filepath.Join(folder, name))
				if err != nil && !*update {
					t.Fatal(err)
				}
				return string(text)
			}
			explain := func(tags string) string {
				code, stdout, stderr := hlnr(t, tags, "explain", "-f", filepath.Join(folder, "policy.yaml"), "--tags", "-", "--all")
				return fmt.Sprintf("%s%sexit code %d\n", stdout, stderr, code)
			}
			got := explain(read("tags"))
			if *update {
				if err := os.WriteFile(filepath.Join(folder, "want"), []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read("want"), got); diff != "" {
				t.Error(diff)
			}
			tags := strings.Fields(read("tags"))
			random := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				random.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
				if diff := cmp.Diff(got, explain(strings.Join(append(tags, tags[0]), "\n"))); diff != "" {
					t.Fatalf("tags %q: %s", tags, diff)
				}
			}
		})
	}
}

const smallPolicy = "apiVersion: hlnr.io/v1alpha1\nkind: ImagePolicy\nmetadata: {name: shop}\nspec: {image: registry.example.com/shop}\n"

// TestExplainRefuses checks that invalid input results in exit code 2, and in a message that contains the fix.
func TestExplainRefuses(t *testing.T) {
	t.Parallel()
	policy := func(spec string) string {
		return strings.TrimSuffix(smallPolicy, "}\n") + ", " + spec + "}\n"
	}
	for name, test := range map[string]struct {
		args  []string // POLICY is replaced with a file that contains the manifest.
		stdin string
		want  string
	}{
		"no manifest":                     {[]string{}, "", "--file is required"},
		"no file":                         {[]string{"-f", "testdata/none.yaml"}, "", "--file: open testdata/none.yaml"},
		"missing tags file":               {[]string{"-f", "-", "--tags", "testdata/none"}, smallPolicy, "--tags: open testdata/none"},
		"standard input twice":            {[]string{"-f", "-", "--tags", "-"}, "", "--tags: standard input"},
		"tags and credential":             {[]string{"-f", "-", "--tags", "x", "--docker-config", "y"}, "", "--tags does not use the registry"},
		"unknown output":                  {[]string{"-f", "-", "-o", "wide"}, "", `--output: unknown format "wide": use one of table, json, yaml`},
		"negative --refused":              {[]string{"-f", "-", "--refused", "-1"}, "", "--refused: invalid value -1"},
		"unknown flag":                    {[]string{"--nonsense"}, "", "unknown flag: --nonsense"},
		"arguments":                       {[]string{"shop", "web"}, "", `unexpected argument "web"`},
		"empty":                           {[]string{"-f", "-"}, "", "no ImagePolicy with apiVersion hlnr.io/v1alpha1 found: set kind and apiVersion"},
		"not YAML":                        {[]string{"-f", "-"}, "a: b: c", "read YAML"},
		"not an object":                   {[]string{"-f", "-"}, "- a", "a document is not an object"},
		"duplicate key":                   {[]string{"-f", "-"}, smallPolicy + "kind: ImagePolicy\n", `key "kind" already set`},
		"another kind":                    {[]string{"-f", "-"}, strings.ReplaceAll(smallPolicy, "ImagePolicy", "Microservice"), "no ImagePolicy with apiVersion hlnr.io/v1alpha1 found: set kind and apiVersion"},
		"kind of another group":           {[]string{"-f", "-"}, strings.ReplaceAll(smallPolicy, "hlnr.io", "image.toolkit.fluxcd.io"), "no ImagePolicy with apiVersion hlnr.io/v1alpha1 found: set kind and apiVersion"},
		"two policies":                    {[]string{"-f", "-"}, smallPolicy + "---\n" + smallPolicy, "select one with --name (shop, shop)"},
		"another name":                    {[]string{"-f", "-", "--name", "cart"}, smallPolicy, `and name "cart" found: correct --name, or omit it`},
		"unknown field":                   {[]string{"-f", "-"}, policy("imagee: x"), `unknown field "spec.imagee"`},
		"unknown metadata field":          {[]string{"-f", "-"}, strings.Replace(smallPolicy, "name: shop", "nam: shop", 1), `unknown field "metadata.nam"`},
		"type":                            {[]string{"-f", "-"}, policy("suspend: 3"), "spec.suspend"},
		"pattern of the schema":           {[]string{"-f", "-"}, policy("minAge: 1 day"), "spec.minAge"},
		"rule of the schema":              {[]string{"-f", "-"}, policy("interval: 1s"), "spec.interval must be between 5s and 24h"},
		"rule over fields":                {[]string{"-f", "-"}, policy("tagFilter: {extract: $v}"), "requires spec.tagFilter.pattern"},
		"enumeration":                     {[]string{"-f", "-"}, policy("versioning: {groupBy: Year}"), `spec.versioning.groupBy: Unsupported value: "Year"`},
		"equal entries":                   {[]string{"-f", "-"}, policy("deny: [1.0.0, 1.0.0]"), `spec.deny[1]: Duplicate value: "1.0.0"`},
		"image with a tag":                {[]string{"-f", "-"}, strings.Replace(smallPolicy, "com/shop", "com/shop:1.0.0", 1), "spec.image must be a repository"},
		"range":                           {[]string{"-f", "-", "--tags", "testdata/explain/deny/tags"}, policy(`versioning: {range: "one"}`), `spec.versioning.range: "one" is not a range`},
		"range, with a registry":          {[]string{"-f", "-"}, policy(`versioning: {range: "one"}`), `spec.versioning.range: "one" is not a range`},
		"regular expression":              {[]string{"-f", "-", "--tags", "testdata/explain/deny/tags"}, policy(`tagFilter: {pattern: "(?=a)"}`), "spec.tagFilter.pattern"},
		"credential without file":         {[]string{"-f", "-", "--docker-config", "testdata/none"}, smallPolicy, "--docker-config: open"},
		"credential without JSON":         {[]string{"-f", "-", "--docker-config", "testdata/explain/deny/tags"}, smallPolicy, "--docker-config: read pull secrets"},
		"credential of another registry":  {[]string{"-f", "-", "--docker-config", "OTHER"}, smallPolicy, "auths has no entry for"},
		"PushTime with a list of tags":    {[]string{"-f", "-", "--tags", "testdata/explain/deny/tags"}, policy("versioning: {scheme: PushTime}"), "spec.versioning.scheme PushTime: a list of tags does not contain"},
		"GitHub source without a cluster": {[]string{"-f", "-", "--tags", "testdata/explain/deny/tags"}, policy("source: {github: {repositoryRef: {name: shop}, tags: {}}}"), "spec.source.github: GitHub sources can be explained only in a cluster"},
		"platform without a scan":         {[]string{"shop", "--platform", "linux/arm64"}, "", "--platform and --timeout are for a scan: add --scan"},
		"timeout without a scan":          {[]string{"shop", "--timeout", "1m"}, "", "--platform and --timeout are for a scan: add --scan"},
		"certificates and tags":           {[]string{"-f", "-", "--tags", "x", "--ca-file", "y"}, "", "--tags does not use the registry"},
		"certificate without file":        {[]string{"-f", "-", "--ca-file", "testdata/none"}, smallPolicy, "--key-file: open testdata/none"},
		"no certificate":                  {[]string{"-f", "-", "--ca-file", "testdata/explain/deny/tags"}, smallPolicy, `key "ca.crt" contains no certificate`},
		"certificate without key":         {[]string{"-f", "-", "--cert-file", "testdata/explain/deny/tags"}, smallPolicy, `key "tls.crt" is set without "tls.key"`},
		"manifest is large":               {[]string{"-f", "-"}, strings.Repeat("#", maxInput+1), "larger than 32 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"explain"}, test.args...)
			if i := slices.Index(args, "OTHER"); i >= 0 {
				args[i] = file(t, `{"auths":{"registry.example.org":{"auth":"YTpi"}}}`)
			}
			code, stdout, stderr := hlnr(t, test.stdin, args...)
			if code != cli.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, "hlnr: ") || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, output %q, error %q; want code %d and an error with %q", code, stdout, stderr, cli.ExitUsage, test.want)
			}
		})
	}
}

// TestExplainFindsThePolicy checks that explain can read a manifest that was exported from a cluster, has a status, and is in the same
// stream as other manifests.
func TestExplainFindsThePolicy(t *testing.T) {
	t.Parallel()
	other := strings.Replace(smallPolicy, "name: shop", "name: cart", 1)
	found := strings.Replace(smallPolicy, "{name: shop}", `{name: shop, namespace: shop, uid: a, resourceVersion: "7", generation: 2, creationTimestamp: "2026-01-02T03:04:05Z",
  annotations: {a: b}, managedFields: [{manager: kubectl, operation: Apply, apiVersion: hlnr.io/v1alpha1, time: "2026-01-02T03:04:05Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:image": {}}}}]}`, 1)
	stream := "kind: ConfigMap\napiVersion: v1\n---\n---\n" + found + "status: {latest: 1.0.0, ofAnotherVersion: true}\n---\n" + other
	code, stdout, stderr := hlnr(t, stream, "explain", "-f", "-", "--name", "shop", "--tags", file(t, "# two\n1.0.0\r\n\n 1.1.0 \n"), "-o", "json")
	if code != cli.ExitYes || stderr != "" {
		t.Fatalf("exit code %d, error %q", code, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := report{
		Policy: "shop", Image: "registry.example.com/shop", Tags: 2, Offered: 2, Groups: 1, Latest: "1.1.0",
		Notes: []string{"the registry was not used: each tag counts as an image for all platforms"},
		Candidates: []judged{
			{Tag: "1.1.0", Version: "1.1.0", Group: "release", Level: "Release", Verdict: "Offered", Reason: "newest of its group"},
			{Tag: "1.0.0", Version: "1.0.0", Group: "release", Level: "Release", Verdict: "Offered"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestExplainHides checks that explain without --all prints the newest rejected tags, and the number of other rejected tags.
func TestExplainHides(t *testing.T) {
	t.Parallel()
	var tags strings.Builder
	for i := range 50 {
		fmt.Fprintf(&tags, "1.%d.0-rc.1\nbuild-%d\n", i, i)
	}
	tags.WriteString("1.0.0\n")
	input := file(t, tags.String())
	for name, test := range map[string]struct {
		args         []string
		rows, hidden int
	}{
		"default": {nil, 11, 90}, "none": {[]string{"--refused", "0"}, 1, 100}, "all": {[]string{"--all", "--refused", "3"}, 101, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, _ := hlnr(t, smallPolicy, append([]string{"explain", "-f", "-", "--tags", input, "-o", "yaml"}, test.args...)...)
			var got report
			if err := yaml.UnmarshalStrict([]byte(stdout), &got); err != nil || code != cli.ExitYes {
				t.Fatalf("exit code %d, %v", code, err)
			}
			if len(got.Candidates) != test.rows || got.Hidden != test.hidden || got.Tags != 101 || got.Offered != 1 {
				t.Errorf("%d rows, %d hidden, %d tags, %d offered", len(got.Candidates), got.Hidden, got.Tags, got.Offered)
			}
		})
	}
}

// TestExplainRegistry checks that explain uses a registry as the controller does: images must exist for the platform, and credentials are sent only if a
// flag sets them.
func TestExplainRegistry(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	for _, tag := range []string{"1.0.0", "1.1.0", "1.2.0-rc.1"} {
		server.Push(t, "team/shop", tag)
	}
	server.Push(t, "team/shop", "1.3.0", "linux/arm64")
	server.SetTags("team/shop", []string{"1.4.0", "1.3.0", "1.2.0-rc.1", "1.1.0", "1.0.0"})
	server.RequireBasic("robot", "secret")
	manifest := fmt.Sprintf("apiVersion: hlnr.io/v1alpha1\nkind: ImagePolicy\nmetadata: {name: shop}\nspec: {image: %s, imagePullSecrets: [{name: registry}]}\n", server.Repository("team/shop"))
	config := func(password string) string {
		return file(t, fmt.Sprintf(`{"auths":{%q:{"username":"robot","password":%q}}}`, server.Host(), password))
	}

	code, stdout, stderr := hlnr(t, manifest, "explain", "-f", "-", "--docker-config", config("secret"), "--platform", "linux/amd64", "-o", "json")
	if code != cli.ExitYes || stderr != "" {
		t.Fatalf("exit code %d, error %q", code, stderr)
	}
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	var verdicts []string
	for _, c := range got.Candidates {
		verdicts = append(verdicts, c.Tag+" "+c.Verdict)
		if digest := strings.HasPrefix(c.Image, server.Repository("team/shop")+":"+c.Tag+"@sha256:"); digest != (c.Verdict == verdictOffered) {
			t.Errorf("%s %s has the image %q", c.Tag, c.Verdict, c.Image)
		}
	}
	want := []string{"1.4.0 Exists", "1.3.0 Platform", "1.2.0-rc.1 Level", "1.1.0 Offered", "1.0.0 Offered"}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Error(diff)
	}
	if len(got.Notes) != 0 {
		t.Errorf("notes %q for a complete result", got.Notes)
	}

	for spec, note := range map[string]bool{"": true, ", platforms: [linux/amd64]": false} {
		_, stdout, _ = hlnr(t, strings.Replace(manifest, "{image:", "{limits: {tags: 100}"+spec+", image:", 1), "explain", "-f", "-", "--docker-config", config("secret"))
		if want := "note: spec.platforms is not set: the images were evaluated for linux/" + runtime.GOARCH + ", the platform of this machine, but the manager uses its own platform: set --platform to the platform of the manager or to the value of its --default-platform flag\n"; strings.Contains(stdout, want) != note {
			t.Errorf("spec %q: output:\n%s\nwant the note %q: %t", spec, stdout, want, note)
		}
	}

	code, stdout, stderr = hlnr(t, manifest, "explain", "-f", "-")
	if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, "401") {
		t.Errorf("without credentials: exit code %d, output %q, error %q", code, stdout, stderr)
	}
	code, stdout, stderr = hlnr(t, manifest, "explain", "-f", "-", "--docker-config", config("wrong"))
	if code != cli.ExitFailed || stdout != "" || strings.Contains(stderr, "wrong") {
		t.Errorf("with a wrong password: exit code %d, output %q, error %q", code, stdout, stderr)
	}
	code, stdout, _ = hlnr(t, manifest, "explain", "-f", "-", "--docker-config", config("secret"), "--platform", "linux/riscv64")
	if code != cli.ExitNo || !strings.Contains(stdout, "5 tags: none offered; 5 rejected (1 Level, 1 Exists, 3 Platform)") {
		t.Errorf("for another platform: exit code %d, output:\n%s", code, stdout)
	}
}

// TestExplainCertificates checks that the command trusts a registry with its own certificate authority, and sends a client
// certificate, only if the flags are set.
func TestExplainCertificates(t *testing.T) {
	t.Parallel()
	authority, until := registrytest.NewAuthority(t), time.Now().Add(time.Hour)
	server := registrytest.New(t, registrytest.WithTLS(authority.Server(t, until, authority, "127.0.0.1")))
	server.Push(t, "shop", "1.0.0")
	manifest := strings.Replace(smallPolicy, "registry.example.com/shop", server.Repository("shop"), 1)
	certificate, key := authority.Issue(t, until, "client")
	ca, cert, private := file(t, string(authority.PEM())), file(t, string(certificate)), file(t, string(key))
	for name, test := range map[string]struct {
		flags []string
		code  cli.Code
	}{
		"none":      {nil, cli.ExitFailed},
		"authority": {[]string{"--ca-file", ca}, cli.ExitFailed},
		"client":    {[]string{"--cert-file", cert, "--key-file", private}, cli.ExitFailed},
		"all":       {[]string{"--ca-file", ca, "--cert-file", cert, "--key-file", private}, cli.ExitYes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := hlnr(t, manifest, append([]string{"explain", "-f", "-"}, test.flags...)...)
			if code != test.code || (code == cli.ExitYes) != strings.Contains(stdout, "1 offered in 1 group, latest 1.0.0") {
				t.Errorf("exit code %d, output %q, error %q", code, stdout, stderr)
			}
		})
	}
}

// TestExplainNotes checks that the output lists the checks that the run does not perform.
func TestExplainNotes(t *testing.T) {
	t.Parallel()
	manifest := strings.TrimSuffix(smallPolicy, "}\n") + `, minAge: 1h, suspend: true, limits: {tags: 1, groups: 1}, versioning: {groupBy: Major},
  imagePullSecrets: [{name: a}], verify: {cosign: {keySecretRef: {name: k}}}, additionalImages: [{containerName: b, image: registry.example.com/b}],
  match: {labels: [{name: c}]}}
`
	code, stdout, stderr := hlnr(t, manifest, "explain", "-f", "-", "--tags", file(t, "1.0.0\n2.0.0\n"), "-o", "yaml")
	var got report
	if err := yaml.UnmarshalStrict([]byte(stdout), &got); err != nil || code != cli.ExitYes {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	want := []string{
		"the registry was not used: each tag counts as an image for all platforms",
		"spec.match.labels was not checked: a cluster might reject versions that are offered here",
		"spec.additionalImages was not checked: a cluster might reject versions that are offered here",
		"spec.verify was not checked: a cluster might reject versions that are offered here",
		"there are more tags than spec.limits.tags (1): the manager does not read the tags beyond this limit",
		"groups beyond spec.limits.groups: 1.x",
		"spec.minAge: versions found by the first scan are offered immediately, and later ones after 1h",
		"spec.suspend is true: the manager does not scan",
	}
	if diff := cmp.Diff(want, got.Notes); diff != "" {
		t.Error(diff)
	}
}

// TestExplainCountsAdmittedTags checks that only tags that spec.tagFilter admits count against spec.limits.tags, as in a scan.
func TestExplainCountsAdmittedTags(t *testing.T) {
	t.Parallel()
	manifest := strings.TrimSuffix(smallPolicy, "}\n") + `, limits: {tags: 1}, tagFilter: {pattern: "^v"}}` + "\n"
	for tags, want := range map[string]bool{"v1.0.0\nsha-1\nsha-2\n": false, "v1.0.0\nsha-1\nv1.1.0\n": true} {
		code, stdout, stderr := hlnr(t, manifest, "explain", "-f", "-", "--tags", file(t, tags))
		if code != cli.ExitYes || strings.Contains(stdout, "there are more tags than spec.limits.tags (1)") != want {
			t.Errorf("tags %q: exit code %d, output %q, error %q; want the note: %t", tags, code, stdout, stderr, want)
		}
	}
}

// TestExplainHalfAnAnswer checks that, if the registry fails, an incomplete result is printed and the command fails.
func TestExplainHalfAnAnswer(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.Push(t, "shop", "1.0.0")
	server.Fail(registrytest.Head, -1, registrytest.Status(403, "DENIED"))
	server.Fail(registrytest.Get, -1, registrytest.Status(403, "DENIED"))
	manifest := strings.Replace(smallPolicy, "registry.example.com/shop", server.Repository("shop"), 1)
	code, stdout, stderr := hlnr(t, manifest, "explain", "-f", "-")
	if code != cli.ExitFailed || !strings.Contains(stdout, "1 tag: none offered; 1 rejected (1 Exists)") || !strings.Contains(stderr, "403") {
		t.Errorf("exit code %d, output %q, error %q", code, stdout, stderr)
	}
}

// TestGuide checks the examples in the guide on version groups: the first policy with its tags, and the table of ranges.
func TestGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/how-to/version-groups.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$").FindAllStringSubmatch(string(text), 3)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	manifest, command, output := blocks[0][1], blocks[1][1], blocks[2][1]
	tags := regexp.MustCompile(`'%s\\n' (.*?) \|`).FindStringSubmatch(command)
	if tags == nil {
		t.Fatalf("no tags in %q", command)
	}
	_, stdout, _ := hlnr(t, strings.ReplaceAll(tags[1], " ", "\n"), "explain", "-f", file(t, manifest), "--tags", "-")
	if diff := cmp.Diff(output, stdout); diff != "" {
		t.Error(diff)
	}

	rows := regexp.MustCompile("(?m)^\\| [^|`]+ \\| `((?:[^`|]|\\\\\\|)+)` \\| ([0-9., ]+) \\| ([0-9a-z., -]+) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 6 {
		t.Fatalf("%d rows of ranges", len(rows))
	}
	for _, row := range rows {
		within := strings.ReplaceAll(row[1], `\|`, "|")
		takes := strings.Split(row[2], ", ")
		leaves := strings.Split(strings.NewReplacer(", and ", ", ", " too", "").Replace(row[3]), ", ")
		manifest := fmt.Sprintf("%s, versioning: {level: Candidate, range: %q}}\n", strings.TrimSuffix(smallPolicy, "}\n"), within)
		_, stdout, stderr := hlnr(t, strings.Join(append(takes, leaves...), "\n"), "explain", "-f", file(t, manifest), "--tags", "-", "-o", "json")
		var got report
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("range %q: %v, %s", within, err, stderr)
		}
		want := map[string]bool{}
		for _, tag := range takes {
			want[tag] = true
		}
		for _, c := range got.Candidates {
			if offered := c.Verdict == verdictOffered; offered != want[c.Tag] {
				t.Errorf("range %q: %s is %s", within, c.Tag, c.Verdict)
			}
		}
		if got.Tags != len(takes)+len(leaves) {
			t.Errorf("range %q: %d tags", within, got.Tags)
		}
	}
}

// TestExplainTakesDocuments checks that explain accepts each ImagePolicy in docs. The tests in test/docs check that an API server
// accepts these ImagePolicies.
func TestExplainTakesDocuments(t *testing.T) {
	t.Parallel()
	whole := regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")
	taken := 0
	err := filepath.WalkDir("../../../docs", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, block := range whole.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(block[1], "kind: ImagePolicy\n") {
				continue
			}
			code, _, stderr := hlnr(t, block[1], "explain", "-f", "-", "--tags", "testdata/explain/deny/tags")
			switch {
			case code == cli.ExitUsage && (strings.Contains(stderr, "spec.source.github: GitHub sources can be explained only in a cluster") || strings.Contains(stderr, "a list of tags does not contain the build times")):
			case code == cli.ExitUsage:
				t.Errorf("%s: %s%s", path, block[1], stderr)
			}
			taken++
		}
		return nil
	})
	if err != nil || taken < 10 {
		t.Errorf("%d documents, %v", taken, err)
	}
}

// TestExplainNamesFlags checks that an error for a field that refers to a Secret contains the flag to use instead. The command
// reads no Secrets.
func TestExplainNamesFlags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options options
		kind    registry.Kind
		want    string
	}{
		"unknown authority":  {options{}, registry.Untrusted, "set --ca-file to the certificate authority"},
		"another authority":  {options{ca: "ca.crt"}, registry.Untrusted, "check --ca-file"},
		"no credential":      {options{}, registry.Unauthorized, "set --docker-config"},
		"another credential": {options{dockerConfig: "config.json"}, registry.Unauthorized, ""},
		"no answer":          {options{}, registry.Unreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from := &registry.Error{Kind: test.kind, Op: "list tags of", Object: "shop"}
			got := test.options.withFix(from)
			if !errors.Is(got, from) || !strings.Contains(got.Error(), test.want) || test.want == "" && got != error(from) {
				t.Errorf("%v, want %q", got, test.want)
			}
		})
	}
	if err := (options{}).withFix(nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}
