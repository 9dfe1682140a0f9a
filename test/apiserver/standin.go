package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// nodeName is the name of the Node to which PlayKubelet binds Pods. The Node exists only if a controller-manager
// is running.
const nodeName = "test"

// A stand-in acts playDelay after a change to the watched objects, so that it handles several changes
// together. If there is no change, it acts again after playInterval, because its result may depend on more
// than the watched objects.
const (
	playDelay    = 10 * time.Millisecond
	playInterval = 250 * time.Millisecond
)

// GatewayController is the controllerName in the status that the Gateway stand-in writes.
const GatewayController gatewayv1.GatewayController = "test.hlnr.io/gateway"

// MarkDeploymentAvailable replaces the Deployment controller and the kubelet: it reports all replicas of the
// Deployment's current generation as updated and available. With a controller-manager, which writes the same status,
// use PlayKubelet instead.
func (e *Env) MarkDeploymentAvailable(ctx context.Context, key client.ObjectKey) error {
	return e.markDeployment(ctx, key, true)
}

// MarkDeploymentUnavailable reports that all replicas of the Deployment exist, and that no replica is available.
func (e *Env) MarkDeploymentUnavailable(ctx context.Context, key client.ObjectKey) error {
	return e.markDeployment(ctx, key, false)
}

func (e *Env) markDeployment(ctx context.Context, key client.ObjectKey, available bool) error {
	deployment := &appsv1.Deployment{}
	if err := e.Client.Get(ctx, key, deployment); err != nil {
		return fmt.Errorf("get Deployment %q: %w", key, err)
	}
	replicas := ptr.Deref(deployment.Spec.Replicas, 1)
	status := appsv1.DeploymentStatus{
		ObservedGeneration:  deployment.Generation,
		Replicas:            replicas,
		UpdatedReplicas:     replicas,
		UnavailableReplicas: replicas,
	}
	condition := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable",
		LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now(),
	}
	if available {
		status.ReadyReplicas, status.AvailableReplicas, status.UnavailableReplicas = replicas, replicas, 0
		condition.Status, condition.Reason = corev1.ConditionTrue, "MinimumReplicasAvailable"
	}
	status.Conditions = []appsv1.DeploymentCondition{condition}
	deployment.Status = status
	if err := e.Client.Status().Update(ctx, deployment); err != nil {
		return fmt.Errorf("write status of Deployment %q: %w", key, err)
	}
	return nil
}

// addresses counts the pod addresses, so that each address is used only once.
var addresses atomic.Uint32

// address returns a new pod address in 10.244.0.0/16.
func address() string {
	n := addresses.Add(1)
	return netip.AddrFrom4([4]byte{10, 244, byte(n >> 8), byte(n)}).String()
}

// MarkEndpointsReady replaces the EndpointSlice controller: the Service gets one slice with the given number of ready
// endpoints at fictitious addresses; 0 removes the endpoints. With a controller-manager, use PlayKubelet instead.
func (e *Env) MarkEndpointsReady(ctx context.Context, service client.ObjectKey, ready int) error {
	owner := &corev1.Service{}
	if err := e.Client.Get(ctx, service, owner); err != nil {
		return fmt.Errorf("get Service %q: %w", service, err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: service.Name + "-test", Namespace: service.Namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: "test.hlnr.io"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Service", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)},
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, port := range owner.Spec.Ports {
		number := port.TargetPort.IntVal
		if number == 0 {
			number = port.Port
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(port.Name), Port: ptr.To(number), Protocol: ptr.To(port.Protocol)})
	}
	for range ready {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{address()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		})
	}
	existing := &discoveryv1.EndpointSlice{}
	err := e.Client.Get(ctx, client.ObjectKeyFromObject(slice), existing)
	if apierrors.IsNotFound(err) {
		err = e.Client.Create(ctx, slice)
	} else if err == nil {
		existing.Endpoints, existing.Ports = slice.Endpoints, slice.Ports
		err = e.Client.Update(ctx, existing)
	}
	if err != nil {
		return fmt.Errorf("write EndpointSlice of Service %q: %w", service, err)
	}
	return nil
}

// MarkPodReady replaces the kubelet. It reports that the Pod is running, and whether the Pod is ready.
func (e *Env) MarkPodReady(ctx context.Context, key client.ObjectKey, ready bool) error {
	pod := &corev1.Pod{}
	if err := e.Client.Get(ctx, key, pod); err != nil {
		return fmt.Errorf("get Pod %q: %w", key, err)
	}
	return e.markPod(ctx, pod, ready)
}

func (e *Env) markPod(ctx context.Context, pod *corev1.Pod, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	if podReady(pod) == status && pod.Status.Phase == corev1.PodRunning {
		return nil
	}
	pod.Status.Phase = corev1.PodRunning
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = ptr.To(metav1.Now())
	}
	if pod.Status.PodIP == "" {
		pod.Status.PodIP = address()
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		{Type: corev1.ContainersReady, Status: status, LastTransitionTime: metav1.Now()},
		{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()},
	}
	pod.Status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: ready, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	if err := e.Client.Status().Update(ctx, pod); err != nil {
		return fmt.Errorf("write status of Pod %q: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

func podReady(pod *corev1.Pod) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}

// PlayKubelet replaces the scheduler and the kubelet of one namespace until the test ends. Pods run on a fictitious
// Node, are ready if ready is nil or returns true, and terminate immediately when they are deleted. No container is started.
// PlayKubelet requires Options.ControllerManager, without which no Pods are created for Deployments.
func (e *Env) PlayKubelet(t testing.TB, namespace string, ready func(*corev1.Pod) bool) {
	t.Helper()
	e.play(t, "kubelet", namespace, &corev1.PodList{}, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := e.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil {
				if err := e.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}); err != nil {
					return err
				}
				continue
			}
			if pod.Spec.NodeName == "" {
				// The EndpointSlice controller ignores Pods without a Node.
				binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
				if err := e.Client.SubResource("binding").Create(ctx, pod, binding); err != nil {
					return err
				}
				continue
			}
			if err := e.markPod(ctx, pod, ready == nil || ready(pod)); err != nil {
				return err
			}
		}
		return nil
	})
}

// AcceptRoute replaces a Gateway controller. It reports that each parent of the HTTPRoute accepted the route's
// current generation and resolved the route's references. It does not read Gateways.
func (e *Env) AcceptRoute(ctx context.Context, key client.ObjectKey) error {
	return e.markRoute(ctx, key, metav1.ConditionTrue, string(gatewayv1.RouteReasonAccepted), "")
}

// RefuseRoute reports that no parent of the HTTPRoute accepted the route's current generation, with a reason
// such as "NotAllowedByListeners".
func (e *Env) RefuseRoute(ctx context.Context, key client.ObjectKey, reason, message string) error {
	return e.markRoute(ctx, key, metav1.ConditionFalse, reason, message)
}

func (e *Env) markRoute(ctx context.Context, key client.ObjectKey, accepted metav1.ConditionStatus, reason, message string) error {
	route := &gatewayv1.HTTPRoute{}
	if err := e.Client.Get(ctx, key, route); err != nil {
		return fmt.Errorf("get HTTPRoute %q: %w", key, err)
	}
	parents := make([]gatewayv1.RouteParentStatus, 0, len(route.Spec.ParentRefs))
	for _, ref := range route.Spec.ParentRefs {
		parent := gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: GatewayController}
		meta.SetStatusCondition(&parent.Conditions, metav1.Condition{
			Type: string(gatewayv1.RouteConditionAccepted), Status: accepted,
			Reason: reason, Message: message, ObservedGeneration: route.Generation,
		})
		meta.SetStatusCondition(&parent.Conditions, metav1.Condition{
			Type: string(gatewayv1.RouteConditionResolvedRefs), Status: metav1.ConditionTrue,
			Reason: string(gatewayv1.RouteReasonResolvedRefs), ObservedGeneration: route.Generation,
		})
		parents = append(parents, parent)
	}
	route.Status.Parents = parents
	if err := e.Client.Status().Update(ctx, route); err != nil {
		return fmt.Errorf("write status of HTTPRoute %q: %w", key, err)
	}
	return nil
}

// PlayGateway replaces a Gateway controller in one namespace until the test ends. It accepts each generation of each
// HTTPRoute if accept is nil or returns true, and does not change the status of other HTTPRoutes.
func (e *Env) PlayGateway(t testing.TB, namespace string, accept func(*gatewayv1.HTTPRoute) bool) {
	t.Helper()
	e.play(t, "gateway", namespace, &gatewayv1.HTTPRouteList{}, func(ctx context.Context) error {
		routes := &gatewayv1.HTTPRouteList{}
		if err := e.Client.List(ctx, routes, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range routes.Items {
			route := &routes.Items[i]
			if accepted(route) || accept != nil && !accept(route) {
				continue
			}
			if err := e.AcceptRoute(ctx, client.ObjectKeyFromObject(route)); err != nil {
				return err
			}
		}
		return nil
	})
}

// accepted reports whether every parent accepted the route's generation.
func accepted(route *gatewayv1.HTTPRoute) bool {
	if len(route.Status.Parents) != len(route.Spec.ParentRefs) {
		return false
	}
	for _, parent := range route.Status.Parents {
		condition := meta.FindStatusCondition(parent.Conditions, string(gatewayv1.RouteConditionAccepted))
		if condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != route.Generation {
			return false
		}
	}
	return true
}

// play runs a stand-in for the objects of a kind in a namespace until the test ends. If a turn fails because of a
// conflict, a missing object or a busy API server, the stand-in tries again in its next turn.
func (e *Env) play(t testing.TB, name, namespace string, kind client.ObjectList, turn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// Without a watch, for example after the watch has ended, the stand-in acts only after each interval.
			var changes <-chan watch.Event
			w, err := e.Client.Watch(ctx, kind, client.InNamespace(namespace))
			if err == nil {
				changes = w.ResultChan()
			}
			for watched := true; watched && ctx.Err() == nil; {
				err := turn(ctx)
				busy := apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
				if err != nil && ctx.Err() == nil && !busy && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Errorf("play %s: %v", name, err)
				}
				watched = changed(ctx, changes)
			}
			if err == nil {
				w.Stop()
			}
		}
	}()
}

// changed waits for the next turn of a stand-in, and reports whether the watch is still open.
func changed(ctx context.Context, changes <-chan watch.Event) bool {
	watched, seen, due := changes != nil, false, time.After(playInterval)
	for {
		select {
		case <-ctx.Done():
			return watched
		case <-due:
			return watched
		case _, ok := <-changes:
			switch {
			case !ok:
				watched, changes = false, nil
			case !seen:
				seen, due = true, time.After(playDelay)
			}
		}
	}
}
