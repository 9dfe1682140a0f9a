package act

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tools are the field managers of tools that apply what is in Git, with the name for people.
var tools = map[string]string{
	"kustomize-controller": "Flux", "helm-controller": "Flux", "flux": "Flux",
	"argocd-controller": "Argo CD", "argocd-application-controller": "Argo CD",
	"fleetagent": "Fleet", "fleet-agent": "Fleet", "applier": "Config Sync", "configsync.gke.io": "Config Sync", "sveltos": "Sveltos",
}

// gitOwner is a tool that applies an object from Git.
type gitOwner struct {
	// Tool for people, and Manager as the API server calls it, or "".
	Tool, Manager string
	// Owns reports whether it set the field that is to change; else it set others of the object.
	Owns bool
}

// ownerOf finds the tool that applies an object, and whether it owns a field of the specification.
func ownerOf(fields []metav1.ManagedFieldsEntry, path ...string) gitOwner {
	var found gitOwner
	for _, e := range fields {
		tool, known := tools[e.Manager]
		if !known || e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		var set map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		switch {
		case has(set, slices.Insert(slices.Clone(path), 0, "spec")):
			return gitOwner{tool, e.Manager, true}
		case has(set, []string{"spec"}):
			found = gitOwner{tool, e.Manager, false}
		}
	}
	return found
}

// has reports whether a set of fields has one by its path.
func has(set map[string]any, path []string) bool {
	for _, name := range path {
		next, ok := set["f:"+name].(map[string]any)
		if !ok {
			return false
		}
		set = next
	}
	return true
}
