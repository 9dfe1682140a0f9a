package networkpolicy

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/internal/allowedhosts"
)

// TestLabelsReadTwiceAtFirst checks that each policy that was reconciled with outdated labels of its namespace is reconciled again: two policies of
// one namespace are reconciled for the first time at the same time (there are at least two workers), and a user changes the labels of the
// namespace between their reads.
func TestLabelsReadTwiceAtFirst(t *testing.T) {
	t.Parallel()
	named := func(team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": team}}}
	}
	rules, err := allowedhosts.Read(&corev1.ConfigMap{Data: map[string]string{"apps": "namespaces: team=a\n*.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	firstRead, secondStarted := make(chan struct{}), make(chan struct{})
	var once sync.Once
	live := interceptor.NewClient(fake.NewClientBuilder().WithObjects(named("a")).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			once.Do(func() { // The response to the first read arrives after the second reconcile has looked for known labels.
				close(firstRead)
				<-secondStarted
			})
			return err
		},
	})
	var release sync.Mutex // delays the second response until the first reconcile has stored its labels
	release.Lock()
	l := &domainList{age: 4 * time.Millisecond, rules: rules, labels: map[string]map[string]string{}}
	var first string
	var wg sync.WaitGroup
	wg.Go(func() {
		labels, err := l.labelsOf(t.Context(), live, "shop")
		if err != nil {
			t.Error(err)
		}
		first = labels["team"]
		release.Unlock()
	})
	<-firstRead
	if err := live.Update(t.Context(), named("b")); err != nil {
		t.Fatal(err)
	}
	late := interceptor.NewClient(live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			close(secondStarted)
			err := c.Get(ctx, key, obj, opts...)
			release.Lock()
			return err
		},
	})
	wg.Go(func() {
		if _, err := l.labelsOf(t.Context(), late, "shop"); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		l.poll(ctx, live, func(string) bool { return true }, func(namespace string) { changes <- namespace })
	}()
	select {
	case <-changes:
	case <-time.After(500 * time.Millisecond): // more than 100 rounds
		if first != "b" {
			t.Errorf("the namespace has team=b, but the first policy keeps the result for team=%s: it is never reconciled again", first)
		}
	}
	cancel()
	<-ended
}
