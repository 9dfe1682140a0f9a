package resources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func policy() *v1alpha1.NetworkPolicy {
	port := intstr.FromString("web")
	return &v1alpha1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", Labels: map[string]string{"team": "a"}},
		Spec: v1alpha1.NetworkPolicySpec{
			Ports: []v1alpha1.NetworkPort{
				{Name: "http", Port: 80, TargetPort: &port, AppProtocol: "kubernetes.io/h2c"},
				{Name: "dns", Port: 53, Protocol: v1alpha1.ProtocolUDP},
			},
			Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public", SectionName: "web"}}}},
		},
	}
}

func TestServiceGolden(t *testing.T) {
	got := Service{
		Name: "shop-1-x", Release: "shop-1-0-0-abc", Group: "1-x",
		Stamp: Stamp{Group: "1-x", Revision: 7, RolloutState: "uid", Sequence: 12},
	}.Build(policy(), "shop")
	golden(t, got, `
apiVersion: v1
kind: Service
metadata:
  annotations:
    hlnr.io/ledger: uid/12
    hlnr.io/traffic-revision: 1-x=7
  labels:
    hlnr.io/group: 1-x
    hlnr.io/microservice: shop
    hlnr.io/policy: shop
  name: shop-1-x
  namespace: prod
spec:
  ports:
  - appProtocol: kubernetes.io/h2c
    name: http
    port: 80
    protocol: TCP
    targetPort: web
  - name: dns
    port: 53
    protocol: UDP
    targetPort: 53
  selector:
    hlnr.io/release: shop-1-0-0-abc
status:
  loadBalancer: {}
`)
}

func golden(t *testing.T, got any, want string) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), string(text)); diff != "" {
		t.Error(diff)
	}
}

func TestStampRoundTrip(t *testing.T) {
	want := Stamp{Group: "fix-7", Revision: 3, RolloutState: "4c1f", Sequence: 9}
	got, ok := StampOf(Service{Name: "x", Release: "y", Stamp: want}.Build(policy(), "shop"))
	if !ok || got != want {
		t.Errorf("got %v %v, want %v", got, ok, want)
	}
	for name, annotations := range map[string]map[string]string{
		"none": nil, "no revision": {v1alpha1.AnnotationRevision: "1-x"}, "not a number": {v1alpha1.AnnotationRevision: "1-x=y"},
	} {
		if s, ok := StampOf(&metav1.ObjectMeta{Annotations: annotations}); ok {
			t.Errorf("%s: got %v", name, s)
		}
	}
}

// TestNamesAreUniqueLabels checks that the names for any policy, group, and release are unique DNS
// labels.
func TestNamesAreUniqueLabels(t *testing.T) {
	part := rapid.StringMatching(`[a-z]([-a-z0-9]{0,38}[a-z0-9])?`)
	slug := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?-[0-9]{1,4}|[0-9]+-x`)
	release := rapid.StringMatching(`[a-z]([-.a-z0-9]{0,61}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		p, q := part.Draw(t, "policy"), part.Draw(t, "other policy")
		s, u := slug.Draw(t, "slug"), slug.Draw(t, "other slug")
		a, b := release.Draw(t, "release"), release.Draw(t, "other release")
		names := map[string]string{}
		for key, name := range map[string]string{
			"group " + s: GroupServiceName(p, s), "group " + u: GroupServiceName(p, u),
			"release " + a: ReleaseServiceName(p, p, a), "release " + b: ReleaseServiceName(p, p, b),
		} {
			if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
				t.Fatalf("%q: %v", name, problems)
			}
			if other, taken := names[name]; taken {
				t.Fatalf("%q is the name of %s and of %s", name, key, other)
			}
			names[name] = key
		}
		if p != q && ReleaseServiceName(p, "m", a) == ReleaseServiceName(q, "m", a) {
			t.Fatalf("policies %q and %q have the same Service name", p, q)
		}
		if RouteName(p, s, "/", "http", 0) == RouteName(p, s, "/", "http", 1) {
			t.Fatal("two routes with the same target have the same name")
		}
	})
}

// TestNamesThatAreCutDoNotMeet checks that names that are shortened to the maximum length of a
// label remain unique, even if the full names differ only in their last characters.
func TestNamesThatAreCutDoNotMeet(t *testing.T) {
	tail := rapid.StringMatching(`[a-z0-9]{1,4}`)
	rapid.Check(t, func(t *rapid.T) {
		policy := strings.Repeat("p", rapid.IntRange(1, 40).Draw(t, "length of the policy"))
		slug := strings.Repeat("s", rapid.IntRange(10, 58).Draw(t, "length of the slug"))
		release := "m-" + strings.Repeat("r", rapid.IntRange(10, 50).Draw(t, "length of the release"))
		target := "group/" + strings.Repeat("t", rapid.IntRange(10, 250).Draw(t, "length of the target"))
		meets := map[string]string{policy: "the policy's own Service"}
		add := func(what, name string) {
			if other, taken := meets[name]; taken && other != what {
				t.Fatalf("%q is the name of %s and of %s", name, what, other)
			}
			if problems := validation.IsDNS1035Label(name); len(problems) > 0 {
				t.Fatalf("%s: %q: %v", what, name, problems)
			}
			meets[name] = what
		}
		for _, end := range rapid.SliceOfNDistinct(tail, 2, 8, rapid.ID).Draw(t, "ends") {
			add("group "+end, GroupServiceName(policy, slug+end))
			add("release "+end, ReleaseServiceName(policy, "m", release+end))
			for i := range 2 {
				add(fmt.Sprint("route ", i, " ", end), RouteName(policy, target+end, "/", "http", i))
				add(fmt.Sprint("route ", i, " below a path ", end), RouteName(policy, target+end, "/api", "http", i))
			}
		}
	})
}

func TestPartsThatJoinDoNotMeet(t *testing.T) {
	if a, b := RouteName("a", "group/b-c", "/", "http", 0), RouteName("a-b", "group/c", "/", "http", 0); a == b {
		t.Errorf("both are %q", a)
	}
	if a, b := ReleaseServiceName("a", "m", "b-c"), ReleaseServiceName("a-b", "m", "c"); a == b {
		t.Errorf("both are %q", a)
	}
}
