package microservice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// pull returns the offer for an open pull request from the branch "feature", with an image of its head
// commit.
func (s *story) pull(number int, sha string) v1alpha1.OfferedRelease {
	return v1alpha1.OfferedRelease{
		SemVer: v1alpha1.SemVer{Name: "feature", Version: sha}, Group: fmt.Sprintf("feature-%d", number), Level: v1alpha1.LevelPreview,
		PullRequest: int64(number), Revision: sha, ReleaseTime: &metav1.Time{Time: s.clock.Now()},
		Images: []v1alpha1.ReleaseImage{{Image: "r.example/shop:" + sha + "@sha256:" + sha, Digest: "sha256:" + sha}},
	}
}

// pulls makes the ImagePolicy offer pull requests, and report that others are closed.
func (s *story) pulls(open []v1alpha1.OfferedRelease, closed ...int) {
	s.Helper()
	p := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	p.Spec.Image = "r.example/shop"
	p.Spec.Source = &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{PullRequests: &v1alpha1.GitHubPullRequests{}}}
	p.Spec.Source.GitHub.RepositoryRef.Name = "shop"
	if err := env.Client.Create(s.Context(), p); err != nil {
		s.get("shop", p)
	}
	p.Status = v1alpha1.ImagePolicyStatus{ObservedGeneration: p.Generation, Releases: open}
	for _, number := range closed {
		p.Status.Withdrawn = append(p.Status.Withdrawn, v1alpha1.Withdrawal{
			Group: fmt.Sprintf("feature-%d", number), Reason: v1alpha1.WithdrawnClosed, Time: metav1.NewTime(s.clock.Now()),
		})
	}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

// TestLifeOfAPreview simulates a pull request from its first image until none of its objects remain.
func TestLifeOfAPreview(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.Previews = &v1alpha1.Previews{KeepAfterClose: "1h"}
	})
	s.route()
	s.pulls(nil)
	s.play()
	same(t, "no pull request", condition(s.ms(), "Ready"), "True Succeeded: all release groups are previews of pull requests")
	same(t, "no previews", condition(s.ms(), "PreviewsReady"), "")

	first := s.pull(7, "aaaaaaa")
	s.pulls([]v1alpha1.OfferedRelease{first})
	s.play(s.until("aaaaaaa pending"))
	same(t, "starting", condition(s.ms(), "PreviewsReady"), "False PreviewsStarting: 0 of 1 previews are available; 1 starting")
	same(t, "ready while the preview starts", condition(s.ms(), "Ready"), "True Succeeded: all release groups are previews of pull requests")
	s.play()
	same(t, "opened", s.rolloutState(), lines("feature-7 Live target Latest", "  aaaaaaa active 100% First, 2 replicas"))
	same(t, "available", condition(s.ms(), "PreviewsReady"), "True PreviewsAvailable: 1 of 1 previews are available")
	same(t, "summary", s.ms().Status.Summary, v1alpha1.MicroserviceSummary{Previews: "1/1"})
	group := s.ms().Status.ReleaseGroups[0]
	same(t, "number and head", fmt.Sprint(group.PullRequest, group.Head, group.HeadTime.UTC()), fmt.Sprint(7, "aaaaaaa", first.ReleaseTime.UTC()))
	object := s.release("aaaaaaa")
	for _, labels := range []map[string]string{object.Labels, object.Spec.Template.Labels} {
		same(t, "label", labels[v1alpha1.LabelPullRequest], "7")
	}
	same(t, "annotation", object.Spec.Template.Annotations[v1alpha1.AnnotationCommit], "aaaaaaa")

	// There are three pushes before the first commit is available. The last commit never becomes available.
	for _, sha := range []string{"bbbbbbb", "ccccccc", "ddddddd"} {
		s.broken[sha] = true
		s.pulls([]v1alpha1.OfferedRelease{s.pull(7, sha)})
		s.play(s.until(sha + " pending"))
	}
	s.play()
	same(t, "the old commit serves", s.rolloutState(), lines(
		"feature-7 Live target Held", "  ddddddd error 0% CrashLoopBackOff, 0 replicas", "  aaaaaaa active 100% First, 2 replicas"))
	same(t, "failed", condition(s.ms(), "PreviewsReady"), "True PreviewsFailed: 1 of 1 previews are available; failed: #7 (CrashLoopBackOff)")
	same(t, "a preview is not a failed release", condition(s.ms(), "ReleaseFailed"), "")
	same(t, "ready despite the failed preview", condition(s.ms(), "Ready"), "True Succeeded: all release groups are previews of pull requests")
	s.pulls([]v1alpha1.OfferedRelease{s.pull(7, "eeeeeee")})
	s.play()
	same(t, "fixed", s.rolloutState(), lines("feature-7 Live target Latest", "  eeeeeee active 100% Promoted, 2 replicas"))

	// After the pull request is closed, the preview remains for exactly one hour.
	s.pulls(nil, 7)
	result, err := s.pass()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "kept for", result.RequeueAfter.Round(time.Second), time.Hour)
	s.clock.Step(time.Hour - time.Second)
	result, err = s.pass()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "kept", s.rolloutState(), lines("feature-7 Live target Held", "  eeeeeee active 100% Promoted, 2 replicas"))
	s.clock.Step(result.RequeueAfter)
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	same(t, "closing", s.rolloutState(), lines("feature-7 Closing target ", "  eeeeeee deprecated 0% Closed, 2 replicas"))
	s.play()
	same(t, "nothing remains", s.rolloutState(), "")
	same(t, "no condition remains", condition(s.ms(), "PreviewsReady"), "")
	var reported []string
	for _, e := range s.events {
		reason, _, _ := strings.Cut(e, ":")
		reported = append(reported, reason)
	}
	same(t, "events", strings.Join(reported, " "), "Started Promoted Started Superseded Started Superseded Started ReleaseFailed Started Promoted Closed")
}

// TestPreviewsWithoutSlot tests a service that has more pull requests than preview slots, and a pull request that is too old.
func TestPreviewsWithoutSlot(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.Previews = &v1alpha1.Previews{MaxGroups: 1, MaxAge: "2h"}
	})
	one, two := s.pull(1, "aaaaaaa"), s.pull(2, "bbbbbbb")
	s.pulls([]v1alpha1.OfferedRelease{one, two})
	s.play(func() bool { return s.ms().Status.Summary.Previews == "1/1" })
	same(t, "one slot", s.rolloutState(), lines("feature-2 Live target Latest", "  bbbbbbb active 100% First, 2 replicas", "feature-1 Expired target NoSlot"))
	same(t, "condition", condition(s.ms(), "PreviewsReady"), "True PreviewsAvailable: 1 of 1 previews are available; 1 without a slot (spec.previews.maxGroups)")
	same(t, "expired", s.ms().Status.ReleaseGroups[1].Head, "aaaaaaa")
	result, err := s.pass()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "requeued when it is too old", s.clock.Now().Add(result.RequeueAfter), one.ReleaseTime.Add(2*time.Hour))
	s.play()
	same(t, "too old", s.rolloutState(), lines("feature-2 Expired target MaxAge", "feature-1 Expired target MaxAge"))
	same(t, "expired by age", condition(s.ms(), "PreviewsReady"), "True PreviewsAvailable: 0 of 0 previews are available; 2 expired (spec.previews.maxAge)")
	same(t, "events", s.events[len(s.events)-1:], []string{
		"Expired: preview feature-2 is drained and removed: the last push, at " + two.ReleaseTime.UTC().Format(time.RFC3339) + ", is older than spec.previews.maxAge (2h0m0s): push a commit to start the preview again",
	})
	s.pulls([]v1alpha1.OfferedRelease{s.pull(1, "ccccccc"), two})
	s.play(s.until("ccccccc active"))
	same(t, "pushed", s.rolloutState(), lines("feature-2 Expired target MaxAge", "feature-1 Live target Latest", "  ccccccc active 100% First, 2 replicas"))
}

// TestReleasesAndPreviewsSideBySide tests a preview that fails while a release is active.
func TestReleasesAndPreviewsSideBySide(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.offer("1.0.0")
	s.play()
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	s.broken["aaaaaaa"] = true
	p.Status.Releases = append([]v1alpha1.OfferedRelease{s.pull(7, "aaaaaaa")}, p.Status.Releases...)
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.play()
	same(t, "rollout state", s.rolloutState(), lines("release Live target Latest", "  1.0.0 active 100% First, 2 replicas", "feature-7 Live target ", "  aaaaaaa error 0% CrashLoopBackOff, 0 replicas"))
	same(t, "summary", s.ms().Status.Summary, v1alpha1.MicroserviceSummary{Active: "1.0.0", Groups: "1/1", Previews: "0/1"})
	same(t, "ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.0.0 in group release")
	same(t, "previews", condition(s.ms(), "PreviewsReady"), "False PreviewsFailed: 0 of 1 previews are available; failed: #7 (CrashLoopBackOff)")
}

// TestImagesInStep checks that each container gets its image, and that a missing container, or an additional image for
// the main container, is reported.
func TestImagesInStep(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "migrate", Image: "unset"}}
	})
	s.offer("1.0.0")
	s.also("migrate", "1.0.0")
	s.play()
	object := s.release("1.0.0")
	same(t, "image", object.Spec.Template.Spec.Containers[0].Image, "r.example/shop:1.0.0@sha256:1.0.0")
	same(t, "additional image", object.Spec.Template.Spec.InitContainers[0].Image, "r.example/migrate:1.0.0@sha256:1.0.0")

	s.offer("1.1.0", "1.0.0")
	s.also("worker", "1.1.0")
	s.play()
	same(t, "no such container", condition(s.ms(), "Ready"), `False ContainerNotFound: spec.additionalImages[].containerName of ImagePolicy "shop": spec.template has no container or init container "worker"; add it, or set the field to the name of an existing one`)
	same(t, "the active release continues", s.rolloutState(), lines("release Live target Latest", "  1.0.0 active 100% First, 2 replicas"))

	s.offer("1.1.0", "1.0.0")
	s.also("shop", "1.1.0")
	s.play()
	same(t, "the main container", condition(s.ms(), "Ready"), `False ContainerNotFound: spec.additionalImages[].containerName of ImagePolicy "shop": container "shop" runs spec.image; set the field to the name of another container, or set spec.containerName of the Microservice to the name of the container that runs spec.image`)
	same(t, "the active release still continues", s.rolloutState(), lines("release Live target Latest", "  1.0.0 active 100% First, 2 replicas"))
}

// also adds an image for a container to all offered releases.
func (s *story) also(container, version string) {
	s.Helper()
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	for i := range p.Status.Releases {
		p.Status.Releases[i].Images = append(p.Status.Releases[i].Images, v1alpha1.ReleaseImage{
			Image: "r.example/" + container + ":" + version + "@sha256:" + version, Digest: "sha256:" + version, ContainerName: container,
		})
	}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

// TestRebuiltPreviewKeepsItsNumber tests the loss of the rollout state while a preview is running.
func TestRebuiltPreviewKeepsItsNumber(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.pulls([]v1alpha1.OfferedRelease{s.pull(7, "aaaaaaa")})
	s.play()
	s.pulls(nil)
	ms := s.ms()
	ms.Status = v1alpha1.MicroserviceStatus{}
	if err := env.Client.Status().Update(s.Context(), ms); err != nil {
		t.Fatal(err)
	}
	s.restart()
	s.play()
	same(t, "rollout state", s.rolloutState(), lines("feature-7 Live target Held", "  aaaaaaa active 100% Rebuilt, 2 replicas"))
	same(t, "number", s.ms().Status.ReleaseGroups[0].PullRequest, int64(7))
	var list v1alpha1.VersionedMicroserviceList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelPullRequest: "7"}); err != nil {
		t.Fatal(err)
	}
	same(t, "found by its number", len(list.Items), 1)
}

// TestPreviewsTakeOverFromNothing checks that the previous Deployment keeps running while only a preview serves.
func TestPreviewsTakeOverFromNothing(t *testing.T) {
	t.Parallel()
	serving := func(level v1alpha1.ReleaseLevel) v1alpha1.ReleaseGroup {
		return v1alpha1.ReleaseGroup{Slug: string(level), Level: level, Phase: v1alpha1.GroupLive, Releases: []v1alpha1.Release{{Status: v1alpha1.ReleaseActive, Available: true}}}
	}
	for name, test := range map[string]struct {
		groups []v1alpha1.ReleaseGroup
		want   bool
	}{
		"nothing":                 {nil, false},
		"a preview":               {[]v1alpha1.ReleaseGroup{serving(v1alpha1.LevelPreview)}, false},
		"a release":               {[]v1alpha1.ReleaseGroup{serving(v1alpha1.LevelRelease)}, true},
		"a release and a preview": {[]v1alpha1.ReleaseGroup{serving(v1alpha1.LevelCandidate), serving(v1alpha1.LevelPreview)}, true},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Status.ReleaseGroups = test.groups
		same(t, name, servesSomewhere(ms), test.want)
	}
}
