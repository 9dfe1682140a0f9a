package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/allowedhosts"
	"github.com/heighliner/heighliner/test/await"
)

// list sets the content of the list of domains; nil deletes the list.
func (p *place) list(data map[string]string) {
	p.t.Helper()
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: allowedhosts.ConfigMapName}, Data: data}
	err := server.Create(p.t.Context(), list)
	switch {
	case data == nil:
		err = client.IgnoreNotFound(server.Delete(p.t.Context(), list))
	case apierrors.IsAlreadyExists(err):
		err = server.Update(p.t.Context(), list)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// hosts checks that exactly these hosts are programmed, and that no route has another host.
func (p *place) hosts(name, what string, hosts ...string) *v1alpha1.NetworkPolicy {
	p.t.Helper()
	return p.eventually(name, what, func(policy *v1alpha1.NetworkPolicy) bool {
		var routes gatewayv1.HTTPRouteList
		if err := server.List(p.t.Context(), &routes, client.InNamespace(p.namespace)); err != nil {
			return false
		}
		var routed, programmed []string
		for i := range routes.Items {
			routed = append(routed, providertest.ReadRoute(&routes.Items[i]).Hostnames...)
		}
		for _, d := range policy.Status.Domains {
			if d.Programmed {
				programmed = append(programmed, d.Domain)
			}
		}
		return cmp.Equal(traffic.Union(routed, nil), hosts, cmpopts.EquateEmpty()) && cmp.Equal(traffic.Union(programmed, nil), hosts, cmpopts.EquateEmpty())
	})
}

func reasonOf(p *v1alpha1.NetworkPolicy, host string) string {
	for _, d := range p.Status.Domains {
		if d.Domain == host {
			return d.Reason
		}
	}
	return "no such row"
}

// TestListOfDomainsDeterminesServedHosts is not parallel, because all namespaces share the list of domains.
func TestListOfDomainsDeterminesServedHosts(t *testing.T) {
	p := newPlace(t)
	t.Cleanup(func() {
		list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: allowedhosts.ConfigMapName}}
		if err := client.IgnoreNotFound(server.Delete(context.Background(), list)); err != nil {
			t.Error(err)
		}
	})
	const domain = ".apps.example.com"
	one, www := group("1-x", 1, "a 1.0.0 active 100"), group("www", 1, "b 2.0.0 active 100")
	p.microservice(one)
	p.pod("a")
	p.pod("b")
	p.policy("shop", "{{.ReleaseGroupName}}"+domain, func(policy *v1alpha1.NetworkPolicy) {
		policy.Spec.Domains = append(policy.Spec.Domains, v1alpha1.Domain{Domain: "shop.example.net"})
	})
	p.hosts("shop", "without a list", "1-x"+domain, "shop.example.net")

	restored := map[string]string{p.namespace: "*" + domain, "site": "www" + domain}
	p.list(restored)
	policy := p.hosts("shop", "a host that the list does not allow is removed", "1-x"+domain)
	want(t, "reason", reasonOf(policy, "shop.example.net"), traffic.ReasonDomainNotAllowed)

	p.rollout(www, one)
	policy = p.eventually("shop", "the preview is rejected", func(policy *v1alpha1.NetworkPolicy) bool {
		return reasonOf(policy, "www"+domain) == traffic.ReasonDomainNotAllowed
	})
	p.hosts("shop", "with a preview named www", "1-x"+domain)
	want(t, "accepted", has(v1alpha1.ConditionAccepted, traffic.ReasonDomainNotAllowed)(policy), true)
	p.quiet()

	p.list(map[string]string{p.namespace: "*" + domain, "site": "www of" + domain})
	policy = p.eventually("shop", "the list is unreadable", has(v1alpha1.ConditionAccepted, traffic.ReasonDomainsUnreadable))
	want(t, "reason for the served host", reasonOf(policy, "1-x"+domain), traffic.ReasonDomainsUnreadable)
	p.hosts("shop", "with an unreadable list", "1-x"+domain)
	p.quiet()

	p.list(map[string]string{"apps": "namespaces: team=shop\n*" + domain})
	p.hosts("shop", "a list for a label that the namespace does not have")
	p.label("team", "shop")
	p.hosts("shop", "the namespace gets the label", "1-x"+domain, "www"+domain)
	p.label("team", "other")
	p.hosts("shop", "the namespace loses the label")

	p.list(nil)
	p.hosts("shop", "the list is deleted", "1-x"+domain, "shop.example.net", "www"+domain)
}

// label sets a label of the namespace.
func (p *place) label(key, value string) {
	p.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	if err := server.Patch(p.t.Context(), namespace, patch); err != nil {
		p.t.Fatal(err)
	}
}

// TestLabelsArePolled checks that only a changed, deleted or unreadable namespace is reported, that a namespace without policies is
// forgotten, and that an overload of the API server does not change the known labels.
func TestLabelsArePolled(t *testing.T) {
	t.Parallel()
	named := func(name, team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	var refused error
	var reads int
	live := interceptor.NewClient(fake.NewClientBuilder().WithObjects(named("shop", "a"), named("bank", "b"), named("gone", "c"), named("unused", "d")).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if reads++; refused != nil {
				return refused
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	rules, err := allowedhosts.Read(&corev1.ConfigMap{Data: map[string]string{"apps": "namespaces: team=a\n*.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	l := &domainList{age: 4 * time.Millisecond, rules: rules, labels: map[string]map[string]string{}}
	known := func(namespace string) string {
		t.Helper()
		labels, err := l.labelsOf(t.Context(), live, namespace)
		if err != nil {
			return err.Error()
		}
		return labels["team"]
	}
	for _, namespace := range []string{"shop", "bank", "gone", "unused", "shop"} {
		known(namespace)
	}
	want(t, "reads of labels that are not known", reads, 4)
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan string, 100)
	ended := make(chan struct{})
	changed := func() (names []string) {
		for range len(changes) {
			names = append(names, <-changes)
		}
		return names
	}
	for _, namespace := range []string{"shop", "bank", "gone"} {
		if l.differs(ctx, live, namespace) {
			t.Errorf("namespace %s has not changed", namespace)
		}
	}
	if err := errors.Join(live.Update(ctx, named("shop", "z")), live.Delete(ctx, named("gone", ""))); err != nil {
		t.Fatal(err)
	}
	refused = apierrors.NewTooManyRequests("overloaded", 1)
	want(t, "changed during an overload", l.differs(ctx, live, "shop"), false)
	want(t, "labels during an overload", known("shop"), "a")
	refused = apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "bank", errors.New("no permission"))
	want(t, "changed without permission", l.differs(ctx, live, "bank"), true)
	refused = nil
	want(t, "labels after the permission was granted again", known("bank"), "b")
	go func() {
		defer close(ended)
		l.poll(ctx, live, func(namespace string) bool { return namespace != "unused" }, func(namespace string) { changes <- namespace })
	}()
	await.Until(t, "two changes", func() bool { return len(changes) == 2 })
	time.Sleep(10 * l.age) // further changes would follow
	cancel()
	<-ended
	want(t, "changed", strings.Join(changed(), " "), "gone shop")
	want(t, "labels after the change", known("shop"), "z")
	want(t, "known although unused", l.labels["unused"] != nil, false)
	want(t, "known after the deletion", known("gone"), `get Namespace "gone": namespaces "gone" not found`)
}
