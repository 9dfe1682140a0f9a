package allowedhosts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func rules(t testing.TB, data map[string]string) Rules {
	t.Helper()
	r, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var list = map[string]string{
	"shop":     "www.example.com\n*.shop.example.com\n# comment\n\nshop.example.org",
	"previews": "namespaces: team=shop,stage=preview\nnamespaces: team=all\n*.preview.example.com",
	"other":    "*.example.com\nadmin.preview.example.com\nshop.example.org",
}

func TestAllowed(t *testing.T) {
	preview := map[string]string{"team": "shop", "stage": "preview"}
	for name, test := range map[string]struct {
		namespace string
		labels    map[string]string
		host      string
		rendered  bool
		refused   string
	}{
		"by name":                               {namespace: "shop", host: "www.example.com"},
		"by name, also for another namespace":   {namespace: "other", host: "shop.example.org"},
		"by wildcard":                           {namespace: "shop", host: "a.shop.example.com"},
		"several levels below a wildcard":       {namespace: "shop", host: "a.b.shop.example.com", rendered: true},
		"by labels":                             {namespace: "x", labels: preview, host: "a.preview.example.com", rendered: true},
		"by other labels":                       {namespace: "x", labels: map[string]string{"team": "all"}, host: "a.preview.example.com"},
		"by labels, one missing":                {namespace: "x", labels: map[string]string{"team": "shop"}, host: "a.preview.example.com", refused: `"a.preview.example.com" is not allowed in namespace "x"`},
		"a key with labels is not a namespace":  {namespace: "previews", host: "a.preview.example.com", refused: "is not allowed"},
		"no entry for the namespace":            {namespace: "y", host: "www.example.com", refused: "is not allowed"},
		"the parent of a wildcard":              {namespace: "shop", host: "shop.example.com", refused: "is not allowed"},
		"text before a suffix":                  {namespace: "shop", host: "ashop.example.com", refused: "is not allowed"},
		"a rendered host that is listed":        {namespace: "shop", host: "www.example.com", rendered: true, refused: "is not allowed"},
		"a foreign host below a wildcard":       {namespace: "other", host: "www.example.com", refused: "lists \"www.example.com\" by name"},
		"own host, rendered":                    {namespace: "other", host: "admin.preview.example.com", rendered: true, refused: "by name"},
		"own host, literal":                     {namespace: "other", host: "admin.preview.example.com"},
		"a foreign reserved host":               {namespace: "x", labels: preview, host: "admin.preview.example.com", refused: "by name"},
		"a wildcard":                            {namespace: "shop", host: "*.shop.example.com"},
		"a wildcard over a foreign host":        {namespace: "x", labels: preview, host: "*.preview.example.com", refused: "lists \"admin.preview.example.com\" by name"},
		"a wildcard over own and foreign hosts": {namespace: "other", host: "*.example.com", refused: "lists \"www.example.com\" by name"},
		"a wildcard over own hosts":             {namespace: "other", host: "*.preview.example.com"},
		"a rendered wildcard over own hosts":    {namespace: "other", host: "*.preview.example.com", rendered: true, refused: "by name"},
		"no host":                               {namespace: "shop", host: "", refused: "is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := rules(t, list).Allowed(test.namespace, test.labels, test.host, test.rendered)
			if test.refused == "" && err != nil || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("error = %v, want %q", err, test.refused)
			}
		})
	}
	if err := (Rules{}).Allowed("shop", nil, "www.example.com", false); err == nil {
		t.Error("the zero value allows a host")
	}
}

func TestParseErrors(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string]string
		want string
	}{
		"a line":     {map[string]string{"b": "a.example.com", "c": "http://x", "d": "http://y"}, `key "c": line "http://x"`},
		"a selector": {map[string]string{"b": "namespaces: all"}, `key "b": line "namespaces: all"`},
		"a key":      {map[string]string{"b_c": "a.example.com"}, `key "b_c" is not the name of a namespace`},
		"too large":  {map[string]string{"b": "#" + strings.Repeat("x", MaxSize)}, "shorten them to at most 32768 characters in total"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(test.data)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if err := r.Allowed("b", nil, "a.example.com", false); err == nil {
				t.Error("a list that was not read allows a host")
			}
		})
	}
	if _, err := Read(&corev1.ConfigMap{BinaryData: map[string][]byte{"a": nil}}); err == nil {
		t.Error("binaryData is accepted")
	}
}

// TestTemplate checks that an accepted template expands only to allowed hosts, regardless of the name of the group. It also checks that a template that
// is rejected because of a reserved host could expand to that host.
func TestTemplate(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	label := func() string { return pick("www", "admin", "a", "shop", "preview", "pr-1", "x", "w", "ww") }
	host := func() string {
		text := pick("example.com", "shop.example.com", "preview.example.com", "com")
		for range random.IntN(3) {
			text = label() + "." + text
		}
		return text
	}
	// Names that a group can have, and some names that it cannot have.
	group := func() string {
		text := pick(label(), label()+"."+label(), host(), "w", "", ".", "*", "-", "www.example.com.", label()+".", "."+label(), "*."+label())
		if random.IntN(3) == 0 {
			text += label()
		}
		return text
	}
	allowed, refused, hosts := 0, 0, 0
	for range 20000 {
		data := map[string]string{}
		for _, key := range []string{"shop", "other"} {
			var lines []string
			for range random.IntN(5) {
				lines = append(lines, pick("", "*.")+host())
			}
			data[key] = strings.Join(lines, "\n")
		}
		mine := rules(t, data).For("shop", nil)
		template := pick("", "", "*.", "w", label()+"-", label()+".") + "{{.X}}" + pick("", "-x", "."+label(), ".{{.X}}", "{{.X}}") + pick(".", "-", "") + host()
		if err := mine.Template(template); err != nil {
			refused++
			continue
		}
		allowed++
		for range 20 {
			text := template
			for strings.Contains(text, "{{.X}}") {
				text = strings.Replace(text, "{{.X}}", group(), 1)
			}
			if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(text, "*."))) > 0 {
				continue // The text is not a host, so it is not routed.
			}
			hosts++
			if err := mine.Rendered(text); err != nil {
				t.Fatalf("%q is allowed and becomes %q: %v\n%v", template, text, err, data)
			}
			if err := mine.Literal(text); err != nil {
				t.Fatalf("%q is allowed as a rendered host, but not as a literal host: %v\n%v", text, err, data)
			}
		}
	}
	if allowed < 1000 || refused < 1000 || hosts < 10000 {
		t.Errorf("allowed %d, refused %d, hosts %d: too few for a meaningful test", allowed, refused, hosts)
	}
}

// TestTemplateClash checks which text around the field prevents a clash with a reserved host.
func TestTemplateClash(t *testing.T) {
	mine := rules(t, map[string]string{"shop": "*.example.com\nwww.example.com"}).For("shop", nil)
	for template, want := range map[string]bool{
		"{{.ReleaseGroupName}}.example.com":    false,
		"ww{{.ReleaseGroupName}}.example.com":  false,
		"pr-{{.ReleaseGroupName}}.example.com": true,
		"{{.ReleaseGroupName}}-x.example.com":  true,
		"{{.ReleaseGroupName}}.a.example.com":  true,
		"www.{{.ReleaseGroupName}}.com":        false,
		"{{.ReleaseGroupName":                  false,
	} {
		if err := mine.Template(template); (err == nil) != want {
			t.Errorf("%s: %v, want allowed = %t", template, err, want)
		}
	}
}

// BenchmarkRendered measures the check of 1,000 hosts against the largest list.
func BenchmarkRendered(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < MaxSize-100; i++ {
		fmt.Fprintf(&text, "*.h%d.example.com\n", i)
	}
	r := rules(b, map[string]string{"shop": text.String()})
	for b.Loop() {
		mine := r.For("shop", nil)
		for i := range 1000 {
			if err := mine.Rendered(fmt.Sprintf("pr-%d.h7.example.com", i)); err != nil {
				b.Fatal(err)
			}
		}
	}
}
