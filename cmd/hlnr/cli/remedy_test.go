package cli

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestForbiddenNamesTheRole checks that the role in a message contains the missing permission. For example, heighliner-edit does not contain the
// permission to write freezes.
func TestForbiddenNamesTheRole(t *testing.T) {
	for resource, role := range map[string]string{
		"microservices": "--clusterrole=heighliner-edit", "versionedmicroservices": "--clusterrole=heighliner-decide",
		"freezes": "--clusterrole=heighliner-freeze ", "clusterfreezes": "the ClusterRole heighliner-freeze-cluster",
	} {
		got := Forbidden(Permission{User: "ana", Verb: "create", Resource: resource + "." + v1alpha1.GroupVersion.Group, Namespace: "shop"})
		if !strings.Contains(got, role) {
			t.Errorf("%s: %s, want %s", resource, got, role)
		}
	}
}
