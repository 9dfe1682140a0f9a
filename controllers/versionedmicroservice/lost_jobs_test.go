package versionedmicroservice

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/hook"
)

// migrationJob returns the Job for one of the scene's calls. The Job has not ended.
func migrationJob(o *observed, q hook.Call) hookJob {
	job := resources.Job(o.release, q)
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.release, v1alpha1.GroupVersion.WithKind("VersionedMicroservice"))}
	return hookJob{Job: job}
}

// TestDropWaitsForCreate checks what happens if a pull request is closed while the Job that creates its schema has no
// node. The Job that drops the schema must not be created before the first Job has ended. Otherwise, the
// schema would be created after the drop.
func TestDropWaitsForCreate(t *testing.T) {
	t.Parallel()
	o := scene(0, 0)
	at := metav1.NewMicroTime(noon)
	ms := inRollout(v1alpha1.Release{Status: v1alpha1.ReleasePending, Reason: "Started"}, &v1alpha1.Rollout{Release: releaseName, Sequence: 7, Gate: v1alpha1.GateConfirmRollout, GateTime: &at})
	ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{
		{Name: "create", Type: v1alpha1.HookConfirmRollout, Previews: true, Job: &v1alpha1.HookJob{}},
		{Name: "drop", Type: v1alpha1.HookPostPreview, Job: &v1alpha1.HookJob{}},
	}
	group := &ms.Status.ReleaseGroups[1]
	group.Level = v1alpha1.LevelPreview
	o.microservice = ms
	first := runChecks(&answers{}, see(o), noon)
	if len(first.jobs.create) != 1 || first.jobs.create[0].Hook.Name != "create" {
		t.Fatalf("Jobs to create: %+v", first.jobs.create)
	}
	o.release.Status.Hooks = first.hooks
	o.jobs = []hookJob{migrationJob(o, first.jobs.create[0])}
	group.Rollout, group.Phase, group.End = nil, v1alpha1.GroupClosing, &v1alpha1.PreviewEnd{Release: releaseName, Time: at}
	for i := range group.Releases {
		group.Releases[i].Status = v1alpha1.ReleaseDeprecated
	}
	second := runChecks(&answers{}, see(o), noon.Add(time.Minute))
	for _, q := range second.jobs.create {
		t.Errorf("the Job of %s is created, but Job %s has not ended", q.Hook.Name, o.jobs[0].Name)
	}
}

// TestDeletedJob checks that a Job that was deleted before its result was known does not run again, because its effects are not known.
func TestDeletedJob(t *testing.T) {
	t.Parallel()
	s := newStage(t, migration())
	s.gate()
	eventually(t, func() string {
		if got := s.hook("migrate", v1alpha1.HookWaiting); !strings.Contains(got.Message, "has no ready pod yet") {
			return got.Message
		}
		return ""
	})
	first := s.jobs()[0]
	if err := world.Delete(t.Context(), &first, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		for _, job := range s.jobs() {
			if job.UID != first.UID {
				t.Fatalf("the migration runs a second time, as Job %s", job.Name)
			}
		}
		if got := s.hook("migrate", v1alpha1.HookFailed); !strings.Contains(got.Message, "Job "+first.Name+" was deleted before its result was known") {
			return got.Message
		}
		return ""
	})
}

// TestLostJobOfARoundIsNotCreatedAgain checks that the Job of a Rollout hook that was deleted before its result was known does not run
// again in the same round, while the metrics of the round are not due yet.
func TestLostJobOfARoundIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	o := rolloutScene(func(ms *v1alpha1.Microservice) {
		measured(ms)
		ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{{Name: "load", Type: v1alpha1.HookRollout, Job: &v1alpha1.HookJob{}}}
	})
	first := runChecks(&answers{}, see(o), noon)
	if len(first.jobs.create) != 1 {
		t.Fatalf("Jobs to create: %+v", first.jobs.create)
	}
	q := first.jobs.create[0]
	lost := hook.Lost(q, hook.JobName(q), noon)
	o.release.Status.Analysis = first.analysis
	o.release.Status.Hooks = []v1alpha1.HookStatus{{
		Name: q.Hook.Name, Type: q.Hook.Type, ID: q.Body.ID, Phase: v1alpha1.HookWaiting, Job: lost.Job, Attempts: 1, Message: lost.Message,
	}}
	if second := runChecks(&answers{}, see(o), noon.Add(10*time.Second)); len(second.jobs.create) > 0 {
		t.Errorf("Job %s is created again", lost.Job)
	}
}
