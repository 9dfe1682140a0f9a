//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// simulatedTaint keeps other pods off a simulated node.
const simulatedTaint = "e2e.hlnr.io/simulated"

// simulateNode creates a node without a kubelet. Its pods are reported as running and ready when they are scheduled,
// and removed when they are deleted. The node is deleted after the test.
func simulateNode(t *testing.T, name string) string {
	t.Helper()
	n := &simulatedNode{name: name, addresses: map[string]string{}}
	n.remove(context.Background())
	if err := n.register(t.Context()); err != nil {
		t.Fatalf("create node %s: %v", name, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.renew(ctx) })
	running.Go(func() { n.run(ctx) })
	t.Cleanup(func() {
		// The cleanup of the namespace has already started. The pods in the namespace cannot terminate without
		// the node.
		wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		n.empty(wait)
		stop()
		running.Wait()
		n.remove(context.Background())
	})
	return name
}

type simulatedNode struct {
	name      string
	addresses map[string]string // The addresses, by pod UID.
}

func (n *simulatedNode) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: n.name, Labels: map[string]string{corev1.LabelHostname: n.name}}
}

func (n *simulatedNode) register(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: n.meta(), Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: simulatedTaint, Effect: corev1.TaintEffectNoSchedule}}}}
	if err := env.Client.Create(ctx, node); err != nil {
		return err
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("5000")}
	before := node.DeepCopy()
	node.Status = corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
	}
	return env.Client.Status().Patch(ctx, node, client.MergeFrom(before)) // Other clients also write to new nodes.
}

// renew renews the node's Lease, which the control plane uses to detect that the node is alive.
func (n *simulatedNode) renew(ctx context.Context) {
	seconds := int32(40)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.name}}
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		now := metav1.NowMicro()
		spec := coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: &seconds, RenewTime: &now}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease); err == nil {
			lease.Spec = spec
			_ = env.Client.Update(ctx, lease) // A failed update is retried later.
		} else {
			lease.Spec, lease.ResourceVersion = spec, ""
			_ = env.Client.Create(ctx, lease)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// run simulates the kubelet. When the watch ends, run starts again with a new list.
func (n *simulatedNode) run(ctx context.Context) {
	for ctx.Err() == nil {
		n.follow(ctx)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (n *simulatedNode) follow(ctx context.Context) {
	var pods corev1.PodList
	mine := &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name)}
	if err := env.Client.List(ctx, &pods, mine); err != nil {
		return
	}
	for i := range pods.Items {
		n.play(ctx, &pods.Items[i])
	}
	w, err := env.Client.Watch(ctx, &corev1.PodList{}, mine, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion}})
	if err != nil {
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != "DELETED" {
			n.play(ctx, pod)
		}
	}
}

// play performs the next step of a pod. A failed step is retried after the next list.
func (n *simulatedNode) play(ctx context.Context, pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil:
		_ = env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case pod.Status.Phase == corev1.PodPending:
		pod.Status = n.status(pod)
		_ = env.Client.Status().Update(ctx, pod)
	}
}

func (n *simulatedNode) status(pod *corev1.Pod) corev1.PodStatus {
	address, ok := n.addresses[string(pod.UID)]
	if !ok {
		i := len(n.addresses) + 1
		address = fmt.Sprintf("10.99.%d.%d", i/250, i%250+1)
		n.addresses[string(pod.UID)] = address
	}
	now, yes := metav1.Now(), true
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &now, QOSClass: pod.Status.QOSClass,
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

// empty waits until the node has no pods.
func (n *simulatedNode) empty(ctx context.Context) {
	for ctx.Err() == nil {
		var pods corev1.PodList
		err := env.Client.List(ctx, &pods, &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name)})
		if err == nil && len(pods.Items) == 0 {
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (n *simulatedNode) remove(ctx context.Context) {
	_ = env.Client.Delete(ctx, &corev1.Node{ObjectMeta: n.meta()})
	_ = env.Client.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.name}})
}
