package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

func newWhy(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why (URL | HOST[/PATH] | [MICROSERVICE] VERSION | MICROSERVICE | pod/NAME | [MICROSERVICE] pr/NUMBER)",
		Short: "Explain why a version is live or not, and what a host or a pod serves",
		Long: `Answer one question with the whole chain: from the host through its route and the
weights to releases, images and the verdicts on newer versions; or from a version to what
it waits for or why it failed. For the name of a Microservice, the answer is about the
version that needs most attention: in progress, failed, or else active. Each line names the
object that it comes from. The last line names what to do.

Exit codes: 0 it is serving, 3 it is not, 5 it is not serving yet, and waits for a person.`,
		Example: `  hlnr why https://shop.example.com/cart
  hlnr why shop 1.2.1
  hlnr why shop
  hlnr why pod/shop-1-2-0-5b1c0d9e-x7k2p
  hlnr why pr/17`,
		Args:              cobra.RangeArgs(1, 2),
		GroupID:           cli.GroupSee,
		ValidArgsFunction: f.CompleteNames(1, microservices),
	}
	scope, output, prometheus := cli.AddScope(cmd), cli.AddOutput(cmd, cli.FormatJSON, cli.FormatYAML, cli.FormatWide), addPrometheus(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q, err := queryOf(f, scope)
		if err != nil {
			return err
		}
		q.pods = strings.HasPrefix(args[0], "pod/")
		a, err := whyIn(cmd.Context(), f, q, args, prometheus)
		if isUnknown(err) && q.namespace != "" && looksLikeHost(args) && !cmd.Flags().Changed("namespace") {
			a, err = whyAnywhere(cmd.Context(), f, q, args, prometheus, err)
		}
		if err != nil {
			return err
		}
		if err := output.Print(f.Out, a, func(out io.Writer) error { return text.Why(out, a, terminal(f, output)) }, nil); err != nil {
			return err
		}
		switch a.Result {
		case view.ForPerson:
			return cli.Waits(nil)
		case view.NotServing:
			return cli.No(nil)
		}
		return nil
	}
	return cmd
}

// whyIn answers a question from the objects of a namespace, or of all.
func whyIn(ctx context.Context, f *cli.Factory, q query, args []string, prometheus *string) (view.Answer, error) {
	in, missing, err := readable(ctx, f, q)
	if err != nil {
		return view.Answer{}, err
	}
	if asksHost(in, args) {
		if err := addRoutes(ctx, f, &in, q.namespace); err != nil {
			return view.Answer{}, err
		}
	}
	if err := observe(ctx, f, &in, q.namespace, prometheus); err != nil {
		return view.Answer{}, err
	}
	a, err := ask(in, q.namespace, args, f.Now())
	if err != nil {
		return a, unsure(explain(err), missing)
	}
	return a, nil
}

// whyAnywhere answers a question from the objects of all namespaces, because the user may not know the one of a host. unknown is
// the error for the user's namespace, which remains if there is no answer.
func whyAnywhere(ctx context.Context, f *cli.Factory, q query, args []string, prometheus *string, unknown error) (view.Answer, error) {
	home := q.namespace
	q.namespace, q.quiet = "", true
	a, err := whyIn(ctx, f, q, args, prometheus)
	switch {
	case err == nil:
		fmt.Fprintf(f.ErrOut, "hlnr: not in namespace %s: this is from all namespaces\n", home)
		return a, nil
	case strings.Contains(err.Error(), "ambiguous"):
		return a, err
	}
	return a, unknown
}

// looksLikeHost reports whether a question is a URL or a name with dots that is not a version.
func looksLikeHost(args []string) bool {
	q := args[0]
	if len(args) > 1 || strings.HasPrefix(q, "pod/") || strings.HasPrefix(q, "pr/") {
		return false
	}
	_, no := semver.StrictNewVersion(strings.TrimPrefix(q, "v"))
	return strings.Contains(q, "://") || strings.Contains(q, ".") && no != nil
}

// isUnknown reports whether an error is about a name that does not exist.
func isUnknown(err error) bool {
	var exit *cli.Exit
	return errors.As(err, &exit) && exit.Code == cli.ExitUsage
}

// asksHost reports whether ask treats a question as one about a host.
func asksHost(in view.Input, args []string) bool {
	q := args[0]
	if len(args) > 1 || strings.HasPrefix(q, "pod/") || strings.HasPrefix(q, "pr/") {
		return false
	}
	known := slices.ContainsFunc(in.Microservices, func(ms v1alpha1.Microservice) bool { return ms.Name == q })
	return strings.Contains(q, "/") || !known && len(view.Services(in, q)) == 0
}

// ask answers a question in the arguments of the command.
func ask(in view.Input, namespace string, args []string, now time.Time) (view.Answer, error) {
	if len(args) == 2 {
		home, err := find(in, namespace, args[0])
		if err != nil {
			return view.Answer{}, err
		}
		if number, ok := strings.CutPrefix(args[1], "pr/"); ok {
			return askPullRequest(in, home, args[0], number, now)
		}
		return view.WhyVersion(in, home, args[0], args[1], now)
	}
	switch q := args[0]; {
	case strings.Contains(q, "://"):
		u, err := url.Parse(q)
		if err != nil || u.Hostname() == "" {
			return view.Answer{}, cli.Usage(fmt.Errorf("%q is not a URL: write https://HOST/PATH", q))
		}
		return view.WhyHost(in, u.Hostname(), u.EscapedPath(), now)
	case strings.HasPrefix(q, "pod/"):
		return askPod(in, namespace, strings.TrimPrefix(q, "pod/"), now)
	case strings.HasPrefix(q, "pr/"):
		return askPullRequest(in, namespace, "", strings.TrimPrefix(q, "pr/"), now)
	case strings.Contains(q, "/"):
		host, path, _ := strings.Cut(q, "/")
		return view.WhyHost(in, host, "/"+path, now)
	}
	return askName(in, namespace, args[0], now)
}

// askName answers a question about the name of a service, a version or a host.
func askName(in view.Input, namespace, name string, now time.Time) (view.Answer, error) {
	if slices.ContainsFunc(in.Microservices, func(ms v1alpha1.Microservice) bool { return ms.Name == name }) {
		home, err := find(in, namespace, name)
		if err != nil {
			return view.Answer{}, err
		}
		s, _ := view.NewService(in, home, name, now)
		version := s.State.Version
		for _, g := range s.Groups {
			if version == "" {
				version = g.Active
			}
		}
		return view.WhyVersion(in, home, name, version, now)
	}
	services := view.Services(in, name)
	if len(services) == 1 {
		home, service, _ := strings.Cut(services[0], "/")
		return view.WhyVersion(in, home, service, name, now)
	}
	if len(services) > 1 {
		return view.Answer{}, &view.Ambiguous{What: "version", Name: name, Objects: services, Remedy: "name the service: hlnr why MICROSERVICE " + name}
	}
	a, err := view.WhyHost(in, name, "/", now)
	var unknown *view.Unknown
	if _, no := semver.StrictNewVersion(strings.TrimPrefix(name, "v")); no == nil && errors.As(err, &unknown) {
		return askUnknownVersion(in, namespace, name, now)
	}
	return a, err
}

// askUnknownVersion answers a question about a version that no service has: for the only service, else with
// what to specify.
func askUnknownVersion(in view.Input, namespace, version string, now time.Time) (view.Answer, error) {
	where := "the cluster"
	if namespace != "" {
		where = "namespace " + namespace
	}
	switch len(in.Microservices) {
	case 0:
		return view.Answer{}, cli.Usage(fmt.Errorf("there is no Microservice in %s, and so no version %s: name another namespace with -n, or -A for all", where, version))
	case 1:
		return view.WhyVersion(in, in.Microservices[0].Namespace, in.Microservices[0].Name, version, now)
	}
	return view.Answer{}, cli.Usage(fmt.Errorf("no Microservice in %s has a release or an offer of version %s: ask about one with hlnr why MICROSERVICE %s", where, version, version))
}

// askPod answers a question about a pod of the namespace, or of the only one that has it.
func askPod(in view.Input, namespace, name string, now time.Time) (view.Answer, error) {
	for i := range in.Pods {
		if in.Pods[i].Name == name && namespace == "" {
			namespace = in.Pods[i].Namespace
		}
	}
	return view.WhyPod(in, namespace, name, now)
}

// askPullRequest answers a question about a pull request of a service, or of the only one that has it.
func askPullRequest(in view.Input, namespace, service, text string, now time.Time) (view.Answer, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return view.Answer{}, cli.Usage(fmt.Errorf("%q is not the number of a pull request: write pr/17", text))
	}
	if service != "" {
		return view.WhyPullRequest(in, namespace, service, number, now)
	}
	var found, known []string
	for _, s := range view.New(in, now).Services {
		for _, g := range s.Previews {
			known = append(known, strconv.FormatInt(g.PullRequest.Number, 10))
			if g.PullRequest.Number == number {
				found = append(found, s.Namespace+"/"+s.Name)
			}
		}
	}
	switch len(found) {
	case 0:
		return view.Answer{}, &view.Unknown{What: "preview of a pull request", Name: text, Names: known}
	case 1:
		home, name, _ := strings.Cut(found[0], "/")
		return view.WhyPullRequest(in, home, name, number, now)
	}
	return view.Answer{}, &view.Ambiguous{What: "pull request", Name: text, Objects: found, Remedy: "name the service: hlnr why MICROSERVICE pr/" + text}
}
