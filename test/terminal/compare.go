package terminal

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// ages matches the parts of an output that differ between two calls of a command even if nothing changes.
var ages = regexp.MustCompile(`\b\d+(s|m|h|d)(\d+(s|m|h))?\b`)

// ageless returns a string without ages and with single spaces, because ages affect the width of columns.
func ageless(text string) string {
	return strings.Join(strings.Fields(ages.ReplaceAllString(text, "AGE")), " ")
}

// contains returns the expected parts that are missing from a string. It ignores ages.
func contains(text string, wanted ...string) (faults []string) {
	text = ageless(text)
	for _, w := range wanted {
		if w = ageless(w); !strings.Contains(text, w) {
			faults = append(faults, fmt.Sprintf("no %q", w))
		}
	}
	return faults
}

// compare runs a command with text output and with JSON output until both outputs agree with the objects. It repeats
// the calls, because the state may change between two calls.
func compare[T any](s *Stage, faults func(text string, value T) []string, args ...string) {
	s.Helper()
	s.until("hlnr "+strings.Join(args, " "), func() string {
		before := s.microservice().ResourceVersion
		r := s.call("", args...)
		value := read[T](s, args...)
		if found := faults(r.Stdout, value); len(found) > 0 {
			return fmt.Sprintf("%s\n%s%s", strings.Join(found, "\n"), r.Stdout, r.Stderr)
		}
		if before != s.microservice().ResourceVersion {
			return "the Microservice changed"
		}
		return ""
	})
}

// ofService compares hlnr's view of a service with the objects.
func (s *Stage) ofService(v view.Service) (faults []string) {
	s.Helper()
	ms := s.microservice()
	if v.Namespace != s.Namespace || v.Name != s.Name || v.Paused != ms.Spec.Paused {
		faults = append(faults, fmt.Sprintf("service %s/%s, paused %t", v.Namespace, v.Name, v.Paused))
	}
	if len(v.Groups) != len(ms.Status.ReleaseGroups) {
		return append(faults, fmt.Sprintf("%d groups, the object has %d", len(v.Groups), len(ms.Status.ReleaseGroups)))
	}
	var policy v1alpha1.NetworkPolicy
	if err := s.Client.Get(s.Context(), client.ObjectKeyFromObject(ms), &policy); err != nil {
		s.Fatal(err)
	}
	for i, g := range v.Groups {
		want := &ms.Status.ReleaseGroups[i]
		if g.Name != want.Name || g.Slug != want.Slug || len(g.Releases) != len(want.Releases) {
			faults = append(faults, fmt.Sprintf("group %s with %d releases, the object has %s with %d", g.Name, len(g.Releases), want.Name, len(want.Releases)))
			continue
		}
		for j, r := range g.Releases {
			faults = append(faults, ofRelease(r, want, &want.Releases[j])...)
		}
		faults = append(faults, ofHosts(g, policy.Status.Domains)...)
	}
	return faults
}

// ofRelease compares a release with its row in the status.
func ofRelease(r view.Release, g *v1alpha1.ReleaseGroup, want *v1alpha1.Release) (faults []string) {
	if r.Name != want.VersionedMicroservice || r.Version != want.SemVer.Version || r.Status != string(want.Status) {
		faults = append(faults, fmt.Sprintf("release %s %s %s, the object has %s %s %s", r.Name, r.Version, r.Status, want.VersionedMicroservice, want.SemVer.Version, want.Status))
	}
	serves := want.Status == v1alpha1.ReleaseActive || want.Status == v1alpha1.ReleaseCanary
	switch {
	case !serves && r.Share.Asked != nil:
		faults = append(faults, fmt.Sprintf("%s is %s, and has a share", r.Version, r.Status))
	case serves && g.Phase == v1alpha1.GroupLive && (r.Share.Asked == nil || *r.Share.Asked != want.Weight):
		faults = append(faults, fmt.Sprintf("%s has the share %v, the object %d", r.Version, r.Share.Asked, want.Weight))
	}
	if (r.Rollout != nil) != (g.Rollout != nil && g.Rollout.Release == want.VersionedMicroservice) {
		faults = append(faults, fmt.Sprintf("%s has the rollout %v, the object %v", r.Version, r.Rollout, g.Rollout))
	} else if r.Rollout != nil && r.Rollout.Step != g.Rollout.Step {
		faults = append(faults, fmt.Sprintf("%s is in step %d, the object is in step %d", r.Version, r.Rollout.Step, g.Rollout.Step))
	}
	return faults
}

// ofHosts compares a group's hosts with the NetworkPolicy's status.
func ofHosts(g view.Group, domains []v1alpha1.DomainStatus) (faults []string) {
	for _, d := range domains {
		if d.Group != g.Slug {
			continue
		}
		i := slices.IndexFunc(g.Hosts, func(h view.Host) bool { return h.Host == d.Domain })
		if i < 0 || g.Hosts[i].Programmed != d.Programmed || g.Hosts[i].URL != d.URL || len(g.Hosts[i].Backends) != len(d.Backends) {
			faults = append(faults, fmt.Sprintf("group %s has the hosts %+v, the NetworkPolicy reports %+v", g.Name, g.Hosts, d))
		}
	}
	return faults
}

// ofPods compares a release's pods with the existing pods.
func (s *Stage) ofPods(r view.Release) (faults []string) {
	s.Helper()
	var list corev1.PodList
	if err := s.Client.List(s.Context(), &list, client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: r.Name}); err != nil {
		s.Fatal(err)
	}
	var want, got []string
	for _, p := range list.Items {
		want = append(want, p.Name)
	}
	if r.Pods != nil {
		for _, p := range r.Pods.Pods {
			got = append(got, p.Name)
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, got) {
		faults = append(faults, fmt.Sprintf("%s has the pods %q, the cluster %q", r.Version, got, want))
	}
	return faults
}
