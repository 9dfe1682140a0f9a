package traffic

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
)

var (
	fieldPattern = regexp.MustCompile(`\{\{ ?\.([A-Za-z]+) ?\}\}`)
	groupFields  = regexp.MustCompile(`\{\{ ?\.(ReleaseGroupName|StreamName|FullName|Version|Number) ?\}\}`)
)

// Hosts returns the hosts to which the domains of a policy render for any group of its Microservice, or nil if the policy
// writes no routes.
func Hosts(p *v1alpha1.NetworkPolicy, ms *v1alpha1.Microservice) []string {
	out := map[string]bool{}
	eachHost(p, ms, func(_ v1alpha1.Domain, _ *v1alpha1.ReleaseGroup, host string) { out[host] = true })
	return providers.Sorted(out)
}

// eachHost calls each for the valid hosts to which domains render, with the domain and the group. The group is nil for a host that was
// rendered without a group.
func eachHost(p *v1alpha1.NetworkPolicy, ms *v1alpha1.Microservice, each func(entry v1alpha1.Domain, g *v1alpha1.ReleaseGroup, host string)) {
	if !routed(p) || gatewayapi.UserRef(p) != nil || ms == nil {
		return
	}
	groups := []*v1alpha1.ReleaseGroup{nil}
	for i := range ms.Status.ReleaseGroups {
		if g := &ms.Status.ReleaseGroups[i]; live(g) {
			groups = append(groups, g)
		}
	}
	for _, entry := range p.Spec.Domains {
		for _, g := range groups {
			if host, err := render(entry.Domain, p, g); err == nil {
				each(entry, g, host)
			}
		}
	}
}

// templated reports whether a domain contains a template field whose value depends on the group.
func templated(domain string) bool { return groupFields.MatchString(domain) }

// groupsPolicy returns the groups policy of a domain, or the default.
func groupsPolicy(d v1alpha1.Domain) v1alpha1.GroupsPolicy {
	switch {
	case d.Groups != nil:
		return d.Groups.Policy
	case templated(d.Domain):
		return v1alpha1.GroupsEach
	}
	return v1alpha1.GroupsNewest
}

// render returns the host of a domain for a group, which may be nil.
func render(domain string, p *v1alpha1.NetworkPolicy, g *v1alpha1.ReleaseGroup) (string, error) {
	host, err := fill(domain, p, g)
	if err != nil {
		return "", err
	}
	return host, checkHost(host)
}

// fill replaces the fields of a template with their values for a group, which may be nil.
func fill(template string, p *v1alpha1.NetworkPolicy, g *v1alpha1.ReleaseGroup) (string, error) {
	ms := p.MicroserviceName()
	values := map[string]string{"Name": p.Name, "Microservice": ms, "Namespace": p.Namespace}
	if g != nil {
		values["ReleaseGroupName"], values["StreamName"], values["FullName"] = g.Slug, g.Name, ms+"-"+g.Slug
		if g.PullRequest > 0 {
			values["Number"] = strconv.FormatInt(g.PullRequest, 10)
		}
		if a := g.ActiveRelease(); a != nil {
			values["Version"] = a.SemVer.Version
		}
	}
	var missing string
	text := fieldPattern.ReplaceAllStringFunc(template, func(field string) string {
		name := fieldPattern.FindStringSubmatch(field)[1]
		value, ok := values[name]
		if !ok && missing == "" {
			missing = name
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("the field {{.%s}} has no value for this domain", missing)
	}
	return text, nil
}

// checkHost returns an error if a host is not valid as the host name of a route.
func checkHost(host string) error {
	name, wildcard := strings.CutPrefix(host, "*.")
	if _, err := netip.ParseAddr(host); err == nil {
		return fmt.Errorf("%q is an IP address, not a host name", host)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(host) > validation.DNS1123SubdomainMaxLength {
		return fmt.Errorf("%q is not a host name of at most 253 lowercase letters, digits, '-' and '.'", host)
	}
	if wildcard && !strings.Contains(name, ".") && name == "" {
		return fmt.Errorf("%q is not a host name", host)
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) > validation.DNS1123LabelMaxLength {
			return fmt.Errorf("label %q of %q has more than 63 characters", label, host)
		}
	}
	return nil
}

func (d *planner) hostGroup(host, path string) string {
	for _, name := range providers.Sorted(d.Live) {
		route := d.Live[name]
		if !route.Deleting && route.Path == path && slices.Contains(route.Hostnames, host) {
			return route.Group()
		}
	}
	return ""
}

// refuses returns an error if the host to which a domain renders is not allowed. It returns nil if
// the host is allowed, or if the list of domains cannot be read.
func (o *Ownership) refuses(domain, host string) error {
	switch {
	case o == nil || o.Unread != nil:
		return nil
	case templated(domain):
		return o.Hosts.Rendered(host)
	}
	return o.Hosts.Literal(host)
}

// hasRoute reports whether any live route of the policy has the given host.
func (d *planner) hasRoute(host string) bool {
	for _, route := range d.Live {
		if slices.Contains(route.Hostnames, host) {
			return true
		}
	}
	return false
}

// forbidden reports whether a live route has a host that is not allowed for the namespace. Such a
// route is deleted, even if its other hosts are allowed.
func (f *Observed) forbidden(route *providers.Live) bool {
	return !route.User && slices.ContainsFunc(route.Hostnames, func(host string) bool { return f.Owned.refuses(host, host) != nil })
}

// withdrawn returns the reported domains of a policy without a Microservice. It reports forbidden
// hosts as not programmed, because their routes are deleted.
func (f *Observed) withdrawn(reported []v1alpha1.DomainStatus) []v1alpha1.DomainStatus {
	for i := range reported {
		d := &reported[i]
		if err := f.Owned.refuses(d.Domain, d.Domain); err != nil && d.URL != "" {
			d.Programmed, d.Backends = false, nil
			d.Reason, d.Message = ReasonDomainNotAllowed, err.Error()
		}
	}
	return reported
}
