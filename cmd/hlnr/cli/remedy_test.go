package cli

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// The role that a message names has the permission that is missing: freezes are not in heighliner-edit.
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
