package show

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

func newEvents(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events [MICROSERVICE]",
		Short: "List the events of services, with the newest event last",
		Long: `List the events of all hlnr.io objects or, if you name a Microservice, those of the Microservice, its
releases, its ImagePolicy and its NetworkPolicies, with the newest event last. The API server keeps events for
an hour by default.`,
		Example: `  hlnr events
  hlnr events shop -o wide

  # The events of the last ten minutes, in all namespaces
  hlnr events -A --since 10m`,
		Args:              cobra.MaximumNArgs(1),
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	scope, output := cli.AddAllNamespaces(cmd), cli.AddOutput(cmd, cli.FormatJSON, cli.FormatYAML, cli.FormatWide)
	var since time.Duration
	cmd.Flags().DurationVar(&since, "since", 0, "show only events newer than this duration, such as 10m; by default all events that the API server keeps")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if since < 0 {
			return cli.Usage(fmt.Errorf("--since: invalid value %s: must not be negative", since))
		}
		q, err := queryOf(f, scope)
		if err != nil {
			return err
		}
		name, home, in := "", q.namespace, view.Input{}
		if len(args) > 0 {
			name = args[0]
			if in, err = objects(cmd.Context(), f, q); err != nil {
				return err
			}
			if home, err = findIn(cmd.Context(), f, in, q.namespace, name); err != nil {
				return err
			}
		}
		c, err := f.Client()
		if err != nil {
			return err
		}
		var list eventsv1.EventList
		if err := c.List(cmd.Context(), &list, client.InNamespace(home)); err != nil {
			return fmt.Errorf("list events: %w", err)
		}
		v := view.NewEvents(in, list.Items, home, name, f.Now())
		if since > 0 {
			v.Events = slices.DeleteFunc(v.Events, func(e view.Event) bool { return f.Now().Sub(e.Time.Time) > since })
		}
		if len(in.Microservices) == 0 {
			if err := cli.KnownNamespace(cmd.Context(), c, home); err != nil {
				return err
			}
		}
		if len(v.Events) == 0 { // The list is empty if there are no events, but also if the cluster does not have the hlnr.io kinds.
			if err := c.List(cmd.Context(), &v1alpha1.MicroserviceList{}, client.InNamespace(home), client.Limit(1)); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return err
			}
		}
		return output.Print(f.Out, v, func(out io.Writer) error {
			o := listed(f, output, scope, args)
			if since > 0 {
				o.Searched += " in the last " + view.Span(since)
			}
			return text.Events(out, v, o)
		}, nil)
	}
	return cmd
}

// logOptions contains the values of the flags of the logs command.
type logOptions struct {
	follow, previous bool
	tail             int64
	since            time.Duration
	container        string
}

func newLogs(f *cli.Factory) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "logs MICROSERVICE [VERSION]",
		Short: "Print the logs of the pods of a release",
		Long: `Print the logs of the pods of a release: the release of the version that you name or, without
a version, the release that is being rolled out. If no release is being rolled out, the command
uses the active release of the newest group. If there are several pods, each line begins with
the name of its pod.`,
		Example: `  hlnr logs shop
  hlnr logs shop 1.2.0 --follow --tail 20

  # Print the logs from before a crash
  hlnr logs shop 1.2.0 --previous`,
		Args:              cobra.RangeArgs(1, 2),
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "print new lines until interrupted")
	cmd.Flags().BoolVarP(&o.previous, "previous", "p", false, "print the logs of the previous instances of the containers")
	cmd.Flags().Int64Var(&o.tail, "tail", -1, "number of lines to print from the end of each log; -1 means all lines")
	cmd.Flags().DurationVar(&o.since, "since", 0, "print only lines newer than this duration, such as 10m")
	cmd.Flags().StringVarP(&o.container, "container", "c", "", "container of the pods; defaults to the container that kubectl selects")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, err := f.Namespace()
		if err != nil {
			return err
		}
		if o.tail < -1 || o.since < 0 {
			return cli.Usage(errors.New("--tail must be -1 or greater, and --since must not be negative"))
		}
		in, missing, err := readable(cmd.Context(), f, query{namespace: namespace, pods: true})
		if err != nil {
			return err
		}
		s, ok := view.NewService(in, namespace, args[0], f.Now())
		if !ok {
			_, err := findIn(cmd.Context(), f, in, namespace, args[0])
			return err
		}
		wanted := ""
		if len(args) > 1 {
			wanted = args[1]
		}
		r, err := releaseFor(s, wanted)
		if err != nil {
			return err
		}
		var pods []corev1.Pod
		for _, p := range in.Pods {
			if p.Labels[v1alpha1.LabelRelease] == r.Name {
				pods = append(pods, p)
			}
		}
		if len(pods) == 0 {
			return unsure(cli.No(fmt.Errorf("release %s (%s) has no pods, so no logs are available: %s%s", r.Version, r.Name, r.State.Sentence, again(r))), missing)
		}
		return o.print(cmd.Context(), f, namespace, pods)
	}
	return cmd
}

// again returns a hint with the command that starts the pods of a failed release again, or an empty string if there is no such command.
func again(r view.Release) string {
	for _, next := range r.State.Next {
		if next.Verb == "retry" {
			return fmt.Sprintf("; to start the pods again, run %q", next.Command)
		}
	}
	return ""
}

// releaseFor returns the release with the given version or name. If wanted is empty, releaseFor returns the release that is being
// rolled out or, if there is no such release, the active release of the newest group.
func releaseFor(s view.Service, wanted string) (view.Release, error) {
	var best view.Release
	var names []string
	rank := func(r view.Release) int {
		i := slices.Index([]string{"canary", "pending", "active"}, r.Status)
		if wanted != "" {
			i = slices.Index([]string{"active", "canary", "pending", "error", "deprecated"}, r.Status)
		}
		if i < 0 {
			return 9
		}
		return i
	}
	for _, g := range slices.Concat(s.Groups, s.Previews) {
		for _, r := range g.Releases {
			names = append(names, r.Version)
			if wanted != "" && !version.Matches(wanted, r.Version) && r.Name != wanted {
				continue
			}
			if best.Name == "" || rank(r) < rank(best) {
				best = r
			}
		}
	}
	switch {
	case best.Name == "" && wanted == "":
		return best, cli.No(fmt.Errorf("%s has no release", s.Name))
	case best.Name == "":
		return best, cli.Unknown("release of "+s.Name, wanted, names)
	}
	return best, nil
}

// print prints the logs of pods.
func (o logOptions) print(ctx context.Context, f *cli.Factory, namespace string, pods []corev1.Pod) error {
	config, err := f.Config()
	if err != nil {
		return err
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	return o.copyLogs(f.Out, pods, func(pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		return set.CoreV1().Pods(namespace).GetLogs(pod, options).Stream(ctx)
	})
}

// copyLogs copies the logs of pods, one after the other. If follow is true, it copies all logs at the same time. If the
// log of a pod cannot be read, it copies the logs of the other pods, and then returns an error.
func (o logOptions) copyLogs(out io.Writer, pods []corev1.Pod, open func(pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)) error {
	options := corev1.PodLogOptions{Follow: o.follow, Previous: o.previous}
	if o.tail >= 0 {
		options.TailLines = &o.tail
	}
	if o.since > 0 {
		seconds := max(1, int64(o.since.Seconds()))
		options.SinceSeconds = &seconds
	}
	var mu sync.Mutex // protects out
	var g errgroup.Group
	if !o.follow {
		g.SetLimit(1)
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	failed := make([]error, len(pods))
	for i, pod := range pods {
		prefix, options := "", options
		if len(pods) > 1 {
			prefix = pod.Name + "  "
		}
		options.Container = cmp.Or(o.container, defaultContainer(pod))
		g.Go(func() error {
			stream, err := open(pod.Name, &options)
			if err == nil {
				defer stream.Close()
				err = copyLines(out, stream, prefix, &mu)
			}
			if err != nil {
				failed[i] = fmt.Errorf("read the log of pod %s: %w", pod.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	return errors.Join(failed...)
}

// copyLines copies whole lines, and writes a prefix before each line.
func copyLines(out io.Writer, in io.Reader, prefix string, mu *sync.Mutex) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			mu.Lock()
			_, writeErr := io.WriteString(out, prefix+strings.TrimSuffix(line, "\n")+"\n")
			mu.Unlock()
			if writeErr != nil {
				return fmt.Errorf("write output: %w", writeErr)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// annotationDefaultContainer is the annotation that names the container that kubectl uses by default.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// defaultContainer returns the name of the container whose log kubectl prints by default.
func defaultContainer(pod corev1.Pod) string {
	if name := pod.Annotations[annotationDefaultContainer]; slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
		return name
	}
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Name
}
