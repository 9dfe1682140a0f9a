package follower

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

// reason is the reason for the event that shows which release a CronJob follows, or what prevents the CronJob from
// following a release.
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

// plan is the plan for a CronJob.
type plan struct {
	reason  reason
	message string
	// release is the release that the CronJob follows from now on. If it is nil, images do not change.
	release *v1alpha1.VersionedMicroservice
	// container is the container that runs the image of the release.
	container string
	// suspend reports whether the CronJob must be suspended. Otherwise, the user decides whether to suspend it.
	suspend bool
	// restore reports whether, if release is nil, references to ConfigMaps and Secrets are restored to those
	// in the manifest, because the copies that belong to the followed release have been or will be deleted.
	restore bool
}

// decide returns the plan for a CronJob. It is pure.
//
// A CronJob that has never followed a release has the image of its manifest, and is suspended until it
// follows a release. A CronJob that has followed a release keeps following that release while an object to
// which the CronJob refers is missing, for example after an uninstallation, or while such a reference is
// wrong. A CronJob is suspended while its group has no active release, and after its group has ended and the
// release has been deleted.
func decide(o *observed) plan {
	followed := o.cronJob.Annotations[v1alpha1.AnnotationFollows] != ""
	keep := func(why reason, format string, values ...any) plan {
		return plan{reason: why, message: fmt.Sprintf(format, values...), suspend: !followed, restore: followed && !o.followedExists}
	}
	if !o.exists {
		p := keep(microserviceNotFound, "Microservice %q does not exist: correct the label %s, or create the Microservice", o.microservice, v1alpha1.LabelFollow)
		p.restore = followed // The releases of the Microservice are deleted next, perhaps after this manager is uninstalled.
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
		return keep(previewsNotFollowed, "group %q is a preview of pull request %d: its code must not run with the permissions of a CronJob; select another group with the annotation %s", group.Name, group.PullRequest, v1alpha1.AnnotationFollowGroup)
	case group == nil || activeOf(group) == "":
		return plan{reason: noActiveRelease, suspend: true, message: fmt.Sprintf("suspended until %s has an active release", described(o, group))}
	}
	release := o.releases[activeOf(group)]
	if release == nil {
		return keep(releaseNotFound, "release %q does not exist", activeOf(group))
	}
	container := containerOf(o, release)
	if named, ok := o.cronJob.Annotations[v1alpha1.AnnotationFollowContainer]; ok && container == "" {
		return keep(containerNotFound, "the CronJob has no container %q: correct the annotation %s, which names the container that runs the image", named, v1alpha1.AnnotationFollowContainer)
	}
	if container == "" {
		return keep(containerNotFound, "no container has the name of the release's container or of the Microservice: set the annotation %s to the name of the container that runs the image", v1alpha1.AnnotationFollowContainer)
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

// groupOf returns the group whose name or slug is name, or nil. If name is empty, groupOf returns the newest
// group that has an active release and is not a preview.
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

// containerOf returns the name of the CronJob's container that runs a release's image: the container that
// the annotation names, or the container with the name of the release's container or of the Microservice,
// or the only container. It returns "" if no such container exists. Containers that only this controller
// owns are ignored, because a user has renamed or removed them.
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
