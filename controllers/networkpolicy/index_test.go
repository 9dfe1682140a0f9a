package networkpolicy

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/index"
)

func TestIndexes(t *testing.T) {
	p := newWorld(t).Policy
	p.Spec.MicroserviceRef = &v1alpha1.Reference{Name: "other"}
	p.Status.Domains = []v1alpha1.DomainStatus{{Domain: "b.example.com"}, {Domain: "a.example.com"}, {Domain: "b.example.com", Path: "/x"}}
	found := map[string][]string{}
	for _, x := range indexes {
		if _, ok := x.Object.(*v1alpha1.NetworkPolicy); ok {
			found[x.Field] = x.Values(p)
		}
	}
	wanted := map[string][]string{
		indexHost: {"a.example.com rendered", "a.example.com/", "b.example.com rendered", "b.example.com/", "b.example.com/x"}, indexReferent: {"Gateway/infra/public"}, indexRoute: nil,
		index.NetworkPoliciesByMicroservice.Field: {"other"},
	}
	if diff := cmp.Diff(wanted, found, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// TestRollbacksAreUrgent checks that a canary that loses its traffic, and a release that is active
// again, have priority over other changes.
func TestRollbacksAreUrgent(t *testing.T) {
	before := group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50", "c 0.9.0 deprecated 0")
	for name, test := range map[string]struct {
		now  v1alpha1.ReleaseGroup
		want bool
	}{
		"aborted or failed":                  {group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100", "c 0.9.0 deprecated 0"), true},
		"a retained release is active again": {group("1-x", 3, "c 0.9.0 active 100", "b 1.1.0 deprecated 0", "a 1.0.0 deprecated 0"), true},
		"superseded, or aborted by a pin":    {group("1-x", 3, "b 1.1.0 deprecated 0", "a 1.0.0 active 100", "c 0.9.0 deprecated 0"), true},
		"a canary that is not available":     {group("1-x", 3, "b 1.1.0 canary 0", "a 1.0.0 active 100", "c 0.9.0 deprecated 0"), true},
		"a deleted canary":                   {group("1-x", 3, "a 1.0.0 active 100", "c 0.9.0 deprecated 0"), true},
		"the next step":                      {group("1-x", 3, "b 1.1.0 canary 80", "a 1.0.0 active 20", "c 0.9.0 deprecated 0"), false},
		"promoted":                           {group("1-x", 3, "b 1.1.0 active 100", "a 1.0.0 deprecated 0", "c 0.9.0 deprecated 0"), false},
		"a new release":                      {group("1-x", 2, "d 1.2.0 pending 0", "b 1.1.0 canary 50", "a 1.0.0 active 50", "c 0.9.0 deprecated 0"), false},
	} {
		of := func(g v1alpha1.ReleaseGroup) *v1alpha1.Microservice {
			return &v1alpha1.Microservice{Status: v1alpha1.MicroserviceStatus{ReleaseGroups: []v1alpha1.ReleaseGroup{g}}}
		}
		want(t, name, rolledBack(of(before), of(test.now)), test.want)
	}
	of := func(r v1alpha1.Release) *v1alpha1.Microservice {
		return &v1alpha1.Microservice{Status: v1alpha1.MicroserviceStatus{ReleaseGroups: []v1alpha1.ReleaseGroup{{Releases: []v1alpha1.Release{r}}}}}
	}
	matched, mirrored := v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Match: true}, v1alpha1.Release{Status: v1alpha1.ReleaseCanary, MirrorPercent: 5}
	ended := v1alpha1.Release{Status: v1alpha1.ReleaseDeprecated}
	want(t, "a canary loses matched requests", rolledBack(of(matched), of(ended)), true)
	want(t, "a canary loses mirrored requests", rolledBack(of(mirrored), of(ended)), true)
	want(t, "from matched to mirrored requests", rolledBack(of(matched), of(mirrored)), false)
	want(t, "a canary without requests", rolledBack(of(v1alpha1.Release{Status: v1alpha1.ReleaseCanary}), of(ended)), false)
}

// TestSplitsAreResumed checks that, after a restart, the policies that split traffic come first.
func TestSplitsAreResumed(t *testing.T) {
	of := func(releases ...string) *v1alpha1.NetworkPolicy {
		d := v1alpha1.DomainStatus{Domain: "shop.example.com"}
		for _, r := range releases {
			d.Backends = append(d.Backends, v1alpha1.DomainBackend{Release: r})
		}
		return &v1alpha1.NetworkPolicy{Status: v1alpha1.NetworkPolicyStatus{Domains: []v1alpha1.DomainStatus{{Domain: "all.example.com"}, d}}}
	}
	want(t, "no release", splits(of()), false)
	want(t, "one release", splits(of("a")), false)
	want(t, "two releases", splits(of("a", "b")), true)
}

// copied counts the lists in which a cache would copy each object.
type copied struct {
	client.Client
	lists, copies int
}

func (c *copied) List(_ context.Context, _ client.ObjectList, opts ...client.ListOption) error {
	c.lists++
	if o := (&client.ListOptions{}).ApplyOptions(opts); o.UnsafeDisableDeepCopy == nil || !*o.UnsafeDisableDeepCopy {
		c.copies++
	}
	return nil
}

// TestPoliciesAreNotCopied checks that policies of which only names and claims are read are not copied from the cache.
func TestPoliciesAreNotCopied(t *testing.T) {
	c := &copied{}
	r, policy := &Reconciler{Client: c}, &v1alpha1.NetworkPolicy{}
	policy.Status.Domains = []v1alpha1.DomainStatus{{Domain: "a.example.com"}}
	r.byHosts(t.Context(), policy)
	r.byMicroservice(t.Context(), &v1alpha1.Microservice{})
	r.byGateway(t.Context(), nil)
	r.byList(t.Context(), nil)
	policy.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}}
	f := &traffic.Observed{Policy: policy, Microservice: &v1alpha1.Microservice{}}
	policy.Spec.Domains = []v1alpha1.Domain{{Domain: "a.example.com"}}
	if err := r.readClaims(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if c.lists != 5 || c.copies > 0 {
		t.Errorf("%d of %d lists copy policies, want 0 of 5", c.copies, c.lists)
	}
}
