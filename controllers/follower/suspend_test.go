package follower

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAppliesSuspend checks which manifests suspend a CronJob. The API server does not validate the annotation, so a quantity that takes minutes and
// gigabytes of memory to parse must not be parsed.
func TestAppliesSuspend(t *testing.T) {
	t.Parallel()
	for manifest, want := range map[string]bool{
		`{"spec": {"suspend": true}}`:  true,
		`{"spec": {"suspend": false}}`: false,
		`{"spec": {}}`:                 false,
		`{"spec": {"suspend": "yes"}}`: false,
		`{`:                            false,
		``:                             false,
		`{"spec": {"suspend": true, "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "1.1e2000000000"}}}]}}}}}}`: true,
	} {
		job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: manifest}}}
		if got := appliesSuspend(job); got != want {
			t.Errorf("%s: %t, want %t", manifest, got, want)
		}
	}
}
