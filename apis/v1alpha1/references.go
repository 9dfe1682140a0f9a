package v1alpha1

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// GitHubRepositoryKey returns the key of the GitHubRepository from which the policy reads versions,
// or false if the policy does not read versions from GitHub.
func (p *ImagePolicy) GitHubRepositoryKey() (types.NamespacedName, bool) {
	if p.Spec.Source == nil || p.Spec.Source.GitHub == nil {
		return types.NamespacedName{}, false
	}
	ref := p.Spec.Source.GitHub.RepositoryRef
	return types.NamespacedName{Namespace: cmp.Or(ref.Namespace, p.Namespace), Name: ref.Name}, true
}

// NeedsNamespaceLabels reports whether AllowsNamespace depends on the labels of the namespace. This
// is the case if the repository is in another namespace, and spec.allowedNamespaces selects
// namespaces by label.
func (r *GitHubRepository) NeedsNamespaceLabels(namespace string) bool {
	a := r.Spec.AllowedNamespaces
	return namespace != r.Namespace && a != nil && a.From == NamespacesSelector
}

// AllowsNamespace reports whether ImagePolicies of a namespace with the given labels may use the
// repository. The namespace of the repository is always allowed. If the selector of
// spec.allowedNamespaces is invalid, AllowsNamespace returns false and an error.
func (r *GitHubRepository) AllowsNamespace(namespace string, namespaceLabels map[string]string) (bool, error) {
	a := r.Spec.AllowedNamespaces
	switch {
	case namespace == r.Namespace:
		return true, nil
	case a == nil:
		return false, nil
	case a.From == NamespacesAll:
		return true, nil
	case a.From != NamespacesSelector || a.Selector == nil:
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(a.Selector)
	if err != nil {
		return false, fmt.Errorf("read spec.allowedNamespaces.selector: %w", err)
	}
	return selector.Matches(labels.Set(namespaceLabels)), nil
}
