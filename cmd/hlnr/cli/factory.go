package cli

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/heighliner/heighliner/internal/view"
)

// FieldManager is the field manager for all writes by the command.
const FieldManager = "hlnr"

// The rate limits for requests, which are the same as in kubectl.
const (
	qps   = 50
	burst = 300
)

// Factory provides a command with streams, a clock and access to the cluster. It reads the kubeconfig and connects to the cluster only
// when a method needs them, so that showing help does not require a kubeconfig.
type Factory struct {
	genericiooptions.IOStreams
	// Version is the version of the command.
	Version string
	// Clock is the only source of time.
	Clock clock.Clock

	flags   *genericclioptions.ConfigFlags
	program string
	once    sync.Once
	client  client.WithWatch
	err     error
}

// New returns a factory for one run. program is the name with which the user called the command; see [Program].
func New(program, version string, streams genericiooptions.IOStreams) *Factory {
	flags := genericclioptions.NewConfigFlags(true).WithWarningPrinter(streams)
	return &Factory{IOStreams: streams, Version: version, Clock: clock.RealClock{}, flags: flags, program: program}
}

// Name returns the name with which the user called the command: "hlnr", or "kubectl hlnr".
func (f *Factory) Name() string { return f.program }

// Program returns the first words of the commands that hlnr suggests: the name of the program, and the flags that the user set to select
// the cluster and the kubeconfig user. It does not include credentials or impersonation flags.
func (f *Factory) Program() string {
	if f.flags == nil {
		return f.program
	}
	words := []string{f.program}
	for _, flag := range []struct {
		name  string
		value *string
	}{
		{"--kubeconfig", f.flags.KubeConfig}, {"--context", f.flags.Context}, {"--cluster", f.flags.ClusterName},
		{"--user", f.flags.AuthInfoName}, {"--server", f.flags.APIServer},
		{"--certificate-authority", f.flags.CAFile}, {"--tls-server-name", f.flags.TLSServerName},
	} {
		if value := ptr.Deref(flag.value, ""); value != "" {
			words = append(words, flag.name, Quote(value))
		}
	}
	if ptr.Deref(f.flags.Insecure, false) {
		words = append(words, "--insecure-skip-tls-verify")
	}
	return strings.Join(words, " ")
}

// plain matches words that need no quotes in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// Quote quotes a word for a shell. The quotes are necessary because a user might copy a command, and the values in the command might
// come from other users.
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// addFlags adds kubectl's flags for the connection to the cluster.
func (f *Factory) addFlags(flags *pflag.FlagSet) { f.flags.AddFlags(flags) }

// Config returns the configuration of the connection to the cluster, from the kubeconfig and the flags.
func (f *Factory) Config() (*rest.Config, error) {
	config, err := f.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	// Without a kubeconfig, the default server is a port on this machine, which is probably not intended.
	raw, err := f.Kubeconfig().RawConfig()
	if err == nil && len(raw.Clusters) == 0 && *f.flags.APIServer == "" && strings.HasSuffix(config.Host, "localhost:8080") {
		return nil, clientcmd.ErrEmptyConfig
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.UserAgent = qps, burst, "hlnr/"+f.Version
	return config, nil
}

// Kubeconfig returns the kubeconfig that results from files and flags.
func (f *Factory) Kubeconfig() clientcmd.ClientConfig { return f.flags.ToRawKubeConfigLoader() }

// Client returns a client that supports watches and has no cache. The client needs no discovery, which would delay the
// first response, for the kinds of [Scheme] in the API groups that hlnr uses. It discovers other kinds.
func (f *Factory) Client() (client.WithWatch, error) {
	f.once.Do(func() { f.client, f.err = f.newClient() })
	return f.client, f.err
}

func (f *Factory) newClient() (client.WithWatch, error) {
	config, err := f.Config()
	if err != nil {
		return nil, err
	}
	return newClient(config, func() (meta.RESTMapper, error) { return f.flags.ToRESTMapper() })
}

// NewClient is like [Factory.Client], but uses the given configuration.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	return newClient(config, func() (meta.RESTMapper, error) {
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, err
		}
		return apiutil.NewDynamicRESTMapper(config, c)
	})
}

// newClient returns a client that calls discover only for kinds that [knownKinds] does not map.
func newClient(config *rest.Config, discover func() (meta.RESTMapper, error)) (client.WithWatch, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	mapper := meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{knownKinds(scheme), meta.NewLazyRESTMapperLoader(discover)}}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return strictClient{c}, nil
}

// strictClient makes the API server reject fields that its schemas do not contain. Otherwise, the API server would silently
// drop these fields, for example if its CRDs are older than the command, and an action would have only some of its effects.
type strictClient struct{ client.WithWatch }

const strict = client.FieldValidation(metav1.FieldValidationStrict)

func (c strictClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.WithWatch.Create(ctx, o, append([]client.CreateOption{strict}, opts...)...)
}

func (c strictClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.WithWatch.Update(ctx, o, append([]client.UpdateOption{strict}, opts...)...)
}

func (c strictClient) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.WithWatch.Patch(ctx, o, patch, append([]client.PatchOption{strict}, opts...)...)
}

// Namespace returns the namespace from --namespace, otherwise the namespace of the context, and otherwise "default".
func (f *Factory) Namespace() (string, error) {
	namespace, _, err := f.Kubeconfig().Namespace()
	return namespace, err
}

// Home returns the namespace that a command uses with the same connection flags, but without --namespace: the namespace of the context, or
// "default". Suggested commands, which begin with [Factory.Program], include the namespace if it differs from this one.
func (f *Factory) Home() (string, error) {
	raw, err := f.Kubeconfig().RawConfig()
	if err != nil {
		return "", err
	}
	context := cmp.Or(ptr.Deref(f.flags.Context, ""), raw.CurrentContext)
	if c := raw.Contexts[context]; c != nil && c.Namespace != "" {
		return c.Namespace, nil
	}
	return metav1.NamespaceDefault, nil
}

// Command returns an hlnr command for an object in a namespace, for users to copy. The command includes the namespace if it is not
// [Factory.Home].
func (f *Factory) Command(namespace, verb string, args ...string) string {
	home, err := f.Home()
	if err != nil {
		home = "" // If the home namespace is unknown, the command includes the namespace.
	}
	return view.Command(f.Program(), home, namespace, verb, args...)
}

// Now returns the current time according to the configured clock.
func (f *Factory) Now() time.Time { return f.Clock.Now() }

// Scope selects the objects that a command reads: the objects of one namespace or of all namespaces, and optionally only objects
// that match a label selector.
type Scope struct {
	allNamespaces bool
	selector      string
}

// AddScope adds the --all-namespaces and --selector flags.
func AddScope(cmd *cobra.Command) *Scope {
	s := AddAllNamespaces(cmd)
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "read only the Microservices that match this label selector, such as team=web,tier!=test")
	return s
}

// AddAllNamespaces adds the --all-namespaces flag. The returned scope has no label selector.
func AddAllNamespaces(cmd *cobra.Command) *Scope {
	var s Scope
	cmd.Flags().BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "read the objects of all namespaces, regardless of --namespace")
	return &s
}

// Namespace returns the namespace to list, or an empty string for all namespaces.
func (s *Scope) Namespace(f *Factory) (string, error) {
	if s.allNamespaces {
		return "", nil
	}
	return f.Namespace()
}

// AllNamespaces reports whether --all-namespaces is set.
func (s *Scope) AllNamespaces() bool { return s.allNamespaces }

// Selector returns the label selector. For an invalid expression, it returns an error that ends the command with [ExitUsage].
func (s *Scope) Selector() (labels.Selector, error) {
	selector, err := labels.Parse(s.selector)
	if err != nil {
		return nil, Usage(fmt.Errorf("--selector: %w: write a comma-separated list of label=value, label!=value or label", err))
	}
	return selector, nil
}

// completeTimeout is the maximum time for which a completion waits for the cluster.
const completeTimeout = 2 * time.Second

// CompleteNames completes the first n arguments with the names of objects in the command's namespace. newList returns
// an empty list for their kind. If the cluster does not respond within two seconds, there are no suggestions.
func (f *Factory) CompleteNames(n int, newList func() client.ObjectList) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		names, err := f.names(ctx, newList())
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// names returns the names of the objects in the command's namespace. The type of the list selects their kind.
func (f *Factory) names(ctx context.Context, list client.ObjectList) ([]string, error) {
	c, err := f.Client()
	if err != nil {
		return nil, err
	}
	namespace, err := f.Namespace()
	if err != nil {
		return nil, err
	}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	return namesOf(list)
}

func namesOf(list client.ObjectList) ([]string, error) {
	var names []string
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if m, ok := o.(metav1.Object); ok {
			names = append(names, m.GetName())
		}
		return nil
	})
	slices.SortFunc(names, cmp.Compare[string])
	return names, err
}
