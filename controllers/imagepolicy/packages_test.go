package imagepolicy

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestPackages checks that a delivery about a package starts scans of the ImagePolicies that read the
// package's repository.
func TestPackages(t *testing.T) {
	s := begin(t)
	s.opens(pull(1, "one", sha("1")))
	s.policy("shop", pulls(nil))
	s.policy("other")
	s.pass("shop")
	s.push("sha-1111111")
	p, _ := s.pass("shop")
	same(t, "before the interval", previews(p), []string(nil))
	var requeued []types.NamespacedName
	s.reconciler.rescan(t.Context(), s.key("shop"), func(request ctrl.Request) { requeued = append(requeued, request.NamespacedName) })
	same(t, "requeued", requeued, []types.NamespacedName{s.key("shop")})
	p, _ = s.pass("shop")
	same(t, "after a hint", previews(p), []string{"one-1 1111 sha-1111111"})
	same(t, "remaining hints", s.reconciler.scans.entry(s.key("shop")).stale, false)
}
