//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// complaint is a condition that reports invalid input.
type complaint struct {
	kind   string
	status metav1.ConditionStatus
	reason string
	// names are strings that the message must contain: the field, the error, and the fix.
	names []string
}

// TestBadInput applies invalid inputs to a live service, one after the other. Each input results in a condition
// that contains the field and the fix, and the service responds to all requests in the meantime.
func TestBadInput(t *testing.T) {
	s := newService(t, "badinput")
	s.start("1.0.0")
	l := s.load(30, false)
	limited := faultyRegistry(t, s)

	image := func(reference string) func(*v1alpha1.ImagePolicy) {
		return func(p *v1alpha1.ImagePolicy) { p.Spec.Image = reference }
	}
	wrongSecret(t, s)
	for name, test := range map[string]struct {
		images  func(*v1alpha1.ImagePolicy)
		ms      func(*v1alpha1.Microservice)
		network func(*v1alpha1.NetworkPolicy)
		want    complaint
	}{
		"wrong range": {
			images: func(p *v1alpha1.ImagePolicy) { p.Spec.Versioning.Range = ">=1.0.0 <<2" },
			want:   complaint{"Ready", "False", "InvalidSpec", []string{"spec.versioning.range", ">=1.0.0 <<2"}},
		},
		"unknown registry": {
			images: image("10.250.0.1:5999/shop"),
			want:   complaint{"SourceReachable", "False", "Unreachable", []string{"10.250.0.1:5999/shop", "connection refused", "spec.image"}},
		},
		"unknown repository": {
			images: image(env.RegistryInternal + "/e2e/missing"),
			want:   complaint{"SourceReachable", "False", "NotFound", []string{"e2e/missing", "check spec.image", "spec.imagePullSecrets"}},
		},
		"no credential": {
			images: image(env.AuthRegistryInternal + "/" + s.repository),
			want:   complaint{"SourceReachable", "False", "Unauthorized", []string{"401", "spec.imagePullSecrets"}},
		},
		"wrong credential": {
			images: func(p *v1alpha1.ImagePolicy) {
				p.Spec.Image = env.AuthRegistryInternal + "/" + s.repository
				p.Spec.ImagePullSecrets = []v1alpha1.Reference{{Name: "wrong"}}
			},
			want: complaint{"SourceReachable", "False", "Unauthorized", []string{"401", "check the credential in spec.imagePullSecrets"}},
		},
		"missing credential": {
			images: func(p *v1alpha1.ImagePolicy) { p.Spec.ImagePullSecrets = []v1alpha1.Reference{{Name: "missing"}} },
			want:   complaint{"Ready", "False", "", []string{"spec.imagePullSecrets", "missing"}},
		},
		"429": {
			images: image(limited),
			want:   complaint{"SourceReachable", "False", "RateLimited", []string{"limits the rate of requests", "requests continue after the pause", "spec.interval"}},
		},
		"template without the named container": {
			ms:   func(ms *v1alpha1.Microservice) { ms.Spec.ContainerName = "missing" },
			want: complaint{"Ready", "False", "ContainerNotFound", []string{"spec.containerName", "missing"}},
		},
		"unknown ImagePolicy": {
			ms:   func(ms *v1alpha1.Microservice) { ms.Spec.ImagePolicyRef.Name = "missing" },
			want: complaint{"Ready", "False", "ImagePolicyNotFound", []string{"spec.imagePolicyRef.name", "missing", "create it"}},
		},
		"domain template that does not result in a host name": {
			network: func(p *v1alpha1.NetworkPolicy) {
				p.Spec.Domains[0].Domain = "-{{.ReleaseGroupName}}.badinput.localhost"
			},
			want: complaint{"Accepted", "False", "InvalidDomain", []string{"spec.domains[0].domain", "-release.badinput.localhost", "use {{.ReleaseGroupName}}"}},
		},
		"Gateway that does not exist": {
			network: func(p *v1alpha1.NetworkPolicy) { p.Spec.Provider = gateway("missing", "infra") },
			want:    complaint{"ResolvedRefs", "False", "ParentNotFound", []string{"spec.provider.gateway.parentRefs[0]", "infra/missing", "create it, or correct the name"}},
		},
		"Gateway that does not accept the route": {
			network: func(p *v1alpha1.NetworkPolicy) { p.Spec.Provider = gateway("closed", "infra") },
			want:    complaint{"Programmed", "False", "NotAccepted", []string{"spec.provider.gateway.parentRefs[0]", "infra/closed", "allowedRoutes", s.namespace}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "Gateway that does not accept") {
				closedGateway(t)
			}
			before := struct {
				images  v1alpha1.ImagePolicySpec
				ms      v1alpha1.MicroserviceSpec
				network v1alpha1.NetworkPolicySpec
			}{*s.images.Spec.DeepCopy(), *s.ms.Spec.DeepCopy(), *s.network.Spec.DeepCopy()}
			var bad client.Object
			switch {
			case test.images != nil:
				change(t, s.images, test.images)
				bad = s.images
			case test.ms != nil:
				change(t, s.ms, test.ms)
				bad = s.ms
			default:
				change(t, s.network, test.network)
				bad = s.network
			}
			complains(t, bad, test.want)
			alive(t, s, l)
			change(t, s.images, func(p *v1alpha1.ImagePolicy) { p.Spec = before.images })
			change(t, s.ms, func(ms *v1alpha1.Microservice) { ms.Spec = before.ms })
			change(t, s.network, func(p *v1alpha1.NetworkPolicy) { p.Spec = before.network })
			for _, o := range []client.Object{s.images, s.ms, s.network} {
				complains(t, o, complaint{kind: "Ready", status: "True"})
			}
		})
	}

	// Two NetworkPolicies of one Microservice do not overwrite each other.
	t.Run("two claims on one host and path", func(t *testing.T) {
		second := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "second"}, Spec: *s.network.Spec.DeepCopy()}
		second.Spec.MicroserviceRef = &v1alpha1.Reference{Name: appName}
		s.create(second)
		complains(t, second, complaint{"Accepted", "False", "DomainConflict", []string{"spec.domains[0].domain", s.host(), `"` + s.namespace + "/" + appName + `"`, "use another host or path"}})
		alive(t, s, l)
		if err := env.Client.Delete(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("tags that are not versions, or whose images are for another platform", func(t *testing.T) {
		s.push("latest")
		s.push("20240105")
		s.pushImage(harness.Image{Tag: "1.9.0", Architecture: "riscv64"})
		wait(t, "the tags to be rejected with reasons", func(ctx context.Context) (bool, string, error) {
			var p v1alpha1.ImagePolicy
			if err := env.Client.Get(ctx, s.key(), &p); err != nil {
				return false, "", err
			}
			text, err := json.Marshal(p.Status.Candidates)
			all := strings.Contains(string(text), `"latest"`) && strings.Contains(string(text), `"20240105"`) &&
				strings.Contains(string(text), "linux/riscv64") && strings.Contains(string(text), "spec.platforms")
			return all, string(text), err
		})
		alive(t, s, l)
	})
	verdict(t, l)

	for name, test := range map[string]struct {
		image harness.Image
		names []string
	}{
		"only a tag that is not a version":     {harness.Image{Tag: "latest"}, []string{`"latest"`, "the only tag is not offered"}},
		"only a manifest for another platform": {harness.Image{Tag: "1.0.0", Architecture: "riscv64"}, []string{"1.0.0", "linux/riscv64", "spec.platforms"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := *s
			other.repository = fmt.Sprintf("%s-%x", s.repository, time.Now().UnixNano())
			other.pushImage(test.image)
			p := &v1alpha1.ImagePolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "other-"},
				Spec:       v1alpha1.ImagePolicySpec{Image: env.RegistryInternal + "/" + other.repository, Interval: v1alpha1.DurationOf(interval)},
			}
			s.create(p)
			complains(t, p, complaint{"Ready", "False", "NoVersions", test.names})
		})
	}
}

// complains waits until an object has a condition with the required message.
func complains(t *testing.T, o client.Object, want complaint) {
	t.Helper()
	var message string
	wait(t, fmt.Sprintf("%T %s to report %s=%s %s", o, o.GetName(), want.kind, want.status, want.reason), func(ctx context.Context) (bool, string, error) {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, "", err
		}
		detail := "no such condition"
		for _, c := range conditionsOf(o) {
			if c.Type != want.kind {
				continue
			}
			detail = fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
			if c.Status == want.status && (want.reason == "" || c.Reason == want.reason) && c.ObservedGeneration == o.GetGeneration() {
				message = c.Message
				return true, detail, nil
			}
		}
		return false, detail, nil
	})
	if len(want.names) > 0 {
		t.Logf("%s=%s: %s", want.kind, want.status, message)
	}
	for _, part := range want.names {
		if !strings.Contains(message, part) {
			t.Errorf("the message does not contain %q: %s", part, message)
		}
	}
}

func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.ImagePolicy:
		return o.Status.Conditions
	case *v1alpha1.Microservice:
		return o.Status.Conditions
	case *v1alpha1.NetworkPolicy:
		return o.Status.Conditions
	}
	return nil
}

// alive checks that 1.0.0 is active, and that it responds to requests for some time.
func alive(t *testing.T, s *service, l *harness.Load) {
	t.Helper()
	here := *s
	here.t = t
	if r := here.release("1.0.0"); r.Status != v1alpha1.ReleaseActive || !r.Available {
		t.Errorf("1.0.0 is %s, available %t", r.Status, r.Available)
	}
	here.serves(l, 3*time.Second)
	here.sees(l, "1.0.0")
}

// wrongSecret creates a pull secret with a password that the registry rejects.
func wrongSecret(t *testing.T, s *service) {
	t.Helper()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{env.AuthRegistryInternal: map[string]string{"username": "demo", "password": "wrong"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "wrong"},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	})
}

// closedGateway creates a Gateway that accepts only routes from its own namespace.
func closedGateway(t *testing.T) {
	t.Helper()
	same := gatewayv1.NamespacesFromSame
	g := &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "closed"},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "traefik", Listeners: []gatewayv1.Listener{{
			Name: "http", Protocol: gatewayv1.HTTPProtocolType, Port: 8000,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &same}},
		}}},
	}
	_ = env.Client.Delete(t.Context(), g.DeepCopy()) // Delete the Gateway of an earlier run.
	if err := env.Client.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), g); err != nil {
			t.Errorf("delete Gateway: %v", err)
		}
	})
}

// faultyRegistry runs a pod with a registry that responds to all requests with 429, and returns a reference to an image in this
// registry.
func faultyRegistry(t *testing.T, s *service) string {
	t.Helper()
	binary := t.TempDir() + "/faultyregistry"
	build(t, binary, "./test/e2e/faultyregistry")
	image := harness.Image{Registry: env.Registry, Repository: "e2e/faultyregistry", Tag: "1.0.0", Binary: binary}
	if _, err := image.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	spec := podSpec()
	spec.Containers[0].Image = env.RegistryInternal + "/e2e/faultyregistry:1.0.0"
	spec.Containers[0].ImagePullPolicy = corev1.PullAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "faultyregistry"}, Spec: spec}
	s.create(pod)
	wait(t, "the faulty registry to run", func(ctx context.Context) (bool, string, error) {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return podReady(pod), string(pod.Status.Phase), err
	})
	return pod.Status.PodIP + ":8080/shop"
}
