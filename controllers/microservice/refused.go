package microservice

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// reasonLedgerRefused is for a ledger that the server does not accept.
const reasonLedgerRefused = "LedgerRefused"

// afterLedgerRefused is when a ledger that was refused is tried again.
const afterLedgerRefused = time.Minute

// refusedLedger says on Ready that the server refuses the ledger: nothing is done
// about the Microservice until it is accepted, and nobody would know. The status stays
// as it was before. What comes back tells when to try again; other errors of a write
// come back as they are.
func (r *Reconciler) refusedLedger(ctx context.Context, w *world, before *v1alpha1.Microservice, err error) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	problem := status.NewTerminal(reasonLedgerRefused, fmt.Errorf("the server refuses what is to be recorded, and nothing is done until it accepts it; apply the CustomResourceDefinitions of this version of Heighliner: %w", err))
	problem.After = afterLedgerRefused
	before.DeepCopyInto(w.ms)
	if err := r.complain(ctx, w, problem); err != nil {
		return errors.Join(problem.Err, err)
	}
	return problem
}
