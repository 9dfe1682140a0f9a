package imagepolicy

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/await"
)

// requests collects the requests that a handler adds.
type requests struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	names []types.NamespacedName
}

func (r *requests) Add(request ctrl.Request) { r.names = append(r.names, request.NamespacedName) }

// TestPackages checks that a delivery about a package, which a replica announced with an annotation of the
// GitHubRepository, starts scans of the ImagePolicies that read this GitHubRepository.
func TestPackages(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "one", sha("1")))
	s.policy("shop", pulls(nil))
	s.policy("other")
	s.pass("shop")
	s.push("sha-1111111")
	p, _ := s.pass("shop")
	same(t, "before the interval", previews(p), []string(nil))
	requeued := &requests{}
	before := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	now := before.DeepCopy()
	now.Annotations = map[string]string{v1alpha1.AnnotationDeliveredAt: "10:00"}
	s.reconciler.packageDelivered().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: now}, requeued)
	same(t, "requeued after a delivery that is not about a package", requeued.names, []types.NamespacedName(nil))
	now.Annotations[v1alpha1.AnnotationPackageDeliveredAt] = "10:00"
	s.reconciler.packageDelivered().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: now}, requeued)
	same(t, "requeued", requeued.names, []types.NamespacedName{s.key("shop")})
	s.reconciler.packageDelivered().Update(t.Context(), event.UpdateEvent{ObjectOld: now, ObjectNew: before}, requeued)
	same(t, "requeued after the annotation was removed", requeued.names, []types.NamespacedName{s.key("shop")})
	p, _ = s.pass("shop")
	same(t, "after a hint", previews(p), []string{"one-1 1111 sha-1111111"})
	same(t, "remaining hints", s.reconciler.scans.entry(s.key("shop")).stale, false)
}

// TestPackagesAreWatched checks that a running manager scans after each announced package, and after no other change to the
// annotations of the GitHubRepository.
func TestPackagesAreWatched(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "one", sha("1")))
	s.push("sha-1111111")
	s.policy("shop", pulls(nil), func(p *v1alpha1.ImagePolicySpec) { p.Interval = "24h" })
	s.run()
	await.Nil(t, func(context.Context) error {
		p := &v1alpha1.ImagePolicy{}
		s.get("shop", p)
		if len(previews(p)) == 0 {
			return fmt.Errorf("no preview is offered: %s", condition(p, "Ready"))
		}
		return nil
	})
	annotate := func(annotation, value string) {
		t.Helper()
		r := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value))
		if err := env.Client.Patch(t.Context(), r, patch); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 {
		time.Sleep(200 * time.Millisecond) // until the previous scan has ended
		before := s.server.Total()
		annotate(v1alpha1.AnnotationDeliveredAt, fmt.Sprint(n))
		annotate(v1alpha1.AnnotationRequestedAt, fmt.Sprint(n))
		time.Sleep(200 * time.Millisecond) // A scan because of these annotations would start within this time.
		same(t, "requests to the registry because of other annotations", s.server.Total(), before)
		annotate(v1alpha1.AnnotationPackageDeliveredAt, fmt.Sprint(n))
		await.Until(t, "a scan", func() bool { return s.server.Total() > before })
	}
}
