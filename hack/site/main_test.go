package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"index.html":       `<a href="how-to/a.html#one">x</a> <a href="./">x</a> <img src="p.svg"> <a href="https://example.com/none">x</a>`,
		"how-to/a.html":    `<h2 id="one">1</h2> <a href="../index.html">x</a> <a href="#two">x</a> <a href="b.html">x</a>`,
		"p.svg":            `<svg/>`,
		"how-to/empty.txt": ``,
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	links, broken := check(dir, pages)
	slices.Sort(broken)
	want := []string{`how-to/a.html: link "#two": the page has no such heading`, `how-to/a.html: link "b.html": there is no such file`}
	if links != 6 || !slices.Equal(broken, want) {
		t.Errorf("%d links, broken:\n%s\nwant 6 links, broken:\n%s", links, strings.Join(broken, "\n"), strings.Join(want, "\n"))
	}
}
