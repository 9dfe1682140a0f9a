//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// smallest is the smallest useful set of objects from the documentation: three objects with only required
// fields. Only the image, the Gateway, and the domain are specific to the local cluster.
const smallest = `
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: shop}
spec: {image: IMAGE, versioning: {range: ">=1.0.0 <2.0.0"}}
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop}
spec:
  imagePolicyRef: {name: shop}
  template: {spec: {containers: [{name: shop, ports: [{containerPort: 8080}]}]}}
---
apiVersion: hlnr.io/v1alpha1
kind: NetworkPolicy
metadata: {name: shop}
spec:
  ports: [{name: http, port: 80, targetPort: 8080, protocol: HTTP}]
  provider: {gateway: {parentRefs: [{name: public, namespace: infra}]}}
  domains: [{domain: shop.smallest.localhost, port: http}]
`

// TestSmallestUseful applies the smallest useful set unchanged with kubectl, and sends requests to its domain.
func TestSmallestUseful(t *testing.T) {
	s := newService(t, "smallest")
	// The set has no security settings, so its namespace must not require them.
	kubectl(t, "", "label", "namespace", s.namespace, "pod-security.kubernetes.io/enforce=baseline", "--overwrite")
	s.push("1.0.0")
	s.push("2.0.0") // This version is out of range.
	began := time.Now()
	kubectl(t, strings.ReplaceAll(smallest, "IMAGE", env.RegistryInternal+"/"+s.repository), "apply", "-n", s.namespace, "-f", "-")
	answers(t, "shop.smallest.localhost")
	t.Logf("first response %s after kubectl apply", time.Since(began).Round(100*time.Millisecond))
	kubectl(t, "", "wait", "-n", s.namespace, "--for=condition=Ready", "--timeout=60s", "imgp/shop", "msvc/shop", "hnp/shop")
	t.Logf("\n%s", kubectl(t, "", "get", "imgp,msvc,vsvc,hnp", "-n", s.namespace))
}
