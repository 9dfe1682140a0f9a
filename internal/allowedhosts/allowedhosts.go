// Package allowedhosts decides which hosts a namespace may use. It applies the same rules as the ValidatingAdmissionPolicy in
// config/policies/domains.yaml. The policy checks the domains that users write; this package checks the hosts to which templates expand.
//
// The list of hosts is stored in the data of a ConfigMap. Each key is the name of a namespace, and the lines of its value are the hosts that the
// namespace may use:
//
//	data:
//	  shop: |
//	    www.example.com
//	    *.shop.example.com
//	  previews: |
//	    namespaces: team=shop,stage=preview
//	    *.preview.example.com
//
// A line such as "*.example.com" matches every subdomain of example.com, at any depth, as in the Gateway API. If a value contains lines of
// the form "namespaces: label=value,...", the key is an arbitrary name, and the hosts are for the namespaces that have all labels in at least
// one such line. Empty lines and lines that begin with "#" are ignored.
//
// A host that is listed by name is reserved for the namespaces that its key selects. No "*." line allows other namespaces to use it. Even in
// those namespaces, only a domain without template fields that depend on the group can use the host. Therefore, a domain with
// {{.ReleaseGroupName}}, for example, can never use the host, regardless of the name of a pull request's branch.
package allowedhosts

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// ConfigMapName is the name of the ConfigMap in the manager's namespace that contains the list. Without the ConfigMap, every namespace may
// use every host.
const ConfigMapName = "heighliner-domains"

// MaxSize is the maximum total number of characters in the values of a list. The limit bounds the cost of the admission policy.
const MaxSize = 32768

const maxHost = 253

const selectorPrefix = "namespaces:"

const (
	labelText    = `([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?=[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?`
	dnsLabelText = `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`
)

var (
	selectorPattern  = regexp.MustCompile(`^` + selectorPrefix + ` *` + labelText + `( *, *` + labelText + `)*$`)
	hostPattern      = regexp.MustCompile(`^([*][.])?` + dnsLabelText + `([.]` + dnsLabelText + `)*$`)
	namespacePattern = regexp.MustCompile(`^` + dnsLabelText + `$`)
)

// Rules is a parsed list. It is immutable and safe for concurrent use. The zero value grants nothing.
type Rules struct {
	entries []entry
	// named contains the hosts that are listed by name in at least one key.
	named map[string]bool
}

// entry is one key of the list with its hosts.
type entry struct {
	key string
	// selectors are sets of label=value pairs. A namespace matches if it has all labels of at least one set. If selectors is nil, the entry is
	// for the namespace whose name is the key.
	selectors [][]string
	hosts     []string
}

// Read reads the list from its ConfigMap.
func Read(list *corev1.ConfigMap) (Rules, error) {
	if len(list.BinaryData) > 0 {
		return Rules{}, errors.New("read list of domains: binaryData is not supported: move its content to data")
	}
	return Parse(list.Data)
}

// Parse parses the data of the ConfigMap. If keys are invalid, the error reports the first invalid key in alphabetical order, and the line that
// makes it invalid, if any. After an error, no part of the list may be used, because a host in the invalid part may be reserved.
func Parse(data map[string]string) (Rules, error) {
	rules := Rules{named: map[string]bool{}}
	size := 0
	for _, text := range data {
		size += utf8.RuneCountInString(text)
	}
	if size > MaxSize {
		return Rules{}, fmt.Errorf("read list of domains: its values contain %d characters: shorten them to at most %d characters in total", size, MaxSize)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		e, err := parseEntry(key, data[key])
		if err != nil {
			return Rules{}, err
		}
		rules.entries = append(rules.entries, e)
		for _, host := range e.hosts {
			if !strings.HasPrefix(host, "*.") {
				rules.named[host] = true
			}
		}
	}
	return rules, nil
}

func parseEntry(key, text string) (entry, error) {
	e := entry{key: key}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		selector, isSelector := strings.CutPrefix(line, selectorPrefix)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case isSelector && selectorPattern.MatchString(line):
			var terms []string
			for term := range strings.SplitSeq(selector, ",") {
				terms = append(terms, strings.TrimSpace(term))
			}
			e.selectors = append(e.selectors, terms)
		case !isSelector && len(line) <= maxHost && hostPattern.MatchString(line):
			e.hosts = append(e.hosts, line)
		default:
			return e, fmt.Errorf("read list of domains: key %q: line %q: write a host such as www.example.com, a wildcard such as *.example.com, or %q", key, line, selectorPrefix+" label=value,...")
		}
	}
	if e.selectors == nil && !namespacePattern.MatchString(key) {
		return e, fmt.Errorf("read list of domains: key %q is not the name of a namespace: correct it, or add a line %q", key, selectorPrefix+" label=value,...")
	}
	return e, nil
}

// selects reports whether the entry applies to a namespace.
func (e *entry) selects(namespace string, labels map[string]string) bool {
	if e.selectors == nil {
		return e.key == namespace
	}
	return slices.ContainsFunc(e.selectors, func(terms []string) bool {
		return !slices.ContainsFunc(terms, func(term string) bool {
			label, want, _ := strings.Cut(term, "=")
			value, has := labels[label]
			return !has || value != want
		})
	})
}

// ByLabels reports whether any key selects namespaces by labels. If no key does, For needs no
// labels.
func (r Rules) ByLabels() bool {
	return slices.ContainsFunc(r.entries, func(e entry) bool { return e.selectors != nil })
}

// Hosts contains the hosts that the list grants to one namespace.
type Hosts struct {
	namespace string
	// own contains the hosts that are listed by name for this namespace. below contains the wildcards for this namespace, without their
	// leading "*.": the namespace may use subdomains of these names.
	own, below map[string]bool
	// named contains the hosts that are listed by name in at least one key. foreign contains the hosts that are listed by name
	// in keys for other namespaces.
	named, foreign map[string]bool
}

// For returns the hosts of a namespace with the given labels.
func (r Rules) For(namespace string, labels map[string]string) Hosts {
	h := Hosts{namespace: namespace, own: map[string]bool{}, below: map[string]bool{}, named: r.named, foreign: map[string]bool{}}
	for i := range r.entries {
		selected := r.entries[i].selects(namespace, labels)
		for _, host := range r.entries[i].hosts {
			parent, wildcard := strings.CutPrefix(host, "*.")
			switch {
			case wildcard && selected:
				h.below[parent] = true
			case selected:
				h.own[host] = true
			case !wildcard:
				h.foreign[host] = true
			}
		}
	}
	return h
}

// Allowed checks whether a namespace with the given labels may use a host. The error contains the fix. rendered is true if the domain contains
// a template field that depends on the group. To check several hosts of a namespace, call For once instead.
func (r Rules) Allowed(namespace string, labels map[string]string, host string, rendered bool) error {
	h := r.For(namespace, labels)
	if rendered {
		return h.Rendered(host)
	}
	return h.Literal(host)
}

// Literal checks a host, or a wildcard such as *.shop.example.com, in which no value depends on the group. The fields {{.Name}},
// {{.Microservice}} and {{.Namespace}} do not depend on the group: their values are already known when a domain is written. A wildcard must not
// match hosts that are listed by name for other namespaces.
func (h Hosts) Literal(host string) error {
	if h.own[host] {
		return nil
	}
	return h.judge(host, h.foreign)
}

// Rendered checks a host in which a value depends on the group. It rejects hosts that are listed by
// name, and wildcards that match such a host.
func (h Hosts) Rendered(host string) error {
	return h.judge(host, h.named)
}

// judge checks a host against the wildcards of the namespace. A host that is itself a wildcard must not match any reserved host.
func (h Hosts) judge(host string, reserved map[string]bool) error {
	if !h.covers(host) {
		return fmt.Errorf("%q is not allowed in namespace %q: use a host of this namespace, or ask an administrator to list it in ConfigMap %q", host, h.namespace, ConfigMapName)
	}
	if suffix, wildcard := strings.CutPrefix(host, "*"); wildcard {
		return h.clash(host, "", suffix, reserved)
	}
	if h.named[host] {
		return h.reservation(host, host)
	}
	return nil
}

// Template applies the rules of the admission policy to a domain whose template fields all depend
// on the group. It returns nil if Rendered allows every host to which the domain can expand.
func (h Hosts) Template(domain string) error {
	head, _, templated := strings.Cut(domain, "{{")
	if !templated {
		return h.Literal(domain)
	}
	end := strings.LastIndex(domain, "}}")
	if end < 0 {
		return fmt.Errorf("%q is not a valid template: close each field with }}", domain)
	}
	tail := domain[end+len("}}"):]
	if !h.covers(tail) {
		return fmt.Errorf("%q is not allowed in namespace %q: the part after its last field must match a line such as *.example.com that an administrator listed in ConfigMap %q", domain, h.namespace, ConfigMapName)
	}
	if strings.HasPrefix(head, "*") {
		head = ""
	}
	return h.clash(domain, head, tail, h.named)
}

// covers reports whether a host that ends with tail is below a wildcard of the namespace.
func (h Hosts) covers(tail string) bool {
	for {
		_, parent, found := strings.Cut(tail, ".")
		if !found {
			return false
		}
		if h.below[parent] {
			return true
		}
		tail = parent
	}
}

// clash returns an error for the first reserved host, in alphabetical order, to which a domain can expand. It returns nil if there is no
// such host.
func (h Hosts) clash(domain, head, tail string, reserved map[string]bool) error {
	first := ""
	for name := range reserved {
		if strings.HasPrefix(name, head) && strings.HasSuffix(name, tail) && (first == "" || name < first) {
			first = name
		}
	}
	if first == "" {
		return nil
	}
	return h.reservation(domain, first)
}

func (h Hosts) reservation(domain, name string) error {
	return fmt.Errorf("%q is not allowed in namespace %q: ConfigMap %q lists %q by name, so only domains without fields that depend on the group can use this host, and only in the namespaces for which this host is listed: use another host", domain, h.namespace, ConfigMapName, name)
}
