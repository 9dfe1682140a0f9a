//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

const (
	boardName = "heighliner-web"
	boardHost = "board.e2e-board.localhost"
)

// TestBoard runs config/components/web on the node as a user would install it, with two replicas behind the
// gateway and an authenticating proxy, whose role this test plays. A reader sees the objects that they are
// allowed to list. An approval through the form lets a canary continue, and is recorded with the name of the
// user. Another reader is not allowed to approve. The board keeps responding while one of its pods is killed.
func TestBoard(t *testing.T) {
	s := newService(t, "board").steps(asking("tenth", 10))
	s.start("1.0.0")
	bindUser(t, s.namespace, "heighliner-owner", "ana@example.com")
	bindUser(t, s.namespace, "heighliner-view", "bob@example.com")
	proxy := installBoard(t)
	ana, bob := proxy.reader("ana@example.com"), proxy.reader("bob@example.com")
	ana.shows("/", "1.0.0")
	bob.shows("/", "1.0.0")
	if code, page, err := proxy.reader("carol@example.com").get(t.Context(), "/"); err != nil || code != http.StatusOK || strings.Contains(page, s.namespace) {
		t.Errorf("a reader without permissions: %d %v %s", code, err, page)
	}
	for name, reader := range map[string]*reader{"no user": proxy.reader(""), "a system user": proxy.reader("system:admin")} {
		if code, _, err := reader.get(t.Context(), "/"); err != nil || code != http.StatusUnauthorized && code != http.StatusForbidden {
			t.Errorf("%s: %d %v", name, code, err)
		}
	}
	if _, _, err := proxy.without().get(t.Context(), "/"); err == nil {
		t.Error("the board accepts a connection without the proxy's certificate")
	}

	s.push("1.1.0")
	service := "/services/" + s.namespace + "/" + s.app
	s.until("1.1.0 to wait for approval", func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, "1.1.0")
		return r != nil && r.Weight == 10, fmt.Sprint(r)
	})
	ana.shows("/", "waits for approval")
	release := s.nameOf("1.1.0")
	act := service + "/acts/continue"
	form := url.Values{"target": {release}, "id": {"web-e2e"}, "reason": {"dashboards are quiet"}}
	if code, _, err := bob.post(act, form, true); err != nil || code != http.StatusForbidden {
		t.Errorf("an approval by a reader who is not allowed to approve: %d %v", code, err)
	}
	if code, _, err := ana.post(act, form, false); err != nil || code != http.StatusForbidden {
		t.Errorf("an approval from another site: %d %v", code, err)
	}
	if s.release("1.1.0").Weight != 10 {
		t.Fatal("a rejected approval let the canary continue")
	}

	// The board keeps responding while one of its pods is killed.
	within(t, patience, "both pods of the board to be ready", func(ctx context.Context) (bool, string, error) {
		var d appsv1.Deployment
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: boardName}, &d)
		return d.Status.ReadyReplicas == 2, fmt.Sprintf("%d ready", d.Status.ReadyReplicas), err
	})
	var pods corev1.PodList
	if err := env.Client.List(t.Context(), &pods, client.InNamespace(managerNamespace), client.MatchingLabels{"app.kubernetes.io/component": "web"}); err != nil || len(pods.Items) < 2 {
		t.Fatalf("the pods of the board: %d, %v", len(pods.Items), err)
	}
	if err := env.Client.Delete(t.Context(), &pods.Items[0], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	ana.shows(service, "waits for approval")
	within(t, soon, "the approval to be accepted", func(context.Context) (bool, string, error) { // A repeated approval has the same ID.
		code, page, err := ana.post(act, form, true)
		return err == nil && code < http.StatusBadRequest, fmt.Sprintf("%d %s", code, page), err
	})
	s.active("1.1.0")
	var object v1alpha1.VersionedMicroservice
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: release}, &object); err != nil {
		t.Fatal(err)
	}
	if by := object.Annotations[v1alpha1.AnnotationDecidedBy]; by != "ana@example.com" {
		t.Errorf("the approval records user %q", by)
	}
	ana.shows(service+"/history", "dashboards are quiet")
	ana.shows(service+"/acts/pin?target=1.0.0", "1.0.0")
	if code, page, err := ana.post(service+"/acts/pin", url.Values{"target": {"1.0.0"}, "id": {"web-e2e-2"}, "reason": {"sessions lost"}}, true); err != nil || code >= http.StatusBadRequest {
		t.Fatalf("the pin: %d %v %s", code, err, page)
	}
	s.active("1.0.0")
	ana.shows(service, "by ana@example.com")
}

// bindUser gives a user a ClusterRole in a namespace.
func bindUser(t *testing.T, namespace, role, user string) {
	t.Helper()
	if err := env.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "people-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}); err != nil {
		t.Fatal(err)
	}
}

// boardOverlay is the overlay that an administrator writes according to docs/how-to/board.md.
var boardOverlay = template.Must(template.New("").Parse(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
components:
- {{.Component}}
images:
- name: heighliner/heighliner
  newName: {{.Image}}
  newTag: "{{.Tag}}"
replicas:
- name: heighliner-web
  count: 2
patches:
- target:
    kind: Deployment
    name: heighliner-web
  patch: |
    - op: replace
      path: /spec/template/spec/containers/0/args
      value:
      - web
      - --bind-address=:8080
      - --health-probe-bind-address=:8081
      - --url=https://{{.Host}}
      - --title=e2e
      - --tls-cert-file=/etc/heighliner-web/tls.crt
      - --tls-private-key-file=/etc/heighliner-web/tls.key
      - --requestheader-client-ca-file=/etc/heighliner-web/ca.crt
      - --requestheader-allowed-names=front
`))

// frontProxy is an authenticating proxy in front of the board.
type frontProxy struct {
	*testing.T
	roots       *x509.CertPool
	certificate tls.Certificate
}

// installBoard installs the component with an authenticating proxy as the source of identities, and removes
// the component after the test.
func installBoard(t *testing.T) *frontProxy {
	t.Helper()
	authority, key := newAuthority(t)
	files, roots := selfSigned(t, managerNamespace, boardName, boardHost)
	files.Type = corev1.SecretTypeOpaque
	files.Data["ca.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})
	var manager appsv1.Deployment
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: managerNamespace, Name: managerName}, &manager); err != nil {
		t.Fatal(err)
	}
	image, tag, _ := strings.Cut(strings.TrimPrefix(manager.Spec.Template.Spec.Containers[0].Image, env.RegistryInternal), ":")
	dir, err := os.MkdirTemp(filepath.Join(env.root, ".cache"), "board-") //nolint:usetesting // The overlay must be in the repository, because its paths are relative.
	if err != nil {
		t.Fatal(err)
	}
	component, err := filepath.Rel(dir, filepath.Join(env.root, "config", "components", "web"))
	if err != nil {
		t.Fatal(err)
	}
	var overlay bytes.Buffer
	if err := boardOverlay.Execute(&overlay, map[string]string{"Component": component, "Image": env.RegistryInternal + image, "Tag": tag, "Host": boardHost}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), overlay.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	const route = `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "TLSRoute", "metadata": {"namespace": "` + managerNamespace + `", "name": "` + boardName + `"}, "spec": {
		"parentRefs": [{"namespace": "infra", "name": "edge", "sectionName": "tls"}], "hostnames": ["` + boardHost + `"], "rules": [{"backendRefs": [{"name": "` + boardName + `", "port": 80}]}]}}`
	t.Cleanup(func() { // The test's context is already canceled.
		for _, args := range [][]string{{"delete", "--ignore-not-found", "-k", dir}, {"delete", "--ignore-not-found", "-n", managerNamespace, "tlsroute/" + boardName, "secret/" + boardName}} {
			if out, err := kubectlCommand(context.Background(), "", args...).CombinedOutput(); err != nil {
				t.Errorf("remove the board: %v: %s", err, out)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := env.Client.Create(t.Context(), files); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	kubectl(t, "", "apply", "-k", dir)
	kubectl(t, route, "apply", "-f", "-")
	kubectl(t, "", "-n", managerNamespace, "rollout", "status", "deployment/"+boardName, "--timeout", "120s")
	return &frontProxy{t, roots, issue(t, authority, key, "front")}
}

// newAuthority returns a certificate authority that signs client certificates.
func newAuthority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxies"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// issue signs a client's certificate.
func issue(t *testing.T, authority *x509.Certificate, signer *ecdsa.PrivateKey, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// reader is a user whom the proxy has identified.
type reader struct {
	*frontProxy
	user string
	http *http.Client
}

func (p *frontProxy) reader(user string) *reader {
	return &reader{p, user, p.client(p.certificate)}
}

// without returns a reader whose requests bypass the proxy.
func (p *frontProxy) without() *reader { return &reader{p, "ana@example.com", p.client()} }

// client returns a client that opens a connection for each request, so that requests can reach different pods.
func (p *frontProxy) client(certificates ...tls.Certificate) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: dials(env.GatewayTLS), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: p.roots, Certificates: certificates, MinVersion: tls.VersionTLS12},
	}}
}

func (r *reader) send(req *http.Request) (code int, page string, err error) {
	if r.user != "" {
		req.Header.Set("X-Forwarded-User", r.user)
	}
	res, err := r.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, html.UnescapeString(string(body)), err
}

func (r *reader) get(ctx context.Context, path string) (code int, page string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+boardHost+path, nil)
	if err != nil {
		return 0, "", err
	}
	return r.send(req)
}

// post sends a form, from the board's own page or from another site.
func (r *reader) post(path string, form url.Values, own bool) (code int, page string, err error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://"+boardHost+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "https://evil.example.com")
	if own {
		req.Header.Set("Origin", "https://"+boardHost)
	}
	return r.send(req)
}

// shows waits until a page contains the given text.
func (r *reader) shows(path, text string) {
	r.Helper()
	within(r.T, patience, path+" to show "+text+" to "+r.user, func(ctx context.Context) (bool, string, error) {
		code, page, err := r.get(ctx, path)
		return strings.Contains(page, text), fmt.Sprintf("%d %s", code, page), err
	})
}
