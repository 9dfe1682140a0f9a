package traffic

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/testdata/weighted"
)

// TestAddedProvider plays the conformance suite with the provider that
// docs/how-to/add-a-provider.md writes.
func TestAddedProvider(t *testing.T) {
	before := Known
	t.Cleanup(func() { Known = before })
	Known = slices.Concat([]providers.Provider{weighted.Provider{}}, before)
	w := newWorld(t)
	w.policy.Spec.Domains = nil
	conform(t, conformance{name: "weighted", spec: func(spec *v1alpha1.NetworkPolicySpec, entries ...entry) {
		spec.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "weighted"}}
		spec.Ports, spec.Domains = []v1alpha1.NetworkPort{{Name: "main", Port: 8080}}, nil
		for _, e := range entries {
			d := v1alpha1.Domain{Domain: e.name}
			if e.version != "" {
				d.Release = &v1alpha1.DomainRelease{Version: e.version}
			}
			spec.Domains = append(spec.Domains, d)
		}
	}}, &inMemory{t, w})
}

// TestPageOfAddedProvider: the page has the files of that provider, as they are.
func TestPageOfAddedProvider(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/how-to/add-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../providers/testdata/weighted/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("there is no provider of the page", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```go\n"+string(text)+"```\n") {
			t.Errorf("%s is not in the page as it is: copy it there", file)
		}
	}
}
