// Package domains judges which namespace may have which host, by the same rules as
// the ValidatingAdmissionPolicy of config/policies/domains.yaml: the policy judges
// what people write, and this package what a template becomes.
//
// The list is the data of a ConfigMap. A key is the name of a namespace; its lines
// are the hosts that the namespace may have:
//
//	data:
//	  shop: |
//	    www.example.com
//	    *.shop.example.com
//	  previews: |
//	    namespaces: team=shop,stage=preview
//	    *.preview.example.com
//
// A line with a leading "*." stands for every host below the rest, at any depth, as
// in the Gateway API. Where a value has lines "namespaces: label=value,...", the key
// is a free name, and the hosts are for the namespaces that have all labels of one
// such line. Empty lines and those that begin with "#" say nothing.
//
// A host that is listed by name is reserved for domains without a field of the group,
// in the namespaces of its key. No "*." line gives it to others, and no field of a
// group (the branch of a pull request, for example) can become it.
package domains

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

// ConfigMapName is the ConfigMap that holds the list, in the namespace of the manager. Where it does
// not exist, hosts are not owned, and every namespace may have every host.
const ConfigMapName = "heighliner-domains"

// MaxSize is the number of characters that the values of a list have together at most.
// The cost of the admission policy grows with it.
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

// Rules are a list that was read. They are not changed after Parse, and may be used
// from several goroutines. The zero value gives nothing to anybody.
type Rules struct {
	entries []entry
	// named are the hosts listed by name, for whichever namespace.
	named map[string]bool
}

// entry is one key.
type entry struct {
	key string
	// selectors are sets of label=value, any of which must hold whole. Nil: the entry
	// is for the namespace that the key names.
	selectors [][]string
	hosts     []string
}

// Read reads the list from its ConfigMap.
func Read(list *corev1.ConfigMap) (Rules, error) {
	if len(list.BinaryData) > 0 {
		return Rules{}, errors.New("read list of domains: binaryData is not read: move it to data")
	}
	return Parse(list.Data)
}

// Parse reads the list from the data of its ConfigMap. The error names the first key
// in order that is not understood, and its line; then nothing of the list may be
// used, because a host in the part that was not read may be reserved.
func Parse(data map[string]string) (Rules, error) {
	rules := Rules{named: map[string]bool{}}
	size := 0
	for _, text := range data {
		size += utf8.RuneCountInString(text)
	}
	if size > MaxSize {
		return Rules{}, fmt.Errorf("read list of domains: its values have %d characters: shorten it to %d", size, MaxSize)
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
			return e, fmt.Errorf("read list of domains: key %q: line %q: write a host such as www.example.com, *.example.com for what is below it, or %q", key, line, selectorPrefix+" label=value,...")
		}
	}
	if e.selectors == nil && !namespacePattern.MatchString(key) {
		return e, fmt.Errorf("read list of domains: key %q is not the name of a namespace: correct it, or add a line %q", key, selectorPrefix+" label=value,...")
	}
	return e, nil
}

// selects says whether the entry is for a namespace.
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

// ByLabels says whether any key is for the namespaces that have certain labels: else
// For needs none.
func (r Rules) ByLabels() bool {
	return slices.ContainsFunc(r.entries, func(e entry) bool { return e.selectors != nil })
}

// Hosts are what the list gives to one namespace.
type Hosts struct {
	namespace string
	// own are the hosts listed by name, and below those under which every host is
	// given, without the "*.".
	own, below map[string]bool
	// named are the hosts listed by name for any namespace, and foreign those in keys
	// that are not for this one.
	named, foreign map[string]bool
}

// For gives the hosts of a namespace with these labels.
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

// Allowed says whether a host of a namespace with these labels is allowed: nil, or
// why not and what to do. With rendered, a field of the group is part of the host.
// Who judges several hosts of a namespace takes For once.
func (r Rules) Allowed(namespace string, labels map[string]string, host string, rendered bool) error {
	h := r.For(namespace, labels)
	if rendered {
		return h.Rendered(host)
	}
	return h.Literal(host)
}

// Literal judges a host, or a wildcard such as *.shop.example.com, that holds no
// field of a group: what {{.Name}}, {{.Microservice}} and {{.Namespace}} stand for
// is known when a domain is written. A wildcard must not stand for what is listed by
// name in a key for other namespaces.
func (h Hosts) Literal(host string) error {
	if h.own[host] {
		return nil
	}
	return h.judge(host, h.foreign)
}

// Rendered judges a host of which a field of a group is part. No host that is listed
// by name is allowed, nor a wildcard that stands for one.
func (h Hosts) Rendered(host string) error {
	return h.judge(host, h.named)
}

// judge a host by the wildcards of the namespace. If it is a wildcard itself, it must
// not stand for any of reserved.
func (h Hosts) judge(host string, reserved map[string]bool) error {
	if !h.covers(host) {
		return fmt.Errorf("%q is not allowed in namespace %q: use a host of this namespace, or have it listed by an administrator in ConfigMap %q", host, h.namespace, ConfigMapName)
	}
	if suffix, wildcard := strings.CutPrefix(host, "*"); wildcard {
		return h.clash(host, "", suffix, reserved)
	}
	if h.named[host] {
		return h.reservation(host, host)
	}
	return nil
}

// Template judges a domain in which only the fields of a group are left, as the
// admission policy does: nil means that Rendered allows each host that it can
// become.
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
		return fmt.Errorf("%q is not allowed in namespace %q: what follows its last field must end as a line such as *.example.com that an administrator listed in ConfigMap %q", domain, h.namespace, ConfigMapName)
	}
	if strings.HasPrefix(head, "*") {
		head = ""
	}
	return h.clash(domain, head, tail, h.named)
}

// covers says whether a host that ends with tail is below one of the namespace.
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

// clash is the error for the first of reserved that a domain can become.
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
	return fmt.Errorf("%q is not allowed in namespace %q: ConfigMap %q lists %q by name, for domains without fields, in the namespaces of its key: use another host", domain, h.namespace, ConfigMapName, name)
}
