//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// jobReports records the reports from Jobs, and rejects the migrations of some versions.
type jobReports struct {
	t *testing.T

	mu      sync.Mutex
	counts  map[string]int // The counts, by hook, version, and phase.
	refused map[string]bool
}

func (r *jobReports) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body map[string]string
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return // The pod was stopped.
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	version := body["HLNR_VERSION"]
	r.counts[body["HLNR_HOOK"]+" "+version+" "+body["PHASE"]]++
	if body["HLNR_HOOK"] == "migrate" && r.refused[version] {
		http.Error(w, "table orders is locked", http.StatusConflict)
	}
	if body["HLNR_HOOK"] == "smoke" && body["HLNR_SERVICES"] == "" {
		r.t.Error("the smoke test got no Service")
	}
}

func (r *jobReports) count(hook, version, phase string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[hook+" "+version+" "+phase]
}

// TestJobs tests that a migration before the first pod, a smoke test before traffic, and a cleanup after the
// end of the rollout each run once, as Jobs, even if the manager is killed in the meantime. A failed migration
// does not affect the active release. No request fails.
func TestJobs(t *testing.T) {
	const versions, kills = 4, 5
	r := &jobReports{t: t, counts: map[string]int{}, refused: map[string]bool{"1.9.0": true}}
	url := serveInside(t, r)
	s := newService(t, "jobs").steps(v1alpha1.CanaryStep{Name: "some", Weight: 20})
	job := func(name string, kind v1alpha1.HookType, took time.Duration) v1alpha1.Hook {
		return v1alpha1.Hook{Name: name, Type: kind, Job: &v1alpha1.HookJob{Args: []string{"--job-url", url, "--job-duration", took.String()}, Timeout: "2m"}}
	}
	s.ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{
		job("migrate", v1alpha1.HookConfirmRollout, 8*time.Second),
		job("smoke", v1alpha1.HookPreRollout, 4*time.Second),
		job("cleanup", v1alpha1.HookPostRollout, 0),
	}
	s.start("1.0.0")
	l := s.load(50, false)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := &killer{random: random, wanted: versions * kills}

	once := func(s *service, version string) {
		s.t.Helper()
		within(s.t, time.Minute, "the cleanup of "+version, cleaned(r, version))
		for _, hook := range []string{"migrate", "smoke", "cleanup"} {
			if begun, ended := r.count(hook, version, "begin"), r.count(hook, version, "end"); begun != 1 || ended != 1 {
				s.t.Errorf("the Job %s of %s began %d times and ended %d times, want once", hook, version, begun, ended)
			}
		}
	}
	t.Run("each Job runs once, even if the manager is killed", func(t *testing.T) {
		s := s.in(t)
		for i := 1; i <= versions; i++ {
			version := fmt.Sprintf("1.%d.0", i)
			s.push(version)
			s.status(version, v1alpha1.ReleasePending)
			for range kills {
				time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
				if err := k.kill(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.active(version)
			once(s, version)
		}
		t.Logf("the manager was killed %d times", k.count())
	})

	t.Run("a failed migration does not affect the active release", func(t *testing.T) {
		s := s.in(t)
		l.Mark("1.9.0")
		s.push("1.9.0")
		if row := s.status("1.9.0", v1alpha1.ReleaseError); row.Reason != "HookFailed" {
			t.Errorf("1.9.0 ended with reason %s", row.Reason)
		}
		s.hooked(t, "1.9.0", "migrate", v1alpha1.HookFailed)
		vsvc, err := s.versioned(t.Context(), "1.9.0")
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range vsvc.Status.Hooks {
			if h.Name == "migrate" && !strings.Contains(h.Log, "table orders is locked") {
				t.Errorf("the status does not show why the migration failed: %+v", h)
			}
		}
		if pods, err := s.pods(t.Context(), "1.9.0"); err != nil || len(pods) > 0 {
			t.Errorf("1.9.0 has %d pods, %v", len(pods), err)
		}
		if n := r.count("migrate", "1.9.0", "begin"); n != 1 {
			t.Errorf("the failed migration ran %d times", n)
		}
		s.sees(l, fmt.Sprintf("1.%d.0", versions))
	})

	t.Run("no Service selects the pods of Jobs", func(t *testing.T) {
		var jobs batchv1.JobList
		if err := env.Client.List(t.Context(), &jobs, client.InNamespace(s.namespace)); err != nil {
			t.Fatal(err)
		}
		if want := 3; len(jobs.Items) < want {
			t.Errorf("%d Jobs, want at least %d", len(jobs.Items), want)
		}
		for _, j := range jobs.Items {
			if _, found := j.Spec.Template.Labels[v1alpha1.LabelRelease]; found {
				t.Errorf("pods of %s have the labels %v", j.Name, j.Spec.Template.Labels)
			}
		}
	})
	verdict(t, l)
}

// cleaned reports whether the cleanup of a version has ended.
func cleaned(r *jobReports, version string) harness.Poll {
	return func(context.Context) (bool, string, error) {
		n := r.count("cleanup", version, "end")
		return n > 0, fmt.Sprintf("the cleanup ended %d times", n), nil
	}
}
