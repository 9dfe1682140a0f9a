package act

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/freeze"
)

// freezeOptions are the flags of freeze and thaw.
type freezeOptions struct {
	name, until, reason, selector, namespaces string
	indefinite, all, dryRun, force            bool
	output                                    *cli.Output
	// uid and generation identify the only freeze that thaw may delete. If uid is empty, thaw does not check them.
	uid        string
	generation int64
}

// addFlags adds the flags that freeze and thaw share.
func (o *freezeOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "freeze or thaw the cluster, with a ClusterFreeze instead of a Freeze")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show what would happen, without changing anything")
	o.output = cli.AddOutput(cmd, formats...)
}

// defaultFreeze is the default of --name.
const defaultFreeze = "freeze"

func newFreezeCommand(f *cli.Factory) *cobra.Command {
	o := &freezeOptions{}
	cmd := &cobra.Command{
		Use:     "freeze [NAMESPACE]",
		Short:   "Prevent the releases in a namespace, or in the cluster, from starting and from getting more traffic",
		GroupID: cli.GroupAct,
		Long: `freeze creates a Freeze in NAMESPACE or, with --all-namespaces, a ClusterFreeze. NAMESPACE defaults to --namespace, or
to the namespace of the kubeconfig. Until the freeze ends, no new release starts,
and no canary gets more traffic. Rollbacks, pins to retained releases, and the decision Deprecate still work. When the freeze
ends, releases continue automatically.`,
		Example: `  hlnr freeze shop --until "Mon 08:00" --reason "trade fair"

  # Show how many services would be frozen
  hlnr freeze --all-namespaces --until 4h --reason "cluster upgrade" --dry-run

  # An incident without a known end
  hlnr freeze shop --selector tier=web --indefinite --reason "incident 4711"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.scope(cmd.Context(), f, args)
			if err != nil {
				return err
			}
			done, err := o.freeze(cmd.Context(), s)
			if err != nil {
				return err
			}
			return done.print(s.Out, o.output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", defaultFreeze, "name of the Freeze or ClusterFreeze")
	flags.StringVar(&o.until, "until", "", `end: 4h, 3d, Mon, "Mon 08:00", 18:00, a date or an RFC 3339 time`)
	flags.BoolVar(&o.indefinite, "indefinite", false, "freeze until you run hlnr thaw; an alternative to --until")
	addReason(flags, &o.reason, 128, "reason, shown with each waiting release; required")
	flags.StringVarP(&o.selector, "selector", "l", "", "selector of the Microservices to freeze, such as tier=web; defaults to all")
	flags.StringVar(&o.namespaces, "namespace-selector", "", "selector of the namespaces to freeze, with --all-namespaces; defaults to all")
	o.addFlags(cmd)
	return cmd
}

func newThawCommand(f *cli.Factory) *cobra.Command {
	o := &freezeOptions{}
	cmd := &cobra.Command{
		Use:     "thaw [NAMESPACE]",
		Short:   "End a freeze",
		GroupID: cli.GroupAct,
		Long: `thaw deletes the Freeze that applies to a namespace or, with --all-namespaces, the ClusterFreeze. Waiting releases
continue immediately. If several freezes apply, or if the freeze has spec.periods, specify the freeze with --name.`,
		Example: `  hlnr thaw shop

  hlnr thaw --all-namespaces --name upgrade`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.scope(cmd.Context(), f, args)
			if err != nil {
				return err
			}
			done, err := o.thaw(cmd.Context(), s)
			if err != nil {
				return err
			}
			return done.print(s.Out, o.output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "name of the Freeze or ClusterFreeze; defaults to the only freeze that applies")
	flags.BoolVar(&o.force, "force", false, "delete the freeze even if it is managed by a GitOps tool, which may create it again")
	o.addFlags(cmd)
	return cmd
}

// scope returns the connection to the cluster, and the namespace from the argument or the flags of the command. It returns an error if the
// namespace does not exist.
func (o *freezeOptions) scope(ctx context.Context, f *cli.Factory, args []string) (*scope, error) {
	s, err := newScope(f)
	if err != nil {
		return nil, err
	}
	_, explicit, err := f.Kubeconfig().Namespace()
	if err != nil {
		return nil, err
	}
	switch {
	case o.all && (len(args) > 0 || explicit):
		return nil, cli.Usage(fmt.Errorf("name a namespace, or use --all-namespaces, but not both"))
	case !o.all && o.namespaces != "":
		return nil, cli.Usage(fmt.Errorf("--namespace-selector requires --all-namespaces"))
	case o.all:
		s.namespace = ""
		return s, nil
	case len(args) > 0 && explicit && args[0] != s.namespace:
		return nil, cli.Usage(fmt.Errorf("the argument is %q, but --namespace is %q: omit one of them", args[0], s.namespace))
	case len(args) > 0:
		s.namespace = args[0]
	}
	return s, cli.KnownNamespace(ctx, s.client, s.namespace)
}

// rules returns the rules of the freeze that the flags describe.
func (o *freezeOptions) rules(now time.Time) (v1alpha1.FreezeRules, error) {
	rules := v1alpha1.FreezeRules{Reason: strings.TrimSpace(o.reason), Indefinite: o.indefinite}
	switch {
	case rules.Reason == "":
		return rules, fmt.Errorf("--reason is required: it is shown with each waiting release")
	case o.indefinite == (o.until != ""):
		return rules, fmt.Errorf("set --until, or --indefinite for a freeze without an end")
	}
	if o.until != "" {
		end, err := until(o.until, now)
		if err != nil {
			return rules, err
		}
		rules.Until = new(metav1.NewTime(end))
	}
	var err error
	if rules.Selector, err = selectorOf("--selector", o.selector); err != nil {
		return rules, err
	}
	return rules, nil
}

// selectorOf parses a label selector as kubectl does. If the text is empty, it returns nil, which selects all objects.
func selectorOf(flag, text string) (*metav1.LabelSelector, error) {
	if text == "" {
		return nil, nil
	}
	s, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return s, nil
}

// object returns the Freeze or ClusterFreeze that the flags describe.
func (o *freezeOptions) object(s *scope, by string) (client.Object, error) {
	rules, err := o.rules(s.Now())
	if err != nil {
		return nil, cli.Usage(err)
	}
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: o.name, Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: by}}
	if !o.all {
		return &v1alpha1.Freeze{ObjectMeta: meta, Spec: v1alpha1.FreezeSpec{FreezeRules: rules}}, nil
	}
	namespaces, err := selectorOf("--namespace-selector", o.namespaces)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return &v1alpha1.ClusterFreeze{ObjectMeta: meta, Spec: v1alpha1.ClusterFreezeSpec{FreezeRules: rules, NamespaceSelector: namespaces}}, nil
}

// freezeOf converts a Freeze or a ClusterFreeze to the type that package freeze evaluates.
func freezeOf(o client.Object) freeze.Freeze {
	switch o := o.(type) {
	case *v1alpha1.Freeze:
		return freeze.Namespaced(o)
	case *v1alpha1.ClusterFreeze:
		return freeze.Cluster(o)
	}
	return freeze.Freeze{}
}

// freeze creates the Freeze or ClusterFreeze. It replaces a freeze that has the same name and has ended.
func (o *freezeOptions) freeze(ctx context.Context, s *scope) (*Done, error) {
	by, err := s.me(ctx)
	if err != nil {
		return nil, err
	}
	obj, err := o.object(s, by)
	if err != nil {
		return nil, err
	}
	f := freezeOf(obj)
	services, err := s.frozen(ctx, f)
	if err != nil {
		return nil, err
	}
	options := []client.CreateOption{client.FieldOwner(cli.FieldManager)}
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	write, cancel := whole(ctx)
	defer cancel()
	err = s.client.Create(write, obj, options...)
	if apierrors.IsAlreadyExists(err) {
		err = o.replace(write, s, obj)
	}
	if err != nil {
		return nil, err
	}
	done := o.done(s, obj, "Freeze", by)
	done.Reason = f.Rules.Reason
	end := fmt.Sprintf("by %s until you run %q", by, o.thawCommand(s))
	if f.Rules.Until != nil {
		done.Until = f.Rules.Until.UTC().Format(time.RFC3339)
		end = "until " + done.Until + " by " + by
	}
	done.text = fmt.Sprintf("%s: frozen %s; %s", o.where(s), end, cli.Count(len(services), "Microservice"))
	if len(services) == 0 {
		done.text += " match now; the freeze takes effect as soon as one matches"
	}
	if o.dryRun {
		for _, name := range services {
			done.Effects = append(done.Effects, name+" is frozen")
		}
	}
	return done, nil
}

// thawCommand returns the command that ends the freeze.
func (o *freezeOptions) thawCommand(s *scope) string {
	words := []string{s.Program(), "thaw", s.namespace}
	if o.all {
		words[2] = "--all-namespaces"
	}
	if o.name != defaultFreeze {
		words = append(words, "--name", o.name)
	}
	return strings.Join(words, " ")
}

// replace deletes a freeze that has the same name and has ended, and creates the new freeze. In a dry run, it only simulates the deletion,
// because the API server does not accept a second object with the name of an existing one.
func (o *freezeOptions) replace(ctx context.Context, s *scope, obj client.Object) error {
	old := obj.DeepCopyObject().(client.Object)
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), old); err != nil {
		return err
	}
	f := freezeOf(old)
	if state := f.State(s.Now()); !state.Over {
		return cli.No(fmt.Errorf("%s already exists (%q): end it with %q, or choose another --name", f, state.Reason, o.thawCommand(s)))
	}
	if owner := ownerOf(old.GetManagedFields(), "reason"); owner.Owns {
		return cli.No(fmt.Errorf("%s has ended, but is managed by %s (field manager %s), which would restore it: choose another --name, or change it in Git", f, owner.Tool, owner.Manager))
	}
	uid, version := old.GetUID(), old.GetResourceVersion()
	options := []client.DeleteOption{client.Preconditions{UID: &uid, ResourceVersion: &version}}
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	if err := s.client.Delete(ctx, old, options...); err != nil || o.dryRun {
		return err
	}
	obj.SetResourceVersion("")
	return s.client.Create(ctx, obj, client.FieldOwner(cli.FieldManager))
}

// frozen returns the sorted names of the Microservices that a freeze selects.
func (s *scope) frozen(ctx context.Context, f freeze.Freeze) ([]string, error) {
	var list v1alpha1.MicroserviceList
	if err := s.client.List(ctx, &list, client.InNamespace(f.Namespace)); err != nil {
		return nil, err
	}
	labels := map[string]map[string]string{}
	if f.NeedsNamespaceLabels() {
		var namespaces corev1.NamespaceList
		if err := s.client.List(ctx, &namespaces); err != nil {
			return nil, err
		}
		for i := range namespaces.Items {
			labels[namespaces.Items[i].Name] = namespaces.Items[i].Labels
		}
	}
	var names []string
	for i := range list.Items {
		ms := &list.Items[i]
		if f.Selects(freeze.Subject{Namespace: ms.Namespace, Name: ms.Name, Labels: ms.Labels, NamespaceLabels: labels[ms.Namespace]}) {
			names = append(names, ms.Namespace+"/"+ms.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// frozenBy describes the freeze that applies to a Microservice now, with its end and its reason. It returns an empty string if no freeze
// applies, or if the user is not allowed to read the freeze. A user with permissions in only one namespace cannot list ClusterFreezes.
func (s *scope) frozenBy(ctx context.Context, ms *v1alpha1.Microservice) string {
	var freezes v1alpha1.FreezeList
	var clusterFreezes v1alpha1.ClusterFreezeList
	// Errors are ignored, because the action does not depend on these lists: a list that cannot be read remains empty.
	_ = s.client.List(ctx, &freezes, client.InNamespace(ms.Namespace))
	_ = s.client.List(ctx, &clusterFreezes)
	all := freeze.All(freezes.Items, clusterFreezes.Items)
	subject := freeze.Subject{Namespace: ms.Namespace, Name: ms.Name, Labels: ms.Labels}
	if slices.ContainsFunc(all, freeze.Freeze.NeedsNamespaceLabels) {
		var namespace corev1.Namespace
		_ = s.client.Get(ctx, client.ObjectKey{Name: ms.Namespace}, &namespace)
		subject.NamespaceLabels = namespace.Labels
	}
	f := freeze.Of(all, subject, s.Now())
	if f == nil {
		return ""
	}
	end := "indefinite"
	if !f.Until.IsZero() {
		end = "until " + f.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s (%q, %s)", f.Name, f.Reason, end)
}

// where describes where the freeze applies: in the cluster or in a namespace.
func (o *freezeOptions) where(s *scope) string {
	if o.all {
		return "cluster"
	}
	return "namespace " + s.namespace
}

// done returns the result of an action on a freeze.
func (o *freezeOptions) done(s *scope, obj client.Object, action, by string) *Done {
	resource := "freeze.hlnr.io/"
	if o.all {
		resource = "clusterfreeze.hlnr.io/"
	}
	return &Done{Action: action, Object: resource + obj.GetName(), Namespace: s.namespace, By: by, DryRun: o.dryRun}
}

// thaw deletes the freeze that applies now, or the freeze that --name specifies.
func (o *freezeOptions) thaw(ctx context.Context, s *scope) (*Done, error) {
	obj, err := o.find(ctx, s)
	if err != nil {
		return nil, err
	}
	if owner := ownerOf(obj.GetManagedFields(), "reason"); owner.Owns && !o.force {
		return nil, cli.No(fmt.Errorf("%s is managed by %s (field manager %s), which would create it again: remove it in Git, or use --force", freezeOf(obj), owner.Tool, owner.Manager))
	}
	by, err := s.me(ctx)
	if err != nil {
		return nil, err
	}
	var options []client.DeleteOption
	if o.dryRun {
		options = append(options, client.DryRunAll)
	}
	uid := obj.GetUID()
	if o.uid != "" && (o.uid != string(uid) || o.generation != obj.GetGeneration()) {
		return nil, cli.No(fmt.Errorf("%s was changed or replaced after the preview: nothing was deleted", freezeOf(obj)))
	}
	write, cancel := whole(ctx)
	defer cancel()
	if err := s.client.Delete(write, obj, append(options, client.Preconditions{UID: &uid})...); err != nil {
		return nil, err
	}
	done := o.done(s, obj, "Thaw", by)
	done.uid, done.generation = string(uid), obj.GetGeneration()
	done.text = fmt.Sprintf("%s: %s is deleted; waiting releases continue", o.where(s), described(freezeOf(obj), s.Now()))
	return done, nil
}

// described returns the name of a freeze with its author, its end and its reason.
func described(f freeze.Freeze, now time.Time) string {
	text, state := f.String(), f.State(now)
	if f.By != "" {
		text += " by " + f.By
	}
	switch {
	case state.Over:
		return fmt.Sprintf("%s (%q, ended)", text, state.Reason)
	case state.Until.IsZero():
		return fmt.Sprintf("%s (%q, indefinite)", text, state.Reason)
	}
	return fmt.Sprintf("%s (%q, until %s)", text, state.Reason, state.Until.UTC().Format(time.RFC3339))
}

// find returns the freeze that the thaw command ends.
func (o *freezeOptions) find(ctx context.Context, s *scope) (client.Object, error) {
	objects, err := o.list(ctx, s)
	if err != nil {
		return nil, err
	}
	var names []string
	var active []client.Object
	for _, obj := range objects {
		if obj.GetName() == o.name {
			return obj, nil
		}
		names = append(names, obj.GetName())
		if freezeOf(obj).State(s.Now()).Active {
			active = append(active, obj)
		}
	}
	switch {
	case o.name != "":
		return nil, cli.Unknown("freeze of "+o.where(s), o.name, names)
	case len(active) == 0:
		return nil, cli.No(fmt.Errorf("%s is not frozen", o.where(s)))
	case len(active) > 1:
		names = nil
		for _, obj := range active {
			names = append(names, obj.GetName())
		}
		return nil, cli.Usage(fmt.Errorf("%s: several freezes apply; choose one with --name: %s", o.where(s), strings.Join(names, ", ")))
	}
	if f := freezeOf(active[0]); len(f.Rules.Periods) > 0 {
		return nil, cli.No(fmt.Errorf("%s has spec.periods: remove the current period from the list, or delete the whole freeze with --name %s", f, f.Name))
	}
	return active[0], nil
}

// list returns the Freezes of the namespace or, with --all-namespaces, the ClusterFreezes.
func (o *freezeOptions) list(ctx context.Context, s *scope) (objects []client.Object, err error) {
	if o.all {
		var list v1alpha1.ClusterFreezeList
		err = s.client.List(ctx, &list)
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
		return objects, err
	}
	var list v1alpha1.FreezeList
	err = s.client.List(ctx, &list, client.InNamespace(s.namespace))
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, err
}
