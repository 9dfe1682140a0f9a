package queue

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/internal/status"
)

func object(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, ResourceVersion: version}, Data: map[string]string{}}
}

// TestPrefer checks that an urgent request precedes a thousand requests that have waited longer.
func TestPrefer(t *testing.T) {
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	decided := func(before, now client.Object) bool {
		return before.(*corev1.ConfigMap).Data["decision"] != now.(*corev1.ConfigMap).Data["decision"]
	}
	usual, preferred := &handler.EnqueueRequestForObject{}, Prefer(decided, Itself)
	update := func(name, decision string) {
		now := object(name, "2")
		if decision != "" {
			now.Data["decision"] = decision
		}
		e := event.UpdateEvent{ObjectOld: object(name, "1"), ObjectNew: now}
		usual.Update(t.Context(), e, q)
		preferred.Update(t.Context(), e, q)
	}
	for i := range 1000 {
		update(fmt.Sprint("service-", i), "")
	}
	update("service-990", "abort")
	first, priority, _ := q.GetWithPriority()
	if first.Name != "service-990" || priority != Urgent {
		t.Errorf("the first is %s with priority %d, want service-990 with %d", first.Name, priority, Urgent)
	}
	second, priority, _ := q.GetWithPriority()
	if second.Name == "service-990" || priority != 0 {
		t.Errorf("the second is %s with priority %d, want another request with priority 0", second.Name, priority)
	}
}

// TestContinue checks that a request for a change that continues work in progress precedes other requests, except urgent ones.
func TestContinue(t *testing.T) {
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	always := func(_, _ client.Object) bool { return true }
	update := func(h handler.EventHandler, name string) {
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: object(name, "1"), ObjectNew: object(name, "2")}, q)
	}
	for i := range 1000 {
		update(&handler.EnqueueRequestForObject{}, fmt.Sprint("service-", i))
	}
	update(Continue(Itself), "service-990")
	update(Prefer(always, Itself), "service-980")
	for _, want := range []struct {
		name     string
		priority int
	}{{"service-980", Urgent}, {"service-990", Progress}} {
		if got, priority, _ := q.GetWithPriority(); got.Name != want.name || priority != want.priority {
			t.Errorf("got %s with priority %d, want %s with %d", got.Name, priority, want.name, want.priority)
		}
	}
}

// TestResync checks that an update without a change, such as a resync, does not raise a priority.
func TestResync(t *testing.T) {
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	Continue(Itself).Update(t.Context(), event.UpdateEvent{ObjectOld: object("shop", "1"), ObjectNew: object("shop", "1")}, q)
	if n := q.Len(); n > 0 {
		t.Errorf("%d requests, want none", n)
	}
}

// TestEdited checks that an edit of the specification counts as a user decision, and a write to the status does not.
func TestEdited(t *testing.T) {
	before, written, edited := object("shop", "1"), object("shop", "2"), object("shop", "2")
	before.Generation, written.Generation, edited.Generation = 3, 3, 4
	if Edited(before, written) || !Edited(before, edited) {
		t.Error("an edit does not differ from a write to the status")
	}
}

// TestTimers checks that an object that a new process lists has a low priority only in its first reconcile, and that an urgent request
// remains urgent until it succeeds. A request for the end of a pause does not wait for all other requests, and they do not wait for it.
func TestTimers(t *testing.T) {
	ended, retried, listed := request("ended"), request("retried"), request("listed")
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Millisecond)
	q := New("test", limiter).(priorityqueue.PriorityQueue[reconcile.Request])
	defer q.ShutDown()
	low := handler.LowPriority
	for _, test := range []struct {
		opts priorityqueue.AddOpts
		name reconcile.Request
		want int
	}{
		{priorityqueue.AddOpts{Priority: &low, After: time.Millisecond}, ended, 0},
		{priorityqueue.AddOpts{Priority: &low, RateLimited: true}, retried, 0},
		{priorityqueue.AddOpts{Priority: &low}, listed, low},
		{priorityqueue.AddOpts{Priority: new(Urgent), After: maxRetry + time.Millisecond}, ended, 0},
		{priorityqueue.AddOpts{Priority: new(Urgent), After: 200 * time.Millisecond}, retried, Urgent}, // after a conflict
		{priorityqueue.AddOpts{Priority: new(Urgent), RateLimited: true}, retried, Urgent},
	} {
		q.AddWithOpts(test.opts, test.name)
		if got, priority, _ := q.GetWithPriority(); got != test.name || priority != test.want {
			t.Errorf("got %s with priority %d, want %s with %d", got.Name, priority, test.name.Name, test.want)
		}
		q.Done(test.name)
	}
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "prod", Name: name}}
}

// TestOptions checks that an object with errors is retried soon after an outage of the API server, regardless of how long the
// outage lasted.
func TestOptions(t *testing.T) {
	o, request := Options(8), reconcile.Request{}
	for range 30 {
		if wait := o.RateLimiter.When(request); wait > status.MaxBackoff {
			t.Fatalf("a retry is delayed by %s, want at most %s", wait, status.MaxBackoff)
		}
	}
	if o.MaxConcurrentReconciles != 8 || o.NewQueue == nil {
		t.Errorf("%d concurrent reconciles, or the work queue is not set", o.MaxConcurrentReconciles)
	}
}

// TestSpecChanged checks that a changed specification, and an object that replaced another object of the same name, are reconciled,
// and that a changed status is not.
func TestSpecChanged(t *testing.T) {
	before := object("shop", "1")
	before.UID, before.Generation = "a", 1
	for name, test := range map[string]struct {
		change func(*corev1.ConfigMap)
		want   bool
	}{
		"status":        {func(o *corev1.ConfigMap) { o.ResourceVersion = "2" }, false},
		"annotation":    {func(o *corev1.ConfigMap) { o.Annotations = map[string]string{"a": "b"} }, false},
		"specification": {func(o *corev1.ConfigMap) { o.Generation = 2 }, true},
		"replaced":      {func(o *corev1.ConfigMap) { o.UID = "b" }, true},
	} {
		now := before.DeepCopy()
		test.change(now)
		if got := SpecChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
