package versionedmicroservice

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/hook"
)

// TestTimeoutOfACachedJob: job.timeout decides when a Job counts as one that does not start, also for a Job that is read from the cache.
func TestTimeoutOfACachedJob(t *testing.T) {
	t.Parallel()
	job := resources.Job(newRelease("default", 1), hook.Call{
		Hook: v1alpha1.Hook{Name: "load", Type: v1alpha1.HookRollout, Job: &v1alpha1.HookJob{Timeout: "2h"}},
		Body: hook.Body{ID: "0123456789abcdef", Release: releaseName},
	})
	job.CreationTimestamp = metav1.NewTime(noon)
	cached, err := trimJob(job)
	if err != nil {
		t.Fatal(err)
	}
	at, ok := hook.NotStartedBy(cached.(*batchv1.Job))
	if !ok || !at.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("the timeout is 2h, and the Job counts as one that does not start after %s", at.Sub(noon))
	}
}
