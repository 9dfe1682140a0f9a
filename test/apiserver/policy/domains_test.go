package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/allowedhosts"
	"github.com/heighliner/heighliner/test/await"
)

const domainsPolicy = "domains.hlnr.io"

// withName replaces $NS in a text with the name of a test's namespace.
func withName(text, namespace string) string { return strings.ReplaceAll(text, "$NS", namespace) }

// owned creates a namespace with its own list of domains, and waits until the policy uses the list for the domains of
// the namespace.
func owned(t *testing.T, labels map[string]string, list *corev1.ConfigMap) (*corev1.Namespace, *corev1.ConfigMap) {
	t.Helper()
	ctx := t.Context()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "owned-", Labels: labels}}
	create(t, namespace)
	list = list.DeepCopy()
	list.Name, list.Namespace = allowedhosts.ConfigMapName, namespace.Name
	data := map[string]string{}
	for key, text := range list.Data {
		data[withName(key, namespace.Name)] = withName(text, namespace.Name)
	}
	list.Data = data
	create(t, list)
	refuse := admissionv1.DenyAction
	create(t, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        domainsPolicy,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			ParamRef:          &admissionv1.ParamRef{Name: list.Name, Namespace: list.Namespace, ParameterNotFoundAction: &refuse},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: namespace.Name},
			}},
		},
	})
	await.Nil(t, func(context.Context) error {
		err := env.Client.Create(ctx, routes(namespace.Name, "not.listed.invalid"), client.DryRunAll)
		switch {
		case err == nil:
			return fmt.Errorf("the policy is not yet enforced in namespace %q", namespace.Name)
		case !strings.Contains(err.Error(), "ConfigMap "+namespace.Name+"/"):
			return fmt.Errorf("the policy does not yet read the list of the namespace: %w", err)
		}
		return nil
	})
	return namespace, list
}

// create creates an object, and deletes it after the test.
func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := env.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
	t.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete %T: %v", object, err)
		}
	})
}

// routes returns a NetworkPolicy named "shop" with domains.
func routes(namespace string, hosts ...string) *hlnr.NetworkPolicy {
	policy := &hlnr.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: namespace},
		Spec: hlnr.NetworkPolicySpec{
			Ports:    []hlnr.NetworkPort{{Name: "http", Port: 80}},
			Provider: &hlnr.NetworkProvider{Gateway: &hlnr.GatewayProvider{ParentRefs: []hlnr.ParentReference{{Name: "public"}}}},
		},
	}
	for _, host := range hosts {
		policy.Spec.Domains = append(policy.Spec.Domains, hlnr.Domain{Domain: host})
	}
	return policy
}

// known replaces the template fields whose values are known when a domain is written.
func known(domain, namespace string) string {
	for field, value := range map[string]string{"Name": "shop", "Microservice": "shop", "Namespace": namespace} {
		for _, form := range []string{"{{.%s}}", "{{ .%s }}", "{{ .%s}}", "{{.%s }}"} {
			domain = strings.ReplaceAll(domain, fmt.Sprintf(form, field), value)
		}
	}
	return domain
}

// TestDomains checks which domains the policy allows, and that internal/allowedhosts allows the same domains.
func TestDomains(t *testing.T) {
	t.Parallel()
	list := &corev1.ConfigMap{Data: map[string]string{
		"$NS":      "# the shop itself\nwww.example.com\n\n  *.shop.example.com\t\r\n*.$NS.apps.example.com\nshop.example.org\n",
		"previews": "namespaces: team=other\nnamespaces: team=shop , stage=preview\n*.preview.example.com",
		"free":     "namespaces: team=shop\n*.free.example.com\nwww.free.example.com\nboth.free.example.com\n*.mine.example.com\nwww.mine.example.com",
		"partners": "namespaces: team=shop, stage=production\n*.partner.example.com",
		"other":    "admin.free.example.com\nboth.free.example.com\napi.shop.example.com\n*.other.example.com\nwww.other.example.com",
	}}
	namespace, list := owned(t, map[string]string{"team": "shop", "stage": "preview"}, list)
	rules, err := allowedhosts.Read(list)
	if err != nil {
		t.Fatal(err)
	}
	hosts := rules.For(namespace.Name, namespace.Labels)
	const (
		fine       = ""
		notAllowed = "is not allowed in namespace '$NS'"
		reserved   = "it can become"
	)
	for name, test := range map[string]struct{ domain, refused string }{
		"listed by name":                                   {"www.example.com", fine},
		"below a wildcard":                                 {"a.shop.example.com", fine},
		"deep below a wildcard":                            {"a.b.shop.example.com", fine},
		"the wildcard itself as a domain":                  {"*.preview.example.com", fine},
		"a wildcard below a wildcard":                      {"*.a.preview.example.com", fine},
		"by labels":                                        {"a.preview.example.com", fine},
		"only one of two labels matches":                   {"a.partner.example.com", notAllowed},
		"the parent of a wildcard":                         {"shop.example.com", "'shop.example.com' is not allowed in namespace '$NS': use a host of this namespace, or ask an administrator to list it in ConfigMap $NS/heighliner-domains"},
		"text before a name that is listed":                {"awww.example.com", notAllowed},
		"text before a suffix that is listed":              {"ashop.example.com", notAllowed},
		"below a host listed by name":                      {"a.www.example.com", notAllowed},
		"a wildcard above":                                 {"*.example.com", notAllowed},
		"another namespace's":                              {"a.other.example.com", notAllowed},
		"another namespace's, by name":                     {"www.other.example.com", notAllowed},
		"no one's":                                         {"example.net", notAllowed},
		"one label":                                        {"localhost", notAllowed},
		"reserved for another namespace, below a wildcard": {"admin.free.example.com", "'admin.free.example.com' is not allowed in namespace '$NS': it can become admin.free.example.com"},
		"below a wildcard, listed for both namespaces":     {"both.free.example.com", fine},
		"reserved for this namespace":                      {"www.free.example.com", fine},
		"a wildcard above another namespace's host":        {"*.free.example.com", reserved},
		"a wildcard above the namespace's own host":        {"*.mine.example.com", fine},
		"the group below a wildcard":                       {"{{.ReleaseGroupName}}.preview.example.com", fine},
		"the group with spaces":                            {"{{ .ReleaseGroupName }}.preview.example.com", fine},
		"the group within a label":                         {"pr-{{.ReleaseGroupName}}-x.preview.example.com", fine},
		"several fields":                                   {"{{.Version}}.{{.StreamName}}.{{.FullName}}.preview.example.com", fine},
		"the group two levels below":                       {"{{.ReleaseGroupName}}.a.preview.example.com", fine},
		"a wildcard for each group":                        {"*.{{.ReleaseGroupName}}.preview.example.com", fine},
		"the group next to www":                            {"{{.ReleaseGroupName}}.example.com", "ask an administrator to list '*.example.com' in ConfigMap $NS/heighliner-domains"},
		"the group in the domain itself":                   {"www.{{.ReleaseGroupName}}.com", "ask an administrator to list '*.com'"},
		"the group as the last label":                      {"www.example.{{.ReleaseGroupName}}", "write out the end of the host"},
		"the group alone":                                  {"{{.StreamName}}", "write out the end of the host"},
		"no dot between the group and the suffix":          {"{{.ReleaseGroupName}}preview.example.com", "ask an administrator to list '*.example.com'"},
		"the group can become a listed name":               {"{{.ReleaseGroupName}}.free.example.com", "it can become"},
		"text before the group prevents a listed name":     {"pr-{{.ReleaseGroupName}}.free.example.com", fine},
		"text before the group allows a listed name":       {"w{{.ReleaseGroupName}}.free.example.com", "it can become www.free.example.com"},
		"a label after the group prevents a listed name":   {"{{.ReleaseGroupName}}.x.free.example.com", fine},
		"a wildcard below a group that can be a name":      {"*.{{.ReleaseGroupName}}.free.example.com", reserved},
		"the microservice is known":                        {"{{.Microservice}}.example.org", fine},
		"the policy is known":                              {"{{ .Name }}.example.org", fine},
		"the microservice is known, host not listed":       {"{{.Microservice}}.example.com", "'{{.Microservice}}.example.com' is not allowed"},
		"the namespace is known":                           {"x.{{.Namespace}}.apps.example.com", fine},
		"the group below the known namespace":              {"{{.ReleaseGroupName}}.{{ .Namespace}}.apps.example.com", fine},
		"not a host, but matched by the list":              {".shop.example.com", fine}, // the manager reports InvalidDomain
	} {
		t.Run(name, func(t *testing.T) {
			err := env.Client.Create(t.Context(), routes(namespace.Name, test.domain), client.DryRunAll)
			check(t, err, withName(test.refused, namespace.Name))
			ours := hosts.Template(known(test.domain, namespace.Name))
			if (ours == nil) != (test.refused == fine) {
				t.Errorf("internal/allowedhosts returns %v", ours)
			}
		})
	}

	// The message contains the first rejected domain, regardless of its position.
	err = env.Client.Create(t.Context(), routes(namespace.Name, "www.example.com", "a.net", "a.org"), client.DryRunAll)
	check(t, err, "'a.net' is not allowed")

	// A name that the server generates is also known when a domain is written.
	generated := routes(namespace.Name, "{{.Name}}.shop.example.com")
	generated.Name, generated.GenerateName = "", "shop-"
	check(t, env.Client.Create(t.Context(), generated, client.DryRunAll), "")

	// The policy and internal/allowedhosts must agree on random combinations of words.
	words := []string{"www", "admin", "shop", "free", "preview", "other", "example", "com", "*", "pr-", "-x", "{{.ReleaseGroupName}}", "{{.Version}}", "{{.Name}}"}
	tails := []string{".free.example.com", ".shop.example.com", ".example.com", ".other.example.com", ""}
	random := rand.New(rand.NewPCG(1, 2))
	verdicts := map[bool]int{}
	for range 400 {
		var domain strings.Builder
		for i := range 1 + random.IntN(3) {
			if i > 0 && random.IntN(3) > 0 {
				domain.WriteByte('.')
			}
			domain.WriteString(words[random.IntN(len(words))])
		}
		domain.WriteString(tails[random.IntN(len(tails))])
		err := env.Client.Create(t.Context(), routes(namespace.Name, domain.String()), client.DryRunAll)
		if apierrors.IsInvalid(err) {
			continue // The schema rejected it, because it is not a domain.
		}
		ours := hosts.Template(known(domain.String(), namespace.Name))
		if (err == nil) != (ours == nil) {
			t.Errorf("%s: the policy returns %v, internal/allowedhosts returns %v", &domain, err, ours)
		}
		verdicts[err == nil]++
	}
	if verdicts[true] < 30 || verdicts[false] < 30 {
		t.Errorf("results = %v, want at least 30 domains with each result", verdicts)
	}
}

// TestDomainsList checks that the policy and internal/allowedhosts agree on which lists are valid. An invalid list
// rejects every domain, and the policy reports the position of the error.
func TestDomainsList(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		list    corev1.ConfigMap
		refused string // A part of the policy's message; empty if the list is valid and allows the domain.
	}{
		"nothing":                     {list: corev1.ConfigMap{}, refused: "not allowed"},
		"a host":                      {list: data("$NS", "a.example.com")},
		"a host among comments":       {list: data("$NS", "\t#  b c\n \n \u00a0a.example.com\u2003\r\n#")},
		"a key with an empty value":   {list: data("$NS", "a.example.com", "empty", "")},
		"a label with a prefix":       {list: data("x.y_z", "namespaces:example.com/team=shop\na.example.com")},
		"a namespace by its label":    {list: data("x", "namespaces: kubernetes.io/metadata.name=$NS\na.example.com")},
		"a host with the most labels": {list: data("$NS", "a.example.com\n"+strings.Repeat("a.", 126)+"a")},
		"a URL":                       {list: data("$NS", "a.example.com", "bad", "https://a.example.com"), refused: "key 'bad', line 'https://a.example.com' is invalid"},
		"a suffix without a star":     {list: data("$NS", "a.example.com\n.example.com"), refused: "line '.example.com'"},
		"a star within":               {list: data("$NS", "a.example.com\na.*.com"), refused: "line 'a.*.com'"},
		"a star alone":                {list: data("$NS", "a.example.com\n*"), refused: "line '*'"},
		"a star and a dot":            {list: data("$NS", "a.example.com\n*."), refused: "line '*.'"},
		"a star and text":             {list: data("$NS", "a.example.com\n*a.example.com"), refused: "line '*a.example.com'"},
		"two hosts on a line":         {list: data("$NS", "a.example.com b.example.com"), refused: "line 'a.example.com b.example.com'"},
		"a capital":                   {list: data("$NS", "a.example.com\nWWW.example.com"), refused: "line 'WWW.example.com'"},
		"a dot at the end":            {list: data("$NS", "a.example.com\nb.example.com."), refused: "line 'b.example.com.'"},
		"a long label":                {list: data("$NS", "a.example.com\n"+strings.Repeat("a", 64)), refused: "is invalid"},
		"a long host":                 {list: data("$NS", "a.example.com\n"+strings.Repeat("a.", 126)+"aa"), refused: "is invalid"},
		"a key that is not a name":    {list: data("$NS", "a.example.com", "x_y", "b.example.com"), refused: "key 'x_y' is invalid"},
		"an empty selector":           {list: data("$NS", "a.example.com\nnamespaces:"), refused: "line 'namespaces:'"},
		"a selector with a star":      {list: data("$NS", "a.example.com\nnamespaces: *"), refused: "line 'namespaces: *'"},
		"a set-based selector":        {list: data("$NS", "a.example.com\nnamespaces: team in (shop)"), refused: "line 'namespaces: team in (shop)'"},
		"a selector that excludes":    {list: data("$NS", "a.example.com\nnamespaces: team!=shop"), refused: "line 'namespaces: team!=shop'"},
		"a selector without a value":  {list: data("$NS", "a.example.com\nnamespaces: team="), refused: "line 'namespaces: team='"},
		"a selector with a space":     {list: data("$NS", "a.example.com\nnamespaces: team = shop"), refused: "line 'namespaces: team = shop'"},
		"a selector misspelled":       {list: data("$NS", "a.example.com\nnamespace: team=shop"), refused: "line 'namespace: team=shop'"},
		"a comma at the end":          {list: data("$NS", "a.example.com\nnamespaces: team=shop,"), refused: "line 'namespaces: team=shop,'"},
		"binary data":                 {list: corev1.ConfigMap{Data: map[string]string{"$NS": "a.example.com"}, BinaryData: map[string][]byte{"x": {0xff}}}, refused: "binaryData"},
		"the largest":                 {list: data("$NS", "a.example.com\n#"+strings.Repeat("é", allowedhosts.MaxSize-15))},
		"too large":                   {list: data("$NS", "a.example.com\n#"+strings.Repeat("é", allowedhosts.MaxSize-14)), refused: "32768"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, list := owned(t, map[string]string{"example.com/team": "shop"}, &test.list)
			err := env.Client.Create(t.Context(), routes(namespace.Name, "a.example.com"), client.DryRunAll)
			check(t, err, test.refused)
			rules, parseErr := allowedhosts.Read(list)
			ours := parseErr
			if ours == nil {
				ours = rules.Allowed(namespace.Name, namespace.Labels, "a.example.com", false)
			}
			if (ours == nil) != (test.refused == "") {
				t.Errorf("internal/allowedhosts returns %v", ours)
			}
			if test.refused != "" && (parseErr == nil) != (test.refused == "not allowed") {
				t.Errorf("allowedhosts.Read: %v", parseErr)
			}
			// Without domains there is nothing to check.
			plain := routes(namespace.Name)
			check(t, env.Client.Create(t.Context(), plain, client.DryRunAll), "")
		})
	}
}

func data(pairs ...string) corev1.ConfigMap {
	list := corev1.ConfigMap{Data: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		list.Data[pairs[i]] = pairs[i+1]
	}
	return list
}

// TestDomainsOfChanges checks that new domains are checked, and that existing domains are not checked again, so that a
// shorter list does not block other changes.
func TestDomainsOfChanges(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	namespace, list := owned(t, nil, &corev1.ConfigMap{Data: map[string]string{"$NS": "a.example.com\nshop.example.com"}})
	policy := routes(namespace.Name, "a.example.com", "{{.Microservice}}.example.com")
	create(t, policy)
	list.Data = map[string]string{namespace.Name: "b.example.com"}
	if err := env.Client.Update(ctx, list); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(context.Context) error {
		other := routes(namespace.Name, "b.example.com")
		other.Name = "other"
		return env.Client.Create(ctx, other, client.DryRunAll)
	})
	patch := func(text string) error {
		return env.Client.Patch(ctx, policy.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	for name, test := range map[string]struct{ patch, refused string }{
		"a label":                   {patch: `{"metadata": {"labels": {"a": "b"}}}`},
		"another port":              {patch: `{"spec": {"ports": [{"name": "http", "port": 81}]}}`},
		"one domain removed":        {patch: `{"spec": {"domains": [{"domain": "a.example.com"}]}}`},
		"one domain added":          {patch: `{"spec": {"domains": [{"domain": "a.example.com"}, {"domain": "b.example.com"}]}}`},
		"one domain added, refused": {patch: `{"spec": {"domains": [{"domain": "a.example.com"}, {"domain": "c.example.com"}]}}`, refused: "'c.example.com' is not allowed"},
		"another microservice":      {patch: `{"spec": {"microserviceRef": {"name": "other"}}}`, refused: "'a.example.com' is not allowed"},
		"same microservice by name": {patch: `{"spec": {"microserviceRef": {"name": "shop"}}}`},
		"all domains removed":       {patch: `{"spec": {"domains": null}}`},
	} {
		t.Run(name, func(t *testing.T) { check(t, patch(test.patch), test.refused) })
	}
}

// TestDomainsWithInvalidList checks that, while the list of domains is invalid, new domains are rejected, and other
// changes to a policy, such as the removal of its finalizer, are allowed.
func TestDomainsWithInvalidList(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	namespace, list := owned(t, nil, &corev1.ConfigMap{Data: map[string]string{"$NS": "www.example.com"}})
	policy := routes(namespace.Name, "www.example.com")
	policy.Finalizers = []string{hlnr.FinalizerDeletionPolicy}
	create(t, policy)
	list.Data["bad"] = "https://a.example.com"
	if err := env.Client.Update(ctx, list); err != nil {
		t.Fatal(err)
	}
	change := func(edit func(*hlnr.NetworkPolicy), options ...client.PatchOption) error {
		next := policy.DeepCopy()
		edit(next)
		return env.Client.Patch(ctx, next, client.MergeFrom(policy), options...)
	}
	await.Nil(t, func(context.Context) error {
		err := change(func(p *hlnr.NetworkPolicy) {
			p.Spec.Domains = append(p.Spec.Domains, hlnr.Domain{Domain: "api.example.com"})
		}, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "line 'https://a.example.com' is invalid") {
			return fmt.Errorf("another domain: %v", err)
		}
		return nil
	})
	check(t, change(func(p *hlnr.NetworkPolicy) { p.Spec.MicroserviceRef = &hlnr.Reference{Name: "other"} }, client.DryRunAll), "is invalid")
	check(t, change(func(p *hlnr.NetworkPolicy) { p.Spec.Ports[0].Port = 8080 }, client.DryRunAll), "")
	check(t, change(func(p *hlnr.NetworkPolicy) { p.Finalizers = nil }), "")
}

// TestDomainsAtMost checks that the largest policy and the largest lists remain within the server's cost limit.
func TestDomainsAtMost(t *testing.T) {
	t.Parallel()
	fill := func(size int, line func(i int) string) string {
		var text strings.Builder
		for i := 0; text.Len()+len(line(i))+1 < size; i++ {
			text.WriteString(line(i) + "\n")
		}
		return text.String()
	}
	most := func(domain func(i int) string) []string {
		var all []string
		for i := range 64 {
			all = append(all, domain(i))
		}
		return all
	}
	const room = allowedhosts.MaxSize - 1000
	for name, test := range map[string]struct {
		list    corev1.ConfigMap
		domains []string
		refused string
	}{
		"many hosts by name": {
			list:    data("$NS", fill(room, func(i int) string { return fmt.Sprintf("host-%d.example.com", i) })),
			domains: most(func(i int) string { return fmt.Sprintf("host-%d.example.com", 1000+i) }),
		},
		"many short hosts by name": {
			list:    data("$NS", fill(room, func(i int) string { return fmt.Sprintf("a%d", i) })),
			domains: most(func(i int) string { return fmt.Sprintf("a%d", 5000+i) }),
		},
		"many wildcards": {
			list: data("$NS", fill(room, func(i int) string { return fmt.Sprintf("*.h%d.example.com", i) })),
			domains: most(func(i int) string {
				return fmt.Sprintf("{{.ReleaseGroupName}}-{{.Version}}-{{.StreamName}}-%d.h%d.example.com", i, 1000+i)
			}),
		},
		"many names below one wildcard": {
			list:    data("other", fill(room, func(i int) string { return fmt.Sprintf("h%d.example.com", i) }), "$NS", "*.example.com"),
			domains: most(func(i int) string { return fmt.Sprintf("pr-%d-{{.ReleaseGroupName}}.example.com", i) }),
		},
		"many different templates": {
			list:    data("other", fill(room, func(i int) string { return fmt.Sprintf("h%d.example.com", i) }), "$NS", "*.example.com"),
			domains: most(func(i int) string { return fmt.Sprintf("{{.ReleaseGroupName}}.preview-%d.example.com", i) }),
		},
		"a wildcard above many of the namespace's names": {
			list:    data("$NS", fill(room, func(i int) string { return fmt.Sprintf("h%d.example.com", i) })+"*.example.com"),
			domains: most(func(i int) string { return "*.example.com" }),
		},
		"a wildcard above many names": {
			list:    data("$NS", "*.example.com", "other", fill(room, func(i int) string { return fmt.Sprintf("h%d.example.com", i) })),
			domains: most(func(i int) string { return "*.example.com" }),
			refused: "not allowed",
		},
		"many names that all templates can become": {
			list: data("other", fill(room, func(i int) string { return fmt.Sprintf("h%d.example.com", i) }), "$NS", "*.example.com"),
			domains: most(func(i int) string {
				return fmt.Sprintf("h%s{{.ReleaseGroupName}}.example.com", strings.Repeat("1", i%3))
			}),
			refused: "not allowed",
		},
		"many wildcards and names below them": {
			list: data("other", fill(room/2, func(i int) string { return fmt.Sprintf("a.h%d.example.com", i) }),
				"$NS", fill(room/2, func(i int) string { return fmt.Sprintf("*.h%d.example.com", i) })),
			domains: most(func(i int) string { return fmt.Sprintf("pr-{{.ReleaseGroupName}}.h%d.example.com", 200+i) }),
		},
		"many keys": {
			list: func() corev1.ConfigMap {
				list := data("$NS", "*.example.com")
				for i := range 1000 {
					list.Data[fmt.Sprintf("team-%d", i)] = fmt.Sprintf("*.team-%d.example.com\nt%d.org", i, i)
				}
				return list
			}(),
			domains: most(func(i int) string { return fmt.Sprintf("{{.ReleaseGroupName}}.preview-%d.example.com", i) }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, list := owned(t, nil, &test.list)
			rules, err := allowedhosts.Read(list)
			if err != nil {
				t.Fatal(err)
			}
			hosts := rules.For(namespace.Name, namespace.Labels)
			for _, domain := range test.domains {
				if err := hosts.Template(domain); (err == nil) != (test.refused == "") {
					t.Errorf("internal/allowedhosts returns for %s: %v", domain, err)
				}
			}
			err = env.Client.Create(t.Context(), routes(namespace.Name, test.domains...), client.DryRunAll)
			check(t, err, test.refused)
			if err != nil && strings.Contains(err.Error(), "cost") {
				t.Errorf("the rule exceeds the server's cost limit: %v", err)
			}
		})
	}
}

// TestDomainsAsShipped checks the installed policy. In every namespace, the policy allows every domain until the list
// of domains exists, and then rejects domains that the list does not contain.
func TestDomainsAsShipped(t *testing.T) {
	ctx := t.Context()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "heighliner-system"}}
	if err := env.Client.Create(ctx, system); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	judge := func(host string) error {
		return env.Client.Create(ctx, routes(namespace, host), client.DryRunAll)
	}
	check(t, judge("www.example.com"), "")

	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: allowedhosts.ConfigMapName, Namespace: system.Name}}
	create(t, list)
	eventually := func(host, refused string) {
		t.Helper()
		await.Nil(t, func(context.Context) error {
			err := judge(host)
			switch {
			case refused == "":
				return err
			case err == nil || !strings.Contains(err.Error(), refused):
				return fmt.Errorf("%v, want an error with %q", err, refused)
			}
			return nil
		})
	}
	eventually("www.example.com", "ConfigMap heighliner-system/heighliner-domains")
	list.Data = map[string]string{namespace: "www.example.com"}
	if err := env.Client.Update(ctx, list); err != nil {
		t.Fatal(err)
	}
	eventually("www.example.com", "")
	check(t, judge("example.com"), "'example.com' is not allowed")
	if err := env.Client.Delete(ctx, list); err != nil {
		t.Fatal(err)
	}
	eventually("example.com", "")
}
