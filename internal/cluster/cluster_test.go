package cluster

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m, apiserver.Options{}, &env)) }

// TestWatch checks that the store contains the initial objects and their changes, that an outage is detected, and that changes during the outage arrive
// afterwards.
func TestWatch(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	create := func(name string) {
		t.Helper()
		policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		policy.Spec.Image = "r.example/" + name
		if err := env.Client.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
	}
	create("first")
	for i, of := range []string{v1alpha1.GroupVersion.String(), "v1"} {
		e := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: []string{"ours", "other"}[i]}, EventTime: metav1.NewMicroTime(time.Unix(1e9, 0)), Type: "Normal", Reason: "Started", Action: "Start", ReportingController: "test", ReportingInstance: "test",
			Regarding: corev1.ObjectReference{APIVersion: of, Kind: "ImagePolicy", Namespace: namespace, Name: "first"},
		}
		if err := env.Client.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	seen, missing, err := Read(t.Context(), env.Client, Query{Namespace: namespace, Pods: true, Events: true, Namespaces: true, CronJobs: true})
	if err != nil || len(missing) > 0 {
		t.Fatal(err, missing)
	}
	if seen.Freezes == nil || seen.ClusterFreezes == nil || len(seen.Namespaces) == 0 {
		t.Fatalf("read %v, %v, %d namespaces", seen.Freezes, seen.ClusterFreezes, len(seen.Namespaces))
	}
	rules := v1alpha1.FreezeRules{Reason: "fair", Indefinite: true, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": namespace}}}
	if len(seen.ImagePolicies) != 1 || seen.Pods == nil || len(seen.Events) != 1 || seen.Events[0].Name != "ours" {
		t.Fatalf("read %d policies, %v, %d events", len(seen.ImagePolicies), seen.Pods, len(seen.Events))
	}
	store := NewStore(seen)
	config := rest.CopyConfig(env.Config)
	var l apiserver.Line
	config.Dial = l.Dial
	config.Wrap(NewMonitor(clock.RealClock{}.Now, store.SetOutage).Wrap)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Watch(ctx, Options{Config: config, Scheme: env.Client.Scheme(), Namespace: namespace, Clock: clock.RealClock{}, Changed: store.Set}, seen)
	}()
	has := func(names ...string) func() bool {
		return func() bool {
			d, _ := store.Data()
			var got []string
			for _, p := range d.ImagePolicies {
				got = append(got, p.Name)
			}
			slices.Sort(got)
			return slices.Equal(got, names) && d.Events != nil && d.Pods != nil
		}
	}
	create("second")
	await.Until(t, "a new object", has("first", "second"))
	for _, o := range []client.Object{
		&v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair"}, Spec: v1alpha1.FreezeSpec{FreezeRules: rules}},
		&v1alpha1.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.ClusterFreezeSpec{FreezeRules: rules}},
		cronJob(namespace, "follows", map[string]string{v1alpha1.LabelFollow: "shop"}), cronJob(namespace, "other", nil),
	} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "the freezes", func() bool {
		d, _ := store.Data()
		ofNamespace := slices.ContainsFunc(d.Namespaces, func(n corev1.Namespace) bool {
			return n.Name == namespace && n.Labels[corev1.LabelMetadataName] == namespace && len(n.Spec.Finalizers) == 0
		})
		return len(d.Freezes) == 1 && slices.ContainsFunc(d.ClusterFreezes, func(f v1alpha1.ClusterFreeze) bool { return f.Name == namespace }) && ofNamespace
	})
	await.Until(t, "the CronJob that follows a service", func() bool {
		d, _ := store.Data()
		return len(d.CronJobs) == 1 && d.CronJobs[0].Name == "follows" && d.CronJobs[0].Spec.Schedule == ""
	})
	l.Set(true)
	await.Until(t, "the outage", func() bool {
		d, _ := store.Data()
		return d.Outage != nil && strings.Contains(d.Outage.Cause, "the connection is interrupted")
	})
	create("third")
	l.Set(false)
	await.Until(t, "what was created during the outage", has("first", "second", "third"))
	await.Until(t, "the end of the outage", func() bool { d, _ := store.Data(); return d.Outage == nil })
	stop()
	if err := await.Receive(t, "the end", ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestStore checks that each change closes the channel of the store.
func TestStore(t *testing.T) {
	t.Parallel()
	s := NewStore(Objects{}, "pods")
	d, changed := s.Data()
	if d.Revision != 1 || len(d.Missing) != 1 {
		t.Errorf("%+v", d)
	}
	s.Set(Objects{Events: []eventsv1.Event{}})
	await.Receive(t, "the change", changed)
	if d, _ = s.Data(); d.Revision != 2 || d.Events == nil {
		t.Errorf("%+v", d)
	}
}

type answers func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// TestMonitor checks that an outage lasts as long as there is at least one resource whose most recent request failed, and that
// other requests do not count.
func TestMonitor(t *testing.T) {
	t.Parallel()
	var seen []*Outage
	m := NewMonitor(func() time.Time { return time.Unix(60, 0) }, func(o *Outage) { seen = append(seen, o) })
	for i, step := range []struct {
		path string
		code int
		err  error
		want int
	}{
		{"/a?watch=true", 200, nil, 0}, {"/api", 500, nil, 0}, {"/a?watch=true", 0, context.Canceled, 0},
		{"/a?resourceVersion=0", 500, nil, 1}, {"/b?watch=true", 0, errors.New("refused"), 1}, {"/a?watch=true", 200, nil, 1},
		{"/b?watch=true", 410, nil, 2}, {"/b?watch=true", 403, nil, 3}, {"/b?watch=true", 200, nil, 4},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api"+step.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := m.Wrap(answers(func(*http.Request) (*http.Response, error) {
			if step.err != nil {
				return nil, step.err
			}
			return &http.Response{StatusCode: step.code, Status: http.StatusText(step.code), Body: http.NoBody}, nil
		})).RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		if len(seen) != step.want {
			t.Errorf("step %d: %d reports, want %d", i, len(seen), step.want)
		}
	}
	if seen[0] == nil || !seen[0].Since.Equal(time.Unix(60, 0)) || seen[1] != nil || !strings.Contains(seen[2].Cause, "Forbidden") || seen[3] != nil {
		t.Errorf("%v", seen)
	}
}

func cronJob(namespace, name string, labels map[string]string) *batchv1.CronJob {
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "shop", Image: "shop"}}}
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       batchv1.CronJobSpec{Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}},
	}
}
