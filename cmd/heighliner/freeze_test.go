package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// withShippedRights runs the manager with the permissions of config/rbac until the test ends. The test fails if the API
// server forbids a request.
func withShippedRights(t *testing.T, namespace string) {
	t.Helper()
	shipped(t)
	var refused refusals
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: apiserver.ManagerUser,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:heighliner-system", "system:authenticated"},
	}
	config.Wrap(refused.wrap)
	t.Cleanup(func() {
		if len(refused.seen) > 0 {
			slices.Sort(refused.seen)
			t.Errorf("the API server rejected these requests:\n%s", strings.Join(slices.Compact(refused.seen), "\n"))
		}
	})
	startManager(t, "v1.0.0", proxiedAs(t, config, func(*http.Request) {}), namespace)
}

// TestFreeze freezes a namespace, with the permissions of config/rbac. A pushed version waits until the Freeze
// is deleted, and then starts. Another version waits until the end of a period.
func TestFreeze(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.PlayKubelet(t, namespace, nil)
	withShippedRights(t, namespace)
	images := registrytest.New(t)
	images.Push(t, "team/shop", "1.0.0")
	shop := metav1.ObjectMeta{Namespace: namespace, Name: "shop"}
	policy := &v1alpha1.ImagePolicy{ObjectMeta: shop}
	policy.Spec.Image, policy.Spec.Interval = images.Repository("team/shop"), "5s"
	policy.Spec.Platforms = []string{"linux/amd64"}
	ms := &v1alpha1.Microservice{ObjectMeta: shop}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	create(t, policy)
	create(t, ms)
	state := func(active string, frozen bool) {
		t.Helper()
		await.Nil(t, func(ctx context.Context) error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(ms), ms); err != nil {
				return err
			}
			if got := ms.Status.Summary.Active; got != active || meta.IsStatusConditionTrue(ms.Status.Conditions, v1alpha1.ConditionFrozen) != frozen {
				return fmt.Errorf("active %q, want %q and frozen %t: %+v", got, active, frozen, ms.Status.Conditions)
			}
			return nil
		})
	}
	state("1.0.0", false)

	const alice = "alice@example.com"
	person := env.As(t, alice, "system:masters")
	freeze := func(rules v1alpha1.FreezeRules) *v1alpha1.Freeze {
		t.Helper()
		f := &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair", Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: alice}}}
		f.Spec.FreezeRules = rules
		if err := person.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := freeze(v1alpha1.FreezeRules{Reason: "trade fair", Indefinite: true})
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(f), f); err != nil {
			return err
		}
		if s := f.Status; !s.Active || s.Services != 1 || s.Reason != "trade fair" || s.ObservedGeneration != f.Generation {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	out, err := env.Kubectl(t, "", "get", "frz", "-n", namespace)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if row := strings.Fields(strings.Split(out, "\n")[1]); !slices.Equal(row[:len(row)-1], []string{"fair", "true", "trade", "fair", "1", alice}) {
		t.Errorf("unexpected output of kubectl get frz:\n%s", out)
	}

	images.Push(t, "team/shop", "1.1.0")
	state("1.0.0", true)
	version := ms.ResourceVersion
	if err := person.Delete(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	state("1.1.0", false)
	if version == ms.ResourceVersion {
		t.Error("the Microservice did not change")
	}

	// A period of a calendar ends at its scheduled time, without any change by a user.
	from, to := metav1.NewTime(time.Now().Add(-time.Hour)), metav1.NewTime(time.Now().Add(30*time.Second).Truncate(time.Second))
	f = freeze(v1alpha1.FreezeRules{Reason: "trade fair", Periods: []v1alpha1.FreezePeriod{{From: from, To: to}}})
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(f), f); err != nil {
			return err
		}
		if !f.Status.Active {
			return fmt.Errorf("status %+v", f.Status)
		}
		return nil
	})
	images.Push(t, "team/shop", "1.2.0")
	state("1.2.0", false)
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(f), f); err != nil {
			return err
		}
		if f.Status.Active {
			return fmt.Errorf("status %+v", f.Status)
		}
		return nil
	})
	if ended := time.Now(); ended.Before(to.Time) {
		t.Errorf("1.2.0 is active at %s, during the freeze", ended)
	}
	await.Nil(t, func(ctx context.Context) error { // The manager sends events in the background.
		var events eventsv1.EventList
		if err := env.Client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, reason := range []string{"Frozen", "Thawed", "FreezeBegan"} {
			if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == reason }) {
				return fmt.Errorf("there is no event %s", reason)
			}
		}
		return nil
	})
}
