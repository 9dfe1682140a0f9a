package view

import (
	"cmp"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// History is the history of the releases that a service still contains.
type History struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	Namespace       string      `json:"namespace"`
	Name            string      `json:"name"`
	// Rollouts are sorted by time, the newest first.
	Rollouts []Past `json:"rollouts"`
}

// Past is the most recent rollout of a release.
type Past struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Release string `json:"release"`
	Status  string `json:"status"`
	// Result is the state of the release.
	Result State `json:"result"`
	// Started is when the object of the release was created, and Changed is when the status of the release last changed.
	Started *metav1.Time `json:"started,omitempty"`
	Changed *metav1.Time `json:"changed,omitempty"`
	// Duration is the time from the start until the release became active for the first time, or until the first attempt failed, in
	// seconds. 0 means unknown.
	Duration int64 `json:"durationSeconds,omitempty"`
	// Attempts is the number of attempts after the first attempt.
	Attempts int32     `json:"attempts,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
}

// NewHistory returns the history of a service. It returns false if the input does not contain the service.
func NewHistory(in Input, namespace, name string, now time.Time) (History, bool) {
	s, ok := NewService(in, namespace, name, now)
	if !ok {
		return History{}, false
	}
	return s.History(now), true
}

// History returns the history of a service's releases.
func (s Service) History(now time.Time) History {
	out := History{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindHistory}, Time: metav1.Time{Time: now.UTC()}, Namespace: s.Namespace, Name: s.Name, Rollouts: []Past{}}
	for _, g := range slices.Concat(s.Groups, s.Previews) {
		for _, r := range g.Releases {
			out.Rollouts = append(out.Rollouts, pastOf(g, r))
		}
	}
	slices.SortStableFunc(out.Rollouts, func(a, b Past) int { return newest(a.Started, a.Changed, b.Started, b.Changed) })
	return out
}

// newest orders rollouts by their start or, if that is not known, by their last change. The newest comes first.
func newest(aStarted, aChanged, bStarted, bChanged *metav1.Time) int {
	at := func(started, changed *metav1.Time) time.Time {
		if t := cmp.Or(started, changed); t != nil {
			return t.Time
		}
		return time.Time{}
	}
	return at(bStarted, bChanged).Compare(at(aStarted, aChanged))
}

func pastOf(g Group, r Release) Past {
	out := Past{Group: g.Name, Version: r.Version, Release: r.Name, Status: r.Status, Result: r.State, Started: r.Created, Changed: r.Since, Attempts: r.Attempts, Decision: r.Decision}
	ended := r.FirstActive
	if ended == nil && r.Status == string(v1alpha1.ReleaseError) && r.Attempts == 0 {
		ended = out.Changed
	}
	if out.Started != nil && ended != nil && ended.After(out.Started.Time) {
		out.Duration = int64(ended.Sub(out.Started.Time).Seconds())
	}
	return out
}

// Events are the events about the objects of one service or of all services.
type Events struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	// Events are sorted by time, the newest last.
	Events []Event `json:"events"`
}

// Event is an event about an object.
type Event struct {
	Time metav1.Time `json:"time"`
	// Type is Normal or Warning.
	Type      string `json:"type"`
	Reason    string `json:"reason"`
	Namespace string `json:"namespace"`
	// Object is the object that the event is about, and Related is another object that it concerns. Both have the form kind/name.
	Object  string `json:"object"`
	Related string `json:"related,omitempty"`
	Note    string `json:"note"`
	// Count is the number of occurrences, or 0 if the event is not part of a series.
	Count int32 `json:"count,omitempty"`
}

// NewEvents returns the events about hlnr.io objects, the newest last. If a name is given, these are the events about the service,
// its releases, its ImagePolicy and its NetworkPolicies. Otherwise, these are the events about all objects.
func NewEvents(in Input, events []eventsv1.Event, namespace, name string, now time.Time) Events {
	out := Events{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindEvents}, Time: metav1.Time{Time: now.UTC()}, Events: []Event{}}
	about := objectsOf(in, namespace, name)
	for _, e := range inOrder(events) {
		if e.Regarding.APIVersion != v1alpha1.GroupVersion.String() || name != "" && !about[e.Regarding.Kind+"/"+e.Regarding.Name] || namespace != "" && e.Namespace != namespace {
			continue
		}
		x := Event{Time: metav1.Time{Time: eventTime(e).UTC()}, Type: e.Type, Reason: e.Reason, Namespace: e.Namespace, Object: e.Regarding.Kind + "/" + e.Regarding.Name, Note: status.LineOf(e.Note, 1024)}
		if e.Related != nil && e.Related.Name != "" {
			x.Related = e.Related.Kind + "/" + e.Related.Name
		}
		if e.Series != nil {
			x.Count = e.Series.Count
		}
		out.Events = append(out.Events, x)
	}
	return out
}

// inOrder returns events sorted by time. Events with the same time are in the order in which they were
// written.
func inOrder(events []eventsv1.Event) []*eventsv1.Event {
	out := make([]*eventsv1.Event, len(events))
	for i := range events {
		out[i] = &events[i]
	}
	slices.SortStableFunc(out, func(a, b *eventsv1.Event) int {
		x, y := a.ResourceVersion, b.ResourceVersion // Resource versions are decimal numbers in all versions of Kubernetes (KEP-5504).
		return cmp.Or(eventTime(a).Compare(eventTime(b)), cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	return out
}

// eventTime returns when an event was last observed.
func eventTime(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	case !e.DeprecatedLastTimestamp.IsZero():
		return e.DeprecatedLastTimestamp.Time
	}
	return e.CreationTimestamp.Time
}

// objectsOf returns the objects of a service, as kind/name.
func objectsOf(in Input, namespace, name string) map[string]bool {
	out := map[string]bool{"Microservice/" + name: true}
	for i := range in.Microservices {
		if ms := &in.Microservices[i]; ms.Namespace == namespace && ms.Name == name {
			out["ImagePolicy/"+ms.Spec.ImagePolicyRef.Name] = true
		}
	}
	for i := range in.Releases {
		if r := &in.Releases[i]; r.Namespace == namespace && r.Spec.MicroserviceName == name {
			out["VersionedMicroservice/"+r.Name] = true
		}
	}
	for i := range in.NetworkPolicies {
		if p := &in.NetworkPolicies[i]; p.Namespace == namespace && p.MicroserviceName() == name {
			out["NetworkPolicy/"+p.Name] = true
		}
	}
	return out
}

// Previews are the previews of services.
type Previews struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	// Services are the services with previews. All other services are omitted.
	Services []ServicePreviews `json:"services"`
}

// ServicePreviews are the previews of one service, sorted by pull request number in descending order.
type ServicePreviews struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Previews  []Group `json:"previews"`
}

// Previews returns the previews of one service. If name is empty, it returns the previews of all services with
// previews.
func (b Board) Previews(name string) Previews {
	out := Previews{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindPreviews}, Time: b.Time, Services: []ServicePreviews{}}
	for _, s := range b.Services {
		if len(s.Previews) > 0 && (name == "" || name == s.Name) {
			out.Services = append(out.Services, ServicePreviews{Namespace: s.Namespace, Name: s.Name, Previews: s.Previews})
		}
	}
	return out
}
