// Package explain implements the "hlnr explain" command, which shows the tags that an ImagePolicy offers. The ImagePolicy is in a manifest
// or in the cluster.
//
//	explain.go   the command and its flags
//	policy.go    reads and validates an ImagePolicy
//	stored.go    reads an ImagePolicy in the cluster, and its status
//	progress.go  lines about the progress of a scan
//	report.go    the result as a table or JSON
package explain

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/status"
)

// maxInput is the maximum number of bytes that are read from a file.
const maxInput = 32 << 20

// options are the flags and the argument of explain.
type options struct {
	file, name string
	// stored is the name of an ImagePolicy or a Microservice in the cluster. scan reports whether --scan is set.
	stored       string
	scan         bool
	tags         string
	dockerConfig string
	ca           string
	cert, key    string
	platform     string
	output       string
	all          bool
	refused      int
	timeout      time.Duration
	version      string
	// platformSet and timeoutSet report whether --platform and --timeout are set.
	platformSet, timeoutSet bool
}

// NewCommand returns the command.
func NewCommand(f *cli.Factory) *cobra.Command {
	o := options{version: f.Version}
	cmd := &cobra.Command{
		GroupID: cli.GroupCheck,
		Use:     "explain (IMAGEPOLICY | MICROSERVICE | -f POLICY) [--tags FILE]",
		Short:   "Show which tags an ImagePolicy offers, and why it rejects the others",
		Long: `explain prints for each tag whether an ImagePolicy offers the tag, or why it rejects the tag. The output is
in selection order: the newest version first, and tags that are not versions last.

Given the name of an ImagePolicy or a Microservice in the cluster, the command prints the contents of the policy's
status: all offered versions, and the newest rejected tags, ten by default and twenty with --all. With --scan, or with
credentials or certificates, the command scans the registry from this machine instead. With a file of tags (--tags), the command
evaluates the tags in the file.

Given a manifest (-f), the command evaluates the policy without a cluster, as in the first scan of a new ImagePolicy.
The manifest is validated as an API server would validate it. The tags come from the registry or from a file. With
a file, the command does not use the registry, and every tag counts as an image for all platforms. During a long
scan, the command writes its progress to standard error every few seconds. The command ignores any cluster state:
the versions that a Microservice uses, and the times at which versions were first seen.

Exit codes: 0: at least one version is offered; 1: the command failed; 2: the command line or the input is
invalid; 3: no version is offered; 4: the timeout expired.`,
		Example: `  # Show what the policy in the cluster offers
  hlnr explain shop -n shop

  # Show what this policy would offer now
  hlnr explain -f policy.yaml

  # The same for a private registry
  hlnr explain -f policy.yaml --docker-config ~/.docker/config.json

  # Try a policy with your own list of tags
  printf '%s\n' 1.0.0 1.1.0-rc.1 latest | hlnr explain -f policy.yaml --tags -

  # Show why the policy in the cluster rejects 1.4.2
  hlnr explain shop -n shop --scan --all | grep 1.4.2`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: f.CompleteNames(1, func() client.ObjectList { return &v1alpha1.ImagePolicyList{} }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.stored = args[0]
			}
			o.platformSet, o.timeoutSet = cmd.Flags().Changed("platform"), cmd.Flags().Changed("timeout")
			return o.run(cmd.Context(), f, cmd.InOrStdin(), cmd.OutOrStdout(), (&ticker{out: cmd.ErrOrStderr(), every: tick, now: f.Now}).report)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.file, "file", "f", "", "manifest with the ImagePolicy; - is standard input")
	flags.StringVar(&o.name, "name", "", "name of the ImagePolicy, if the manifest contains several")
	flags.BoolVar(&o.scan, "scan", false, "for an ImagePolicy in the cluster, scan the registry from this machine instead of reading the status")
	flags.StringVar(&o.tags, "tags", "", "file with tags, one per line, to use instead of the registry; - is standard input; lines that begin with # are ignored")
	flags.StringVar(&o.dockerConfig, "docker-config", "", "Docker configuration with the credentials for the registry; by default access is anonymous")
	flags.StringVar(&o.ca, "ca-file", "", "PEM file with certificate authorities to trust in addition to those of the system; corresponds to ca.crt in the Secret that spec.certSecretRef refers to")
	flags.StringVar(&o.cert, "cert-file", "", "PEM file with the client certificate; corresponds to tls.crt in the Secret that spec.certSecretRef refers to; requires --key-file")
	flags.StringVar(&o.key, "key-file", "", "PEM file with the private key for the certificate in --cert-file")
	flags.StringVar(&o.platform, "platform", "linux/"+goruntime.GOARCH, "platform that an image must support if spec.platforms is not set")
	flags.BoolVar(&o.all, "all", false, "print every tag; for an ImagePolicy in the cluster without --scan, print every tag in its status")
	flags.IntVar(&o.refused, "refused", 10, "number of rejected tags to print without --all, the newest first")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Minute, "maximum duration of the scan, which makes at most 50 requests per second, and up to three requests for each image whose build time is required")
	flags.StringVarP(&o.output, "output", "o", outputTable, "output format: "+strings.Join(outputs, ", "))
	return cmd
}

func (o options) run(ctx context.Context, f *cli.Factory, stdin io.Reader, stdout io.Writer, progress func(imagepolicy.Progress)) error {
	if err := o.validate(); err != nil {
		return cli.Usage(err)
	}
	policy, err := o.policy(ctx, f, stdin)
	if err != nil {
		return err
	}
	if o.ofStatus() {
		if err := storedReport(policy, o).write(stdout, o.output); err != nil {
			return cli.Failed(fmt.Errorf("write output: %w", err))
		}
		if len(policy.Status.Releases) == 0 {
			return cli.No(nil)
		}
		return nil
	}
	if err := explicable(policy); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
	}
	explanation, problem := o.explain(ctx, policy, stdin, progress)
	var e *cli.Exit
	ended := errors.As(problem, &e)
	if ended && e.Code == cli.ExitUsage {
		return problem
	}
	if problem == nil || explanation.Tags > 0 && explanation.Untimed == 0 {
		if err := newReport(policy, explanation, o).write(stdout, o.output); err != nil {
			return cli.Failed(fmt.Errorf("write output: %w", err))
		}
	}
	switch {
	case ended:
		return problem
	case problem != nil:
		return cli.Failed(problem)
	case len(explanation.Offered) == 0:
		return &cli.Exit{Code: cli.ExitNo}
	}
	return nil
}

// ofStatus reports whether to print the status of a policy in the cluster, without a scan.
func (o options) ofStatus() bool {
	return o.stored != "" && !o.scan && o.tags+o.dockerConfig+o.ca+o.cert+o.key == ""
}

// policy reads the ImagePolicy from the cluster or from the manifest.
func (o *options) policy(ctx context.Context, f *cli.Factory, stdin io.Reader) (*v1alpha1.ImagePolicy, error) {
	if o.stored != "" {
		c, err := f.Client()
		if err != nil {
			return nil, err
		}
		namespace, err := f.Namespace()
		if err != nil {
			return nil, err
		}
		policy, err := stored(ctx, c, namespace, o.stored)
		if err == nil {
			o.file = "ImagePolicy " + namespace + "/" + policy.Name // Messages contain this name.
		}
		return policy, err
	}
	manifest, err := read(o.file, stdin)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--file: %w", err))
	}
	policy, err := readPolicy(ctx, manifest, o.name)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
	}
	return policy, nil
}

// explicable rejects policies that cannot be explained without a cluster.
func explicable(policy *v1alpha1.ImagePolicy) error {
	if source := policy.Spec.Source; source != nil && source.GitHub != nil {
		return errors.New("spec.source.github: GitHub sources can be explained only in a cluster: hlnr explain NAME prints the status of the ImagePolicy there")
	}
	return nil
}

// validate rejects invalid combinations of flags.
func (o options) validate() error {
	switch {
	case o.stored != "" && o.file+o.name != "":
		return errors.New("--file and --name are for a manifest: omit these flags, or omit the name of the ImagePolicy in the cluster")
	case o.stored == "" && o.file == "":
		return errors.New("--file is required: set it to a manifest, or to - for standard input; or name an ImagePolicy or a Microservice in the cluster")
	case o.stored == "" && o.scan:
		return errors.New("--scan is for an ImagePolicy in the cluster: a manifest is always scanned")
	case o.ofStatus() && (o.platformSet || o.timeoutSet):
		return errors.New("--platform and --timeout are for a scan: add --scan, or omit them to print the status of the ImagePolicy")
	case o.file == "-" && o.tags == "-":
		return errors.New("--tags: standard input is already used for the manifest: write one of the two to a file")
	case o.tags != "" && o.dockerConfig+o.ca+o.cert+o.key != "":
		return errors.New("--tags does not use the registry: omit --tags, or omit --docker-config, --ca-file, --cert-file and --key-file")
	case o.timeout <= 0:
		return fmt.Errorf("--timeout: invalid value %s: must be greater than 0", o.timeout)
	case o.refused < 0:
		return fmt.Errorf("--refused: invalid value %d: must not be negative", o.refused)
	case !isOutput(o.output):
		return fmt.Errorf("--output: unknown format %q: use one of %s", o.output, strings.Join(outputs, ", "))
	}
	return nil
}

// explain explains a policy with the tags from a file or from the registry.
func (o options) explain(parent context.Context, policy *v1alpha1.ImagePolicy, stdin io.Reader, progress func(imagepolicy.Progress)) (imagepolicy.Explanation, error) {
	if o.tags != "" {
		text, err := read(o.tags, stdin)
		if err != nil {
			return imagepolicy.Explanation{}, cli.Usage(fmt.Errorf("--tags: %w", err))
		}
		explanation, err := imagepolicy.ExplainTags(policy, lines(text))
		if err != nil {
			return explanation, cli.Usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
		}
		return explanation, nil
	}
	auth, err := o.credential(policy)
	if err != nil {
		return imagepolicy.Explanation{}, cli.Usage(err)
	}
	certificates, err := o.certificates()
	if err != nil {
		return imagepolicy.Explanation{}, cli.Usage(err)
	}
	scanner := registry.New(registry.Options{UserAgent: "hlnr/" + o.version, Outbound: ownMachine})
	ctx, cancel := context.WithTimeoutCause(parent, o.timeout, fmt.Errorf("not complete after %s: select fewer tags with spec.tagFilter, or increase --timeout", o.timeout))
	defer cancel()
	explanation, err := imagepolicy.Explain(ctx, policy, scanner, auth, certificates, o.platform, progress)
	var s *status.Error
	if errors.As(err, &s) && s.Reason == v1alpha1.ReasonInvalidSpec {
		return explanation, cli.Usage(fmt.Errorf("%s: %w", nameOf(o.file), err))
	}
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		return explanation, cli.TimedOut(err)
	}
	return explanation, o.withFix(err)
}

// ownMachine is the outbound policy that allows access to registries on this machine.
var ownMachine = (*outbound.Policy)(nil).Trusting("127.0.0.1").Trusting("::1").Trusting("localhost")

// withFix adds to an error the flags that the user can set to fix it. These flags replace fields of the specification that refer
// to Secrets, which the command does not read.
func (o options) withFix(err error) error {
	switch kind := registry.KindOf(err); {
	case kind == registry.Untrusted && o.ca == "":
		return fmt.Errorf("%w; set --ca-file to the certificate authority, or --cert-file and --key-file to a client certificate", err)
	case kind == registry.Untrusted:
		return fmt.Errorf("%w; check --ca-file, --cert-file and --key-file", err)
	case kind == registry.Unauthorized && o.dockerConfig == "":
		return fmt.Errorf("%w; set --docker-config to a Docker configuration", err)
	}
	return err
}

// credential returns the registry's credential from the Docker configuration. If the configuration has no entry for the
// registry, credential returns an error, so that the command does not use anonymous access instead.
func (o options) credential(policy *v1alpha1.ImagePolicy) (registry.Credential, error) {
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
		return registry.Credential{}, fmt.Errorf("--docker-config: auths has no entry for %q: log in with docker login or crane auth login, without a credential helper, or omit the flag for anonymous access", policy.Spec.Image)
	}
	return match.Credential, nil
}

// certificates returns the certificates in the files that the flags name.
func (o options) certificates() (registry.TLS, error) {
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
	tls, err := registry.ParseTLS(registry.Secret{Name: "command line", Data: data}, time.Now())
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
		return nil, fmt.Errorf("read %s: larger than %d MiB: use a smaller file", name, maxInput>>20)
	}
	return data, nil
}

// nameOf returns the name of a file for messages.
func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// lines returns the tags in a file that contains one tag per line. It omits empty lines and lines that begin with #.
func lines(text []byte) []string {
	tags := []string{}
	for line := range bytes.Lines(text) {
		if tag := string(bytes.TrimSpace(line)); tag != "" && !strings.HasPrefix(tag, "#") {
			tags = append(tags, tag)
		}
	}
	return tags
}
