package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// previousGroupVersion is the group and version of ListenerSets before Gateway API 1.5.
var previousGroupVersion = schema.GroupVersion{Group: "gateway.networking.x-k8s.io", Version: "v1alpha1"}

var listenerSetKind = providers.Kind{
	Group: gatewayv1.GroupName, Kind: "ListenerSet", Versions: []string{"v1"},
	Previous: &providers.Kind{Group: previousGroupVersion.Group, Kind: "XListenerSet", Versions: []string{previousGroupVersion.Version}},
}

// XListenerSet is a ListenerSet under its previous name.
type XListenerSet gatewayv1.ListenerSet

// XListenerSetList is a list of XListenerSets.
type XListenerSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []XListenerSet `json:"items"`
}

// DeepCopyObject copies the ListenerSet.
func (s *XListenerSet) DeepCopyObject() runtime.Object {
	return (*XListenerSet)((*gatewayv1.ListenerSet)(s).DeepCopy())
}

// DeepCopyObject copies the list.
func (l *XListenerSetList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &XListenerSetList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*XListenerSet))
	}
	return out
}

// listenerSet returns an object of kind ListenerSet, or of its previous kind, as a ListenerSet. It
// returns nil if the object is of another kind.
func listenerSet(o resources.Object) *gatewayv1.ListenerSet {
	switch s := o.(type) {
	case *gatewayv1.ListenerSet:
		return s
	case *XListenerSet:
		return (*gatewayv1.ListenerSet)(s)
	}
	return nil
}

// listenerName is the name of the listener in a managed ListenerSet. Each host has its own set, so
// that a problem with one host does not affect others. If two sets claim a host, their age decides
// which of them serves it.
const listenerName = "https"

// attachment is a parent of a route: a Gateway, or one of the policy's ListenerSets on a Gateway.
type attachment struct {
	providers.Parent
	// set is the name of the ListenerSet; empty if the parent is the Gateway itself.
	set string
}

// attachments returns the attachments of a route, in the order of its parents.
func (v *view) attachments(r providers.Route) []attachment {
	var out []attachment
	for _, p := range v.parents(r) {
		hosts := 0
		for _, host := range r.Hostnames {
			if t, ok := r.TLS[host]; ok && t.Mode == v1alpha1.TLSListenerSet {
				hosts++
				a := attachment{Parent: p, set: v.setName(p, host, t)}
				if !slices.ContainsFunc(out, func(b attachment) bool { return a.set == b.set }) {
					out = append(out, a)
				}
			}
		}
		if hosts == 0 {
			out = append(out, attachment{Parent: p})
		}
	}
	return out
}

func (v *view) setName(p providers.Parent, host string, t providers.TLS) string {
	return resources.ListenerSetName(v.Policy.Name, key(v.Policy.Namespace, p.ParentReference), host, t.Port)
}

// setType returns the group, version and kind of ListenerSets that the API server serves.
func (v *view) setType() (group, version, kind string) {
	served := v.Served[listenerSetKind.Kind]
	return cmp.Or(served.Group, listenerSetKind.Group), cmp.Or(served.Version, listenerSetKind.Versions[0]), cmp.Or(served.Kind, listenerSetKind.Kind)
}

// Shared returns the ListenerSets for the hosts with TLS mode ListenerSet, sorted by name.
func (v *view) Shared(routes []providers.Route) []providers.Shared {
	sets := map[string]providers.Shared{}
	for _, r := range routes {
		for _, host := range r.Hostnames {
			t, ok := r.TLS[host]
			if !ok || t.Mode != v1alpha1.TLSListenerSet {
				continue
			}
			for _, p := range v.parents(r) {
				name := v.setName(p, host, t)
				sets[name] = providers.Shared{Object: v.buildSet(name, p, host, t), Hosts: []string{host}}
			}
		}
	}
	var out []providers.Shared
	for _, name := range providers.Sorted(sets) {
		out = append(out, sets[name])
	}
	return out
}

func (v *view) buildSet(name string, p providers.Parent, host string, t providers.TLS) resources.Object {
	group, version, kind := v.setType()
	set := &gatewayv1.ListenerSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: group + "/" + version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Policy.Namespace, Name: name, Labels: resources.Labels(v.Policy, v.Microservice, "")},
		Spec: gatewayv1.ListenerSetSpec{
			ParentRef: gatewayv1.ParentGatewayReference{
				Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: new(gatewayv1.Kind(gatewayKind.Kind)), Name: gatewayv1.ObjectName(p.Name),
				Namespace: new(gatewayv1.Namespace(cmp.Or(p.Namespace, v.Policy.Namespace))),
			},
			Listeners: []gatewayv1.ListenerEntry{{
				Name: listenerName, Hostname: new(gatewayv1.Hostname(host)), Port: gatewayv1.PortNumber(t.Port), Protocol: gatewayv1.HTTPSProtocolType,
				TLS: &gatewayv1.ListenerTLSConfig{Mode: new(gatewayv1.TLSModeTerminate), CertificateRefs: []gatewayv1.SecretObjectReference{{
					Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Secret")), Name: gatewayv1.ObjectName(t.Serving()),
				}}},
				AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSame)}},
			}},
		},
	}
	if kind != listenerSetKind.Kind {
		return (*XListenerSet)(set)
	}
	return set
}

// Holds reports whether a live route refers to a ListenerSet, regardless of the desired routes. A
// ListenerSet is deleted after the routes that refer to it.
func (v *view) Holds(o resources.Object, _ []providers.Route) bool {
	if listenerSet(o) == nil {
		return false
	}
	for _, live := range v.live {
		parts, _ := partsOf(live.Objects[0])
		if !live.Deleting && slices.ContainsFunc(parts.parents, func(p gatewayv1.ParentReference) bool {
			return ofSet(p) && string(p.Name) == o.GetName()
		}) {
			return true
		}
	}
	return false
}

// ofSet reports whether a parent reference refers to a ListenerSet.
func ofSet(p gatewayv1.ParentReference) bool {
	return p.Kind != nil && (string(*p.Kind) == listenerSetKind.Kind || string(*p.Kind) == listenerSetKind.Previous.Kind)
}

// set returns a live ListenerSet of the policy, or nil.
func (v *view) set(name string) *gatewayv1.ListenerSet {
	for _, o := range v.Objects {
		if s := listenerSet(o); s != nil && s.Name == name {
			return s
		}
	}
	return nil
}

// LiveTLS returns the settings of the listener for a host in the policy's ListenerSets, or nil.
func (v *view) LiveTLS(host string) *providers.TLS {
	for _, o := range v.Objects {
		s := listenerSet(o)
		if s == nil || s.DeletionTimestamp != nil {
			continue
		}
		if l := ownListener(s); l != nil && l.TLS != nil && len(l.TLS.CertificateRefs) > 0 && string(deref(l.Hostname)) == host {
			return &providers.TLS{Mode: v1alpha1.TLSListenerSet, Secret: string(l.TLS.CertificateRefs[0].Name), Port: int32(l.Port)}
		}
	}
	return nil
}

// ownListener returns the listener that the controller writes to a ListenerSet, or nil. Other clients may add listeners.
func ownListener(s *gatewayv1.ListenerSet) *gatewayv1.ListenerEntry {
	for i := range s.Spec.Listeners {
		if s.Spec.Listeners[i].Name == listenerName {
			return &s.Spec.Listeners[i]
		}
	}
	return nil
}

// setProblem returns a problem if the Gateway of an attachment does not accept the ListenerSet. It
// returns nil if the Gateway accepts the set, or has not reported yet.
func (v *view) setProblem(a attachment) *providers.Problem {
	s := v.set(a.set)
	if s == nil {
		return nil
	}
	c := meta.FindStatusCondition(s.Status.Conditions, string(gatewayv1.ListenerSetConditionAccepted))
	if c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != s.Generation {
		return nil
	}
	fix := "see its status"
	if c.Reason == string(gatewayv1.ListenerSetReasonNotAllowed) {
		fix = fmt.Sprintf("allow namespace %q in spec.allowedListeners of the Gateway", v.Policy.Namespace)
	}
	return &providers.Problem{Reason: providers.ReasonNotAccepted, Message: fmt.Sprintf("%s: Gateway %q does not accept ListenerSet %q: %s: %s: %s",
		a.Field, key(v.Policy.Namespace, a.ParentReference), a.set, c.Reason, strings.TrimSuffix(c.Message, "."), fix)}
}

// setServes returns the problem that prevents the listener of a ListenerSet from serving its host;
// nil if there is none.
func (v *view) setServes(name string) *providers.Problem {
	s := v.set(name)
	if s == nil {
		return &providers.Problem{Reason: providers.ReasonListenerNotReady, Message: fmt.Sprintf("ListenerSet %q is being written", name)}
	}
	for _, l := range s.Status.Listeners {
		if l.Name != listenerName {
			continue
		}
		what := fmt.Sprintf("the listener of ListenerSet %q", name)
		if problem := listenerProblem(l.Conditions, s.Generation, what); problem != nil {
			return problem
		}
		if c := meta.FindStatusCondition(l.Conditions, string(gatewayv1.ListenerConditionProgrammed)); c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == s.Generation {
			return nil
		}
	}
	return &providers.Problem{Reason: providers.ReasonListenerNotReady, Message: fmt.Sprintf(
		"the Gateway has not reported that the listener of ListenerSet %q is programmed: check that the Gateway's controller implements ListenerSets", name)}
}

// listenerProblem returns the problem that a listener's conditions show for a generation; nil if they show none.
func listenerProblem(conditions []metav1.Condition, generation int64, what string) *providers.Problem {
	for _, kind := range []gatewayv1.ListenerConditionType{
		gatewayv1.ListenerConditionConflicted, gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerConditionProgrammed,
	} {
		bad := metav1.ConditionFalse
		if kind == gatewayv1.ListenerConditionConflicted {
			bad = metav1.ConditionTrue
		}
		c := meta.FindStatusCondition(conditions, string(kind))
		if c == nil || c.Status != bad || c.ObservedGeneration != generation {
			continue
		}
		reason, fix := providers.ReasonListenerNotReady, "see its status"
		switch gatewayv1.ListenerConditionReason(c.Reason) {
		case gatewayv1.ListenerReasonInvalidCertificateRef:
			reason, fix = providers.ReasonCertificateNotReady, "check that the Secret exists, has type kubernetes.io/tls and contains a certificate with its key"
		case gatewayv1.ListenerReasonRefNotPermitted:
			reason, fix = providers.ReasonCertificateNotReady, "in the namespace of the Secret, create a ReferenceGrant that permits the reference"
		}
		return &providers.Problem{Reason: reason, Message: fmt.Sprintf("%s is not ready: %s: %s: %s", what, c.Reason, strings.TrimSuffix(c.Message, "."), fix)}
	}
	return nil
}
