package microservice

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func adopts(deletion v1alpha1.DeletionPolicy) func(*v1alpha1.Microservice) {
	return func(ms *v1alpha1.Microservice) {
		ms.Spec.AdoptFrom = &v1alpha1.AdoptDeployment{DeploymentName: "web"}
		ms.Spec.DeletionPolicy = deletion
	}
}

// previous creates the Deployment that previously ran the service, with available pods.
func (s *story) previous(replicas int32) *appsv1.Deployment {
	s.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
		},
	}
	s.create(d)
	s.run(replicas)
	s.get("web", d)
	return d
}

// run sets the number of available pods of the previous Deployment.
func (s *story) run(available int32) {
	s.Helper()
	var d appsv1.Deployment
	s.get("web", &d)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: available, ReadyReplicas: available, AvailableReplicas: available}
	if err := env.Client.Status().Update(s.Context(), &d); err != nil {
		s.Fatal(err)
	}
}

func (s *story) previousReplicas() int32 {
	s.Helper()
	var d appsv1.Deployment
	s.get("web", &d)
	return replicas(&d)
}

// routesTo makes the policy report the Service that it adopts.
func (s *story) routesTo(release string) {
	s.Helper()
	p := &v1alpha1.NetworkPolicy{}
	s.get("shop", p)
	now := metav1.NewMicroTime(s.clock.Now())
	p.Status.Adopted = &v1alpha1.AdoptedService{ServiceName: "web", Release: release}
	if release != "" {
		p.Status.Adopted.AdoptedTime = &now
	}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

func (s *story) adoptingRoute() {
	s.Helper()
	s.route()
	p := &v1alpha1.NetworkPolicy{}
	s.get("shop", p)
	p.Spec.AdoptFrom, p.Spec.DeletionPolicy = &v1alpha1.AdoptService{ServiceName: "web"}, v1alpha1.DeletionRestore
	if err := env.Client.Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

// remove deletes the Microservice.
func (s *story) remove() {
	s.Helper()
	if err := env.Client.Delete(s.Context(), s.ms()); err != nil {
		s.Fatal(err)
	}
}

func (s *story) removed() bool {
	s.Helper()
	err := env.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "shop"}, &v1alpha1.Microservice{})
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

func TestAdoptionScalesThePreviousDeploymentLast(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionRestore))
	s.previous(3)
	s.adoptingRoute()
	s.play()
	same(t, "before any release", wording(condition(s.ms(), v1alpha1.ConditionDeploymentAdopted)), "False NoActiveRelease")
	s.offer("1.0.0")
	s.play()
	same(t, "before the Service moved", wording(condition(s.ms(), v1alpha1.ConditionDeploymentAdopted)), "False ServiceNotAdopted")
	same(t, "replicas before the Service moved", s.previousReplicas(), int32(3))

	s.routesTo(s.release("1.0.0").Name)
	s.pass()
	same(t, "during the drain", wording(condition(s.ms(), v1alpha1.ConditionDeploymentAdopted)), "False Draining")
	same(t, "replicas during the drain", s.previousReplicas(), int32(3))
	moved := s.clock.Now()
	s.play(func() bool { return s.previousReplicas() == 0 })
	if waited := s.clock.Now().Sub(moved); waited < 30*time.Second {
		t.Errorf("scaled to zero %s after the Service moved, want the drain of 30s", waited)
	}
	s.play()
	same(t, "at the end", wording(condition(s.ms(), v1alpha1.ConditionDeploymentAdopted)), "True Adopted")
	same(t, "Ready", wording(condition(s.ms(), "Ready")), "True Succeeded")

	// Nothing is read or written anymore, even after a restart.
	writes := len(s.writes)
	s.restart()
	s.play()
	same(t, "writes in a stable state", s.writes[writes:], []string{})

	// The takeover is reverted: the previous pods start, the Service is restored, the drain ends, and the
	// releases are deleted.
	s.remove()
	s.pass()
	same(t, "replicas when it is deleted", s.previousReplicas(), int32(3))
	s.clock.Step(time.Minute)
	s.pass()
	same(t, "removed while the pods are not available", s.removed(), false)
	s.run(3)
	s.pass()
	same(t, "removed while the Service routes to the release", s.removed(), false)
	s.routesTo("")
	s.pass()
	same(t, "removed during the drain", s.removed(), false)
	s.clock.Step(31 * time.Second)
	s.pass()
	same(t, "gone", s.removed(), true)
	var d appsv1.Deployment
	s.get("web", &d)
	same(t, "annotations", len(d.Annotations), 0)
}

// TestReleasesOutliveTheRoutes checks a policy that is deleted together with the Microservice and whose routes
// still target the releases. The releases must be deleted only after the policy is gone and the drain has ended.
func TestReleasesOutliveTheRoutes(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionRestore))
	s.previous(3)
	s.adoptingRoute()
	s.offer("1.0.0")
	s.play()
	s.routesTo(s.release("1.0.0").Name)
	s.play(func() bool { return s.previousReplicas() == 0 })
	policy := &v1alpha1.NetworkPolicy{}
	s.get("shop", policy)
	controllerutil.AddFinalizer(policy, v1alpha1.FinalizerDeletionPolicy)
	if err := env.Client.Update(s.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(s.Context(), policy); err != nil {
		t.Fatal(err)
	}
	s.remove()
	s.pass()
	s.run(3)
	s.routesTo("") // The Service is restored, and the routes of the policy still exist.
	for range 3 {
		s.clock.Step(31 * time.Second)
		s.pass()
		same(t, "removed while the policy exists", s.removed(), false)
	}
	s.get("shop", policy)
	controllerutil.RemoveFinalizer(policy, v1alpha1.FinalizerDeletionPolicy)
	if err := env.Client.Update(s.Context(), policy); err != nil {
		t.Fatal(err)
	}
	s.pass()
	same(t, "removed during the drain", s.removed(), false)
	s.clock.Step(31 * time.Second)
	s.pass()
	same(t, "gone", s.removed(), true)
}

func TestAdoptionNeedsAWayForTheTraffic(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(*story)
		want    string
	}{
		"no Deployment":              {func(*story) {}, "False DeploymentNotFound"},
		"policy without adoption":    {func(s *story) { s.previous(1); s.route() }, "False ServiceNotAdopted"},
		"no policy, as for a worker": {func(s *story) { s.previous(1) }, "True Adopted"},
		"controlled by another object": {func(s *story) {
			d := s.previous(1)
			ms := s.ms()
			if err := controllerutil.SetControllerReference(ms, d, env.Client.Scheme()); err != nil {
				s.Fatal(err)
			}
			if err := env.Client.Update(s.Context(), d); err != nil {
				s.Fatal(err)
			}
		}, "False DeploymentNotAdoptable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, adopts(v1alpha1.DeletionOrphan))
			tc.prepare(s)
			s.offer("1.0.0")
			end := s.clock.Now().Add(5 * time.Minute)
			s.play(func() bool { return s.clock.Now().After(end) })
			same(t, "condition", wording(condition(s.ms(), v1alpha1.ConditionDeploymentAdopted)), tc.want)
			same(t, "Ready", wording(condition(s.ms(), "Ready")), "True Succeeded")
		})
	}
}

func TestDeletionEndsDespiteFailures(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionRestore))
	s.previous(3)
	s.offer("1.0.0")
	s.play(func() bool { return s.previousReplicas() == 0 })
	s.remove()
	s.run(0) // The previous pods never become available.
	start := s.clock.Now()
	for !s.removed() {
		result, err := s.pass()
		if err != nil {
			t.Fatal(err)
		}
		s.clock.Step(max(result.RequeueAfter, time.Millisecond))
		if s.clock.Now().Sub(start) > 15*time.Minute {
			t.Fatal("blocked for more than 15 minutes")
		}
	}
	if !strings.Contains(strings.Join(s.events, "\n"), "DeletionPolicyNotDone") {
		t.Errorf("no event reports DeletionPolicyNotDone: %q", s.events)
	}
}

func TestDeletionInATerminatingNamespace(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionRestore))
	s.previous(1)
	s.offer("1.0.0")
	s.play()
	if err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	s.remove()
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	same(t, "gone", s.removed(), true)
}

func TestOrphanKeepsObjectsWithTraffic(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) { ms.Spec.DeletionPolicy = v1alpha1.DeletionOrphan })
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play(s.until("1.1.0 canary"))
	s.deployments()
	s.remove()
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	same(t, "gone", s.removed(), true)
	for name, c := range s.objects() {
		var d appsv1.Deployment
		s.get(name, &d)
		same(t, "owners of the Deployment of "+c.Spec.SemVer.Version, len(d.OwnerReferences), 0)
	}
}

// TestOrphanKeepsReferencedReleases checks that Orphan keeps a release without weight if a route may refer to it, and no other
// release without weight.
func TestOrphanKeepsReferencedReleases(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(status *v1alpha1.NetworkPolicyStatus, retained string)
		kept   bool
	}{
		"no route refers to the retained release": {func(*v1alpha1.NetworkPolicyStatus, string) {}, false},
		"a domain has the fixed version of the retained release": {func(status *v1alpha1.NetworkPolicyStatus, retained string) {
			status.Groups[0].References = append(status.Groups[0].References, retained)
		}, true},
		"the policy has not reported": {func(status *v1alpha1.NetworkPolicyStatus, _ string) { *status = v1alpha1.NetworkPolicyStatus{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, func(ms *v1alpha1.Microservice) { ms.Spec.DeletionPolicy = v1alpha1.DeletionOrphan })
			s.route()
			s.offer("1.0.0")
			s.play()
			s.offer("1.1.0", "1.0.0")
			s.play()
			s.deployments()
			retained := s.release("1.0.0").Name
			var policy v1alpha1.NetworkPolicy
			s.get("shop", &policy)
			test.change(&policy.Status, retained)
			if err := env.Client.Status().Update(t.Context(), &policy); err != nil {
				t.Fatal(err)
			}
			s.remove()
			if _, err := s.pass(); err != nil {
				t.Fatal(err)
			}
			same(t, "gone", s.removed(), true)
			for version, kept := range map[string]bool{"1.0.0": test.kept, "1.1.0": true} {
				var d appsv1.Deployment
				s.get(s.release(version).Name, &d)
				same(t, version+" is kept", len(d.OwnerReferences) == 0, kept)
			}
		})
	}
}

// deployments creates a Deployment for each release.
func (s *story) deployments() {
	s.Helper()
	for _, c := range s.objects() {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: c.Name}}
		labels := map[string]string{v1alpha1.LabelRelease: c.Name}
		d.Spec.Replicas = &c.Spec.Replicas
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop"}}}}
		if err := controllerutil.SetControllerReference(c, d, env.Client.Scheme()); err != nil {
			s.Fatal(err)
		}
		s.create(d)
	}
}

// wording returns the status and reason from the text of a condition.
func wording(condition string) string {
	text, _, _ := strings.Cut(condition, ":")
	return text
}

func TestRestoreWithoutTheAnnotation(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionRestore))
	s.previous(3)
	s.offer("1.0.0")
	s.play()
	var d appsv1.Deployment
	s.get("web", &d)
	d.Annotations = nil // as a tool that applies its manifest does
	if err := env.Client.Update(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	s.remove()
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	same(t, "replicas", s.previousReplicas(), int32(3))
}

func TestAdoptionOfADeploymentThatIsScaledUpAgain(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionRestore))
	s.previous(5)
	s.offer("1.0.0")
	s.play(func() bool { return s.previousReplicas() == 0 })
	var d appsv1.Deployment
	s.get("web", &d)
	d.Spec.Replicas = new(int32(1))
	if err := env.Client.Update(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	s.play()
	s.get("web", &d)
	same(t, "replicas", replicas(&d), int32(0))
	same(t, "previous replicas", d.Annotations[v1alpha1.AnnotationAdoptedReplicas], "5")
}

func TestRejectedAdoptionIsCheckedAgain(t *testing.T) {
	t.Parallel()
	s := begin(t, adopts(v1alpha1.DeletionOrphan))
	d := s.previous(1)
	if err := controllerutil.SetControllerReference(s.ms(), d, env.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s.offer("1.0.0")
	end := s.clock.Now().Add(5 * time.Minute)
	s.play(func() bool { return s.clock.Now().After(end) })
	s.get("web", d)
	d.OwnerReferences = nil
	if err := env.Client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s.play()
	same(t, "condition", wording(condition(s.ms(), v1alpha1.ConditionDeploymentAdopted)), "True Adopted")
}
