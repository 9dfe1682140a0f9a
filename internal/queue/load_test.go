package queue

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestLoad checks that reports may be delayed longer while many objects wait in any of the queues.
func TestLoad(t *testing.T) {
	t.Parallel()
	var none *Load
	if err := none.Start(t.Context(), nil); err != nil || none.Patience(time.Second) != time.Second {
		t.Errorf("without queues: %s, error %v", none.Patience(time.Second), err)
	}
	var load Load
	queues := make([]workqueue.TypedRateLimitingInterface[reconcile.Request], 2)
	for i := range queues {
		queues[i] = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queues[i].ShutDown()
		if err := load.Start(t.Context(), queues[i]); err != nil {
			t.Fatal(err)
		}
	}
	check := func(waiting string, want time.Duration) {
		t.Helper()
		if got := load.Patience(10 * time.Second); got != want {
			t.Errorf("%s: %s, want %s", waiting, got, want)
		}
	}
	check("no objects", 10*time.Second)
	for i := range crowd {
		queues[1].Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: string(rune('A' + i))}})
	}
	check("few objects", 10*time.Second)
	queues[1].Add(reconcile.Request{})
	check("many objects", time.Minute)
	request, _ := queues[1].Get()
	queues[1].Done(request)
	check("few objects again", 10*time.Second)
}
