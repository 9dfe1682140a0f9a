package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
)

// maxInput is how many bytes of a file are read.
const maxInput = 32 << 20

// explainOptions are the flags of explain.
type explainOptions struct {
	file, name   string
	tags         string
	dockerConfig string
	ca           string
	cert, key    string
	platform     string
	output       string
	all          bool
	refused      int
	timeout      time.Duration
}

func explainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain -f POLICY [--tags FILE]",
		Short: "Say which tags an ImagePolicy offers, and why it refuses the others",
		Long: `explain plays the first look of an ImagePolicy, without a cluster, and prints its
verdict on each tag, in the order of selection: the newest version first, and tags
that are no versions last.

The manifest passes the checks of an API server. The tags come from the registry that
it names, or from a file; then no registry is asked, and every tag is taken for an
image of all platforms. Where that takes long, standard error tells how far it has
come, every few seconds. What a cluster knows counts for nothing: versions that a
Microservice holds, and when a version was first seen.

Exit codes: 0 something is offered, 1 failure, 2 wrong command line or input,
3 nothing is offered.`,
		Example: `  # What would this policy offer now?
  hlnr explain -f policy.yaml

  # The same as an account of a private registry
  hlnr explain -f policy.yaml --docker-config ~/.docker/config.json

  # Try a policy on tags of your own making
  printf '%s\n' 1.0.0 1.1.0-rc.1 latest | hlnr explain -f policy.yaml --tags -

  # Why does the policy of the cluster refuse 1.4.2?
  kubectl get imgp shop -n shop -o yaml | hlnr explain -f - --all | grep 1.4.2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), (&ticker{out: cmd.ErrOrStderr(), every: tick, now: time.Now}).tell)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.file, "file", "f", "", "manifest with the ImagePolicy; - is standard input")
	f.StringVar(&o.name, "name", "", "name of the ImagePolicy, where the manifest holds several")
	f.StringVar(&o.tags, "tags", "", "file with tags, one a line, instead of the registry; - is standard input; lines that begin with # are passed over")
	f.StringVar(&o.dockerConfig, "docker-config", "", "docker configuration with the credential for the registry; without it explain looks as nobody")
	f.StringVar(&o.ca, "ca-file", "", "certificates of authorities in PEM that are believed beside the system's, as ca.crt of spec.certSecretRef")
	f.StringVar(&o.cert, "cert-file", "", "client certificate in PEM, as tls.crt of spec.certSecretRef; needs --key-file")
	f.StringVar(&o.key, "key-file", "", "private key of --cert-file in PEM")
	f.StringVar(&o.platform, "platform", "linux/"+goruntime.GOARCH, "platform that an image must be there for, where spec.platforms names none")
	f.BoolVar(&o.all, "all", false, "print every tag")
	f.IntVar(&o.refused, "refused", 10, "refused tags to print without --all, the newest")
	f.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long to ask the registry at most: it is asked 20 times a second, up to three times for each image of which the time counts")
	f.StringVarP(&o.output, "output", "o", outputTable, "form of the output: "+strings.Join(outputs, ", "))
	return cmd
}

func (o explainOptions) run(ctx context.Context, stdin io.Reader, stdout io.Writer, progress func(imagepolicy.Progress)) error {
	if err := o.validate(); err != nil {
		return usage(err)
	}
	manifest, err := read(o.file, stdin)
	if err != nil {
		return usage(fmt.Errorf("--file: %w", err))
	}
	policy, err := readPolicy(ctx, manifest, o.name)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
	}
	if err := explicable(policy); err != nil {
		return usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
	}
	explanation, problem := o.explain(ctx, policy, stdin, progress)
	var e *exit
	if errors.As(problem, &e) && e.code == exitUsage {
		return problem
	}
	if problem == nil || explanation.Tags > 0 && explanation.Untimed == 0 {
		if err := newReport(policy, explanation, o).write(stdout, o.output); err != nil {
			return failed(fmt.Errorf("write output: %w", err))
		}
	}
	switch {
	case problem != nil:
		return failed(problem)
	case len(explanation.Offered) == 0:
		return &exit{code: exitNo}
	}
	return nil
}

// explicable refuses what only a cluster knows.
func explicable(policy *v1alpha1.ImagePolicy) error {
	if source := policy.Spec.Source; source != nil && source.GitHub != nil {
		return errors.New("spec.source.github: what GitHub says is kept by a GitHubRepository of a cluster: see status.candidates of the ImagePolicy there")
	}
	return nil
}

// validate refuses flags that make no question.
func (o explainOptions) validate() error {
	switch {
	case o.file == "":
		return errors.New("--file: no manifest is named: give one, or - for standard input")
	case o.file == "-" && o.tags == "-":
		return errors.New("--tags: standard input is the manifest already: write one of the two into a file")
	case o.tags != "" && o.dockerConfig+o.ca+o.cert+o.key != "":
		return errors.New("--tags: no registry is asked with it: leave it out, or --docker-config, --ca-file, --cert-file and --key-file")
	case o.timeout <= 0:
		return fmt.Errorf("--timeout: %s is not above 0: give how long to ask the registry at most", o.timeout)
	case o.refused < 0:
		return fmt.Errorf("--refused: %d is below 0: give how many refused tags to print", o.refused)
	case !isOutput(o.output):
		return fmt.Errorf("--output: %q is not known: write %s", o.output, strings.Join(outputs, ", "))
	}
	return nil
}

// explain asks the file of tags, or the registry.
func (o explainOptions) explain(ctx context.Context, policy *v1alpha1.ImagePolicy, stdin io.Reader, progress func(imagepolicy.Progress)) (imagepolicy.Explanation, error) {
	if o.tags != "" {
		text, err := read(o.tags, stdin)
		if err != nil {
			return imagepolicy.Explanation{}, usage(fmt.Errorf("--tags: %w", err))
		}
		explanation, err := imagepolicy.ExplainTags(policy, lines(text))
		if err != nil {
			return explanation, usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
		}
		return explanation, nil
	}
	auth, err := o.credential(policy)
	if err != nil {
		return imagepolicy.Explanation{}, usage(err)
	}
	certificates, err := o.certificates()
	if err != nil {
		return imagepolicy.Explanation{}, usage(err)
	}
	scanner := registry.New(registry.Options{UserAgent: "hlnr/" + version, Outbound: ownMachine})
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after %s: admit fewer tags by spec.tagFilter, or give more time by --timeout", o.timeout))
	defer cancel()
	explanation, err := imagepolicy.Explain(ctx, policy, scanner, auth, certificates, o.platform, progress)
	var s *status.Error
	if errors.As(err, &s) && s.Reason == v1alpha1.ReasonInvalidSpec {
		return explanation, usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
	}
	return explanation, o.mend(err)
}

// ownMachine lets the command ask a registry on the machine that it runs on.
var ownMachine = (*outbound.Policy)(nil).Trusting("127.0.0.1").Trusting("::1").Trusting("localhost")

// mend adds the flags that stand for what the specification names: the command reads no
// Secrets.
func (o explainOptions) mend(err error) error {
	switch kind := registry.KindOf(err); {
	case kind == registry.Untrusted && o.ca == "":
		return fmt.Errorf("%w; here: give the authority's certificate by --ca-file, and a client certificate by --cert-file and --key-file", err)
	case kind == registry.Untrusted:
		return fmt.Errorf("%w; here: check --ca-file, --cert-file and --key-file", err)
	case kind == registry.Unauthorized && o.dockerConfig == "":
		return fmt.Errorf("%w; here: give a docker configuration by --docker-config", err)
	}
	return err
}

// credential of the docker configuration; a configuration without an entry for the
// registry is an error, and never nobody.
func (o explainOptions) credential(policy *v1alpha1.ImagePolicy) (registry.Credential, error) {
	if o.dockerConfig == "" {
		return registry.Credential{}, nil
	}
	config, err := read(o.dockerConfig, nil)
	if err != nil {
		return registry.Credential{}, fmt.Errorf("--docker-config: %w", err)
	}
	match, err := registry.FindCredential(policy.Spec.Image, registry.Secret{
		Name: path.Base(o.dockerConfig), Type: registry.TypeDockerConfigJSON, Data: map[string][]byte{".dockerconfigjson": config},
	})
	switch {
	case err != nil:
		return registry.Credential{}, fmt.Errorf("--docker-config: %w", err)
	case !match.Found:
		return registry.Credential{}, fmt.Errorf("--docker-config: no entry of auths is for %q: log in with docker login or crane auth login, without a credential helper; or leave the flag out to look as nobody", policy.Spec.Image)
	}
	return match.Credential, nil
}

// certificates of the flags.
func (o explainOptions) certificates() (registry.TLS, error) {
	data := map[string][]byte{}
	for key, file := range map[string]string{"ca.crt": o.ca, "tls.crt": o.cert, "tls.key": o.key} {
		if file == "" {
			continue
		}
		text, err := read(file, nil)
		if err != nil {
			return registry.TLS{}, fmt.Errorf("--ca-file, --cert-file, --key-file: %w", err)
		}
		data[key] = text
	}
	if len(data) == 0 {
		return registry.TLS{}, nil
	}
	tls, err := registry.ParseTLS(registry.Secret{Name: "of the command line", Data: data}, time.Now())
	if err != nil {
		return registry.TLS{}, fmt.Errorf("--ca-file, --cert-file, --key-file: %w", err)
	}
	return tls, nil
}

// read reads a file, or standard input for "-".
func read(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" || stdin == nil {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(data) > maxInput:
		return nil, fmt.Errorf("read %s: more than %d MiB: give a smaller file", name, maxInput>>20)
	}
	return data, nil
}

// nameOf a file, for messages.
func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// lines of a file of tags.
func lines(text []byte) []string {
	tags := []string{}
	for line := range bytes.Lines(text) {
		if tag := string(bytes.TrimSpace(line)); tag != "" && !strings.HasPrefix(tag, "#") {
			tags = append(tags, tag)
		}
	}
	return tags
}
