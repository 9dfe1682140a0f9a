package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// played is the history of each service: a canary that is waiting for approval, next to an active
// release.
const played = "approval"

// name is the name of the service in the history. In each created object, it is replaced with the
// name of the object's service.
const name = "shop"

func nameOf(i int) string { return fmt.Sprintf("s%04d", i) }

// create creates n services in a new namespace, each with all its objects and two pods.
func create(ctx context.Context, c client.Client, namespace string, n int) error {
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	in, err := story()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(20)
	for i := range n {
		g.Go(func() error { return createOne(ctx, c, in, namespace, nameOf(i)) })
	}
	return g.Wait()
}

func story() (view.Input, error) {
	for _, s := range viewtest.Stories() {
		if s.Name == played {
			return s.Input, nil
		}
	}
	return view.Input{}, errors.New("there is no history " + played)
}

func createOne(ctx context.Context, c client.Client, in view.Input, namespace, service string) error {
	var objects []client.Object
	for i := range in.Microservices {
		objects = append(objects, in.Microservices[i].DeepCopy())
	}
	for i := range in.Releases {
		objects = append(objects, in.Releases[i].DeepCopy(), podOf(&in.Releases[i]))
	}
	for i := range in.NetworkPolicies {
		objects = append(objects, in.NetworkPolicies[i].DeepCopy())
	}
	for i := range in.ImagePolicies {
		objects = append(objects, in.ImagePolicies[i].DeepCopy())
	}
	for _, o := range objects {
		if err := store(ctx, c, o, namespace, service); err != nil {
			return err
		}
	}
	return nil
}

// podOf returns a pod object for a release. The pod does not run.
func podOf(r *v1alpha1.VersionedMicroservice) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name + "-pod", Labels: map[string]string{v1alpha1.LabelRelease: r.Name, v1alpha1.LabelMicroservice: name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: name}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// store creates an object with the name of a service, and then writes its status.
func store(ctx context.Context, c client.Client, o client.Object, namespace, service string) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(raw), name, service)), o); err != nil {
		return err
	}
	o.SetNamespace(namespace)
	o.SetGeneration(0)
	o.SetUID("")
	o.SetResourceVersion("")
	status, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", o)
	}
	if err := c.Create(ctx, o); err != nil {
		return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := c.Status().Update(ctx, status); err != nil {
		return fmt.Errorf("write the status of %T %s: %w", o, o.GetName(), err)
	}
	return nil
}
