package resources

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Mark returns a user's Service with the label by which the Service and its EndpointSlices are
// watched, and with an annotation that contains its selector, so that the selector can be restored.
func Mark(live *corev1.Service, policy string) (*corev1.Service, error) {
	selector, err := json.Marshal(live.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("encode selector of Service %q: %w", live.Name, err)
	}
	s := live.DeepCopy()
	s.Labels = with(s.Labels, v1alpha1.LabelPolicy, policy)
	s.Annotations = with(s.Annotations, v1alpha1.AnnotationAdoptedSelector, string(selector))
	return s, nil
}

// Marked reports whether a Service has the mark of a policy.
func Marked(s *corev1.Service, policy string) bool {
	return s.Labels[v1alpha1.LabelPolicy] == policy && s.Annotations[v1alpha1.AnnotationAdoptedSelector] != ""
}

// Adopt returns a marked Service that routes to a release. Only the selector and Heighliner's
// annotations change.
func (s Service) Adopt(live *corev1.Service) *corev1.Service {
	next := live.DeepCopy()
	next.Spec.Selector = map[string]string{v1alpha1.LabelRelease: s.Release}
	for k, v := range s.Stamp.Annotations() {
		next.Annotations = with(next.Annotations, k, v)
	}
	return next
}

// Restore reverses Mark and Adopt: it returns the Service with its original selector, and without
// Heighliner's label and annotations. It returns an error if it cannot read the original selector
// from the annotation. Restore never changes live itself.
func Restore(live *corev1.Service) (*corev1.Service, error) {
	var selector map[string]string
	if err := json.Unmarshal([]byte(live.Annotations[v1alpha1.AnnotationAdoptedSelector]), &selector); err != nil || len(selector) == 0 {
		return nil, fmt.Errorf("read annotation %s of Service %q: the value is not a selector in JSON: set the Service's selector manually", v1alpha1.AnnotationAdoptedSelector, live.Name)
	}
	next := live.DeepCopy()
	next.Spec.Selector = selector
	delete(next.Labels, v1alpha1.LabelPolicy)
	for _, k := range []string{v1alpha1.AnnotationAdoptedSelector, v1alpha1.AnnotationRevision, AnnotationRolloutState} {
		delete(next.Annotations, k)
	}
	return next, nil
}

func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
