//go:build e2e && linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/test/harness"
)

// previewOf2 is the group of pull request 2.
const previewOf2 = "feature-pay-2"

// withDatabase lets the service record visits in a schema for each preview. Jobs create and drop these schemas.
func (s *service) withDatabase(d *harness.Database) *service {
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "database"}, StringData: map[string]string{"url": d.URL}})
	c := &s.ms.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "DATABASE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "database"}, Key: "url"}}},
		corev1.EnvVar{Name: "SCHEMA", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + v1alpha1.LabelGroup + "']"}}},
	)
	job := func(name string, kind v1alpha1.HookType, previews bool) v1alpha1.Hook {
		return v1alpha1.Hook{Name: name, Type: kind, Previews: previews, Job: &v1alpha1.HookJob{Args: []string{"--job-sql", name, "--schema", "$(HLNR_GROUP)"}, Timeout: "1m"}}
	}
	s.steps(v1alpha1.CanaryStep{Weight: 50})
	s.ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{job("create", v1alpha1.HookConfirmRollout, true), job("drop", v1alpha1.HookPostPreview, false)}
	return s
}

// drops counts the Jobs that drop schemas, by release, from now on.
func (s *service) drops() func() map[string]int {
	s.t.Helper()
	w, err := env.Client.Watch(s.t.Context(), &batchv1.JobList{}, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelHook: "drop"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.Stop)
	var mu sync.Mutex
	seen := map[string]int{}
	go func() {
		for e := range w.ResultChan() {
			if job, ok := e.Object.(*batchv1.Job); ok && e.Type == watch.Added {
				mu.Lock()
				seen[job.Labels[v1alpha1.LabelRelease]]++
				mu.Unlock()
			}
		}
	}()
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		out := map[string]int{}
		for k, v := range seen {
			out[k] = v
		}
		return out
	}
}

// visit records a visit to a preview, and returns the number of its visits.
func visit(t *testing.T, host string) (n int) {
	t.Helper()
	wait(t, "a visit at "+host, func(ctx context.Context) (bool, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/visits", nil)
		if err != nil {
			return false, "", harness.Permanent(err)
		}
		resp, err := web().Do(req)
		if err != nil {
			return false, err.Error(), nil
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return false, fmt.Sprintf("%d %s", resp.StatusCode, text), err
		}
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil, string(text), nil
	})
	return n
}

// schemas waits until the database has exactly the given schemas. The schema of a group whose pods are
// running must exist.
func (s *service) schemas(d *harness.Database, when string, want ...string) {
	s.t.Helper()
	wait(s.t, fmt.Sprintf("the schemas %s: %v", when, want), func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		if err := env.Client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
			return false, "", err
		}
		got, err := d.Schemas(ctx)
		if err != nil {
			return false, "", err
		}
		for _, p := range pods.Items {
			group := p.Labels[v1alpha1.LabelGroup]
			if p.Labels[v1alpha1.LabelHook] == "" && p.Status.Phase == corev1.PodRunning && group != "" && !slices.Contains(got, group) && !slices.Contains(want, group) {
				if err := env.Client.Get(ctx, client.ObjectKeyFromObject(&p), &p); err == nil && p.Status.Phase == corev1.PodRunning {
					return false, "", harness.Permanent(fmt.Errorf("pod %s runs without the schema of its group", p.Name))
				}
			}
		}
		return slices.Equal(got, want), fmt.Sprint(got), nil
	})
}

// ended waits until a group is removed.
func (s *service) ended(group string) {
	s.t.Helper()
	s.until("group "+group+" to be removed", func(ms *v1alpha1.Microservice) (bool, string) {
		i := slices.IndexFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.Slug == group })
		if i < 0 {
			return true, ""
		}
		return false, fmt.Sprintf("%s, end %+v", ms.Status.ReleaseGroups[i].Phase, ms.Status.ReleaseGroups[i].End)
	})
}

// TestPreviewDatabases tests that each preview has a schema in a PostgreSQL database. A Job creates the
// schema before the first pod. When the pull request is closed and the preview's pods are removed, a Job
// drops the schema, even if the manager was not running when the pull request was closed.
func TestPreviewDatabases(t *testing.T) {
	d, err := env.StartDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	h := newHub(t, "")
	s := newService(t, "databases").withDatabase(d)
	dropped := s.drops()
	repo, first, host := s.openPreview(h)
	s.schemas(d, "of the first preview", previewOf1)
	visit(t, host)
	if n := visit(t, host); n != 2 {
		t.Errorf("the first preview has %d visits, want 2", n)
	}

	t.Run("a push keeps the content", func(t *testing.T) {
		s := s.in(t)
		head := repo.Push(first)
		s.push(fmt.Sprintf("pr-%d-%.7s", first, head), "VERSION", head[:7])
		s.preview(head)
		if n := visit(t, host); n != 3 {
			t.Errorf("after a push, the preview has %d visits, want 3", n)
		}
	})

	second := repo.Open(githubtest.PullRequest{Title: "Pay", HeadRef: "feature/pay"})
	head := repo.PullRequest(second).HeadSHA
	s.push(fmt.Sprintf("pr-%d-%.7s", second, head), "VERSION", head[:7])
	other := previewOf2 + "." + s.name + ".localhost"
	t.Run("another preview has another schema", func(t *testing.T) {
		s := s.in(t)
		answers(t, other)
		s.schemas(d, "of both previews", previewOf1, previewOf2)
		if n := visit(t, other); n != 1 {
			t.Errorf("the second preview has %d visits, want 1", n)
		}
	})

	t.Run("the schema of a closed pull request is dropped", func(t *testing.T) {
		s := s.in(t)
		repo.Close(first, true)
		s.schemas(d, "after the first pull request was closed", previewOf2)
		s.ended(previewOf1)
		if n := visit(t, other); n != 2 {
			t.Errorf("the second preview has %d visits, want 2", n)
		}
	})

	t.Run("a pull request is closed while the manager is not running", func(t *testing.T) {
		withoutManager(t)
		repo.Close(second, false)
		if n := visit(t, other); n != 3 {
			t.Errorf("the second preview has %d visits, want 3", n)
		}
	})
	s.schemas(d, "after the manager is running again")
	s.ended(previewOf2)
	if jobs := dropped(); len(jobs) != 2 {
		t.Errorf("Jobs of these releases dropped schemas: %v, want one for each preview", jobs)
	} else {
		for release, n := range jobs {
			if n != 1 {
				t.Errorf("%d Jobs of %s dropped its schema, want 1", n, release)
			}
		}
	}
}
