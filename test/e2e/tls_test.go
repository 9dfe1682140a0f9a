//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestTLS routes a canary over HTTPS in two ways: through a listener of the test's own Gateway with a
// certificate that the test signs, and through the gateway to pods that terminate TLS. The URL begins with
// https, and the domain is not programmed while the certificate is missing.
func TestTLS(t *testing.T) {
	s := newService(t, "encrypted").steps(asking("half", 50))
	target := func(port int32) *intstr.IntOrString { p := intstr.FromInt32(port); return &p }
	s.network.Spec.Ports = []v1alpha1.NetworkPort{
		{Name: "http", Port: 80, TargetPort: target(8080)},
		{Name: "tls", Port: 443, TargetPort: target(8443), Protocol: v1alpha1.ProtocolTLS},
	}
	s.network.Spec.Provider = gateway("own", "")
	s.network.Spec.Domains = []v1alpha1.Domain{
		{Domain: "{{.ReleaseGroupName}}." + s.name + ".localhost", Port: "http", TLS: &v1alpha1.DomainTLS{Mode: v1alpha1.TLSGateway}, RecordTTLSeconds: 60},
		{Domain: "tls-{{.ReleaseGroupName}}." + s.name + ".localhost", Port: "tls"},
	}
	wildcard := "*." + s.name + ".localhost"
	secret, authority := selfSigned(t, s.namespace, "own-tls", wildcard)
	listener := func(name string, port gatewayv1.PortNumber, protocol gatewayv1.ProtocolType, config *gatewayv1.ListenerTLSConfig) gatewayv1.Listener {
		host := gatewayv1.Hostname(wildcard)
		return gatewayv1.Listener{Name: gatewayv1.SectionName(name), Hostname: &host, Port: port, Protocol: protocol, TLS: config}
	}
	passes := gatewayv1.TLSModePassthrough
	s.create(secret, &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "own"},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "traefik", Listeners: []gatewayv1.Listener{
			listener("https", 8443, gatewayv1.HTTPSProtocolType, &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: "own-tls"}}}),
			listener("tls", 8444, gatewayv1.TLSProtocolType, &gatewayv1.ListenerTLSConfig{Mode: &passes}),
		}},
	})
	s.start("1.0.0")
	host, passed := s.host(), "tls-"+s.host()
	s.programmed(host, "https://"+host+":8443")
	s.programmed(passed, "tls://"+passed+":8444")

	// The client verifies that the server presents the certificate that the test signed.
	decrypted := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext:       dials(env.GatewayHTTPS),
		TLSClientConfig:   &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}
	t.Cleanup(decrypted.CloseIdleConnections)
	// Each pod has its own certificate, so each connection may have a different certificate.
	encrypted := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: dials(env.GatewayTLS), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error { // VerifyConnection verifies the certificate.
			if _, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: authority}); err == nil {
				return fmt.Errorf("the gateway presented its certificate")
			}
			return nil
		}},
	}}
	ask := func(who *http.Client, host string) (version, protocol string, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+"/", nil)
		if err != nil {
			return "", "", err
		}
		res, err := who.Do(req)
		if err != nil {
			return "", "", err
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return "", "", err
		}
		if res.StatusCode != http.StatusOK {
			return "", "", fmt.Errorf("response status %s", res.Status)
		}
		return res.Header.Get("X-Version"), res.Proto, nil
	}
	answersWith := func(who *http.Client, host string) {
		t.Helper()
		wait(t, host+" to answer", func(context.Context) (bool, string, error) {
			version, _, err := ask(who, host)
			return err == nil && version != "", version, err
		})
	}
	const requests = 100
	shares := func(who *http.Client, host, protocol string) map[string]int {
		t.Helper()
		out := map[string]int{}
		for range requests {
			version, spoken, err := ask(who, host)
			if err != nil {
				t.Fatalf("%s: %v", host, err)
			}
			if protocol != "" && spoken != protocol {
				t.Fatalf("%s: answered over %s, want %s", host, spoken, protocol)
			}
			out[version]++
		}
		return out
	}
	answersWith(decrypted, host)
	answersWith(encrypted, passed)

	// A gateway accepts a route before it serves the route. The shares are therefore measured by clients.
	served := func(who *http.Client, host string, row int) {
		t.Helper()
		wait(t, host+" to be served by 1.1.0", func(context.Context) (bool, string, error) {
			for range row {
				if version, _, err := ask(who, host); err != nil || version != "1.1.0" {
					return false, version, err
				}
			}
			return true, "", nil
		})
	}
	s.push("1.1.0")
	s.weight("1.1.0", 50)
	served(decrypted, host, 1)
	served(encrypted, passed, 1)
	for name, got := range map[string]map[string]int{"decrypted": shares(decrypted, host, "HTTP/2.0"), "passed through": shares(encrypted, passed, "")} {
		t.Logf("%s: of %d requests %v", name, requests, got)
		if share := got["1.1.0"]; share < requests*2/5 || share > requests*3/5 || share+got["1.0.0"] != requests {
			t.Errorf("%s: a canary of 50%% got %d of %d requests: %v", name, share, requests, got)
		}
	}
	s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
	s.active("1.1.0")
	served(decrypted, host, 10)
	served(encrypted, passed, 10)
	for name, got := range map[string]map[string]int{"decrypted": shares(decrypted, host, "HTTP/2.0"), "passed through": shares(encrypted, passed, "")} {
		if got["1.1.0"] != requests {
			t.Errorf("%s: after the promotion: %v", name, got)
		}
	}

	// Delete the certificate, and create it again.
	if err := env.Client.Delete(t.Context(), secret.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	s.domain(host, "to lose its certificate", func(d v1alpha1.DomainStatus) bool { return !d.Programmed && d.Reason == "CertificateNotReady" })
	s.programmed(passed, "tls://"+passed+":8444")
	secret.ResourceVersion, secret.UID = "", ""
	s.create(secret)
	s.programmed(host, "https://"+host+":8443")
	answersWith(decrypted, host)
}

// programmed waits until a domain is programmed with a URL.
func (s *service) programmed(host, url string) {
	s.t.Helper()
	s.domain(host, "to be programmed at "+url, func(d v1alpha1.DomainStatus) bool { return d.Programmed && d.URL == url })
}

// domain waits for a state of a domain.
func (s *service) domain(host, what string, ok func(v1alpha1.DomainStatus) bool) {
	s.t.Helper()
	wait(s.t, host+" "+what, func(ctx context.Context) (bool, string, error) {
		var p v1alpha1.NetworkPolicy
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(s.network), &p); err != nil {
			return false, "", err
		}
		for _, d := range p.Status.Domains {
			if d.Domain == host {
				return ok(d), fmt.Sprintf("%s programmed=%v %s: %s", d.URL, d.Programmed, d.Reason, d.Message), nil
			}
		}
		return false, "not in the status", nil
	})
}

// dials returns a function that connects to an address, regardless of the host.
func dials(address string) func(ctx context.Context, network, _ string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
}

// selfSigned returns a certificate that is valid for a host and for one day, and a pool that trusts only this
// certificate.
func selfSigned(t *testing.T, namespace, name, host string) (*corev1.Secret, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})},
	}, trusted
}
