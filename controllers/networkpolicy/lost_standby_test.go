package networkpolicy

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// TestKindLostByAReplica checks that a replica works correctly as the leader if it observed the deletion of a
// definition before it became the leader: it neither waits for the deleted kind nor exits because its cache does not
// sync.
func TestKindLostByAReplica(t *testing.T) {
	t.Parallel()
	a := newAlone(t, apiserver.Options{GatewayAPI: true})
	ctx := t.Context()
	namespace := a.Namespace(t)
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "manager"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
	}}
	if err := a.Client.Create(ctx, lease); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(a.Config, ctrl.Options{
		Scheme: a.Client.Scheme(), NewCache: NewCache, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:          cache.Options{ReaderFailOnMissingInformer: true},
		LeaderElection: true, LeaderElectionID: "manager", LeaderElectionNamespace: namespace,
		// The test deletes the Lease of the other replica, so that the new leader does not wait until the Lease expires. A slow renewal must not
		// cause the leader to lose leadership.
		LeaseDuration: new(2 * await.Limit), RenewDeadline: new(await.Limit), RetryPeriod: new(500 * time.Millisecond),
		Controller: config.Controller{SkipNameValidation: new(true), CacheSyncTimeout: 30 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := SetupWithManager(mgr, Options{Metrics: prometheus.NewRegistry(), pollInterval: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not sync")
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "httproutes.gateway.networking.k8s.io"}}
	if err := a.Client.Delete(ctx, crd); err != nil {
		t.Fatal(err)
	}
	time.Sleep(8 * time.Second) // The watch ends, and the response to the list request is 404.
	if err := a.Client.Delete(ctx, lease, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-mgr.Elected():
	case err := <-done:
		t.Fatalf("the manager exited before it became the leader: %v", err)
	case <-time.After(await.Limit):
		t.Fatal("the manager did not become the leader")
	}
	select {
	case err := <-done:
		t.Fatalf("the new leader exited: %v", err)
	case <-time.After(36 * time.Second): // This is longer than CacheSyncTimeout.
	}
	cancel()
	<-done
}
