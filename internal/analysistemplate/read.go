package analysistemplate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Read returns the analysis of a Microservice: either its own, or the resolved analysis of the template that it refers to. In the second case,
// template is the kind, name and generation of the template. spec is nil if the Microservice has no analysis. An error is an *[Error] or an error
// from the API server.
func Read(ctx context.Context, c client.Reader, ms *v1alpha1.Microservice) (spec *v1alpha1.CanaryAnalysis, template string, err error) {
	canary := ms.Spec.UpdateStrategy.Canary
	if canary == nil || canary.AnalysisTemplateRef == nil {
		if canary != nil {
			spec = canary.Analysis
		}
		return spec, "", nil
	}
	t, err := get(ctx, c, canary.AnalysisTemplateRef, ms.Namespace)
	if err != nil {
		return nil, "", err
	}
	spec, unresolved := Resolve(canary.AnalysisTemplateRef, ms.Namespace, t)
	if unresolved != nil {
		return nil, "", unresolved
	}
	return spec, t.String(), nil
}

// Uses reports whether a Microservice refers to a template.
func Uses(ms *v1alpha1.Microservice, template client.Object) bool {
	canary := ms.Spec.UpdateStrategy.Canary
	if canary == nil || canary.AnalysisTemplateRef == nil || canary.AnalysisTemplateRef.Name != template.GetName() {
		return false
	}
	if kindOf(canary.AnalysisTemplateRef) == v1alpha1.KindClusterAnalysisTemplate {
		return template.GetNamespace() == ""
	}
	return template.GetNamespace() == ms.Namespace
}

// Among returns the analysis of a Microservice. If the Microservice refers to a template, Among finds the template in the given lists. It returns
// nil if the Microservice has no analysis, or if the template is not in the lists or cannot be used.
func Among(ms *v1alpha1.Microservice, namespaced []v1alpha1.AnalysisTemplate, cluster []v1alpha1.ClusterAnalysisTemplate) *v1alpha1.CanaryAnalysis {
	canary := ms.Spec.UpdateStrategy.Canary
	switch {
	case canary == nil:
		return nil
	case canary.AnalysisTemplateRef == nil:
		return canary.Analysis
	}
	var t *Template
	for i := range namespaced {
		if Uses(ms, &namespaced[i]) {
			t = Namespaced(&namespaced[i])
		}
	}
	for i := range cluster {
		if Uses(ms, &cluster[i]) {
			t = Cluster(&cluster[i])
		}
	}
	spec, err := Resolve(canary.AnalysisTemplateRef, ms.Namespace, t)
	if err != nil {
		return nil
	}
	return spec
}

// get reads the template that a reference refers to. It returns nil if the template does not exist.
func get(ctx context.Context, c client.Reader, ref *v1alpha1.AnalysisTemplateReference, namespace string) (*Template, error) {
	if kindOf(ref) == v1alpha1.KindClusterAnalysisTemplate {
		var t v1alpha1.ClusterAnalysisTemplate
		if err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, &t); err != nil {
			return nil, missing(err, ref)
		}
		return Cluster(&t), nil
	}
	var t v1alpha1.AnalysisTemplate
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &t); err != nil {
		return nil, missing(err, ref)
	}
	return Namespaced(&t), nil
}

// missing returns nil for a NotFound error, and wraps any other error.
func missing(err error, ref *v1alpha1.AnalysisTemplateReference) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("get %s %q: %w", kindOf(ref), ref.Name, err)
}
