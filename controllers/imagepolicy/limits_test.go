package imagepolicy

import (
	"fmt"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// TestLimitOfTagsCountsAdmittedTags checks that tags that spec.tagFilter rejects do not count against
// spec.limits.tags, so that versions are found even if they are listed after thousands of commit
// tags.
func TestLimitOfTagsCountsAdmittedTags(t *testing.T) {
	s := begin(t)
	s.push("v1.0.0", "v1.1.0")
	var tags []string
	for i := range 1500 {
		tags = append(tags, fmt.Sprintf("sha-%07d", i))
	}
	s.server.SetTags(path, append(tags, "v1.0.0", "v1.1.0"))
	s.policy("shop", func(p *v1alpha1.ImagePolicySpec) {
		p.Limits.Tags = 1000
		p.TagFilter = &v1alpha1.TagFilter{Pattern: "^v"}
	})
	p, _ := s.pass("shop")
	same(t, "offered", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	same(t, "Truncated", condition(p, "Truncated"), "False Complete: no tags or groups are omitted")
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.TagFilter = nil })
	p = s.scan("shop")
	same(t, "offered without a filter", offered(p), []string{"1.1.0 in release", "1.0.0 in release"})
	same(t, "Truncated without a filter", condition(p, "Truncated"), "True TooManyTags: the maximum number of tags was read (1000): increase spec.limits.tags, select tags with spec.tagFilter, or delete old tags")
}

// TestDeletedTagOfAnImageThatRemains checks that the Ready condition reports a deleted tag whose image remains,
// and that the version of the tag is withdrawn after two scans if spec.untagged is Withdraw.
func TestDeletedTagOfAnImageThatRemains(t *testing.T) {
	for _, untagged := range []v1alpha1.UntaggedPolicy{"", v1alpha1.UntaggedKeep, v1alpha1.UntaggedWithdraw} {
		t.Run("untagged: "+string(untagged), func(t *testing.T) {
			s := begin(t)
			s.push("1.0.0", "1.1.0")
			s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Untagged = untagged })
			s.microservice("shop", "shop", "release 1.1.0")
			s.pass("shop")
			s.server.Delete(t, path, "1.1.0")
			p := s.scan("shop")
			same(t, "after the first scan", append(offered(p), taken(p)...), []string{"1.1.0 in release", "1.0.0 in release"})
			p = s.scan("shop")
			if untagged == v1alpha1.UntaggedWithdraw {
				same(t, "after the second scan", append(offered(p), taken(p)...), []string{"1.0.0 in release", "1.1.0 in release: Gone"})
				return
			}
			same(t, "after the second scan", append(offered(p), taken(p)...), []string{"1.1.0 in release", "1.0.0 in release"})
			same(t, "Ready", condition(p, "Ready"), "True Succeeded: offers 2 versions in 1 group; the registry no longer has tags for these versions, whose images are still offered: 1.1.0; to withdraw them, add them to spec.deny, or set spec.untagged to Withdraw")
			writes := s.writes
			s.scan("shop")
			same(t, "writes while nothing changes", s.writes, writes)
			s.push("1.1.0")
			same(t, "Ready after the tag is pushed again", condition(s.scan("shop"), "Ready"), "True Succeeded: offers 2 versions in 1 group")
		})
	}
}

// TestDeletedTagOfTheImageOfAnotherTag checks the case in which a deleted tag has the same image as another tag, which remains: the
// deleted tag is reported, and its version is withdrawn if spec.untagged is Withdraw. This image is then also the one whose existence proves that the registry responds.
func TestDeletedTagOfTheImageOfAnotherTag(t *testing.T) {
	for _, untagged := range []v1alpha1.UntaggedPolicy{v1alpha1.UntaggedKeep, v1alpha1.UntaggedWithdraw} {
		t.Run("untagged: "+string(untagged), func(t *testing.T) {
			s := begin(t)
			image := registrytest.Image(t, "shop", "linux/amd64", time.Time{})
			s.server.PushImage(t, path, "1.1.0", image)
			s.server.PushImage(t, path, "1.2.0", image)
			s.policy("shop", func(p *v1alpha1.ImagePolicySpec) { p.Untagged = untagged })
			s.microservice("shop", "shop", "release 1.2.0")
			s.pass("shop")
			s.server.Delete(t, path, "1.2.0")
			s.scan("shop")
			p := s.scan("shop")
			if untagged == v1alpha1.UntaggedWithdraw {
				same(t, "after the second scan", append(offered(p), taken(p)...), []string{"1.1.0 in release", "1.2.0 in release: Gone"})
				return
			}
			same(t, "after the second scan", append(offered(p), taken(p)...), []string{"1.2.0 in release", "1.1.0 in release"})
			same(t, "Ready", condition(p, "Ready"), "True Succeeded: offers 2 versions in 1 group; the registry no longer has tags for these versions, whose images are still offered: 1.2.0; to withdraw them, add them to spec.deny, or set spec.untagged to Withdraw")
		})
	}
}
