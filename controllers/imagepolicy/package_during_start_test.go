package imagepolicy

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
)

// TestPackageDuringTheStartOfAScan checks that a delivery about a package that arrives while a reconcile reads the Secrets for a scan starts a scan
// that ignores earlier answers.
func TestPackageDuringTheStartOfAScan(t *testing.T) {
	s := begin(t)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":"u","password":"p"}}}`, registry.Host(s.server.Repository(path)))}})
	s.server.RequireBasic("u", "p")
	s.opens(pull(1, "one", sha("1")))
	s.policy("shop", pulls(nil), func(p *v1alpha1.ImagePolicySpec) {
		p.Interval = "24h"
		p.ImagePullSecrets = []v1alpha1.Reference{{Name: "pull"}}
	})
	var during func()
	s.reconciler.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, secret := obj.(*corev1.Secret); secret && during != nil {
				during()
				during = nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	p, _ := s.pass("shop")
	same(t, "before the image exists", previews(p), []string(nil))
	r := &v1alpha1.GitHubRepository{} // A push to another pull request changes the list from GitHub, so a scan is due.
	s.get("shop", r)
	r.Status.PullRequests = append(r.Status.PullRequests, pull(2, "two", sha("2")))
	if err := env.Client.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(time.Second)
	enqueued := &requests{}
	during = func() { // The image of pull request 1 is pushed, and the package is announced.
		s.push("sha-1111111")
		before := &v1alpha1.GitHubRepository{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
		now := before.DeepCopy()
		now.Annotations = map[string]string{v1alpha1.AnnotationPackageDeliveredAt: "10:00"}
		s.reconciler.packageDelivered().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: now}, enqueued)
	}
	s.pass("shop")
	same(t, "enqueued", len(enqueued.names), 1)
	p, _ = s.pass("shop") // because the handler enqueued the policy
	same(t, "after the announcement", previews(p), []string{"one-1 1111 sha-1111111"})
}
