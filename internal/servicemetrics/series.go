package servicemetrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/view"
)

// These labels identify services, groups and policies. By default, a scraper overwrites the namespace label with the namespace of the manager,
// so it needs honorLabels to keep the label.
var (
	serviceLabels = []string{"namespace", "microservice"}
	groupLabels   = []string{"namespace", "microservice", "group"}
	policyLabels  = []string{"kind", "namespace", "name"}
)

// These metrics cover all services, and have no labels with names of objects.
var (
	groupsByState = describe("heighliner_groups", "Number of release groups, by state.", "state")
	oldestByState = describe("heighliner_groups_oldest_timestamp_seconds", "For the release group that has been in the state the longest, the time at which it entered the state.", "state")
	policyStates  = describe("heighliner_policy_conditions", "Number of ImagePolicies and NetworkPolicies, by the status of each condition.", "kind", "condition", "status")
	servicesTotal = describe("heighliner_microservices", "Number of Microservices.")
	limitOfNames  = describe("heighliner_service_metrics_limit", "Number of Microservices above which there are no metrics by namespace, Microservice and group.")
	namesEnabled  = describe("heighliner_service_metrics_enabled", "1 while there are metrics by namespace, Microservice and group; 0 while there are too many Microservices.")
)

// These metrics have labels for namespace, Microservice and group.
var (
	groupState       = describe("heighliner_group_state", "State of a release group: 1 for the current state.", with(groupLabels, "state")...)
	groupSince       = describe("heighliner_group_state_since_timestamp_seconds", "Time at which a release group entered its state, or was first seen in it.", groupLabels...)
	groupVersion     = describe("heighliner_group_version", "Versions of a release group by status: active, and pending or canary during a rollout.", with(groupLabels, "status", "version")...)
	groupActiveSince = describe("heighliner_group_active_since_timestamp_seconds", "Time at which the active release of a group became active.", groupLabels...)
	groupStep        = describe("heighliner_group_canary_step", "Step of the rollout in progress, counted from 1; 0 before the first step.", groupLabels...)
	groupSteps       = describe("heighliner_group_canary_steps", "Number of steps of the rollout in progress.", groupLabels...)
	groupWeight      = describe("heighliner_group_canary_weight_percent", "Weight that routes should give to the release whose rollout is in progress.", groupLabels...)
	groupDeployments = describe("heighliner_group_deployments_total", "Number of times that a release of the group became active, as recorded in the status.", groupLabels...)
	groupLeadTime    = describe("heighliner_group_last_lead_time_seconds", "Time until the active release became active, from the publication of its version (Published) or, if that is unknown, from the creation of the release (Started).", with(groupLabels, "from")...)

	serviceLeadTime = describe("heighliner_service_lead_time_seconds", "Lead times of the releases that became active since the manager started.", serviceLabels...)
	serviceRollouts = describe("heighliner_service_rollouts_total", "Number of rollouts and rollbacks that ended since the manager started, by result.", with(serviceLabels, "result")...)
	serviceRestored = describe("heighliner_service_restore_seconds", "Time during which failed and rolled-back releases had traffic, since the manager started.", serviceLabels...)
	serviceGates    = describe("heighliner_service_gate_seconds_total", "Time that groups spent in each gate since the manager started.", with(serviceLabels, "gate")...)

	policyCondition = describe("heighliner_policy_condition", "Condition of an ImagePolicy or NetworkPolicy: 1 while it is True, otherwise 0.", with(policyLabels, "condition", "reason")...)
)

// described contains the descriptions of all metrics.
var described []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	described = append(described, d)
	return d
}

func with(labels []string, more ...string) []string { return slices.Concat(labels, more) }

// maxGroups is the maximum number of groups for which a service has series. If a service has more groups, only the
// newest groups have series. Previews have none.
const maxGroups = 8

// maxPolicies is the number of NetworkPolicies of each service that always have series by name. Further policies have such series only up
// to a limit.
const maxPolicies = 8

// words contains the states that always have a series in heighliner_groups.
var words = []view.Word{
	view.WordActive, view.WordUnavailable, view.WordPinned, view.WordDraining, view.WordStarting, view.WordProgressing, view.WordPause,
	view.WordApproval, view.WordAnalysis, view.WordInconclusive, view.WordNoTraffic, view.WordProgramming, view.WordInterrupted,
	view.WordBlocked, view.WordRetryTime, view.WordGate, view.WordTogether, view.WordTogetherHeld, view.WordWindow, view.WordPaused, view.WordFrozen,
	view.WordRolledBack, view.WordFailed, view.WordAborted, view.WordEmpty, view.WordExpired, view.WordNoSlot,
}

// emit sends a sample.
type emit func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// seconds converts a time to seconds since 1970.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// all emits the metrics that cover all services.
func (e emit) all(states []view.GroupState, p *progress, in view.Input) {
	count, oldest := map[string]int{}, map[string]time.Time{}
	for _, w := range words {
		count[string(w)] = 0
	}
	for _, g := range states {
		word, since := string(g.State.Word), p.groups[keyOf(g)].since
		count[word]++
		if at, ok := oldest[word]; !ok || since.Before(at) {
			oldest[word] = since
		}
	}
	for _, word := range slices.Sorted(maps.Keys(count)) {
		e(groupsByState, prometheus.GaugeValue, float64(count[word]), word)
		if at, ok := oldest[word]; ok {
			e(oldestByState, prometheus.GaugeValue, seconds(at), word)
		}
	}
	e(servicesTotal, prometheus.GaugeValue, float64(len(in.Microservices)))

	conditions := map[[3]string]int{}
	for _, c := range []struct{ kind, condition string }{
		{"ImagePolicy", v1alpha1.ConditionReady}, {"ImagePolicy", v1alpha1.ConditionSourceReachable},
		{"NetworkPolicy", v1alpha1.ConditionReady}, {"NetworkPolicy", v1alpha1.ConditionProgrammed},
	} {
		for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			conditions[[3]string{c.kind, c.condition, string(s)}] = 0
		}
	}
	for c := range policyConditions(in) {
		conditions[[3]string{c.kind, c.Type, string(c.Status)}]++
	}
	for _, k := range slices.SortedFunc(maps.Keys(conditions), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		e(policyStates, prometheus.GaugeValue, float64(conditions[k]), k[:]...)
	}
}

// named emits the series by namespace, Microservice and group.
func (e emit) named(states []view.GroupState, p *progress, st starts, in view.Input, limit int) {
	groups := map[types.NamespacedName]int{}
	for _, g := range states {
		k := keyOf(g)
		if g.Preview || groups[k.service] == maxGroups {
			continue
		}
		groups[k.service]++
		e.group(g, k, p.groups[k], st)
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.services), byName) {
		e.service(k, p.services[k])
	}
	for c := range policyConditions(namedPolicies(in, limit)) {
		value := 0.0
		if c.Status == metav1.ConditionTrue {
			value = 1
		}
		e(policyCondition, prometheus.GaugeValue, value, c.kind, c.namespace, c.name, c.Type, c.Reason)
	}
}

func byName(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// group emits the series of one group.
func (e emit) group(g view.GroupState, k groupKey, seen seenGroup, st starts) {
	labels := []string{k.service.Namespace, k.service.Name, k.slug}
	gauge := func(desc *prometheus.Desc, value float64, more ...string) {
		e(desc, prometheus.GaugeValue, value, with(labels, more...)...)
	}
	gauge(groupState, 1, string(g.State.Word))
	gauge(groupSince, seconds(seen.since))
	e(groupDeployments, prometheus.CounterValue, float64(seen.promoted), labels...)
	if at := activeOf(g.Group); at >= 0 {
		active := &g.Group.Releases[at]
		gauge(groupVersion, 1, string(active.Status), status.Short(active.SemVer.Version))
		gauge(groupActiveSince, seconds(active.LastTransitionTime.Time))
		if leadTime, from, ok := st.leadTime(g, active); ok {
			gauge(groupLeadTime, leadTime.Seconds(), from)
		}
	}
	if r := g.Rollout; r != nil {
		if r.Status != v1alpha1.ReleaseActive {
			gauge(groupVersion, 1, string(r.Status), status.Short(r.SemVer.Version))
		}
		gauge(groupStep, float64(g.Step))
		gauge(groupSteps, float64(g.Steps))
		gauge(groupWeight, float64(r.Weight))
	}
}

// service emits the series of one service.
func (e emit) service(k types.NamespacedName, t *totals) {
	labels := []string{k.Namespace, k.Name}
	for _, result := range results {
		e(serviceRollouts, prometheus.CounterValue, t.rollouts[result], with(labels, result)...)
	}
	for _, gate := range slices.Sorted(maps.Keys(t.gates)) {
		e(serviceGates, prometheus.CounterValue, t.gates[gate], with(labels, gate)...)
	}
}

// conditionOf is a condition of an ImagePolicy or a NetworkPolicy, with the identity of the policy.
type conditionOf struct {
	kind, namespace, name string
	*metav1.Condition
}

// namedPolicies returns the policies that have series by name: the ImagePolicy of each Microservice, up to maxPolicies NetworkPolicies of each
// Microservice, and up to limit other policies of each kind. Policies with a condition that is False come first, because alerts refer to them.
func namedPolicies(in view.Input, limit int) (out view.Input) {
	images, routes := map[types.NamespacedName]bool{}, map[types.NamespacedName]int{}
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		images[types.NamespacedName{Namespace: ms.Namespace, Name: ms.Spec.ImagePolicyRef.Name}] = true
		routes[types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}] = maxPolicies
	}
	left := limit
	for _, p := range sorted(in.ImagePolicies, func(x, y *v1alpha1.ImagePolicy) int {
		return failingFirst(x, x.Status.Conditions, y, y.Status.Conditions)
	}) {
		if used := images[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]; used || left > 0 {
			if out.ImagePolicies = append(out.ImagePolicies, *p); !used {
				left--
			}
		}
	}
	left = limit
	for _, p := range sorted(in.NetworkPolicies, func(x, y *v1alpha1.NetworkPolicy) int {
		return failingFirst(x, x.Status.Conditions, y, y.Status.Conditions)
	}) {
		k := types.NamespacedName{Namespace: p.Namespace, Name: p.MicroserviceName()}
		switch {
		case routes[k] > 0:
			routes[k]--
		case left > 0:
			left--
		default:
			continue
		}
		out.NetworkPolicies = append(out.NetworkPolicies, *p)
	}
	return out
}

// sorted returns pointers to the items, in order. Pointers avoid copying two items for each
// comparison.
func sorted[T any](items []T, order func(x, y *T) int) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	slices.SortFunc(out, order)
	return out
}

// failingFirst orders policies by name, but policies with a condition that is False come before all others.
func failingFirst(x client.Object, ofX []metav1.Condition, y client.Object, ofY []metav1.Condition) int {
	rank := func(conditions []metav1.Condition) int {
		if slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Status == metav1.ConditionFalse }) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(ofX), rank(ofY)), byName(client.ObjectKeyFromObject(x), client.ObjectKeyFromObject(y)))
}

// policyConditions returns those conditions of ImagePolicies and NetworkPolicies for which there are series.
func policyConditions(in view.Input) func(yield func(conditionOf) bool) {
	return func(yield func(conditionOf) bool) {
		each := func(kind, namespace, name string, conditions []metav1.Condition, reported ...string) bool {
			for _, t := range reported {
				if c := meta.FindStatusCondition(conditions, t); c != nil && !yield(conditionOf{kind, namespace, name, c}) {
					return false
				}
			}
			return true
		}
		for i := range in.ImagePolicies {
			p := &in.ImagePolicies[i]
			if !each("ImagePolicy", p.Namespace, p.Name, p.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ConditionSourceReachable) {
				return
			}
		}
		for i := range in.NetworkPolicies {
			p := &in.NetworkPolicies[i]
			if !each("NetworkPolicy", p.Namespace, p.Name, p.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ConditionProgrammed) {
				return
			}
		}
	}
}
