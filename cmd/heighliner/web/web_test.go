package web

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/net/html"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/web/identity/identitytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/manager"
)

var kube *manager.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(manager.Run(m, &kube, func(o *apiserver.Options) { o.Audit = true }))
}

// installed creates the namespace of the component once.
var installed = sync.OnceValue(func() error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "heighliner-system", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := kube.Client.Create(context.Background(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
})

// install installs the component, and returns the configuration of its ServiceAccount.
func install(t *testing.T) *rest.Config {
	t.Helper()
	if err := installed(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, err := filepath.Rel(dir, filepath.Join(apiserver.Root(t), "config"))
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- " + config + "/rbac\ncomponents:\n- " + config + "/components/web\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := kube.Kubectl(t, "", "apply", "--server-side", "--force-conflicts", "-k", dir); err != nil {
		t.Fatalf("apply the component: %v: %s", err, out)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "heighliner-system", Name: "heighliner-web"}}
	request := &authenticationv1.TokenRequest{}
	if err := kube.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return &rest.Config{Host: kube.Config.Host, BearerToken: request.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: kube.Config.CAData}}
}

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert}
}

// file returns the path of a file with the certificate.
func (a *authority) file(t *testing.T) string { return pemFile(t, "CERTIFICATE", a.cert.Raw) }

func pemFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sign returns a certificate for 127.0.0.1.
func (a *authority) sign(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files returns the paths of files with a certificate and its key.
func files(t *testing.T, c tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pemFile(t, "CERTIFICATE", c.Certificate[0]), pemFile(t, "PRIVATE KEY", der)
}

// site is a running server.
type site struct {
	*testing.T
	address  string
	ca       *authority
	provider *identitytest.Provider
}

// serve runs the server of the component, with flags that depend on its address.
func serve(t *testing.T, config *rest.Config, flags func(s *site) []string) *site {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, address: "https://" + listener.Addr().String(), ca: newAuthority(t, "authority of the board")}
	cert, key := files(t, s.ca.sign(t, "board"))
	var logs await.Buffer
	o := Options{Config: config, Version: "test", Clock: clock.RealClock{}, Log: slog.New(slog.NewTextHandler(&logs, nil)), Listener: listener}
	f := pflag.NewFlagSet("web", pflag.ContinueOnError)
	o.addFlags(f)
	if err := f.Parse(append([]string{"--url", s.address, "--tls-cert-file", cert, "--tls-private-key-file", key, "--health-probe-bind-address", "127.0.0.1:0"}, flags(s)...)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := await.Receive(t, "the server to stop", done); !errors.Is(err, context.Canceled) {
			t.Errorf("the server stopped with %v: %s", err, logs.String())
		}
	})
	return s
}

// withProvider returns the flags for the identity provider of the tests.
func withProvider(s *site) []string {
	s.provider = identitytest.New(s.T, s.address+"/login/callback")
	secret := filepath.Join(s.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(identitytest.ClientSecret+"\n"), 0o600); err != nil {
		s.Fatal(err)
	}
	return []string{"--oidc-issuer-url", s.provider.URL, "--oidc-client-id", identitytest.ClientID, "--oidc-client-secret-file", secret, "--oidc-ca-file", pemFile(s.T, "CERTIFICATE", s.provider.Certificate().Raw)}
}

// person is a user with a browser, who logs in when the board requires it.
type person struct {
	*site
	client *http.Client
	header http.Header
}

func (s *site) browser(certs ...tls.Certificate) *person {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(s.ca.cert)
	if s.provider != nil {
		pool.AddCert(s.provider.Certificate())
	}
	return &person{s, &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs}, ForceAttemptHTTP2: true}}, http.Header{}}
}

// login logs in as a user with groups.
func (s *site) login(user string, groups ...string) *person {
	s.Helper()
	s.provider.Person(map[string]any{"sub": user, "groups": groups})
	p := s.browser()
	if status, page := p.get("/"); status != http.StatusOK {
		s.Fatalf("login of %s: %d %s", user, status, page)
	}
	return p
}

func (p *person) request(method, path string, form url.Values) *http.Request {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), method, p.address+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.Fatal(err)
	}
	r.Header = p.header.Clone()
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", p.address)
	}
	return r
}

func (p *person) do(r *http.Request) (int, string) {
	p.Helper()
	response, err := p.client.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, html.UnescapeString(string(body))
}

func (p *person) get(path string) (int, string) {
	p.Helper()
	return p.do(p.request(http.MethodGet, path, nil))
}

func (p *person) post(path string, form url.Values) (int, string) {
	p.Helper()
	return p.do(p.request(http.MethodPost, path, form))
}

// want waits until a page contains the given text.
func (p *person) want(path, text string) {
	p.Helper()
	last, found := "", false
	defer func() {
		if !found {
			p.Logf("the last page: %s", last)
		}
	}()
	await.Until(p, path+" to show "+text, func() bool {
		_, last = p.get(path)
		found = strings.Contains(last, text)
		return found
	})
}

// bind binds a subject to a ClusterRole in a namespace.
func bind(t *testing.T, namespace, role, kind, name string) *rbacv1.RoleBinding {
	t.Helper()
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "people-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{{Kind: kind, APIGroup: rbacv1.GroupName, Name: name}}}
	if err := kube.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return b
}

// canary creates a service whose version 1.1.0 is waiting for approval, and returns that release.
func canary(t *testing.T, namespace, name string) *v1alpha1.VersionedMicroservice {
	t.Helper()
	kube.Microservice(t, namespace, name, v1alpha1.CanaryStep{Name: "tenth", Weight: 10, Approval: &v1alpha1.CanaryApproval{}})
	kube.Offer(t, namespace, name, "1.0.0")
	kube.Await(t, namespace, name, "1.0.0", v1alpha1.ReleaseActive)
	kube.Offer(t, namespace, name, "1.1.0", "1.0.0")
	return kube.Await(t, namespace, name, "1.1.0", v1alpha1.ReleaseCanary)
}

// audited returns the audit events for writes to an object.
func audited(t *testing.T, namespace, name string) (out []auditv1.Event) {
	t.Helper()
	f, err := os.Open(kube.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // The API server has not written the whole line yet.
		}
		if e.ObjectRef != nil && e.ObjectRef.Namespace == namespace && e.ObjectRef.Name == name {
			out = append(out, e)
		}
	}
	return out
}

// TestPeople tests that users log in, see what they may list, and act as themselves: the API server authorizes their actions and
// records them.
func TestPeople(t *testing.T) {
	t.Parallel()
	config := install(t)
	shop, bank := kube.Namespace(t), kube.Namespace(t)
	o := canary(t, shop, "shop")
	canary(t, bank, "bank")
	team := "team-" + shop
	for _, role := range []string{"heighliner-view", "heighliner-edit", "heighliner-decide"} {
		bind(t, shop, role, rbacv1.GroupKind, "oidc:"+team)
	}
	bind(t, shop, "heighliner-view", rbacv1.UserKind, "oidc:bob")
	s := serve(t, config, withProvider)
	ana, bob, carl := s.login("ana", team), s.login("bob"), s.login("carl")

	service, act := "/services/"+shop+"/shop", "/services/"+shop+"/shop/acts/continue"
	form := url.Values{"target": {o.Name}, "reason": {"checked the logs"}, "id": {"web-1"}}
	ana.want("/", "waits for approval")
	for name, p := range map[string]*person{"ana": ana, "bob": bob, "carl": carl} {
		for _, path := range []string{"/", "/events", "/discovery", "/previews", "/services/" + bank + "/bank"} {
			if status, page := p.get(path); strings.Contains(page, ">bank<") || strings.HasPrefix(path, "/services/") && status != http.StatusNotFound {
				t.Errorf("%s sees the bank on %s: %d %s", name, path, status, page)
			}
		}
	}
	if status, page := carl.get("/"); status != http.StatusOK || !strings.Contains(page, "you (oidc:carl) may not list Microservices in any namespace") || strings.Contains(page, ">shop<") {
		t.Errorf("carl: %d %s", status, page)
	}
	if status, page := bob.get(service); status != http.StatusOK || strings.Contains(page, "data-act") || !strings.Contains(page, "you (oidc:bob) may not list pods in namespace "+shop) {
		t.Errorf("bob: %d %s", status, page)
	}
	for _, p := range []*person{bob, carl} {
		if status, page := p.post(act, form); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("action without the permission: %d %s", status, page)
		}
	}
	forged := ana.request(http.MethodPost, act, form)
	forged.Header.Set("Origin", "https://evil.example.com")
	if status, _ := ana.do(forged); status != http.StatusForbidden {
		t.Errorf("forged form: %d", status)
	}
	if n := slices.IndexFunc(audited(t, shop, o.Name), func(e auditv1.Event) bool {
		return e.ImpersonatedUser != nil && e.ImpersonatedUser.Username != apiserver.ManagerUser
	}); n >= 0 {
		t.Error("something was written before an allowed action")
	}
	if status, page := ana.get(act + "?target=" + o.Name); status != http.StatusOK || !strings.Contains(page, "Recorded as <b>oidc:ana</b>") || !strings.Contains(page, "It is not known what happens next: you (oidc:ana) cannot list") {
		t.Errorf("preview: %d %s", status, page)
	}
	if status, page := ana.post(act, form); status != http.StatusOK || !strings.Contains(page, "Continue of step tenth by oidc:ana") && !strings.Contains(page, "by oidc:ana") {
		t.Errorf("action: %d %s", status, page)
	}
	await.Nil(t, func(ctx context.Context) error {
		if err := kube.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if h := o.Status.LastHandledDecision; h == nil || h.ID != "web-1" || h.By != "oidc:ana" || h.Outcome != release.DecisionApplied {
			return fmt.Errorf("decision %+v", h)
		}
		return nil
	})
	i := slices.IndexFunc(audited(t, shop, o.Name), func(e auditv1.Event) bool {
		return e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "oidc:ana" && e.RequestURI != "" && !strings.Contains(e.RequestURI, "dryRun")
	})
	if i < 0 {
		t.Fatal("the audit log does not name the user")
	}
	if e := audited(t, shop, o.Name)[i]; e.User.Username != "system:serviceaccount:heighliner-system:heighliner-web" || e.Verb != "patch" || !slices.Contains(e.ImpersonatedUser.Groups, "oidc:"+team) {
		t.Errorf("audit %+v", e)
	}
	ana.want(service, "checked the logs")
}

// TestReservedIdentitiesCannotLogIn tests that no one can log in with a name or a group that is reserved for Kubernetes itself,
// whatever the provider reports.
func TestReservedIdentitiesCannotLogIn(t *testing.T) {
	t.Parallel()
	s := serve(t, install(t), func(s *site) []string {
		return append(withProvider(s), "--oidc-username-prefix", "-", "--oidc-groups-prefix", "-")
	})
	for name, claims := range map[string]map[string]any{
		"user": {"sub": "system:admin"}, "group": {"sub": "ana", "groups": []string{"system:masters"}}, "service account": {"sub": "system:serviceaccount:kube-system:default"},
	} {
		s.provider.Person(claims)
		p := s.browser()
		if status, page := p.get("/"); status != http.StatusForbidden || !strings.Contains(page, "is reserved for Kubernetes itself") {
			t.Errorf("%s: %d %s", name, status, page)
		}
		p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if status, _ := p.get("/"); status != http.StatusSeeOther {
			t.Errorf("%s has a session: %d", name, status)
		}
	}
	ana := s.browser()
	for _, h := range []string{"X-Forwarded-User", "X-Remote-User", "Impersonate-User"} {
		ana.header.Set(h, "ana")
	}
	ana.header.Set("Accept", "application/json")
	if status, page := ana.get("/"); status != http.StatusUnauthorized {
		t.Errorf("headers from a client are accepted: %d %s", status, page)
	}
}

// TestWithdrawnRights tests that an open page loses its data within seconds after a permission is withdrawn.
func TestWithdrawnRights(t *testing.T) {
	t.Parallel()
	config := install(t)
	namespace := kube.Namespace(t)
	canary(t, namespace, "shop")
	b := bind(t, namespace, "heighliner-view", rbacv1.UserKind, "oidc:dora-"+namespace)
	s := serve(t, config, withProvider)
	dora := s.login("dora-" + namespace)
	path := "/services/" + namespace + "/shop"
	dora.want(path, "waits for approval")
	_, page := dora.get(path)
	_, after, _ := strings.Cut(page, `data-state="`)
	state, _, _ := strings.Cut(after, `"`)
	r := dora.request(http.MethodGet, "/live?"+url.Values{"page": {path}, "state": {state}}.Encode(), nil)
	stream := &http.Client{Jar: dora.client.Jar, Transport: dora.client.Transport}
	response, err := stream.Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	defer response.Body.Close()
	if err := kube.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the page to disappear", func() bool { status, _ := dora.get(path); return status == http.StatusNotFound })
	if _, page := dora.get("/"); strings.Contains(page, ">shop<") {
		t.Error("the board still shows the service")
	}
	done := make(chan string, 1)
	go func() {
		raw, _ := io.ReadAll(response.Body)
		done <- string(raw)
	}()
	kube.Offer(t, namespace, "shop", "1.2.0", "1.1.0", "1.0.0")
	if got := await.Receive(t, "the end of the stream", done); !strings.Contains(got, "event: stale") || strings.Contains(got, "1.2.0") {
		t.Errorf("the stream ends with %s", got)
	}
}

// TestLimitedGroups tests that the ServiceAccount can impersonate only the configured groups, and that users act with these groups.
func TestLimitedGroups(t *testing.T) {
	t.Parallel()
	config := install(t)
	namespace := kube.Namespace(t)
	canary(t, namespace, "shop")
	for _, group := range []string{"oidc:named", "oidc:other"} {
		bind(t, namespace, "heighliner-view", rbacv1.GroupKind, group)
		bind(t, namespace, "heighliner-edit", rbacv1.GroupKind, group)
	}
	limited := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "limited-" + namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}},
		{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"oidc:named"}},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "web"}}
	for _, o := range []client.Object{
		limited, account,
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "read-" + namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "heighliner-web"}, Subjects: subjects},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "limited-" + namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: limited.Name}, Subjects: subjects},
	} {
		if err := kube.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := kube.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	config.BearerToken = request.Status.Token
	s := serve(t, config, func(s *site) []string { return append(withProvider(s), "--groups", "oidc:named") })
	pause := "/services/" + namespace + "/shop/acts/pause"
	ana := s.login("ana", "named", "other", "another")
	ana.want("/", ">shop<")
	if status, page := ana.post(pause, url.Values{}); status != http.StatusOK {
		t.Errorf("action of a member of a named group: %d %s", status, page)
	}
	bob := s.login("bob-"+namespace, "other")
	if status, page := bob.get("/"); status != http.StatusOK || strings.Contains(page, ">shop<") {
		t.Errorf("a group that is not configured has permissions: %d %s", status, page)
	}
}

// TestProxyOverTLS tests that headers are accepted only over connections with a client certificate that the proxies' certificate authority has
// signed, and that has an allowed name.
func TestProxyOverTLS(t *testing.T) {
	t.Parallel()
	config := install(t)
	namespace := kube.Namespace(t)
	canary(t, namespace, "shop")
	bind(t, namespace, "heighliner-view", rbacv1.GroupKind, "readers of "+namespace)
	proxies, others := newAuthority(t, "proxies"), newAuthority(t, "others")
	s := serve(t, config, func(s *site) []string {
		return []string{"--requestheader-client-ca-file", proxies.file(t), "--requestheader-allowed-names", "front"}
	})
	front := s.browser(proxies.sign(t, "front"))
	front.header.Set("X-Forwarded-User", "ana")
	front.header.Set("X-Forwarded-Groups", "others,readers of "+namespace)
	front.want("/", ">shop<")
	if _, page := front.get("/"); !strings.Contains(page, ">ana<") || strings.Contains(page, "Log out") {
		t.Errorf("%s", page)
	}
	for name, tc := range map[string]struct {
		edit   func(http.Header)
		status int
	}{
		"no user":      {func(h http.Header) { h.Del("X-Forwarded-User") }, 401},
		"system user":  {func(h http.Header) { h.Set("X-Forwarded-User", "system:admin") }, 403},
		"system group": {func(h http.Header) { h.Set("X-Forwarded-Groups", "a,system:masters") }, 403},
		"another user": {func(h http.Header) { h.Del("X-Forwarded-Groups") }, 200},
	} {
		p := s.browser(proxies.sign(t, "front"))
		p.header = front.header.Clone()
		tc.edit(p.header)
		if status, page := p.get("/"); status != tc.status || strings.Contains(page, ">shop<") {
			t.Errorf("%s: %d %s", name, status, page)
		}
	}
	back := s.browser(proxies.sign(t, "back"))
	back.header = front.header.Clone()
	if status, page := back.get("/"); status != http.StatusForbidden || strings.Contains(page, ">shop<") {
		t.Errorf("another name: %d %s", status, page)
	}
	for name, p := range map[string]*person{"no certificate": s.browser(), "another authority": s.browser(others.sign(t, "front"))} {
		p.header = front.header.Clone()
		response, err := p.client.Do(p.request(http.MethodGet, "/", nil))
		if err == nil {
			_ = response.Body.Close()
			t.Errorf("%s: %s", name, response.Status)
		}
	}
}

// TestAccount tests that the ServiceAccount may only read, create access reviews, and impersonate.
func TestAccount(t *testing.T) {
	t.Parallel()
	install(t)
	as := "system:serviceaccount:heighliner-system:heighliner-web"
	for question, want := range map[string]string{
		"list microservices.hlnr.io": "yes", "watch versionedmicroservices.hlnr.io": "yes", "list pods": "yes", "watch events.events.k8s.io": "yes", "create subjectaccessreviews.authorization.k8s.io": "yes", "impersonate users": "yes", "impersonate groups": "yes",
		"get secrets": "no", "list secrets": "no", "list configmaps": "no", "patch microservices.hlnr.io": "no", "patch versionedmicroservices.hlnr.io": "no", "create pods": "no", "get pods/log": "no", "create pods/exec": "no", "impersonate serviceaccounts": "no", "impersonate uids.authentication.k8s.io": "no", "*": "no",
	} {
		args := append([]string{"auth", "can-i", "-A", "--as", as}, strings.Fields(question)...)
		if question == "*" {
			args = append(args, "*")
		}
		out, _ := kube.Kubectl(t, "", args...)
		if got := strings.Fields(out); len(got) == 0 || !slices.Contains(got, want) {
			t.Errorf("%s: %s, want %s", question, out, want)
		}
	}
	manager := "system:serviceaccount:heighliner-system:heighliner"
	for _, question := range []string{"users", "groups"} {
		if out, _ := kube.Kubectl(t, "", "auth", "can-i", "-A", "--as", manager, "impersonate", question); !strings.Contains(out, "no") {
			t.Errorf("the manager may impersonate %s: %s", question, out)
		}
	}
}

// TestPod tests that the "restricted" Pod Security Standard allows the pod of the component.
func TestPod(t *testing.T) {
	t.Parallel()
	install(t)
	out, err := kube.Kubectl(t, "", "-n", "heighliner-system", "get", "deployment", "heighliner-web", "-o", "jsonpath={.spec.template.spec}")
	if err != nil {
		t.Fatal(err, out)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "heighliner-system", Name: "web"}}
	if err := json.Unmarshal([]byte(out), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	if err := kube.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Error(err)
	}
	c := pod.Spec.Containers[0]
	if !*c.SecurityContext.ReadOnlyRootFilesystem || pod.Spec.ServiceAccountName != "heighliner-web" || c.Args[0] != "web" {
		t.Errorf("%+v", c)
	}
	pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
	if err := kube.Client.Create(t.Context(), pod, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("the namespace accepts any pod: %v", err)
	}
}

// TestAPIServerAway tests that pages remain available during an outage of the API server and show the age of their data, and that
// pages and actions work again after the outage.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	config := install(t)
	namespace := kube.Namespace(t)
	canary(t, namespace, "shop")
	bind(t, namespace, "heighliner-view", rbacv1.UserKind, "oidc:erin")
	bind(t, namespace, "heighliner-edit", rbacv1.UserKind, "oidc:erin")
	var l apiserver.Line
	config.Dial = l.Dial
	s := serve(t, config, withProvider)
	erin := s.login("erin")
	path := "/services/" + namespace + "/shop"
	erin.want(path, "waits for approval")
	l.Set(true)
	erin.want(path, "the API server is not available")
	if status, page := erin.get(path); status != http.StatusOK || !strings.Contains(page, "Data as of") || !strings.Contains(page, "waits for approval") {
		t.Errorf("%d %s", status, page)
	}
	if status, page := erin.post(path+"/acts/pause", url.Values{}); status < 500 || strings.Contains(page, "kubeconfig") {
		t.Errorf("action: %d %s", status, page)
	}
	l.Set(false)
	await.Until(t, "the end of the outage", func() bool { _, page := erin.get(path); return !strings.Contains(page, "not available") })
	if status, page := erin.post(path+"/acts/pause", url.Values{}); status != http.StatusOK {
		t.Errorf("action after the outage: %d %s", status, page)
	}
}

// TestFlags tests that the server does not start with invalid flags, and that the error describes the fix.
func TestFlags(t *testing.T) {
	t.Parallel()
	good := []string{"--url", "https://board.example.com", "--oidc-issuer-url", "https://id.example.com", "--oidc-client-id", "board"}
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, tc := range map[string]struct {
		flags []string
		want  string
	}{
		"good":                    {good, ""},
		"key":                     {append(slices.Clone(good), "--session-key-file", file("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")), ""},
		"nothing":                 {nil, "--url"},
		"anonymous":               {good[:2], "anonymous users are not supported"},
		"both":                    {append(slices.Clone(good), "--requestheader-client-ca-file", "ca.crt"), "choose how users log in"},
		"HTTP":                    {append([]string{"--url", "http://board.example.com"}, good[2:]...), "https://"},
		"path":                    {append([]string{"--url", "https://example.com/board"}, good[2:]...), "without a path"},
		"no client":               {good[:4], "--oidc-client-id"},
		"proxy over HTTP":         {[]string{"--url", "https://board.example.com", "--requestheader-client-ca-file", "ca.crt"}, "--tls-cert-file"},
		"certificate without key": {append(slices.Clone(good), "--tls-cert-file", "a"), "must be set together"},
		"long session":            {append(slices.Clone(good), "--session-duration", "48h"), "--session-duration"},
		"short key":               {append(slices.Clone(good), "--session-key-file", file("short")), "openssl rand -base64 32"},
		"empty secret":            {append(slices.Clone(good), "--oidc-client-secret-file", file("\n")), "is empty"},
		"no secret":               {append(slices.Clone(good), "--oidc-client-secret-file", "/does/not/exist"), "--oidc-client-secret-file"},
		"no authority":            {append(slices.Clone(good), "--oidc-ca-file", file("none")), "--oidc-ca-file"},
	} {
		o := Options{Clock: clock.RealClock{}}
		f := pflag.NewFlagSet("web", pflag.ContinueOnError)
		o.addFlags(f)
		if err := f.Parse(tc.flags); err != nil {
			t.Fatal(name, err)
		}
		err := o.validate()
		if err == nil {
			_, err = o.identity()
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestHosts checks that the board accepts the Host header of browsers, which omit the default port.
func TestHosts(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"https://board.example.com":      {"board.example.com", "board.example.com:443"},
		"https://Board.example.com:443":  {"board.example.com", "board.example.com:443"},
		"https://board.example.com:8443": {"board.example.com:8443"},
		"https://[2001:db8::1]:443":      {"[2001:db8::1]", "[2001:db8::1]:443"},
	} {
		if got := (&Options{url: url}).hosts(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
