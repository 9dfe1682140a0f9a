package words

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// token is a word of a text, in lower case, with its position. joined reports whether the word is
// preceded only by space or by the start of a comment line.
type token struct {
	word   string
	joined bool
	at     int
}

// lineStart matches the beginning of a line of a comment or a list, before its text.
var lineStart = regexp.MustCompile(`^\n[\t ]*(//+|#+|\*|>)?[\t ]*$`)

// tokens splits a text into words, at characters other than letters and at changes from lower case to upper case.
func tokens(text string) []token {
	var found []token
	begin, end := -1, 0
	last := rune(0)
	add := func(stop int) {
		if begin < 0 {
			return
		}
		found = append(found, token{strings.ToLower(text[begin:stop]), joins(text[end:begin]), begin})
		begin, end = -1, stop
	}
	escaped := false // The letter of "\t" is not part of a word.
	for i, r := range text {
		if escaped || r == '\\' {
			add(i)
			escaped = !escaped
			last = 0
			continue
		}
		switch {
		case !unicode.IsLetter(r):
			add(i)
		case begin < 0:
			begin = i
		case unicode.IsUpper(r) && unicode.IsLower(last):
			add(i)
			begin = i
		case unicode.IsLower(r) && unicode.IsUpper(last) && i-1 > begin: // This is the end of an abbreviation, as in DNSName.
			add(i - 1)
			begin = i - 1
		}
		last = r
	}
	add(len(text))
	return found
}

// joins reports whether the words around a gap belong to the same sentence or name.
func joins(gap string) bool {
	return strings.Trim(gap, " \t") == "" || gap == "_" || gap == "-" || lineStart.MatchString(strings.ReplaceAll(gap, "\r", ""))
}

// matcher finds the phrases of the list.
type matcher struct{ byFirst map[string][]pattern }

type pattern struct {
	phrase, write string
	before, after []string
	// steps are the alternatives for each word. nil matches at most one word.
	steps [][]string
	colon bool
}

func newMatcher() matcher {
	m := matcher{map[string][]pattern{}}
	for _, b := range banned {
		p := pattern{phrase: b.phrase, write: b.write}
		for _, word := range strings.Fields(b.phrase) {
			alternatives := strings.Split(strings.TrimLeft(strings.TrimSuffix(word, ":"), "!~"), "/")
			switch {
			case word[0] == '!' && len(p.steps) == 0:
				p.before = alternatives
			case word[0] == '!':
				p.after = alternatives
			case word[0] == '~':
				p.steps = append(p.steps, nil)
			default:
				p.steps = append(p.steps, alternatives)
			}
			p.colon = strings.HasSuffix(word, ":")
		}
		for _, first := range p.steps[0] {
			m.byFirst[first] = append(m.byFirst[first], p)
		}
	}
	return m
}

func (m matcher) find(path, text string) []hit {
	var found []hit
	all := tokens(text)
	for i, first := range all {
		for _, p := range m.byFirst[first.word] {
			n := p.match(all[i:], text)
			if n == 0 || i > 0 && first.joined && slices.Contains(p.before, all[i-1].word) {
				continue
			}
			if next := i + n; next < len(all) && all[next].joined && slices.Contains(p.after, all[next].word) {
				continue
			}
			end := all[i+n-1].at + len(all[i+n-1].word)
			from, to := max(0, first.at-30), min(len(text), end+30)
			around := strings.ToValidUTF8(strings.Join(strings.Fields(text[from:to]), " "), "")
			found = append(found, hit{path, p.phrase, around, p.write, strings.Count(text[:first.at], "\n") + 1})
		}
	}
	return found
}

// match returns the number of words that the phrase matches at the start of a text, or 0 if the phrase does
// not match.
func (p pattern) match(words []token, text string) int {
	at := 0
	for i := 0; i < len(p.steps); i++ {
		is := func(n int) bool {
			return at+n < len(words) && slices.Contains(p.steps[i], words[at+n].word) && (i == 0 || words[at+n].joined)
		}
		skip := 0
		if p.steps[i] == nil {
			i++
			if !is(0) && at < len(words) && words[at].joined {
				skip = 1
			}
		}
		if !is(skip) {
			return 0
		}
		at += skip + 1
	}
	last := words[at-1]
	if p.colon && !strings.HasPrefix(text[last.at+len(last.word):], ":") {
		return 0
	}
	return at
}

func TestFind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"the canary is taken back":                   {"take/takes/taken/took/taking ~ back"},
		"takes it back":                              {"take/takes/taken/took/taking ~ back"},
		"takes\n\t// the release back":               nil,
		"taken. Back":                                nil,
		"func takeBack()":                            {"take/takes/taken/took/taking ~ back"},
		"it is\n// led to":                           {"led"},
		"ledgerOfGroup, handled, DNSLedger":          {"ledger/ledgers", "ledger/ledgers"},
		"there is no release":                        nil,
		"that is no release":                         {"!there is/are/was/were no !longer/more/match"},
		"it is no longer there":                      nil,
		"look up a name; it looks like one":          nil,
		"a look ends; LookAgain":                     {"look/looks !up/at/for/like/into/as/through/inside/path", "look/looks !up/at/for/like/into/as/through/inside/path", "look again"},
		"Absent: all. absent means, whenAbsent: x":   {"!when absent:"},
		"in places, of all places":                   {"!in places"},
		"\\told \\nled":                              {"led"},
		"release led_to by-itself":                   {"led", "by itself/themselves"},
		"child objects, a child":                     {"child/children !object/objects/resource/resources"},
		"the run goes, on Monday; this goes on here": {"go/goes/gone/going/went on"},
	} {
		var got []string
		for _, h := range newMatcher().find("f", text) {
			got = append(got, h.phrase)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
	}
}

func TestHeadings(t *testing.T) {
	t.Parallel()
	got := headings("p.md", "# What\n## Why?\ntext?\n```\n# How?\n```\n")
	if diff := cmp.Diff([]hit{{path: "p.md", phrase: "heading?", text: "## Why?", write: "a noun phrase", line: 2}}, got, cmp.AllowUnexported(hit{})); diff != "" {
		t.Error(diff)
	}
}
