package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// call runs one command line with the given commands.
func call(ctx context.Context, t *testing.T, argv []string, commands ...NewCommand) (code Code, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	program, args := Program(argv)
	code = Run(ctx, New(program, "v1", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &err}), args, commands...)
	return code, out.String(), err.String()
}

// returns returns a command that ends with an error.
func returns(err error) NewCommand {
	return func(*Factory) *cobra.Command {
		return &cobra.Command{Use: "ask", Short: "Ask", Example: "  hlnr ask", RunE: func(*cobra.Command, []string) error { return err }}
	}
}

// list returns a command that lists Microservices.
func list(f *Factory) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List"}
	scope := AddScope(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		selector, err := scope.Selector()
		if err != nil {
			return err
		}
		c, err := f.Client()
		if err != nil {
			return err
		}
		namespace, err := scope.Namespace(f)
		if err != nil {
			return err
		}
		return c.List(cmd.Context(), &v1alpha1.MicroserviceList{}, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	}
	return cmd
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	for name, c := range map[string]struct {
		err    error
		code   Code
		stderr string
	}{
		"yes":           {nil, ExitYes, ""},
		"failed":        {cause, ExitFailed, "hlnr: the cause\n"},
		"usage":         {Usage(cause), ExitUsage, "hlnr: the cause\n"},
		"no":            {No(cause), ExitNo, "hlnr: the cause\n"},
		"no, silently":  {No(nil), ExitNo, ""},
		"timed out":     {TimedOut(cause), ExitTimeout, "hlnr: the cause\n"},
		"waits":         {Waits(cause), ExitWaits, "hlnr: the cause\n"},
		"wrapped":       {fmt.Errorf("ask: %w", No(cause)), ExitNo, "hlnr: the cause\n"},
		"clear":         {errors.New("a\x1b[2Jb"), ExitFailed, "hlnr: a[2Jb\n"},
		"clipboard":     {No(errors.New("a\x1b]52;c;aGk=\x07b")), ExitNo, "hlnr: a]52;c;aGk=b\n"},
		"return":        {errors.New("a\rhlnr: done"), ExitFailed, "hlnr: ahlnr: done\n"},
		"right to left": {errors.New("a\u202eb"), ExitFailed, "hlnr: ab\n"},
		"forged line":   {fmt.Errorf("a%s", "\nhlnr: done\n"), ExitFailed, "hlnr: a\n  hlnr: done\n"},
		"list":          {errors.New("a\n  b\n    c"), ExitFailed, "hlnr: a\n  b\n    c\n"},
		"closed pipe":   {fmt.Errorf("write output: %w", syscall.EPIPE), ExitFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t.Context(), t, []string{"hlnr", "ask"}, returns(c.err))
			if code != c.code || stdout != "" || stderr != c.stderr {
				t.Errorf("exit code %d, output %q, error %q; want %d and %q", code, stdout, stderr, c.code, c.stderr)
			}
		})
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, stderr := call(ctx, t, []string{"hlnr", "ask"}, returns(fmt.Errorf("list: %w", context.Canceled)))
	if code != ExitInterrupted || stderr != "hlnr: interrupted\n" {
		t.Errorf("exit code %d, error %q", code, stderr)
	}
}

// TestProgram checks that usage text contains the name with which the user called the command.
func TestProgram(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		argv []string
		want []string
	}{
		"command":                {[]string{"/usr/bin/hlnr", "ask", "--help"}, []string{"Usage:\n  hlnr ask", "Examples:\n  hlnr ask", `"hlnr options"`}},
		"plugin":                 {[]string{"/usr/bin/kubectl-hlnr", "ask", "--help"}, []string{"Usage:\n  kubectl hlnr ask", "Examples:\n  kubectl hlnr ask", `"kubectl hlnr options"`}},
		"completion of a plugin": {[]string{"kubectl_complete-hlnr", "as"}, []string{"ask\tAsk\n:"}},
		"completion":             {[]string{"hlnr", "completion", "bash"}, []string{"# bash completion V2 for hlnr"}},
		"completion by kubectl":  {[]string{"hlnr", "completion", "kubectl"}, []string{`exec kubectl hlnr __complete "$@"`}},
		"version":                {[]string{"hlnr", "version"}, []string{"hlnr v1\n"}},
		"options":                {[]string{"hlnr", "options"}, []string{"--kubeconfig", "--context", "--namespace", "--as ", "--request-timeout"}},
		"groups":                 {[]string{"hlnr"}, []string{"See and explain:", "Exit codes:\n    0  the answer is yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			see := func(f *Factory) *cobra.Command {
				cmd := returns(nil)(f)
				cmd.GroupID = GroupSee
				return cmd
			}
			code, stdout, stderr := call(t.Context(), t, c.argv, see)
			for _, want := range c.want {
				if code != ExitYes || !strings.Contains(stdout, want) {
					t.Errorf("exit code %d, output %q, error %q; want %q", code, stdout, stderr, want)
				}
			}
			if strings.Contains(stdout, "--client-key") != (name == "options") {
				t.Errorf("only hlnr options must list the connection flags: %s", stdout)
			}
		})
	}
}

func TestWrongCommandLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"command":       {[]string{"lits"}, `unknown command "lits" for "hlnr"; did you mean "list"?`},
		"other command": {[]string{"nonsense"}, `unknown command "nonsense" for "hlnr"; "hlnr --help" lists the commands`},
		"flag":          {[]string{"list", "--nonsense"}, `unknown flag: --nonsense; "hlnr list --help" lists the flags`},
		"selector":      {[]string{"list", "-l", "a=b=c"}, "--selector: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t.Context(), t, append([]string{"hlnr"}, c.args...), list)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, output %q, error %q; want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

// TestArguments checks that argument errors contain the missing or unexpected argument, and an example.
func TestArguments(t *testing.T) {
	t.Parallel()
	command := func(use, example string, args cobra.PositionalArgs) NewCommand {
		return func(*Factory) *cobra.Command {
			return &cobra.Command{Use: use, Example: example, Args: args, RunE: func(*cobra.Command, []string) error { return nil }}
		}
	}
	pin := command("pin MICROSERVICE VERSION", "  # A comment\n  hlnr pin shop 1.0.0 --reason \"sessions lost\"", cobra.ExactArgs(2))
	decide := command("continue RELEASE | MICROSERVICE [VERSION]", "  hlnr continue shop", cobra.RangeArgs(1, 2))
	check := command("doctor", "", cobra.NoArgs)
	for name, c := range map[string]struct {
		argv []string
		want string
	}{
		"both":         {[]string{"hlnr", "pin"}, "hlnr: MICROSERVICE is missing: the syntax is hlnr pin MICROSERVICE VERSION, for example: hlnr pin shop 1.0.0 --reason \"sessions lost\"\n"},
		"one":          {[]string{"hlnr", "pin", "shop"}, "hlnr: VERSION is missing: the syntax is"},
		"plugin":       {[]string{"kubectl-hlnr", "pin", "shop"}, "VERSION is missing: the syntax is kubectl hlnr pin MICROSERVICE VERSION, for example: kubectl hlnr pin shop 1.0.0"},
		"too many":     {[]string{"hlnr", "pin", "a", "b", "c"}, "hlnr: unexpected argument \"c\": the syntax is hlnr pin MICROSERVICE VERSION"},
		"alternatives": {[]string{"hlnr", "continue"}, "hlnr: an argument is missing: the syntax is hlnr continue RELEASE | MICROSERVICE [VERSION], for example: hlnr continue shop\n"},
		"none":         {[]string{"hlnr", "doctor", "shop"}, "hlnr: unexpected argument \"shop\": the syntax is hlnr doctor\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := call(t.Context(), t, c.argv, pin, decide, check)
			if code != ExitUsage || !strings.HasPrefix(stderr, "hlnr: ") || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, error %q; want %q", code, stderr, c.want)
			}
		})
	}
}

// TestCommandToCopy checks that a command for users to copy includes the flags that select the cluster, and the namespace unless it is
// the namespace of the selected context.
func TestCommandToCopy(t *testing.T) {
	t.Parallel()
	config, ca := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "the ca.crt")
	if err := os.WriteFile(ca, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}, {name: d, cluster: {server: "http://127.0.0.1:2"}}]
users: [{name: u, user: {}}]
contexts: [{name: production, context: {cluster: c, user: u, namespace: shop}}, {name: the test, context: {cluster: d, user: u, namespace: bank}}]
current-context: production
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "why web"},
		{[]string{"-n", "shop"}, "why web"},
		{[]string{"-n", "other"}, "why -n other web"},
		{[]string{"--context", "the test"}, "--context 'the test' why web"},
		{[]string{"--context", "the test", "-n", "shop"}, "--context 'the test' why -n shop web"},
		{[]string{"--cluster", "d", "--user", "u"}, "--cluster d --user u why web"},
		{[]string{"--server", "http://127.0.0.1:3", "--token", "hunter2", "--as", "ana"}, "--server http://127.0.0.1:3 why web"},
		{[]string{"--server", "https://127.0.0.1:3", "--certificate-authority", ca, "--tls-server-name", "kubernetes"}, "--server https://127.0.0.1:3 --certificate-authority '" + ca + "' --tls-server-name kubernetes why web"},
		{[]string{"--server", "https://127.0.0.1:3", "--insecure-skip-tls-verify"}, "--server https://127.0.0.1:3 --insecure-skip-tls-verify why web"},
	} {
		var got string
		ask := func(f *Factory) *cobra.Command {
			return &cobra.Command{Use: "ask", RunE: func(*cobra.Command, []string) error {
				namespace, err := f.Namespace()
				got = f.Command(namespace, "why", "web")
				return err
			}}
		}
		want := "hlnr --kubeconfig " + config + " " + c.want
		if code, _, stderr := call(t.Context(), t, append([]string{"hlnr", "ask", "--kubeconfig", config}, c.args...), ask); code != ExitYes || got != want {
			t.Errorf("%q: %q, want %q; exit code %d, error %q", c.args, got, want, code, stderr)
		}
	}
	if got, want := New("kubectl hlnr", "v1", genericiooptions.IOStreams{}).Program(), "kubectl hlnr"; got != want {
		t.Errorf("without flags: %q, want %q", got, want)
	}
}

// kubeconfig writes a kubeconfig for a server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
contexts: [{name: production, context: {cluster: c, user: u, namespace: shop}}]
current-context: production
`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer starts a server that sends the same response to all requests, and returns its address.
func answer(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func status(code int, reason, message, details string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"message":%q,"details":%s,"code":%d}`, reason, message, details, code)
}

// TestErrorsOfTheCluster checks that the error message for a failed request contains the fix.
func TestErrorsOfTheCluster(t *testing.T) {
	t.Parallel()
	forbidden := func(scope string) string {
		return status(403, "Forbidden", `microservices.hlnr.io is forbidden: User "ana" cannot list resource "microservices" in API group "hlnr.io" `+scope, `{"group":"hlnr.io","kind":"microservices"}`)
	}
	for name, c := range map[string]struct {
		server string
		args   []string
		code   Code
		want   string
	}{
		"yes":                    {answer(t, 200, `{"kind":"MicroserviceList","apiVersion":"hlnr.io/v1alpha1","metadata":{},"items":[]}`), nil, ExitYes, ""},
		"no server":              {"http://127.0.0.1:1", nil, ExitFailed, "the cluster cannot be reached: dial tcp 127.0.0.1"},
		"no address":             {"http://cluster.invalid", nil, ExitFailed, "the host cluster.invalid cannot be resolved"},
		"no CRDs":                {answer(t, 404, "404 page not found\n"), nil, ExitFailed, "the cluster has no hlnr.io/v1alpha1: the CRDs of Heighliner are not installed, or do not match the version of this command: install Heighliner with"},
		"no permission":          {answer(t, 403, forbidden(`in the namespace "shop"`)), nil, ExitFailed, `you (ana) cannot list microservices.hlnr.io in namespace shop: users with the role view, edit or admin in the namespace have this permission; an admin of the namespace can grant it to you with "kubectl -n shop create rolebinding NAME --clusterrole=heighliner-view --user=USER"; if these users lack the permission, the ClusterRoles of Heighliner are not installed`},
		"no permission anywhere": {answer(t, 403, forbidden("at the cluster scope")), []string{"-A"}, ExitFailed, "you (ana) cannot list microservices.hlnr.io in all namespaces: ask an administrator for the ClusterRole heighliner-view, or specify a namespace with --namespace"},
		"no user":                {answer(t, 401, status(401, "Unauthorized", "Unauthorized", "{}")), nil, ExitFailed, "rejected your credentials (401): log in again"},
		"busy":                   {answer(t, 503, status(503, "ServiceUnavailable", "etcd", "{}")), nil, ExitFailed, "the API server is busy: try again"},
		"context":                {"http://127.0.0.1:1", []string{"--context", "prodution"}, ExitUsage, `there is no context with the name "prodution" in the kubeconfig; did you mean "production"?`},
		"another context":        {"http://127.0.0.1:1", []string{"--context", "test"}, ExitUsage, `there is no context with the name "test" in the kubeconfig; available: production`},
		"missing file":           {"http://127.0.0.1:1", []string{"--kubeconfig", "testdata/none"}, ExitUsage, "--kubeconfig: "},
		"text file":              {"http://127.0.0.1:1", []string{"--kubeconfig", "cli_test.go"}, ExitUsage, "the file cli_test.go is not a kubeconfig: set --kubeconfig or KUBECONFIG to a kubeconfig"},
		"folder":                 {"http://127.0.0.1:1", []string{"--kubeconfig", "."}, ExitUsage, "the file . is not a kubeconfig (is a directory)"},
		"empty file":             {"http://127.0.0.1:1", []string{"--kubeconfig", os.DevNull}, ExitFailed, "no cluster is configured: set --kubeconfig or KUBECONFIG"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"hlnr", "list", "--kubeconfig", kubeconfig(t, c.server)}, c.args...)
			code, stdout, stderr := call(t.Context(), t, args, list)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || c.want == "" && stderr != "" {
				t.Errorf("exit code %d, output %q, error %q; want code %d and %q", code, stdout, stderr, c.code, c.want)
			}
		})
	}
}

// TestFieldsOfAnotherVersion checks that the API server rejects fields that its CRDs do not contain, instead of silently
// dropping them.
func TestFieldsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	validation := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		validation <- r.URL.Query().Get("fieldValidation")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":400,"reason":"BadRequest","message":"Microservice in version \"v1alpha1\" cannot be handled as a Microservice: strict decoding error: unknown field \"spec.paused\""}`)
	}))
	t.Cleanup(server.Close)
	pause := func(f *Factory) *cobra.Command {
		return &cobra.Command{Use: "pause", RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Client()
			if err != nil {
				return err
			}
			ms := &v1alpha1.Microservice{}
			ms.Namespace, ms.Name = "shop", "shop"
			return c.Patch(cmd.Context(), ms, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`)))
		}}
	}
	code, _, stderr := call(t.Context(), t, []string{"hlnr", "pause", "--kubeconfig", kubeconfig(t, server.URL)}, pause)
	if code != ExitFailed || !strings.Contains(stderr, `lack a field that the command writes: unknown field "spec.paused"; nothing was written`) || strings.Contains(stderr, "cannot be handled") {
		t.Errorf("exit code %d, error %q", code, stderr)
	}
	if got := <-validation; got != "Strict" {
		t.Errorf("field validation %q", got)
	}
}

func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	code, _, stderr := call(t.Context(), t, []string{"hlnr", "list", "--request-timeout", "50ms", "--kubeconfig", kubeconfig(t, server.URL)}, list)
	if code != ExitFailed || !strings.Contains(stderr, "did not respond in time") {
		t.Errorf("exit code %d, error %q", code, stderr)
	}
	code, _, stderr = call(t.Context(), t, []string{"hlnr", "list", "--request-timeout", "abc", "--kubeconfig", kubeconfig(t, server.URL)}, list)
	if code != ExitUsage || !strings.Contains(stderr, `--request-timeout: "abc" is not a duration`) {
		t.Errorf("invalid duration: exit code %d, error %q", code, stderr)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	command := func(*Factory) *cobra.Command {
		cmd := &cobra.Command{Use: "ask", Short: "Ask"}
		o := AddOutput(cmd)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return o.Print(cmd.OutOrStdout(), map[string]int{"a": 1}, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "text, wide:", o.Wide())
				return err
			}, func() []string { return []string{"microservice.hlnr.io/a"} })
		}
		return cmd
	}
	for format, want := range map[string]string{
		"": "text, wide: false\n", "wide": "text, wide: true\n", "json": "{\n  \"a\": 1\n}\n", "yaml": "a: 1\n", "name": "microservice.hlnr.io/a\n",
	} {
		args := []string{"hlnr", "ask"}
		if format != "" {
			args = append(args, "-o", format)
		}
		if code, stdout, stderr := call(t.Context(), t, args, command); code != ExitYes || stdout != want || stderr != "" {
			t.Errorf("%q: exit code %d, output %q, error %q; want %q", format, code, stdout, stderr, want)
		}
	}
	code, _, stderr := call(t.Context(), t, []string{"hlnr", "ask", "-o", "xml"}, command)
	if code != ExitUsage || !strings.Contains(stderr, `unknown format "xml": use one of json, yaml, wide, name`) {
		t.Errorf("exit code %d, error %q", code, stderr)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"shop", "checkout", "checkout-api", "search", "payments", "web"}
	for name, want := range map[string][]string{
		"shpo": {"shop"}, "Shop": {"shop"}, "chekout": {"checkout"}, "api": {"checkout-api"}, "seerch": {"search"}, "zzzz": {}, "": {}, "we": {"web"},
		strings.Repeat("a", 10_000): {},
	} {
		if diff := cmp.Diff(want, Nearest(name, names)); diff != "" {
			t.Errorf("%.20q: -want +got\n%s", name, diff)
		}
	}
	if got, want := Unknown("Microservice in namespace shop", "x", nil).Error(), `there is no Microservice with the name "x" in namespace shop; there are no others; select another namespace with -n`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Unknown("group", "x", []string{"2.x", "1.x", "1.x"}).Error(), `there is no group with the name "x"; available: 1.x, 2.x`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestHelpWithoutKubeconfig checks that showing help requires neither files nor connections.
func TestHelpWithoutKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	start := time.Now()
	code, stdout, stderr := call(t.Context(), t, []string{"hlnr", "list", "--help"}, list)
	if code != ExitYes || !strings.Contains(stdout, "--all-namespaces") || stderr != "" {
		t.Errorf("exit code %d after %s, output %q, error %q", code, time.Since(start), stdout, stderr)
	}
}

// TestKnownKinds checks that the resources that the client knows without discovery match the resources of the cluster.
func TestKnownKinds(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mapper := knownKinds(scheme)
	for kind, want := range map[schema.GroupVersionKind]string{
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}:   "gateways",
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}: "httproutes",
		{Group: "hlnr.io", Version: "v1alpha1", Kind: "NetworkPolicy"}:         "networkpolicies",
		{Version: "v1", Kind: "Pod"}:                                           "pods",
	} {
		m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || m.Resource.Resource != want {
			t.Errorf("%s: %+v, %v; want %s", kind, m, err, want)
		}
	}
}
