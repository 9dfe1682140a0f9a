package microservice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// upgrade simulates a service's usual rollouts, and calls check in each stable state.
func (s *story) upgrade(check func(version, rolloutState string)) {
	s.Helper()
	s.route()
	rest := func(version string, offers ...string) {
		s.Helper()
		s.offer(offers...)
		s.play()
		check(version, s.rolloutState())
	}
	rest("1.0.0", "1.0.0")
	rest("1.1.0", "1.1.0", "1.0.0")
	s.broken["1.2.0"] = true
	rest("1.2.0", "1.2.0", "1.1.0", "1.0.0")
	rest("1.1.1", "1.2.0", "1.1.1", "1.1.0", "1.0.0")
}

// rests are the stable rollout states of the upgrade.
var rests = map[string]string{
	"1.0.0": lines(
		"release Live target Latest",
		"  1.0.0 active 100% First, 2 replicas",
	),
	"1.1.0": lines(
		"release Live target Latest",
		"  1.1.0 active 100% Promoted, 2 replicas",
		"  1.0.0 deprecated 0% Replaced, 1 replicas",
	),
	"1.2.0": lines(
		"release Live target Latest",
		"  1.2.0 error 0% CrashLoopBackOff, 0 replicas",
		"  1.1.0 active 100% Promoted, 2 replicas",
		"  1.0.0 deprecated 0% Replaced, 1 replicas",
	),
	"1.1.1": lines(
		"release Live target Latest",
		"  1.2.0 error 0% CrashLoopBackOff, 0 replicas",
		"  1.1.1 active 100% Promoted, 2 replicas",
		"  1.1.0 deprecated 0% Replaced, 1 replicas",
	),
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.upgrade(func(version, rolloutState string) {
		same(t, "rollout state after "+version, rolloutState, rests[version])
	})

	var reported []string
	for _, e := range s.events {
		reason, _, _ := strings.Cut(e, ":")
		reported = append(reported, reason)
	}
	same(t, "events", strings.Join(reported, " "), "Started Promoted "+
		"Started Promoted Started ReleaseFailed Started Promoted")

	ms := s.ms()
	same(t, "Ready", condition(ms, "Ready"), "True Succeeded: active: 1.1.1 in group release")
	same(t, "ReleaseFailed", condition(ms, "ReleaseFailed"), "True ReleaseFailed: 1.2.0 (CrashLoopBackOff)")
	same(t, "Progressing", condition(ms, "Progressing"), "False Idle: no rollout is in progress")
	same(t, "summary", ms.Status.Summary, v1alpha1.MicroserviceSummary{Active: "1.1.1", Groups: "1/1", Failed: "1.2.0 (CrashLoopBackOff)"})

	t.Run("steady", func(t *testing.T) {
		writes, before := len(s.writes), ms.ResourceVersion
		for range 3 {
			s.pass()
		}
		s.restart()
		s.clock.Step(time.Hour)
		s.pass()
		if len(s.writes) != writes || s.ms().ResourceVersion != before {
			t.Errorf("a stable service causes writes: %q", s.writes[writes:])
		}
	})
	t.Run("another generation does not change the rollout state", func(t *testing.T) {
		groups, sequence, writes := s.ms().Status.ReleaseGroups, s.ms().Status.Sequence(), len(s.writes)
		s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.UpdateStrategy.ProgressDeadlineSeconds = 700 })
		s.pass()
		ms := s.ms()
		same(t, "groups", ms.Status.ReleaseGroups, groups)
		same(t, "sequence", ms.Status.Sequence(), sequence)
		same(t, "generation", ms.Status.ObservedGeneration, ms.Generation)
		same(t, "writes", s.writes[writes:], []string{"status"})
	})
}

func TestCanary(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play(s.until("1.1.0 canary 10%"))
	s.gateway()
	s.pass()
	end := s.clock.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	same(t, "Progressing at first", condition(s.ms(), "Progressing"), "True Canary: the rollout of 1.1.0 in group release is in progress")
	s.clock.Step(20 * time.Second)
	s.pass()
	ms := s.ms()
	same(t, "Progressing", condition(ms, "Progressing"), "True Paused: 1.1.0 is waiting at 10% until the pause of its step ends at "+end)
	same(t, "Ready", condition(ms, "Ready"), "True Succeeded: active: 1.0.0 in group release")
	same(t, "canary", ms.Status.Summary.Canary, "1.1.0 10% step 1/2 Paused")
	if budget := s.release("1.1.0").Spec.Availability.DisruptionBudget; budget == nil || budget.MaxUnavailable == nil {
		t.Errorf("the canary's budget is %v", budget)
	}

	writes := len(s.writes)
	s.clock.Step(30 * time.Second)
	result, _ := s.pass()
	same(t, "writes while it waits", len(s.writes), writes)
	same(t, "wait", result.RequeueAfter, 10*time.Second)

	s.broken["1.1.0"] = true
	s.kubelet()
	s.play(s.until("1.1.0 error"))
	same(t, "rollout state after the canary crashed", s.rolloutState(), lines(
		"release Live target Latest",
		"  1.1.0 error 0% CrashLoopBackOff, 2 replicas",
		"  1.0.0 active 100% First, 2 replicas",
	))
}

func TestApprovalAndDecisions(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Canary.Steps[0] = v1alpha1.CanaryStep{Name: "check", Weight: 10, Approval: &v1alpha1.CanaryApproval{}}
	})
	decide := func(version string, d v1alpha1.Decision, by string) {
		t.Helper()
		c := s.release(version)
		c.Spec.Decision = &d
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationDecidedBy, by)
		if err := env.Client.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	decision := func(version string) v1alpha1.HandledDecision {
		t.Helper()
		for _, r := range s.ms().Status.ReleaseGroups[0].Releases {
			if r.SemVer.Version == version && r.Decision != nil {
				d := *r.Decision
				d.Time = metav1.MicroTime{}
				return d
			}
		}
		return v1alpha1.HandledDecision{}
	}
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play()
	name := s.release("1.1.0").Name
	same(t, "Progressing", condition(s.ms(), "Progressing"), `True Approval: 1.1.0 is waiting at 10% for approval: in VersionedMicroservice `+name+`, set spec.decision.action to Continue, spec.decision.step to "check" and spec.decision.id to a new value`)
	same(t, "canary", s.ms().Status.Summary.Canary, "1.1.0 10% step 1/2 Approval")

	long := strings.Repeat("mallory", 100)
	decide("1.1.0", v1alpha1.Decision{Action: "Continue", ID: "1", Step: "other"}, long)
	s.play()
	same(t, "a wrong step", decision("1.1.0"), v1alpha1.HandledDecision{
		ID: "1", Action: "Continue", By: long[:250] + "…", Outcome: `DecisionNotApplicable: the canary is in step "check", not in step "other"`,
	})
	decide("1.1.0", v1alpha1.Decision{Action: "Continue", ID: "2", Step: "check"}, "alice")
	s.play()
	same(t, "the approval step", decision("1.1.0"), v1alpha1.HandledDecision{ID: "2", Action: "Continue", By: "alice", Outcome: "Applied"})
	same(t, "rollout state", s.rolloutState(), rests["1.1.0"])

	s.offer("1.2.0", "1.1.0", "1.0.0")
	s.play()
	decide("1.2.0", v1alpha1.Decision{Action: "Deprecate", ID: "3"}, "bob")
	s.play()
	same(t, "aborted", decision("1.2.0"), v1alpha1.HandledDecision{ID: "3", Action: "Deprecate", By: "bob", Outcome: "Applied"})
	same(t, "ReleaseFailed", condition(s.ms(), "ReleaseFailed"), "True ReleaseFailed: 1.2.0 (Aborted)")
	decide("1.2.0", v1alpha1.Decision{Action: "Retry", ID: "4"}, "bob")
	s.play(s.until("1.2.0 canary"))
	decide("1.2.0", v1alpha1.Decision{Action: "Adopt", ID: "5"}, "bob")
	s.play()
	same(t, "rollout state", s.rolloutState(), lines(
		"release Live target Latest",
		"  1.2.0 active 100% Adopted, 2 replicas",
		"  1.1.0 deprecated 0% Replaced, 1 replicas",
	))
	writes := len(s.writes)
	s.pass()
	same(t, "writes for handled decisions", len(s.writes), writes)
}

func TestPins(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.upgrade(func(string, string) {})
	pin := func(version, reason string) {
		s.edit(func(spec *v1alpha1.MicroserviceSpec) {
			spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: version}, Reason: reason}
		})
		s.play()
	}
	s.events = nil
	pin("1.1.0", "incident 7")
	pinned := `group release is pinned to 1.1.0 ("incident 7"); strategy latest would select 1.1.1`
	if !slices.Contains(s.events, "Pinned: "+pinned) {
		t.Errorf("no event shows the pin: %q", s.events)
	}
	same(t, "Pinned", condition(s.ms(), "Pinned"), `True Pinned: group release is pinned to 1.1.0 ("incident 7"); strategy latest would select 1.1.1`)
	same(t, "rollout state", s.rolloutState(), lines(
		"release Live target Pinned",
		"  1.2.0 error 0% CrashLoopBackOff, 0 replicas",
		"  1.1.1 deprecated 0% Replaced, 1 replicas",
		"  1.1.0 active 100% RolledBack, 2 replicas",
	))
	same(t, "Ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.1.0 in group release")

	pin("9.9.9", "")
	if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, `True PinnedVersionMissing: spec.updateStrategy.manual pins version "9.9.9"`) {
		t.Errorf("Stalled is %q", got)
	}
	if got := condition(s.ms(), "Pinned"); !strings.HasPrefix(got, "False PinnedVersionMissing") {
		t.Errorf("Pinned is %q", got)
	}
	s.events = nil
	s.edit(func(spec *v1alpha1.MicroserviceSpec) {
		spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{{Name: "Release", Version: "1.1.0"}}}
	})
	s.play()
	s.play()
	stray := `spec.updateStrategy.manual.groups[0].name: group "Release" does not exist (existing groups: release); no release starts in groups without a pin; correct the name, or remove the pin`
	same(t, "Pinned for a pin to a missing group", condition(s.ms(), "Pinned"), "False PinnedVersionMissing: "+stray)
	same(t, "Stalled for a pin to a missing group", condition(s.ms(), "Stalled"), "True PinnedVersionMissing: "+stray)
	same(t, "events", s.events, []string{"PinnedVersionMissing: " + stray})
	pin("1.1.0", "incident 7")
	s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.UpdateStrategy.Manual = nil })
	s.play()
	if !slices.Contains(s.events, "Unpinned: the pin was removed; previous state: "+pinned) {
		t.Errorf("no event shows the end of the pin: %q", s.events)
	}
	same(t, "Pinned after the pin is removed", condition(s.ms(), "Pinned"), "")
	if !s.until("1.1.1 active 100% RolledBack")() {
		t.Errorf("the newest version is not active after the pin was removed: %s", s.rolloutState())
	}
}

// TestProblems checks that a condition reports errors in the specification or a referenced object, and that
// live releases remain live.
func TestProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		break_ func(*story)
		want   string
		next   time.Duration
	}{
		"no such container": {func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.ContainerName = "web" })
		}, `False ContainerNotFound: spec.containerName: spec.template has no container "web"; set the field to the name of one of its containers`, 0},
		"no such ImagePolicy": {func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.ImagePolicyRef.Name = "sop" })
		}, `False ImagePolicyNotFound: spec.imagePolicyRef.name: ImagePolicy "sop" does not exist in this namespace; create it or correct the name`, 0},
		"the ImagePolicy has not completed a scan yet": {func(s *story) {
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			p.Spec.Image = "r.example/other"
			if err := env.Client.Update(s.Context(), p); err != nil {
				s.Fatal(err)
			}
		}, "False SourcePending: the ImagePolicy has not completed a scan with its current specification yet", 0},
		"the ImagePolicy cannot be read": {func(s *story) {
			s.offer("1.1.0", "1.0.0")
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			meta := metav1.Condition{Type: "Stalled", Status: "True", Reason: v1alpha1.ReasonInvalidSpec, LastTransitionTime: metav1.Now()}
			p.Status.Conditions = []metav1.Condition{meta}
			if err := env.Client.Status().Update(s.Context(), p); err != nil {
				s.Fatal(err)
			}
		}, "False SourcePending: the ImagePolicy has not completed a scan with its current specification yet", 0},
		"the release is rejected": {func(s *story) {
			s.before = func(what string) error {
				if strings.HasPrefix(what, "create") {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "versionedmicroservices"}, "x", fmt.Errorf("exceeded quota: releases"))
				}
				return nil
			}
			s.offer("1.1.0", "1.0.0")
		}, `False Forbidden: create release "shop-1-1-0-`, status.MaxBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.route()
			s.offer("1.0.0")
			s.play()
			test.break_(s)
			if strings.Contains(test.want, "SourcePending") {
				if _, err := s.pass(); err != nil {
					t.Fatalf("reconcile: %v", err)
				}
				s.clock.Step(sourceSilence)
			}
			result, err := s.pass()
			if err != nil {
				t.Fatalf("reconcile: %v", err)
			}
			ms := s.ms()
			if got := condition(ms, "Ready"); !strings.HasPrefix(got, test.want) {
				t.Errorf("Ready is %q, want %q", got, test.want)
			}
			same(t, "generation", ms.Status.ObservedGeneration, ms.Generation)
			if test.next > 0 && result.RequeueAfter != test.next {
				t.Errorf("it is requeued after %s, want %s", result.RequeueAfter, test.next)
			}
			writes := len(s.writes)
			for range 3 {
				s.pass()
			}
			if len(s.writes) != writes {
				t.Errorf("a persistent problem causes writes: %q", s.writes[writes:])
			}
			if !s.until("1.0.0 active 100% First, 2 replicas")() {
				t.Errorf("the live release changed: %s", s.rolloutState())
			}
		})
	}
}

// TestRefusedSuccessorBlocksNothing checks that a release that cannot be created does not prevent the
// rollback of a failing canary.
func TestRefusedSuccessorBlocksNothing(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play(s.until("1.1.0 canary 10%"))
	s.offer("1.2.0", "1.1.0", "1.0.0")
	s.before = func(what string) error {
		if strings.HasPrefix(what, "create") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "versionedmicroservices"}, "x", fmt.Errorf("exceeded quota"))
		}
		return nil
	}
	s.pass()
	if !s.until("1.1.0 deprecated 0% Superseded")() || !s.until("1.0.0 active 100%")() {
		t.Errorf("the canary still has weight: %s", s.rolloutState())
	}
	if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, "True Forbidden") {
		t.Errorf("Stalled is %q", got)
	}
	s.before = nil
	s.play()
	if !s.until("1.2.0 active 100% Promoted")() {
		t.Errorf("the successor does not start after the wait: %s", s.rolloutState())
	}
}

func TestNameConflict(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.offer("1.0.0")
	s.play()
	foreign := s.release("1.0.0").DeepCopy()
	ms := s.ms()
	if err := env.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: foreign.Name}
	s.create(foreign)
	result, err := s.pass()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("True NameConflict: VersionedMicroservice %q exists and is not controlled by Heighliner: delete it or re-create it under another name, or re-create the object that needs this name under another name", foreign.Name)
	same(t, "Stalled", condition(s.ms(), "Stalled"), want)
	same(t, "next", result.RequeueAfter, time.Minute)
	live := s.objects()[foreign.Name]
	if live.ResourceVersion != foreign.ResourceVersion {
		t.Error("the foreign object was written")
	}
	if err := env.Client.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	s.play()
	if s.until("1.0.0 active 100%")(); !metav1.IsControlledBy(s.objects()[foreign.Name], ms) {
		t.Errorf("the object is not created again: %s", s.rolloutState())
	}
	same(t, "Ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.0.0 in group release")
}

// TestConcurrentRolloutStateWrite checks that a concurrent write of the rollout state by another user causes the whole plan to be dropped.
func TestConcurrentRolloutStateWrite(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.upgrade(func(string, string) {})
	s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.UpdateStrategy.MinimumAvailable = 1 })
	before, events := s.rolloutState(), len(s.events)
	s.before = func(what string) error {
		if what == "status" {
			s.before = nil
			ms := s.ms()
			ms.Status.Summary.Failed = "another leader wrote the rollout state"
			if err := env.Client.Status().Update(context.Background(), ms); err != nil {
				s.Fatal(err)
			}
		}
		return nil
	}
	result, err := s.pass()
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("a conflict results in %v, %v: want a requeue without an error", result, err)
	}
	same(t, "rollout state", s.rolloutState(), before)
	same(t, "events", len(s.events), events)
	s.play()
	if s.until("1.1.0")() {
		t.Errorf("the plan is not computed again: %s", s.rolloutState())
	}
}

// TestOwnLastWrite checks that a reconcile does nothing if the rollout state that it reads is older than
// this process's last write, and that it continues if a user has reset the rollout state.
func TestOwnLastWrite(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	old := s.freeze()
	s.pass()
	writes := len(s.writes)
	r := s.reconciler
	r.Client = old
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.ms())}); err != nil {
		t.Error(err)
	}
	same(t, "writes based on an old rollout state", len(s.writes), writes)
	r.Client = s.client
	s.play()

	ms := s.ms()
	ms.Status = v1alpha1.MicroserviceStatus{}
	if err := env.Client.Status().Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	s.play()
	same(t, "rollout state after a reset", s.rolloutState(), lines(
		"release Live target Latest",
		"  1.0.0 active 100% Rebuilt, 2 replicas",
	))
}

// frozen is the client of a previous leader: it reads an earlier state, but writes to the current
// state.
type frozen struct {
	client.Client
	ms      *v1alpha1.Microservice
	policy  *v1alpha1.ImagePolicy
	objects v1alpha1.VersionedMicroserviceList
	routes  v1alpha1.NetworkPolicyList
}

func (s *story) freeze() *frozen {
	s.Helper()
	f := &frozen{Client: s.client, ms: s.ms(), policy: &v1alpha1.ImagePolicy{}}
	s.get("shop", f.policy)
	for _, list := range []client.ObjectList{&f.objects, &f.routes} {
		if err := env.Client.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			s.Fatal(err)
		}
	}
	return f
}

func (f *frozen) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch obj := obj.(type) {
	case *v1alpha1.Microservice:
		f.ms.DeepCopyInto(obj)
		return nil
	case *v1alpha1.ImagePolicy:
		f.policy.DeepCopyInto(obj)
		return nil
	case *v1alpha1.VersionedMicroservice:
		for i := range f.objects.Items {
			if f.objects.Items[i].Name == key.Name {
				f.objects.Items[i].DeepCopyInto(obj)
				return nil
			}
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "versionedmicroservices"}, key.Name)
}

func (f *frozen) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.VersionedMicroserviceList:
		f.objects.DeepCopyInto(list)
	case *v1alpha1.NetworkPolicyList:
		f.routes.DeepCopyInto(list)
	}
	return nil
}

// TestOldLeader checks that a previous leader that lost its Lease and continues from an earlier state
// neither scales down nor deletes serving releases, and that the result is the same.
func TestOldLeader(t *testing.T) {
	t.Parallel()
	for _, ago := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprintf("%d reconciles ago", ago), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			var seen []*frozen
			s.passed = func() {
				seen = append(seen, s.freeze())
				if len(seen) <= ago {
					return
				}
				before := s.serving()
				late := s.make(seen[len(seen)-1-ago], seen[len(seen)-1-ago])
				late.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.ms())}) // the result does not matter
				after := s.objects()
				for name, replicas := range before {
					if c := after[name]; c == nil || c.Spec.Replicas < replicas {
						t.Errorf("the old leader scaled %s down: %s", name, s.rolloutState())
					}
				}
			}
			s.upgrade(func(version, rolloutState string) {
				same(t, "rollout state after "+version, rolloutState, rests[version])
			})
		})
	}
}

// serving returns the replicas of releases that are active, canaries, or in progress.
func (s *story) serving() map[string]int32 {
	s.Helper()
	serving, objects := map[string]int32{}, s.objects()
	for _, g := range s.ms().Status.ReleaseGroups {
		for _, r := range g.Releases {
			c := objects[r.VersionedMicroservice]
			running := g.Rollout != nil && g.Rollout.Release == r.VersionedMicroservice
			if c != nil && (running || r.Weight > 0 || r.Status == v1alpha1.ReleaseActive) {
				serving[c.Name] = c.Spec.Replicas
			}
		}
	}
	return serving
}

// TestCrashes checks that the result is the same if the manager stops at each write, either before the write,
// or after the write but before the response arrives. Each subtest stops the manager at every fifth write.
func TestCrashes(t *testing.T) {
	t.Parallel()
	const stories = 5
	for _, mode := range []string{"before", "after"} {
		for first := range stories {
			t.Run(fmt.Sprintf("%s writes %d+%dn", mode, first, stories), func(t *testing.T) {
				t.Parallel()
				s := begin(t)
				count, lost := 0, 0
				die := func(string) error {
					if count++; count%stories == first {
						lost++
						return errCrash
					}
					return nil
				}
				if mode == "before" {
					s.before = die
				} else {
					s.after = die
				}
				s.upgrade(func(version, rolloutState string) {
					// A first release without a row is added to the rollout state (protocol rule 31).
					rolloutState = strings.ReplaceAll(rolloutState, "Rebuilt", "First")
					same(t, "rollout state after "+version, rolloutState, rests[version])
				})
				if lost < 5 {
					t.Errorf("only %d of %d writes were lost", lost, count)
				}
			})
		}
	}
}
