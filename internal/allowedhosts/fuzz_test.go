package allowedhosts

import (
	"regexp"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/test/await"
)

// hostname matches valid hosts.
var hostname = regexp.MustCompile(`^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)

// FuzzTemplate checks that if Template allows a template, Rendered allows every host to which the template can expand. It also checks that no list
// causes a panic.
func FuzzTemplate(f *testing.F) {
	f.Add("shop", "www.example.com\n*.shop.example.com", "other", "api.shop.example.com", "shop", "{{.ReleaseGroupName}}.shop.example.com", "api", "x")
	f.Add("previews", "namespaces: team=shop,stage=preview\n*.preview.example.com", "b", "*.example.com", "x", "a-{{.A}}.{{.B}}.preview.example.com", "a", "b.c")
	f.Add("shop", "*.com", "b", "a.com", "shop", "*.{{.A}}.com", "a", "b")
	f.Fuzz(func(t *testing.T, key1, text1, key2, text2, namespace, domain, value1, value2 string) {
		defer await.Quick(t)()
		rules, err := Parse(map[string]string{key1: text1, key2: text2})
		if err != nil {
			return
		}
		h := rules.For(namespace, map[string]string{"team": "shop", "stage": "preview"})
		allowed := h.Template(domain) == nil
		if !strings.Contains(domain, "{{") {
			if (h.Literal(domain) == nil) != allowed {
				t.Fatalf("Template and Literal differ for %q", domain)
			}
			return
		}
		// Expand the domain as package networkpolicy does, with the fields {{.A}} and {{.B}}.
		if strings.Count(domain, "{{") != strings.Count(domain, "{{.A}}")+strings.Count(domain, "{{.B}}") {
			return
		}
		host := strings.NewReplacer("{{.A}}", value1, "{{.B}}", value2).Replace(domain)
		if !hostname.MatchString(host) || len(host) > 253 {
			return
		}
		if allowed && h.Rendered(host) != nil {
			t.Fatalf("%q is allowed, and becomes %q: %v", domain, host, h.Rendered(host))
		}
		if h.Rendered(host) == nil && rules.named[host] {
			t.Fatalf("%q is listed by name, but is allowed as a rendered host", host)
		}
	})
}
