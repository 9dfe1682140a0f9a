package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/terminal"
)

// TestTerminal runs all commands of hlnr during rollouts, with stand-ins for a kubelet and a gateway. The end-to-end
// test of the same name runs these commands on a node.
func TestTerminal(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	env.PlayKubelet(t, namespace, func(p *corev1.Pod) bool { return !strings.Contains(p.Spec.Containers[0].Image, ":2.1.0@") })
	env.PlayGateway(t, namespace, nil)
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"}}
	gateway.Spec.GatewayClassName = "test"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	create(t, gateway)
	images := registrytest.New(t)
	kubeconfig := proxied(t, func(*http.Request) {})
	startManager(t, "v1.0.0", kubeconfig, namespace)
	s := &terminal.Stage{
		T: t, Client: env.Client, Hlnr: buildHlnr(t), Kubeconfig: env.Kubeconfig(), Namespace: namespace, Name: "shop",
		Objects: shopFor(namespace, images.Repository("team/shop")),
		Push:    func(version string, _ bool) { images.Push(t, "team/shop", version, "linux/amd64") },
		Host:    func(group string) string { return group + ".shop.example.com" },
		Gateway: namespace + "/public",
		Doctor:  cli.ExitNo, // The manager has no Deployment here.
		Limit:   await.Limit,
	}
	s.Play()
}

// buildHlnr builds the command.
func buildHlnr(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "hlnr")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, "../hlnr") // Use the flags of the Makefile, so that the build cache is used.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build hlnr: %v\n%s", err, out)
	}
	return binary
}

// shopFor returns the objects of a service with the steps of the scenario.
func shopFor(namespace, image string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "shop"}
	policy := &v1alpha1.ImagePolicy{ObjectMeta: meta}
	policy.Spec.Image, policy.Spec.Interval, policy.Spec.Platforms = image, "5s", []string{"linux/amd64"}
	policy.Spec.Versioning.GroupBy = v1alpha1.GroupByMajor
	ms := &v1alpha1.Microservice{ObjectMeta: meta}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Availability.Replicas = 2
	ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{ProgressDeadlineSeconds: 60, DrainDelay: "1s", Canary: &v1alpha1.CanaryStrategy{Steps: terminal.Steps()}}
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	target := intstr.FromInt32(8080)
	network := &v1alpha1.NetworkPolicy{ObjectMeta: meta, Spec: v1alpha1.NetworkPolicySpec{
		Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: &target}},
		Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}},
		Domains:  []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}.shop.example.com"}},
	}}
	return []client.Object{policy, ms, network}
}
