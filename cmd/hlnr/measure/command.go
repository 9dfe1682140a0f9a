package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/manifest"
)

// The limits of one run of the command.
const (
	maxRounds = 2000
	// together is the maximum number of rounds that are measured at the same time.
	together = 8
)

// test is one run of "hlnr analysis test".
type test struct {
	*cli.Factory
	client                    client.Client
	file, release, prometheus string
	since                     time.Duration
	output                    *cli.Output
}

// NewCommand returns the "analysis" command.
func NewCommand(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "analysis",
		Short:   "Try an analysis before a canary depends on it",
		Long:    "The analysis command has subcommands for the measurements that decide whether a canary continues.",
		Example: "  hlnr analysis test shop --since 24h",
		GroupID: cli.GroupCheck,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTestCommand(f))
	return cmd
}

func newTestCommand(f *cli.Factory) *cobra.Command {
	t := &test{Factory: f}
	cmd := &cobra.Command{
		Use:   "test [MICROSERVICE] [-f FILE]",
		Short: "Show what an analysis would have decided, round by round",
		Long: `test runs the queries of an analysis for the active release, and shows what the analysis would have
decided: now or, with --since, in each round of a period that ends now. Use it to find an analysis that would roll
back a healthy release, before a canary depends on this analysis. After a failed analysis, the next round
begins another simulated rollout.

The command uses the analysis of the Microservice in the cluster, or of the Microservice in a manifest.
Metrics with a baseline compare the release with the active release of its group. The active release is
compared with itself. A web endpoint has no history, so its metrics are omitted with --since. The
command writes nothing to the cluster.

Exit codes: 0: the canary would have continued; 1: no round could be measured; 3: the canary would have failed,
or there was no traffic; 5: the canary would have waited for a user.`,
		Example: `  # Check whether a canary that is as good as the active release would continue now
  hlnr analysis test shop

  # Show how often the canary would have failed since yesterday
  kubectl -n monitoring port-forward svc/prometheus 9090 &
  hlnr analysis test -f shop.yaml --since 24h --prometheus http://127.0.0.1:9090`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: f.CompleteNames(1, func() client.ObjectList { return &v1alpha1.MicroserviceList{} }),
	}
	flags := cmd.Flags()
	flags.StringVarP(&t.file, "filename", "f", "", "manifest with the Microservice whose analysis is tested; - is standard input")
	flags.StringVar(&t.release, "release", "", "version or name of the VersionedMicroservice to measure; by default the active release of the newest group")
	flags.DurationVar(&t.since, "since", 0, "run all rounds in the period of this length, such as 24h, that ends now; by default, run one round now")
	prometheus := AddPrometheus(flags, "for the metrics")
	t.output = cli.AddOutput(cmd, cli.FormatJSON, cli.FormatYAML, cli.FormatWide)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t.prometheus = *prometheus
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		return t.run(cmd.Context(), name)
	}
	return cmd
}

func (t *test) run(ctx context.Context, name string) error {
	namespace, err := t.Namespace()
	if err != nil {
		return err
	}
	written, name, namespace, err := t.wanted(ctx, name, namespace)
	if err != nil {
		return err
	}
	if t.client, err = t.Client(); err != nil {
		return err
	}
	ms, err := t.microservice(ctx, namespace, name)
	if err != nil {
		return err
	}
	if written == nil {
		written = ms
	}
	spec, _, err := analysistemplate.Read(ctx, t.client, written)
	if unusable := (*analysistemplate.Error)(nil); errors.As(err, &unusable) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	if spec == nil {
		return cli.Usage(fmt.Errorf("Microservice %s has no spec.updateStrategy.canary.analysis: use -f to name a manifest with an analysis", name))
	}
	tried, err := at(*spec.DeepCopy(), t.prometheus)
	if err != nil {
		return err
	}
	report, err := t.measure(ctx, ms, tried)
	if err != nil {
		return err
	}
	if err := t.output.Print(t.Out, report, func(out io.Writer) error { return report.write(out, t.output.Wide(), t.Now()) }, nil); err != nil {
		return err
	}
	return report.exit()
}

// wanted returns the Microservice in the manifest, with its name and namespace. Without a manifest, the Microservice is nil, and the name
// and the namespace are returned unchanged.
func (t *test) wanted(ctx context.Context, name, namespace string) (*v1alpha1.Microservice, string, string, error) {
	if t.file == "" {
		if name == "" {
			return nil, "", "", cli.Usage(errors.New("name a Microservice, or a manifest with -f"))
		}
		return nil, name, namespace, nil
	}
	raw, err := readFile(t.file, t.In)
	if err != nil {
		return nil, "", "", cli.Usage(fmt.Errorf("--filename: %w", err))
	}
	objects, err := manifest.Read(raw)
	if err != nil {
		return nil, "", "", cli.Usage(fmt.Errorf("%s: %w", t.file, err))
	}
	var names []string
	for _, o := range objects {
		if o.Kind() != "Microservice" || o.APIVersion() != v1alpha1.GroupVersion.String() {
			continue
		}
		names = append(names, o.Name())
		if name != "" && o.Name() != name {
			continue
		}
		typed, faults, err := manifest.Check(ctx, o)
		if err == nil && len(faults) > 0 {
			err = errors.New(faults[0])
		}
		ms, ok := typed.(*v1alpha1.Microservice)
		if err != nil || !ok {
			return nil, "", "", cli.Usage(fmt.Errorf("%s: %s: %w", t.file, o.Name(), err))
		}
		if ms.Namespace != "" {
			namespace = ms.Namespace
		}
		if !ms.Spec.UpdateStrategy.Canary.Measures() {
			return nil, "", "", cli.Usage(fmt.Errorf("%s: %s has no spec.updateStrategy.canary.analysis", t.file, ms.Name))
		}
		ms.Namespace = namespace
		return ms, ms.Name, namespace, nil
	}
	if name == "" {
		return nil, "", "", cli.Usage(fmt.Errorf("%s has no Microservice", t.file))
	}
	return nil, "", "", cli.Unknown("Microservice in "+t.file, name, names)
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// microservice reads a Microservice. If the Microservice does not exist, the error suggests the
// most similar names.
func (t *test) microservice(ctx context.Context, namespace, name string) (*v1alpha1.Microservice, error) {
	var list v1alpha1.MicroserviceList
	ms := &v1alpha1.Microservice{}
	err := t.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, ms)
	if !apierrors.IsNotFound(err) {
		ms.Status.Convert()
		return ms, err
	}
	if err := t.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return nil, cli.UnknownMicroservice(ctx, t.client, "Microservice", namespace, name, names)
}

// measure measures all rounds, and returns the decision of the analysis.
func (t *test) measure(ctx context.Context, ms *v1alpha1.Microservice, spec v1alpha1.CanaryAnalysis) (*Report, error) {
	m, err := find(ms, t.release)
	if err != nil {
		return nil, err
	}
	services, err := servicesOf(ctx, t.client, ms.Namespace)
	if err != nil {
		return nil, err
	}
	now := t.Now()
	start, times := now, []time.Time{now}
	var omitted []string
	if t.since > 0 {
		start = now.Add(-t.since)
		times = analysis.Times(&spec, start, now)
		spec.Metrics = slices.DeleteFunc(spec.Metrics, func(x v1alpha1.AnalysisMetric) bool {
			if x.Web != nil {
				omitted = append(omitted, x.Name)
			}
			return x.Web != nil
		})
	}
	switch {
	case t.since < 0:
		return nil, cli.Usage(fmt.Errorf("--since: invalid value %s: must be greater than 0", t.since))
	case len(times) == 0:
		return nil, cli.Usage(fmt.Errorf("--since: %s is shorter than the interval, %s", t.since, intervalText(&spec)))
	case len(times) > maxRounds:
		return nil, cli.Usage(fmt.Errorf("--since: %s contains %d rounds, but at most %d are allowed: use a shorter duration", t.since, len(times), maxRounds))
	case len(spec.Metrics) == 0:
		return nil, cli.Usage(errors.New("--since: all metrics are web metrics, which have no history"))
	}
	measurer, err := newMeasurer(t.Factory, credentials{t.client})
	if err != nil {
		return nil, err
	}
	active := m.active().target(ms, services)
	request := analysis.Request{Spec: spec, Canary: m.target(ms, services), Active: &active}
	rounds := make([]analysis.Round, len(times))
	var g errgroup.Group
	g.SetLimit(together)
	for i, at := range times {
		g.Go(func() error {
			own := request
			own.At = at
			rounds[i] = measurer.Measure(ctx, own)
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// Without --since, the only round belongs to a simulated step that began one interval ago.
	if t.since <= 0 {
		start = now.Add(-spec.Interval.Std(analysis.DefaultInterval))
	}
	report := newReport(&spec, analysis.Replay(&spec, start, rounds))
	report.Namespace, report.Microservice, report.Release, report.Version = ms.Namespace, ms.Name, m.row.VersionedMicroservice, m.row.SemVer.Version
	report.Time, report.Since, report.Omitted = metav1.Time{Time: now.UTC()}, metav1.Time{Time: start.UTC()}, omitted
	return report, nil
}
