package act

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/version"
)

// target is the release that a decision applies to, with its group and its Microservice.
type target struct {
	ms    *v1alpha1.Microservice
	group *v1alpha1.ReleaseGroup
	row   *v1alpha1.Release
}

// String returns the name of the Microservice and the version of the release, for messages.
func (t target) String() string { return t.ms.Name + " " + t.row.SemVer.Version }

// inProgress reports whether the rollout of the release is in progress.
func (t target) inProgress() bool {
	return t.group.Rollout != nil && t.group.Rollout.Release == t.row.VersionedMicroservice
}

// target finds the release that a decision applies to. The arguments are the name of a VersionedMicroservice, or a
// Microservice and a version. The version can be omitted if the action is possible for only one release of the
// Microservice.
func (s *scope) target(ctx context.Context, action v1alpha1.DecisionAction, args []string) (target, error) {
	if len(args) == 2 {
		ms, err := s.microservice(ctx, args[0])
		if err != nil {
			return target{}, err
		}
		return byVersion(ms, action, args[1])
	}
	name := bare(args[0])
	var list v1alpha1.MicroserviceList
	if err := s.client.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
		return target{}, err
	}
	var names []string
	for i := range list.Items {
		ms := &list.Items[i]
		ms.Status.Convert()
		names = append(names, ms.Name)
		for _, t := range releases(ms) {
			if t.row.VersionedMicroservice == name {
				return t, nil
			}
			names = append(names, t.row.VersionedMicroservice)
		}
	}
	for i := range list.Items {
		if ms := &list.Items[i]; ms.Name == name {
			return only(ms, action)
		}
	}
	return target{}, cli.UnknownMicroservice(ctx, s.client, "release or Microservice", s.namespace, name, names)
}

// releases returns the releases of a Microservice, in the order in which its status lists them.
func releases(ms *v1alpha1.Microservice) []target {
	var all []target
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		for j := range g.Releases {
			all = append(all, target{ms, g, &g.Releases[j]})
		}
	}
	return all
}

// fits reports whether the status of a release allows an action.
func fits(t target, action v1alpha1.DecisionAction) bool {
	switch action {
	case v1alpha1.DecisionContinue:
		return t.inProgress() && t.row.Status == v1alpha1.ReleaseCanary && t.group.Rollout.Step > 0
	case v1alpha1.DecisionAdopt:
		return t.inProgress() && (t.row.Status == v1alpha1.ReleaseCanary || t.row.Status == v1alpha1.ReleasePending)
	case v1alpha1.DecisionDeprecate:
		return t.row.Status == v1alpha1.ReleaseCanary || t.row.Status == v1alpha1.ReleasePending
	case v1alpha1.DecisionRetry:
		return t.row.Status == v1alpha1.ReleaseError
	}
	return false
}

// only returns the only release for which the action is possible.
func only(ms *v1alpha1.Microservice, action v1alpha1.DecisionAction) (target, error) {
	all := releases(ms)
	found := slices.DeleteFunc(slices.Clone(all), func(t target) bool { return !fits(t, action) })
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return target{}, cli.No(fmt.Errorf("%s has no release to %s: %s", ms.Name, verbs[action], states(all)))
	}
	return target{}, cli.Usage(fmt.Errorf("%[1]s has several releases to %[2]s: name one of them: %[3]s", ms.Name, verbs[action], states(found)))
}

// byVersion finds the release of a version. If several releases of the version have different configurations, byVersion returns
// the only release for which the action is possible.
func byVersion(ms *v1alpha1.Microservice, action v1alpha1.DecisionAction, wanted string) (target, error) {
	all := releases(ms)
	found := slices.DeleteFunc(slices.Clone(all), func(t target) bool {
		return !version.Matches(wanted, t.row.SemVer.Version) && t.row.VersionedMicroservice != wanted
	})
	if len(found) == 0 {
		return target{}, cli.Unknown("release of "+ms.Name, wanted, versionsOf(all))
	}
	fit := slices.DeleteFunc(slices.Clone(found), func(t target) bool { return !fits(t, action) })
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		return target{}, cli.Usage(fmt.Errorf("%[1]s %[2]s has several releases to %[3]s: name one of them: %[4]s", ms.Name, wanted, verbs[action], strings.Join(objectsOf(fit), ", ")))
	}
	return found[0], nil // The caller rejects the decision, and reports the reason.
}

func versionsOf(all []target) []string {
	var versions []string
	for _, t := range all {
		versions = append(versions, t.row.SemVer.Version)
	}
	return versions
}

func objectsOf(all []target) []string {
	var names []string
	for _, t := range all {
		names = append(names, t.row.VersionedMicroservice)
	}
	return names
}

// states lists the versions of releases with their status, for messages.
func states(all []target) string {
	if len(all) == 0 {
		return "there is no release"
	}
	var parts []string
	for _, t := range all {
		parts = append(parts, fmt.Sprintf("%s is %s", t.row.SemVer.Version, t.row.Status))
	}
	return strings.Join(parts, ", ")
}
