package versionedmicroservice

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
)

// fakeReconciler returns a reconciler with a client that contains objects.
func fakeReconciler(t *testing.T, now time.Time, objects ...client.Object) *reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := newFake(scheme).WithObjects(objects...).Build()
	return &reconciler{client: c, live: c, clock: clocktesting.NewFakePassiveClock(now)}
}

// migrating returns a release that has been at ConfirmRollout since noon, with a migration and its reverse. The migration is running.
func migrating(t *testing.T) *observed {
	t.Helper()
	o := scene(0, 0)
	at := metav1.NewMicroTime(noon)
	o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleasePending, Reason: "Started"}, &v1alpha1.Rollout{Release: releaseName, Sequence: 7, Gate: v1alpha1.GateConfirmRollout, GateTime: &at})
	o.microservice.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{
		{Name: "migrate", Type: v1alpha1.HookConfirmRollout, Job: &v1alpha1.HookJob{}},
		{Name: "revert", Type: v1alpha1.HookPostRollout, Job: &v1alpha1.HookJob{}},
	}
	o.release.Status.Release = v1alpha1.ReleasePending
	o.startJob(t, "migrate", noon)
	return o
}

// end simulates the Job controller: the Job has succeeded.
func (j hookJob) end(at time.Time) {
	j.Status = batchv1.JobStatus{Succeeded: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}}
}

// startJob simulates the API server and the kubelet: the only created Job, which belongs to a hook, is running.
func (o *observed) startJob(t *testing.T, name string, at time.Time) {
	t.Helper()
	c := runChecks(&answers{}, see(o), at)
	if len(c.jobs.create) != 1 || c.jobs.create[0].Hook.Name != name {
		t.Fatalf("Jobs to create: %+v", c.jobs.create)
	}
	job := migrationJob(o, c.jobs.create[0])
	job.Status.Active, job.Status.Ready = 1, ptr.To(int32(1))
	o.release.Status.Hooks, o.jobs = c.hooks, append(o.jobs, job)
}

// createsNone fails a test if a Job is created while another Job is running.
func (o *observed) createsNone(t *testing.T, now time.Time) []v1alpha1.HookStatus {
	t.Helper()
	c := runChecks(&answers{}, see(o), now)
	for _, q := range c.jobs.create {
		t.Errorf("the Job of %s is created, with HLNR_STATUS %s and HLNR_REASON %s, while Job %s is running", q.Hook.Name, q.Body.Phase, q.Body.Reason, o.jobs[0].Name)
	}
	return c.hooks
}

// TestRevertWaitsForMigration checks that, after a user's Deprecate decision or after a Rollback hook
// answers yes, the reverse of a running migration starts only after the migration has ended.
func TestRevertWaitsForMigration(t *testing.T) {
	t.Parallel()
	o := migrating(t)
	g := &o.microservice.Status.ReleaseGroups[1]
	g.Rollout = nil
	g.Releases[1].Status, g.Releases[1].Reason = v1alpha1.ReleaseError, "Aborted"
	o.release.Status.Hooks = o.createsNone(t, noon.Add(time.Minute))
	if h := o.release.Status.Hooks; len(h) != 2 || h[1].Name != "revert" || h[1].Phase != v1alpha1.HookWaiting || h[1].Message != "waits until Job "+o.jobs[0].Name+" of an earlier call has ended" {
		t.Errorf("the status shows %+v", h)
	}
	o.release.Status.Release = v1alpha1.ReleaseError
	o.jobs[0].end(noon.Add(2 * time.Minute))
	o.startJob(t, "revert", noon.Add(2*time.Minute))
}

// TestMigrationWaitsForRevert checks that, after a user's Retry decision, the migration waits while the
// reverse migration of the failed attempt is running.
func TestMigrationWaitsForRevert(t *testing.T) {
	t.Parallel()
	o := migrating(t)
	g := &o.microservice.Status.ReleaseGroups[1]
	g.Rollout, o.jobs = nil, nil
	g.Releases[1].Status, g.Releases[1].Reason = v1alpha1.ReleaseError, "AnalysisFailed"
	o.startJob(t, "revert", noon.Add(time.Minute))
	o.release.Status.Release = v1alpha1.ReleaseError
	at := metav1.NewMicroTime(noon.Add(2 * time.Minute))
	g.Releases[1].Status, g.Releases[1].Reason, g.Releases[1].Attempt = v1alpha1.ReleasePending, "Retried", 1
	g.Rollout = &v1alpha1.Rollout{Release: releaseName, Sequence: 9, Gate: v1alpha1.GateConfirmRollout, GateTime: &at}
	o.release.Status.Hooks = o.createsNone(t, at.Time)
	o.jobs[0].end(at.Add(time.Minute))
	o.startJob(t, "migrate", at.Add(time.Minute))
}

// TestRenamedHookWaitsForItsJob checks that a hook that is renamed while its Job is running waits for the Job.
func TestRenamedHookWaitsForItsJob(t *testing.T) {
	t.Parallel()
	o := migrating(t)
	o.microservice.Spec.UpdateStrategy.Canary.Hooks[0].Name = "migrate-up"
	o.release.Status.Hooks = o.createsNone(t, noon.Add(time.Minute))
	o.jobs[0].end(noon.Add(2 * time.Minute))
	o.startJob(t, "migrate-up", noon.Add(2*time.Minute))
}

// TestCallsThatDoNotWaitForJobs checks that two Jobs of one gate can run at the same time, that the result of
// a Job counts while the Job of a removed hook is running, and that messages do not wait for Jobs.
func TestCallsThatDoNotWaitForJobs(t *testing.T) {
	t.Parallel()
	o := migrating(t)
	hooks := &o.microservice.Spec.UpdateStrategy.Canary.Hooks
	*hooks = append(*hooks, v1alpha1.Hook{Name: "seed", Type: v1alpha1.HookConfirmRollout, Job: &v1alpha1.HookJob{}}, v1alpha1.Hook{Name: "chat", Type: v1alpha1.HookEvent})
	o.startJob(t, "seed", noon)
	*hooks = (*hooks)[1:] // migrate is removed
	o.jobs[1].end(noon.Add(time.Minute))
	a := &answers{}
	c := runChecks(a, see(o), noon.Add(time.Minute))
	if !slices.Contains(a.asked, "chat") {
		t.Errorf("asked: %v", a.asked)
	}
	if i := slices.IndexFunc(c.hooks, func(h v1alpha1.HookStatus) bool { return h.Name == "seed" }); i < 0 || c.hooks[i].Phase != v1alpha1.HookOpen {
		t.Errorf("the status shows %+v", c.hooks)
	}
}

// TestCreatedJobIsInTheStatus checks that the status that a reconcile writes after it has created a Job counts
// the Job and contains its name, although the Job is not in the cache. Therefore, while the Job is running, the
// release is not deleted, and a reverse migration does not start.
func TestCreatedJobIsInTheStatus(t *testing.T) {
	t.Parallel()
	o := migrating(t)
	o.jobs, o.release.Status.Hooks = nil, nil
	r := fakeReconciler(t, noon)
	c := runChecks(&answers{}, see(o), noon)
	outcomes, err := r.applyJobs(t.Context(), o, c.jobs)
	if err != nil || len(o.jobs) != 1 {
		t.Fatalf("%d Jobs, %v", len(o.jobs), err)
	}
	c.record(o, outcomes, noon)
	next, _ := newStatus(o, applied{}, c, noon)
	if next.ActiveJobs != 1 || next.Hooks[0].Job != o.jobs[0].Name || next.Hooks[0].Phase != v1alpha1.HookWaiting {
		t.Errorf("the status has %d Jobs and %+v", next.ActiveJobs, next.Hooks)
	}
	o.release.Status, o.jobs = next, nil
	if err := r.findJobs(t.Context(), o); err != nil || len(o.jobs) != 1 {
		t.Errorf("a reconcile whose cache does not contain the Job finds %d Jobs, error %v", len(o.jobs), err)
	}
}

// TestJobThatIsNotInTheStatus checks what happens if a process exits after it has created a Job but before the Job is in
// the status. The release has no row when the next process starts.
func TestJobThatIsNotInTheStatus(t *testing.T) {
	t.Parallel()
	o := migrating(t)
	o.release.Status = v1alpha1.VersionedMicroserviceStatus{}
	r := fakeReconciler(t, noon, o.release, o.jobs[0].Job)
	r.journal = &status.Journal{}
	now, err := r.observe(t.Context(), client.ObjectKeyFromObject(o.release))
	if err != nil {
		t.Fatal(err)
	}
	if now.rollout != nil || now.activeJobs() != 1 {
		t.Errorf("%d Jobs of a release that may be deleted", now.activeJobs())
	}
}

// revertCommand returns the script in the migrations guide that decides whether to revert a
// migration.
func revertCommand(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/database-migration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "- name: revert\n")
	_, text, _ = strings.Cut(text, `command: ["/bin/sh", "-c", "`)
	script, _, found := strings.Cut(text, `"]`)
	if !found {
		t.Fatal("the guide has no script")
	}
	return strings.ReplaceAll(script, "/app/shop migrate down", "echo reverted")
}

// TestRevertOfTheGuide checks that the script from the guide reverts only migrations that have succeeded, for
// each possible end of a rollout. The release's reason is not sufficient: HookFailed is the same for each
// gate, and Aborted is the same before and after the migration.
func TestRevertOfTheGuide(t *testing.T) {
	t.Parallel()
	script := revertCommand(t)
	at := noon.Add(time.Minute)
	fail := func(o *observed, why string) {
		g := &o.microservice.Status.ReleaseGroups[1]
		g.Rollout, g.Releases[1].Status, g.Releases[1].Reason = nil, v1alpha1.ReleaseError, why
	}
	gate := func(o *observed, gate v1alpha1.Gate, sequence int64, at time.Time) {
		since := metav1.NewMicroTime(at)
		g := &o.microservice.Status.ReleaseGroups[1]
		g.Releases[1].Status, g.Releases[1].Reason = v1alpha1.ReleasePending, "Started"
		g.Rollout = &v1alpha1.Rollout{Release: releaseName, Sequence: sequence, Gate: gate}
		if gate != "" {
			g.Rollout.GateTime = &since
		}
	}
	pass := func(o *observed) {
		o.release.Status.Hooks = runChecks(&answers{}, see(o), at).hooks
		o.release.Status.Release = o.microservice.Status.ReleaseGroups[1].Releases[1].Status
	}
	answered := func(o *observed, name string) {
		for i := range o.release.Status.Hooks {
			if h := &o.release.Status.Hooks[i]; h.Name == name {
				h.Phase = v1alpha1.HookDelivered
			}
		}
	}
	retry := func(o *observed) {
		row := &o.microservice.Status.ReleaseGroups[1].Releases[1]
		row.Status, row.Reason, row.Attempt, row.LastTransitionTime = v1alpha1.ReleasePending, "Retried", 1, metav1.NewMicroTime(at)
	}
	for name, test := range map[string]struct {
		play     func(o *observed)
		reverted bool
	}{
		"the migration succeeded, and the smoke test failed": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			gate(o, v1alpha1.GatePreRollout, 7, at)
			pass(o)
			fail(o, "HookFailed")
		}, true},
		"the migration failed": {func(o *observed) {
			o.jobs[0].Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}
			pass(o)
			fail(o, "HookFailed")
		}, false},
		"aborted before the migration ran": {func(o *observed) {
			o.jobs, o.release.Status.Hooks = nil, nil
			fail(o, "Aborted")
		}, false},
		"aborted after the migration": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			gate(o, "", 7, at)
			pass(o)
			fail(o, "Aborted")
		}, true},
		"aborted while the migration was running, which then succeeded": {func(o *observed) {
			fail(o, "Aborted")
			pass(o)
			o.jobs[0].end(at)
		}, true},
		"aborted while the migration was running, which then failed": {func(o *observed) {
			fail(o, "Aborted")
			pass(o)
			o.jobs[0].Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}
		}, false},
		"reverted, retried, and aborted before the migration ran again": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			fail(o, "AnalysisFailed")
			pass(o)
			gate(o, "", 9, at) // outside its window
			pass(o)
			fail(o, "Aborted")
			o.jobs = nil
		}, false},
		"the migration succeeded, the traffic was returned to the active release, and the analysis failed": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			gate(o, "", 9, at)
			o.microservice.Status.ReleaseGroups[1].Releases[1].Reason = "NotProgrammed"
			pass(o)
			fail(o, "AnalysisFailed")
		}, true},
		"the smoke test was called again after the traffic was returned to the active release, and failed": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			gate(o, v1alpha1.GatePreRollout, 9, at)
			o.microservice.Status.ReleaseGroups[1].Releases[1].Reason = "NotProgrammed"
			pass(o)
			fail(o, "HookFailed")
		}, true},
		"the migration succeeded long ago, and a rollback to the release failed": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			gate(o, "", 9, at)
			row := &o.microservice.Status.ReleaseGroups[1].Releases[1]
			row.Status, row.Reason, row.Promoted = v1alpha1.ReleaseDeprecated, "Replaced", 1
			pass(o)
			fail(o, "Unhealthy")
			o.jobs = nil
		}, false},
		"reverted, retried during a pause, and aborted before the end of the pause": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			fail(o, "AnalysisFailed")
			pass(o)
			answered(o, "revert")
			retry(o)
			pass(o)
			fail(o, "Aborted")
			o.jobs = nil
		}, false},
		"retried during a pause while the migration was being reverted, and aborted before the end of the pause": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			fail(o, "AnalysisFailed")
			o.startJob(t, "revert", at)
			o.release.Status.Release = v1alpha1.ReleaseError
			retry(o)
			pass(o)
			o.jobs[1].end(at)
			pass(o)
			fail(o, "Aborted")
			o.jobs = nil
		}, false},
		"reverted, retried during a pause while another hook was being called, and aborted before the end of the pause": {func(o *observed) {
			hooks := &o.microservice.Spec.UpdateStrategy.Canary.Hooks
			*hooks = append(*hooks, v1alpha1.Hook{Name: "chat", Type: v1alpha1.HookPostRollout})
			o.jobs[0].end(at)
			pass(o)
			fail(o, "AnalysisFailed")
			pass(o)
			answered(o, "revert")
			retry(o)
			pass(o)
			fail(o, "Aborted")
			o.jobs = nil
		}, false},
		"aborted while the migration was running, retried during a pause, and aborted after the migration": {func(o *observed) {
			fail(o, "Aborted")
			pass(o)
			retry(o)
			pass(o)
			o.jobs[0].end(at)
			pass(o)
			fail(o, "Aborted")
		}, true},
		"promoted": {func(o *observed) {
			o.jobs[0].end(at)
			pass(o)
			fail(o, "Promoted")
			o.microservice.Status.ReleaseGroups[1].Releases[1].Status = v1alpha1.ReleaseActive
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := migrating(t)
			o.microservice.Spec.UpdateStrategy.Canary.Hooks = append(o.microservice.Spec.UpdateStrategy.Canary.Hooks, v1alpha1.Hook{Name: "smoke", Type: v1alpha1.HookPreRollout})
			test.play(o)
			c := runChecks(&answers{}, see(o), at)
			i := slices.IndexFunc(c.jobs.create, func(q hook.Call) bool { return q.Hook.Name == "revert" })
			if i < 0 {
				t.Fatalf("Jobs to create: %+v, hooks %+v", c.jobs.create, c.hooks)
			}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
			for _, e := range hook.Variables(c.jobs.create[i]) {
				cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
			}
			out, err := cmd.CombinedOutput()
			if got := string(out) == "reverted\n"; err != nil || got != test.reverted {
				t.Errorf("reverted: %t, want %t: %s, %v, passed %v", got, test.reverted, out, err, c.jobs.create[i].Body.Passed)
			}
		})
	}
}
