package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/view"
)

// settle is the maximum time by which the status of an object may lag behind its specification.
const settle = time.Minute

// checkObjects checks each object of hlnr.io, and returns the objects that it read.
func (d *doctor) checkObjects(ctx context.Context) []client.Object {
	var all []client.Object
	secrets, unwatched := map[client.ObjectKey][]string{}, map[string]int{}
	lists := []client.ObjectList{
		&v1alpha1.ImagePolicyList{}, &v1alpha1.GitHubRepositoryList{}, &v1alpha1.MicroserviceList{}, &v1alpha1.VersionedMicroserviceList{}, &v1alpha1.NetworkPolicyList{},
		&v1alpha1.FreezeList{}, &v1alpha1.ClusterFreezeList{}, &v1alpha1.NotificationPolicyList{},
		&v1alpha1.AnalysisTemplateList{}, &v1alpha1.ClusterAnalysisTemplateList{},
	}
	kinds, in := make([][]client.Object, len(lists)), view.Input{Program: d.Program()}
	for i, list := range lists {
		err := d.client.List(ctx, list, client.InNamespace(d.namespace))
		if err == nil {
			kinds[i], err = objectsOf(list)
		}
		if err != nil {
			d.unknown(kindOf(list), "objects", err)
			continue
		}
		addTo(&in, list)
		all = append(all, kinds[i]...)
	}
	for i, list := range lists {
		kind, objects, faults := kindOf(list), 0, 0
		for _, o := range kinds[i] {
			if at := o.GetNamespace(); len(d.watched) > 0 && at != "" && !slices.Contains(d.watched, at) {
				unwatched[at]++
				continue
			}
			for _, s := range append(secretsOf(o), secretsOfShared(in, o)...) {
				key := client.ObjectKey{Namespace: o.GetNamespace(), Name: s}
				secrets[key] = append(secrets[key], kind+" "+o.GetName())
			}
			objects++
			found := judgeObject(kind, o, d.Now())
			if delayed(in, o, d.Now()) {
				found = nil
			}
			if ms, is := o.(*v1alpha1.Microservice); is && ms.DeletionTimestamp == nil {
				found = append(found, judgeActive(in, ms, d.Now())...)
			}
			faults += len(found)
			d.result.Findings = append(d.result.Findings, found...)
		}
		if faults == 0 && objects > 0 {
			d.add(OK, kind, "", "%s without problems", cli.Count(objects, "object"))
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(unwatched)) {
		d.add(Problem, "Manager", fmt.Sprintf("add %s to the chart value namespaces, or to the manager's --namespace flag", namespace),
			"the manager does not watch namespace %s, where %s of hlnr.io %s no effect", namespace, cli.Count(unwatched[namespace], "object"), have(unwatched[namespace]))
	}
	d.checkSecrets(ctx, secrets)
	return all
}

// kindOf returns the kind of the objects in a list.
func kindOf(list client.ObjectList) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1alpha1."), "List")
}

// objectsOf returns the objects in a list.
func objectsOf(list client.ObjectList) (out []client.Object, err error) {
	items, err := meta.ExtractList(list)
	for _, item := range items {
		if o, ok := item.(client.Object); ok {
			out = append(out, o)
		}
	}
	return out, err
}

// addTo adds the objects in a list to the input for a view.
func addTo(in *view.Input, list client.ObjectList) {
	switch l := list.(type) {
	case *v1alpha1.ImagePolicyList:
		in.ImagePolicies = l.Items
	case *v1alpha1.GitHubRepositoryList:
		in.Repositories = l.Items
	case *v1alpha1.MicroserviceList:
		in.Microservices = l.Items
	case *v1alpha1.VersionedMicroserviceList:
		in.Releases = l.Items
	case *v1alpha1.NetworkPolicyList:
		in.NetworkPolicies = l.Items
	case *v1alpha1.ClusterAnalysisTemplateList:
		in.ClusterTemplates = l.Items
	case *v1alpha1.FreezeList:
		in.Freezes = l.Items
	case *v1alpha1.ClusterFreezeList:
		in.ClusterFreezes = l.Items
	}
}

// judgeActive returns the findings about active releases of a Microservice that have lacked ready pods for longer than it takes to reschedule
// pods to other nodes. A release without ready pods is a problem, and a release with too few ready pods is a warning.
func judgeActive(in view.Input, ms *v1alpha1.Microservice, now time.Time) (found []Finding) {
	ms = ms.DeepCopy()
	ms.Status.Convert()
	in.Microservices = []v1alpha1.Microservice{*ms}
	s, _ := view.NewService(in, ms.Namespace, ms.Name, now)
	for _, g := range slices.Concat(s.Groups, s.Previews) {
		for _, r := range g.Releases {
			lacks := r.State.Outage || r.State.Word == view.WordUnavailable && (r.Pods == nil || r.Pods.Available < r.Pods.Wanted)
			if r.Status != string(v1alpha1.ReleaseActive) || !lacks || now.Sub(unavailableSince(in, ms, r.Name)) <= settle/4 {
				continue
			}
			level := Problem
			if r.Pods != nil && r.Pods.Available > 0 {
				level = Warning
			}
			fix := "see " + view.Command(in.Program, in.Namespace, ms.Namespace, "tree", ms.Name)
			actions := r.State.Next
			if r.State.Outage {
				actions = g.State.Next // The pods were stopped for another release of the group, so the actions for the group apply.
			}
			for _, next := range actions {
				fix += ", or " + next.Command
			}
			text := fmt.Sprintf("%s/%s: the active release %s of group %s is %s", ms.Namespace, ms.Name, r.Version, g.Name, r.State.Sentence)
			found = append(found, Finding{level, "Microservice", cleanText(text), fix})
		}
	}
	return found
}

// unavailableSince returns the time when a release began to lack ready pods. This is the time when the Available condition of the
// release became False or, if this condition is not False, the time when the Ready condition of the Microservice became False.
func unavailableSince(in view.Input, ms *v1alpha1.Microservice, release string) time.Time {
	for i := range in.Releases {
		if o := &in.Releases[i]; o.Namespace == ms.Namespace && o.Name == release {
			if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionAvailable); c != nil && c.Status == metav1.ConditionFalse {
				return c.LastTransitionTime.Time
			}
		}
	}
	if c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// statusOf returns the conditions and the observed generation of an object.
func statusOf(o client.Object) (conditions []metav1.Condition, observed int64) {
	switch o := o.(type) {
	case *v1alpha1.ImagePolicy:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.GitHubRepository:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.Microservice:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.VersionedMicroservice:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.NetworkPolicy:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.Freeze:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.ClusterFreeze:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.NotificationPolicy:
		return o.Status.Conditions, o.Status.ObservedGeneration
	}
	return nil, 0
}

// endOf returns the end of a freeze whose status reports that the freeze applies. It returns the zero time for a freeze
// without an end, and for all other objects.
func endOf(o client.Object) time.Time {
	s := v1alpha1.FreezeStatus{}
	switch o := o.(type) {
	case *v1alpha1.Freeze:
		s = o.Status
	case *v1alpha1.ClusterFreeze:
		s = o.Status
	}
	if !s.Active || s.Until == nil {
		return time.Time{}
	}
	return s.Until.Time
}

// delayed reports whether a NetworkPolicy has no status because the first rollout of its Microservice is waiting to start, or started a short
// time ago.
func delayed(in view.Input, o client.Object, now time.Time) bool {
	p, is := o.(*v1alpha1.NetworkPolicy)
	if !is || p.Status.Provider != "" || p.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(in.Microservices, func(ms v1alpha1.Microservice) bool {
		return ms.Namespace == p.Namespace && ms.Name == p.MicroserviceName() && (ms.StartDelayed() || now.Sub(ms.LastStart(now)) <= settle)
	})
}

// judgeObject returns the findings about one object.
func judgeObject(kind string, o client.Object, now time.Time) []Finding {
	conditions, observed := statusOf(o)
	name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	finding := func(level Level, fix, format string, args ...any) []Finding {
		return []Finding{{level, kind, name + ": " + cleanText(fmt.Sprintf(format, args...)), fix}}
	}
	if t := o.GetDeletionTimestamp(); t != nil && now.Sub(t.Time) > 10*settle {
		return finding(Warning, "deletion waits for the finalizers "+strings.Join(o.GetFinalizers(), ", ")+": see the events of the object", "has had a deletionTimestamp since %s", t.UTC().Format(time.RFC3339))
	}
	if t := templateOf(o); t != nil { // A template has no status.
		if err := analysistemplate.Check(t); err != nil {
			return finding(Problem, "", "%s", err.Message)
		}
		return nil
	}
	if observed != o.GetGeneration() && now.Sub(changed(o)) > settle {
		return finding(Problem, "check that the manager is running and watches the namespace (see the chart value namespaces, or the manager's --namespace flag)", "the manager has not observed the latest change: generation %d, observed generation %d", o.GetGeneration(), observed)
	}
	if end := endOf(o); !end.IsZero() && now.Sub(end) > settle {
		return finding(Problem, "check that the manager is running and watches the namespace, or delete the freeze", "the status reports that the freeze applies, but the freeze ended at %s: the freeze still prevents changes to the labels of Microservices", end.UTC().Format(time.RFC3339))
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		return finding(Problem, "", "%s: %s", c.Reason, c.Message)
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); kind == "NotificationPolicy" && c != nil && c.Status == metav1.ConditionFalse {
		return finding(Problem, "", "%s: %s", c.Reason, c.Message)
	}
	found := frozen(o, now, finding)
	for _, bad := range []struct {
		condition string
		status    metav1.ConditionStatus
		level     Level
	}{
		{"Accepted", metav1.ConditionFalse, Problem},
		{"ResolvedRefs", metav1.ConditionFalse, Problem},
		{"Programmed", metav1.ConditionFalse, Problem},
		{"SourceReachable", metav1.ConditionFalse, Problem},
		{"WebhookReady", metav1.ConditionFalse, Warning},
		{"FeedbackReady", metav1.ConditionFalse, Warning},
		{"RateLimited", metav1.ConditionTrue, Warning},
		{"Truncated", metav1.ConditionTrue, Warning},
		{"TrafficDegraded", metav1.ConditionTrue, Problem},
		{"Blocked", metav1.ConditionTrue, Warning},
		{"ReleaseFailed", metav1.ConditionTrue, Warning},
		{"ConfigurationLost", metav1.ConditionTrue, Warning},
		{"NameConflict", metav1.ConditionTrue, Problem},
		{"SettingsNotApplied", metav1.ConditionTrue, Warning},
	} {
		c := meta.FindStatusCondition(conditions, bad.condition)
		if c == nil || c.Status != bad.status || slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.Text, cleanText(c.Message)) }) {
			continue
		}
		what := c.Type
		if c.Reason != c.Type {
			what += " " + c.Reason
		}
		found = append(found, finding(bad.level, "", "%s: %s", what, c.Message)...)
	}
	return found
}

// templateOf converts an analysis template to the type that package analysistemplate checks. It returns nil for other objects.
func templateOf(o client.Object) *analysistemplate.Template {
	switch o := o.(type) {
	case *v1alpha1.AnalysisTemplate:
		return analysistemplate.Namespaced(o)
	case *v1alpha1.ClusterAnalysisTemplate:
		return analysistemplate.Cluster(o)
	}
	return nil
}

// frozen returns a warning about a freeze that applies now. The freeze is intentional, but the warning explains why no
// new release starts.
func frozen(o client.Object, now time.Time, finding func(level Level, fix, format string, args ...any) []Finding) []Finding {
	var f freeze.Freeze
	var services int32
	switch o := o.(type) {
	case *v1alpha1.Freeze:
		f, services = freeze.Namespaced(o), o.Status.Services
	case *v1alpha1.ClusterFreeze:
		f, services = freeze.Cluster(o), o.Status.Services
	default:
		return nil
	}
	state := f.State(now)
	if !state.Active {
		return nil
	}
	end := "indefinitely"
	if !state.Until.IsZero() {
		end = "until " + state.Until.UTC().Format(time.RFC3339)
	}
	return finding(Warning, "", "applies %s; no new release starts in %s: %s", end, cli.Count(int(services), "Microservice"), state.Reason)
}

// changed returns the time of the last known write to the specification.
func changed(o client.Object) time.Time {
	last := o.GetCreationTimestamp().Time
	for _, e := range o.GetManagedFields() {
		if e.Subresource == "" && e.Time != nil && e.Time.After(last) {
			last = e.Time.Time
		}
	}
	return last
}

// secretsOf returns the names of the credential Secrets that an object refers to.
func secretsOf(o client.Object) (names []string) {
	switch o := o.(type) {
	case *v1alpha1.ImagePolicy:
		for _, s := range o.Spec.ImagePullSecrets {
			names = append(names, s.Name)
		}
		if s := o.Spec.CertSecretRef; s != nil {
			names = append(names, s.Name)
		}
	case *v1alpha1.NotificationPolicy:
		for i := range o.Spec.Receivers {
			for _, s := range []*v1alpha1.Reference{o.Spec.Receivers[i].SecretRef, o.Spec.Receivers[i].CASecretRef} {
				if s != nil {
					names = append(names, s.Name)
				}
			}
		}
	case *v1alpha1.GitHubRepository:
		if s := o.Spec.WebhookSecretRef; s != nil {
			names = append(names, s.Name)
		}
	case *v1alpha1.Microservice:
		names = secretsOfCanary(o.Spec.UpdateStrategy.Canary)
	case *v1alpha1.AnalysisTemplate:
		names = secretsOfAnalysis(&o.Spec.CanaryAnalysis)
	}
	return names
}

// secretsOfShared returns the names of the Secrets to which the ClusterAnalysisTemplate of a Microservice refers. These Secrets are in the
// namespace of the Microservice.
func secretsOfShared(in view.Input, o client.Object) []string {
	ms, is := o.(*v1alpha1.Microservice)
	if !is || ms.Spec.UpdateStrategy.Canary == nil || ms.Spec.UpdateStrategy.Canary.AnalysisTemplateRef == nil {
		return nil
	}
	if spec := analysistemplate.Among(ms, nil, in.ClusterTemplates); spec != nil {
		return secretsOfAnalysis(spec)
	}
	return nil
}

// secretsOfCanary returns the names of the Secrets for hooks and metrics, without duplicates.
func secretsOfCanary(canary *v1alpha1.CanaryStrategy) []string {
	if canary == nil {
		return nil
	}
	var refs []*v1alpha1.Reference
	for i := range canary.Hooks {
		refs = append(refs, canary.Hooks[i].SecretRef, canary.Hooks[i].CASecretRef)
	}
	names := referenced(refs)
	if canary.Analysis != nil {
		names = append(names, secretsOfAnalysis(canary.Analysis)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// secretsOfAnalysis returns the names of the Secrets for metrics, without duplicates.
func secretsOfAnalysis(spec *v1alpha1.CanaryAnalysis) []string {
	var refs []*v1alpha1.Reference
	if p := spec.Provider.Prometheus; p != nil {
		refs = append(refs, p.SecretRef, p.CASecretRef)
	}
	for i := range spec.Metrics {
		web := spec.Metrics[i].Web
		if web == nil {
			continue
		}
		refs = append(refs, web.SecretRef, web.CASecretRef)
		if web.AWS != nil {
			refs = append(refs, &web.AWS.SecretRef)
		}
		if web.Google != nil {
			refs = append(refs, &web.Google.SecretRef)
		}
		for _, h := range web.Headers {
			if h.SecretKeyRef != nil {
				refs = append(refs, &v1alpha1.Reference{Name: h.SecretKeyRef.Name})
			}
		}
	}
	return referenced(refs)
}

// referenced returns the sorted names of references, without duplicates.
func referenced(refs []*v1alpha1.Reference) (names []string) {
	for _, r := range refs {
		if r != nil {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkSecrets checks that the Secrets exist. It reads only their metadata.
func (d *doctor) checkSecrets(ctx context.Context, secrets map[client.ObjectKey][]string) {
	there, refused := 0, 0
	keys := make([]client.ObjectKey, 0, len(secrets))
	for k := range secrets {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
		err := d.client.Get(ctx, key, m)
		switch {
		case err == nil:
			there++
		case apierrors.IsNotFound(err):
			d.add(Problem, "Credentials", "create the Secret, or correct the name", "Secret %s, referenced by %s, does not exist", key, strings.Join(secrets[key], " and "))
		default:
			refused++
		}
	}
	if there > 0 {
		d.add(OK, "Credentials", "", "%s present; the content is not read", cli.Count(there, "Secret")+" that objects refer to "+is(there))
	}
	if refused > 0 {
		d.refused = true
		d.add(Unknown, "Credentials", "", "%s that objects refer to cannot be checked: you are not allowed to get Secrets", cli.Count(refused, "Secret"))
	}
}

func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func is(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
