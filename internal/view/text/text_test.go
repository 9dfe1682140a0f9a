package text

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

var update = flag.Bool("update", false, "write testdata again")

// all returns all texts of a story.
func all(t testing.TB, s viewtest.Story, o Options) string {
	t.Helper()
	o.Now = s.Now
	var b strings.Builder
	board := view.New(s.Input, s.Now)
	section := func(title string, write func(io.Writer) error) {
		b.WriteString("--- " + title + "\n")
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
	}
	why := func(title string, a view.Answer, err error) {
		if err == nil {
			section(title, func(w io.Writer) error { return Why(w, a, o) })
		}
	}
	section("status", func(w io.Writer) error { return Status(w, board, o) })
	section("tree", func(w io.Writer) error { return Tree(w, board.Services[0], o, TreeOptions{}) })
	section("tree --all --pods", func(w io.Writer) error { return Tree(w, board.Services[0], o, TreeOptions{All: true, Pods: true}) })
	h, _ := view.NewHistory(s.Input, "shop", "shop", s.Now)
	section("history", func(w io.Writer) error { return History(w, h, o) })
	section("previews", func(w io.Writer) error { return Previews(w, board.Previews(""), o) })
	a, err := view.WhyHost(s.Input, "shop.example.com", "/cart", s.Now)
	why("why host", a, err)
	for _, v := range []string{"1.1.0", "1.3.0-rc.1"} {
		a, err := view.WhyVersion(s.Input, "shop", "shop", v, s.Now)
		why("why "+v, a, err)
	}
	a, err = view.WhyPullRequest(s.Input, "shop", "shop", 17, s.Now)
	why("why pr/17", a, err)
	return b.String()
}

// TestTexts compares all texts of each story with testdata/*.txt. With -update, it writes these files.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, s := range viewtest.Stories() {
		path := filepath.Join("testdata", strings.ReplaceAll(s.Name, " ", "-")+".txt")
		got := all(t, s, Options{Unicode: true})
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s changed (if the change is correct, write the file with -update):\n%s", path, diff)
		}
	}
}

// TestCommandsOfAllNamespaces checks that commands that users copy contain the namespace if services in several
// namespaces are shown.
func TestCommandsOfAllNamespaces(t *testing.T) {
	t.Parallel()
	for _, s := range viewtest.Stories() {
		if s.Name != "previews" {
			continue
		}
		var b strings.Builder
		if err := Status(&b, view.New(s.Input, s.Now), Options{Namespaces: true, Now: s.Now}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "hlnr previews -n shop shop") {
			t.Errorf("the namespace is missing in\n%s", b.String())
		}
		return
	}
	t.Fatal("there is no history of previews")
}

// TestWidths checks that only words and commands that cannot be broken are wider than the terminal,
// and that colors change neither width nor text.
func TestWidths(t *testing.T) {
	t.Parallel()
	for _, s := range viewtest.Stories() {
		for _, width := range []int{20, 40, 80, 120} {
			plain := all(t, s, Options{Width: width, Unicode: true})
			for line := range strings.Lines(plain) {
				if w := lipgloss.Width(strings.TrimRight(line, "\n")); w > width && !strings.HasPrefix(line, "--- ") {
					t.Errorf("%s: %d cells in a terminal of %d: %q", s.Name, w, width, line)
				}
			}
			colored := all(t, s, Options{Width: width, Unicode: true, Color: true})
			if diff := cmp.Diff(plain, stripped(colored)); diff != "" {
				t.Errorf("%s: colors change the text: %s", s.Name, diff)
			}
		}
	}
}

var trailing = regexp.MustCompile(` +\n`)

// stripped removes the escape sequences of styles, and spaces at the ends of lines.
func stripped(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == 0x1b {
			for i < len(text) && text[i] != 'm' {
				i++
			}
			continue
		}
		b.WriteByte(text[i])
	}
	return trailing.ReplaceAllString(b.String(), "\n")
}

// TestASCII checks that the output contains only ASCII if the Unicode option is not set, and no colors if the Color option is not set.
func TestASCII(t *testing.T) {
	t.Parallel()
	for _, s := range viewtest.Stories() {
		for _, r := range all(t, s, Options{}) {
			if r > 0x7f {
				t.Fatalf("%s: %q", s.Name, r)
			}
			if r == 0x1b {
				t.Fatalf("%s: an escape sequence", s.Name)
			}
		}
	}
}

// TestClean checks that control characters become spaces, and that text stays on one line.
func TestClean(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"a b ä":                   "a b ä",
		"a\x1b[2Jb":               "a[2Jb",
		"a\x1b]52;c;aGk=\x07b":    "a]52;c;aGk=b",
		"a\rb":                    "ab",
		"a\r\nb\tc":               "a b c",
		"a\u202eb\u2066c":         "abc",
		"a\u009b31mb\u0000":       "a31mb",
		string([]byte{'a', 0x9b}): "a\ufffd",
		"a\x7fb":                  "ab",
	} {
		if got := Clean(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// TestHostileTexts checks that user text cannot control a terminal.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	s := viewtest.Stories()[0]
	ms := &s.Input.Microservices[0]
	ms.Name = "a\x1b[31m\u009b31m\u202eb"
	var b strings.Builder
	board := view.New(s.Input, s.Now)
	if err := Status(&b, board, Options{Unicode: true, Now: s.Now}); err != nil {
		t.Fatal(err)
	}
	if err := Tree(&b, board.Services[0], Options{Unicode: true, Now: s.Now}, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.ContainsAny(got, "\x1b\u009b\u202e") {
		t.Errorf("%q", got)
	}
}
