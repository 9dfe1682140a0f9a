// Package doctor implements the "hlnr doctor" command, which checks the installation and the objects of hlnr.io for known
// problems, and writes a report without secrets.
//
//	doctor.go   the command, and its findings
//	checks.go   the checks of the installation
//	objects.go  the checks of objects
//	traffic.go  the checks of the Gateways and Prometheus servers that objects use
//	report.go   writes the archive of a report
//	redact.go   pure functions that remove secrets from the archive
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view/text"
)

// Level is the severity of a finding.
type Level string

// The levels, in order of severity.
const (
	// OK means that the check found no problem.
	OK Level = "OK"
	// Unknown means that the check was not possible, usually because a permission is missing.
	Unknown Level = "Unknown"
	// Warning means that the checked object works now, but might fail soon.
	Warning Level = "Warning"
	// Problem means that the checked object does not work.
	Problem Level = "Problem"
)

// marks are the symbols for the levels in a UTF-8 terminal.
var marks = map[Level]string{OK: "✔", Unknown: "?", Warning: "!", Problem: "✖"}

// Finding is the result of one check. Its JSON fields are an interface for scripts.
type Finding struct {
	Level Level `json:"level"`
	// Check is the area that was checked: Kubernetes, CRDs, Permissions, Admission, Manager, Clock, Gateway API, Gateway,
	// Credentials, Prometheus, or the kind of an object.
	Check string `json:"check"`
	Text  string `json:"text"`
	// Fix describes how to fix the problem. It is empty if there is no problem or no known fix.
	Fix string `json:"fix,omitempty"`
}

// Result is the output of the command.
type Result struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Version    string    `json:"version"`
	Findings   []Finding `json:"findings"`
}

// count returns the number of findings with the given level.
func (r *Result) count(level Level) (n int) {
	for _, f := range r.Findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// doctor is one run of the command.
type doctor struct {
	*cli.Factory
	client client.WithWatch
	// namespace is the namespace of the checked objects, empty for all namespaces.
	namespace string
	// manager is the namespace of the manager.
	manager string
	// install is the fix for an incomplete installation.
	install string
	// watched contains the namespaces that the manager watches. It is nil if the manager watches all namespaces, or if the namespaces are
	// not known.
	watched []string
	result  Result
	// refused reports whether the user lacks a permission that a check needs.
	refused bool
	// failed reports whether a check was not possible for another reason.
	failed bool
}

// NewCommand returns the command.
func NewCommand(f *cli.Factory) *cobra.Command {
	d := &doctor{Factory: f}
	var file string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Check the installation and all objects for known problems",
		GroupID: cli.GroupCheck,
		Long: `doctor checks the Kubernetes version, the CRDs, your permissions, the admission policies, the manager, the
clock, the Gateway API kinds, the Secrets that objects refer to, and each hlnr.io object. It also checks
whether the Gateways have listeners for the hosts of NetworkPolicies, and whether the Prometheus servers of analyses
respond to this machine. Checks for which you lack permissions are shown as unknown, and counted in the last line.
The command writes nothing to the cluster. It checks that Secrets exist, but does not read their content.

--report writes an archive with the findings and the objects, without secrets, to share with others. The values of
environment variables, arguments and headers, the values of other tools' annotations, and all text that looks
like a token are removed. Read the archive before you send it.

Exit codes: 0: no problem was found; 1: the cluster cannot be reached or rejects your credentials, or no problem was
found but some objects could not be read, for example because you lack permissions; 3: at least one problem was found.`,
		Example: `  hlnr doctor -A
  hlnr doctor -A --report report.tar.gz`,
		Args: cobra.NoArgs,
	}
	scope := cli.AddAllNamespaces(cmd)
	flags := cmd.Flags()
	flags.StringVar(&file, "report", "", "write an archive with the findings and the objects, without secrets, to this file (.tar.gz)")
	flags.StringVar(&d.manager, "manager-namespace", "heighliner-system", "namespace of the manager")
	output := cli.AddOutput(cmd, cli.FormatJSON, cli.FormatYAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if d.namespace, err = scope.Namespace(f); err != nil {
			return err
		}
		if d.client, err = f.Client(); err != nil {
			return err
		}
		objects, err := d.run(cmd.Context())
		if err != nil {
			return err
		}
		if file != "" {
			if err := writeReport(file, &d.result, objects); err != nil {
				return err
			}
		}
		if err := output.Print(f.Out, &d.result, d.result.write, nil); err != nil {
			return err
		}
		if file != "" {
			fmt.Fprintf(f.ErrOut, "hlnr: report written to %s; read the report before you send it\n", file)
		}
		switch {
		case d.result.count(Problem) > 0:
			return cli.No(nil)
		case d.refused:
			return cli.Failed(errors.New("no problem was found, but some checks need permissions that you do not have: ask an administrator of the cluster to run this command too"))
		case d.failed:
			return cli.Failed(errors.New("no problem was found, but some objects could not be read: run the command again"))
		}
		return nil
	}
	return cmd
}

// run runs all checks, and returns the checked objects. It returns an error if the cluster cannot be reached or rejects the credentials.
func (d *doctor) run(ctx context.Context) ([]client.Object, error) {
	d.result = Result{APIVersion: "view.hlnr.io/v1", Kind: "Doctor", Version: d.Version, Findings: []Finding{}}
	if err := d.checkServer(ctx); err != nil {
		return nil, err
	}
	d.install = d.installAgain(ctx)
	d.checkDefinitions(ctx)
	d.checkRights(ctx)
	d.checkAdmission(ctx)
	d.checkManager(ctx)
	d.checkGatewayKinds(ctx)
	objects := d.checkObjects(ctx)
	d.checkGateways(ctx, objects)
	d.checkPrometheus(ctx, objects)
	return objects, nil
}

// add adds a finding.
func (d *doctor) add(level Level, check, fix, format string, args ...any) {
	d.result.Findings = append(d.result.Findings, Finding{level, check, fmt.Sprintf(format, args...), fix})
}

// unknown adds a finding about an object that cannot be read. Each check has only one finding for all objects that the user is not
// allowed to read.
func (d *doctor) unknown(check, what string, err error) {
	if apierrors.IsForbidden(err) {
		d.refused = true
		const refused = "you are not allowed to read "
		for i := range d.result.Findings {
			if f := &d.result.Findings[i]; f.Check == check && f.Level == Unknown && strings.HasPrefix(f.Text, refused) {
				f.Text += ", " + what
				return
			}
		}
		d.add(Unknown, check, "", refused+"%s", what)
		return
	}
	d.failed = true
	d.add(Unknown, check, "", "%s cannot be read: %v", what, err)
}

// write writes one line for each finding, a second line if there is a fix, and a summary line. It removes control characters and line breaks
// from the findings and their fixes.
func (r *Result) write(out io.Writer) error {
	var b strings.Builder
	ascii := !utf8Locale()
	for _, f := range r.Findings {
		mark := marks[f.Level]
		if ascii {
			mark = map[Level]string{OK: "ok", Unknown: "?", Warning: "!", Problem: "x"}[f.Level]
		}
		fmt.Fprintf(&b, "%s %s: %s\n", mark, text.Clean(f.Check), text.Clean(f.Text))
		if f.Fix != "" {
			fmt.Fprintf(&b, "    %s\n", text.Clean(f.Fix))
		}
	}
	fmt.Fprintf(&b, "%s, %s", cli.Count(r.count(Problem), "problem"), cli.Count(r.count(Warning), "warning"))
	switch n := r.count(Unknown); {
	case n == 1:
		b.WriteString("; 1 check was not possible")
	case n > 1:
		fmt.Fprintf(&b, "; %d checks were not possible", n)
	}
	b.WriteString("\n")
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// utf8Locale reports whether the locale uses UTF-8, in which case the terminal can show the marks.
func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}
