// Package docs tests the documentation: a real API server accepts every manifest in a page or a sample, and
// every link has a target.
package docs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
)

// root is the root of the repository, relative to this package.
const root = "../.."

var env *apiserver.Env

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, apiserver.Options{}, &env))
}

// TestManifests applies each document of the hlnr.io group in a dry run, with strict validation of unknown and
// duplicate fields.
func TestManifests(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	checked := 0
	for _, m := range manifests(t) {
		objects, err := decode(m.text)
		if err != nil {
			t.Errorf("%s: read YAML: %v", m.where, err)
			continue
		}
		for _, obj := range objects {
			if obj.GroupVersionKind().Group != hlnr.GroupVersion.Group {
				continue
			}
			checked++
			if err := try(t.Context(), namespace, obj); err != nil {
				t.Errorf("%s: apply %s %q: %v", m.where, obj.GetKind(), obj.GetName(), err)
			}
		}
	}
	if checked == 0 {
		t.Error("no manifest was found: the pages about kinds and the samples must contain manifests")
	}
}

// TestFragments checks that a block that is not applied is not a complete manifest.
func TestFragments(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, b := range blocks(p.text) {
			if b.info == "yaml fragment" && strings.Contains(b.text, "apiVersion") {
				t.Errorf("%s:%d: a fragment contains apiVersion; fence this block with ```yaml, so that it is applied", p.name, b.line)
			}
		}
	}
}

// TestFragmentsFit checks that the server accepts a fragment of an hlnr.io object after the fragment is
// inserted into the smallest object of its kind.
func TestFragmentsFit(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	checked := 0
	for _, p := range pages(t) {
		for _, b := range blocks(p.text) {
			if b.info != "yaml fragment" {
				continue
			}
			where := fmt.Sprintf("%s:%d", p.name, b.line)
			var part map[string]any
			if err := yaml.UnmarshalStrict([]byte(b.text), &part); err != nil {
				t.Errorf("%s: read YAML: %v", where, err)
				continue
			}
			obj, err := complete(part)
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			if obj == nil {
				continue // This is a fragment of another project.
			}
			checked++
			if err := try(t.Context(), namespace, obj); err != nil {
				t.Errorf("%s: apply within %s: %v", where, obj.GetKind(), err)
			}
		}
	}
	if checked == 0 {
		t.Error("no fragment was found: the guides must contain fragments")
	}
}

// least contains the smallest specifications into which fragments are inserted, by kind, together with the fields
// that identify the kind of a specification.
var least = map[string]struct {
	spec   string
	fields []string
}{
	"ImagePolicy": {"image: registry.example.com/shop", []string{"source", "tagFilter", "versioning", "image"}},
	"Microservice": {"imagePolicyRef: {name: shop}\ntemplate: {spec: {containers: [{name: shop}]}}",
		[]string{"template", "updateStrategy", "configuration", "endedGroups"}},
	"Freeze":             {"reason: trade fair", []string{"periods", "exceptions", "reason"}},
	"NotificationPolicy": {"receivers: [{name: chat, type: Webhook, url: https://chat.example.com/in}]", []string{"receivers", "boardURL"}},
	"NetworkPolicy":      {"ports: [{name: http, port: 80}]", []string{"domains", "provider", "ports"}},
}

// complete returns a complete object that contains the given part of an object. It returns nil if the part belongs to
// another project.
func complete(part map[string]any) (*unstructured.Unstructured, error) {
	if metrics, ok := part["metrics"]; ok {
		part = map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{"canary": map[string]any{
			"steps": []any{map[string]any{"weight": int64(10)}},
			"analysis": map[string]any{
				"interval": "1m", "count": int64(1), "metrics": metrics,
				"provider": map[string]any{"prometheus": map[string]any{"address": "http://prometheus:9090"}},
			},
		}}}}
	}
	spec, ok := part["spec"].(map[string]any)
	if !ok || part["kind"] != nil {
		return nil, nil
	}
	for kind, l := range least {
		for _, field := range l.fields {
			if spec[field] == nil {
				continue
			}
			base := map[string]any{}
			if err := yaml.Unmarshal([]byte(l.spec), &base); err != nil {
				return nil, err
			}
			for name, value := range spec {
				base[name] = value
			}
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": base}}
			obj.SetGroupVersionKind(hlnr.GroupVersion.WithKind(kind))
			obj.SetName("shop")
			return obj, nil
		}
	}
	return nil, errors.New("the specification has no field that identifies its kind: add such a field to the page or to this test")
}

// TestLinks checks that the targets of links within the repository exist, including headings.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, link := range links(p.text) {
			if err := resolve(p.name, link); err != nil {
				t.Errorf("%s: follow link %q: %v", p.name, link, err)
			}
		}
	}
}

// TestPaths checks that a page contains no path from the machine on which it was written.
func TestPaths(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			if path := machinePath.FindString(line); path != "" {
				t.Errorf("%s:%d: contains the path %q: write a path relative to the repository, or a variable", p.name, i+1, strings.TrimSpace(path))
			}
		}
	}
}

// TestStrict checks the other tests' assumption that the server rejects invalid objects.
func TestStrict(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	const head = "apiVersion: hlnr.io/v1alpha1\nkind: ImagePolicy\nmetadata: {name: x}\nspec:\n  image: registry.example.com/x\n"
	for name, test := range map[string]struct {
		text string
		fine bool
	}{
		"good":            {head, true},
		"unknown field":   {head + "  nonsense: true\n", false},
		"rejected by CEL": {head + "  interval: 1s\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := decode(test.text)
			if err != nil || len(objects) != 1 {
				t.Fatalf("decode: %d objects, %v", len(objects), err)
			}
			if err := try(t.Context(), namespace, objects[0]); (err == nil) != test.fine {
				t.Errorf("want accepted: %t, got the error %v", test.fine, err)
			}
		})
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	text := "a\n```yaml\nx: 1\n```\n1. b\n\n   ```yaml fragment\n   y:\n     z: 2\n   ```\n~~~sh\n```yaml\n~~~\n````md\n```yaml\nnot: read\n```\n````\n"
	want := []block{
		{line: 2, info: "yaml", text: "x: 1\n"},
		{line: 7, info: "yaml fragment", text: "y:\n  z: 2\n"},
		{line: 11, info: "sh", text: "```yaml\n"},
		{line: 14, info: "md", text: "```yaml\nnot: read\n```\n"},
	}
	if diff := cmp.Diff(want, blocks(text), cmp.AllowUnexported(block{})); diff != "" {
		t.Error(diff)
	}
}

func TestLinksOfText(t *testing.T) {
	t.Parallel()
	text := "[a](b.md) ![i](p.png \"title\") [x](https://example.com) `[no](no.md)` [h](#head)\n```\n[no](no.md)\n```\n[r]: c/d.md#e\n"
	want := []string{"b.md", "p.png", "https://example.com", "#head", "c/d.md#e"}
	if diff := cmp.Diff(want, links(text)); diff != "" {
		t.Error(diff)
	}
}

func TestAnchor(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{
		"Writing a spec":              "writing-a-spec",
		"`spec.image`":                "specimage",
		"Status, columns":             "status-columns",
		"A [link](x.md) in a_heading": "a-link-in-a_heading",
	} {
		if got := anchor(heading); got != want {
			t.Errorf("anchor(%q) = %q, want %q", heading, got, want)
		}
	}
}

// manifest is YAML that a reader may apply.
type manifest struct{ where, text string }

// manifests returns the blocks on all pages, and the samples. A page without a block, or a missing folder, is
// not an error.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var found []manifest
	for _, p := range pages(t) {
		for _, b := range blocks(p.text) {
			if b.info == "yaml" {
				found = append(found, manifest{fmt.Sprintf("%s:%d", p.name, b.line), b.text})
			}
		}
	}
	samples := files(t, "config/samples", ".yaml")
	if len(samples) == 0 {
		t.Error("config/samples contains no YAML")
	}
	for _, p := range samples {
		found = append(found, manifest{p.name, p.text})
	}
	return found
}

// page is a file, with its path in the repository.
type page struct{ name, text string }

// pages returns the existing pages at the root and in docs.
func pages(t *testing.T) []page {
	t.Helper()
	found := files(t, "docs", ".md")
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		switch {
		case err == nil:
			found = append(found, page{name, string(text)})
		case !errors.Is(err, fs.ErrNotExist):
			t.Fatal(err)
		}
	}
	return found
}

// files returns the files with the given extension below a folder. It returns no files if the folder does not
// exist.
func files(t *testing.T, dir, ext string) []page {
	t.Helper()
	var found []page
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ext {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		found = append(found, page{filepath.ToSlash(name), string(text)})
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

// block is a fenced block on a page. info is the text after the fence, and line is the line number of the
// fence, counted from 1.
type block struct {
	line       int
	info, text string
}

var fence = regexp.MustCompile("^( *)(`{3,}|~{3,}) *(.*?) *$")

// blocks returns the fenced blocks in Markdown text, without the indentation of their fences.
func blocks(text string) []block {
	var found []block
	var open *block
	var indent, mark string
	for i, line := range strings.Split(text, "\n") {
		match := fence.FindStringSubmatch(line)
		switch {
		case open == nil && match != nil:
			indent, mark = match[1], match[2]
			open = &block{line: i + 1, info: match[3]}
		case open == nil:
		case match != nil && match[3] == "" && strings.HasPrefix(match[2], mark):
			found = append(found, *open)
			open = nil
		default:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		found = append(found, *open)
	}
	return found
}

// prose returns text without its fenced blocks.
func prose(text string) string {
	var out []string
	mark := ""
	for _, line := range strings.Split(text, "\n") {
		match := fence.FindStringSubmatch(line)
		switch {
		case mark == "" && match != nil:
			mark = match[2]
		case mark == "":
			out = append(out, line)
		case match != nil && match[3] == "" && strings.HasPrefix(match[2], mark):
			mark = ""
		}
	}
	return strings.Join(out, "\n")
}

var (
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	inlineLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	defined    = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
	headings   = regexp.MustCompile(`(?m)^#{1,6}\s+(.*?)\s*#*$`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	scheme     = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	// machinePath matches an absolute path on a machine, unless the path is part of a URL or of a
	// longer path.
	machinePath = regexp.MustCompile(`(?:^|[^A-Za-z0-9_./}-])/(?:work|root|home|tmp)(?:$|[^A-Za-z0-9_-])`)
)

// links returns the links on a page, in the order in which they appear. Reference-style links come
// last.
func links(text string) []string {
	text = codeSpan.ReplaceAllString(prose(text), "")
	var found []string
	for _, pattern := range []*regexp.Regexp{inlineLink, defined} {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
	}
	return found
}

// resolve checks a link on a page. Links to other sites are not checked.
func resolve(name, link string) error {
	if scheme.MatchString(link) {
		return nil
	}
	if strings.HasPrefix(link, "/") {
		return errors.New("the link is absolute: write a link relative to the page")
	}
	target, fragment, _ := strings.Cut(link, "#")
	path := filepath.Join(root, filepath.FromSlash(name))
	if target != "" {
		path = filepath.Join(filepath.Dir(path), filepath.FromSlash(target))
	}
	if inside, err := filepath.Rel(root, path); err != nil || strings.HasPrefix(inside, "..") {
		return errors.New("the link points outside the repository")
	}
	if fragment == "" || filepath.Ext(path) != ".md" {
		_, err := os.Stat(path)
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, match := range headings.FindAllStringSubmatch(prose(string(text)), -1) {
		if anchor(match[1]) == fragment {
			return nil
		}
	}
	return fmt.Errorf("no heading has the anchor %q", fragment)
}

// anchor returns the anchor that a Markdown renderer creates for a heading.
func anchor(heading string) string {
	text := linkText.ReplaceAllString(heading, "$1")
	return strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
}

// decode reads the documents of a stream. It omits empty documents.
func decode(text string) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var found []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &obj.Object); err != nil {
			return nil, err
		}
		if len(obj.Object) > 0 {
			found = append(found, obj)
		}
	}
}

// try applies an object with a dry run, in one of the test's namespaces.
func try(ctx context.Context, namespace string, obj *unstructured.Unstructured) error {
	obj.SetNamespace(namespace)
	return env.Client.Create(ctx, obj, client.DryRunAll, client.FieldValidation("Strict"))
}
