package act

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// unmanaged returns a cluster without a manager, in which 1.3.0 of the Microservice shop is a canary, and in which ana may have made a decision
// about it. The scope belongs to the user ben. edit is called before each patch with the number of patches so far.
func unmanaged(t *testing.T, anas *v1alpha1.Decision, edit func(c client.Client, patches int)) *scope {
	t.Helper()
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Name: "tenth", Weight: 10, Approval: &v1alpha1.CanaryApproval{Count: 2}}}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Rollout: &v1alpha1.Rollout{Release: "shop-1-3-0", Step: 1},
		Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-1-3-0", SemVer: v1alpha1.SemVer{Version: "1.3.0"}, Status: v1alpha1.ReleaseCanary}},
	}}
	release := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1-3-0"}}
	decide(release, anas, "ana")
	patches := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(ms, release).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			o.(*authenticationv1.SelfSubjectReview).Status.UserInfo.Username = "ben"
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if edit != nil {
				edit(c, patches)
			}
			patches++
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
	return &scope{Factory: cli.New("hlnr", "test", genericiooptions.NewTestIOStreamsDiscard()), client: c, namespace: "shop"}
}

// decide makes the decision of a user about a release, unless the decision is nil.
func decide(release *v1alpha1.VersionedMicroservice, d *v1alpha1.Decision, by string) {
	if d != nil {
		release.Spec.Decision, release.Annotations = d, map[string]string{v1alpha1.AnnotationDecidedBy: by}
	}
}

// change130 changes the only release of [unmanaged].
func change130(t *testing.T, c client.Client, change func(*v1alpha1.VersionedMicroservice)) {
	t.Helper()
	release := &v1alpha1.VersionedMicroservice{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "shop-1-3-0"}, release); err != nil {
		t.Error(err)
	}
	change(release)
	if err := c.Update(t.Context(), release); err != nil {
		t.Error(err)
	}
}

// TestUnhandledDecision checks that a decision does not replace a decision of another user that the manager has not handled, because the manager
// reads only the last decision. Only an abort does not wait.
func TestUnhandledDecision(t *testing.T) {
	t.Parallel()
	decision130 := func(action v1alpha1.DecisionAction, id string) *v1alpha1.Decision {
		return &v1alpha1.Decision{Action: action, ID: id}
	}
	waits := "Continue is not possible: the manager has not handled the decision Deprecate by ana yet"
	for name, c := range map[string]struct {
		anas    *v1alpha1.Decision
		handled func(*v1alpha1.Microservice, *v1alpha1.VersionedMicroservice)
		action  v1alpha1.DecisionAction
		edit    func(t *testing.T, c client.Client, patches int)
		want    string
	}{
		"no decision":        {nil, nil, v1alpha1.DecisionContinue, nil, ""},
		"an unhandled abort": {decision130(v1alpha1.DecisionDeprecate, "1"), nil, v1alpha1.DecisionContinue, nil, waits},
		"an unhandled approval": {decision130(v1alpha1.DecisionContinue, "1"), nil, v1alpha1.DecisionContinue, nil,
			"Continue is not possible: the manager has not handled the decision Continue by ana yet"},
		"an abort of an unhandled approval": {decision130(v1alpha1.DecisionContinue, "1"), nil, v1alpha1.DecisionDeprecate, nil, ""},
		"the same decision":                 {decision130(v1alpha1.DecisionContinue, "bens"), nil, v1alpha1.DecisionContinue, nil, ""},
		"recorded in the release": {decision130(v1alpha1.DecisionContinue, "1"), func(_ *v1alpha1.Microservice, r *v1alpha1.VersionedMicroservice) {
			r.Status.LastHandledDecision = &v1alpha1.HandledDecision{ID: "1"}
		}, v1alpha1.DecisionContinue, nil, ""},
		"recorded in the Microservice": {decision130(v1alpha1.DecisionContinue, "1"), func(ms *v1alpha1.Microservice, _ *v1alpha1.VersionedMicroservice) {
			ms.Status.ReleaseGroups[0].Releases[0].Decision = &v1alpha1.HandledDecision{ID: "1"}
		}, v1alpha1.DecisionContinue, nil, ""},
		"a new status": {nil, nil, v1alpha1.DecisionContinue, func(t *testing.T, c client.Client, patches int) {
			if patches == 0 {
				change130(t, c, func(r *v1alpha1.VersionedMicroservice) { r.Status.Available++ })
			}
		}, ""},
		"an abort at the same moment": {nil, nil, v1alpha1.DecisionContinue, func(t *testing.T, c client.Client, patches int) {
			if patches == 0 {
				change130(t, c, func(r *v1alpha1.VersionedMicroservice) {
					decide(r, decision130(v1alpha1.DecisionDeprecate, "1"), "ana")
				})
			}
		}, waits},
		"constant changes": {nil, nil, v1alpha1.DecisionContinue, func(t *testing.T, c client.Client, _ int) {
			change130(t, c, func(r *v1alpha1.VersionedMicroservice) { r.Status.Available++ })
		}, "shop-1-3-0 changes too often: run the command again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := unmanaged(t, c.anas, func(w client.Client, patches int) {
				if c.edit != nil {
					c.edit(t, w, patches)
				}
			})
			if c.handled != nil {
				time.AfterFunc(pollInterval/2, func() {
					ms := &v1alpha1.Microservice{}
					if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "shop"}, ms); err != nil {
						t.Error(err)
					}
					change130(t, s.client, func(r *v1alpha1.VersionedMicroservice) { c.handled(ms, r) })
					if err := s.client.Update(t.Context(), ms); err != nil {
						t.Error(err)
					}
				})
			}
			d := &decision{action: c.action, id: "bens", timeout: 3 * pollInterval}
			if c.handled != nil {
				d.timeout = time.Minute
			}
			_, _, err := d.do(t.Context(), s, []string{"shop", "1.3.0"})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			release := &v1alpha1.VersionedMicroservice{}
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "shop-1-3-0"}, release); err != nil {
				t.Fatal(err)
			}
			if is := release.Spec.Decision != nil && release.Spec.Decision.ID == "bens" && release.Annotations[v1alpha1.AnnotationDecidedBy] == "ben"; is != (c.want == "") {
				t.Errorf("the decision is %+v, by %q", release.Spec.Decision, release.Annotations[v1alpha1.AnnotationDecidedBy])
			}
			if err != nil && strings.HasPrefix(c.want, "Continue") && cli.CodeOf(err) != cli.ExitNo {
				t.Errorf("exit code %d", cli.CodeOf(err))
			}
		})
	}
}

// TestReplacedDecision checks that the wait for a decision ends if another decision replaces it before the manager has handled it.
func TestReplacedDecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now           *v1alpha1.Decision
		handled, want string
		code          cli.Code
	}{
		"replaced":              {&v1alpha1.Decision{Action: v1alpha1.DecisionDeprecate, ID: "1"}, "", "replaced by the decision Deprecate by ana", cli.ExitNo},
		"removed":               {nil, "", "removed", cli.ExitNo},
		"handled":               {&v1alpha1.Decision{Action: v1alpha1.DecisionDeprecate, ID: "1"}, "bens", "", cli.ExitYes},
		"both might be handled": {&v1alpha1.Decision{Action: v1alpha1.DecisionDeprecate, ID: "1"}, "1", "followed by the decision Deprecate by ana", cli.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := unmanaged(t, c.now, nil)
			if c.handled != "" {
				change130(t, s.client, func(r *v1alpha1.VersionedMicroservice) {
					r.Status.LastHandledDecision = &v1alpha1.HandledDecision{ID: c.handled, Outcome: "Applied"}
				})
			}
			tg, err := s.target(t.Context(), v1alpha1.DecisionContinue, []string{"shop"})
			if err != nil {
				t.Fatal(err)
			}
			d := &decision{action: v1alpha1.DecisionContinue, id: "bens", timeout: time.Minute, output: &cli.Output{Format: cli.FormatText}}
			if err := d.report(t.Context(), s, tg, &Done{}, "shop 1.3.0"); cli.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("exit code %d, %v; want %d and %q", cli.CodeOf(err), err, c.code, c.want)
			}
		})
	}
}
