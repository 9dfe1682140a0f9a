// Package gitops tests that users' decisions survive tools that repeatedly apply manifests from Git. It
// applies the manifests in the same way as Argo CD with self-heal, and in the same way as Flux.
package gitops

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/manager"
)

var cluster *manager.Cluster

func TestMain(m *testing.M) {
	os.Exit(manager.Run(m, &cluster))
}

// manifests are the manifests in Git.
const manifests = `
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: shop, labels: {app.kubernetes.io/instance: shop}}
spec: {image: r.example/shop}
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop, labels: {app.kubernetes.io/instance: shop}}
spec:
  imagePolicyRef: {name: shop}
  availability: {replicas: 2}
  updateStrategy: {canary: {steps: [{weight: 10, approval: {}}]}}
  template:
    spec:
      containers:
      - name: shop
        ports: [{containerPort: 8080}]
        readinessProbe: {exec: {command: ["true"]}}
`

// tools apply the manifests.
var tools = map[string]func(t *testing.T, namespace string){
	// Argo CD with ServerSideApply=true.
	"argo cd, server-side": func(t *testing.T, namespace string) {
		t.Helper()
		serverSide(t, namespace, "argocd-controller")
	},
	// Without ServerSideApply, Argo CD patches in the same way as kubectl apply.
	"argo cd, client-side": func(t *testing.T, namespace string) {
		t.Helper()
		if out, err := cluster.Kubectl(t, manifests, "apply", "-n", namespace, "--field-manager=argocd-controller", "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	},
	// Before Flux applies the manifests, it takes over the fields that kubectl manages. It therefore reverts changes that are
	// made with kubectl.
	"flux": func(t *testing.T, namespace string) {
		t.Helper()
		for _, kind := range []client.Object{&v1alpha1.ImagePolicy{}, &v1alpha1.Microservice{}} {
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // The manager writes the status of the object.
				o := kind.DeepCopyObject().(client.Object)
				if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "shop"}, o); err != nil {
					return client.IgnoreNotFound(err)
				}
				theirs := sets.New[string]()
				for _, f := range o.GetManagedFields() {
					if f.Operation == metav1.ManagedFieldsOperationUpdate && f.Subresource == "" && strings.HasPrefix(f.Manager, "kubectl") {
						theirs.Insert(f.Manager)
					}
				}
				patch, err := csaupgrade.UpgradeManagedFieldsPatch(o, theirs, "kustomize-controller")
				if err != nil || patch == nil {
					return err
				}
				return cluster.Client.Patch(t.Context(), o, client.RawPatch("application/json-patch+json", patch))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		serverSide(t, namespace, "kustomize-controller")
	},
}

// serverSide applies the manifests server-side as the given field manager, and forces conflicts.
func serverSide(t *testing.T, namespace, name string) {
	t.Helper()
	objects, err := apiserver.Objects(bytes.NewReader([]byte(manifests)))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		o.SetNamespace(namespace)
		if err := cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(name), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDecisionsSurvive checks that an approval, a pin, and a pause that are set with hlnr remain when a tool
// applies the manifests again.
func TestDecisionsSurvive(t *testing.T) {
	t.Parallel()
	for name, apply := range tools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			apply(t, namespace)
			cluster.Offer(t, namespace, "shop", "1.0.0")
			cluster.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
			cluster.Offer(t, namespace, "shop", "1.1.0", "1.0.0")
			canary := cluster.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseCanary)
			for k := range canary.Labels {
				if strings.HasPrefix(k, "app.kubernetes.io/instance") {
					t.Errorf("the release has the label %s, by which the tool selects the objects that it deletes if they are not in Git", k)
				}
			}
			before := managed(t, namespace)
			apply(t, namespace)
			if after := managed(t, namespace); after.Generation != before.Generation {
				t.Errorf("the tool and the manager change the same fields: generation %d, then %d", before.Generation, after.Generation)
			}

			decide(t, canary, "Continue")
			apply(t, namespace)
			cluster.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseActive)

			cluster.Edit(t, namespace, "shop", "hlnr", func(s *v1alpha1.MicroserviceSpec) {
				s.Paused = true
				s.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.0.0"}, Reason: "sessions lost"}
			})
			for range 3 {
				apply(t, namespace)
			}
			cluster.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
			if spec := managed(t, namespace).Spec; spec.UpdateStrategy.Manual == nil || !spec.Paused {
				t.Errorf("the pin or the pause was removed: %+v", spec.UpdateStrategy)
			}
		})
	}
}

// TestFluxUndoesKubectl checks that, as the documentation warns, Flux removes a pin that was set with
// kubectl. Argo CD keeps the pin.
func TestFluxUndoesKubectl(t *testing.T) {
	t.Parallel()
	for name, apply := range tools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			apply(t, namespace)
			if out, err := cluster.Kubectl(t, "", "patch", "msvc", "shop", "-n", namespace, "--type=merge", "-p", `{"spec":{"updateStrategy":{"manual":{"semVer":{"version":"1.0.0"}}}}}`); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			apply(t, namespace)
			if pinned := managed(t, namespace).Spec.UpdateStrategy.Manual != nil; pinned == (name == "flux") {
				t.Errorf("pinned: %t", pinned)
			}
		})
	}
}

// managed returns the current Microservice.
func managed(t *testing.T, namespace string) *v1alpha1.Microservice {
	t.Helper()
	var ms v1alpha1.Microservice
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "shop"}, &ms); err != nil {
		t.Fatal(err)
	}
	return &ms
}

// decide records a decision about a release, as hlnr does.
func decide(t *testing.T, o *v1alpha1.VersionedMicroservice, action string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"admin"}},"spec":{"decision":{"action":%q,"id":"1","step":"1"}}}`, v1alpha1.AnnotationDecidedBy, action)
	if err := cluster.Client.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("hlnr")); err != nil {
		t.Fatal(err)
	}
}
