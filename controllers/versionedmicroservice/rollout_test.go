package versionedmicroservice

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
)

// TestURLOfARelease checks that the URL in the body of a hook call is a URL that only the release serves.
func TestURLOfARelease(t *testing.T) {
	t.Parallel()
	to := func(url string, programmed bool, releases ...string) v1alpha1.DomainStatus {
		d := v1alpha1.DomainStatus{Domain: "d", URL: url, Programmed: programmed}
		for _, r := range releases {
			d.Backends = append(d.Backends, v1alpha1.DomainBackend{Release: r, Weight: 100})
		}
		return d
	}
	policy := func(name string, domains ...v1alpha1.DomainStatus) v1alpha1.NetworkPolicy {
		return v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NetworkPolicyStatus{Domains: domains}}
	}
	for name, test := range map[string]struct {
		policies []v1alpha1.NetworkPolicy
		want     string
	}{
		"no policy":                   {nil, ""},
		"its own domain":              {[]v1alpha1.NetworkPolicy{policy("a", to("https://all", true, "old", "new"), to("https://canary", true, "new"))}, "https://canary"},
		"not programmed":              {[]v1alpha1.NetworkPolicy{policy("a", to("https://canary", false, "new"))}, ""},
		"a domain of another release": {[]v1alpha1.NetworkPolicy{policy("a", to("https://canary", true, "old"))}, ""},
		"shared with another release": {[]v1alpha1.NetworkPolicy{policy("a", to("https://all", true, "new", "old"))}, ""},
		"without a backend":           {[]v1alpha1.NetworkPolicy{policy("a", to("https://canary", true))}, ""},
		"without an address":          {[]v1alpha1.NetworkPolicy{policy("a", to("", true, "new"))}, ""},
		"policies in any order":       {[]v1alpha1.NetworkPolicy{policy("b", to("https://b", true, "new")), policy("a", to("https://a", true, "new"))}, "https://a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := urlOf(test.policies, "new"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestHooksKnowWhereTheReleaseIs checks that the body of a hook call contains the release's addresses.
func TestHooksKnowWhereTheReleaseIs(t *testing.T) {
	t.Parallel()
	r := receive(t, "a key")
	s := newStage(t, &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Hooks: []v1alpha1.Hook{r.signed(v1alpha1.HookConfirmPromotion)}})
	ports := []corev1.ServicePort{{Port: 80}}
	service := func(name string, labels map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.ms.Namespace, Name: name, Labels: labels}, Spec: corev1.ServiceSpec{Ports: ports}}
	}
	policy := func(name, ms string) *v1alpha1.NetworkPolicy {
		return &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.ms.Namespace, Name: name}, Spec: v1alpha1.NetworkPolicySpec{
			MicroserviceRef: &v1alpha1.Reference{Name: ms},
			Ports:           []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: ptr.To(intstr.FromInt32(8080)), Protocol: "HTTP"}},
			Provider:        &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}},
			Domains:         []v1alpha1.Domain{{Domain: name + ".example.com", Port: "http"}},
		}}
	}
	ours, theirs := policy("ours", "shop"), policy("another", "cart")
	for _, obj := range []client.Object{
		service("second", map[string]string{v1alpha1.LabelPolicy: "ours", v1alpha1.LabelRelease: releaseName}),
		service("first", map[string]string{v1alpha1.LabelPolicy: "ours", v1alpha1.LabelRelease: releaseName}),
		service("of-the-group", map[string]string{v1alpha1.LabelPolicy: "ours"}),
		service("other", map[string]string{v1alpha1.LabelPolicy: "ours", v1alpha1.LabelRelease: "other"}), ours, theirs,
	} {
		if err := world.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*v1alpha1.NetworkPolicy{ours, theirs} {
		host := p.Name + ".example.com"
		p.Status.Domains = []v1alpha1.DomainStatus{{
			Domain: host, URL: "https://" + host, Programmed: true, Backends: []v1alpha1.DomainBackend{{Release: releaseName, Version: "1.0.0", Weight: 100}},
		}}
		if err := world.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	at := metav1.NowMicro()
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, &v1alpha1.Rollout{Sequence: 5, Step: 1, Gate: v1alpha1.GateConfirmPromotion, GateTime: &at})
	eventually(t, func() string {
		calls := r.of("confirmpromotion")
		if len(calls) == 0 {
			return "the hook is not called"
		}
		last := calls[len(calls)-1]
		return cmp.Diff(fmt.Sprint([]string{"first", "second"}, " https://ours.example.com"), fmt.Sprint(last.Services, " ", last.URL))
	})
}

// TestPoliciesOfOtherMicroservicesAreNotRead checks that a reconcile of a release with hooks reads only the NetworkPolicies of its
// Microservice. Otherwise, each reconcile would copy all policies of the namespace.
func TestPoliciesOfOtherMicroservicesAreNotRead(t *testing.T) {
	t.Parallel()
	policy := func(name, ms string) *v1alpha1.NetworkPolicy {
		return &v1alpha1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       v1alpha1.NetworkPolicySpec{MicroserviceRef: &v1alpha1.Reference{Name: ms}},
			Status: v1alpha1.NetworkPolicyStatus{Domains: []v1alpha1.DomainStatus{{
				Domain: name, URL: "https://" + name, Programmed: true, Backends: []v1alpha1.DomainBackend{{Release: releaseName, Weight: 100}},
			}}},
		}
	}
	read := 0
	r := serve(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if policies, ok := list.(*v1alpha1.NetworkPolicyList); ok {
			read += len(policies.Items)
		}
		return err
	}}, policy("another", "cart"), policy("shop", "shop"), policy("third", "mail"))
	ms := inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, nil)
	ms.Namespace, ms.Name = "default", "shop"
	ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{{Name: "smoke", Type: v1alpha1.HookConfirmPromotion, URL: "https://example.com"}}
	place := hook.RolloutOf(ms, newRelease("default", 1))
	if err := r.observeAddresses(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	if read != 1 || place.URL != "https://shop" {
		t.Errorf("%d policies were read, and the URL is %q; want 1 and https://shop", read, place.URL)
	}
}
