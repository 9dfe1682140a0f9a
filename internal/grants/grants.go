// Package grants says who may use an object of another namespace.
package grants

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// NeedsLabels says that [Allows] looks at the labels of a namespace: the repository is
// of another one, and chooses by labels. Otherwise they need not be read.
func NeedsLabels(repository *v1alpha1.GitHubRepository, namespace string) bool {
	a := repository.Spec.AllowedNamespaces
	return namespace != repository.Namespace && a != nil && a.From == v1alpha1.NamespacesSelector
}

// Allows says whether ImagePolicies of a namespace, which has these labels, may use a
// GitHubRepository. Its own namespace always may. Errors: the selector of
// spec.allowedNamespaces cannot be read; nobody else may use it then.
func Allows(repository *v1alpha1.GitHubRepository, namespace string, namespaceLabels map[string]string) (bool, error) {
	a := repository.Spec.AllowedNamespaces
	switch {
	case namespace == repository.Namespace:
		return true, nil
	case a == nil:
		return false, nil
	case a.From == v1alpha1.NamespacesAll:
		return true, nil
	case a.From != v1alpha1.NamespacesSelector || a.Selector == nil:
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(a.Selector)
	if err != nil {
		return false, fmt.Errorf("read spec.allowedNamespaces.selector: %w", err)
	}
	return selector.Matches(labels.Set(namespaceLabels)), nil
}
