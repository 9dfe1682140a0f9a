// Package words tests the words in this tree. Identifiers, comments, messages, and documents use the words of
// Kubernetes, Gateway API, and Argo Rollouts, and no words from a list of terms that were once specific to
// this project.
//
//	list_test.go   the words and phrases, their replacements, and the exceptions
//	match_test.go  finds phrases in a text
//	words_test.go  reads the tree, and compares the number of hits with counts.txt
//
// counts.txt contains the number of remaining hits for each phrase in each folder. A number may only decrease,
// unless files move in from another folder:
//
//	make words IN=internal/release   # prints hits with file and line
//	make words-update                # writes the current numbers, if no phrase has more hits
package words

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	show   = flag.String("words.show", "", "regular expression; print the hits whose file or phrase matches it")
	update = flag.Bool("words.update", false, "write the numbers of hits to "+countsFile)
)

// root is the path of the root of the repository, and countsFile is the path of the file with the numbers,
// both relative to this package.
const (
	root       = "../.."
	countsFile = "counts.txt"
)

// kinds matches the paths of files whose text is checked, by the suffix or the name of the file.
var kinds = regexp.MustCompile(`\.(go|md|ya?ml|sh|mk|tmpl|toml|prom|txt|html|css|svg)$|(^|/)(Makefile|Dockerfile|CODEOWNERS)$|^\.ci/run$`)

// foreign matches generated and foreign text. The sources of generated text are checked.
var foreign = regexp.MustCompile(`(^|/)(\.git|testdata|bin|dist|\.cache|public|resources/_gen|node_modules)/|(^|/)zz_generated|^config/(crd|rbac)/|^charts/heighliner/files/|^docs/reference/api|^test/words/counts\.txt$`)

// TestWords checks that the number of hits has not increased.
func TestWords(t *testing.T) {
	t.Parallel()
	found := tree(t)
	if *show != "" {
		re := regexp.MustCompile(*show)
		for _, h := range found {
			if re.MatchString(h.path) || re.MatchString(h.phrase) {
				fmt.Printf("%s:%d: %q in %q: write %s\n", h.path, h.line, h.phrase, h.text, h.write)
			}
		}
	}
	now, bound := count(found), read(t)
	if *update {
		write(t, now, bound)
		return
	}
	more := more(now, bound)
	for _, k := range sortedKeys(now) {
		if now[k] <= bound[k] || more[k.phrase] <= 0 { // Files may move to another folder.
			continue
		}
		t.Errorf("%s: %d times %q, want at most %d as in %s; the first hits:", k.folder, now[k], k.phrase, bound[k], countsFile)
		shown := 0
		for _, h := range found {
			if h.key() == k && shown < 20 {
				shown++
				t.Logf("%s:%d: %q: write %s", h.path, h.line, h.text, h.write)
			}
		}
	}
}

// hit is an occurrence of a phrase.
type hit struct {
	path, phrase, text, write string
	line                      int
}

func (h hit) key() key { return key{folder(h.path), h.phrase} }

// key identifies a count of hits.
type key struct{ folder, phrase string }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.folder, b.folder), cmp.Compare(a.phrase, b.phrase))
}

func sortedKeys(m map[key]int) []key { return slices.SortedFunc(maps.Keys(m), compareKeys) }

// folder returns the folder of a path in counts.txt, which is its first two levels.
func folder(path string) string {
	parts := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func count(found []hit) map[key]int {
	counts := map[key]int{}
	for _, h := range found {
		counts[h.key()]++
	}
	return counts
}

// tree returns the hits in all files, in the order of the files.
func tree(t *testing.T) []hit {
	t.Helper()
	m := newMatcher()
	paths := files(t)
	found := make([][]hit, len(paths))
	var wait sync.WaitGroup
	for i, path := range paths {
		text := text(t, path)
		wait.Go(func() { found[i] = append(m.find(path, text), headings(path, text)...) })
	}
	wait.Wait()
	return slices.DeleteFunc(slices.Concat(found...), func(h hit) bool {
		for _, e := range exceptions {
			if strings.HasPrefix(h.path, e.path) && (e.phrase == "" || e.phrase == h.phrase) {
				return true
			}
		}
		return false
	})
}

// headings returns a page's headings that are questions.
func headings(path, text string) []hit {
	if !strings.HasSuffix(path, ".md") {
		return nil
	}
	var found []hit
	code := false
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimSpace(s)
		code = code != strings.HasPrefix(s, "```")
		if !code && strings.HasPrefix(s, "#") && strings.HasSuffix(s, "?") {
			found = append(found, hit{path: path, phrase: "heading?", text: s, write: "a noun phrase", line: line})
		}
	}
	return found
}

func files(t *testing.T) []string {
	t.Helper()
	var paths []string
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && foreign.MatchString(name+"/"):
			return filepath.SkipDir
		case d.Type().IsRegular() && kinds.MatchString(name) && !foreign.MatchString(name):
			paths = append(paths, name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("no file was found")
	}
	return paths
}

func text(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// read reads the numbers. Each line contains a number, a folder and a phrase.
func read(t *testing.T) map[key]int {
	t.Helper()
	raw, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[key]int{}
	for line := range strings.Lines(string(raw)) {
		var k key
		var n int
		if _, err := fmt.Sscanf(line, "%d %s %q", &n, &k.folder, &k.phrase); err != nil {
			t.Fatalf("%s: %q: %v", countsFile, line, err)
		}
		counts[k] = n
	}
	return counts
}

// more returns, for each phrase, by how much the total number of hits exceeds the sum of the bounds of all folders.
func more(now, bound map[key]int) map[string]int {
	more := map[string]int{}
	for k, n := range now {
		more[k.phrase] += n
	}
	for k, n := range bound {
		more[k.phrase] -= n
	}
	return more
}

// write writes the numbers, unless a phrase has more hits than before.
func write(t *testing.T, now, bound map[key]int) {
	t.Helper()
	more := more(now, bound)
	for _, phrase := range slices.Sorted(maps.Keys(more)) {
		if more[phrase] > 0 && len(bound) > 0 {
			t.Errorf("%q is found %d more times than before", phrase, more[phrase])
		}
	}
	if t.Failed() {
		return
	}
	var out strings.Builder
	for _, k := range sortedKeys(now) {
		fmt.Fprintf(&out, "%d %s %q\n", now[k], k.folder, k.phrase)
	}
	if err := os.WriteFile(countsFile, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
