// Package boardtest opens the board in Chromium. It runs the manager's binary ("heighliner web") against a
// real API server with the permissions from the board's component. Users log in with the example identity
// provider from zitadel/oidc. The package is a separate module, because it is not part of the product. "make
// test-board" runs it.
//
//	board_test.go       TestBoard, on an API server
//	node_test.go        TestNode, on the local cluster
//	browser_test.go     users and their browsers
//	identities_test.go  the OpenID provider
package boardtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/manager"
)

var (
	pictures = flag.String("pictures", "", "folder for the pictures of the tour, relative to the root of the repository; by default no pictures are written")
	axe      = flag.String("axe", "", "file axe.min.js of axe-core, with which pages are checked for accessibility")
	onNode   = flag.Bool("node", false, "do not start an API server; for TestNode, which uses the local cluster")
	binary   = flag.String("heighliner", "bin/heighliner", "binary of the manager")
)

var kube *manager.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if err := os.Chdir("../.."); err != nil { // The paths of CRDs are relative to the root of the repository.
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	if *onNode {
		os.Exit(m.Run())
	}
	os.Exit(manager.Run(m, &kube))
}

// limit is the maximum duration of a step.
const limit = time.Minute

// site is the board with its identity provider.
type site struct {
	*testing.T
	url string
	// line connects browsers to the board. Tests can interrupt the connections.
	line *line
}

// line forwards browser connections to the board.
type line struct {
	net.Listener
	mu   sync.Mutex
	cut  bool
	open map[net.Conn]bool
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listener, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); l.set(true) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // The test has ended.
			}
			go l.pass(conn, to)
		}
	}()
	return l
}

// pass forwards data between a browser and the board, until the connection is interrupted.
func (l *line) pass(browser net.Conn, to string) {
	defer browser.Close()
	board, err := (&net.Dialer{Timeout: limit}).Dial("tcp", to)
	if err != nil {
		return
	}
	defer board.Close()
	if !l.add(browser) {
		return
	}
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{browser, board}, {board, browser}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // Copying ends when either connection ends.
			done <- struct{}{}
		}()
	}
	<-done
}

func (l *line) add(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[conn] = true
	return !l.cut
}

// set closes all connections and rejects new connections if cut is true. Otherwise, it accepts connections again.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for conn := range l.open {
			_ = conn.Close()
		}
		clear(l.open)
	}
}

// start starts the board, and an identity provider with the users ana and bob.
func start(t *testing.T) *site {
	t.Helper()
	board := httptest.NewUnstartedServer(nil) // The server only provides an address and a certificate.
	address := board.Listener.Addr().String()
	board.StartTLS()
	certificate := board.TLS.Certificates[0]
	board.Close()
	l := newLine(t, address)
	s := &site{t, "https://" + l.Addr().String(), l}

	dir := t.TempDir()
	provider := httptest.NewUnstartedServer(nil)
	issuer := "https://" + provider.Listener.Addr().String()
	provider.Config.Handler = identities(t, dir, issuer, s.url)
	provider.StartTLS()
	t.Cleanup(provider.Close)

	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var out await.Buffer
	cmd := exec.CommandContext(ctx, *binary, "web", "--kubeconfig", kubeconfig(t, dir), "--url", s.url, "--bind-address", address, "--health-probe-bind-address", "127.0.0.1:0", "--title", "production",
		"--tls-cert-file", write(t, dir, "tls.crt", encode("CERTIFICATE", certificate.Certificate[0])), "--tls-private-key-file", write(t, dir, "tls.key", encode("PRIVATE KEY", key)),
		"--oidc-issuer-url", issuer, "--oidc-client-id", "board", "--oidc-client-secret-file", write(t, dir, "secret", []byte("secret\n")), "--oidc-username-prefix", "-",
		"--oidc-ca-file", write(t, dir, "ca.crt", encode("CERTIFICATE", provider.Certificate().Raw)))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		cancel()
		<-done
		if t.Failed() {
			t.Log(out.String())
		}
	})
	await.Until(t, "the board to answer", func() bool {
		c := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // This only checks whether the server responds.
		conn, err := c.DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil && strings.Contains(out.String(), "serving the board")
	})
	return s
}

func write(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfig applies the component, and returns a kubeconfig for its ServiceAccount.
func kubeconfig(t *testing.T, dir string) string {
	t.Helper()
	if err := kube.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "heighliner-system"}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	config, err := filepath.Rel(dir, filepath.Join(apiserver.Root(t), "config"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "kustomization.yaml", []byte("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- "+config+"/rbac\ncomponents:\n- "+config+"/components/web\n"))
	if out, err := kube.Kubectl(t, "", "apply", "-k", dir); err != nil {
		t.Fatalf("apply the component: %v: %s", err, out)
	}
	request := &authenticationv1.TokenRequest{}
	if err := kube.Client.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "heighliner-system", Name: "heighliner-web"}}, request); err != nil {
		t.Fatal(err)
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: kube.Config.Host, CertificateAuthorityData: kube.Config.CAData}
	c.AuthInfos["web"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "web"}
	c.CurrentContext = "test"
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBoard simulates a day of work with the board.
func TestBoard(t *testing.T) {
	if *onNode {
		t.Fatal("this test starts an API server: run \"make test-board\", without -node")
	}
	if _, err := os.Stat(*binary); err != nil {
		t.Fatalf("%v: run \"make test-board\", which builds it", err)
	}
	namespace := kube.Namespace(t)
	for _, name := range []string{"shop", "search"} {
		kube.Microservice(t, namespace, name, v1alpha1.CanaryStep{Name: "tenth", Weight: 10, Approval: &v1alpha1.CanaryApproval{}}, v1alpha1.CanaryStep{Name: "half", Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "1h"}})
		kube.Offer(t, namespace, name, "1.0.0")
		kube.Await(t, namespace, name, "1.0.0", v1alpha1.ReleaseActive)
	}
	bind(t, namespace, "cluster-admin", "ana")
	bind(t, namespace, "heighliner-view", "bob")
	s := start(t)

	bob := browser(t, s.url, "")
	bob.login("bob")
	bob.do("open the service", chromedp.Navigate(s.url+"/services/"+namespace+"/shop"), chromedp.WaitVisible("#connection"))
	bob.sees("● live")

	ana := browser(t, s.url, "")
	ana.login("ana")
	ana.sees("● live")
	kube.Offer(t, namespace, "shop", "1.1.0", "1.0.0")
	o := kube.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseCanary)

	// The open pages are updated. Only ana, who has the permission, gets a button.
	ana.sees("waits for approval")
	bob.sees("waits for approval")
	ana.picture("tour-board.png")
	ana.accessible("board")
	if n := bob.count("[data-act]"); n != 0 {
		t.Errorf("bob has %d buttons", n)
	}
	var status int
	bob.do("forge an action", chromedp.Evaluate(fmt.Sprintf(`fetch("/services/%s/shop/acts/continue", {method: "POST", body: new URLSearchParams({target: %q, id: "web-forged"})}).then(r => r.status)`, namespace, o.Name), &status, awaitPromise))
	if status != http.StatusForbidden {
		t.Errorf("status of an action that bob is not allowed to take: %d", status)
	}

	// Ana approves in the panel.
	ana.do("open the panel", chromedp.Click(`a[data-act][href*="/acts/continue"]`), chromedp.WaitVisible("dialog[open] .act"))
	ana.sees("Recorded as ana")
	ana.picture("tour-act.png")
	ana.accessible("panel of an action")
	ana.do("approve", chromedp.SendKeys("dialog input[name=reason]", "dashboards are quiet"), chromedp.Click("dialog button.primary"), chromedp.WaitNotPresent("dialog[open]"))
	ana.sees("Continue")
	ana.sees("dashboards are quiet")
	ana.sees("step 2 of 2")
	bob.sees("step 2 of 2")
	ana.picture("tour-service.png")
	ana.accessible("service")

	// The page shows that its stream is interrupted. It then resumes the stream, and shows the change that was made in the
	// meantime.
	s.line.set(true)
	bob.sees("not connected, trying again")
	kube.Edit(t, namespace, "shop", "test", func(spec *v1alpha1.MicroserviceSpec) { spec.Paused = true })
	s.line.set(false)
	bob.sees("● live")
	bob.sees("paused")
	kube.Edit(t, namespace, "shop", "test", func(spec *v1alpha1.MicroserviceSpec) { spec.Paused = false })
	bob.sees("step 2 of 2")
	bob.sees("Weights of 1.x")

	// Ana creates and ends a freeze with the form in the panel. Bob is not allowed to create or
	// end a freeze.
	ana.do("open the form", chromedp.Navigate(s.url+"/freezes"), chromedp.Click(`a[data-act][href^="/freezes/freeze"]`), chromedp.WaitVisible("dialog[open] .act"))
	ana.accessible("form of a freeze")
	ana.do("fill in the form", chromedp.SendKeys("dialog input[name=reason]", "trade fair"), chromedp.SendKeys("dialog input[name=until]", "4h"), chromedp.Click("dialog form button"), chromedp.WaitVisible("dialog button.primary"))
	ana.sees("shop is frozen")
	ana.picture("tour-freeze.png")
	ana.do("freeze", chromedp.Click("dialog button.primary"), chromedp.WaitNotPresent("dialog[open]"))
	ana.sees("by ana: \"trade fair\"")
	bob.sees("by ana: \"trade fair\"")
	if n := bob.count("[data-act]"); n != 0 {
		t.Errorf("bob has %d buttons", n)
	}
	ana.accessible("freezes")
	ana.do("end the freeze", chromedp.Click(`a[data-act][href^="/freezes/thaw"]`), chromedp.WaitVisible("dialog button.primary"), chromedp.Click("dialog button.primary"), chromedp.WaitNotPresent("dialog[open]"))
	ana.sees("Nothing is frozen")

	// Ana rolls back with the form on the page, on a phone at night.
	ana.do("switch to a phone", emulation.SetDeviceMetricsOverride(390, 844, 2, true), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	ana.do("open the board", chromedp.Navigate(s.url+"/"), chromedp.WaitVisible("table.board"))
	ana.picture("tour-narrow-dark.png")
	ana.accessible("board on a phone, dark")
	var wide bool
	ana.do("measure the page", chromedp.Evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth", &wide))
	if wide {
		t.Error("the board is wider than a phone")
	}
	ana.do("roll back", chromedp.Navigate(s.url+"/services/"+namespace+"/shop/acts/rollback?target=1.0.0"), chromedp.WaitVisible("form button.primary"), chromedp.Click("form button.primary"))
	ana.sees("pinned to 1.0.0")
	bob.sees("pinned to 1.0.0")
	for _, page := range []string{"/previews", "/discovery", "/events", "/services/" + namespace + "/shop/history", "/services/" + namespace + "/shop/releases/" + o.Name} {
		ana.do("open "+page, chromedp.Navigate(s.url+page), chromedp.WaitVisible("main"))
		ana.accessible(page)
	}

	// After logout, the board shows no data.
	ana.do("log out", chromedp.Navigate(s.url+"/"), chromedp.Click("header form button"), chromedp.WaitVisible(`main a[href="/login"]`))
	ana.sees("You are logged out")
	if text := ana.text(); strings.Contains(text, "shop") {
		t.Errorf("after the logout: %s", text)
	}
}

// bind binds a ClusterRole to a user in a namespace.
func bind(t *testing.T, namespace, role, user string) {
	t.Helper()
	if err := kube.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}); err != nil {
		t.Fatal(err)
	}
}
