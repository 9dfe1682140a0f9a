package certmanager

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

func input(objects ...resources.Object) providers.Input {
	return providers.Input{
		Policy:       &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod"}},
		Microservice: "shop", Objects: objects,
	}
}

var ca = Issuer(&v1alpha1.DomainTLS{IssuerRef: &v1alpha1.IssuerReference{Name: "ca"}})

// route returns a route whose hosts all use the certificate in one Secret.
func route(hosts ...string) providers.Route {
	r := providers.Route{Hostnames: hosts, TLS: map[string]providers.TLS{}}
	for _, host := range hosts {
		r.TLS[host] = providers.TLS{Secret: "shop-tls", Issuer: ca}
	}
	return r
}

func TestNames(t *testing.T) {
	for name, tc := range map[string]struct{ hosts, want []string }{
		"none":                        {nil, nil},
		"unsorted and duplicate":      {[]string{"b.example.com", "a.example.com", "b.example.com"}, []string{"a.example.com", "b.example.com"}},
		"below a wildcard":            {[]string{"a.example.com", "*.example.com", "b.example.com"}, []string{"*.example.com"}},
		"two labels below a wildcard": {[]string{"a.b.example.com", "*.example.com"}, []string{"*.example.com", "a.b.example.com"}},
		"the wildcard's base domain":  {[]string{"example.com", "*.example.com"}, []string{"*.example.com", "example.com"}},
		"a wildcard below":            {[]string{"*.a.example.com", "*.example.com"}, []string{"*.a.example.com", "*.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, names(tc.hosts)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUndecidedHostsStay checks that the hosts of live routes stay in the certificate in addition
// to the hosts of desired routes, and that other hosts are removed.
func TestUndecidedHostsStay(t *testing.T) {
	had := &Certificate{ObjectMeta: metav1.ObjectMeta{Name: "shop-tls"}, Spec: CertificateSpec{
		SecretName: "shop-tls", DNSNames: []string{"a.example.com", "b.example.com", "c.example.com"},
	}}
	live := map[string]*providers.Live{"x": {Hostnames: []string{"b.example.com"}}, "y": {Hostnames: []string{"c.example.com"}, Deleting: true}}
	got := Shared(input(had), []providers.Route{route("a.example.com")}, live)[0].Object.(*Certificate).Spec.DNSNames
	if diff := cmp.Diff([]string{"a.example.com", "b.example.com"}, got); diff != "" {
		t.Error(diff)
	}
	for name, tc := range map[string]struct {
		decided []providers.Route
		want    bool
	}{
		"needed by a live route":      {nil, true},
		"its live route was replaced": {[]providers.Route{{Hostnames: []string{"b.example.com"}}}, false},
	} {
		if got := Holds(had, tc.decided, live); got != tc.want {
			t.Errorf("%s: Holds returns %v", name, got)
		}
	}
}

func TestUnready(t *testing.T) {
	ready := func(status metav1.ConditionStatus, generation int64, names ...string) *Certificate {
		c := &Certificate{ObjectMeta: metav1.ObjectMeta{Name: "shop-tls", Generation: 2}, Spec: CertificateSpec{DNSNames: names}}
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: "Expired", Message: "it is old.", ObservedGeneration: generation}}
		return c
	}
	for name, tc := range map[string]struct {
		object resources.Object
		want   string
	}{
		"ready":                           {ready(metav1.ConditionTrue, 2, "b.example.com", "a.example.com"), ""},
		"ready for a wildcard":            {ready(metav1.ConditionTrue, 2, "*.example.com"), ""},
		"ready for other hosts":           {ready(metav1.ConditionTrue, 2, "*.a.example.com", "*.com"), `Certificate "shop-tls" does not include "a.example.com" yet`},
		"ready for an earlier generation": {ready(metav1.ConditionTrue, 1), `cert-manager has not reported the status of Certificate "shop-tls": check that cert-manager is running`},
		"not ready":                       {ready(metav1.ConditionFalse, 2), `Certificate "shop-tls" is not ready: Expired: it is old`},
		"no report":                       {&Certificate{ObjectMeta: metav1.ObjectMeta{Name: "shop-tls"}}, `cert-manager has not reported the status of Certificate "shop-tls": check that cert-manager is running`},
		"Certificate of another user":     {&Certificate{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, `Certificate "shop-tls" is being written`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if p := Unready(input(tc.object), "a.example.com", providers.TLS{Secret: "shop-tls", Issuer: ca}); p != nil {
				got = p.Message
				if p.Reason != providers.ReasonCertificateNotReady {
					t.Errorf("reason: %s", p.Reason)
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if p := Unready(input(), "a.example.com", providers.TLS{Secret: "shop-tls"}); p != nil {
		t.Errorf("a Secret that the user creates: %+v", p)
	}
}

// TestDefinitionTakesTheCertificate installs cert-manager's definition of Certificates, creates a Certificate, and
// checks that the API server stores it without changes.
func TestDefinitionTakesTheCertificate(t *testing.T) {
	env, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir, err := apiserver.CertManager()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: []string{filepath.Join(dir, "cert-manager.io_certificates.yaml")}, ErrorIfPathMissing: true, MaxTime: await.Limit}); err != nil {
		t.Fatal(err)
	}
	if err := AddToScheme(env.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	s := input()
	s.Policy.Namespace = env.Namespace(t)
	want := Shared(s, []providers.Route{route("*.example.com", strings.Repeat("a", 63)+".b.example.com")}, nil)[0].Object.(*Certificate)
	live := want.DeepCopyObject().(*Certificate)
	await.Nil(t, func(ctx context.Context) error { // The kind might not be served immediately.
		return env.Client.Create(ctx, live, client.FieldValidation("Strict"))
	})
	if diff := cmp.Diff(want.Spec, live.Spec); diff != "" {
		t.Errorf("the API server stores a different Certificate: %s", diff)
	}
	live.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "DoesNotExist", Message: "issuing", ObservedGeneration: live.Generation, LastTransitionTime: metav1.Now(),
	}}
	if err := env.Client.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	s.Objects = []resources.Object{live}
	if p := Unready(s, "a.example.com", providers.TLS{Secret: "shop-tls", Issuer: ca}); p == nil || !strings.Contains(p.Message, "DoesNotExist: issuing") {
		t.Errorf("problem after the status update: %+v", p)
	}
}
