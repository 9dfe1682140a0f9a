package imagepolicy

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// A registry with an authority of its own, which wants a certificate of its clients, is
// read with the Secret of spec.certSecretRef, and once that holds what it takes.
func TestCertificatesOfARegistry(t *testing.T) {
	s := begin(t)
	s.clock.SetTime(time.Now()) // certificates are valid by the real clock
	authority := registrytest.NewAuthority(t)
	soon := time.Now().Add(time.Hour)
	s.server = registrytest.New(t, registrytest.WithTLS(authority.Server(t, soon, authority)))
	s.push("1.0.0")
	s.policy("shop")
	p, _ := s.pass("shop")
	ready := func(what, want string) {
		t.Helper()
		if got := condition(p, "Ready"); !strings.HasPrefix(got, want) {
			t.Errorf("Ready %s: %q, want %q...", what, got, want)
		}
	}
	ready("without a Secret", "False Untrusted: ")

	certificate, key := authority.Issue(t, soon)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "tls"}, Data: map[string][]byte{"ca.crt": authority.PEM()}}
	s.create(secret)
	s.edit("shop", func(p *v1alpha1.ImagePolicy) { p.Spec.CertSecretRef = &v1alpha1.Reference{Name: "tls"} })
	p = s.look("shop")
	ready("with the authority alone", "False Untrusted: ")
	same(t, "offered with the authority alone", offered(p), []string(nil))

	secret.Data["tls.crt"], secret.Data["tls.key"] = certificate, key
	if err := env.Client.Update(s.Context(), secret); err != nil {
		t.Fatal(err)
	}
	p = s.look("shop")
	ready("with a certificate", "True Succeeded: ")
	same(t, "offered with a certificate", offered(p), []string{"1.0.0 in release"})
}
