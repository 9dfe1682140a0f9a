package access

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/web"
)

// server replaces the API server. It allows the permissions that are listed in the "may" field in the form "user verb resource namespace", with "*"
// for all namespaces.
type server struct {
	mu    sync.Mutex
	may   []string
	down  error
	asked []string
	// hold blocks reviews until it is closed.
	hold chan struct{}
}

func (s *server) review(ctx context.Context, r *authorizationv1.SubjectAccessReview) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := r.Spec.ResourceAttributes
	q := fmt.Sprintf("%s %s %s ", r.Spec.User, x.Verb, x.Resource)
	s.asked = append(s.asked, q+x.Namespace)
	if !slices.Contains(r.Spec.Groups, authenticated) {
		return errors.New("the group of all users is missing")
	}
	r.Status.Allowed = slices.Contains(s.may, q+"*") || x.Namespace != "" && slices.Contains(s.may, q+x.Namespace)
	return s.down
}

func (s *server) set(down error, may ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.may, s.down = may, down
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func start(may ...string) (*Access, *server, *clocktesting.FakeClock) {
	s, c := &server{may: may}, clocktesting.NewFakeClock(time.Unix(1e9, 0))
	return New(Options{Review: s.review, Clock: c}), s, c
}

var ana = web.Reader{User: "ana", Groups: []string{"team", "ops"}}

// TestAges checks that an answer is used for a few seconds, that the withdrawal of a permission takes effect after that, and that permissions remain
// for several minutes during an outage.
func TestAges(t *testing.T) {
	t.Parallel()
	a, s, c := start("ana list pods shop")
	ask := func() (bool, error) { return a.Allowed(t.Context(), ana, "shop", "list", "", "pods") }
	want := func(what string, allowed bool, asked int, fails bool) {
		t.Helper()
		got, err := ask()
		if got != allowed || (err != nil) != fails || s.count() != asked {
			t.Errorf("%s: %t, %v after %d questions, want %t after %d", what, got, err, s.count(), allowed, asked)
		}
	}
	want("first", true, 1, false)
	want("again", true, 1, false)
	c.Step(allowedAge)
	want("old", true, 2, false)
	s.set(nil)
	c.Step(allowedAge)
	want("withdrawn", false, 3, false)
	c.Step(allowedAge)
	want("denied", false, 3, false)
	s.set(nil, "ana list pods *")
	c.Step(deniedAge)
	want("granted", true, 4, false)
	s.set(errors.New("connection refused"), "ana list pods *")
	c.Step(allowedAge)
	want("outage", true, 5, false)
	want("outage, again", true, 5, false)
	c.Step(pause)
	want("outage, later", true, 6, false)
	c.Step(outageAge)
	want("long outage", false, 7, true)
	want("long outage, again", false, 7, true)
	s.set(nil, "ana list pods *")
	c.Step(pause)
	want("recovered", true, 8, false)
	if got, err := a.Allowed(t.Context(), web.Reader{User: "ana", Groups: []string{"team\x00ops"}}, "shop", "list", "", "pods"); err != nil || !got || s.count() != 9 {
		t.Errorf("groups whose joined names are equal: %t, %v, %d questions", got, err, s.count())
	}
}

// TestTogether checks that identical questions that are asked at the same time cause only one review, and that a reader who disconnects does not
// cancel the review for other readers.
func TestTogether(t *testing.T) {
	t.Parallel()
	a, s, _ := start("ana list pods *")
	s.hold = make(chan struct{})
	leaving, leave := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for i := range 20 {
		ctx := t.Context()
		if i%2 == 0 {
			ctx = leaving
		}
		done.Go(func() {
			if got, err := a.Allowed(ctx, ana, "", "list", "", "pods"); !errors.Is(err, context.Canceled) && (err != nil || !got) {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
	leave()
	close(s.hold)
	done.Wait()
	if _, err := a.Allowed(t.Context(), ana, "", "list", "", "pods"); err != nil {
		t.Error(err)
	}
	if n := s.count(); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// TestBounded checks that the number of answers is limited.
func TestBounded(t *testing.T) {
	t.Parallel()
	a, _, c := start()
	for i := range maxAnswers {
		a.answers[question{reader: fmt.Sprint(i)}] = answer{at: c.Now()}
	}
	for range 2 {
		c.Step(deniedAge)
		if _, err := a.Allowed(t.Context(), ana, fmt.Sprint(c.Now()), "list", "", "pods"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.answers); n > 2 {
		t.Errorf("%d answers", n)
	}
}

// objects returns one object of each kind in the namespaces bank and shop.
func objects() cluster.Objects {
	o := cluster.Objects{Input: view.Input{Program: "hlnr"}}
	for _, n := range []string{"bank", "shop"} {
		meta := metav1.ObjectMeta{Namespace: n, Name: n}
		o.Microservices = append(o.Microservices, v1alpha1.Microservice{ObjectMeta: meta})
		o.Releases = append(o.Releases, v1alpha1.VersionedMicroservice{ObjectMeta: meta})
		o.NetworkPolicies = append(o.NetworkPolicies, v1alpha1.NetworkPolicy{ObjectMeta: meta})
		o.ImagePolicies = append(o.ImagePolicies, v1alpha1.ImagePolicy{ObjectMeta: meta})
		o.Repositories = append(o.Repositories, v1alpha1.GitHubRepository{ObjectMeta: meta})
		o.Freezes = append(o.Freezes, v1alpha1.Freeze{ObjectMeta: meta})
		o.ClusterFreezes = append(o.ClusterFreezes, v1alpha1.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: n}})
		o.Namespaces = append(o.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}})
		o.Pods = append(o.Pods, corev1.Pod{ObjectMeta: meta})
		o.Events = append(o.Events, eventsv1.Event{ObjectMeta: meta})
	}
	return o
}

// everything returns the permissions to list all kinds in a namespace.
func everything(user, namespace string) (out []string) {
	for _, k := range resources {
		out = append(out, user+" list "+k[0].resource+" "+namespace)
	}
	return out
}

// TestScope checks that a reader sees the objects of each kind in the namespaces in which they may list it, and gets messages about missing objects.
func TestScope(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		may []string
		// want lists the visible kinds in the namespaces bank and shop.
		want    map[string]string
		missing []string
	}{
		"everything":    {everything("ana", "*"), map[string]string{"freezes": "bank shop", "of the cluster": "bank shop", "labels": "bank shop", "services": "bank shop", "pods": "bank shop", "events": "bank shop", "releases": "bank shop"}, nil},
		"nothing":       {nil, map[string]string{"freezes": "nil", "of the cluster": "nil", "labels": "nil", "services": "nil", "pods": "nil", "events": "nil", "releases": "nil"}, []string{"you (ana) may not list Microservices in any namespace with a service: ask an administrator for the ClusterRole heighliner-view, or for the ClusterRole view in a namespace"}},
		"one namespace": {everything("ana", "shop"), map[string]string{"freezes": "shop", "of the cluster": "nil", "labels": "shop", "services": "shop", "pods": "shop", "events": "shop", "releases": "shop"}, nil},
		"pods without services": {[]string{"ana list pods *", "ana list microservices shop"}, map[string]string{"freezes": "nil", "of the cluster": "nil", "labels": "shop", "services": "shop", "pods": "bank shop", "events": "nil", "releases": "nil"},
			[]string{"versionedmicroservices in namespace shop", "networkpolicies in namespace shop", "imagepolicies in namespace shop", "githubrepositories in namespace shop", "freezes in namespace shop", "analysistemplates in namespace shop", "events in namespace shop"}},
		"another user": {everything("bob", "*"), map[string]string{"freezes": "nil", "of the cluster": "nil", "labels": "nil", "services": "nil", "pods": "nil", "events": "nil", "releases": "nil"}, []string{"you (ana) may not list Microservices"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, s, _ := start(tc.may...)
			scope, err := a.Scope(t.Context(), ana, []string{"bank", "shop"})
			if err != nil {
				t.Fatal(err)
			}
			o := objects()
			if scope.Filter != nil {
				o = scope.Filter(o)
			}
			if diff := cmp.Diff(tc.want, map[string]string{
				"services": names(o.Microservices, func(x v1alpha1.Microservice) string { return x.Namespace }), "pods": names(o.Pods, func(x corev1.Pod) string { return x.Namespace }),
				"events": names(o.Events, func(x eventsv1.Event) string { return x.Namespace }), "releases": names(o.Releases, func(x v1alpha1.VersionedMicroservice) string { return x.Namespace }),
				"freezes": names(o.Freezes, func(x v1alpha1.Freeze) string { return x.Namespace }), "of the cluster": names(o.ClusterFreezes, func(x v1alpha1.ClusterFreeze) string { return x.Name }),
				"labels": names(o.Namespaces, func(x corev1.Namespace) string { return x.Name }),
			}); diff != "" {
				t.Error(diff)
			}
			if len(scope.Missing) != len(tc.missing) {
				t.Errorf("missing %q", scope.Missing)
			}
			for i := range min(len(scope.Missing), len(tc.missing)) {
				if !strings.Contains(scope.Missing[i], tc.missing[i]) {
					t.Errorf("missing %q, want %q", scope.Missing[i], tc.missing[i])
				}
			}
			n := s.count()
			again, err := a.Scope(t.Context(), ana, []string{"bank", "shop"})
			if err != nil || again.Key != scope.Key || s.count() != n {
				t.Errorf("again: %v, key %q and %q, %d more questions", err, again.Key, scope.Key, s.count()-n)
			}
		})
	}
}

func names[T any](list []T, namespace func(T) string) string {
	if list == nil {
		return "nil"
	}
	var out []string
	for _, x := range list {
		out = append(out, namespace(x))
	}
	return strings.Join(out, " ")
}

// TestScopeOutage checks that permissions are not assumed during an outage.
func TestScopeOutage(t *testing.T) {
	t.Parallel()
	a, s, _ := start(everything("ana", "*")...)
	s.set(errors.New("connection refused"))
	if _, err := a.Scope(t.Context(), ana, []string{"shop"}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
}

// TestScopeOfNewNamespaces covers a namespace that was created so shortly before an outage that no permissions for this namespace are known yet. The test
// checks that only the objects of this namespace are hidden.
func TestScopeOfNewNamespaces(t *testing.T) {
	t.Parallel()
	a, s, c := start(everything("ana", "shop")...)
	before, err := a.Scope(t.Context(), ana, []string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	s.set(errors.New("connection refused"))
	c.Step(deniedAge)
	during, err := a.Scope(t.Context(), ana, []string{"bank", "shop"})
	if err != nil {
		t.Fatal(err)
	}
	o := during.Filter(objects())
	if got := names(o.Microservices, func(x v1alpha1.Microservice) string { return x.Namespace }); got != "shop" || during.Key != before.Key {
		t.Errorf("services of %s, key %q, want %q", got, during.Key, before.Key)
	}
	if diff := cmp.Diff([]string{"the API server did not report whether you (ana) may list objects in namespace bank; the check is repeated"}, during.Missing); diff != "" {
		t.Error(diff)
	}
	s.set(nil, append(everything("ana", "shop"), everything("ana", "bank")...)...)
	c.Step(pause)
	after, err := a.Scope(t.Context(), ana, []string{"bank", "shop"})
	if err != nil || len(after.Missing) > 0 || names(after.Filter(objects()).Pods, func(x corev1.Pod) string { return x.Namespace }) != "bank shop" {
		t.Errorf("after the outage: %v, missing %q", err, after.Missing)
	}
}

// TestAllKinds checks that each list of objects is either filtered by a kind, or not read by the board.
func TestAllKinds(t *testing.T) {
	t.Parallel()
	unread := []string{"Routes", "Gateways", "Notifications", "CronJobs", "Namespaces"} // labels of namespaces are visible together with their services
	n := 0
	for _, of := range []reflect.Type{reflect.TypeFor[view.Input](), reflect.TypeFor[cluster.Objects]()} {
		for i := range of.NumField() {
			if f := of.Field(i); f.Type.Kind() == reflect.Slice && !slices.Contains(unread, f.Name) {
				n++
			}
		}
	}
	if n != int(kinds) {
		t.Errorf("the objects have %d lists, and access knows %d kinds: add the others to filter, and their permission to resources", n, kinds)
	}
	o := reflect.ValueOf(filter(objects(), [kinds]seen{}))
	for _, v := range []reflect.Value{o.FieldByName("Input"), o} {
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Slice && f.Len() > 0 {
				t.Errorf("%s is not filtered", v.Type().Field(i).Name)
			}
		}
	}
}

// TestMay checks that actions require permission to patch, either in the namespace or in all
// namespaces.
func TestMay(t *testing.T) {
	t.Parallel()
	a, s, c := start("ana patch microservices shop", "ana patch versionedmicroservices *", "ana deprecate versionedmicroservices *", "ana continue versionedmicroservices shop")
	want := func(what, namespace string, acts ...string) {
		t.Helper()
		if diff := cmp.Diff(acts, a.May(t.Context(), ana, namespace)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	want("shop", "shop", "continue", "deprecate", "pin", "unpin", "rollback", "pause", "resume")
	want("bank", "bank", "deprecate")
	s.set(errors.New("connection refused"))
	c.Step(outageAge)
	want("outage", "shop")
}

// TestMayFreeze checks that freezes of a namespace require permission to create and delete Freezes in that namespace or in all namespaces, and that
// freezes of the cluster require this permission for ClusterFreezes.
func TestMayFreeze(t *testing.T) {
	t.Parallel()
	a, s, _ := start("ana create freezes shop", "ana delete freezes *", "ana create clusterfreezes *")
	for namespace, want := range map[string][2]bool{"shop": {true, true}, "bank": {false, true}, "": {true, false}} {
		freeze, thaw := a.MayFreeze(t.Context(), ana, namespace)
		if got := [2]bool{freeze, thaw}; got != want {
			t.Errorf("namespace %q: %v, want %v", namespace, got, want)
		}
	}
	for _, q := range s.asked {
		if strings.Contains(q, "clusterfreezes") && !strings.HasSuffix(q, " ") {
			t.Errorf("asked %q, want a cluster-wide review: a permission in a namespace does not apply to the cluster", q)
		}
	}
}
