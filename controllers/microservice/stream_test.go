package microservice

import (
	"regexp"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// offerMajors makes the ImagePolicy offer versions, each in the group of its major version.
func (s *story) offerMajors(versions ...string) {
	s.Helper()
	s.offer()
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	for _, v := range versions {
		p.Status.Releases = append(p.Status.Releases, v1alpha1.OfferedRelease{
			SemVer: v1alpha1.SemVer{Name: v[:1] + ".x", Version: v}, Group: v[:1] + "-x", Level: "Release",
			Images: []v1alpha1.ReleaseImage{{Image: "r.example/shop:" + v + "@sha256:" + v, Digest: "sha256:" + v}},
		})
	}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

// TestNewestDomainsMoveToANewerGroup tests the first release of a newer group on the API
// server: it goes through the steps, a failing release changes nothing else, and a manager that
// restarts during the rollout continues.
func TestNewestDomainsMoveToANewerGroup(t *testing.T) {
	s := begin(t)
	s.newest = true
	s.route()
	s.offerMajors("1.0.0")
	s.play()
	same(t, "first", s.rolloutState(), lines("1-x Live target Latest", "  1.0.0 active 100% First, 2 replicas"))

	s.broken["2.0.0"] = true
	s.offerMajors("1.0.0", "2.0.0")
	s.play()
	same(t, "a release that never starts", s.rolloutState(), lines(
		"2-x Live target ", "  2.0.0 error 0% CrashLoopBackOff, 0 replicas",
		"1-x Live target Latest", "  1.0.0 active 100% First, 2 replicas"))
	ready := condition(s.ms(), v1alpha1.ConditionReady)
	same(t, "ready "+ready, strings.HasPrefix(ready, "True "), true)

	s.offerMajors("1.0.0", "2.0.0", "2.0.1")
	s.play(s.until("2.0.1 canary 10%"))
	run := s.ms().Status.ReleaseGroups[0].Rollout
	same(t, "group from which the domains move", run.From, "1-x")
	s.play(func() bool { return s.ms().Status.ReleaseGroups[0].Rollout.WaitingSince != nil })
	s.restart()
	ready = condition(s.ms(), v1alpha1.ConditionReady)
	same(t, "ready "+ready, strings.HasPrefix(ready, "True "), true)
	same(t, "the other group", s.ms().Status.ReleaseGroups[1].Rollout == nil, true)

	// Another group is waiting for this group.
	s.offerMajors("1.0.0", "2.0.0", "2.0.1", "3.0.0")
	s.play(func() bool {
		return strings.HasPrefix(condition(s.ms(), v1alpha1.ConditionProgressing), "True Group: ")
	})
	why := condition(s.ms(), v1alpha1.ConditionProgressing)
	same(t, "why "+why, strings.Contains(why, "3.0.0 is waiting: the domains that follow the newest group are moving to 2.0.1 in group 2.x"), true)
	s.play(s.until("2.0.1 active 100%"))
	s.play()
	same(t, "end", s.rolloutState(), lines(
		"3-x Live target Latest", "  3.0.0 active 100% Promoted, 2 replicas",
		"2-x Live target Latest", "  2.0.1 active 100% Promoted, 2 replicas",
		"1-x Live target Latest", "  1.0.0 active 100% First, 2 replicas"))
	var reported []string
	for _, e := range s.events {
		if e = plain.ReplaceAllString(e, ""); !strings.HasPrefix(e, "Started") {
			reported = append(reported, e)
		}
	}
	same(t, "events", reported, []string{
		"Promoted: 1.0.0 is active in group 1.x",
		"ReleaseFailed: 2.0.0 was not healthy within the progress deadline of 10m0s: CrashLoopBackOff",
		"Promoted: 2.0.1 is active in group 2.x",
		"Promoted: 3.0.0 is active in group 3.x",
	})
}

// plain matches the object names that are removed from text.
var plain = regexp.MustCompile(` \(shop-[0-9a-f-]+\)`)
