package doctor

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/measure"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/view"
)

// checkGateways checks that the Gateways that policies use exist, are programmed, and have listeners for the hosts of the policies.
func (d *doctor) checkGateways(ctx context.Context, objects []client.Object) {
	named := map[client.ObjectKey][]*v1alpha1.NetworkPolicy{}
	for _, o := range objects {
		if p, ok := o.(*v1alpha1.NetworkPolicy); ok {
			for _, g := range view.GatewaysOf(p) {
				key := client.ObjectKey{Namespace: g[0], Name: g[1]}
				named[key] = append(named[key], p)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(named), func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	good := 0
	for _, key := range keys {
		var gateway gatewayv1.Gateway
		err := d.client.Get(ctx, key, &gateway)
		switch {
		case apierrors.IsNotFound(err):
			d.add(Problem, "Gateway", "create the Gateway, or correct spec.provider.gateway.parentRefs", "Gateway %s, referenced by %s, does not exist", key, namesOf(named[key]))
			continue
		case err != nil:
			d.unknown("Gateway", "Gateway "+key.String(), err)
			continue
		}
		found := judgeGateway(&gateway, named[key])
		if d.result.Findings = append(d.result.Findings, found...); len(found) == 0 {
			good++
		}
	}
	if good > 0 {
		d.add(OK, "Gateway", "", "%s with listeners for all hosts", cli.Count(good, "Gateway"))
	}
}

// namesOf returns the name of the first policy and the number of the others, for a message about the object to which they refer.
func namesOf(policies []*v1alpha1.NetworkPolicy) string {
	text := "NetworkPolicy " + policies[0].Namespace + "/" + policies[0].Name
	if more := len(policies) - 1; more > 0 {
		text = "NetworkPolicy " + policies[0].Namespace + "/" + policies[0].Name + " and " + cli.Count(more, "other")
	}
	return text
}

// judgeGateway returns findings about problems that a Gateway causes for the policies that use it.
func judgeGateway(g *gatewayv1.Gateway, policies []*v1alpha1.NetworkPolicy) (found []Finding) {
	name := g.Namespace + "/" + g.Name
	for _, kind := range []gatewayv1.GatewayConditionType{gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayConditionProgrammed} {
		if c := meta.FindStatusCondition(g.Status.Conditions, string(kind)); c != nil && c.Status == metav1.ConditionFalse {
			return []Finding{{Problem, "Gateway", "Gateway " + name + " is not programmed: " + cleanText(strings.TrimSuffix(c.Reason+": "+c.Message, ": ")), "kubectl -n " + g.Namespace + " describe gateway " + g.Name}}
		}
	}
	for _, p := range policies {
		if len(p.Spec.Listeners) > 0 {
			continue // The policy has its own listeners.
		}
		for _, host := range hostsOf(p) {
			if !slices.ContainsFunc(sectionsOf(p, g), func(l gatewayv1.Listener) bool { return takes(l, host) }) {
				found = append(found, Finding{
					Problem, "Gateway", "Gateway " + name + " has no listener for " + host + ": NetworkPolicy " + p.Namespace + "/" + p.Name + " cannot be programmed",
					"add a listener, or change spec.domains of " + p.Namespace + "/" + p.Name,
				})
			}
		}
	}
	return found
}

// hostsOf returns the hosts of a policy: all hosts in its status, and the hosts in its specification that contain no
// template.
func hostsOf(p *v1alpha1.NetworkPolicy) []string {
	hosts := map[string]bool{}
	for _, d := range p.Status.Domains {
		hosts[d.Domain] = true
	}
	for _, d := range p.Spec.Domains {
		if !strings.Contains(d.Domain, "{{") {
			hosts[d.Domain] = true
		}
	}
	return slices.Sorted(maps.Keys(hosts))
}

// sectionsOf returns those listeners of a Gateway that a policy uses.
func sectionsOf(p *v1alpha1.NetworkPolicy, g *gatewayv1.Gateway) (out []gatewayv1.Listener) {
	for _, l := range g.Spec.Listeners {
		for _, ref := range p.Spec.Provider.Gateway.ParentRefs {
			if ref.Name == g.Name && cmp.Or(ref.Namespace, p.Namespace) == g.Namespace && (ref.SectionName == "" || ref.SectionName == string(l.Name)) {
				out = append(out, l)
				break
			}
		}
	}
	return out
}

// takes reports whether a listener accepts requests for a host.
func takes(l gatewayv1.Listener, host string) bool {
	switch l.Protocol {
	case gatewayv1.TCPProtocolType, gatewayv1.UDPProtocolType:
		return false
	}
	if l.Hostname == nil || *l.Hostname == "" {
		return true
	}
	own := string(*l.Hostname)
	below := func(wildcard, host string) bool {
		suffix, is := strings.CutPrefix(wildcard, "*")
		return is && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
	}
	return own == host || below(own, host) || below(host, own)
}

// The limits for checking Prometheus servers.
const (
	askTimeout   = 5 * time.Second
	slowAnswer   = 2 * time.Second
	maxQuestions = 8
)

// checkPrometheus checks whether the Prometheus servers of analyses respond to this machine.
func (d *doctor) checkPrometheus(ctx context.Context, objects []client.Object) {
	services, locked := map[string]int{}, 0
	var namespaced []v1alpha1.AnalysisTemplate
	var shared []v1alpha1.ClusterAnalysisTemplate
	for _, o := range objects {
		switch o := o.(type) {
		case *v1alpha1.AnalysisTemplate:
			namespaced = append(namespaced, *o)
		case *v1alpha1.ClusterAnalysisTemplate:
			shared = append(shared, *o)
		}
	}
	for _, o := range objects {
		ms, ok := o.(*v1alpha1.Microservice)
		if !ok {
			continue
		}
		spec := analysistemplate.Among(ms, namespaced, shared)
		if spec == nil {
			continue
		}
		switch p := spec.Provider.Prometheus; {
		case p == nil:
		case p.SecretRef != nil || p.CASecretRef != nil:
			locked++
		default:
			services[p.Address]++
		}
	}
	addresses := slices.Sorted(maps.Keys(services))
	findings := make([]Finding, len(addresses))
	var g errgroup.Group
	g.SetLimit(maxQuestions)
	for i, address := range addresses {
		g.Go(func() error {
			took, err := measure.Ping(ctx, d.Factory, address, askTimeout)
			findings[i] = judgeServer(cleanText(address), services[address], took, err)
			return nil
		})
	}
	_ = g.Wait() // None of the functions returns an error.
	d.result.Findings = append(d.result.Findings, findings...)
	if locked > 0 {
		d.add(Unknown, "Prometheus", "", "the servers of %s were not checked, because they require Secrets, whose content is not read", cli.Count(locked, "Microservice"))
	}
}

func judgeServer(address string, services int, took time.Duration, err error) Finding {
	switch {
	case err != nil:
		return Finding{Unknown, "Prometheus", address + " does not respond to this machine, but the manager might be able to reach it: " + cleanText(err.Error()), ""}
	case took > slowAnswer:
		return Finding{Warning, "Prometheus", address + " responds in " + took.Round(100*time.Millisecond).String() + ": the analyses of " + cli.Count(services, "Microservice") + " might time out", "check the load on the server, or increase provider.timeout of the analyses"}
	}
	return Finding{OK, "Prometheus", address + " responds", ""}
}
