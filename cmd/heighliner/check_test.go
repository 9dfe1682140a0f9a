package main

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/test/await"
)

// TestCheck tests that check succeeds only after the Lease is renewed, and otherwise reports what is missing.
func TestCheck(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	fails := func(want string) {
		t.Helper()
		limit := 3 * checkPoll
		await.Nil(t, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			err := check(ctx, env.Config, namespace, leaseNames(0), &strings.Builder{})
			if err != nil && strings.Contains(err.Error(), "the API server does not respond") { // The machine is busy, and nothing was read in time.
				limit *= 2
				return err
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
			return nil
		})
	}
	fails("check that a manager is running there")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}}
	create(t, lease)
	fails("has no holder")
	lease.Spec.HolderIdentity = new("manager-1")
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if err := env.Client.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	fails("the manager manager-1 does not renew the Lease")

	var out strings.Builder
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	go func() { done <- check(ctx, env.Config, namespace, leaseNames(0), &out) }()
	await.Nil(t, func(ctx context.Context) error { // Wait until the check has read the Lease twice.
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		if err := env.Client.Update(ctx, lease); err != nil {
			return err
		}
		select {
		case err := <-done:
			done <- err
			return nil
		default:
			return context.DeadlineExceeded
		}
	})
	if err := <-done; err != nil || !strings.Contains(out.String(), "manager-1 renews the Lease") {
		t.Errorf("got %v, and %q", err, &out)
	}
}
