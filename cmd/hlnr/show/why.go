package show

import (
	"cmp"
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
	"golang.org/x/net/idna"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

func newWhy(f *cli.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why (URL | HOST[/PATH] | [MICROSERVICE] VERSION | MICROSERVICE | pod/NAME | [MICROSERVICE] pr/NUMBER)",
		Short: "Explain why a version is live or not, and which version a host or a pod serves",
		Long: `Explain the state of a host, a version, a pod or a pull request. For a host, the answer shows its route,
the weights, the releases and images, and the results of the filters for newer versions. For a version,
the answer shows why it waits or why it failed. For the name of a Microservice, the answer is about
the version that needs the most attention: an active version without a ready pod, a version in
progress, a failed version, or otherwise the active version. Each line states a fact and names the
object that it comes from. The last line states what to do.

If no NetworkPolicy in the namespace has the host, the command searches for the host in all namespaces
that you may list.

Exit codes: 0: the version or the host is serving; 3: it is not serving; 5: it is not serving yet, and is
waiting for a user.`,
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
		a, err := answer(cmd.Context(), f, q, args, prometheus)
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

// answer reads the objects, and answers a question. If the host in the question does not exist in the namespace, answer searches
// all namespaces.
func answer(ctx context.Context, f *cli.Factory, q query, args []string, prometheus *string) (view.Answer, error) {
	a, missing, err := answerIn(ctx, f, q, args, prometheus)
	host, path := hostOf(args)
	var unknown *view.Unknown
	if !errors.As(err, &unknown) || q.namespace == "" || host == "" {
		return a, unsure(explained(ctx, f, q.namespace, err), missing)
	}
	here := q.namespace
	if q.namespace, err = namespaceOf(ctx, f, here, host, path, unknown); err != nil {
		return a, unsure(err, missing)
	}
	fmt.Fprintf(f.ErrOut, "hlnr: namespace %s has no host %s: this answer is for namespace %s\n", here, host, q.namespace)
	a, missing, err = answerIn(ctx, f, q, args, prometheus)
	return a, unsure(explained(ctx, f, q.namespace, err), missing)
}

// answerIn reads the objects of a namespace, and answers a question. missing contains the errors for objects that the user is not allowed to read.
func answerIn(ctx context.Context, f *cli.Factory, q query, args []string, prometheus *string) (a view.Answer, missing []error, err error) {
	in, missing, err := readable(ctx, f, q)
	if err != nil {
		return a, nil, err
	}
	if asksHost(in, args) {
		if err := addRoutes(ctx, f, &in, q.namespace); err != nil {
			return a, nil, err
		}
	}
	if err := observe(ctx, f, &in, q.namespace, prometheus); err != nil {
		return a, nil, err
	}
	a, err = ask(in, q.namespace, args, f.Now())
	return a, missing, err
}

// namespaceOf returns the only namespace with a NetworkPolicy that has the given host and path. The here parameter is the
// namespace that was searched first, and unknown is the error from that search.
func namespaceOf(ctx context.Context, f *cli.Factory, here, host, path string, unknown *view.Unknown) (string, error) {
	c, err := f.Client()
	if err != nil {
		return "", err
	}
	var list v1alpha1.NetworkPolicyList
	err = c.List(ctx, &list)
	if apierrors.IsForbidden(err) {
		return "", cli.Usage(fmt.Errorf("%w; only namespace %s was searched: %w", explain(unknown), here, f.Explain(ctx, err)))
	}
	if err != nil {
		return "", err
	}
	namespaces, hosts := view.HostNamespaces(list.Items, host, path)
	switch len(namespaces) {
	case 0:
		return "", cli.Unknown("host in any namespace", host, hosts)
	case 1:
		return namespaces[0], nil
	}
	return "", cli.Usage(fmt.Errorf("namespace %s has no host %s; several namespaces have it: choose one with -n: %s", here, host, strings.Join(namespaces, ", ")))
}

// hostOf returns the host and the path of a question about a host, in the form in which a NetworkPolicy contains them. They are empty for
// other questions, such as a question about a version.
func hostOf(args []string) (host, path string) {
	address := args[0]
	switch {
	case len(args) > 1 || strings.HasPrefix(address, "pod/") || strings.HasPrefix(address, "pr/"):
		return "", ""
	case strings.Contains(address, "://"):
	case strings.ContainsAny(address, "/:"), strings.Contains(address, ".") && !isVersion(address):
		address = "//" + address
	default:
		return "", ""
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", ""
	}
	host = strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	return host, cmp.Or(u.EscapedPath(), "/")
}

// schemeOf returns the scheme of a URL in lower case, or "" for a host without a scheme.
func schemeOf(address string) string {
	scheme, _, found := strings.Cut(address, "://")
	if !found {
		return ""
	}
	return strings.ToLower(scheme)
}

// isVersion reports whether a name with a dot is a version or the start of a version, and not a host. The last part of a host begins with a
// letter.
func isVersion(name string) bool {
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(name, "v")); err == nil {
		return true
	}
	last := name[strings.LastIndex(name, ".")+1:]
	return last != "" && last[0] >= '0' && last[0] <= '9'
}

// asksHost reports whether ask treats a question as a question about a host.
func asksHost(in view.Input, args []string) bool {
	q := args[0]
	if len(args) > 1 || strings.HasPrefix(q, "pod/") || strings.HasPrefix(q, "pr/") {
		return false
	}
	known := slices.ContainsFunc(in.Microservices, func(ms v1alpha1.Microservice) bool { return ms.Name == q })
	return strings.Contains(q, "/") || !known && len(view.Services(in, q)) == 0
}

// ask answers the question in the arguments of the command.
func ask(in view.Input, namespace string, args []string, now time.Time) (view.Answer, error) {
	if len(args) == 2 {
		home, err := find(in, args[0])
		if err != nil {
			return view.Answer{}, err
		}
		if number, ok := strings.CutPrefix(args[1], "pr/"); ok {
			return askPullRequest(in, home, args[0], number, now)
		}
		if err := begun(in, home, args[0], args[1]); err != nil {
			return view.Answer{}, err
		}
		return view.WhyVersion(in, home, args[0], args[1], now)
	}
	switch q := args[0]; {
	case strings.Contains(q, "://"), strings.Contains(q, "/") && !strings.HasPrefix(q, "pod/") && !strings.HasPrefix(q, "pr/"):
		host, path := hostOf(args)
		if host == "" {
			return view.Answer{}, cli.Usage(fmt.Errorf("%q is not a URL: write https://HOST/PATH", q))
		}
		return view.WhyURL(in, schemeOf(q), host, path, now)
	case strings.HasPrefix(q, "pod/"):
		return askPod(in, namespace, strings.TrimPrefix(q, "pod/"), now)
	case strings.HasPrefix(q, "pr/"):
		return askPullRequest(in, namespace, "", strings.TrimPrefix(q, "pr/"), now)
	}
	return askName(in, namespace, args[0], now)
}

// downVersion returns an active version that has no ready pod, or an empty string.
func downVersion(s view.Service) string {
	for _, g := range s.Groups {
		for _, r := range g.Releases {
			if r.Status == string(v1alpha1.ReleaseActive) && r.State.Class == view.Failed && r.Pods != nil && r.Pods.Wanted > 0 && r.Pods.Available == 0 {
				return r.Version
			}
		}
	}
	return ""
}

// askName answers a question that consists of the name of a service, a version or a host.
func askName(in view.Input, namespace, name string, now time.Time) (view.Answer, error) {
	if slices.ContainsFunc(in.Microservices, func(ms v1alpha1.Microservice) bool { return ms.Name == name }) {
		home, err := find(in, name)
		if err != nil {
			return view.Answer{}, err
		}
		s, _ := view.NewService(in, home, name, now)
		wanted := downVersion(s)
		wanted = cmp.Or(wanted, s.State.Release, s.State.Version)
		for _, g := range s.Groups {
			if wanted == "" {
				wanted = g.Active
			}
		}
		return view.WhyVersion(in, home, name, wanted, now)
	}
	services := view.Services(in, name)
	if len(services) == 1 {
		home, service, _ := strings.Cut(services[0], "/")
		return view.WhyVersion(in, home, service, name, now)
	}
	if len(services) > 1 {
		return view.Answer{}, &view.Ambiguous{What: "version", Name: name, Objects: services, Remedy: "name the service: " + command(in, namespace, name)}
	}
	host, path := hostOf([]string{name})
	a, err := view.WhyHost(in, cmp.Or(host, name), cmp.Or(path, "/"), now)
	var unknown *view.Unknown
	if strings.Contains(name, ".") && isVersion(name) && errors.As(err, &unknown) {
		return askUnknownVersion(in, namespace, name, now)
	}
	return a, err
}

// command returns a command with placeholders for the Microservice and, if namespace is empty, for the namespace.
func command(in view.Input, namespace string, args ...string) string {
	return view.Command(cmp.Or(in.Program, "hlnr"), in.Namespace, cmp.Or(namespace, "NAMESPACE"), "why", append([]string{"MICROSERVICE"}, args...)...)
}

// begun returns an error if wanted is not a version of the service but the beginning of some of its versions, such as 1.2 for 1.2.0. The
// error suggests these versions. Otherwise, begun returns nil.
func begun(in view.Input, namespace, name, wanted string) error {
	if slices.Contains(view.Services(in, wanted), namespace+"/"+name) {
		return nil
	}
	near := slices.DeleteFunc(versionsOf(in, namespace, name), func(v string) bool {
		return !strings.HasPrefix(strings.TrimPrefix(v, "v"), strings.TrimPrefix(wanted, "v")+".")
	})
	if len(near) == 0 {
		return nil
	}
	return cli.Suggest("version of "+name, wanted, near)
}

// versionsOf returns the versions of a service, and the versions that its ImagePolicy offers or rejects, sorted with the newest first.
func versionsOf(in view.Input, namespace, name string) (out []string) {
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		if ms.Namespace != namespace || ms.Name != name {
			continue
		}
		for _, g := range ms.Status.ReleaseGroups {
			for _, r := range g.Releases {
				out = append(out, r.SemVer.Version)
			}
		}
		for j := range in.ImagePolicies {
			p := &in.ImagePolicies[j]
			if p.Namespace != namespace || p.Name != ms.Spec.ImagePolicyRef.Name {
				continue
			}
			for _, o := range p.Status.Releases {
				out = append(out, o.SemVer.Version)
			}
			for _, c := range p.Status.Candidates {
				out = append(out, c.Version)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return version.Compare(b, a) })
	return slices.Compact(out)
}

// askUnknownVersion answers a question about a version that no service has. If there is only one service, the answer is about this
// service. Otherwise, askUnknownVersion returns an error with a command that asks about one service.
func askUnknownVersion(in view.Input, namespace, wanted string, now time.Time) (view.Answer, error) {
	where := "the cluster"
	if namespace != "" {
		where = "namespace " + namespace
	}
	switch len(in.Microservices) {
	case 0:
		return view.Answer{}, cli.Usage(fmt.Errorf("there is no Microservice in %s, and therefore no version %s: name another namespace with -n, or use -A for all namespaces", where, wanted))
	case 1:
		ms := &in.Microservices[0]
		if err := begun(in, ms.Namespace, ms.Name, wanted); err != nil {
			return view.Answer{}, err
		}
		return view.WhyVersion(in, ms.Namespace, ms.Name, wanted, now)
	}
	return view.Answer{}, cli.Usage(fmt.Errorf("in %s, no Microservice has version %s, and none of the Microservices' ImagePolicies offers it: ask about one Microservice with %s", where, wanted, command(in, namespace, wanted)))
}

// askPod answers a question about a pod in the given namespace or, if namespace is empty, in the first namespace that has a pod
// with this name.
func askPod(in view.Input, namespace, name string, now time.Time) (view.Answer, error) {
	for i := range in.Pods {
		if in.Pods[i].Name == name && namespace == "" {
			namespace = in.Pods[i].Namespace
		}
	}
	return view.WhyPod(in, namespace, name, now)
}

// askPullRequest answers a question about a pull request of the given service or, if service is empty, of the only service that has
// a preview of this pull request.
func askPullRequest(in view.Input, namespace, service, text string, now time.Time) (view.Answer, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return view.Answer{}, cli.Usage(fmt.Errorf("%q is not the number of a pull request: write pr/NUMBER", text))
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
	return view.Answer{}, &view.Ambiguous{What: "pull request", Name: text, Objects: found, Remedy: "name the service: " + command(in, namespace, "pr/"+text)}
}
