package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
)

// kubectlWrapper is a kubectl that logs its arguments, and interferes: %s is a branch of its case statement. KUBECTL is the real kubectl,
// DIR a folder for its files, and NAMESPACE the namespace of the Microservice shop.
const kubectlWrapper = `#!/bin/sh
first() { mkdir "$DIR/$1" 2>/dev/null; }
finalize() { "$KUBECTL" patch microservices.hlnr.io shop --namespace "$NAMESPACE" --type merge --patch '{"metadata":{"finalizers":null}}'; }
echo "$*" >>"$DIR/log"
case "$*" in
%s
esac
exec "$KUBECTL" "$@"
`

// TestUninstallWithFailures tests that hack/uninstall.sh does not conclude from a failed request that there are no objects, and that it
// continues if the manager finalizes an object at the moment at which the script removes the finalizer.
func TestUninstallWithFailures(t *testing.T) {
	alone(t)
	defer shipped(t) // Restore the roles for other tests.
	namespace := env.Namespace(t)
	for name, test := range map[string]struct {
		branch  string
		seconds string // how long the script waits for the manager
		fails   bool
		// patched is whether the script removes the finalizer.
		patched bool
	}{
		"a list fails, and the manager finalizes the object after the next list": {
			`"get microservices.hlnr.io "*) if first failed; then exit 1; fi; "$KUBECTL" "$@"; if first listed; then finalize >&2; fi; exit 0;;`, "600", false, false,
		},
		"the manager finalizes the object before the patch": {`"patch "*) finalize;;`, "0", false, true},
		"the CRD cannot be read":                            {`"get customresourcedefinition "*) exit 1;;`, "0", true, false},
		"the object can be neither patched nor read":        {`"patch "*|*" shop --ignore-not-found "*) exit 1;;`, "0", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop", Finalizers: []string{v1alpha1.FinalizerDeletionPolicy}}}
			ms.Spec.ImagePolicyRef.Name = "shop"
			ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: "shop"}}
			create(t, ms)
			defer func() {
				err := env.Client.Patch(t.Context(), ms, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
				if err == nil {
					err = env.Client.Delete(t.Context(), ms)
				}
				if client.IgnoreNotFound(err) != nil {
					t.Error(err)
				}
			}()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "kubectl"), fmt.Appendf(nil, kubectlWrapper, test.branch), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "hack/uninstall.sh", overlay(t, "", []string{"rbac"}))
			cmd.Dir = apiserver.Root(t)
			cmd.Env = append(os.Environ(), "HLNR_UNINSTALL_SECONDS="+test.seconds, "KUBECONFIG="+env.Kubeconfig(), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"),
				"KUBECTL="+filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "DIR="+dir, "NAMESPACE="+namespace)
			out, err := cmd.CombinedOutput()
			if (err != nil) != test.fails {
				t.Errorf("uninstall: %v: %s", err, out)
			}
			log, err := os.ReadFile(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			requests := "\n" + string(log)
			if strings.Contains(requests, "\npatch ") != test.patched {
				t.Errorf("the script should remove the finalizer: %t; its requests:\n%s", test.patched, log)
			}
			if strings.Contains(requests, "\ndelete --ignore-not-found --kustomize ") == test.fails {
				t.Errorf("the script should remove the roles: %t; its requests:\n%s", !test.fails, log)
			}
		})
	}
}
