package follower

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

// reason why a CronJob follows a release, or none: the reason of the event.
type reason string

const (
	following            reason = "Following"
	microserviceNotFound reason = "MicroserviceNotFound"
	groupNotFound        reason = "GroupNotFound"
	previewsNotFollowed  reason = "PreviewsNotFollowed"
	noActiveRelease      reason = "NoActiveRelease"
	releaseNotFound      reason = "ReleaseNotFound"
	containerNotFound    reason = "ContainerNotFound"
	applyRejected        reason = "ApplyRejected"
)

// plan for a CronJob.
type plan struct {
	reason  reason
	message string
	// release that the CronJob follows from now on; nil: it keeps what it has.
	release *v1alpha1.VersionedMicroservice
	// container that runs the image of the release.
	container string
	// suspend: the CronJob must not start Jobs. Otherwise that is for the user to decide.
	suspend bool
	// restore: without a release, references return to the ConfigMaps and Secrets of the manifest, because the copies go, or are gone.
	restore bool
}

// decide returns which release a CronJob follows. It is pure.
//
// A CronJob that has never followed a release has the image of its manifest, and is suspended until it does.
// One that has keeps its release while an object that it refers to is missing, as after an uninstallation, or
// the reference is wrong; a group that exists and has no active release suspends it, and the end of a group
// whose release is gone.
func decide(o *observed) plan {
	followed := o.cronJob.Annotations[v1alpha1.AnnotationFollows] != ""
	keep := func(why reason, format string, values ...any) plan {
		return plan{reason: why, message: fmt.Sprintf(format, values...), suspend: !followed, restore: followed && !o.followedExists}
	}
	if !o.exists {
		p := keep(microserviceNotFound, "Microservice %q does not exist: correct the label %s, or create it", o.microservice, v1alpha1.LabelFollow)
		p.restore = followed // Its releases are deleted next, perhaps when this manager is gone.
		return p
	}
	name := o.cronJob.Annotations[v1alpha1.AnnotationFollowGroup]
	group := groupOf(o.groups, name)
	switch {
	case group == nil && name != "":
		p := keep(groupNotFound, "Microservice %q has no group %q: correct the annotation %s, or wait until a version of the group is offered", o.microservice, name, v1alpha1.AnnotationFollowGroup)
		p.suspend = p.suspend || p.restore // The group has ended.
		return p
	case group != nil && group.PullRequest != 0:
		return keep(previewsNotFollowed, "group %q is a preview of pull request %d: its code does not run with the permissions of a CronJob; choose another group by the annotation %s", group.Name, group.PullRequest, v1alpha1.AnnotationFollowGroup)
	case group == nil || activeOf(group) == "":
		return plan{reason: noActiveRelease, suspend: true, message: fmt.Sprintf("suspended until %s has an active release", described(o, group))}
	}
	release := o.releases[activeOf(group)]
	if release == nil {
		return keep(releaseNotFound, "release %q does not exist", activeOf(group))
	}
	container := containerOf(o, release)
	if container == "" {
		return keep(containerNotFound, "no container is named like the one of the release or the Microservice: name the container that runs the image in the annotation %s", v1alpha1.AnnotationFollowContainer)
	}
	return plan{
		reason: following, release: release, container: container,
		message: fmt.Sprintf("follows release %q, version %s of %s", release.Name, release.Spec.SemVer.Version, described(o, group)),
	}
}

func described(o *observed, group *v1alpha1.ReleaseGroup) string {
	if group == nil {
		return fmt.Sprintf("Microservice %q", o.microservice)
	}
	return fmt.Sprintf("group %q of Microservice %q", group.Name, o.microservice)
}

// groupOf returns the group of a name or slug; without one the newest group with an active release that is
// not a preview, or nil.
func groupOf(groups []v1alpha1.ReleaseGroup, name string) *v1alpha1.ReleaseGroup {
	for i := range groups {
		g := &groups[i]
		if name == "" && activeOf(g) != "" && g.PullRequest == 0 || name != "" && (g.Name == name || g.Slug == name) {
			return g
		}
	}
	return nil
}

// activeOf returns the name of the active release of a group, or "".
func activeOf(group *v1alpha1.ReleaseGroup) string {
	for _, release := range group.Releases {
		if release.Status == v1alpha1.ReleaseActive {
			return release.VersionedMicroservice
		}
	}
	return ""
}

// containerOf returns the container of a CronJob that runs the image of a release: the one that the
// annotation names, or the one with the name of the release's container or of the Microservice, or the
// only one. It returns "" if there is none. Containers that only the controller keeps do not count: a user renamed or removed them.
func containerOf(o *observed, release *v1alpha1.VersionedMicroservice) string {
	users := othersOf(o.cronJob)
	containers := slices.DeleteFunc(slices.Clone(podSpec(o.cronJob).Containers), func(c corev1.Container) bool { return !users.have("containers", c.Name) })
	has := func(name string) bool {
		for i := range containers {
			if containers[i].Name == name {
				return true
			}
		}
		return false
	}
	if named, ok := o.cronJob.Annotations[v1alpha1.AnnotationFollowContainer]; ok {
		if has(named) {
			return named
		}
		return ""
	}
	for _, name := range []string{resources.MainContainer(release).Name, o.microservice} {
		if has(name) {
			return name
		}
	}
	if len(containers) == 1 {
		return containers[0].Name
	}
	return ""
}

func podSpec(job *batchv1.CronJob) *corev1.PodSpec { return &job.Spec.JobTemplate.Spec.Template.Spec }
