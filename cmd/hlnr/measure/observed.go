package measure

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/view"
)

const (
	// window is the period for which shares are computed. It covers several scrapes, which can be a minute apart.
	window = 5 * time.Minute
	// patience is the timeout for queries to the server that an analysis specifies. It is short, because this machine might not be able
	// to reach this server.
	// patienceOfFlag is the timeout for queries to the server that --prometheus sets.
	patience, patienceOfFlag = 250 * time.Millisecond, 5 * time.Second
)

// Observe adds to a view's input the shares of traffic that Prometheus observed. The shares stay empty if no server is
// configured, or if the server does not have them. Observe returns the first query error, but only if the user set the
// address with the flag.
func Observe(ctx context.Context, f *cli.Factory, in *view.Input, namespace, address string) error {
	specs, err := specsOf(in, address)
	if err != nil || len(specs) == 0 {
		return err
	}
	limit := patience
	if address != "" {
		limit = patienceOfFlag
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := f.Client()
	if err != nil {
		return err
	}
	measurer, err := newMeasurer(f, nil)
	if err != nil {
		return err
	}
	services, err := servicesOf(ctx, c, namespace)
	if err != nil {
		return asked(err, address)
	}
	in.Observed = map[types.NamespacedName]view.Observation{}
	now := f.Now()
	var mu sync.Mutex
	var g errgroup.Group
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		spec, ok := specs[types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}]
		for j := range ms.Status.ReleaseGroups {
			group := &ms.Status.ReleaseGroups[j]
			if !ok || group.Phase != v1alpha1.GroupLive {
				continue
			}
			g.Go(func() error {
				counts, err := countsOf(group, func(row *v1alpha1.Release) (float64, error) {
					return measurer.Requests(ctx, &spec, measured{group, row}.target(ms, services), window, now)
				})
				mu.Lock()
				defer mu.Unlock()
				for name, percent := range shares(counts) {
					in.Observed[types.NamespacedName{Namespace: ms.Namespace, Name: name}] = view.Observation{Percent: percent, Window: window}
				}
				return err
			})
		}
	}
	return asked(g.Wait(), address)
}

// asked returns err if the user set the address with the flag, and nil otherwise.
func asked(err error, address string) error {
	if address == "" {
		return nil
	}
	return err
}

// specsOf returns the analyses that query a Prometheus server without credentials, keyed by Microservice. If an address is
// given, it returns an analysis with this address for every Microservice.
func specsOf(in *view.Input, address string) (map[types.NamespacedName]v1alpha1.CanaryAnalysis, error) {
	specs := map[types.NamespacedName]v1alpha1.CanaryAnalysis{}
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		var spec v1alpha1.CanaryAnalysis
		if a := analysistemplate.Among(ms, in.Templates, in.ClusterTemplates); a != nil {
			spec = *a.DeepCopy()
		}
		spec, err := at(spec, address)
		if err != nil {
			return nil, err
		}
		if p := spec.Provider.Prometheus; p != nil && p.SecretRef == nil && p.CASecretRef == nil {
			specs[types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}] = spec
		}
	}
	return specs, nil
}

// countsOf returns the number of requests to each active or canary release of a group. It returns an error if any of these numbers
// cannot be measured.
func countsOf(g *v1alpha1.ReleaseGroup, count func(*v1alpha1.Release) (float64, error)) (map[string]float64, error) {
	var mu sync.Mutex
	counts := map[string]float64{}
	var group errgroup.Group
	for i := range g.Releases {
		row := &g.Releases[i]
		if row.Status != v1alpha1.ReleaseActive && row.Status != v1alpha1.ReleaseCanary {
			continue
		}
		group.Go(func() error {
			n, err := count(row)
			mu.Lock()
			defer mu.Unlock()
			counts[row.VersionedMicroservice] = n
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return counts, nil
}

// shares converts numbers of requests to percentages. It returns an empty map if there were no requests.
func shares(counts map[string]float64) map[string]float64 {
	sum := 0.0
	for _, n := range counts {
		sum += n
	}
	out := map[string]float64{}
	for name, n := range counts {
		if sum > 0 {
			out[name] = 100 * n / sum
		}
	}
	return out
}
