package versionedmicroservice

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
)

// +kubebuilder:rbac:groups=hlnr.io,resources=networkpolicies,verbs=get;list;watch

// observeReach finds out where a release is reached, for the bodies of its hooks.
func (r *reconciler) observeReach(ctx context.Context, place *hook.Place) error {
	ms := place.Microservice
	if canary := ms.Spec.UpdateStrategy.Canary; canary == nil || len(canary.Hooks) == 0 {
		return nil
	}
	target, err := r.target(ctx, place, place.Group, place.Row)
	if err != nil {
		return err
	}
	var policies hlnr.NetworkPolicyList
	if err := r.client.List(ctx, &policies, client.InNamespace(ms.Namespace)); err != nil {
		return fmt.Errorf("list networkpolicies.hlnr.io: %w", err)
	}
	policies.Items = slices.DeleteFunc(policies.Items, func(p hlnr.NetworkPolicy) bool { return p.MicroserviceName() != ms.Name })
	place.Services, place.URL = target.Services, urlOf(policies.Items, place.Row.VersionedMicroservice)
	return nil
}

// urlOf is the first URL at which a release answers, and no other one: that of a domain
// that is programmed and has no other backend. "" for none.
func urlOf(policies []hlnr.NetworkPolicy, release string) string {
	byName := func(a, b hlnr.NetworkPolicy) int { return cmp.Compare(a.Name, b.Name) }
	for _, p := range slices.SortedFunc(slices.Values(policies), byName) {
		for _, d := range p.Status.Domains {
			others := slices.ContainsFunc(d.Backends, func(b hlnr.DomainBackend) bool { return b.Release != release })
			if d.Programmed && d.URL != "" && len(d.Backends) > 0 && !others {
				return d.URL
			}
		}
	}
	return ""
}
