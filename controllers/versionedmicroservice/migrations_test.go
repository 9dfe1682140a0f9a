package versionedmicroservice

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// fakeReconciler returns a reconciler with a client that has some objects.
func fakeReconciler(t *testing.T, now time.Time, objects ...client.Object) *reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &reconciler{client: c, live: c, clock: clocktesting.NewFakePassiveClock(now)}
}

// migrating is a release at ConfirmRollout since noon, with a migration and its reverse, whose migration runs.
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

// startJob plays the API server and the kubelet: the only Job that is created, that of a hook, runs.
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
