package access

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestRoleOfTheBoard checks that the board may read each kind in the API group hlnr.io that it shows. Otherwise, each installation would show the
// values of shared analyses without bounds, and a warning about a missing permission.
func TestRoleOfTheBoard(t *testing.T) {
	for _, path := range []string{"../../../config/components/web/role.yaml", "../../../charts/heighliner/files/components/web/role.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var may []string
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "list") && slices.Contains(rule.APIGroups, v1alpha1.GroupVersion.Group) {
					may = append(may, rule.Resources...)
				}
			}
		}
		for _, of := range resources {
			for _, r := range of {
				if r.group == v1alpha1.GroupVersion.Group && !slices.Contains(may, r.resource) {
					t.Errorf("%s: the board may not list %s", path, r.resource)
				}
			}
		}
	}
}
