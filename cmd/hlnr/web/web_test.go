package web

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/manager"
)

var kube *manager.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(manager.Run(m, &kube))
}

// reader is a user with a browser and a session on the board.
type reader struct {
	*testing.T
	http.Client
	address string
}

// open runs hlnr web for a user, and opens the URL that it prints.
func open(t *testing.T, namespace string, flags ...string) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var out, messages await.Buffer
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &messages})
	code := make(chan cli.Code, 1)
	go func() {
		code <- cli.Run(ctx, f, append([]string{"web", "--port", "0", "--kubeconfig", kube.Kubeconfig(), "-n", namespace}, flags...), NewCommand)
	}()
	t.Cleanup(func() {
		cancel()
		if got := await.Receive(t, "hlnr web to exit", code); got != cli.ExitInterrupted {
			t.Errorf("exit code %d: %s", got, messages.String())
		}
	})
	printed := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/\?token=\S+`)
	await.Until(t, "the URL", func() bool { return printed.MatchString(out.String()) })
	found := printed.FindStringSubmatch(out.String())
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{T: t, address: found[1]}
	r.Jar = jar
	if status, page := r.page(strings.TrimPrefix(found[0], found[1])); status != http.StatusOK || !strings.Contains(page, "Heighliner") {
		t.Fatalf("%d %s", status, page)
	}
	return r
}

func (r *reader) do(request *http.Request) (int, string) {
	r.Helper()
	response, err := r.Client.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (r *reader) page(path string) (int, string) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.address+path, nil)
	if err != nil {
		r.Fatal(err)
	}
	return r.do(request)
}

// send sends a form. The origin is the address of the board, or the address of another site.
func (r *reader) send(path, origin string, form url.Values) (int, string) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.address+path, strings.NewReader(form.Encode()))
	if err != nil {
		r.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", origin)
	return r.do(request)
}

// want waits until a page contains the given text.
func (r *reader) want(path, text string) {
	r.Helper()
	last := ""
	await.Until(r, path+" to show "+text, func() bool {
		_, last = r.page(path)
		return strings.Contains(last, text)
	})
}

// TestBoard checks that a reader sees a waiting canary and the effects of an approval, approves with a reason, and sees the
// result. The board shows rejections by the API server.
func TestBoard(t *testing.T) {
	t.Parallel()
	namespace := kube.Namespace(t)
	kube.Microservice(t, namespace, "shop", v1alpha1.CanaryStep{Name: "tenth", Weight: 10, Approval: &v1alpha1.CanaryApproval{}}, v1alpha1.CanaryStep{Name: "half", Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "1h"}})
	kube.Offer(t, namespace, "shop", "1.0.0")
	kube.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
	r := open(t, namespace, "--as", "ana", "--as-group", "system:masters")
	r.want("/", "active")
	kube.Offer(t, namespace, "shop", "1.1.0", "1.0.0")
	o := kube.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseCanary)
	r.want("/", "waits for approval since")
	service := "/services/" + namespace + "/shop"
	form := url.Values{"target": {o.Name}, "reason": {"checked the logs"}, "id": {"web-1"}}

	if status, page := r.page(service + "/acts/continue?target=" + o.Name); status != http.StatusOK || !strings.Contains(page, "Recorded as <b>ana</b>") || !strings.Contains(page, "hlnr --kubeconfig "+kube.Kubeconfig()+" continue -n "+namespace+" shop "+o.Name) {
		t.Errorf("%d %s", status, page)
	}
	if status, _ := r.send(service+"/acts/continue", "https://evil.example.com", form); status != http.StatusForbidden {
		t.Errorf("forged form: %d", status)
	}
	if status, page := r.send(service+"/acts/continue", r.address, url.Values{"target": {o.Name}, "reason": {strings.Repeat("long ", 60)}}); status != http.StatusBadRequest || !strings.Contains(page, "Too long") {
		t.Errorf("long reason: %d %s", status, page)
	}
	if status, page := r.send(service+"/acts/retry", r.address, url.Values{"target": {o.Name}}); status != http.StatusConflict || !strings.Contains(page, "is canary") {
		t.Errorf("impossible action: %d %s", status, page)
	}
	if status, page := r.send(service+"/acts/continue", r.address, form); status != http.StatusOK || !strings.Contains(page, "shop 1.1.0: Continue of step tenth by ana") {
		t.Errorf("action: %d %s", status, page)
	}
	await.Nil(t, func(ctx context.Context) error {
		if err := kube.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if h := o.Status.LastHandledDecision; h == nil || h.ID != "web-1" || h.By != "ana" || h.Outcome != release.DecisionApplied {
			return io.EOF
		}
		return nil
	})
	r.want(service, "checked the logs")
	r.want("/", "step 2 of 2 (50%)")
	for _, verb := range []string{"pause", "resume"} {
		if status, page := r.send(service+"/acts/"+verb, r.address, nil); status != http.StatusOK {
			t.Errorf("%s: %d %s", verb, status, page)
		}
	}
	if err := kube.Client.Delete(t.Context(), &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the page to disappear", func() bool { status, _ := r.page(service); return status == http.StatusNotFound })
}

// TestFreeze checks that a reader can freeze the namespace with the form, sees the waiting releases, and can end the freeze.
func TestFreeze(t *testing.T) {
	t.Parallel()
	namespace := kube.Namespace(t)
	kube.Microservice(t, namespace, "shop")
	kube.Offer(t, namespace, "shop", "1.0.0")
	kube.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
	r := open(t, namespace, "--as", "ana", "--as-group", "system:masters")
	r.want("/freezes", "Nothing is frozen")
	form := url.Values{"namespace": {namespace}, "until": {"4h"}, "reason": {"trade fair"}, "name": {"fair"}}
	if status, page := r.page("/freezes/freeze?" + form.Encode()); status != http.StatusOK || !strings.Contains(page, namespace+"/shop is frozen") || !strings.Contains(page, "hlnr --kubeconfig "+kube.Kubeconfig()+" freeze "+namespace+" --name fair --until 4h --reason &#39;trade fair&#39;") {
		t.Errorf("%d %s", status, page)
	}
	if status, _ := r.send("/freezes/freeze", "https://evil.example.com", form); status != http.StatusForbidden {
		t.Errorf("forged form: %d", status)
	}
	if status, page := r.send("/freezes/freeze", r.address, form); status != http.StatusOK || !strings.Contains(page, "namespace "+namespace+": frozen until") {
		t.Errorf("%d %s", status, page)
	}
	r.want("/", "by ana: &#34;trade fair&#34;")
	if status, page := r.send("/freezes/freeze", r.address, form); status != http.StatusConflict || !strings.Contains(page, "choose another --name") {
		t.Errorf("a second freeze with that name: %d %s", status, page)
	}
	kube.Frozen(t, namespace, "fair")
	kube.Offer(t, namespace, "shop", "1.1.0", "1.0.0")
	r.want("/", "1.1.0 is waiting, frozen until")
	r.want("/freezes", "1 waits for it to end")
	if status, page := r.send("/freezes/thaw", r.address, url.Values{"namespace": {namespace}, "name": {"fair"}}); status != http.StatusOK || !strings.Contains(page, "is deleted; waiting releases continue") {
		t.Errorf("%d %s", status, page)
	}
	kube.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseActive)
	r.want("/freezes", "Nothing is frozen")
}

// TestRights checks that a reader with only read access sees no buttons and cannot take actions, and sees which kinds they are
// not allowed to read.
func TestRights(t *testing.T) {
	t.Parallel()
	namespace := kube.Namespace(t)
	kube.Microservice(t, namespace, "shop")
	kube.Offer(t, namespace, "shop", "1.0.0")
	kube.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "read"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"hlnr.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "read"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "read"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "bob"}}},
	} {
		if err := kube.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	await.Nil(t, func(ctx context.Context) error { // The authorizer applies the role with a delay.
		return kube.As(t, "bob").List(ctx, &v1alpha1.MicroserviceList{}, client.InNamespace(namespace))
	})
	r := open(t, namespace, "--as", "bob")
	service := "/services/" + namespace + "/shop"
	r.want(service, "deployed by policy")
	_, page := r.page(service)
	for _, missing := range []string{"cannot list pods", "cannot list events"} {
		if !strings.Contains(page, missing) {
			t.Errorf("no %q in %s", missing, page)
		}
	}
	if strings.Contains(page, "data-act") {
		t.Error("buttons for a reader with only read access")
	}
	if status, _ := r.send(service+"/acts/pause", r.address, nil); status != http.StatusForbidden {
		t.Errorf("action without the permission: %d", status)
	}
	if status, page := r.send("/freezes/freeze", r.address, url.Values{"namespace": {namespace}, "until": {"4h"}, "reason": {"fair"}}); status != http.StatusForbidden || !strings.Contains(page, "heighliner-freeze") {
		t.Errorf("freeze without the permission: %d %s", status, page)
	}
}
