package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/internal/certs"
	"github.com/heighliner/heighliner/internal/certs/certstest"
	"github.com/heighliner/heighliner/test/await"
)

// names is a resolver that knows only the given names.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range n[host] {
		out = append(out, netip.MustParseAddr(s))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

func policy(t *testing.T, config Config) *Policy {
	t.Helper()
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func client(t *testing.T, p *Policy, o Options) *http.Client {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = await.Limit
	}
	c, err := p.Client(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func get(c *http.Client, address string) (string, error) {
	response, err := c.Get(address)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	return string(raw), err
}

// TestRefused checks that the client does not connect to denied addresses, in any notation.
func TestRefused(t *testing.T) {
	t.Parallel()
	resolver := names{
		"metadata.example":         {"169.254.169.254"},
		"metadata6.example":        {"fd00:ec2::254"},
		"2852039166":               {"169.254.169.254"}, // some resolvers accept this name
		"0xa9fea9fe":               {"169.254.169.254"},
		"0251.0376.0251.0376":      {"169.254.169.254"},
		"127.1":                    {"127.0.0.1"},
		"both.example":             {"127.0.0.1", "::1"},
		"mapped.example":           {"::ffff:169.254.169.254"},
		"sub.denied.example":       {"192.0.2.1"},
		"addressdenied.example":    {"198.51.100.7"},
		"metadata.allowed.example": {"169.254.169.254"},
	}
	everything := Config{Allow: []string{"0.0.0.0/0", "::/0", "metadata.example", "allowed.example"}}
	for name, test := range map[string]struct {
		host   string
		config Config
		flag   string
	}{
		"loopback":                      {"127.0.0.1", Config{}, FlagAllow},
		"other loopback":                {"127.255.1.2", Config{}, FlagAllow},
		"loopback, another port":        {"127.0.0.1", Config{Allow: []string{"127.0.0.1:1", "[::1]:1"}}, FlagAllow},
		"denied port":                   {"127.0.0.1", Config{Allow: []string{"127.0.0.1"}, Deny: []string{"127.0.0.1:9"}}, FlagDeny},
		"denied port of a name":         {"sub.denied.example", Config{Deny: []string{"denied.example:9"}}, FlagDeny},
		"loopback, IPv6":                {"[::1]", Config{}, FlagAllow},
		"loopback, mapped":              {"[::ffff:127.0.0.1]", Config{}, FlagAllow},
		"loopback, short":               {"127.1", Config{}, FlagAllow},
		"loopback by name":              {"both.example", Config{}, FlagAllow},
		"unspecified":                   {"0.0.0.0", Config{}, FlagAllow},
		"unspecified, IPv6":             {"[::]", Config{}, FlagAllow},
		"this network":                  {"0.1.2.3", Config{}, FlagAllow},
		"multicast":                     {"224.0.0.1", Config{}, FlagAllow},
		"multicast, IPv6":               {"[ff02::1]", Config{}, FlagAllow},
		"broadcast":                     {"255.255.255.255", Config{}, FlagAllow},
		"link-local":                    {"169.254.1.1", Config{}, FlagAllow},
		"link-local, IPv6":              {"[fe80::1]", Config{}, FlagAllow},
		"link-local, zone":              {"[fe80::1%25lo]", Config{}, FlagAllow},
		"loopback in NAT64":             {"[64:ff9b::7f00:1]", Config{}, FlagAllow},
		"metadata":                      {"169.254.169.254", everything, ""},
		"metadata by name":              {"metadata.example", everything, ""},
		"metadata, allowed name":        {"metadata.allowed.example", everything, ""},
		"metadata, decimal":             {"2852039166", everything, ""},
		"metadata, hexadecimal":         {"0xa9fea9fe", everything, ""},
		"metadata, octal":               {"0251.0376.0251.0376", everything, ""},
		"metadata, mapped":              {"[::ffff:169.254.169.254]", everything, ""},
		"metadata, mapped in hex":       {"[::ffff:a9fe:a9fe]", everything, ""},
		"metadata, mapped by name":      {"mapped.example", everything, ""},
		"metadata, compatible":          {"[::169.254.169.254]", everything, ""},
		"metadata in NAT64":             {"[64:ff9b::a9fe:a9fe]", everything, ""},
		"metadata in 6to4":              {"[2002:a9fe:a9fe::1]", everything, ""},
		"metadata in local NAT64, /96":  {"[64:ff9b:1:abcd::a9fe:a9fe]", everything, ""},
		"metadata in local NAT64, /64":  {"[64:ff9b:1:abcd:a9:fea9:fe00:0]", everything, ""},
		"metadata in local NAT64, /56":  {"[64:ff9b:1:aba9:fe:a9fe::]", everything, ""},
		"metadata in local NAT64, /48":  {"[64:ff9b:1:a9fe:a9:fe00::]", everything, ""},
		"metadata in SIIT":              {"[::ffff:0:a9fe:a9fe]", everything, ""},
		"metadata as Teredo client":     {"[2001:0:808:808:0:0:5601:5601]", everything, ""},
		"metadata as Teredo server":     {"[2001:0:a9fe:a9fe:0:0:f7f7:f7f7]", everything, ""},
		"metadata in ISATAP":            {"[2001:db8::5efe:a9fe:a9fe]", everything, ""},
		"metadata in ISATAP, universal": {"[2001:db8::200:5efe:a9fe:a9fe]", everything, ""},
		"metadata in ISATAP in 6to4":    {"[2002:808:808::5efe:a9fe:a9fe]", everything, ""},
		"local NAT64":                   {"[64:ff9b:1::808:808]", Config{}, FlagAllow},
		"SIIT":                          {"[::ffff:0:808:808]", Config{}, FlagAllow},
		"Teredo":                        {"[2001:0:808:808:0:0:f7f7:f7f7]", Config{}, FlagAllow},
		"loopback in ISATAP":            {"[2001:db8::5efe:7f00:1]", Config{}, FlagAllow},
		"loopback in SIIT":              {"[::ffff:0:7f00:1]", Config{Allow: []string{"::ffff:0:0:0/96"}}, FlagAllow},
		"denied network in local NAT64": {"[64:ff9b:1:2::c000:201]", Config{Allow: []string{"64:ff9b:1::/48"}, Deny: []string{"192.0.2.0/24"}}, FlagDeny},
		"denied network in SIIT":        {"[::ffff:0:c000:201]", Config{Allow: []string{"::/0"}, Deny: []string{"192.0.2.0/24"}}, FlagDeny},
		"denied network in Teredo":      {"[2001:0:808:808:0:0:3fff:fdfe]", Config{Allow: []string{"2001::/32"}, Deny: []string{"192.0.2.0/24"}}, FlagDeny},
		"denied network in ISATAP":      {"[2001:db8::5efe:c000:201]", Config{Deny: []string{"192.0.2.0/24"}}, FlagDeny},
		"denied network in 6to4":        {"[2002:c000:201::1]", Config{Deny: []string{"192.0.2.0/24"}}, FlagDeny},
		"network's own NAT64, denied":   {"[2001:db8:64::808:808]", Config{Deny: []string{"2001:db8:64::/96"}}, FlagDeny},
		"metadata, IPv6":                {"[fd00:ec2::254]", everything, ""},
		"metadata, IPv6 by name":        {"metadata6.example", everything, ""},
		"metadata of pods":              {"169.254.170.23", everything, ""},
		"metadata of Oracle, IPv6":      {"[fd00:c1::a9fe:a9fe]", everything, ""},
		"metadata of Scaleway, IPv6":    {"[fd00:42::42]", Config{}, ""},
		"metadata of OpenStack, IPv6":   {"[fe80::a9fe:a9fe]", everything, ""},
		"denied network":                {"192.0.2.1", Config{Deny: []string{"192.0.2.0/24"}}, FlagDeny},
		"denied address":                {"192.0.2.1", Config{Deny: []string{"192.0.2.1"}}, FlagDeny},
		"denied network by name":        {"addressdenied.example", Config{Deny: []string{"198.51.100.0/24"}}, FlagDeny},
		"denied host's subdomain":       {"sub.denied.example", Config{Deny: []string{"denied.example"}}, FlagDeny},
		"denied host in upper case":     {"SUB.Denied.Example.", Config{Deny: []string{"denied.example"}}, FlagDeny},
		"denied overrides allowed":      {"127.0.0.1", Config{Allow: []string{"127.0.0.0/8"}, Deny: []string{"127.0.0.1"}}, FlagDeny},
		"denied network in NAT64":       {"[64:ff9b::c000:201]", Config{Deny: []string{"192.0.2.0/24"}}, FlagDeny},
		"allowed network, another host": {"127.0.0.2", Config{Allow: []string{"127.0.0.1"}}, FlagAllow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := get(client(t, policy(t, test.config).WithResolver(resolver), Options{}), "http://"+test.host+":9/")
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("error = %v, want a *RefusedError", err)
			}
			if refused.Flag != test.flag {
				t.Errorf("%v: flag = %q, want %q", refused, refused.Flag, test.flag)
			}
			if test.flag != "" && !strings.Contains(refused.Error(), test.flag) {
				t.Errorf("message %q does not name %s", refused, test.flag)
			}
		})
	}
}

// TestNotRefused checks that the client connects to an address that only seems to contain an embedded address, or that contains a
// harmless embedded address.
func TestNotRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		address string
		config  Config
	}{
		"IPv4":                           {"8.8.8.8", Config{}},
		"IPv6":                           {"2001:4860:4860::8888", Config{}},
		"NAT64":                          {"64:ff9b::808:808", Config{Deny: []string{"10.0.0.0/8"}}},
		"6to4":                           {"2002:808:808::1", Config{}},
		"ISATAP":                         {"2001:db8::5efe:808:808", Config{}},
		"not ISATAP, other identifier":   {"2001:db8::1:5efe:a9fe:a9fe", Config{}},
		"adjacent to Teredo":             {"2001:1::5601:5601", Config{}},
		"adjacent to local NAT64":        {"64:ff9b:2::a9fe:a9fe", Config{}},
		"local NAT64, allowed":           {"64:ff9b:1::808:808", Config{Allow: []string{"64:ff9b:1::/48"}}},
		"local NAT64, allowed, a subnet": {"64:ff9b:1:7f00::808:808", Config{Allow: []string{"64:ff9b:1:7f00::/96"}}},
		"Teredo, allowed":                {"2001:0:808:808:0:0:f7f7:f7f7", Config{Allow: []string{"2001::/32"}}},
		"network's own NAT64":            {"2001:db8:64::a9fe:a9fe", Config{}}, // nothing marks it as a NAT64 address
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := policy(t, test.config).check(test.address, netip.MustParseAddr(test.address), 443); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNilPolicyRefuses(t *testing.T) {
	t.Parallel()
	var p *Policy
	_, err := get(client(t, p, Options{}), "http://127.0.0.1:9/")
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("error = %v, want a *RefusedError", err)
	}
}

// TestAllowed checks that the client connects to addresses that the operator allows. If a name has several addresses, the client uses only
// the allowed addresses.
func TestAllowed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resolver := names{
		"app.internal.example": {"127.0.0.1"},
		"rebound.example":      {"169.254.169.254", "127.0.0.1"},
	}
	for name, test := range map[string]struct {
		host   string
		policy *Policy
	}{
		"network":                {"127.0.0.1", policy(t, Config{Allow: []string{"127.0.0.0/8"}})},
		"address":                {"127.0.0.1", policy(t, Config{Allow: []string{"127.0.0.1"}})},
		"suffix":                 {"app.internal.example", policy(t, Config{Allow: []string{"internal.example"}})},
		"suffix, dot":            {"app.internal.example", policy(t, Config{Allow: []string{".internal.example"}})},
		"one address is allowed": {"rebound.example", policy(t, Config{Allow: []string{"127.0.0.0/8"}})},
		"one port":               {"127.0.0.1", policy(t, Config{Allow: []string{"127.0.0.1:" + u.Port()}})},
		"one port of name":       {"app.internal.example", policy(t, Config{Allow: []string{"internal.example:" + u.Port()}, Deny: []string{"internal.example:1"}})},
		"trusted address":        {"127.0.0.1", policy(t, Config{}).Trusting("127.0.0.1")},
		"trusted host":           {"app.internal.example", policy(t, Config{}).Trusting("APP.internal.example")},
		"trusted, nil policy":    {"127.0.0.1", (*Policy)(nil).Trusting("127.0.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := get(client(t, test.policy.WithResolver(resolver), Options{}), "http://"+net.JoinHostPort(test.host, u.Port()))
			if err != nil || got != "yes" {
				t.Fatalf("body = %q, error = %v", got, err)
			}
		})
	}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config Config
		want   string // part of the error; empty for no error
	}{
		"all forms":          {Config{Allow: []string{"10.0.0.0/8", "fd00::/8", "10.1.2.3", "::1", "example.com", ".example.org", "127.0.0.1:5000", "[::1]:5000", "localhost:5000"}}, ""},
		"URL":                {Config{Allow: []string{"http://example.com"}}, "read --outbound-allow: \"http://example.com\" is not an address, CIDR or host name; write 10.0.0.0/8, 127.0.0.1:5000, or example.com"},
		"invalid port":       {Config{Deny: []string{"example.com:65536"}}, "read --outbound-deny"},
		"port 0":             {Config{Deny: []string{"example.com:0"}}, "read --outbound-deny"},
		"port without host":  {Config{Deny: []string{":80"}}, "read --outbound-deny"},
		"port of a CIDR":     {Config{Deny: []string{"10.0.0.0/8:80"}}, "read --outbound-deny"},
		"wildcard":           {Config{Deny: []string{"*.example.com"}}, "example.com, which includes its subdomains"},
		"empty":              {Config{Deny: []string{""}}, "read --outbound-deny"},
		"dot":                {Config{Deny: []string{"."}}, "read --outbound-deny"},
		"bad CIDR":           {Config{Deny: []string{"10.0.0.0/33"}}, "read --outbound-deny"},
		"IPv4 in IPv6, CIDR": {Config{Deny: []string{"::ffff:10.0.0.0/104"}}, "write \"::ffff:10.0.0.0/104\" as IPv4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(test.config)
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Fatalf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/end", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/metadata", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	mux.HandleFunc("/port", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:9/", http.StatusFound)
	})
	mux.HandleFunc("/secure", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+r.Host+"/end", http.StatusFound)
	})
	mux.HandleFunc("/end", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "end") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p := policy(t, Config{Allow: []string{"127.0.0.0/8"}})
	for name, test := range map[string]struct {
		path   string
		follow int
		want   string // body; empty for an error
		typed  bool
	}{
		"on the host":                   {"/here", 3, "end", false},
		"not followed":                  {"/here", 0, "<a href=\"/end\">Found</a>.\n\n", false},
		"in a loop":                     {"/loop", 3, "", false},
		"to the metadata":               {"/metadata", 3, "", true},
		"to another port":               {"/port", 3, "", true},
		"to another scheme":             {"/secure", 3, "", true},
		"not followed, to the metadata": {"/metadata", 0, "<a href=\"http://169.254.169.254/latest/meta-data/\">Found</a>.\n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := get(client(t, p, Options{Redirects: test.follow}), server.URL+test.path)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if (err != nil) != (test.want == "") {
				t.Errorf("error = %v", err)
			}
			var redirect *RedirectError
			if errors.As(err, &redirect) != test.typed {
				t.Errorf("error = %v, want a *RedirectError: %t", err, test.typed)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/size/{n}", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscan(r.PathValue("n"), &n)
		_, _ = w.Write(bytes.Repeat([]byte("a"), n))
	})
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(bytes.Repeat([]byte("a"), 1<<20))
		_ = z.Close()
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		select { // The rest of the body never arrives.
		case <-r.Context().Done():
		case <-released:
		}
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("a", maxHeader+1))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	p := policy(t, Config{Allow: []string{"127.0.0.0/8"}})

	for name, test := range map[string]struct {
		path  string
		size  int
		large bool
	}{
		"empty":               {"/size/0", 0, false},
		"at the limit":        {"/size/1000", 1000, false},
		"one more":            {"/size/1001", 1000, true},
		"many more":           {"/size/100000", 1000, true},
		"large when unpacked": {"/bomb", 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := get(client(t, p, Options{MaxBody: 1000}), server.URL+test.path)
			var large *TooLargeError
			if errors.As(err, &large) != test.large || !test.large && err != nil {
				t.Fatalf("error = %v, want a *TooLargeError: %t", err, test.large)
			}
			if len(got) != test.size {
				t.Errorf("%d bytes, want %d", len(got), test.size)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		_, err := get(client(t, p, Options{Timeout: 200 * time.Millisecond}), server.URL+"/slow")
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("error = %v, want a timeout", err)
		}
	})
	t.Run("headers", func(t *testing.T) {
		if _, err := get(client(t, p, Options{}), server.URL+"/headers"); err == nil {
			t.Fatal("large headers are read")
		}
	})
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards the error from the failed handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	p := policy(t, Config{Allow: []string{"127.0.0.0/8"}})
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if got, err := get(client(t, p, Options{CA: own}), server.URL); err != nil || got != "yes" {
		t.Errorf("with the certificate: %q, %v", got, err)
	}
	if _, err := get(client(t, p, Options{}), server.URL); err == nil {
		t.Error("without the certificate, the server is trusted")
	}
	if _, err := p.Client(Options{CA: []byte("no PEM")}); err == nil || !strings.Contains(err.Error(), "read certificates") {
		t.Errorf("error = %v, want one about the certificates", err)
	}
	if _, err := p.Client(Options{CA: append(certstest.RootPEM(t, 262_144), own...)}); !errors.Is(err, certs.ErrTooLarge) {
		t.Errorf("a root of 262144 bits: error %v, want %v", err, certs.ErrTooLarge)
	}
}

// TestNoProxy checks that proxy environment variables are ignored, because a proxy would connect instead of the client.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	transport := client(t, nil, Options{}).Transport.(limited).next.(*http.Transport)
	if transport.Proxy != nil {
		t.Error("the transport uses a proxy")
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"short":               {"all good", 20, "all good"},
		"truncated":           {"all good", 3, "all"},
		"truncated in a rune": {"aé", 2, "a"},
		"lines":               {"a\r\nb\x00c\u2028d", 20, "a  b c d"},
		"not UTF-8":           {"a\xffb", 20, "ab"},
		"escape sequence":     {"\x1b[31mred", 20, "[31mred"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Printable([]byte(test.in), test.limit); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestErrorsOfSeveralAddresses checks that the error for a host with several addresses does not depend on their order, which differs with
// each resolution.
func TestErrorsOfSeveralAddresses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config    Config
		addresses []string
	}{
		"no server":         {Config{Allow: []string{"127.0.0.0/8"}}, []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}},
		"refused addresses": {Config{}, []string{"127.0.0.1", "169.254.1.1", "224.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts := map[string]bool{}
			for i := range test.addresses {
				rotated := append(slices.Clone(test.addresses[i:]), test.addresses[:i]...)
				p := policy(t, test.config).WithResolver(names{"shop.example": rotated})
				_, err := p.Dial(t.Context(), "tcp", "shop.example:1") // The kernel never assigns this port to a server of another test.
				if err == nil {
					t.Fatal("connected")
				}
				texts[err.Error()] = true
			}
			if len(texts) > 1 {
				t.Errorf("the errors differ: %q", slices.Collect(maps.Keys(texts)))
			}
		})
	}
}
