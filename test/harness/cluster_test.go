package harness

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestAddressesFrom(t *testing.T) {
	defaults := AddressesFrom(func(string) string { return "" })
	for name, test := range map[string]struct {
		environment map[string]string
		want        func(*Addresses)
	}{
		"defaults":   {want: func(*Addresses) {}},
		"kubeconfig": {map[string]string{"KUBECONFIG": "/k"}, func(a *Addresses) { a.Kubeconfig = "/k" }},
		"our kubeconfig wins": {
			map[string]string{"KUBECONFIG": "/k", "HLNR_KUBECONFIG": "/h"}, func(a *Addresses) { a.Kubeconfig = "/h" },
		},
		"everything": {
			map[string]string{
				"HLNR_KUBECONFIG": "1", "HLNR_REGISTRY": "2", "HLNR_REGISTRY_INTERNAL": "3", "HLNR_AUTH_REGISTRY": "4",
				"HLNR_AUTH_REGISTRY_INTERNAL": "5", "HLNR_GATEWAY": "6", "HLNR_GATEWAY_HTTPS": "7", "HLNR_GATEWAY_TLS": "8", "HLNR_GATEWAY_TCP": "9",
				"HLNR_GATEWAY_INTERNAL": "10", "HLNR_PROMETHEUS_INTERNAL": "11", "HLNR_AUDIT_LOG": "12",
			},
			func(a *Addresses) {
				*a = Addresses{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := defaults
			test.want(&want)
			got := AddressesFrom(func(name string) string { return test.environment[name] })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
	for _, address := range []string{defaults.Registry, defaults.AuthRegistry, defaults.Gateway, defaults.GatewayHTTPS, defaults.GatewayTLS, defaults.GatewayTCP} {
		if err := CheckLoopback(address); err != nil {
			t.Errorf("default address: %v", err)
		}
	}
}

func TestURL(t *testing.T) {
	for gateway, want := range map[string]string{
		"127.0.0.1:8000": "http://shop.localhost:8000/",
		"127.0.0.1:80":   "http://shop.localhost/",
	} {
		if got := (Addresses{Gateway: gateway}).URL("shop.localhost"); got != want {
			t.Errorf("URL through %s is %s, want %s", gateway, got, want)
		}
	}
}

func TestOpenCluster(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	_, err := OpenCluster(runtime.NewScheme(), Addresses{Kubeconfig: kubeconfig})
	if err == nil || !strings.Contains(err.Error(), "make cluster-up") {
		t.Errorf("error is %v, want an error with the fix", err)
	}
	write(t, kubeconfig, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"l","user":"u"}}],
"clusters":[{"name":"l","cluster":{"server":"https://127.0.0.1:6443"}}],"users":[{"name":"u","user":{"token":"t"}}]}`)
	cluster, err := OpenCluster(runtime.NewScheme(), Addresses{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	if cluster.Client == nil || cluster.Config.Host != "https://127.0.0.1:6443" || cluster.Config.UserAgent != userAgent {
		t.Errorf("cluster is %+v", cluster)
	}
}
