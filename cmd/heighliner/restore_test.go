package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// TestRestoreWithoutStatuses removes all statuses of a service during a canary, as happens after a backup is
// restored. The release that was active becomes active again, and no route ever gives the canary more than the
// weight of its step.
func TestRestoreWithoutStatuses(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"manager stopped": false, "manager running": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			env.PlayKubelet(t, namespace, nil)
			var seen mostWeight
			env.PlayGateway(t, namespace, func(r *gatewayv1.HTTPRoute) bool { seen.note(r); return true })
			gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"}}
			gateway.Spec.GatewayClassName = "test"
			gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
			create(t, gateway)
			images := registrytest.New(t)
			images.Push(t, "team/shop", "1.0.0", "linux/amd64")
			objects := shopFor(namespace, images.Repository("team/shop"))
			ms := objects[1].(*v1alpha1.Microservice)
			ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = 0 // The default: no release may fail here.
			ms.Spec.UpdateStrategy.Canary.Steps = []v1alpha1.CanaryStep{{Weight: 20, Approval: &v1alpha1.CanaryApproval{}}}
			for _, obj := range objects {
				await.Nil(t, func(ctx context.Context) error { return env.Client.Create(ctx, obj) })
			}
			kubeconfig := proxied(t, func(*http.Request) {})
			m := startManager(t, "v1.0.0", kubeconfig, namespace)
			is := func(active string, canary int32) {
				t.Helper()
				await.Nil(t, func(ctx context.Context) error {
					if err := env.Client.Get(ctx, client.ObjectKeyFromObject(ms), ms); err != nil {
						return err
					}
					weights := map[string]int32{}
					for _, g := range ms.Status.ReleaseGroups {
						for _, r := range g.Releases {
							weights[r.SemVer.Version] = r.Weight
						}
					}
					if ms.Status.Summary.Active != active || weights["1.1.0"] != canary {
						return fmt.Errorf("active %q, weights %v: %+v", ms.Status.Summary.Active, weights, ms.Status.Conditions)
					}
					return nil
				})
			}
			is("1.0.0", 0)
			images.Push(t, "team/shop", "1.1.0", "linux/amd64")
			is("1.0.0", 20)
			await.Nil(t, func(context.Context) error {
				if most := seen.of("1-1-0"); most != 20 {
					return fmt.Errorf("no route gives the canary 20%%; the largest share is %d%%", most)
				}
				return nil
			})

			if !running {
				m.stop()
			}
			wipeStatuses(t, namespace)
			if !running {
				startManager(t, "v1.0.0", kubeconfig, namespace)
			}
			is("1.0.0", 20)
			if most := seen.of("1-1-0"); most != 20 {
				t.Errorf("the largest share that a route gave the canary was %d%%, want 20%%", most)
			}
		})
	}
}

// wipeStatuses removes the statuses of the releases, the NetworkPolicies and the Microservices in a namespace, in this
// order.
func wipeStatuses(t *testing.T, namespace string) {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: apiserver.ManagerUser, Groups: []string{"system:masters"}} // Only the manager may write statuses.
	c, err := client.New(config, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{&v1alpha1.VersionedMicroserviceList{}, &v1alpha1.NetworkPolicyList{}, &v1alpha1.MicroserviceList{}} {
		await.Nil(t, func(ctx context.Context) error {
			if err := env.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return err
			}
			var errs []error
			_ = meta.EachListItem(list, func(item runtime.Object) error {
				errs = append(errs, c.Status().Patch(ctx, item.(client.Object), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/status","value":{}}]`))))
				return nil
			})
			return errors.Join(errs...)
		})
	}
}

// mostWeight records the largest weight that a route gives to each release, by the name of the release's Service.
type mostWeight struct {
	mu     sync.Mutex
	shares map[string]int32
}

func (m *mostWeight) note(route *gatewayv1.HTTPRoute) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shares == nil {
		m.shares = map[string]int32{}
	}
	for _, rule := range route.Spec.Rules {
		sum := int32(0)
		for _, to := range rule.BackendRefs {
			sum += ptr.Deref(to.Weight, 1)
		}
		for _, to := range rule.BackendRefs {
			if w := ptr.Deref(to.Weight, 1); sum > 0 {
				m.shares[string(to.Name)] = max(m.shares[string(to.Name)], 100*w/sum)
			}
		}
	}
}

// of returns the largest weight, in percent, of the releases whose Service name contains part.
func (m *mostWeight) of(part string) (most int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, share := range m.shares {
		if strings.Contains(name, part) {
			most = max(most, share)
		}
	}
	return most
}
