package microservice

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// togetherWith returns the value of together.name that a Microservice shares with its peers, or
// "".
func togetherWith(ms *v1alpha1.Microservice) string {
	if c := ms.Spec.UpdateStrategy.Canary; c != nil && c.Together != nil {
		return c.Together.Name
	}
	return ""
}

// peers returns the other Microservices of the namespace with the same together.name.
func (r *Reconciler) peers(ctx context.Context, ms *v1alpha1.Microservice) ([]v1alpha1.Microservice, error) {
	name := togetherWith(ms)
	if name == "" {
		return nil, nil
	}
	var list v1alpha1.MicroserviceList
	if err := r.List(ctx, &list, client.InNamespace(ms.Namespace), client.MatchingFields{indexTogether: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Microservices with together.name %q: %w", name, err)
	}
	var peers []v1alpha1.Microservice
	for i := range list.Items {
		if p := &list.Items[i]; p.Name != ms.Name {
			peers = append(peers, *p)
		}
	}
	return peers, nil
}

// observePeers reads the progress of the peers. A peer that is being deleted does not block rollouts.
func (r *Reconciler) observePeers(ctx context.Context, o *observed) error {
	peers, err := r.peers(ctx, o.ms)
	for i := range peers {
		if p := &peers[i]; p.DeletionTimestamp.IsZero() {
			o.facts.Peers = append(o.facts.Peers, release.Peer{Name: p.Name, Groups: readState(&p.Status).Groups})
		}
	}
	return err
}
