//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// runs records the reports from a CronJob's Jobs: the version of their image, and their configuration.
type runs struct {
	mu   sync.Mutex
	last map[string]string // The last reports, by name of the run.
}

func (r *runs) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	var body map[string]string
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return // The pod was stopped.
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[strings.TrimPrefix(req.URL.Path, "/")] = body["HLNR_VERSION"] + " " + body["HLNR_LEVEL"]
}

func (r *runs) of(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[name]
}

// TestFollowers tests that a CronJob that follows a Microservice runs nothing before a release is active. From
// then on, the CronJob runs with the image and the configuration of the active release, including after a
// promotion and after a rollback. The image in the CronJob's manifest does not exist.
func TestFollowers(t *testing.T) {
	r := &runs{last: map[string]string{}}
	url := serveInside(t, r)
	s := newService(t, "followers")
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "settings"}, Data: map[string]string{"HLNR_LEVEL": "low"}}
	s.create(settings)
	envFrom := []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings.Name}}}}
	s.ms.Spec.Template.Spec.Containers[0].EnvFrom = envFrom

	pod := podSpec()
	pod.RestartPolicy = corev1.RestartPolicyNever
	c := &pod.Containers[0]
	c.Image, c.EnvFrom, c.Ports, c.ReadinessProbe = "example.com/set-by-heighliner", envFrom, nil, nil
	report := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "report", Labels: map[string]string{v1alpha1.LabelFollow: s.ms.Name}},
		Spec: batchv1.CronJobSpec{Schedule: "0 3 29 2 *", JobTemplate: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{Spec: pod}},
		}},
	}
	s.create(report)
	follows := func(what, message string, suspended bool) {
		t.Helper()
		wait(t, what, func(ctx context.Context) (bool, string, error) {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(report), report)
			is := report.Spec.Suspend != nil && *report.Spec.Suspend
			got := report.Annotations[v1alpha1.AnnotationFollowMessage]
			return is == suspended && strings.Contains(got, message), fmt.Sprintf("suspended: %t, %q", is, got), err
		})
	}
	// run runs the CronJob now, as "kubectl create job --from" does.
	run := func(name, want string) {
		t.Helper()
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: *report.Spec.JobTemplate.Spec.DeepCopy()}
		job.Spec.Template.Spec.Containers[0].Args = []string{"--job-url", url + "/" + name}
		s.create(job)
		within(t, 2*time.Minute, "the end of Job "+name, func(ctx context.Context) (bool, string, error) {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(job), job)
			return job.Status.Succeeded > 0, fmt.Sprintf("%+v", job.Status), err
		})
		if got := r.of(name); got != want {
			t.Errorf("Job %s ran %q, want %q", name, got, want)
		}
	}

	active := func(version string) {
		t.Helper()
		s.active(version)
		follows(version, `follows release "`+s.release(version).VersionedMicroservice+`", version `+version, false)
	}

	follows("a CronJob without a Microservice", `Microservice "app" does not exist`, true)
	s.push("1.0.0", "HLNR_VERSION", "1.0.0")
	s.create(s.images, s.ms, s.network)
	active("1.0.0")
	run("first", "1.0.0 low")
	s.push("1.1.0", "HLNR_VERSION", "1.1.0")
	active("1.1.0")
	run("promoted", "1.1.0 low")

	before := s.release("1.1.0").VersionedMicroservice
	change(t, settings, func(c *corev1.ConfigMap) { c.Data["HLNR_LEVEL"] = "high" })
	s.until("a release of 1.1.0 with the new configuration", func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, "1.1.0")
		return r.VersionedMicroservice != before, r.VersionedMicroservice
	})
	active("1.1.0")
	run("configured", "1.1.0 high")

	began := time.Now()
	s.pin("1.0.0")
	active("1.0.0")
	t.Logf("the CronJob followed %s after the pin", time.Since(began).Round(100*time.Millisecond))
	run("back", "1.0.0 low")

	if err := env.Client.Delete(t.Context(), s.ms); err != nil {
		t.Fatal(err)
	}
	follows("a Microservice that was deleted", `Microservice "app" does not exist`, false)
}
