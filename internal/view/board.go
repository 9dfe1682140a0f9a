package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// New returns the board of all services at the time now. The times in sentences are in the time zone of now.
func New(in Input, now time.Time) Board {
	x := newIndex(in, now)
	b := Board{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindBoard}, Time: metav1.Time{Time: now.UTC()}, Services: make([]Service, 0, len(in.Microservices))}
	for i := range in.Microservices {
		b.Services = append(b.Services, x.service(&in.Microservices[i]).view())
	}
	slices.SortFunc(b.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.State.Class.rank(), b.State.Class.rank()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	b.count()
	b.Freezes, b.Notifications = x.frozen.board(x.Input, x.Program, now), notificationProblems(in.Notifications)
	return b
}

// notificationProblems returns the problems of the policies whose Ready condition is False, sorted by namespace
// and name.
func notificationProblems(policies []v1alpha1.NotificationPolicy) (out []NotificationProblem) {
	for i := range policies {
		p := &policies[i]
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
			out = append(out, NotificationProblem{Namespace: p.Namespace, Name: p.Name, Reason: c.Reason, Message: status.LineOf(c.Message, 1024), Since: timeOf(c.LastTransitionTime.Time)})
		}
	}
	slices.SortFunc(out, func(a, b NotificationProblem) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// rank returns the position of a class in the order of classes. Unknown classes come last.
func (c Class) rank() int {
	if i := slices.Index([]Class{Waiting, Failed, Moving, Stable}, c); i >= 0 {
		return i
	}
	return 4
}

// Only returns the board of the services with the given names, or of all services if names is empty.
func (b Board) Only(names []string) Board {
	if len(names) == 0 {
		return b
	}
	b.Services = slices.DeleteFunc(slices.Clone(b.Services), func(s Service) bool { return !slices.Contains(names, s.Name) })
	b.count()
	return b
}

// Where returns the board of the services for which chosen returns true.
func (b Board) Where(chosen func(Service) bool) Board {
	out := b
	out.Services = make([]Service, 0, len(b.Services))
	for _, s := range b.Services {
		if chosen(s) {
			out.Services = append(out.Services, s)
		}
	}
	out.count()
	return out
}

// Of returns the board with only those services that are in one of the classes, or that have a group or a preview in one of the classes. Without
// classes, it returns all services. A pinned group in which a release failed also counts as failed. The counts still include all services.
func (b Board) Of(classes []Class) Board {
	if len(classes) == 0 {
		return b
	}
	b.Services = slices.DeleteFunc(slices.Clone(b.Services), func(s Service) bool { return !s.Is(classes...) })
	return b
}

// Is reports whether the service, one of its groups, or one of its previews is in one of the classes, as in [Board.Of].
func (s *Service) Is(classes ...Class) bool {
	of := func(g Group) bool {
		return slices.Contains(classes, g.State.Class) || slices.Contains(classes, Failed) && g.State.Word == WordPinned && g.State.Detail != ""
	}
	return slices.Contains(classes, s.State.Class) || slices.ContainsFunc(s.Groups, of) || slices.ContainsFunc(s.Previews, of)
}

// count counts the services by class.
func (b *Board) count() {
	b.Counts = Counts{Services: len(b.Services)}
	for i := range b.Services {
		switch s := b.Services[i].State; {
		case s.Reason == reasonNotReconciled:
			b.Counts.Unreconciled++
		case s.Class == Waiting:
			b.Counts.Waiting++
		case s.Class == Failed:
			b.Counts.Failed++
		case s.Class == Moving:
			b.Counts.Moving++
		}
	}
}
