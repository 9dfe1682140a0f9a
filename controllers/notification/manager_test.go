package notification

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/test/await"
)

// manage runs a manager for one namespace until the test ends or the returned function is called.
func manage(t *testing.T, namespace string, own string) (stop func()) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	skip := true
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, own: {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Namespace: own, Outbound: allowed, GitHub: github.NewPool(github.Options{Outbound: allowed}), UserAgent: "heighliner/test", Metrics: prometheus.NewRegistry()}
	if err := SetupWithManager(mgr, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// server is a receiver that accepts messages or rejects them.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	code     int
	requests []request
}

type request struct {
	header http.Header
	body   string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{code: http.StatusOK}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Errorf("%s: %v", r.Method, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.code == http.StatusOK {
			s.requests = append(s.requests, request{r.Header.Clone(), string(body)})
		}
		w.WriteHeader(s.code)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) answer(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code = code
}

func (s *server) got() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// bodies waits until the last accepted body equals last, and returns all accepted bodies.
func (s *server) bodies(t *testing.T, last string) (out []string) {
	t.Helper()
	await.Nil(t, func(context.Context) error {
		out = nil
		for _, r := range s.got() {
			out = append(out, r.body)
		}
		if len(out) == 0 || out[len(out)-1] != last {
			return fmt.Errorf("the last message of %q, want %q", out, last)
		}
		return nil
	})
	return out
}

// write writes the Microservice to a namespace, in the state that it has at the given point in a history.
func write(t *testing.T, namespace string, m viewtest.Story) {
	t.Helper()
	ms := m.Input.Microservices[0].DeepCopy()
	ms.Namespace, ms.Labels = namespace, map[string]string{"tier": "web"}
	ms.Spec.UpdateStrategy.Manual, ms.Spec.Previews = nil, nil
	status := ms.Status
	var old v1alpha1.Microservice
	err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(ms), &old)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		if err := env.Client.Create(t.Context(), ms); err != nil {
			t.Fatal(err)
		}
	} else {
		old.Spec = ms.Spec
		if err := env.Client.Update(t.Context(), &old); err != nil {
			t.Fatal(err)
		}
		ms = &old
	}
	ms.Status = status
	if err := env.Client.Status().Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
}

// ready waits until the Ready condition of a policy has the given reason, and returns the status of the
// policy.
func ready(t *testing.T, p *v1alpha1.NotificationPolicy, reason string) v1alpha1.NotificationPolicyStatus {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != reason || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("Ready is %+v, want %s", c, reason)
		}
		return nil
	})
	return p.Status
}

// policyOf creates a policy with a template that renders titles.
func policyOf(t *testing.T, namespace, address string, change func(*v1alpha1.NotificationPolicy)) *v1alpha1.NotificationPolicy {
	t.Helper()
	p := &v1alpha1.NotificationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"}}
	p.Spec.Receivers = []v1alpha1.NotificationReceiver{{Name: "chat", Type: v1alpha1.ReceiverWebhook, URL: address, Template: "{{.title}}", ContentType: "text/plain"}}
	if change != nil {
		change(p)
	}
	if err := env.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// at returns the first point in a history at which a version's release has the given status.
func at(t *testing.T, story, version string, status v1alpha1.ReleaseStatus) viewtest.Story {
	t.Helper()
	for _, m := range viewtest.Moments(story, "shop") {
		for _, g := range m.Input.Microservices[0].Status.ReleaseGroups {
			for _, r := range g.Releases {
				if r.SemVer.Version == version && r.Status == status {
					return m
				}
			}
		}
	}
	t.Fatalf("%s of %s is never %s", version, story, status)
	return viewtest.Story{}
}

// TestNotify checks that signed messages about a rollout reach a real server, even after a restart of the
// manager and while another receiver fails, that no message is sent twice, and that the status records the
// messages.
func TestNotify(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	chat, bus := newServer(t), newServer(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bus"}, StringData: map[string]string{"url": bus.URL + "/in?secret=1", "token": "t0ken", "key": "k3y"}}
	if err := env.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	write(t, namespace, at(t, "approval", "1.0.0", v1alpha1.ReleaseActive))
	stop := manage(t, namespace, namespace)
	p := policyOf(t, namespace, chat.URL, func(p *v1alpha1.NotificationPolicy) {
		p.Spec.Receivers = append(p.Spec.Receivers, v1alpha1.NotificationReceiver{Name: "bus", Type: v1alpha1.ReceiverCloudEvents, SecretRef: &v1alpha1.Reference{Name: "bus"}})
	})
	ready(t, p, "Succeeded")

	write(t, namespace, at(t, "approval", "1.1.0", v1alpha1.ReleasePending))
	chat.bodies(t, "shop 1.1.0 started, 1.0.0 is active")
	await.Until(t, "the bus to have both messages", func() bool { return len(bus.got()) == 2 })
	story, _ := viewtest.Play("approval", "shop")
	bus.answer(http.StatusBadGateway)
	write(t, namespace, story)
	chat.bodies(t, "shop 1.1.0 waits for approval at 10% (step 1 of 2)")
	s := ready(t, p, reasonDeliveryFailing)
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, `receiver "bus": HTTP 502`) || strings.Contains(c.Message, "secret") {
		t.Errorf("Ready is %+v", c)
	}
	// The status also records that the chat accepted the message. Otherwise, the next manager would send it
	// again.
	await.Nil(t, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		for _, d := range p.Status.Deliveries {
			if d.Receiver == "chat" && d.Version == "1.1.0" && d.Event == v1alpha1.NotifyWaiting {
				return nil
			}
		}
		return fmt.Errorf("status %+v", p.Status)
	})
	stop()

	bus.answer(http.StatusOK)
	stop = manage(t, namespace, namespace)
	ready(t, p, "Succeeded")
	end := story
	end.Input.Microservices[0].Status.ReleaseGroups[0].Rollout = nil
	for i := range end.Input.Microservices[0].Status.ReleaseGroups[0].Releases {
		row := &end.Input.Microservices[0].Status.ReleaseGroups[0].Releases[i]
		if row.SemVer.Version == "1.1.0" {
			row.Status, row.Reason, row.LastTransitionTime, row.Weight = v1alpha1.ReleaseError, "CrashLoopBackOff", metav1.NewMicroTime(time.Now()), 0
		}
	}
	write(t, namespace, end)
	const last = "shop 1.1.0 was rolled back: CrashLoopBackOff"
	want := []string{"shop 1.0.0 is active", "shop 1.1.0 started, 1.0.0 is active", "shop 1.1.0 waits for approval at 10% (step 1 of 2)", last}
	if diff := cmp.Diff(want, chat.bodies(t, last)); diff != "" {
		t.Error(diff)
	}
	var types []string
	await.Nil(t, func(context.Context) error {
		types = nil
		for _, r := range bus.got() {
			var e struct{ Type, ID string }
			if err := json.Unmarshal([]byte(r.body), &e); err != nil {
				return err
			}
			types = append(types, e.Type)
			h := r.header
			if h.Get("Authorization") != "Bearer t0ken" || h.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" || h.Get(hook.HeaderDelivery) != e.ID ||
				h.Get(hook.HeaderSignature) != hook.Sign([]byte("k3y"), h.Get(hook.HeaderTimestamp), []byte(r.body)) {
				t.Errorf("headers %v", h)
			}
		}
		if len(types) < 4 {
			return fmt.Errorf("got %q", types)
		}
		return nil
	})
	own := func(event string) string { return "dev.cdeventsx.heighliner-release." + event + ".0.1.0" }
	if diff := cmp.Diff([]string{"dev.cdevents.service.deployed.0.2.0", own("started"), own("waiting"), own("rolledback")}, types); diff != "" {
		t.Error(diff)
	}
	await.Nil(t, func(ctx context.Context) error {
		s := ready(t, p, "Succeeded")
		ended := 0
		for _, d := range s.Deliveries {
			if d.Version == "1.1.0" && d.Event == v1alpha1.NotifyRolledBack {
				ended++
			}
		}
		if len(s.Deliveries) != 4 || ended != 2 || s.Pending != 0 || s.LastDeliveryTime == nil {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})

	// After another restart, no message is sent again.
	stop()
	version := p.ResourceVersion
	manage(t, namespace, namespace)
	// Another policy reports the active release. Its message comes after the first reconcile of the older policy.
	policyOf(t, namespace, chat.URL, func(p *v1alpha1.NotificationPolicy) {
		p.Name, p.Spec.Receivers[0].Template = "other", "other: {{.title}}"
	})
	chat.bodies(t, "other: shop 1.0.0 is active")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || p.ResourceVersion != version || len(chat.got()) != 5 {
		t.Errorf("after a restart: error %v, resourceVersion %s, previously %s; %d messages, want 5", err, p.ResourceVersion, version, len(chat.got()))
	}
	out, err := env.Kubectl(t, "", "get", "ntfp", "team", "-n", namespace)
	if row := strings.Fields(strings.Split(out, "\n")[1]); err != nil || len(row) != 6 || row[1] != "0" || row[3] != "True" || row[4] != "Succeeded" {
		t.Errorf("kubectl get ntfp prints\n%s, %v", out, err)
	}
}

// TestStalled checks that the Stalled condition reports an error that a user must correct, and that nothing is
// sent.
func TestStalled(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	manage(t, namespace, namespace+"-manager")
	chat := newServer(t)
	story, _ := viewtest.Play("approval", "shop")
	write(t, namespace, story)
	for reason, change := range map[string]func(*v1alpha1.NotificationPolicy){
		reasonInvalidSelector: func(p *v1alpha1.NotificationPolicy) {
			p.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		},
		reasonNamespaceSelector: func(p *v1alpha1.NotificationPolicy) { p.Spec.NamespaceSelector = &metav1.LabelSelector{} },
		reasonInvalidTemplate:   func(p *v1alpha1.NotificationPolicy) { p.Spec.Receivers[0].Template = "{{range 9}}{{end}}" },
		reasonSuspended:         func(p *v1alpha1.NotificationPolicy) { p.Spec.Suspend = true },
	} {
		p := policyOf(t, namespace, chat.URL, func(p *v1alpha1.NotificationPolicy) { p.Name = strings.ToLower(reason); change(p) })
		s := ready(t, p, reason)
		if got := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionStalled); got != (reason != reasonSuspended) {
			t.Errorf("%s: conditions %+v", reason, s.Conditions)
		}
	}
	p := policyOf(t, namespace, "http://169.254.169.254/latest", nil)
	ready(t, p, reasonDeliveryFailing)
	if got := chat.got(); len(got) > 0 {
		t.Errorf("sent %+v", got)
	}
}

// TestNamespaceSelector checks that a policy in the manager's namespace reports the releases in the namespaces
// that the policy selects, and in no other namespace.
func TestNamespaceSelector(t *testing.T) {
	t.Parallel()
	namespace, own := env.Namespace(t), env.Namespace(t)
	chat := newServer(t)
	manage(t, namespace, own)
	p := policyOf(t, own, chat.URL, func(p *v1alpha1.NotificationPolicy) {
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
		p.Spec.Receivers[0].Template = "{{.namespace}}: {{.title}}"
	})
	ready(t, p, "Succeeded")
	story, _ := viewtest.Play("approval", "shop")
	write(t, own, story)
	write(t, namespace, story)
	if got := chat.bodies(t, namespace+": shop 1.1.0 waits for approval at 10% (step 1 of 2)"); len(got) != 2 || got[0] != namespace+": shop 1.0.0 is active" {
		t.Errorf("got %q", got)
	}
}
