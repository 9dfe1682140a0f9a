package helm

import (
	"strings"
	"testing"
)

// TestLabelsOfUsers tests that each label is either rejected by the schema or rendered as valid YAML. The
// rendered pods have the labels that the Deployment, the Services, and the PodDisruptionBudget use to
// select them.
func TestLabelsOfUsers(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]map[string]any{
		"object labels":    {"labels": map[string]any{"app.kubernetes.io/name": "platform"}},
		"pod labels":       {"podLabels": map[string]any{"app.kubernetes.io/component": "platform"}},
		"dashboard labels": {"metrics": map[string]any{"dashboards": map[string]any{"enabled": true, "labels": map[string]any{"grafana_dashboard": nil}}}},
		"monitor labels":   {"metrics": map[string]any{"serviceMonitor": map[string]any{"enabled": true, "labels": map[string]any{"app.kubernetes.io/name": "kube-prometheus"}}}},
		"numeric labels":   {"podLabels": map[string]any{"cost-center": 4711}},
		"pod annotation":   {"podAnnotations": map[string]any{"kubectl.kubernetes.io/default-container": "proxy"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := rendered(t, with(values))
			if err != nil && strings.Contains(err.Error(), "YAML") {
				t.Errorf("the template is broken: %v", err)
				return
			}
			if err != nil {
				t.Logf("refused: %v", err)
				return
			}
			all := objects(t, r.Manifest)
			pod := field(all["Deployment heighliner-system heighliner"], "spec/template/metadata/labels").(map[string]any)
			for key, want := range field(all["Deployment heighliner-system heighliner"], "spec/selector/matchLabels").(map[string]any) {
				if pod[key] != want {
					t.Errorf("pods have %s=%v, the Deployment selects %v", key, pod[key], want)
				}
			}
			for key, value := range pod {
				if _, ok := value.(string); !ok {
					t.Errorf("label %s is %v, which is not a string, so the API server rejects it", key, value)
				}
			}
		})
	}
}
