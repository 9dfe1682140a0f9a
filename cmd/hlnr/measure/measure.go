// Package measure queries metrics providers on behalf of a user: for the "hlnr analysis test" command, and for the
// observed shares of traffic that other commands show.
//
//	measure.go   access to the providers from this machine, and the releases to measure
//	command.go   the command, and the rounds that it measures
//	report.go    the output
//	observed.go  observed shares of traffic
package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/version"
)

// AddPrometheus adds the --prometheus flag. In the help text, the value of the what parameter follows "the Prometheus
// server to query".
func AddPrometheus(flags *pflag.FlagSet, what string) *string {
	return flags.String("prometheus", "", "URL of the Prometheus server to query "+what+"; defaults to the server of the analysis")
}

// The limits of one run.
const (
	perSecond = 100 // maximum number of queries to one provider per second
	workers   = 64
)

// credentials reads the Secrets of providers with the user's permissions.
type credentials struct{ client client.Client }

// Secret implements [analysis.Secrets].
func (c credentials) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// newMeasurer returns a Measurer for this machine. The Measurer also connects to loopback addresses. This adds no risk, because the user
// can reach them without the command.
func newMeasurer(f *cli.Factory, secrets analysis.Secrets) (*analysis.Measurer, error) {
	policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8", "::1", "localhost"}})
	if err != nil {
		return nil, fmt.Errorf("allow loopback addresses: %w", err)
	}
	return analysis.New(analysis.Config{Outbound: policy, Secrets: secrets, UserAgent: "hlnr/" + f.Version, Workers: workers, QueriesPerSecond: perSecond, Now: f.Now})
}

// at returns the analysis with the given Prometheus address, or the unchanged analysis if the address is empty. For
// a new address, it removes the credentials, so that they are not sent to another server.
func at(spec v1alpha1.CanaryAnalysis, address string) (v1alpha1.CanaryAnalysis, error) {
	if address == "" {
		return spec, nil
	}
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return spec, cli.Usage(fmt.Errorf("--prometheus: %q is not an HTTP or HTTPS URL: use a URL such as http://127.0.0.1:9090", address))
	}
	spec.Provider.Prometheus = &v1alpha1.PrometheusProvider{Address: address}
	return spec, nil
}

// measured is a release to measure, with its group.
type measured struct {
	group *v1alpha1.ReleaseGroup
	row   *v1alpha1.Release
}

// find returns the release with the given version or name. If wanted is empty, find returns the active release of the newest
// group.
func find(ms *v1alpha1.Microservice, wanted string) (measured, error) {
	var names []string
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		for j := range g.Releases {
			r := &g.Releases[j]
			names = append(names, r.SemVer.Version)
			if wanted == "" && r.Status == v1alpha1.ReleaseActive || wanted != "" && (r.VersionedMicroservice == wanted || version.Matches(wanted, r.SemVer.Version)) {
				return measured{g, r}, nil
			}
		}
	}
	if wanted == "" {
		return measured{}, cli.No(fmt.Errorf("%s has no active release to measure", ms.Name))
	}
	return measured{}, cli.Unknown("release of "+ms.Name, wanted, names)
}

// target returns the target of queries about a release. The services parameter contains the Services of releases.
func (m measured) target(ms *v1alpha1.Microservice, services []corev1.Service) analysis.Target {
	t := analysis.Target{Namespace: ms.Namespace, Microservice: ms.Name, Group: m.group.Slug, Release: m.row.VersionedMicroservice, Version: m.row.SemVer.Version}
	for i := range services {
		if s := &services[i]; s.Namespace == ms.Namespace && s.Labels[v1alpha1.LabelRelease] == t.Release {
			t.Services = append(t.Services, s.Name)
		}
	}
	slices.Sort(t.Services)
	return t
}

// servicesOf returns the Services of releases in a namespace, or in all namespaces if the namespace is
// empty.
func servicesOf(ctx context.Context, c client.Client, namespace string) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelRelease})
	return list.Items, err
}

// active returns the baseline for metrics, which is the active release in the group of the measured release. This can be the
// measured release itself. Without an active release, active returns the measured release.
func (m measured) active() measured {
	for i := range m.group.Releases {
		if r := &m.group.Releases[i]; r.Status == v1alpha1.ReleaseActive {
			return measured{m.group, r}
		}
	}
	return m
}

// Ping sends a query to a Prometheus server without credentials, and returns the time until the response.
func Ping(ctx context.Context, f *cli.Factory, address string, timeout time.Duration) (time.Duration, error) {
	measurer, err := newMeasurer(f, nil)
	if err != nil {
		return 0, err
	}
	least := 1.0
	spec := v1alpha1.CanaryAnalysis{Metrics: []v1alpha1.AnalysisMetric{{Name: "ping", Prometheus: &v1alpha1.PrometheusMetric{Query: "vector(1)"}, ThresholdRange: v1alpha1.ValueRange{Min: &least}}}}
	spec.Provider = v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: address}, Timeout: v1alpha1.DurationOf(timeout)}
	began := f.Now()
	round := measurer.Measure(ctx, analysis.Request{At: began, Spec: spec})
	if m := round.Measurements[0]; m.Result != v1alpha1.MeasurementPassed {
		return 0, errors.New(m.Message)
	}
	return f.Now().Sub(began), nil
}

func intervalText(spec *v1alpha1.CanaryAnalysis) string {
	return cmp.Or(string(spec.Interval), analysis.DefaultInterval.String())
}
