package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/shard"
)

// leaseName is the name of the leader election Lease if the manager runs without shards.
const leaseName = "manager.hlnr.io"

// checkPoll is the interval at which check polls the API server; a manager renews its Lease every
// two seconds.
const checkPoll = 500 * time.Millisecond

// checkCommand returns the "heighliner check" command.
func checkCommand() *cobra.Command {
	var o options
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Wait until a manager is running in the cluster (used by helm test)",
		Long: `check waits until the API server serves all hlnr.io kinds, and a manager renews the leader
election Lease or, with --shards, managers renew the Leases of all shards. If that takes longer than --timeout, check reports what is missing
and exits non-zero.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.shards < 0 || o.shards > shard.Max {
				return fmt.Errorf("--shards: invalid value %d: must be from 0 to %d", o.shards, shard.Max)
			}
			if timeout <= 0 {
				return fmt.Errorf("--timeout: invalid value %s: must be greater than 0, such as 60s", timeout)
			}
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find the cluster: %w; set KUBECONFIG", err)
			}
			namespace := o.ownNamespace()
			if namespace == "" {
				return errors.New("--leader-election-namespace: set it to the namespace of the manager")
			}
			ctx, cancel := context.WithTimeout(ctrl.SetupSignalHandler(), timeout)
			defer cancel()
			return check(ctx, config, namespace, leaseNames(o.shards), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.leaderNamespace, "leader-election-namespace", "", "namespace of the Leases; defaults to the namespace of the pod")
	cmd.Flags().IntVar(&o.shards, "shards", 0, "number of shards, the same as in the --shards flag of the managers; the Lease of each shard must be renewed")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the kinds and the Leases")
	return cmd
}

// leaseNames returns the names of the Leases that managers renew: a single Lease, or a Lease for each shard.
func leaseNames(shards int) []string {
	if shards == 0 {
		return []string{leaseName}
	}
	var names []string
	for i := range shards {
		names = append(names, shard.LeaseName(i))
	}
	return names
}

// check returns nil when the API server serves all kinds and each Lease has been renewed since check first read it. check
// does not compare renewal times with its own clock, so the clocks do not need to be synchronized. If ctx is done first, check
// returns an error that describes what is missing.
func check(ctx context.Context, config *rest.Config, namespace string, leases []string, out io.Writer) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	for _, lease := range leases {
		holder, err := waitRenewed(ctx, clients, namespace, lease)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "The API server serves the kinds of %s, and manager %s renews the Lease %s/%s.\n", v1alpha1.GroupVersion, holder, namespace, lease); err != nil {
			return err
		}
	}
	return nil
}

// waitRenewed waits until a Lease is renewed, and returns the name of the manager that holds it.
func waitRenewed(ctx context.Context, clients kubernetes.Interface, namespace, lease string) (holder string, _ error) {
	var first string
	missing := errors.New("the API server does not respond")
	err := wait.PollUntilContextCancel(ctx, checkPoll, true, func(ctx context.Context) (bool, error) {
		at, by, err := renewed(ctx, clients, namespace, lease)
		if ctx.Err() != nil {
			return false, nil // The read might have failed because ctx was done: keep the error of the previous read.
		}
		if err != nil {
			missing = err
			return false, nil
		}
		if first == "" {
			first = at
		}
		holder, missing = by, fmt.Errorf("the manager %s does not renew the Lease %s/%s; see its log", by, namespace, lease)
		return at != first, nil
	})
	if err != nil {
		return "", missing
	}
	return holder, nil
}

// renewed returns two values for a Lease: holder is the manager that holds the Lease, and at is this manager with the time of its latest
// renewal. It returns an error if the API server does not serve all kinds, or if no manager holds the Lease.
func renewed(ctx context.Context, clients kubernetes.Interface, namespace, name string) (at, holder string, _ error) {
	if err := servedKinds(clients); err != nil {
		return "", "", err
	}
	lease, err := clients.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("get Lease %q in namespace %q: %w; check that a manager is running there", name, namespace, err)
	}
	if lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil || *lease.Spec.HolderIdentity == "" {
		return "", "", fmt.Errorf("the Lease %s/%s has no holder; see the log of Deployment heighliner", namespace, name)
	}
	holder = *lease.Spec.HolderIdentity
	return holder + " " + lease.Spec.RenewTime.String(), holder, nil
}

// servedKinds returns an error that lists the kinds of hlnr.io that the API server does not serve.
func servedKinds(clients kubernetes.Interface) error {
	served, err := clients.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return fmt.Errorf("find the kinds of %s: %w; check that the CRDs are installed", v1alpha1.GroupVersion, err)
	}
	var missing []string
	known := newScheme().KnownTypes(v1alpha1.GroupVersion)
	for kind := range known {
		if _, object := known[kind+"List"]; object && !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
			missing = append(missing, kind)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		return fmt.Errorf("the API server does not serve %s of %s; install the CRDs", strings.Join(missing, ", "), v1alpha1.GroupVersion)
	}
	return nil
}
