package imagepolicy

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/certs/certstest"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// TestCertificatesOfARegistry checks that a registry that has its own certificate authority and requires
// client certificates is read with the Secret that spec.certSecretRef refers to, as soon as the Secret
// is valid.
func TestCertificatesOfARegistry(t *testing.T) {
	s := begin(t)
	s.clock.SetTime(time.Now()) // the validity of certificates depends on the real clock
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
	p = s.scan("shop")
	ready("with only the authority", "False Untrusted: ")
	same(t, "offered with only the authority", offered(p), []string(nil))

	secret.Data["tls.crt"], secret.Data["tls.key"] = certificate, key
	if err := env.Client.Update(s.Context(), secret); err != nil {
		t.Fatal(err)
	}
	p = s.scan("shop")
	ready("with a certificate", "True Succeeded: ")
	same(t, "offered with a certificate", offered(p), []string{"1.0.0 in release"})
}

// TestHugeKeyIsAFault checks that a key whose verification would take minutes of processor time is reported
// as an error in the Secret. A reconcile therefore ends when its context is done, whatever the Secret
// contains.
func TestHugeKeyIsAFault(t *testing.T) {
	s := begin(t)
	s.push("1.0.0")
	certificate, _ := registrytest.NewAuthority(t).Issue(t, time.Now().Add(time.Hour))
	s.create(&corev1.Secret{ // without a type, because the API server would parse the key of a Secret of type kubernetes.io/tls
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "tls"},
		Data:       map[string][]byte{"tls.crt": certificate, "tls.key": certstest.KeyPEM(t, 2_800_000)},
	})
	s.policy("shop", func(spec *v1alpha1.ImagePolicySpec) { spec.CertSecretRef = &v1alpha1.Reference{Name: "tls"} })
	p, _ := s.pass("shop")
	if got, want := condition(p, "Ready"), `False InvalidSecret: spec.certSecretRef: Secret "tls": key "tls.key": an RSA key has more than 8192 bits`; !strings.HasPrefix(got, want) {
		t.Errorf("Ready: %q, want %q...", got, want)
	}
}
