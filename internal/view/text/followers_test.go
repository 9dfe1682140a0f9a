package text

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestFollowers checks that the tree shows each CronJob that follows the service, with the version that it follows, and no other CronJobs.
func TestFollowers(t *testing.T) {
	t.Parallel()
	s, ok := viewtest.Play("promoted", "shop")
	if !ok {
		t.Fatal("no history")
	}
	job := func(namespace, name, follows, release, message string, suspend bool) batchv1.CronJob {
		return batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelFollow: follows},
				Annotations: map[string]string{v1alpha1.AnnotationFollows: release, v1alpha1.AnnotationFollowMessage: message},
			},
			Spec: batchv1.CronJobSpec{Suspend: &suspend},
		}
	}
	release := s.Input.Releases[0]
	version := release.Spec.SemVer.Version
	s.Input.CronJobs = []batchv1.CronJob{
		job("shop", "report", "shop", release.Name, "follows release", false),
		job("shop", "cleanup", "shop", release.Name, "follows release", true),
		job("shop", "export", "shop", "", "suspended until group \"2.x\" has an active release", true),
		job("shop", "gone", "shop", "shop-0-9-0", "release \"shop-0-9-0\" does not exist", false),
		job("shop", "new", "shop", "", "", false),
		job("shop", "of-another", "cart", release.Name, "", false),
		job("bank", "elsewhere", "shop", release.Name, "", false),
	}
	var b strings.Builder
	if err := Tree(&b, view.New(s.Input, s.Now).Services[0], Options{Now: s.Now}, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(b.String(), "\nCronJob ")
	want := "cleanup  follows " + version + ", suspended\n" +
		"CronJob export  suspended until group \"2.x\" has an active release\n" +
		"CronJob gone  release \"shop-0-9-0\" does not exist\n" +
		"CronJob new  is not handled by the manager yet\n" +
		"CronJob report  follows " + version + "\n"
	if got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}
