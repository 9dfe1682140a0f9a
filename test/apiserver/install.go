package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// GatewayAPIVersion is the version of the installed Gateway API CRDs.
const GatewayAPIVersion = "v1.4.0"

// ManagerUser is the user name of the manager's ServiceAccount.
const ManagerUser = "system:serviceaccount:heighliner-system:heighliner"

// Objects reads the documents of a YAML stream.
func Objects(in io.Reader) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(in, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parse YAML: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Root returns the directory that contains the project's go.mod. The working directory must be in or below it.
func Root(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// installPolicies applies the admission policies, and waits until the API server rejects a release that a user other
// than the manager creates.
func installPolicies(ctx context.Context, env *Env, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list policies: %w", err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		in, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read policy: %w", err)
		}
		objects, err := Objects(bytes.NewReader(in))
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		for _, object := range objects {
			if err := env.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("create %s %q: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}

	release := &hlnr.VersionedMicroservice{
		ObjectMeta: metav1.ObjectMeta{Name: "policy-probe", Namespace: "default"},
		Spec: hlnr.VersionedMicroserviceSpec{
			MicroserviceName: "probe",
			Group:            "all",
			SemVer:           hlnr.SemVer{Name: "all", Version: "1.0.0"},
			Images:           []hlnr.ReleaseImage{{Image: "probe:1.0.0", Digest: "sha256:0"}},
		},
	}
	release.Spec.Template.Spec.Containers = []corev1.Container{{Name: "probe"}}
	frozen := &hlnr.Freeze{ObjectMeta: release.ObjectMeta, Spec: hlnr.FreezeSpec{FreezeRules: hlnr.FreezeRules{Reason: "probe", Indefinite: true}}}
	// The API server does not start to enforce all policies at the same time. Members of system:masters may set any pin.
	for _, refused := range []client.Object{release, frozen} {
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := env.Client.Create(ctx, refused.DeepCopyObject().(client.Object), client.DryRunAll)
			if err == nil || strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
				return err != nil, nil
			}
			return false, err
		})
		if err != nil {
			return fmt.Errorf("wait until the policy of %T is enforced: %w", refused, err)
		}
	}
	return nil
}

// GatewayAPI returns the folder in the module cache that contains the CRDs of the given version and
// channel ("standard" or "experimental") of the Gateway API. It downloads the module if necessary.
func GatewayAPI(version, channel string) (string, error) {
	dir, err := module("sigs.k8s.io/gateway-api", version)
	return filepath.Join(dir, "config", "crd", channel), err
}

// APISIX returns the folder with the CRDs of the APISIX ingress controller, in the last version whose module includes
// them. It downloads the module if necessary.
func APISIX() (string, error) {
	dir, err := module("github.com/apache/apisix-ingress-controller", "v1.7.1")
	return filepath.Join(dir, "samples", "deploy", "crd", "v1"), err
}

// CertManager returns the folder with the CRDs of cert-manager. It downloads the module if necessary.
func CertManager() (string, error) {
	dir, err := module("github.com/cert-manager/cert-manager", "v1.21.1")
	return filepath.Join(dir, "deploy", "crds"), err
}

// module returns the folder in the module cache that contains the given version of a module.
func module(path, version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", path+"@"+version)
	// The command runs outside the project, because it must not change go.mod and go.sum.
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetch %s %s: %w: %s", path, version, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("read folder of %s: %w", path, err)
	}
	return found.Dir, nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("read working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find go.mod: no go.mod in or above the working directory")
		}
		dir = parent
	}
}
