package change

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/forecast"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/view/text"
)

// Report contains the predicted effects of applying manifests. Its JSON fields are an interface for scripts.
type Report struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Objects    []Object `json:"objects"`
}

// Object contains the predicted effects of applying one object.
type Object struct {
	Kind string `json:"kind"`
	// Namespace is the namespace of the object, empty for a cluster-scoped kind.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// New reports whether the object does not exist yet.
	New bool `json:"new,omitempty"`
	// NotAllowed contains the messages with which the schema or the API server rejects the change. Such a change has no plan.
	NotAllowed []string `json:"notAllowed,omitempty"`
	// Fields contains the differences in the specification, the labels and the annotations.
	Fields []Field `json:"fields,omitempty"`
	// NewRelease reports whether the configuration of releases changes. If it does, every selected version is released again.
	NewRelease bool `json:"newRelease,omitempty"`
	// Forecast is the forecast for a Microservice. It contains only the events that the change causes.
	Forecast *forecast.Forecast `json:"forecast,omitempty"`
	// Hosts describes the changes to the hosts of a NetworkPolicy.
	Hosts []string `json:"hosts,omitempty"`
	// Versions describes the versions that an ImagePolicy would additionally offer, or no longer offer.
	Versions []string `json:"versions,omitempty"`
	// Notes contains additional notes for users.
	Notes []string `json:"notes,omitempty"`
}

func (o Object) name() string {
	if o.Kind == "Microservice" {
		return o.Name
	}
	return o.Kind + " " + o.Name
}

func newPlanCommand(f *cli.Factory) *cobra.Command {
	return command(f, &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show the effects of applying the manifests: releases, steps, times, pods and hosts",
		Long: `plan compares manifests with the stored objects, and simulates the change with the manager's planner.
It shows which releases would start, their steps with the shortest possible times, the number of additional pods,
the hosts that would move, and the recorded versions that an ImagePolicy would start or stop
offering. The simulation assumes that pods become available immediately, and that hooks and measurements
pass. A field that a manifest does not set counts as removed. The exceptions are pins, pauses and ended groups
that were set with hlnr, kubectl edit or kubectl patch, and labels and annotations that were not set by the last
"kubectl apply". The command writes nothing to the cluster.

Exit codes: 0: the manifests can be applied; 2: a file cannot be read; 3: a change is not allowed.`,
		Example: `  hlnr plan -f shop.yaml
  kustomize build overlays/production | hlnr plan -f - -o json`,
	}, func(r *Report) func(io.Writer) error { return r.writePlan })
}

func newDiffCommand(f *cli.Factory) *cobra.Command {
	return command(f, &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show which fields would change if you applied the manifests, and whether new releases would start",
		Long: `diff lists the fields of manifests that differ from the stored objects, and reports whether the change would
start new releases or take effect in place. Values of fields whose names suggest a secret are not shown.

Exit codes: 0: the manifests can be applied; 2: a file cannot be read; 3: a change is not allowed.`,
		Example: `  hlnr diff -f shop.yaml`,
	}, func(r *Report) func(io.Writer) error { return r.writeDiff })
}

// command completes the plan or diff command. The text parameter returns the function that writes a report as text.
func command(f *cli.Factory, cmd *cobra.Command, text func(*Report) func(io.Writer) error) *cobra.Command {
	var in files
	var output *cli.Output
	cmd.GroupID, cmd.Args = cli.GroupCheck, byFlag
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		documents, err := in.read(f.In)
		if err != nil {
			return err
		}
		c, err := f.Client()
		if err != nil {
			return err
		}
		namespace, err := f.Namespace()
		if err != nil {
			return err
		}
		p := &planner{stored: c, client: withFiles(c, documents, namespace), namespace: namespace, now: f.Now()}
		report := &Report{APIVersion: "view.hlnr.io/v1", Kind: "Plan", Objects: []Object{}}
		for _, d := range documents {
			if !ours(d.object) {
				continue
			}
			o, err := p.object(cmd.Context(), d)
			if err != nil {
				return err
			}
			report.Objects = append(report.Objects, o)
		}
		if len(report.Objects) == 0 {
			return cli.Usage(fmt.Errorf("--filename: no %s object found: set kind and apiVersion", v1alpha1.GroupVersion.Group))
		}
		if err := output.Print(f.Out, report, text(report), nil); err != nil {
			return err
		}
		if slices.ContainsFunc(report.Objects, func(o Object) bool { return len(o.NotAllowed) > 0 }) {
			return cli.No(nil)
		}
		return nil
	}
	in.addFlag(cmd)
	output = cli.AddOutput(cmd, cli.FormatJSON, cli.FormatYAML)
	return cmd
}

// planner predicts the effects of applying objects, one after another.
type planner struct {
	// stored reads only objects in the cluster. client also reads ImagePolicies and analysis templates from the files.
	stored, client client.WithWatch
	namespace      string
	now            time.Time
}

// withFiles returns a client that also reads ImagePolicies and analysis templates from the files if they do not exist in the cluster
// yet, because a Microservice in the same files can use them.
func withFiles(c client.WithWatch, documents []document, namespace string) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, obj, options...)
			if !apierrors.IsNotFound(err) {
				return err
			}
			for _, d := range documents {
				if d.object.Name() != key.Name || key.Namespace != "" && cmp.Or(d.object.Namespace(), namespace) != key.Namespace {
					continue
				}
				if typed, faults := check(ctx, d.object); len(faults) == 0 && copyUsed(typed, obj) {
					obj.SetNamespace(key.Namespace)
					return nil
				}
			}
			return err
		},
	})
}

// copyUsed copies an object into another object of the same kind, if Microservices use objects of this kind. It reports whether it
// copied the object.
func copyUsed(from runtime.Object, into client.Object) bool {
	switch into := into.(type) {
	case *v1alpha1.ImagePolicy:
		return copyTo(into, from)
	case *v1alpha1.AnalysisTemplate:
		return copyTo(into, from)
	case *v1alpha1.ClusterAnalysisTemplate:
		return copyTo(into, from)
	}
	return false
}

func copyTo[T any, P interface {
	*T
	DeepCopyInto(*T)
}](into P, from runtime.Object) bool {
	typed, is := from.(P)
	if is {
		typed.DeepCopyInto(into)
	}
	return is
}

// object returns the predicted effects of applying one object from a file.
func (p *planner) object(ctx context.Context, d document) (Object, error) {
	out := Object{Kind: d.object.Kind(), Namespace: d.object.Namespace(), Name: d.object.Name()}
	typed, faults := check(ctx, d.object)
	if len(faults) > 0 {
		out.NotAllowed = faults
		return out, nil
	}
	after, ok := typed.(client.Object)
	if !ok {
		return out, fmt.Errorf("%s: %T is not an object", d.file, typed)
	}
	if ofCluster(after) {
		out.Namespace = ""
	} else {
		out.Namespace = cmp.Or(out.Namespace, p.namespace)
	}
	after.SetNamespace(out.Namespace)
	before, ok := after.DeepCopyObject().(client.Object)
	if !ok {
		return out, fmt.Errorf("%s: %T is not an object", d.file, typed)
	}
	err := p.stored.Get(ctx, client.ObjectKeyFromObject(after), before)
	switch {
	case apierrors.IsNotFound(err):
		out.New, before = true, nil
	case err != nil:
		return out, err
	default:
		merge(before, after)
	}
	if out.Fields, err = fieldsOf(before, after); err != nil {
		return out, err
	}
	if err := p.serverCheck(ctx, &out, before, after); err != nil || len(out.NotAllowed) > 0 {
		return out, err
	}
	switch after := after.(type) {
	case *v1alpha1.Microservice:
		live, _ := before.(*v1alpha1.Microservice)
		err = p.microservice(ctx, &out, live, after)
	case *v1alpha1.NetworkPolicy:
		live, _ := before.(*v1alpha1.NetworkPolicy)
		out.Hosts, err = p.hosts(ctx, live, after)
	case *v1alpha1.ImagePolicy:
		live, _ := before.(*v1alpha1.ImagePolicy)
		if live == nil || len(out.Fields) > 0 {
			out.Versions = versions(live, after)
		}
	}
	return out, err
}

// ofCluster reports whether the kind of an object is cluster-scoped.
func ofCluster(o client.Object) bool {
	switch o.(type) {
	case *v1alpha1.ClusterFreeze, *v1alpha1.ClusterAnalysisTemplate:
		return true
	}
	return false
}

// merge adds the metadata and the status of the stored object to the object from a manifest. It keeps fields that hlnr or a user
// set separately, as kubectl apply does.
func merge(before, after client.Object) {
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetGeneration(before.GetGeneration())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetFinalizers(before.GetFinalizers())
	after.SetManagedFields(before.GetManagedFields())
	applied := lastApplied(before)
	after.SetLabels(mergeKeys(before.GetLabels(), after.GetLabels(), applied.Labels))
	after.SetAnnotations(mergeKeys(before.GetAnnotations(), after.GetAnnotations(), applied.Annotations))
	live, is := before.(*v1alpha1.Microservice)
	ms, too := after.(*v1alpha1.Microservice)
	if !is || !too {
		return
	}
	ms.Status = live.Status
	byHand := func(path string) bool {
		return slices.ContainsFunc(live.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return (e.Manager == cli.FieldManager || e.Manager == "kubectl-edit" || e.Manager == "kubectl-patch") && e.FieldsV1 != nil && strings.Contains(e.FieldsV1.GetRawString(), `"f:`+path+`"`)
		})
	}
	if ms.Spec.UpdateStrategy.Manual == nil && byHand("manual") {
		ms.Spec.UpdateStrategy.Manual = live.Spec.UpdateStrategy.Manual
	}
	if !ms.Spec.Paused && byHand("paused") {
		ms.Spec.Paused = live.Spec.Paused
	}
	if len(ms.Spec.EndedGroups) == 0 && byHand("endedGroups") {
		ms.Spec.EndedGroups = live.Spec.EndedGroups
	}
}

// lastApplied returns the metadata of the last kubectl apply, if an annotation of the object records it.
func lastApplied(o client.Object) metav1.ObjectMeta {
	var applied struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if raw := o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; raw == "" || json.Unmarshal([]byte(raw), &applied) != nil {
		return metav1.ObjectMeta{}
	}
	return applied.Metadata
}

// trackedBy is the prefix of the labels and annotations that Argo CD adds to objects.
const trackedBy = "argocd.argoproj.io/"

// mergeKeys returns the labels or annotations after an apply: the keys in the manifest, and the stored keys that the last apply did
// not set or that Argo CD added.
func mergeKeys(before, after, applied map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range before {
		if _, was := applied[k]; !was || strings.HasPrefix(k, trackedBy) {
			out[k] = v
		}
	}
	maps.Copy(out, after)
	return out
}

// keysOf returns the labels or annotations that differ, except the annotation that kubectl apply sets.
func keysOf(path string, before, after map[string]string) (out []Field) {
	keys := slices.Collect(maps.Keys(before))
	keys = slices.AppendSeq(keys, maps.Keys(after))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		var values [2]any
		for i, m := range []map[string]string{before, after} {
			if v, set := m[k]; set {
				values[i] = v
			}
		}
		if k != corev1.LastAppliedConfigAnnotation {
			out = append(out, fields(path+"["+k+"]", values[0], values[1])...)
		}
	}
	return out
}

// fieldsOf returns the differences in the specification, the labels and the annotations.
func fieldsOf(before, after client.Object) ([]Field, error) {
	var specs [2]any
	for i, o := range []client.Object{before, after} {
		if o == nil {
			continue
		}
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.GetName(), err)
		}
		specs[i] = raw["spec"]
	}
	if specs[0] == nil {
		return nil, nil // The fields of a new object are not listed, because all of them are new.
	}
	return slices.Concat(
		keysOf("metadata.labels", before.GetLabels(), after.GetLabels()),
		keysOf("metadata.annotations", before.GetAnnotations(), after.GetAnnotations()),
		fields("spec", specs[0], specs[1]),
	), nil
}

// serverCheck does a dry run of the change on the API server, which checks immutable fields and admission policies. If the user is
// not allowed to write the object, serverCheck adds a note.
func (p *planner) serverCheck(ctx context.Context, out *Object, before, after client.Object) error {
	if before != nil && len(out.Fields) == 0 {
		return nil
	}
	probe, ok := after.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", after)
	}
	probe.SetManagedFields(nil)
	var err error
	if before == nil {
		err = p.client.Create(ctx, probe, client.DryRunAll)
	} else {
		probe.SetResourceVersion(before.GetResourceVersion())
		err = p.client.Update(ctx, probe, client.DryRunAll)
	}
	switch {
	case err == nil, apierrors.IsConflict(err):
	case cli.MissingPermission(err) != nil:
		out.Notes = append(out.Notes, "not checked by the API server: you are not allowed to write this object")
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		out.NotAllowed = []string{err.Error()}
	case apierrors.IsNotFound(err):
		out.Notes = append(out.Notes, fmt.Sprintf("not checked by the API server: %v", err))
	default:
		return err
	}
	return nil
}

// microservice simulates the rollouts with and without the change, and reports the events that only the change causes.
func (p *planner) microservice(ctx context.Context, out *Object, before, after *v1alpha1.Microservice) error {
	changed, err := forecast.Read(ctx, p.client, after, p.now)
	if err != nil {
		return fmt.Errorf("simulate %s: %w", after.Name, err)
	}
	played := changed.Play(p.now)
	if before != nil {
		now, err := forecast.Read(ctx, p.client, before, p.now)
		if err != nil {
			return fmt.Errorf("simulate %s: %w", before.Name, err)
		}
		out.NewRelease = now.Config != changed.Config
		anyway := now.Play(p.now)
		played.Events = slices.DeleteFunc(played.Events, func(e forecast.Event) bool { return slices.Contains(anyway.Events, e) })
		if len(played.Events) == 0 {
			played = forecast.Forecast{Events: []forecast.Event{}}
		}
	}
	out.Forecast = &played
	return nil
}

// hosts describes the hosts that a NetworkPolicy gains, loses or routes differently. It considers the domain entries of the
// specification, and the hosts that result from these entries for the existing groups.
func (p *planner) hosts(ctx context.Context, before, after *v1alpha1.NetworkPolicy) ([]string, error) {
	ms := &v1alpha1.Microservice{}
	err := p.client.Get(ctx, client.ObjectKey{Namespace: after.Namespace, Name: after.MicroserviceName()}, ms)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the Microservice of NetworkPolicy %s: %w", after.Name, err)
	}
	ms.Status.Convert()
	out := entries(before, after)
	var was []string
	if before != nil {
		was = traffic.Hosts(before, ms)
	}
	is := traffic.Hosts(after, ms)
	for _, h := range is {
		if !slices.Contains(was, h) && !slices.Contains(out, "host "+h+" is added") {
			out = append(out, "host "+h+" is added")
		}
	}
	for _, h := range was {
		if !slices.Contains(is, h) && !slices.Contains(out, "host "+h+" is removed") {
			out = append(out, "host "+h+" is removed")
		}
	}
	return out, nil
}

// entries describes the domain entries that a NetworkPolicy gains, loses or routes differently.
func entries(before, after *v1alpha1.NetworkPolicy) []string {
	was := map[string]v1alpha1.Domain{}
	if before != nil {
		for _, d := range before.Spec.Domains {
			was[d.Domain+d.Path+d.Port] = d
		}
	}
	var out []string
	for _, d := range after.Spec.Domains {
		key := d.Domain + d.Path + d.Port
		old, there := was[key]
		delete(was, key)
		raw, err := fieldsOfDomain(old, d)
		switch {
		case !there:
			out = append(out, fmt.Sprintf("host %s is added", d.Domain))
		case err != nil || len(raw) > 0:
			out = append(out, fmt.Sprintf("host %s changes: %s", d.Domain, paths(raw)))
		}
	}
	for _, d := range was {
		out = append(out, fmt.Sprintf("host %s is removed", d.Domain))
	}
	slices.Sort(out)
	return out
}

func fieldsOfDomain(before, after v1alpha1.Domain) ([]Field, error) {
	x, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&before)
	if err != nil {
		return nil, err
	}
	y, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&after)
	if err != nil {
		return nil, err
	}
	return fields("", x, y), nil
}

// maxPaths is the maximum number of fields in one line.
const maxPaths = 6

func paths(all []Field) string {
	var names []string
	for _, f := range all {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(f.Path, "spec."), "."))
	}
	if more := len(names) - maxPaths; more > 0 {
		names = append(names[:maxPaths], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// needs describes the time, the approvals and the additional pods that a rollout needs.
func needs(f *forecast.Forecast) string {
	var parts []string
	if f.Duration > 0 {
		parts = append(parts, f.Duration.Round(time.Second).String()+" at least")
	}
	if f.People > 0 {
		parts = append(parts, cli.Count(f.People, "approval"))
	}
	if f.Pods > 0 {
		parts = append(parts, "+"+cli.Count(f.Pods, "pod")+" during the rollout")
	}
	return strings.Join(parts, ", ")
}

func (r *Report) writePlan(out io.Writer) error {
	var b page
	for _, o := range r.Objects {
		b.line("", o.name()+": "+o.headline())
		for _, line := range slices.Concat(o.NotAllowed, o.Hosts, o.Versions, o.Notes) {
			b.line("  ", line)
		}
		if f := o.Forecast; f != nil && len(f.Events) > 0 {
			if n := needs(f); n != "" {
				b.line("  ", n)
			}
			for _, line := range f.Lines() {
				b.line("  ", line)
			}
		}
	}
	return b.write(out)
}

// headline returns the text for the first line about one object.
func (o Object) headline() string {
	switch {
	case len(o.NotAllowed) > 0:
		return "not allowed"
	case o.New:
		return "is created"
	case o.NewRelease && len(o.Fields) == 0:
		return "is released again with a new configuration, although no field differs"
	case o.NewRelease:
		return "is released again with the new configuration: " + paths(o.Fields)
	case len(o.Fields) == 0:
		return "nothing changes"
	}
	return "changes in place, without a new release: " + paths(o.Fields)
}

func (r *Report) writeDiff(out io.Writer) error {
	var b page
	for _, o := range r.Objects {
		b.line("", o.name()+": "+o.headline())
		for _, line := range o.NotAllowed {
			b.line("  ", line)
		}
		for _, f := range o.Fields {
			b.line("  ", f.Path)
			if f.Before != "" {
				b.line("  - ", f.Before)
			}
			if f.After != "" {
				b.line("  + ", f.After)
			}
		}
	}
	return b.write(out)
}

// page collects lines of output.
type page struct{ b strings.Builder }

// line adds one line. It removes line breaks and control characters, which text from objects and files can contain.
func (p *page) line(indent, line string) { p.b.WriteString(indent + text.Clean(line) + "\n") }

func (p *page) write(out io.Writer) error {
	if _, err := io.WriteString(out, p.b.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
