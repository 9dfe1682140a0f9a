package act

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tools maps field managers to the names of the tools that apply objects from Git.
var tools = map[string]string{
	"kustomize-controller": "Flux", "helm-controller": "Flux", "flux": "Flux",
	"argocd-controller": "Argo CD", "argocd-application-controller": "Argo CD",
	"fleetagent": "Fleet", "fleet-agent": "Fleet", "applier": "Config Sync", "configsync.gke.io": "Config Sync", "sveltos": "Sveltos",
}

// gitOwner describes the GitOps tool that applies an object.
type gitOwner struct {
	// Tool is the name of the tool, and Manager is its field manager. Both are empty if no tool
	// applies the object.
	Tool, Manager string
	// Owns reports whether the tool set the field that the command changes. If Owns is false, the tool, if any, set only other fields of the object.
	Owns bool
}

// ownerOf returns the tool that applies an object, and whether the tool owns the field at a path of the specification.
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

// has reports whether a set of fields contains the field at a path.
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
