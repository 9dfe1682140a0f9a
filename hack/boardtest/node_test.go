package boardtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// These are the names of objects and hosts on the node.
const (
	managerNamespace = "heighliner-system"
	boardName        = "heighliner-web"
	nodeNamespace    = "board-node"
	shopHost         = "shop.board-node.localhost"
	boardHost        = "board.board-node.localhost"
)

// patience is the time limit for events on the node, such as the start of pods and the programming of routes.
const patience = 3 * time.Minute

// node is the local cluster with the installed manager.
type node struct {
	*testing.T
	*harness.Cluster
	kubectl string
	// images is the repository of the service's images.
	images string
}

// TestNode opens the board, installed as described in docs/how-to/board.md, on the local cluster that "make
// cluster-up" starts: the board's pods behind the gateway, a service whose requests the gateway routes, and
// users who log in with an OpenID provider.
func TestNode(t *testing.T) {
	if !*onNode {
		t.Fatal("this test needs the local cluster: run \"make test-board-node\"")
	}
	n := openNode(t)
	n.push("1.0.0")
	n.apply(shop, map[string]string{"Namespace": nodeNamespace, "Image": n.RegistryInternal + "/" + n.images, "Host": shopHost})
	n.active("1.0.0")
	rules := n.installBoard()
	// The board is behind the port on which the gateway passes TLS through to pods.
	_, port, err := net.SplitHostPort(n.GatewayTLS)
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + net.JoinHostPort(boardHost, port)

	ana, bob := browser(t, url, rules), browser(t, url, rules)
	ana.login("ana")
	bob.login("bob")
	ana.sees("● live")
	service := "/services/" + nodeNamespace + "/shop"
	bob.do("open the service", chromedp.Navigate(url+service), chromedp.WaitVisible("#connection"))

	// An approval in the panel moves all requests to the new version.
	n.push("1.1.0")
	ana.sees("waits for approval")
	bob.sees("waits for approval")
	if buttons := bob.count("[data-act]"); buttons != 0 {
		t.Errorf("bob has %d buttons", buttons)
	}
	release := n.release("1.1.0")
	var status int
	bob.do("forge an action", chromedp.Evaluate(fmt.Sprintf(`fetch("%s/acts/continue", {method: "POST", body: new URLSearchParams({target: %q, id: "web-forged"})}).then(r => r.status)`, service, release.Name), &status, awaitPromise))
	if status != http.StatusForbidden {
		t.Errorf("status of an action that bob is not allowed to take: %d", status)
	}
	ana.do("open the panel", chromedp.Click(`a[data-act][href*="/acts/continue"]`), chromedp.WaitVisible("dialog[open] .act"))
	ana.do("approve", chromedp.SendKeys("dialog input[name=reason]", "dashboards are quiet"), chromedp.Click("dialog button.primary"), chromedp.WaitNotPresent("dialog[open]"))
	n.active("1.1.0")
	if by := n.release("1.1.0").Annotations[v1alpha1.AnnotationDecidedBy]; by != "ana" {
		t.Errorf("the approval records user %q", by)
	}
	bob.sees("dashboards are quiet")

	// A version that never becomes ready fails, and its page shows the reason.
	n.push("1.2.0", "FAIL_READINESS", "true")
	ana.do("open the board", chromedp.Navigate(url+"/"), chromedp.WaitVisible("table.board"))
	ana.sees("failed")
	bad := n.release("1.2.0")
	ana.do("open the release", chromedp.Navigate(url+service+"/releases/"+bad.Name), chromedp.WaitVisible("main"))
	ana.sees("its readiness probe fails")
	n.answers("1.1.0")

	// The board's pods are killed. Open pages show that the connection is interrupted, and are later updated
	// again without another login.
	n.killBoard()
	bob.sees("not connected, trying again")
	bob.sees("● live")

	// Ana rolls back on a phone at night.
	ana.do("switch to a phone", emulation.SetDeviceMetricsOverride(390, 844, 2, true), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	ana.do("roll back", chromedp.Navigate(url+service+"/acts/rollback?target=1.0.0"), chromedp.WaitVisible("form button.primary"), chromedp.Click("form button.primary"))
	ana.sees("pinned to 1.0.0")
	n.active("1.0.0")
	bob.sees("pinned to 1.0.0")
}

// openNode connects to the local cluster, and creates an empty namespace for the service.
func openNode(t *testing.T) *node {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster, err := harness.OpenCluster(scheme, harness.AddressesFrom(os.Getenv))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, Cluster: cluster, kubectl: os.Getenv("KUBECTL"), images: fmt.Sprintf("board/%x", time.Now().UnixNano())}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nodeNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	n.remove(t.Context(), namespace)
	t.Cleanup(func() {
		if t.Failed() {
			out, err := exec.Command(n.kubectl, "--kubeconfig", n.Kubeconfig, "get", "-A", "imagepolicies,microservices,versionedmicroservices,networkpolicies.hlnr.io,pods", "-o", "wide").CombinedOutput()
			t.Logf("%s %v", out, err)
		}
		n.remove(context.Background(), namespace)
	})
	if err := n.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return n
}

// remove deletes a namespace, and waits until it is removed.
func (n *node) remove(ctx context.Context, namespace *corev1.Namespace) {
	n.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := (harness.Waiter{Every: 200 * time.Millisecond}).For(ctx, "namespace "+namespace.Name+" to be deleted", func(ctx context.Context) (bool, string, error) {
		err := n.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}})
		return apierrors.IsNotFound(err), "still exists", client.IgnoreNotFound(err)
	})
	if err != nil {
		n.Fatal(err)
	}
}

// push builds and pushes a version's image. The environment variables of the image are given as
// alternating names and values.
func (n *node) push(version string, variables ...string) {
	n.Helper()
	environment := map[string]string{"VERSION": version}
	for i := 0; i+1 < len(variables); i += 2 {
		environment[variables[i]] = variables[i+1]
	}
	if _, err := (harness.Image{Registry: n.Registry, Repository: n.images, Tag: version, Binary: "bin/sampleapp", Env: environment}).Push(n.Context()); err != nil {
		n.Fatal(err)
	}
}

var shop = template.Must(template.New("").Parse(`
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: shop, namespace: {{.Namespace}}}
spec:
  image: {{.Image}}
  interval: 5s
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop, namespace: {{.Namespace}}}
spec:
  imagePolicyRef: {name: shop}
  availability: {replicas: 2}
  updateStrategy:
    progressDeadlineSeconds: 30
    drainDelay: 5s
    canary:
      steps:
      - {name: tenth, weight: 10, approval: {}}
      - {name: half, weight: 50, pause: {duration: 5s}}
  template:
    spec:
      terminationGracePeriodSeconds: 5
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: shop
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 1}
        resources: {requests: {cpu: 10m, memory: 16Mi}}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
---
apiVersion: hlnr.io/v1alpha1
kind: NetworkPolicy
metadata: {name: shop, namespace: {{.Namespace}}}
spec:
  microserviceRef: {name: shop}
  ports: [{name: http, port: 80, targetPort: 8080}]
  provider: {gateway: {parentRefs: [{name: public, namespace: infra}]}}
  domains: [{domain: {{.Host}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ana, namespace: {{.Namespace}}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: heighliner-owner}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ana}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: {{.Namespace}}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ana}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
`))

// boardOverlay is the overlay that an administrator writes as described in docs/how-to/board.md. The
// pod terminates TLS.
var boardOverlay = template.Must(template.New("").Parse(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
components:
- {{.Component}}
images:
- name: heighliner/heighliner
  newName: {{.Image}}
  newTag: "{{.Tag}}"
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
      - --url={{.URL}}
      - --title=node
      - --tls-cert-file=/etc/heighliner-web/tls.crt
      - --tls-private-key-file=/etc/heighliner-web/tls.key
      - --session-key-file=/etc/heighliner-web/session-key
      - --oidc-issuer-url={{.Issuer}}
      - --oidc-client-id=board
      - --oidc-client-secret-file=/etc/heighliner-web/client-secret
      - --oidc-ca-file=/etc/heighliner-web/ca.crt
      - --oidc-username-prefix=-
`))

const boardRoute = `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "TLSRoute", "metadata": {"namespace": "` + managerNamespace + `", "name": "` + boardName + `"}, "spec": {
	"parentRefs": [{"namespace": "infra", "name": "edge", "sectionName": "tls"}], "hostnames": ["` + boardHost + `"], "rules": [{"backendRefs": [{"name": "` + boardName + `", "port": 80}]}]}}`

// installBoard installs the board and its OpenID provider, and removes them after the test. It returns the rules that a
// browser uses to resolve their host names.
func (n *node) installBoard() (rules string) {
	n.Helper()
	host, _, err := net.SplitHostPort(n.RegistryInternal)
	if err != nil {
		n.Fatal(err)
	}
	_, port, err := net.SplitHostPort(n.GatewayTLS)
	if err != nil {
		n.Fatal(err)
	}
	url := "https://" + net.JoinHostPort(boardHost, port)

	// The provider listens on the pod network and, for browsers, on the host.
	inside, err := n.ListenInside(net.JoinHostPort(host, "0"))
	if err != nil {
		n.Fatal(err)
	}
	here, err := (&net.ListenConfig{}).Listen(n.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		n.Fatal(err)
	}
	issuer := "https://" + inside.Addr().String()
	certificate, private := n.selfSigned(net.ParseIP(host), boardHost)
	pair, err := tls.X509KeyPair(certificate, private)
	if err != nil {
		n.Fatal(err)
	}
	server := &http.Server{Handler: identities(n.T, n.TempDir(), issuer, url), ReadHeaderTimeout: 5 * time.Second, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	for _, l := range []net.Listener{inside, here} {
		go func() { _ = server.ServeTLS(l, "", "") }() // The server runs until its listener is closed.
	}
	n.Cleanup(func() { _ = server.Close() })

	sessions := make([]byte, 32)
	_, _ = rand.Read(sessions) // This never fails.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: boardName}, Data: map[string][]byte{
		"tls.crt": certificate, "tls.key": private, "ca.crt": certificate, "client-secret": []byte("secret"), "session-key": []byte(base64.StdEncoding.EncodeToString(sessions)),
	}}
	dir := n.overlay(map[string]string{"URL": url, "Issuer": issuer})
	n.Cleanup(func() { // The test's context is already canceled.
		for _, args := range [][]string{{"delete", "--ignore-not-found", "-k", dir}, {"delete", "--ignore-not-found", "-n", managerNamespace, "tlsroute/" + boardName, "secret/" + boardName}} {
			if out, err := exec.Command(n.kubectl, append([]string{"--kubeconfig", n.Kubeconfig}, args...)...).CombinedOutput(); err != nil {
				n.Errorf("remove the board: %v: %s", err, out)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			n.Error(err)
		}
	})
	if err := n.Client.Create(n.Context(), secret); err != nil {
		n.Fatal(err)
	}
	n.run("", "apply", "-k", dir)
	n.run(boardRoute, "apply", "-f", "-")
	n.run("", "-n", managerNamespace, "rollout", "status", "deployment/"+boardName, "--timeout=120s")
	return fmt.Sprintf("MAP %s %s, MAP %s %s", inside.Addr(), here.Addr(), net.JoinHostPort(boardHost, port), n.GatewayTLS)
}

// overlay writes the board's kustomization into the repository, because the paths in the
// kustomization are relative.
func (n *node) overlay(values map[string]string) string {
	n.Helper()
	var manager appsv1.Deployment
	if err := n.Client.Get(n.Context(), client.ObjectKey{Namespace: managerNamespace, Name: "heighliner"}, &manager); err != nil {
		n.Fatal(err)
	}
	image, tag, _ := strings.Cut(strings.TrimPrefix(manager.Spec.Template.Spec.Containers[0].Image, n.RegistryInternal), ":")
	if err := os.MkdirAll(".cache", 0o755); err != nil {
		n.Fatal(err)
	}
	dir, err := os.MkdirTemp(".cache", "board-node-") //nolint:usetesting // as the comment explains
	if err != nil {
		n.Fatal(err)
	}
	component, err := filepath.Rel(dir, filepath.Join("config", "components", "web"))
	if err != nil {
		n.Fatal(err)
	}
	values["Component"], values["Image"], values["Tag"] = component, n.RegistryInternal+image, tag
	var text bytes.Buffer
	if err := boardOverlay.Execute(&text, values); err != nil {
		n.Fatal(err)
	}
	write(n.T, dir, "kustomization.yaml", text.Bytes())
	return dir
}

func (n *node) apply(objects *template.Template, values map[string]string) {
	n.Helper()
	var text bytes.Buffer
	if err := objects.Execute(&text, values); err != nil {
		n.Fatal(err)
	}
	n.run(text.String(), "apply", "-f", "-")
}

// run runs kubectl.
func (n *node) run(stdin string, args ...string) {
	n.Helper()
	cmd := exec.CommandContext(n.Context(), n.kubectl, append([]string{"--kubeconfig", n.Kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// until waits until a condition on the node is true.
func (n *node) until(what string, poll harness.Poll) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), patience)
	defer cancel()
	if err := (harness.Waiter{Every: 100 * time.Millisecond}).For(ctx, what, poll); err != nil {
		n.Fatal(err)
	}
}

// active waits until a version is active and responds to requests for its host through the gateway.
func (n *node) active(version string) {
	n.Helper()
	n.until(version+" to be active", func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		err := n.Client.Get(ctx, client.ObjectKey{Namespace: nodeNamespace, Name: "shop"}, &ms)
		return ms.Status.Summary.Active == version, fmt.Sprintf("active is %q", ms.Status.Summary.Active), err
	})
	n.answers(version)
}

// answers waits until a version responds to twenty requests in a row.
func (n *node) answers(version string) {
	n.Helper()
	n.until(shopHost+" to be answered by "+version, func(ctx context.Context) (bool, string, error) {
		for range 20 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Gateway+"/", nil)
			if err != nil {
				return false, "", err
			}
			req.Host = shopHost
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return false, err.Error(), nil
			}
			_ = res.Body.Close()
			if got := res.Header.Get("X-Version"); got != version {
				return false, fmt.Sprintf("%s by %q", res.Status, got), nil
			}
		}
		return true, "", nil
	})
}

// release waits for a version's release, and returns it.
func (n *node) release(version string) (found *v1alpha1.VersionedMicroservice) {
	n.Helper()
	n.until("a release of "+version, func(ctx context.Context) (bool, string, error) {
		var all v1alpha1.VersionedMicroserviceList
		err := n.Client.List(ctx, &all, client.InNamespace(nodeNamespace))
		for i := range all.Items {
			if all.Items[i].Spec.SemVer.Version == version {
				found = &all.Items[i]
			}
		}
		return found != nil, fmt.Sprintf("%d releases", len(all.Items)), err
	})
	return found
}

// killBoard deletes the pods of the board without a grace period.
func (n *node) killBoard() {
	n.Helper()
	zero := int64(0)
	if err := n.Client.DeleteAllOf(n.Context(), &corev1.Pod{}, client.InNamespace(managerNamespace), client.MatchingLabels{"app.kubernetes.io/component": "web"}, &client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{GracePeriodSeconds: &zero}}); err != nil {
		n.Fatal(err)
	}
}

// selfSigned returns a certificate for a host and an IP address, and the key of the certificate. The
// certificate is valid for a day.
func (n *node) selfSigned(ip net.IP, host string) (certificate, private []byte) {
	n.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		n.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{host}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		n.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		n.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret)
}
