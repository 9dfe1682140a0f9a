package networkpolicy

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// Reasons of domains, groups and conditions.
const (
	reasonInvalidDomain       = "InvalidDomain"
	reasonDomainConflict      = "DomainConflict"
	reasonDomainNotAllowed    = "DomainNotAllowed"
	reasonDomainsUnreadable   = "DomainListUnreadable"
	reasonGroupNotFound       = "GroupNotFound"
	reasonNoActiveRelease     = "NoActiveRelease"
	reasonNoReadyEndpoints    = "NoReadyEndpoints"
	reasonPinnedUnavailable   = "PinnedReleaseUnavailable"
	reasonNoCanary            = "NoCanary"
	reasonParentNotFound      = providers.ReasonParentNotFound
	reasonNotAccepted         = providers.ReasonNotAccepted
	reasonNoMatchingListener  = providers.ReasonNoMatchingListener
	reasonGatewayAPIMissing   = providers.ReasonAPIMissing
	reasonGatewayUnprogrammed = providers.ReasonUnprogrammed
	reasonNotRoutable         = "PortNotRoutable"
	reasonNotSupported        = providers.ReasonNotSupported
	reasonTooManyDomains      = "TooManyDomains"
	reasonCertificateNotReady = providers.ReasonCertificateNotReady
	reasonListenerNotReady    = providers.ReasonListenerNotReady
	reasonPending             = providers.ReasonPending
	reasonNameConflict        = "NameConflict"
	reasonNoPreviews          = "NoPreviews"
	reasonNoMicroservice      = "MicroserviceNotFound"
)

// maxRows is the number of rendered hosts that a policy's status holds.
const maxRows = 512

// pathOfTLS stands for the path where a host is served by TLS listeners, which do not
// see one. No path is like it.
const pathOfTLS = "TLS"

var (
	fieldPattern = regexp.MustCompile(`\{\{ ?\.([A-Za-z]+) ?\}\}`)
	groupFields  = regexp.MustCompile(`\{\{ ?\.(ReleaseGroupName|StreamName|FullName|Version|Number) ?\}\}`)
)

// templated says whether a domain holds a field of the group.
func templated(domain string) bool { return groupFields.MatchString(domain) }

// groupsPolicy of a domain, its default included.
func groupsPolicy(d v1alpha1.Domain) v1alpha1.GroupsPolicy {
	switch {
	case d.Groups != nil:
		return d.Groups.Policy
	case templated(d.Domain):
		return v1alpha1.GroupsEach
	}
	return v1alpha1.GroupsNewest
}

// render fills the fields of a domain for a group, which may be nil.
func render(domain string, p *v1alpha1.NetworkPolicy, g *v1alpha1.ReleaseGroup) (string, error) {
	host, err := fill(domain, p, g)
	if err != nil {
		return "", err
	}
	return host, checkHost(host)
}

// fill fills the fields of a template for a group, which may be nil.
func fill(template string, p *v1alpha1.NetworkPolicy, g *v1alpha1.ReleaseGroup) (string, error) {
	ms := microserviceName(p)
	values := map[string]string{"Name": p.Name, "Microservice": ms, "Namespace": p.Namespace}
	if g != nil {
		values["ReleaseGroupName"], values["StreamName"], values["FullName"] = g.Slug, g.Name, ms+"-"+g.Slug
		if g.PullRequest > 0 {
			values["Number"] = strconv.FormatInt(g.PullRequest, 10)
		}
		if a := activeOf(g); a != nil {
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
		return "", fmt.Errorf("field {{.%s}} has no value here", missing)
	}
	return text, nil
}

// checkHost says what keeps text from being the host name of a route.
func checkHost(host string) error {
	name, wildcard := strings.CutPrefix(host, "*.")
	if _, err := netip.ParseAddr(host); err == nil {
		return fmt.Errorf("%q is an address, not a host name", host)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 || len(host) > validation.DNS1123SubdomainMaxLength {
		return fmt.Errorf("%q is no host name in lower-case letters, digits, '-' and '.' of at most 253 characters", host)
	}
	if wildcard && !strings.Contains(name, ".") && name == "" {
		return fmt.Errorf("%q is no host name", host)
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) > validation.DNS1123LabelMaxLength {
			return fmt.Errorf("label %q of %q has more than 63 characters", label, host)
		}
	}
	return nil
}

// literal says whether the host of a row is the same whatever group it leads to.
func (d *decider) literal(r *row) bool {
	return r.host == "" || !templated(d.policy.Spec.Domains[r.entry].Domain)
}

// preview says whether a row leads to a preview of a pull request.
func preview(r *row) bool { return r.group != nil && r.group.Level == v1alpha1.LevelPreview }

// settleClaims turns down hosts and listeners that an older policy holds, or another entry:
// one whose host no group has a say in comes first, then an earlier one. A preview gets no
// host that such an entry names, whatever the paths and whether it is routed or not: who
// opens a pull request chooses the name of its branch. The same goes for a host that another
// policy names and serves, even a younger one, unless the preview has it already: nobody
// takes a host away that is served. Of two groups that give one host by the same entry, the
// newer one has it, once that can answer there.
func (d *decider) settleClaims(rows []*row) {
	own, named := map[string]*row{}, map[string]*row{}
	var literal, rest []*row
	for _, r := range rows {
		if !d.literal(r) {
			rest = append(rest, r)
			continue
		}
		literal, named[r.host] = append(literal, r), cmp.Or(named[r.host], r)
	}
	for _, r := range slices.Concat(literal, rest) {
		host, path := r.holds()
		if host == "" {
			continue
		}
		if first := named[r.host]; first != nil && !d.literal(r) && preview(r) {
			r.kept = false
			r.fail(reasonDomainConflict, fmt.Sprintf("%s: %q is the host of %s, and no preview gets it: name the branch otherwise, or use {{.ReleaseGroupName}}", r.source(), host, first.field))
		}
		what, mend := fmt.Sprintf("%q with path %q", host, path), "use another host or path"
		if r.listener != "" {
			what, mend = fmt.Sprintf("the listener of %s.parentRef", r.field), "name another listener"
		}
		for _, c := range d.claims {
			switch {
			case c.host == host && c.path == path && !c.younger:
				r.kept = false
				r.fail(reasonDomainConflict, fmt.Sprintf("%s: %s is held by networkpolicies.hlnr.io %q, which is older: %s", r.source(), what, c.policy, mend))
			case c.host == host && c.literal && !d.literal(r) && preview(r) && !d.carries(host):
				r.kept = false
				r.fail(reasonDomainConflict, fmt.Sprintf("%s: %q is the host of networkpolicies.hlnr.io %q, and no preview gets it: name the branch otherwise, or use {{.ReleaseGroupName}}", r.source(), host, c.policy))
			}
		}
		if first := own[host+path]; first != nil {
			if r.listener == "" {
				mend += ", or {{.ReleaseGroupName}}"
			}
			holder := first.field
			if first.field == r.field && first.group != nil {
				// No one is at fault: two groups may have one version for a while, as one that
				// the specification no longer makes and its heir. Waiting for the host, the heir
				// would keep the other from closing.
				if first.reason == "" && r.reason == "" && d.holdsOn(r, first.group) {
					first, r = r, first
					own[host+path] = first
				}
				r.covered = r.reason == ""
				holder = fmt.Sprintf("%s for release group %q", first.field, first.group.Name)
			}
			r.kept = false
			r.fail(reasonDomainConflict, fmt.Sprintf("%s: %s is held by %s already: %s", r.source(), what, holder, mend))
			continue
		}
		if r.reason == "" || r.kept {
			own[host+path] = r
		}
	}
}

// holdsOn says whether a row keeps a host that a newer group renders as well: a route leads
// it to the group of the row, and what the newer one runs has no ready endpoint.
func (d *decider) holdsOn(r *row, newer *v1alpha1.ReleaseGroup) bool {
	a := activeOf(newer)
	return (a == nil || !d.ready(a.VersionedMicroservice)) && d.hostGroup(r.host, r.path) == r.group.Slug
}
