package networkpolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func TestIndexes(t *testing.T) {
	p := newWorld(t).policy
	p.Spec.MicroserviceRef = &v1alpha1.Reference{Name: "other"}
	p.Status.Domains = []v1alpha1.DomainStatus{{Domain: "b.example.com"}, {Domain: "a.example.com"}, {Domain: "b.example.com", Path: "/x"}}
	for field, wanted := range map[string][]string{
		indexMicroservice: {"other"}, indexHost: {"a.example.com", "b.example.com"}, indexReferent: {"Gateway/infra/public"},
	} {
		if diff := cmp.Diff(wanted, indexes[field](p)); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
	}
}
