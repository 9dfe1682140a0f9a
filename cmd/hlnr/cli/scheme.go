package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Scheme returns the scheme with the kinds of Kubernetes, hlnr.io and the Gateway API.
var Scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, gatewayv1.Install, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return scheme, nil
})

// clusterScoped are the cluster-scoped kinds of [Scheme] that the command uses.
var clusterScoped = []string{
	"ClusterAnalysisTemplate", "ClusterFreeze",
	"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "GatewayClass", "IngressClass", "Namespace", "Node",
	"SelfSubjectAccessReview", "SelfSubjectReview", "SelfSubjectRulesReview", "SubjectAccessReview", "TokenReview",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
}

// groups are the API groups of [Scheme] that the command uses. The client discovers the resources of other groups.
var groups = []string{
	corev1.GroupName, "apps", "batch", "apiextensions.k8s.io", "admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io",
	"discovery.k8s.io", "events.k8s.io", "gateway.networking.k8s.io", "hlnr.io", "networking.k8s.io", "rbac.authorization.k8s.io",
}

// knownKinds returns a mapper from the kinds in these API groups to their resources. It needs no requests to the API server.
func knownKinds(scheme *runtime.Scheme) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || !slices.Contains(groups, kind.Group) || strings.HasSuffix(kind.Kind, "List") || strings.HasSuffix(kind.Kind, "Options") {
			continue
		}
		scope := meta.RESTScopeNamespace
		if slices.Contains(clusterScoped, kind.Kind) {
			scope = meta.RESTScopeRoot
		}
		if kind.Kind == "Gateway" { // The mapper would derive the wrong plural "gatewaies".
			mapper.AddSpecific(kind, kind.GroupVersion().WithResource("gateways"), kind.GroupVersion().WithResource("gateway"), scope)
			continue
		}
		mapper.Add(kind, scope)
	}
	return mapper
}
