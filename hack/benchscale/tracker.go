package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follow lists and watches the objects of all namespaces until ctx is done. It calls changed for each new or changed object, and deleted for each
// deleted object unless deleted is nil. The calls are not concurrent.
func follow(ctx context.Context, c client.WithWatch, list client.ObjectList, changed, deleted func(client.Object)) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			into := list.DeepCopyObject().(client.ObjectList)
			return into, c.List(ctx, into, &client.ListOptions{Raw: &o})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), &client.ListOptions{Raw: &o})
		},
	}
	handle := func(f func(client.Object)) func(any) {
		return func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if object, ok := o.(client.Object); ok && f != nil {
				f(object)
			}
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    nil,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: handle(changed), UpdateFunc: func(_, o any) { handle(changed)(o) }, DeleteFunc: handle(deleted),
		},
	})
	controller.RunWithContext(ctx)
}

// tracker keeps the current state of all objects of a kind, one for each service, and waits until they
// reach a goal.
type tracker struct {
	mu      sync.Mutex
	objects map[string]client.Object
	goal    func(client.Object) bool
	reached map[string]bool
	last    time.Time // when the last object reached the goal
	waiting map[string][]condition
}

// condition is a state of one object that a caller waits for.
type condition struct {
	met func(client.Object) bool
	at  chan<- time.Time
}

// track follows objects in the background until ctx is done.
func track(ctx context.Context, c client.WithWatch, list client.ObjectList) *tracker {
	t := &tracker{objects: map[string]client.Object{}, reached: map[string]bool{}, waiting: map[string][]condition{}}
	go follow(ctx, c, list, t.changed, t.deleted)
	return t
}

func (t *tracker) changed(o client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects[o.GetName()] = o
	t.check(o)
	t.waiting[o.GetName()] = slices.DeleteFunc(t.waiting[o.GetName()], func(c condition) bool {
		if !c.met(o) {
			return false
		}
		c.at <- time.Now()
		return true
	})
}

// when returns a channel with the time of the next change after which an object meets a condition.
func (t *tracker) when(name string, met func(client.Object) bool) <-chan time.Time {
	at := make(chan time.Time, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[name] = append(t.waiting[name], condition{met, at})
	return at
}

// generation returns the generation of an object, or 0 if it does not exist.
func (t *tracker) generation(name string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.objects[name]; o != nil {
		return o.GetGeneration()
	}
	return 0
}

func (t *tracker) deleted(o client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects, o.GetName())
	delete(t.reached, o.GetName())
}

// check records whether an object has reached the goal. An object that no longer meets the goal no longer counts.
func (t *tracker) check(o client.Object) {
	if t.goal == nil {
		return
	}
	if !t.goal(o) {
		delete(t.reached, o.GetName())
		return
	}
	if !t.reached[o.GetName()] {
		t.reached[o.GetName()] = true
		t.last = time.Now()
	}
}

// aim sets the goal. Some objects may already have reached it.
func (t *tracker) aim(goal func(client.Object) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goal, t.reached, t.last = goal, map[string]bool{}, time.Time{}
	for _, o := range t.objects {
		t.check(o)
	}
}

// progress returns the number of objects that have reached the goal, and the time at which the last of these
// objects reached it.
func (t *tracker) progress() (int, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.reached), t.last
}

// await waits until n objects have reached the goal, and returns the time at which the last of these objects reached it. It reports progress
// every ten seconds.
func (t *tracker) await(ctx context.Context, n int, patience time.Duration, failed func() error, say func(string, ...any)) (time.Time, error) {
	began, reported := time.Now(), time.Now()
	for {
		count, last := t.progress()
		if count >= n {
			return last, nil
		}
		if err := failed(); err != nil {
			return time.Time{}, err
		}
		if time.Since(began) > patience {
			return time.Time{}, fmt.Errorf("wait for all services: %d of %d after %s; one of the missing services: %s", count, n, patience, t.missing())
		}
		if time.Since(reported) > 10*time.Second {
			reported = time.Now()
			say("%d of %d after %s", count, n, time.Since(began).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// missing describes an object that has not reached the goal.
func (t *tracker) missing() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, o := range t.objects {
		if t.reached[name] {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return name
		}
		return fmt.Sprintf("%s: %v", name, content["status"])
	}
	return "its object does not exist"
}

// podTimes records the times at which services get new pods.
type podTimes struct {
	mu      sync.Mutex
	known   map[types.UID]bool
	waiting map[string]chan time.Time // The channels of waiting callers, by service.
}

// followPods follows the pods of all services until ctx is done.
func followPods(ctx context.Context, c client.WithWatch) *podTimes {
	p := &podTimes{known: map[types.UID]bool{}, waiting: map[string]chan time.Time{}}
	go follow(ctx, c, &corev1.PodList{}, p.changed, p.deleted)
	return p
}

func (p *podTimes) changed(o client.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[o.GetUID()] {
		return
	}
	p.known[o.GetUID()] = true
	for service, created := range p.waiting {
		if strings.HasPrefix(o.GetName(), service+"-") {
			created <- time.Now()
			delete(p.waiting, service)
		}
	}
}

func (p *podTimes) deleted(o client.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, o.GetUID())
}

// next returns a channel with the time at which the next pod of a service is created.
func (p *podTimes) next(service string) <-chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	created := make(chan time.Time, 1)
	p.waiting[service] = created
	return created
}
