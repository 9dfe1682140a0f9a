// Package change contains the hlnr commands for manifests that have not been applied yet. They check manifests, and
// show the changes and the releases that the manifests would cause.
//
//	lint.go      the lint command, which checks manifests without a cluster
//	files.go     the flag --filename
//	plan.go      the plan and diff commands
//	versions.go  versions that a change to an ImagePolicy adds or removes
//	fields.go    the fields that differ
package change

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/manifest"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/view/text"
)

// Commands are all commands in this package.
var Commands = []cli.NewCommand{newLintCommand, newPlanCommand, newDiffCommand}

// Finding is one fault in a manifest. Its JSON fields are an interface for scripts.
type Finding struct {
	File string `json:"file"`
	// Object is the kind and the name of the object.
	Object  string `json:"object"`
	Message string `json:"message"`
}

// lintReport is the output of lint.
type lintReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Objects is the number of checked hlnr.io objects. Skipped is the number of other objects.
	Objects  int       `json:"objects"`
	Skipped  int       `json:"skipped"`
	Findings []Finding `json:"findings"`
}

func newLintCommand(f *cli.Factory) *cobra.Command {
	var in files
	var output *cli.Output
	cmd := &cobra.Command{
		Use:     "lint -f FILE",
		Short:   "Check manifests as the API server does, without a cluster",
		GroupID: cli.GroupCheck,
		Long: `lint checks hlnr.io manifests against the schemas and rules of the CRDs with which hlnr was built. It
rejects unknown fields, and checks types, bounds and CEL rules; names, labels and annotations; and expressions, version
ranges, regular expressions and time zones, which only the manager reads. The command skips other kinds.
It checks a reference to an AnalysisTemplate or ClusterAnalysisTemplate if the files contain the template.
Checks of immutable fields, and of names that are already in use, require a cluster: see hlnr plan.

Exit codes: 0: all manifests are valid; 2: a file cannot be read; 3: there are findings.`,
		Example: `  hlnr lint -f shop.yaml
  kustomize build overlays/production | hlnr lint -f -`,
		Args: byFlag,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := lint(cmd.Context(), in, f.In)
			if err != nil {
				return err
			}
			if err := output.Print(f.Out, report, report.write, nil); err != nil {
				return err
			}
			if len(report.Findings) > 0 {
				return cli.No(nil)
			}
			return nil
		},
	}
	in.addFlag(cmd)
	output = cli.AddOutput(cmd, cli.FormatJSON, cli.FormatYAML)
	return cmd
}

func lint(ctx context.Context, in files, stdin io.Reader) (*lintReport, error) {
	documents, err := in.read(stdin)
	if err != nil {
		return nil, err
	}
	report := &lintReport{APIVersion: "view.hlnr.io/v1", Kind: "Lint", Findings: []Finding{}}
	var checked []runtime.Object // contains nil for each object that is not valid
	var origins []string
	for _, d := range documents {
		if !ours(d.object) {
			report.Skipped++
			continue
		}
		report.Objects++
		typed, faults := check(ctx, d.object)
		checked = append(checked, typed)
		for _, fault := range faults {
			report.Findings = append(report.Findings, Finding{d.file, d.object.Kind() + " " + d.object.Name(), fault})
		}
		origins = append(origins, d.file)
	}
	for i, o := range checked {
		if ms, ok := o.(*v1alpha1.Microservice); ok {
			if fault := sharedAnalysis(ms, checked); fault != "" {
				report.Findings = append(report.Findings, Finding{origins[i], "Microservice " + ms.Name, fault})
			}
		}
	}
	if report.Objects == 0 {
		return nil, cli.Usage(fmt.Errorf("--filename: no %s object found: set kind and apiVersion", v1alpha1.GroupVersion.Group))
	}
	return report, nil
}

func (r *lintReport) write(out io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(text.Clean(f.File+": "+f.Object+": "+f.Message) + "\n")
	}
	fmt.Fprintf(&b, "%s", cli.Count(r.Objects, "object"))
	if r.Skipped > 0 {
		fmt.Fprintf(&b, ", %d of other kinds skipped", r.Skipped)
	}
	if len(r.Findings) == 0 {
		b.WriteString(": valid\n")
	} else {
		fmt.Fprintf(&b, ": %s\n", cli.Count(len(r.Findings), "finding"))
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// ours reports whether an object belongs to the API group hlnr.io.
func ours(o manifest.Object) bool {
	group, _, found := strings.Cut(o.APIVersion(), "/")
	return found && group == v1alpha1.GroupVersion.Group
}

// check checks an object of the API group hlnr.io as the API server and the manager do.
func check(ctx context.Context, object manifest.Object) (runtime.Object, []string) {
	if v := object.APIVersion(); v != v1alpha1.GroupVersion.String() {
		return nil, []string{fmt.Sprintf("apiVersion: %s is unknown: use %s", v, v1alpha1.GroupVersion)}
	}
	if object.Name() == "" {
		if metadata, ok := object["metadata"].(map[string]any); !ok || metadata["generateName"] == nil {
			return nil, []string{"metadata.name: Required value: name or generateName is required"}
		}
	}
	typed, faults, err := manifest.Check(ctx, object)
	if err != nil {
		return nil, []string{"kind: " + strings.TrimPrefix(cli.Unknown("kind in "+v1alpha1.GroupVersion.String(), object.Kind(), manifest.Kinds()).Error(), "kind: ")}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return typed, append(metadata(typed), semantics(typed)...)
}

// metadata checks the metadata as the API server does for all kinds: names, labels, and the size of annotations.
func metadata(o runtime.Object) (faults []string) {
	accessor, err := meta.Accessor(o.DeepCopyObject())
	if err != nil {
		return []string{"metadata: " + err.Error()}
	}
	if accessor.GetNamespace() == "" { // The kind is cluster-scoped, or the namespace is set later.
		accessor.SetNamespace(metav1.NamespaceDefault)
	}
	if accessor.GetName() == "" && accessor.GetGenerateName() != "" {
		accessor.SetName(accessor.GetGenerateName() + "00000") // The API server appends a suffix.
	}
	for _, fault := range validation.ValidateObjectMetaAccessor(accessor, true, validation.NameIsDNSSubdomain, field.NewPath("metadata")) {
		faults = append(faults, fault.Error())
	}
	return faults
}

// sharedAnalysis returns the reason why a Microservice cannot use the template to which it refers. The reason is empty if the
// Microservice can use the template, or if the objects do not contain the template, which might exist only in the cluster.
func sharedAnalysis(ms *v1alpha1.Microservice, objects []runtime.Object) string {
	for _, o := range objects {
		var t *analysistemplate.Template
		switch o := o.(type) {
		case *v1alpha1.AnalysisTemplate:
			if analysistemplate.Uses(ms, o) {
				t = analysistemplate.Namespaced(o)
			}
		case *v1alpha1.ClusterAnalysisTemplate:
			if ms.Namespace != "" && analysistemplate.Uses(ms, o) {
				t = analysistemplate.Cluster(o)
			}
		}
		if t == nil || analysistemplate.Check(t) != nil { // A fault in the template is reported for the template, not for the Microservice.
			continue
		}
		if _, err := analysistemplate.Resolve(ms.Spec.UpdateStrategy.Canary.AnalysisTemplateRef, ms.Namespace, t); err != nil {
			return err.Message
		}
	}
	return ""
}

// templateFault returns the faults in an analysis template.
func templateFault(t *analysistemplate.Template) []string {
	if err := analysistemplate.Check(t); err != nil {
		return []string{err.Message}
	}
	return nil
}

// semantics checks fields that the manager parses and that a schema cannot check.
func semantics(o runtime.Object) (faults []string) {
	switch o := o.(type) {
	case *v1alpha1.AnalysisTemplate:
		return templateFault(analysistemplate.Namespaced(o))
	case *v1alpha1.ClusterAnalysisTemplate:
		return templateFault(analysistemplate.Cluster(o))
	case *v1alpha1.Microservice:
		c := o.Spec.UpdateStrategy.Canary
		if c == nil {
			return nil
		}
		if c.Analysis != nil {
			if err := analysis.Check(c.Analysis); err != nil {
				faults = append(faults, "spec.updateStrategy.canary.analysis."+err.Error())
			}
		}
		for i, st := range c.Steps {
			if st.Window == nil {
				continue
			}
			if _, err := time.LoadLocation(st.Window.TimeZone); err != nil {
				faults = append(faults, fmt.Sprintf("spec.updateStrategy.canary.steps[%d].window.timeZone: there is no time zone %q; use a name from the IANA time zone database, such as Europe/Zurich", i, st.Window.TimeZone))
			}
		}
	case *v1alpha1.NotificationPolicy:
		for i := range o.Spec.Receivers {
			if t := o.Spec.Receivers[i].Template; t != "" {
				if err := notify.CheckTemplate(t); err != nil {
					faults = append(faults, fmt.Sprintf("spec.receivers[%d].template: %s", i, err))
				}
			}
		}
	case *v1alpha1.ImagePolicy:
		if err := imagepolicy.Check(o); err != nil {
			faults = append(faults, err.Error())
		}
	}
	return faults
}
