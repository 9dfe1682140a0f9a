package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/version"
)

// Answer explains why a host, a version or a pod serves or does not serve traffic. It contains the whole chain from the host to the images, and the
// next action.
type Answer struct {
	metav1.TypeMeta `json:",inline"`
	Time            metav1.Time `json:"time"`
	// Question is the question as it was parsed.
	Question string `json:"question"`
	// Result is serving, notServing or waiting. The result waiting means that a user must decide.
	Result Result `json:"result"`
	// Summary is the answer in one line.
	Summary string `json:"summary"`
	// Lines are the lines of the chain, each with its object.
	Lines []Line `json:"lines,omitempty"`
	// Do is an action that the user can take. It is empty if no action is needed.
	Do   string   `json:"do,omitempty"`
	Next []Action `json:"next,omitempty"`
}

// Result is the result of an [Answer].
type Result string

// The results.
const (
	Serving    Result = "serving"
	NotServing Result = "notServing"
	ForPerson  Result = "waiting"
)

// Line is a line of an answer.
type Line struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Object is the source of the line, as kind and namespace/name.
	Object string `json:"object,omitempty"`
}

// Unknown is the error for a name that does not exist.
type Unknown struct {
	// What is the kind of object that the name refers to, such as "host".
	What, Name string
	// Names are the existing names.
	Names []string
}

// Error describes the unknown name.
func (e *Unknown) Error() string { return fmt.Sprintf("there is no %s %q", e.What, e.Name) }

// Ambiguous is the error for a name that several objects share.
type Ambiguous struct {
	What, Name string
	// Objects are the objects with this name, each with a way to select it.
	Objects []string
	Remedy  string
}

// Error lists the objects with the name.
func (e *Ambiguous) Error() string {
	return fmt.Sprintf("%s %q is ambiguous: it exists in %s; %s", e.What, e.Name, strings.Join(e.Objects, ", "), e.Remedy)
}

// answer returns an answer without lines.
func (x *index) answer(question string) Answer {
	return Answer{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: KindAnswer}, Time: metav1.Time{Time: x.now.UTC()}, Question: question}
}

func (a *Answer) add(name, object, format string, args ...any) {
	if text := status.Line(fmt.Sprintf(format, args...)); text != "" {
		a.Lines = append(a.Lines, Line{Name: name, Text: text, Object: object})
	}
}

// conclude adds the next action for a state.
func (a *Answer) conclude(subject string, s State) {
	a.Next = s.Next
	commands := make([]string, len(s.Next))
	for i, n := range s.Next {
		commands[i] = n.Command
	}
	if subject != "" && (s.Word == WordStarting || s.Word == WordDraining) {
		subject += " is"
	}
	if a.Do = strings.TrimSpace(subject + " " + s.Sentence); len(commands) > 0 {
		a.Do += ": " + strings.Join(commands, ", or ")
	}
}

// object returns the name of an object of the service.
func (s *service) object(kind, name string) string { return kind + " " + s.ms.Namespace + "/" + name }

// policyDomain is a domain of a policy.
type policyDomain struct {
	service *service
	policy  *v1alpha1.NetworkPolicy
	domain  *v1alpha1.DomainStatus
}

// WhyHost explains whether a host and a path are served, based on the domain that best matches them. Any error is of type *Unknown or *Ambiguous.
func WhyHost(in Input, host, path string, now time.Time) (Answer, error) {
	return WhyURL(in, "", host, path, now)
}

// WhyURL is like [WhyHost]. If the host has several routes, WhyURL prefers the route with the scheme of the URL. An empty scheme means any scheme.
func WhyURL(in Input, scheme, host, path string, now time.Time) (Answer, error) {
	x := newIndex(in, now)
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	found, names := x.domainsOf(host, path)
	if len(found) == 0 && !strings.Contains(host, ".") {
		for i := range in.Microservices { // A word without a dot is unlikely to be a host.
			names = append(names, in.Microservices[i].Name)
		}
		return Answer{}, &Unknown{What: "host, service or version", Name: host, Names: names}
	}
	if len(found) == 0 {
		return Answer{}, &Unknown{What: "host", Name: host, Names: names}
	}
	found = ofScheme(found, scheme)
	elsewhere := func(p policyDomain) bool { return p.policy.Namespace != found[0].policy.Namespace }
	if slices.ContainsFunc(found, elsewhere) {
		var objects []string
		for _, p := range found {
			if object := "NetworkPolicy " + p.policy.Namespace + "/" + p.policy.Name; !slices.Contains(objects, object) {
				objects = append(objects, object)
			}
		}
		return Answer{}, &Ambiguous{What: "host", Name: host, Objects: objects, Remedy: "specify a namespace with -n"}
	}
	return found[0].answer(host, path, found[1:]), nil
}

// ofScheme returns those domains whose URL has the given scheme. If there are none, it returns all domains. A domain with the scheme tls
// also serves https.
func ofScheme(domains []policyDomain, scheme string) []policyDomain {
	for _, prefix := range []string{scheme, map[string]string{"https": "tls"}[scheme]} {
		out := slices.DeleteFunc(slices.Clone(domains), func(p policyDomain) bool { return !strings.HasPrefix(p.domain.URL, prefix+"://") })
		if prefix != "" && len(out) > 0 {
			return out
		}
	}
	return domains
}

// domainsOf returns the domains that best match a host and a path. The order of preference is the same as in the Gateway API: the host itself, then the
// longest wildcard, then the longest path. If any of these domains is programmed, only programmed domains are returned. Otherwise, domains whose host
// and path belong to another entry or policy are omitted if there are other domains.
func (x *index) domainsOf(host, path string) (best []policyDomain, names []string) {
	for i := range x.NetworkPolicies {
		p := &x.NetworkPolicies[i]
		for j := range p.Status.Domains {
			d := &p.Status.Domains[j]
			names = append(names, d.Domain)
			if !covers(d, host, path) {
				continue
			}
			c := 1
			if len(best) > 0 {
				b := best[0].domain
				c = cmp.Or(compareBool(d.Domain == host, b.Domain == host), cmp.Compare(len(d.Domain), len(b.Domain)), cmp.Compare(len(d.Path), len(b.Path)), compareBool(d.Programmed, b.Programmed), compareBool(d.Reason != reasonDomainConflict, b.Reason != reasonDomainConflict))
			}
			switch {
			case c < 0:
				continue
			case c > 0:
				best = nil
			}
			best = append(best, policyDomain{x.serviceNamed(p.Namespace, p.MicroserviceName()), p, d})
		}
	}
	return best, names
}

// reasonDomainConflict is the reason in the status of a domain whose host and path belong to another entry or to an older policy.
const reasonDomainConflict = "DomainConflict"

func compareBool(a, b bool) int { return cmp.Compare(rankOf(b), rankOf(a)) }

// serviceNamed finds a service. If its Microservice was not read, the result contains an empty
// Microservice.
func (x *index) serviceNamed(namespace, name string) *service {
	for i := range x.Microservices {
		if ms := &x.Microservices[i]; ms.Namespace == namespace && ms.Name == name {
			return x.service(ms)
		}
	}
	ms := &v1alpha1.Microservice{}
	ms.Namespace, ms.Name = namespace, name
	return x.service(ms)
}

// covers reports whether a domain matches a host and a path. The domain matches the host either literally or by a wildcard.
func covers(d *v1alpha1.DomainStatus, host, path string) bool {
	rest, wild := strings.CutPrefix(d.Domain, "*")
	if d.Domain != host && !(wild && strings.HasSuffix(host, rest) && len(host) > len(rest)) {
		return false
	}
	prefix := strings.TrimSuffix(d.Path, "/")
	return prefix == "" || path == prefix || strings.HasPrefix(path, prefix+"/")
}

// answer explains one domain. others are further domains with the same host and path.
func (p policyDomain) answer(host, path string, others []policyDomain) Answer {
	s, d := p.service, p.domain
	a := s.index.answer("why " + host + path)
	policy := s.object("NetworkPolicy", p.policy.Name)
	at := host + strings.TrimSuffix(path, "/")
	var served []string
	for _, b := range d.Backends {
		if b.Weight > 0 {
			served = append(served, fmt.Sprintf("%s (%d%%%s)", status.Short(b.Version), b.Weight, map[bool]string{true: ", without a ready pod"}[s.withoutPod(b.Release)]))
		}
	}
	switch {
	case d.Programmed && len(served) > 0:
		a.Result, a.Summary = Serving, fmt.Sprintf("%s is served by %s.", at, join(served))
	case len(served) > 0:
		a.Result, a.Summary = NotServing, fmt.Sprintf("It is unknown whether %s is served: its route to %s has been written, but is not programmed.", at, join(served))
	default:
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is not served: %s.", at, strings.TrimSuffix(cmp.Or(d.Message, d.Reason, "it routes to no release"), "."))
	}
	g := s.groupBySlug(d.Group)
	if a.Result == Serving && s.withoutPods(hostOf(p.policy, d).Backends) {
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is not served: it routes to %s.", at, join(served))
	}
	if g != nil {
		a.add("host", policy, "%s → group %s%s", d.Domain, g.Name, p.choice())
	} else {
		a.add("host", policy, "%s → %s", d.Domain, cmp.Or(d.Group, "no group"))
	}
	a.add("route", parentsOf(p.policy), "%s", routeState(d))
	for _, o := range others {
		a.add("also", s.object("NetworkPolicy", o.policy.Name), "%s: %s", cmp.Or(o.domain.URL, o.domain.Domain+o.domain.Path), routeState(o.domain))
	}
	p.gatewayLines(&a)
	if g == nil {
		return a
	}
	view := s.group(g)
	view.chain(&a, s, d)
	s.newer(&a, g)
	s.freezeLines(&a)
	if view.State.Class != Stable {
		a.conclude(view.State.Version, view.State)
	}
	return a
}

// routeState describes whether the route of a domain is programmed.
func routeState(d *v1alpha1.DomainStatus) string {
	if !d.Programmed {
		return "not programmed: " + cmp.Or(d.Message, d.Reason, "the reason is unknown")
	}
	return strings.TrimSuffix("programmed: "+d.Message, ": ")
}

// withoutPods reports whether all releases to which a domain routes lack a ready pod.
func (s *service) withoutPods(backends []Backend) bool {
	for _, b := range backends {
		if b.Weight > 0 && !s.withoutPod(b.Release) {
			return false
		}
	}
	return len(backends) > 0
}

// withoutPod reports whether a release is known to have no ready pod, or is unavailable and has been scaled to 0, for example while its
// exclusive group starts another release.
func (s *service) withoutPod(release string) bool {
	row := s.rowOf(release)
	if row == nil {
		return false
	}
	o := s.release(release)
	return s.down(row) || !row.Available && o != nil && o.Spec.Replicas == 0
}

// rowOf returns the release with the given name from any group of the service, or nil.
func (s *service) rowOf(release string) *v1alpha1.Release {
	for i := range s.ms.Status.ReleaseGroups {
		g := &s.ms.Status.ReleaseGroups[i]
		for j := range g.Releases {
			if r := &g.Releases[j]; r.VersionedMicroservice == release {
				return r
			}
		}
	}
	return nil
}

// recordLag is how long the recorded availability of a release takes precedence over its pods after the pods have changed.
const recordLag = 10 * time.Second

// down reports whether a release is known to have no ready pod, either because its record shows this, or because all its pods have been unready
// for at least recordLag.
func (s *service) down(row *v1alpha1.Release) bool {
	p := s.podsOf(row, s.release(row.VersionedMicroservice))
	if p == nil || p.Wanted == 0 || p.Available > 0 {
		return false
	}
	recent := func(pod Pod) bool { return pod.Since != nil && s.now.Sub(pod.Since.Time) < recordLag }
	return !row.Available || s.podsRead() && !slices.ContainsFunc(p.Pods, recent)
}

// groupBySlug returns a group, or nil.
func (s *service) groupBySlug(slug string) *v1alpha1.ReleaseGroup {
	for i := range s.ms.Status.ReleaseGroups {
		if s.ms.Status.ReleaseGroups[i].Slug == slug {
			return &s.ms.Status.ReleaseGroups[i]
		}
	}
	return nil
}

// choice returns the reason why a domain routes to its group, if the domain's entry in the specification is known.
func (p policyDomain) choice() string {
	for i := range p.policy.Spec.Domains {
		e := &p.policy.Spec.Domains[i]
		if e.Domain != p.domain.Domain || strings.TrimSuffix(e.Path, "/") != strings.TrimSuffix(p.domain.Path, "/") {
			continue
		}
		switch {
		case e.Release != nil && e.Release.Version != "":
			return ": it routes to version " + e.Release.Version
		case e.Release != nil:
			return ": it routes to the canary"
		case e.Groups == nil, e.Groups.Policy == v1alpha1.GroupsNewest:
			return ": the newest group with an active release"
		case e.Groups.Policy == v1alpha1.GroupsNamed:
			return ": the first of " + strings.Join(e.Groups.Names, ", ") + " with an active release"
		}
	}
	return ""
}

// chain adds the chain of a group behind a host: shares, releases and images.
func (g Group) chain(a *Answer, s *service, d *v1alpha1.DomainStatus) {
	var shares, releases, images []string
	for _, r := range g.Releases {
		if r.Share.Asked == nil && !slices.ContainsFunc(d.Backends, func(b v1alpha1.DomainBackend) bool { return b.Release == r.Name }) {
			continue
		}
		v := status.Short(r.Version)
		if text := r.Share.String(s.now); text != "" {
			shares = append(shares, v+" "+text)
		}
		releases = append(releases, fmt.Sprintf("%s %s", v, r.State.Sentence)+r.Pods.suffix())
		for _, image := range r.Images {
			images = append(images, v+" "+image)
		}
	}
	object := s.object("Microservice", s.ms.Name)
	a.add("shares", object, "%s", strings.Join(shares, " · "))
	a.add("releases", object, "%s", strings.Join(releases, " · "))
	a.add("images", "", "%s", strings.Join(images, " · "))
}

// suffix returns ", 3/3 pods", or "" if the pods are not known.
func (p *Pods) suffix() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(", %d/%d pods", p.Available, p.Wanted)
}

// String formats a share. The text contains the programmed weight only if that weight differs from the requested weight. The
// text is empty if the share is not known.
func (s Share) String(now time.Time) string {
	if s.Asked == nil {
		return ""
	}
	text := fmt.Sprintf("%d%%", *s.Asked)
	switch {
	case s.Withheld:
		text = fmt.Sprintf("requested %d%% · withheld: no ready endpoint", *s.Asked)
	case s.Programmed != nil && *s.Programmed != *s.Asked:
		text = fmt.Sprintf("requested %d%% · programmed %d%%", *s.Asked, *s.Programmed)
		if s.Since != nil {
			text += " (" + Age(now.Sub(s.Since.Time)) + ")"
		}
	case s.Programmed == nil && s.Since != nil:
		text = fmt.Sprintf("requested %d%% · not programmed (%s)", *s.Asked, Age(now.Sub(s.Since.Time)))
	}
	if s.Observed != nil {
		text += fmt.Sprintf(" · observed %s%% (%s)", strconv.FormatFloat(*s.Observed, 'f', 1, 64), s.Window)
	}
	return text
}

// newer adds at most three versions that are above the active version and that the ImagePolicy
// rejects.
func (s *service) newer(a *Answer, g *v1alpha1.ReleaseGroup) {
	p := s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]
	if p == nil || g.Active == "" || isPreview(g) {
		return
	}
	n := 0
	for _, c := range p.Status.Candidates {
		if _, err := version.Parse(version.Meant(c.Version), ""); err != nil || version.Compare(version.Meant(c.Version), g.Active) <= 0 || n == 3 {
			continue
		}
		n++
		a.add("newer", s.object("ImagePolicy", p.Name), "%s is rejected by %s: %s", c.Version, c.Verdict, c.Reason)
	}
}

// WhyVersion explains a version of a service, or the release with the given name. The error is *Unknown if
// the service is not in the input.
func WhyVersion(in Input, namespace, name, wanted string, now time.Time) (Answer, error) {
	x := newIndex(in, now)
	for i := range in.Microservices {
		if ms := &in.Microservices[i]; ms.Namespace == namespace && ms.Name == name {
			return x.service(ms).whyVersion(wanted), nil
		}
	}
	return Answer{}, &Unknown{What: "Microservice", Name: name}
}

// Services returns the services that have a version, as namespace/name. These are services with a release of the version, and
// services whose ImagePolicy offers or rejects the version.
func Services(in Input, wanted string) (out []string) {
	x := newIndex(in, time.Time{})
	for i := range in.Microservices {
		s := x.service(&in.Microservices[i])
		if g, _ := s.find(wanted); g != nil || s.offers(wanted) != nil || s.rejects(wanted) != nil {
			out = append(out, s.ms.Namespace+"/"+s.ms.Name)
		}
	}
	return out
}

// find finds the release with the given version or name. If several releases match, it selects
// by status, in this order: active, canary, pending, error, deprecated. Among releases with the same status, it returns the newest.
func (s *service) find(wanted string) (group *v1alpha1.ReleaseGroup, row *v1alpha1.Release) {
	order := []v1alpha1.ReleaseStatus{v1alpha1.ReleaseActive, v1alpha1.ReleaseCanary, v1alpha1.ReleasePending, v1alpha1.ReleaseError, v1alpha1.ReleaseDeprecated}
	for i := range s.ms.Status.ReleaseGroups {
		g := &s.ms.Status.ReleaseGroups[i]
		for j := range g.Releases {
			r := &g.Releases[j]
			if r.VersionedMicroservice != wanted && !version.Matches(wanted, r.SemVer.Version) {
				continue
			}
			if row == nil || slices.Index(order, r.Status) < slices.Index(order, row.Status) {
				group, row = g, r
			}
		}
	}
	return group, row
}

// offers returns the offered release of a version, or nil.
func (s *service) offers(wanted string) *v1alpha1.OfferedRelease {
	if p := s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]; p != nil {
		for i := range p.Status.Releases {
			if version.Matches(wanted, p.Status.Releases[i].SemVer.Version) {
				return &p.Status.Releases[i]
			}
		}
	}
	return nil
}

// rejects returns the rejection of a version, or nil.
func (s *service) rejects(wanted string) *v1alpha1.RefusedCandidate {
	if p := s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]; p != nil {
		for i := range p.Status.Candidates {
			if version.Matches(wanted, p.Status.Candidates[i].Version) {
				return &p.Status.Candidates[i]
			}
		}
	}
	return nil
}

// whyVersion explains a version of the service.
func (s *service) whyVersion(wanted string) Answer {
	g, row := s.find(wanted)
	a := s.index.answer("why " + s.ms.Name + " " + wanted)
	if row == nil {
		s.whyAbsent(&a, wanted)
		if own := s.blocked(&a); own != nil && a.Do == "" {
			a.conclude("", s.withSentence(*own))
		}
		return a
	}
	r := s.releaseOf(g, row, s.rollout(g))
	v, object := subject(g, row), s.object("Microservice", s.ms.Name)
	s.foundLine(&a, r.Version)
	if r.Created != nil {
		a.add("created", s.object("VersionedMicroservice", r.Name), "%s", Clock(r.Created.Time, s.now))
	}
	s.summarize(&a, g, row, r)
	if r.Failure != "" {
		a.add("failure", s.object("VersionedMicroservice", r.Name), "%s: %s", r.Failure, r.Message)
	}
	r.measured(&a, s)
	if r.Rollout != nil {
		for _, c := range r.Rollout.Checks {
			a.add(c.Name, s.object("VersionedMicroservice", r.Name), "%s: %s", c.Result, c.Message)
		}
	}
	if row.Status != v1alpha1.ReleaseActive {
		s.freezeLines(&a)
	}
	if d := r.Decision; d != nil {
		a.add("decision", s.object("VersionedMicroservice", r.Name), "%s by %s at %s: %s", d.Action, cmp.Or(d.By, "an unnamed user"), Clock(d.Time.Time, s.now), cmp.Or(d.Reason, d.Outcome))
	}
	if row.Status != v1alpha1.ReleaseActive && g.Active != "" {
		active, serving := g.ActiveRelease(), status.Short(g.Active)
		if active != nil && active.SemVer.Version == row.SemVer.Version {
			serving = active.VersionedMicroservice
		}
		a.add("active", object, "%s serves group %s", serving, g.Name)
		if active != nil && pinnedTo(g, active) {
			a.add("pin", object, "group %s is %s: %s", g.Name, s.withSentence(s.pinned(g, active)).Sentence, s.unpin(g).Command)
		}
	}
	for _, h := range s.hosts(g) {
		if i := slices.IndexFunc(h.Backends, func(b Backend) bool { return b.Release == r.Name }); i >= 0 && h.Programmed {
			a.add("host", s.object("NetworkPolicy", h.Policy), "%s: %d%%", h.Host+h.Path, h.Backends[i].Weight)
		}
	}
	s.sameVersion(&a, row)
	own := s.blocked(&a)
	switch {
	case r.State.Class != Stable || row.Status != v1alpha1.ReleaseActive && len(r.State.Next) > 0:
		a.conclude(v, r.State)
	case own != nil:
		a.conclude("", s.withSentence(*own))
	}
	return a
}

// subject returns the version of a release or, if the active release of its group has the same version, the name of the release. A change to the pod
// template or to the configuration creates another release of the same version.
func subject(g *v1alpha1.ReleaseGroup, row *v1alpha1.Release) string {
	if active := g.ActiveRelease(); active != nil && active != row && active.SemVer.Version == row.SemVer.Version {
		return row.VersionedMicroservice
	}
	return status.Short(row.SemVer.Version)
}

// sameVersion adds a line for each other release of the same version that is in progress or has failed.
func (s *service) sameVersion(a *Answer, row *v1alpha1.Release) {
	for i := range s.ms.Status.ReleaseGroups {
		g := &s.ms.Status.ReleaseGroups[i]
		run := s.rollout(g)
		for j := range g.Releases {
			other := &g.Releases[j]
			if other == row || other.SemVer.Version != row.SemVer.Version || other.Status != v1alpha1.ReleaseError && (run == nil || run.row != other) {
				continue
			}
			r := s.releaseOf(g, other, run)
			a.add("release", s.object("VersionedMicroservice", r.Name), "%s has the same version: %s", r.Name, r.State.Sentence)
		}
	}
}

// summarize sets the result and the summary of an answer for a release of a group.
func (s *service) summarize(a *Answer, g *v1alpha1.ReleaseGroup, row *v1alpha1.Release, r Release) {
	v, unserved := subject(g, row), s.unserved(g.Slug)
	switch {
	case row.Status == v1alpha1.ReleaseActive && s.down(row):
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is active, and has no ready pod: %s.", v, r.State.Sentence)
	case row.Status == v1alpha1.ReleaseActive && s.successor(g) != nil:
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is %s. If that release fails, the pods of %s start again.", v, r.State.Sentence, v)
	case row.Status == v1alpha1.ReleaseActive && unserved != nil:
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is active, and no route targets it: %s.", v, unserved.cause())
	case row.Status == v1alpha1.ReleaseActive:
		a.Result, a.Summary = Serving, fmt.Sprintf("%s is live: %s.", v, r.State.Sentence)
	case row.Status == v1alpha1.ReleaseCanary && s.down(row):
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is a canary, and has no ready pod: %s.", v, r.State.Sentence)
	case row.Status == v1alpha1.ReleaseCanary:
		a.Result, a.Summary = r.canarySummary(v, g.Name, row.Weight)
	case row.Status == v1alpha1.ReleaseError:
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is not live: it %s%s.", v, map[bool]string{true: "was "}[r.State.Word != WordFailed], r.State.Sentence)
	default:
		a.Result, a.Summary = NotServing, fmt.Sprintf("%s is not live: %s.", v, r.State.Sentence)
		if r.State.Word == WordRetained && g.Active != "" && r.State.Since != nil && len(r.State.Next) > 0 {
			a.Summary = fmt.Sprintf("%s is not live: %s replaced it %s ago, and it is retained for a rollback.", v, status.Short(g.Active), Age(s.now.Sub(r.State.Since.Time)))
		}
	}
	if a.Result == NotServing && r.State.Class == Waiting {
		a.Result = ForPerson
	}
}

// blocked adds the problem of the service itself, and returns the corresponding state. It returns nil if there is no
// such problem.
func (s *service) blocked(a *Answer) *State {
	own := s.problem()
	if own == nil {
		return nil
	}
	for _, p := range s.problems() {
		name := strings.ToLower(p.Condition)
		if p.Reason == own.Reason && strings.HasPrefix(p.Object, "Microservice/") && !slices.ContainsFunc(a.Lines, func(l Line) bool { return l.Name == name }) {
			a.add(name, s.object("Microservice", s.ms.Name), "%s: %s", p.Reason, p.Message)
		}
	}
	return own
}

// canarySummary describes whether a canary is live. While its requested weight is not programmed, a canary is live only if another
// weight above zero is programmed.
func (r Release) canarySummary(v, group string, asked int32) (Result, string) {
	programmed := r.Share.Programmed
	switch {
	case asked == 0 && !r.Share.Match:
		return NotServing, fmt.Sprintf("%s is not live yet: %s.", v, r.State.Sentence)
	case r.Share.Since == nil: // The weight is programmed or confirmed, or work is split by pods.
		return Serving, fmt.Sprintf("%s is live with a share of %d%% in group %s: %s.", v, asked, group, r.State.Sentence)
	case programmed == nil:
		return NotServing, fmt.Sprintf("It is unknown whether %s is live: a share of %d%% in group %s is requested, but not programmed: %s.", v, asked, group, r.State.Sentence)
	case *programmed == 0:
		return NotServing, fmt.Sprintf("%s is not live yet: a share of %d%% in group %s is requested, but not programmed: %s.", v, asked, group, r.State.Sentence)
	}
	return Serving, fmt.Sprintf("%s is live with a share of %d%% in group %s, and %d%% is requested: %s.", v, *programmed, group, asked, r.State.Sentence)
}

// freezeLines adds the freezes that apply to the service.
func (s *service) freezeLines(a *Answer) {
	for _, f := range s.freezesOf() {
		object := f.Kind + " " + f.Name
		if f.Namespace != "" {
			object = f.Kind + " " + f.Namespace + "/" + f.Name
		}
		a.add("freeze", object, "%s", f.Sentence)
	}
}

// foundLine adds a line with the image and the publication time of an offered version.
func (s *service) foundLine(a *Answer, v string) {
	o := s.offers(v)
	if o == nil {
		return
	}
	text := "offered"
	if len(o.Images) > 0 {
		text += ": " + o.Images[0].Image
	}
	if o.ReleaseTime != nil {
		text += ", published " + Clock(o.ReleaseTime.Time, s.now)
	}
	a.add("found", s.object("ImagePolicy", s.ms.Spec.ImagePolicyRef.Name), "%s", text)
}

// measured adds the analysis of a failed release: the template, and the metrics that did not pass, with their queries.
func (r Release) measured(a *Answer, s *service) {
	if r.Analysis == nil || r.Status != string(v1alpha1.ReleaseError) {
		return
	}
	if t := r.Analysis.Template; t != "" {
		a.add("template", s.object("VersionedMicroservice", r.Name), "%s", t)
	}
	for _, m := range r.Analysis.Metrics {
		if m.Result != string(v1alpha1.MeasurementPassed) {
			a.add("metric", s.object("VersionedMicroservice", r.Name), "%s", strings.TrimSpace(m.String()+"  "+m.Query))
		}
	}
}

// whyAbsent explains why a version has no release.
func (s *service) whyAbsent(a *Answer, wanted string) {
	a.Result = NotServing
	subject := wanted + " is not live"
	if wanted == "" {
		subject = "No version of " + s.ms.Name + " is live"
	}
	p := s.images[key(s.ms.Namespace, s.ms.Spec.ImagePolicyRef.Name)]
	if p == nil {
		a.Summary = fmt.Sprintf("%s: the service has no matching release, and its ImagePolicy is unknown.", subject)
		return
	}
	object := s.object("ImagePolicy", p.Name)
	for _, w := range p.Status.Withdrawn {
		if version.Matches(wanted, w.Version) && w.Version != "" {
			a.Summary = fmt.Sprintf("%s is not live: it was withdrawn (%s).", wanted, w.Reason)
			a.add("withdrawn", object, "%s at %s", w.Reason, Clock(w.Time.Time, s.now))
			return
		}
	}
	if o := s.offers(wanted); o != nil {
		s.whyNotStarted(a, o)
		return
	}
	if c := s.rejects(wanted); c != nil {
		a.Summary = fmt.Sprintf("%s is not live: the ImagePolicy rejects it (%s).", wanted, c.Verdict)
		if _, listed := pinnedTags(p); listed && c.Verdict == string(version.VerdictExists) && c.Reason != "" {
			a.Summary = fmt.Sprintf("%s is not live: spec.source.pinned.versions contains it, and %s.", wanted, c.Reason)
		}
		a.add("verdict", object, "%s: %s", c.Verdict, c.Reason)
		return
	}
	a.Summary = subject + ": the ImagePolicy does not offer it."
	if wanted == "" {
		a.Summary = subject + ": the ImagePolicy offers none."
	}
	a.add("found", object, "%s", s.notFound(p, wanted))
	if d := s.discovery(); d != nil && !d.Ready && d.Message != "" {
		a.add("source", object, "%s: %s", d.Reason, d.Message)
	}
	s.adviseScan(a, p, wanted)
}

// pinnedTags returns the tags that an ImagePolicy lists, and whether it lists tags.
func pinnedTags(p *v1alpha1.ImagePolicy) ([]string, bool) {
	if p.Spec.Source == nil || p.Spec.Source.Pinned == nil {
		return nil, false
	}
	return p.Spec.Source.Pinned.Versions, true
}

// notFound describes why the ImagePolicy does not offer a version. If wanted is empty, it describes why no version is offered.
func (s *service) notFound(p *v1alpha1.ImagePolicy, wanted string) string {
	total := int32(0)
	for _, r := range p.Status.Rejected {
		total += r.Count
	}
	text := "it is not among the offered versions"
	if wanted == "" {
		text = "no version is offered"
	}
	if p.Status.Latest != "" {
		text += ", of which the newest is " + status.Short(p.Status.Latest)
	}
	tags, listed := pinnedTags(p)
	switch {
	case listed && wanted != "" && !slices.ContainsFunc(tags, func(tag string) bool { return version.Matches(wanted, tag) }):
		return text + "; spec.source.pinned.versions does not contain it"
	case int(total) > len(p.Status.Candidates):
		return text + fmt.Sprintf("; the status lists %d of %d rejected tags; %q shows the others", len(p.Status.Candidates), total, s.act("explain").Command+" --scan --all")
	case listed && wanted == "" && len(p.Status.Candidates) > 0:
		for _, c := range p.Status.Candidates {
			text += fmt.Sprintf("; %s in spec.source.pinned.versions: %s", c.Version, cmp.Or(c.Reason, c.Verdict))
		}
	case p.Status.Scan != nil:
		switch n := p.Status.Scan.Tags; n {
		case 0:
			text += "; the source has no tags or releases"
		case 1:
			text += "; the only tag does not match"
		default:
			text += fmt.Sprintf("; none of the %d tags matches", n)
		}
	}
	return text
}

// adviseScan adds the action that makes the ImagePolicy find a version. It recommends a scan unless the specification prevents the scan from having
// an effect.
func (s *service) adviseScan(a *Answer, p *v1alpha1.ImagePolicy, wanted string) {
	object := s.object("ImagePolicy", p.Name)
	tags, listed := pinnedTags(p)
	_, repo := s.repository()
	switch {
	case p.Spec.Suspend:
		a.add("suspended", object, "spec.suspend is true: nothing is scanned")
		a.Do = fmt.Sprintf("to scan for new versions, remove spec.suspend from ImagePolicy %s", p.Name)
	case repo != nil && repo.Spec.Suspend:
		a.add("suspended", "GitHubRepository "+repo.Namespace+"/"+repo.Name, "spec.suspend is true: GitHub is not polled")
		a.Do = fmt.Sprintf("to poll for new versions, remove spec.suspend from GitHubRepository %s", repo.Name)
	case wanted == "" || s.problem() != nil:
	case listed && !slices.ContainsFunc(tags, func(tag string) bool { return version.Matches(wanted, tag) }):
		a.Do = fmt.Sprintf("to offer it, add its tag to spec.source.pinned.versions of ImagePolicy %s: a scan finds no other versions", p.Name)
	case repo != nil:
		a.Do = "if it was published after the last poll, poll GitHub now: " + Command(s.Program, s.Namespace, repo.Namespace, "scan", "githubrepository/"+repo.Name)
	default:
		a.Next = []Action{s.act("scan")}
		a.Do = "if it was published after the last scan, scan now: " + a.Next[0].Command
	}
}

// whyNotStarted explains an offered version without a release.
func (s *service) whyNotStarted(a *Answer, o *v1alpha1.OfferedRelease) {
	v, object := status.Short(o.SemVer.Version), s.object("Microservice", s.ms.Name)
	s.foundLine(a, o.SemVer.Version)
	g, oldest := s.groupBySlug(o.Group), OldestAbove(s.ms, s.image(), o)
	cause := "it has not started yet"
	switch {
	case s.ms.EndsGroup(o.SemVer.Name, o.Group, o.PullRequest):
		cause = "spec.endedGroups names its group " + o.SemVer.Name
		a.Next = []Action{s.act("end-group", s.ms.EndedGroup(o.SemVer.Name, o.Group, o.PullRequest), "--undo")}
	case oldest != nil && !o.Held:
		cause = fmt.Sprintf("its group %s is older than %s, the oldest live group, and does not start", cmp.Or(o.SemVer.Name, o.Group), oldest.Name)
		a.Do = fmt.Sprintf("to release its changes, push a version of group %s or of a newer group; a pin does not start an older group", oldest.Name)
	case g == nil && o.Held:
		cause = "it is beyond spec.limits of the ImagePolicy, and no group of this service retains it"
	case g != nil && g.Target.Reason == "Pinned":
		cause = "group " + g.Name + " is pinned to " + targetOf(g)
		a.Next = []Action{s.unpin(g)}
	case g != nil && g.Active != "" && !isPreview(g) && version.Compare(o.SemVer.Version, g.Active) < 0:
		cause = "it is older than the active version " + g.Active
	case g != nil && HeldBy(s.ms, g, o.SemVer.Version) != nil:
		cause = status.Short(HeldBy(s.ms, g, o.SemVer.Version).SemVer.Version) + " failed, and an exclusive group does not try older versions"
		a.Next = []Action{s.act("pin", o.SemVer.Version)}
	case s.ms.Spec.Paused: // The versions in the cases above do not start when the pause ends.
		cause = "spec.paused is true"
		a.Next = []Action{s.act("resume")}
	case s.frozenCause() != "":
		cause = "it is " + s.frozenCause()
		a.Do = v + " starts automatically when the freeze ends"
	case g != nil && g.Target.Reason == "FinishFirst":
		cause = "the rollout in progress must finish first"
	}
	a.Summary = fmt.Sprintf("%s is not live: %s.", v, cause)
	if g != nil {
		a.add("target", object, "group %s moves to %s (%s)", g.Name, cmp.Or(g.Target.Release, "nothing"), cmp.Or(g.Target.Reason, "no reason recorded"))
	}
	s.freezeLines(a)
	for _, x := range s.problems() {
		if strings.HasPrefix(x.Object, "Microservice/") {
			a.add(strings.ToLower(x.Condition), object, "%s: %s", x.Reason, x.Message)
		}
	}
	if len(a.Next) > 0 {
		a.Do = "to start it: " + a.Next[0].Command
	}
}

// WhyPod explains a pod of a release. Any error is of type *Unknown.
func WhyPod(in Input, namespace, name string, now time.Time) (Answer, error) {
	x := newIndex(in, now)
	var known []string
	for i := range in.Pods {
		p := &in.Pods[i]
		known = append(known, p.Name)
		if p.Namespace != namespace || p.Name != name {
			continue
		}
		s := x.serviceNamed(namespace, p.Labels[v1alpha1.LabelMicroservice])
		a := s.whyVersion(p.Labels[v1alpha1.LabelRelease])
		a.Question = "why pod/" + name
		pod := podOf(p)
		text := pod.Phase
		if pod.Ready {
			text = "ready"
		}
		a.Lines = append([]Line{{Name: "pod", Text: status.Line(strings.TrimSuffix(text+": "+pod.Message, ": ")), Object: "Pod " + namespace + "/" + name}}, a.Lines...)
		return a, nil
	}
	return Answer{}, &Unknown{What: "pod of a release", Name: name, Names: known}
}

// WhyPullRequest explains the preview of a pull request of a service. Any error is of type
// *Unknown.
func WhyPullRequest(in Input, namespace, name string, number int64, now time.Time) (Answer, error) {
	svc, ok := NewService(in, namespace, name, now)
	if !ok {
		return Answer{}, &Unknown{What: "Microservice", Name: name}
	}
	x := newIndex(in, now)
	s := x.serviceNamed(namespace, name)
	var known []string
	for _, g := range svc.Previews {
		known = append(known, strconv.FormatInt(g.PullRequest.Number, 10))
		if g.PullRequest.Number == number {
			return s.whyPreview(g), nil
		}
	}
	a := x.answer(fmt.Sprintf("why pr/%d", number))
	a.Result = NotServing
	policy, repo := s.repository()
	if repo != nil {
		for _, pr := range repo.Status.PullRequests {
			if pr.Number != number {
				continue
			}
			a.Summary = fmt.Sprintf("pull request %d has no preview: no image of its head commit is offered.", number)
			if c := s.rejects(pr.HeadSHA); c != nil {
				a.Summary = fmt.Sprintf("pull request %d has no preview: the ImagePolicy rejects it (%s).", number, c.Verdict)
				a.add("verdict", s.object("ImagePolicy", policy.Name), "%s", c.Reason)
			}
			a.add("pull request", "GitHubRepository "+repo.Namespace+"/"+repo.Name, "%s, head %s", strings.ToLower(string(pr.State)), status.Short(pr.HeadSHA))
			return a, nil
		}
	}
	return Answer{}, &Unknown{What: "preview of pull request", Name: strconv.FormatInt(number, 10), Names: known}
}

// whyPreview explains a preview.
func (s *service) whyPreview(g Group) Answer {
	a := s.index.answer(fmt.Sprintf("why pr/%d", g.PullRequest.Number))
	name := fmt.Sprintf("pull request %d", g.PullRequest.Number)
	a.Result, a.Summary = NotServing, fmt.Sprintf("%s is not served: %s.", name, g.State.Sentence)
	if g.State.Class == Waiting {
		a.Result = ForPerson
	}
	for _, h := range g.Hosts {
		if h.Programmed && len(h.Backends) > 0 {
			a.Result, a.Summary = Serving, fmt.Sprintf("%s is served at %s by %s: %s.", name, cmp.Or(h.URL, h.Host), status.Short(h.Backends[0].Version), g.State.Sentence)
			if s.withoutPods(h.Backends) {
				a.Result, a.Summary = NotServing, fmt.Sprintf("%s is not served: %s routes to %s, which has no ready pod: %s.", name, cmp.Or(h.URL, h.Host), status.Short(h.Backends[0].Version), g.State.Sentence)
			}
			break
		}
	}
	p := g.PullRequest
	if p.Title != "" || p.Author != "" {
		a.add("pull request", "", "%q by %s", p.Title, cmp.Or(p.Author, "a deleted account"))
	}
	if p.Head != "" {
		a.add("head", "", "%s", status.Short(p.Head))
	}
	for _, h := range g.Hosts {
		text := "programmed"
		if !h.Programmed {
			text = strings.TrimSuffix("not programmed: "+cmp.Or(h.Message, h.Reason), ": ")
		}
		a.add("host", s.object("NetworkPolicy", h.Policy), "%s %s", h.Host, text)
	}
	for _, r := range g.Releases {
		a.add("release", s.object("VersionedMicroservice", r.Name), "%s %s: %s%s", status.Short(r.Version), r.Status, r.State.Sentence, r.Pods.suffix())
	}
	if p.Until != nil {
		a.add("until", s.object("Microservice", s.ms.Name), "%s", Clock(p.Until.Time, s.now))
	}
	if g.State.Class != Stable {
		a.conclude(name, g.State)
	}
	return a
}
