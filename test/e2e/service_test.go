//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// These are names in the namespace of each test.
const (
	appName = "app"
	// slug is the slug of the only group, because of groupBy All.
	slug = "release"
	// interval is the interval of the ImagePolicies, which is the shortest allowed interval.
	interval = 5 * time.Second
	// patience is the time limit of a single test step.
	patience = 3 * time.Minute
	// soon is the time limit of steps that take seconds on an idle machine, as docs/results.md shows. A step
	// exceeds this limit only because of a fault.
	soon = 30 * time.Second
)

// service is an application under test: a namespace with an ImagePolicy, a Microservice, and a NetworkPolicy
// with the same name, and the images of the application.
type service struct {
	t          *testing.T
	name       string
	namespace  string
	app        string // The name of its objects.
	repository string
	images     *v1alpha1.ImagePolicy
	ms         *v1alpha1.Microservice
	network    *v1alpha1.NetworkPolicy
}

// newService describes a service, and cleans up after an earlier test. start creates the service.
func newService(t *testing.T, name string) *service {
	t.Helper()
	s := describe(t, name, "e2e-"+name, appName)
	s.clear(t.Context())
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}})
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		if err := env.Client.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete namespace %s: %v", s.namespace, err)
		}
	})
	return s
}

// sibling describes another service in the namespace, with its own domain and images. start creates the service.
func (s *service) sibling(app string) *service {
	other := describe(s.t, s.name+"-"+app, s.namespace, app)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			other.dump()
		}
	})
	return other
}

// describe returns the objects of a service, without creating them.
func describe(t *testing.T, name, namespace, app string) *service {
	s := &service{t: t, name: name, namespace: namespace, app: app, repository: fmt.Sprintf("e2e/%s-%x", name, time.Now().UnixNano())}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: app}
	s.images = &v1alpha1.ImagePolicy{ObjectMeta: meta, Spec: v1alpha1.ImagePolicySpec{
		Image: env.RegistryInternal + "/" + s.repository, Interval: v1alpha1.DurationOf(interval),
	}}
	s.ms = &v1alpha1.Microservice{ObjectMeta: meta, Spec: v1alpha1.MicroserviceSpec{
		ImagePolicyRef: v1alpha1.Reference{Name: app},
		Template:       corev1.PodTemplateSpec{Spec: podSpec()},
		Availability:   v1alpha1.Availability{Replicas: 2},
		UpdateStrategy: v1alpha1.UpdateStrategy{ProgressDeadlineSeconds: 30, DrainDelay: "5s"},
	}}
	target := intstr.FromInt32(8080)
	s.network = &v1alpha1.NetworkPolicy{ObjectMeta: meta, Spec: v1alpha1.NetworkPolicySpec{
		Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: &target}},
		Provider: gateway("public", "infra"),
		Domains:  []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}." + name + ".localhost"}},
	}}
	return s
}

func gateway(name, namespace string) *v1alpha1.NetworkProvider {
	return &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: name, Namespace: namespace}}}}
}

// podSpec returns the pod spec of the sample application, which complies with the restricted Pod Security Standard.
func podSpec() corev1.PodSpec {
	grace, user, yes, no := int64(10), int64(65532), true, false
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:  appName,
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("http")}},
				PeriodSeconds: 1,
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

// steps sets the canary steps of the Microservice.
func (s *service) steps(steps ...v1alpha1.CanaryStep) *service {
	s.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: steps}
	return s
}

// pausing returns a step that waits for a duration. asking returns a step that waits for a user.
func pausing(weight int32, d time.Duration) v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{Weight: weight, Pause: &v1alpha1.CanaryPause{Duration: v1alpha1.DurationOf(d)}}
}

func asking(name string, weight int32) v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{Name: name, Weight: weight, Approval: &v1alpha1.CanaryApproval{}}
}

// start creates the objects, with a first version that becomes active.
func (s *service) start(version string) *service {
	s.t.Helper()
	s.push(version)
	s.create(s.images, s.ms, s.network)
	s.active(version)
	return s
}

func (s *service) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		if err := env.Client.Create(s.t.Context(), o); err != nil {
			s.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

func (s *service) clear(ctx context.Context) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := env.Client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	wait(s.t, "namespace "+s.namespace+" to be deleted", func(ctx context.Context) (bool, string, error) { return gone(ctx, ns) })
}

func gone(ctx context.Context, o client.Object) (bool, string, error) {
	err := env.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	return apierrors.IsNotFound(err), "still exists", client.IgnoreNotFound(err)
}

// wait waits for a condition, and fails the test if the condition is not met within patience.
func wait(t *testing.T, what string, poll harness.Poll) {
	t.Helper()
	within(t, patience, what, poll)
}

// within waits for a condition, and fails the test if the condition is not met within the given time.
func within(t *testing.T, limit time.Duration, what string, poll harness.Poll) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := (harness.Waiter{Every: 100 * time.Millisecond}).For(ctx, what, poll); err != nil {
		t.Fatal(err)
	}
}

// push builds and pushes a version's image. The variables are pairs of a name and a value.
func (s *service) push(version string, variables ...string) {
	s.t.Helper()
	all := map[string]string{"VERSION": version}
	for i := 0; i+1 < len(variables); i += 2 {
		all[variables[i]] = variables[i+1]
	}
	s.pushImage(harness.Image{Tag: version, Env: all})
}

func (s *service) pushImage(i harness.Image) (digest string) {
	s.t.Helper()
	i.Registry, i.Repository, i.Binary = env.Registry, s.repository, sampleApp()
	digest, err := i.Push(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return digest
}

// key returns the key of the three objects.
func (s *service) key() client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: s.app}
}

// host returns the host of the group's domain.
func (s *service) host() string { return slug + "." + s.name + ".localhost" }

// change updates an object as a user would, and retries after conflicts.
func change[T client.Object](t *testing.T, o T, how func(T)) {
	t.Helper()
	wait(t, fmt.Sprintf("%T %s to be changed", o, o.GetName()), func(ctx context.Context) (bool, string, error) {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, "", err
		}
		how(o)
		err := env.Client.Update(ctx, o)
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return false, "", harness.Permanent(err)
		}
		return err == nil, "", err
	})
}

// until waits for a state of the Microservice.
func (s *service) until(what string, seen func(*v1alpha1.Microservice) (bool, string)) {
	s.t.Helper()
	wait(s.t, what, func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		if err := env.Client.Get(ctx, s.key(), &ms); err != nil {
			return false, "", err
		}
		done, detail := seen(&ms)
		return done, detail, nil
	})
}

// group returns the only group of the service, or nil.
func group(ms *v1alpha1.Microservice) *v1alpha1.ReleaseGroup {
	for i := range ms.Status.ReleaseGroups {
		if ms.Status.ReleaseGroups[i].Slug == slug {
			return &ms.Status.ReleaseGroups[i]
		}
	}
	return nil
}

// row returns the newest release of a version in the status, in any group, or nil.
func row(ms *v1alpha1.Microservice, version string) *v1alpha1.Release {
	for _, g := range ms.Status.ReleaseGroups {
		for i := range g.Releases {
			if g.Releases[i].SemVer.Version == version {
				return &g.Releases[i]
			}
		}
	}
	return nil
}

// release returns a version's release, which must exist.
func (s *service) release(version string) v1alpha1.Release {
	s.t.Helper()
	var ms v1alpha1.Microservice
	if err := env.Client.Get(s.t.Context(), s.key(), &ms); err != nil {
		s.t.Fatal(err)
	}
	r := row(&ms, version)
	if r == nil {
		s.t.Fatalf("version %s is not in the status", version)
	}
	return *r
}

// status waits until a version has the given status.
func (s *service) status(version string, want v1alpha1.ReleaseStatus) v1alpha1.Release {
	s.t.Helper()
	var got v1alpha1.Release
	s.until(fmt.Sprintf("%s to be %s", version, want), func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, version)
		if r == nil {
			return false, "not observed yet"
		}
		got = *r
		return r.Status == want, fmt.Sprintf("%s (%s) at %d%%", r.Status, r.Reason, r.Weight)
	})
	return got
}

// active waits until a version is active and available, nothing is in progress, and the routes are programmed.
func (s *service) active(version string) {
	s.t.Helper()
	s.until(version+" to be active", func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, version)
		if r == nil {
			return false, "not observed yet"
		}
		return r.Status == v1alpha1.ReleaseActive && r.Available && group(ms).Rollout == nil, fmt.Sprintf("%s (%s) at %d%%", r.Status, r.Reason, r.Weight)
	})
	s.confirmed()
}

// weight waits until a version has the given weight and the routes are programmed with this weight.
func (s *service) weight(version string, want int32) {
	s.t.Helper()
	s.until(fmt.Sprintf("%s to get %d%%", version, want), func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, version)
		if r == nil {
			return false, "not observed yet"
		}
		return r.Weight == want, fmt.Sprintf("%s (%s) at %d%%", r.Status, r.Reason, r.Weight)
	})
	s.confirmed()
}

// confirmed waits until the NetworkPolicy has confirmed the current revision.
func (s *service) confirmed() {
	s.t.Helper()
	wait(s.t, "the routes to be confirmed", func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		var p v1alpha1.NetworkPolicy
		if err := env.Client.Get(ctx, s.key(), &ms); err != nil {
			return false, "", err
		}
		if err := env.Client.Get(ctx, s.key(), &p); err != nil {
			return false, "", err
		}
		g := group(&ms)
		for _, report := range p.Status.Groups {
			if g != nil && report.Slug == slug {
				return report.Revision == g.TrafficRevision, fmt.Sprintf("revision %d of %d: %s", report.Revision, g.TrafficRevision, report.Message), nil
			}
		}
		return false, "no report", nil
	})
}

// decide records a decision about a release, as a user would.
func (s *service) decide(version string, action v1alpha1.DecisionAction, step string) {
	s.t.Helper()
	id := fmt.Sprintf("%s-%d", action, time.Now().UnixNano())
	vsvc := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.release(version).VersionedMicroservice}}
	change(s.t, vsvc, func(v *v1alpha1.VersionedMicroservice) {
		v.Spec.Decision = &v1alpha1.Decision{Action: action, ID: id, Step: step}
		if v.Annotations == nil {
			v.Annotations = map[string]string{}
		}
		v.Annotations[v1alpha1.AnnotationDecidedBy] = env.user
	})
	s.until("the decision "+string(action)+" to be handled", func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, version)
		if r == nil || r.Decision == nil || r.Decision.ID != id {
			return false, "not handled"
		}
		if r.Decision.Outcome != "Applied" {
			s.t.Fatalf("decision %s on %s: %s", action, version, r.Decision.Outcome)
		}
		return true, ""
	})
}

// pin pins the group to a version. If the version is empty, the function removes the pin.
func (s *service) pin(version string) {
	s.t.Helper()
	change(s.t, s.ms, func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Manual = nil
		if version != "" {
			ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: version}}
		}
	})
}

// pods returns a version's pods that are not terminating.
func (s *service) pods(ctx context.Context, version string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := env.Client.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelRelease: s.release(version).VersionedMicroservice})
	var pods []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods, err
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// web returns a client that connects to the gateway, regardless of the host.
func web() *http.Client {
	dialer := &net.Dialer{Timeout: time.Second}
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, env.Gateway)
		},
	}}
}

// answers waits until the gateway serves a host.
func answers(t *testing.T, host string) {
	t.Helper()
	wait(t, host+" to answer", func(ctx context.Context) (bool, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
		if err != nil {
			return false, "", harness.Permanent(err)
		}
		res, err := web().Do(req)
		if err != nil {
			return false, "", err
		}
		return res.StatusCode == http.StatusOK, res.Status, res.Body.Close()
	})
}

// load starts sending requests to the service's domain when the domain responds.
func (s *service) load(rate float64, noKeepAlive bool) *harness.Load {
	s.t.Helper()
	return s.loadOn(s.host(), rate, noKeepAlive)
}

func (s *service) loadOn(host string, rate float64, noKeepAlive bool) *harness.Load {
	s.t.Helper()
	answers(s.t, host)
	l, err := harness.StartLoad(context.Background(), harness.LoadConfig{
		Gateway: env.Gateway, Host: host, Rate: rate, Duration: time.Hour, NoKeepAlive: noKeepAlive,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Stop() })
	return l
}

// sees waits until clients see only this version.
func (s *service) sees(l *harness.Load, version string) {
	s.t.Helper()
	wait(s.t, "clients to see "+version+" only", func(context.Context) (bool, string, error) {
		f := l.Recent(time.Second).Split().Fraction(version)
		return f == 1, fmt.Sprintf("%.0f%%", f*100), nil
	})
}

// serves sends requests for the given time, and fails the test if a request fails.
func (s *service) serves(l *harness.Load, d time.Duration) {
	s.t.Helper()
	before := l.Report().Total
	after := time.Now().Add(d)
	wait(s.t, "requests to be answered", func(context.Context) (bool, string, error) {
		return time.Now().After(after) && l.Report().Total.Answered > before.Answered, "", nil
	})
	if now := l.Report(); now.Total.Failed != before.Failed {
		s.t.Errorf("%d requests failed: %v", now.Total.Failed-before.Failed, now.Failures)
	}
}

// verdict stops loads, prints their table, and fails the test if a request failed.
func verdict(t *testing.T, loads ...*harness.Load) {
	t.Helper()
	var reports []harness.Report
	sent, failed := 0, 0
	for _, l := range loads {
		r := l.Stop()
		reports = append(reports, r)
		sent += r.Total.Sent
		failed += r.Total.Failed
	}
	if err := harness.WriteTable(os.Stdout, reports...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d requests failed", failed, sent)
	if failed > 0 || sent == 0 {
		t.Errorf("%d of %d requests failed", failed, sent)
	}
}

// dump prints the objects of a failed test.
func (s *service) dump() {
	ctx := context.Background()
	var ms v1alpha1.Microservice
	if err := env.Client.Get(ctx, s.key(), &ms); err == nil {
		for _, c := range ms.Status.Conditions {
			s.t.Logf("msvc %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		for _, g := range ms.Status.ReleaseGroups {
			s.t.Logf("group %s revision %d rollout %+v", g.Slug, g.TrafficRevision, g.Rollout)
			for _, r := range g.Releases {
				s.t.Logf("  %s %s weight %d available %t reason %s", r.SemVer.Version, r.Status, r.Weight, r.Available, r.Reason)
			}
		}
	}
	var p v1alpha1.NetworkPolicy
	if err := env.Client.Get(ctx, s.key(), &p); err == nil {
		for _, c := range p.Status.Conditions {
			s.t.Logf("hnp %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		s.t.Logf("hnp groups %+v", p.Status.Groups)
	}
	var imgp v1alpha1.ImagePolicy
	if err := env.Client.Get(ctx, s.key(), &imgp); err == nil {
		for _, c := range imgp.Status.Conditions {
			s.t.Logf("imgp %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}
