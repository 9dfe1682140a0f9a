package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/frozen"
	"github.com/heighliner/heighliner/internal/status"
)

// Freeze is a Freeze or a ClusterFreeze that applies now or in the future.
type Freeze struct {
	// Kind is Freeze or ClusterFreeze.
	Kind string `json:"kind"`
	// Namespace is the namespace of a Freeze. It is empty for a ClusterFreeze.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Subject describes the frozen services, as in "namespace shop".
	Subject string `json:"subject"`
	// Active reports whether the freeze applies now.
	Active bool `json:"active"`
	// From is when the freeze next takes effect, or nil if it applies now. Until is when the freeze ends, or nil if it has no
	// end.
	From   *metav1.Time `json:"from,omitempty"`
	Until  *metav1.Time `json:"until,omitempty"`
	Reason string       `json:"reason"`
	// By is the user who created or last changed the freeze. It is empty if the user is not known.
	By string `json:"by,omitempty"`
	// Sentence describes the freeze for users, at the time of the view.
	Sentence string `json:"sentence"`
	// Effect is the effect on services. It is nil in the freezes of a [Service].
	Effect *Effect `json:"effect,omitempty"`
	// Next are the commands for the actions that the user can take.
	Next []Action `json:"next,omitempty"`
}

// Freezes are the current freezes, followed by future freezes.
type Freezes struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	Freezes         []Freeze    `json:"freezes"`
}

// Effect is the effect of a freeze on the services of a view.
type Effect struct {
	// Services is the number of selected services.
	Services int `json:"services"`
	// Waiting are the services, as namespace/name, that have a release waiting for the end of the
	// freeze.
	Waiting []string `json:"waiting,omitempty"`
	// Exceptions are the services, as namespace/name, to which the freeze does not apply, with the reasons.
	Exceptions []FreezeException `json:"exceptions,omitempty"`
	// Unknown reports whether the freeze selects namespaces by their labels, and these labels were not read. In that case, only services that are
	// waiting for the end of the freeze are counted.
	Unknown bool `json:"unknown,omitempty"`
	// Problem is the reason why the freeze selects nothing.
	Problem string `json:"problem,omitempty"`
}

// FreezeException is a service to which a freeze does not apply.
type FreezeException struct {
	Service string `json:"service"`
	Reason  string `json:"reason"`
}

// freezes contains those freezes of an input that have not ended.
type freezes struct {
	cluster []resolved
	by      map[string][]resolved // keyed by namespace
	labels  map[string]map[string]string
}

// resolved is a freeze with its state at the time of the view.
type resolved struct {
	freeze.Freeze
	state freeze.State
}

func newFreezes(in Input, now time.Time) *freezes {
	out := &freezes{by: map[string][]resolved{}}
	for _, f := range freeze.All(in.Freezes, in.ClusterFreezes) {
		r := resolved{f, f.State(now)}
		switch {
		case r.state.Over:
		case f.Namespace == "":
			out.cluster = append(out.cluster, r)
		default:
			out.by[f.Namespace] = append(out.by[f.Namespace], r)
		}
	}
	if in.Namespaces != nil {
		out.labels = map[string]map[string]string{}
		for i := range in.Namespaces {
			out.labels[in.Namespaces[i].Name] = in.Namespaces[i].Labels
		}
	}
	return out
}

// selects reports whether a freeze applies to a service. If this depends on namespace labels that were not read, selects
// returns true only for services that are waiting for the freeze to end.
func (x *freezes) selects(f resolved, ms *v1alpha1.Microservice) bool {
	if x.unknown(f) {
		return slices.ContainsFunc(freezeWaits(ms), func(w frozen.Wait) bool { return w.IsBy(f.String()) })
	}
	return f.Selects(freeze.Subject{Namespace: ms.Namespace, Name: ms.Name, Labels: ms.Labels, NamespaceLabels: x.labels[ms.Namespace]})
}

// unknown reports whether it is not known which services a freeze selects.
func (x *freezes) unknown(f resolved) bool { return x.labels == nil && f.NeedsNamespaceLabels() }

// of returns the freezes that apply to a service now. The freeze that ends last comes first.
func (x *freezes) of(ms *v1alpha1.Microservice) (out []resolved) {
	for _, list := range [][]resolved{x.cluster, x.by[ms.Namespace]} {
		for _, f := range list {
			if f.state.Active && x.selects(f, ms) {
				out = append(out, f)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b resolved) int { return compareEnds(b.state.Until, a.state.Until) })
	return out
}

// compareEnds orders times. The zero time comes last.
func compareEnds(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		return compareBool(a.IsZero(), b.IsZero())
	}
	return a.Compare(b)
}

// frozenOf returns the Frozen condition of a service if a release is waiting for the end of a freeze, and otherwise
// nil.
func frozenOf(ms *v1alpha1.Microservice) *metav1.Condition {
	if c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionFrozen); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// freezeWaits returns the waits that the Frozen condition of a service describes.
func freezeWaits(ms *v1alpha1.Microservice) []frozen.Wait {
	if c := frozenOf(ms); c != nil {
		return frozen.Parse(c.Message)
	}
	return nil
}

// board returns all freezes with their effects on the services. Current freezes come first. The future freezes that
// follow are ordered by start time.
func (x *freezes) board(in Input, program string, now time.Time) []Freeze {
	all := slices.Clone(x.cluster)
	for _, namespace := range slices.Sorted(maps.Keys(x.by)) {
		all = append(all, x.by[namespace]...)
	}
	slices.SortStableFunc(all, func(a, b resolved) int {
		return cmp.Or(compareBool(b.state.Active, a.state.Active), a.state.From.Compare(b.state.From))
	})
	services := map[string][]*v1alpha1.Microservice{}
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		services[ms.Namespace] = append(services[ms.Namespace], ms)
		services[""] = append(services[""], ms)
	}
	var out []Freeze
	for _, f := range all {
		v := f.view(program, now)
		v.Effect = x.effect(f, services[f.Namespace])
		out = append(out, v)
	}
	return out
}

// effect returns the effect of a freeze on the services of its namespace, or on all services.
func (x *freezes) effect(f resolved, services []*v1alpha1.Microservice) *Effect {
	out := &Effect{Unknown: x.unknown(f)}
	if err := f.Check(); err != nil {
		out.Problem = status.Line(err.Error())
	}
	for _, ms := range services {
		name := ms.Namespace + "/" + ms.Name
		if reason, excepted := f.Exception(ms.Namespace, ms.Name); excepted {
			out.Exceptions = append(out.Exceptions, FreezeException{name, status.Line(reason)})
		}
		if !x.selects(f, ms) {
			continue
		}
		out.Services++
		if f.state.Active && frozenOf(ms) != nil {
			out.Waiting = append(out.Waiting, name)
		}
	}
	slices.Sort(out.Waiting)
	slices.SortFunc(out.Exceptions, func(a, b FreezeException) int { return strings.Compare(a.Service, b.Service) })
	return out
}

// view returns the view of a freeze.
func (f resolved) view(program string, now time.Time) Freeze {
	out := Freeze{
		Kind: f.Kind, Namespace: f.Namespace, Name: f.Name, Subject: f.subject(), Active: f.state.Active,
		From: timeOf(f.state.From), Until: timeOf(f.state.Until), Reason: status.Line(f.state.Reason), By: status.Line(f.By),
	}
	out.Sentence = out.sentence(now)
	command := program + " thaw --all-namespaces --name " + f.Name
	if f.Namespace != "" {
		command = program + " thaw " + f.Namespace + " --name " + f.Name
	}
	out.Next = []Action{{Verb: "thaw", Command: command, Target: f.Name}}
	return out
}

// subject describes the services to which a freeze applies.
func (f resolved) subject() string {
	where := "all namespaces"
	switch {
	case f.Namespace != "":
		where = "namespace " + f.Namespace
	case f.NamespaceSelector != nil:
		where = "namespaces with " + metav1.FormatLabelSelector(f.NamespaceSelector)
	}
	if f.Rules.Selector == nil {
		return where
	}
	return fmt.Sprintf("services with %s in %s", metav1.FormatLabelSelector(f.Rules.Selector), where)
}

// sentence returns a sentence that describes a freeze.
func (f Freeze) sentence(now time.Time) string {
	text := f.Subject + ": frozen"
	if f.From != nil {
		text += " from " + Clock(f.From.Time, now)
	}
	if f.Until == nil {
		text += " indefinitely"
	} else {
		text += " until " + Clock(f.Until.Time, now)
	}
	if f.By != "" {
		text += " by " + f.By
	}
	return fmt.Sprintf("%s: %q", text, f.Reason)
}

// freezesOf returns the freezes that apply to the service now.
func (s *service) freezesOf() (out []Freeze) {
	for _, f := range s.frozen.of(s.ms) {
		out = append(out, f.view(s.Program, s.now))
	}
	return out
}

// freezesDecisions reports whether a freeze applies. During a freeze, all decisions except Deprecate are rejected if they are about
// releases that were never active (protocol rule 45).
func (s *service) freezesDecisions() bool {
	return len(s.frozen.of(s.ms)) > 0 || frozenOf(s.ms) != nil
}

// waitsForStart returns the state of a service whose new version is waiting for the end of a freeze before its rollout
// starts. It returns nil if there is no such version, or if spec.paused blocks the version too.
func (s *service) waitsForStart() *State {
	waits := freezeWaits(s.ms)
	if len(waits) == 0 || s.ms.Spec.Paused || waits[0].HasRollout() { // The state of the rollout already shows this wait.
		return nil
	}
	c := frozenOf(s.ms)
	return &State{Word: WordFrozen, Class: Moving, Reason: c.Reason, Since: timeOf(c.LastTransitionTime.Time), Detail: waits[0].Clause + ", " + waits[0].Freeze}
}

// frozenCause describes the freeze that is blocking a release of the service, or returns "" if there is none.
func (s *service) frozenCause() string {
	c := frozenOf(s.ms)
	if c == nil {
		return ""
	}
	if waits := freezeWaits(s.ms); len(waits) > 0 {
		return waits[0].Freeze
	}
	return c.Message
}

// frozenReturn describes the freeze that is blocking the return to a retained release, if that release is the target of its group.
// Otherwise, it returns "". A pinned release does not wait.
func (s *service) frozenReturn(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) string {
	if s.ms.Spec.Paused || !retained(row) || g.Target.Reason == "Pinned" || g.Target.Release != row.VersionedMicroservice {
		return ""
	}
	return freezeOf(s.ms, func(w frozen.Wait) bool { return w.Of(row.SemVer.Version) })
}

// freezeOf describes the freeze of the first wait for which match returns true, or returns "" if there is none.
func freezeOf(ms *v1alpha1.Microservice, match func(frozen.Wait) bool) string {
	for _, w := range freezeWaits(ms) {
		if match(w) {
			return w.Freeze
		}
	}
	return ""
}
