// Package freeze decides which Microservices a Freeze or ClusterFreeze selects, and when it applies. All functions are pure.
package freeze

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// Freeze represents a Freeze object or a ClusterFreeze object.
type Freeze struct {
	// Kind, Namespace and Name identify the object. Namespace is empty for a ClusterFreeze.
	Kind, Namespace, Name string
	// By is the user who created or last changed the object, as verified at admission; empty if unknown.
	By string
	// Rules are the rules in the spec of the object.
	Rules v1alpha1.FreezeRules
	// NamespaceSelector is the selector of a ClusterFreeze; nil selects all namespaces.
	NamespaceSelector *metav1.LabelSelector
	// exceptions contains the reason for each exception, keyed by the namespace and the name of the Microservice.
	exceptions map[[2]string]string
}

// Namespaced converts a Freeze from the API.
func Namespaced(f *v1alpha1.Freeze) Freeze {
	out := Freeze{
		Kind: "Freeze", Namespace: f.Namespace, Name: f.Name, By: f.Annotations[v1alpha1.AnnotationDecidedBy],
		Rules: f.Spec.FreezeRules, exceptions: map[[2]string]string{},
	}
	for _, x := range f.Spec.Exceptions {
		out.exceptions[[2]string{f.Namespace, x.Name}] = x.Reason
	}
	return out
}

// Cluster converts a ClusterFreeze from the API.
func Cluster(f *v1alpha1.ClusterFreeze) Freeze {
	out := Freeze{
		Kind: "ClusterFreeze", Name: f.Name, By: f.Annotations[v1alpha1.AnnotationDecidedBy],
		Rules: f.Spec.FreezeRules, NamespaceSelector: f.Spec.NamespaceSelector, exceptions: map[[2]string]string{},
	}
	for _, x := range f.Spec.Exceptions {
		out.exceptions[[2]string{x.Namespace, x.Name}] = x.Reason
	}
	return out
}

// All converts the objects of two lists, ClusterFreezes first.
func All(freezes []v1alpha1.Freeze, clusterFreezes []v1alpha1.ClusterFreeze) []Freeze {
	var out []Freeze
	for i := range clusterFreezes {
		out = append(out, Cluster(&clusterFreezes[i]))
	}
	for i := range freezes {
		out = append(out, Namespaced(&freezes[i]))
	}
	return out
}

// String returns the kind and name in the form that is used in messages.
func (f Freeze) String() string { return fmt.Sprintf("%s %q", f.Kind, f.Name) }

// Subject is a Microservice that may be frozen.
type Subject struct {
	Namespace, Name string
	// Labels are the labels of the Microservice. NamespaceLabels are the labels of its namespace, and may be empty
	// if no freeze needs namespace labels other than kubernetes.io/metadata.name, which Selects adds.
	Labels, NamespaceLabels map[string]string
}

// Check returns an error for an invalid selector. A freeze with an invalid selector selects nothing.
func (f Freeze) Check() error {
	_, wrong := selector(f.Rules.Selector)
	if wrong != nil {
		wrong = fmt.Errorf("spec.selector: %w", wrong)
	}
	_, other := selector(f.NamespaceSelector)
	if other != nil {
		other = fmt.Errorf("spec.namespaceSelector: %w", other)
	}
	return errors.Join(wrong, other)
}

// selector converts a selector; nil selects everything.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// Exception returns the reason why a Microservice is exempt from a freeze, and whether it is exempt.
func (f Freeze) Exception(namespace, name string) (reason string, excepted bool) {
	reason, excepted = f.exceptions[[2]string{namespace, name}]
	return reason, excepted
}

// NeedsNamespaceLabels reports whether a freeze selects namespaces by labels other than kubernetes.io/metadata.name.
func (f Freeze) NeedsNamespaceLabels() bool {
	s, err := selector(f.NamespaceSelector)
	if err != nil {
		return false
	}
	requirements, _ := s.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
}

// Selects reports whether a freeze applies to a Microservice during the periods of the freeze.
func (f Freeze) Selects(s Subject) bool {
	if _, excepted := f.Exception(s.Namespace, s.Name); excepted || f.Namespace != "" && f.Namespace != s.Namespace {
		return false
	}
	of, err := selector(f.Rules.Selector)
	if err != nil || !of.Matches(labels.Set(s.Labels)) {
		return false
	}
	of, err = selector(f.NamespaceSelector)
	return err == nil && of.Matches(labels.Merge(s.NamespaceLabels, labels.Set{corev1.LabelMetadataName: s.Namespace}))
}

// span is a period in which a freeze applies. If from is zero, the period has no beginning. If to is zero, the period has no end.
type span struct {
	from, to time.Time
	reason   string
}

// holds reports whether a time is in the span.
func (s span) holds(t time.Time) bool {
	return !t.Before(s.from) && (s.to.IsZero() || t.Before(s.to))
}

// spans returns the periods of a freeze, sorted by start time.
func (f Freeze) spans() []span {
	r := f.Rules
	if r.Indefinite {
		return []span{{reason: r.Reason}}
	}
	var out []span
	if r.Until != nil {
		out = append(out, span{to: r.Until.Time, reason: r.Reason})
	}
	for _, p := range r.Periods {
		out = append(out, span{p.From.Time, p.To.Time, cmp.Or(p.Reason, r.Reason)})
	}
	slices.SortStableFunc(out, func(x, y span) int { return x.from.Compare(y.from) })
	return out
}

// State describes whether a freeze applies at a given time, and when this changes.
type State struct {
	// Active is true while the freeze applies. Over is true if the freeze does not apply now and will never apply again.
	Active, Over bool
	// From is the time at which the next period begins; zero while the freeze applies, or if it is over.
	From time.Time
	// Until is the time at which the current or next period ends; zero if the period has no end, or if the freeze is over.
	Until time.Time
	// Reason is the reason for the current or next period. For a freeze that is over, it is the reason for the freeze itself.
	Reason string
}

// Next returns the time at which the state changes; zero means never.
func (s State) Next() time.Time {
	if s.Active {
		return s.Until
	}
	return s.From // zero if it is over
}

// State returns the state of a freeze at a given time. Periods that overlap or directly follow each other count as one period.
func (f Freeze) State(now time.Time) State {
	spans := f.spans()
	at := now
	if !slices.ContainsFunc(spans, func(s span) bool { return s.holds(now) }) {
		next := slices.IndexFunc(spans, func(s span) bool { return s.from.After(now) })
		if next < 0 {
			return State{Over: true, Reason: f.Rules.Reason}
		}
		at = spans[next].from
	}
	until, first := extent([]Freeze{f}, at)
	if first == nil {
		return State{Over: true, Reason: f.Rules.Reason} // The schema requires each period to end after it begins, so this does not happen.
	}
	s := State{Active: at.Equal(now), Until: until, Reason: first.reason}
	if !s.Active {
		s.From = at
	}
	return s
}

// cause is a freeze with the reason for one of its periods.
type cause struct {
	freeze Freeze
	reason string
}

// extent returns the end of the uninterrupted period, beginning at the given time, in which at least one of the freezes applies; zero if this period
// has no end. Of the causes that apply at the given time, first is the one that ends last; nil if no freeze applies at that time. To
// limit the work, the periods of the freezes are read only once, in the order of their start times: a user of a namespace can create any number of
// periods.
func extent(freezes []Freeze, at time.Time) (until time.Time, first *cause) {
	type ordered struct {
		span
		freeze int
	}
	var all []ordered
	for i, f := range freezes {
		for _, s := range f.spans() {
			all = append(all, ordered{s, i})
		}
	}
	slices.SortStableFunc(all, func(x, y ordered) int { return x.from.Compare(y.from) })
	until = at
	for next := 0; ; {
		var last, endless *ordered
		for ; next < len(all) && !all[next].from.After(until); next++ {
			switch s := &all[next]; {
			case s.to.IsZero():
				if endless == nil || s.freeze < endless.freeze {
					endless = s
				}
			case !s.to.After(until):
			case last == nil, s.to.After(last.to), s.to.Equal(last.to) && s.freeze < last.freeze:
				last = s
			}
		}
		switch {
		case endless != nil:
			return time.Time{}, cmp.Or(first, &cause{freezes[endless.freeze], endless.reason})
		case last == nil:
			return until, first
		}
		until, first = last.to, cmp.Or(first, &cause{freezes[last.freeze], last.reason})
	}
}

// Of returns the freeze that applies to a Microservice at a given time. It returns nil if no freeze applies. If several freezes apply, the result
// has the name and the reason of the freeze that ends last. The end in the result is the next time at which no freeze applies.
func Of(freezes []Freeze, s Subject, now time.Time) *release.Freeze {
	freezes = slices.DeleteFunc(slices.Clone(freezes), func(f Freeze) bool { return !f.Selects(s) })
	slices.SortFunc(freezes, func(x, y Freeze) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name))
	})
	until, first := extent(freezes, now)
	if first == nil {
		return nil
	}
	return &release.Freeze{Name: first.freeze.String(), Until: until, Reason: first.reason}
}

// Calendar contains all freezes, and a Microservice that some of them may select.
type Calendar struct {
	Freezes []Freeze
	Subject Subject
}

// Next returns the time at which a freeze that selects the Microservice begins or ends next; zero if there is no such time.
func (c Calendar) Next(now time.Time) (next time.Time) {
	for _, f := range c.Freezes {
		if at := f.State(now).Next(); !at.IsZero() && (next.IsZero() || at.Before(next)) && f.Selects(c.Subject) {
			next = at
		}
	}
	return next
}

// End returns the end of a freeze's last period; zero if the freeze has no end.
func (f Freeze) End() (end time.Time) {
	for _, s := range f.spans() {
		if s.to.IsZero() {
			return time.Time{}
		}
		if s.to.After(end) {
			end = s.to
		}
	}
	return end
}
