package registry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// names is a resolver that knows only the given names.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if address, ok := n[host]; ok {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr(address)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// TestProxiesAreNotAskedForMetadata checks that no proxy is used to reach a denied address.
func TestProxiesAreNotAskedForMetadata(t *testing.T) {
	proxy := &url.URL{Scheme: "http", Host: "proxy.example.com:3128"}
	known := names{"inside.example.com": "10.0.0.1", "rebound.example.com": "169.254.169.254", "mapped.example.com": "::ffff:100.100.100.200"}
	for target, refused := range map[string]bool{
		"https://registry.example.com/v2/":     false, // the name is not resolved here
		"https://inside.example.com/v2/":       false,
		"https://10.0.0.1:5000/v2/":            false,
		"https://[2001:db8::1]/v2/":            false,
		"https://registry.example.com.:443/":   false,
		"https://rebound.example.com/v2/":      true,
		"https://rebound.example.com./v2/":     true,
		"https://mapped.example.com/v2/":       true,
		"http://169.254.169.254/latest":        true,
		"http://169.254.169.254.:80/latest":    true,
		"http://[fe80::1]/":                    true,
		"http://[fd00:ec2::254]/latest":        true,
		"http://[::ffff:169.254.169.254]/":     true,
		"http://[64:ff9b::a9fe:a9fe]/":         true,
		"http://127.0.0.1:8080/metrics":        true,
		"http://[::1]:8080/metrics":            true,
		"http://[fd20:ce::254]/":               true,
		"http://168.63.129.16/":                true,
		"http://2852039166/latest":             true,
		"http://0xa9fea9fe/latest":             true,
		"http://0xA9.0xFE.0xA9.0xFE/latest":    true,
		"http://169.254.43518/latest":          true,
		"https://registry.example.com1/v2/":    false,
		"https://0xregistry.example.0xyz/v2/":  false,
		"https://0123.example.com:5000/v2/":    false,
		"https://registry.example.com:2852/v2": false,
	} {
		for _, mode := range []string{"proxy", "none", "broken"} {
			broken := errors.New("broken")
			p := &proxies{allowed: (*outbound.Policy)(nil).WithResolver(known), choose: func(*http.Request) (*url.URL, error) {
				switch mode {
				case "proxy":
					return proxy, nil
				case "broken":
					return nil, broken
				}
				return nil, nil
			}}
			got, err := p.proxyOf(httptest.NewRequest(http.MethodGet, target, nil))
			switch mode {
			case "none": // the dialer decides
				if got != nil || err != nil {
					t.Errorf("%s: %v, %v without a proxy", target, got, err)
				}
			case "broken":
				if got != nil || !errors.Is(err, broken) {
					t.Errorf("%s: %v, %v with a broken environment", target, got, err)
				}
			default:
				if errors.As(err, new(*outbound.RefusedError)) != refused || (err == nil) != (got == proxy) {
					t.Errorf("%s: %v, %v; want it refused: %t", target, got, err, refused)
				}
			}
		}
	}
}

// TestProxyOfTheEnvironment checks that the proxy in the environment variables is used for all registries except
// those in NO_PROXY. A process reads these variables only once, so the test runs itself in another process.
func TestProxyOfTheEnvironment(t *testing.T) {
	if os.Getenv("REGISTRY_TEST_PROXIED") != "" {
		proxied(t)
		return
	}
	authority := registrytest.NewAuthority(t)
	server := registrytest.New(t, registrytest.WithTLS(authority.Server(t, time.Now().Add(time.Hour), nil, "registry.invalid")))
	server.SetTags("acme/web", numbered(3))
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.Host)
		mu.Unlock()
		if r.Method != http.MethodConnect || r.Host != "registry.invalid:443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		tunnel(t, w, server.Host())
	}))
	defer proxy.Close()
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyOfTheEnvironment$", "-test.count=1", "-test.v")
	self.Env = append(os.Environ(), "REGISTRY_TEST_PROXIED="+string(authority.PEM()), "HTTPS_PROXY="+proxy.URL, "HTTP_PROXY="+proxy.URL, "NO_PROXY=direct.invalid")
	if out, err := self.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestProxyOfTheEnvironment") {
		t.Errorf("with a proxy: %v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) == 0 {
		t.Error("the proxy received no request")
	}
	for _, request := range asked {
		if request != "CONNECT registry.invalid:443" {
			t.Errorf("the proxy received the request %s", request)
		}
	}
}

// proxied runs in the process that has a proxy in its environment.
func proxied(t *testing.T) {
	own := TLS{CA: os.Getenv("REGISTRY_TEST_PROXIED")}
	scanner := New(Options{Outbound: registrytest.Outbound(), Backoff: fast})
	list := func(repository string, own TLS) (Scan, error) {
		return scanner.List(t.Context(), Request{Repository: repository, TLS: own, Insecure: true, Timeout: await.Limit})
	}
	if scan, err := list("registry.invalid/acme/web", own); err != nil || len(scan.Tags) != 3 {
		t.Errorf("through the proxy: %d tags, %v", len(scan.Tags), err)
	}
	if _, err := list("169.254.169.254/acme/web", TLS{}); KindOf(err) != Refused {
		t.Errorf("metadata through the proxy: %v, want %q", err, Refused)
	}
	if _, err := list("direct.invalid/acme/web", own); KindOf(err) != Unreachable {
		t.Errorf("a host in NO_PROXY: %v, want %q, because no such name is resolved", err, Unreachable)
	}
}

// tunnel connects the client of a CONNECT request to an address until one side closes its
// connection.
func tunnel(t *testing.T, w http.ResponseWriter, address string) {
	upstream, err := net.Dial("tcp", address)
	if err != nil {
		t.Errorf("dial %s: %v", address, err)
		return
	}
	defer upstream.Close()
	w.WriteHeader(http.StatusOK)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Errorf("take the connection over: %v", err)
		return
	}
	defer client.Close()
	go func() {
		io.Copy(upstream, buffered)
		upstream.Close()
	}()
	io.Copy(client, upstream)
}
