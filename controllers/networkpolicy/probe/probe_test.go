package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

const (
	asWritten = "new-2.hlnr.invalid"
	asBefore  = "old-1.hlnr.invalid"
)

var shop = types.NamespacedName{Namespace: "prod", Name: "shop"}

// setup is a started pool that may probe the loopback interface, together with the results that it
// reported.
type setup struct {
	*Pool
	t        *testing.T
	requeued chan types.NamespacedName
	results  sync.Map // The keys are Results, and the values *atomic.Int64.
}

func start(t *testing.T, change ...func(*Options)) *setup {
	t.Helper()
	allowed, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{t: t, requeued: make(chan types.NamespacedName, 100)}
	o := Options{Outbound: allowed, UserAgent: "heighliner/test", Wait: func(int) time.Duration { return time.Millisecond }, Observe: func(r Result) {
		n, _ := s.results.LoadOrStore(r, &atomic.Int64{})
		n.(*atomic.Int64).Add(1)
	}}
	for _, c := range change {
		c(&o)
	}
	s.Pool = New(o)
	s.Start(t.Context(), func(policy types.NamespacedName) { s.requeued <- policy })
	return s
}

// patient prevents requests from timing out on a busy machine.
func patient(o *Options) { o.Timeout = await.Limit }

func (s *setup) count(r Result) int {
	n, ok := s.results.Load(r)
	if !ok {
		return 0
	}
	return int(n.(*atomic.Int64).Load())
}

// await waits for a requeue.
func (s *setup) await() {
	s.t.Helper()
	if got := await.Receive(s.t, "a requeue", s.requeued); got != shop {
		s.t.Errorf("requeued %s, want %s", got, shop)
	}
}

// until waits until the pool meets a condition.
func (s *setup) until(what string, ok func() bool) {
	s.t.Helper()
	await.Nil(s.t, func(context.Context) error {
		if !ok() {
			return fmt.Errorf("still waiting for %s; known is %+v", what, s.Known(shop))
		}
		return nil
	})
}

// at returns a probe of a server.
func at(t *testing.T, server *httptest.Server, change ...func(*providers.Probe)) providers.Probe {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	p := providers.Probe{
		Route: "route", Generation: 1, Address: host, Port: int32(number),
		Host: "shop.example.com", Path: "/shop/.well-known/hlnr/x", Answer: asWritten, TLS: server.TLS != nil,
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

// answers returns a handler that redirects to the hosts, one after the other. The last host is used
// repeatedly.
func answers(hosts ...string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		i := min(int(n.Add(1)), len(hosts)) - 1
		w.Header().Set("Location", "http://"+hosts[i]+":8000/shop/.well-known/hlnr/x")
		w.WriteHeader(http.StatusFound)
	}
}

// TestInARow checks that a probe succeeds after InARow consecutive correct responses, each on its
// own connection, and that redirects are not followed.
func TestInARow(t *testing.T) {
	for name, test := range map[string]struct {
		hosts []string
		want  int // want is the number of requests.
	}{
		"immediately":             {hosts: []string{asWritten}, want: InARow},
		"one of two proxies lags": {hosts: []string{asWritten, asBefore, asWritten, asWritten, asBefore, asWritten}, want: 5 + InARow},
		"in upper case":           {hosts: []string{strings.ToUpper(asWritten)}, want: InARow},
	} {
		t.Run(name, func(t *testing.T) {
			var connections, requests atomic.Int64
			answer := answers(test.hosts...)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if got := r.Host + r.URL.Path + " " + r.UserAgent(); got != "shop.example.com/shop/.well-known/hlnr/x heighliner/test" {
					t.Errorf("unexpected request: %q", got)
				}
				answer(w, r)
			}))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			server.Start()
			t.Cleanup(server.Close)
			s := start(t, patient)
			s.Ask(shop, []providers.Probe{at(t, server)})
			s.await()
			if got := int(requests.Load()); got != test.want {
				t.Errorf("%d requests, want %d", got, test.want)
			}
			if connections.Load() != requests.Load() {
				t.Errorf("%d connections for %d requests", connections.Load(), requests.Load())
			}
			if known := s.Known(shop)[at(t, server)]; !known.Served || known.Problem != "" || known.Since.IsZero() {
				t.Errorf("known is %+v", known)
			}
		})
	}
}

// TestWrongAnswers checks the results and problems of incorrect responses.
func TestWrongAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		result Result
		want   string
	}{
		"earlier content":                 {answers(asBefore), Earlier, "its response belongs to an earlier version of the route"},
		"a backend":                       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, Elsewhere, "its response with status code 404 does not come from the probe rule of this route"},
		"a backend's redirect":            {answers("login.example.com"), Elsewhere, "its response with status code 302 does not come from the probe rule of this route"},
		"the expected host in the path":   {answers("example.com/" + asWritten), Elsewhere, "its response with status code 302 does not come from the probe rule of this route"},
		"the expected host with a prefix": {answers("x" + asWritten), Earlier, "its response belongs to an earlier version of the route"},
		"a Location without 3xx":          {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "http://"+asWritten) }, Elsewhere, "its response with status code 200 does not come from the probe rule of this route"},
		"an invalid Location": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://[::")
			w.WriteHeader(302)
		}, Elsewhere, "its response with status code 302 does not come from the probe rule of this route"},
		"a header that is too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Long", strings.Repeat("x", 2*maxHeader))
		}, Failed, "its response is not HTTP, or its header is too large"},
		"no response": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, Failed, "it closes the connection without a response"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.answer)
			t.Cleanup(server.Close)
			s := start(t, patient)
			s.Ask(shop, []providers.Probe{at(t, server)})
			s.until("two rounds", func() bool { return s.count(test.result) > 1 })
			if known := s.Known(shop)[at(t, server)]; known.Served || known.Problem != test.want {
				t.Errorf("known is %+v, want problem %q", known, test.want)
			}
			s.Forget(shop)
		})
	}
}

// TestOtherServices checks that the status of a policy never contains the output of a server that
// is not a gateway.
func TestOtherServices(t *testing.T) {
	const secret = "vault-internal"
	for name, test := range map[string]struct {
		banner string
		tls    bool
		want   string
	}{
		"another protocol":       {"+OK " + secret + " 3.1\r\n\r\n", false, "its response is not HTTP, or its header is too large"},
		"an invalid code":        {"HTTP/1.1 " + secret + "\r\n\r\n", false, "its response is not HTTP, or its header is too large"},
		"a bad header":           {"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n", false, "its response is not HTTP, or its header is too large"},
		"an incomplete response": {"HTTP/1.1 200 OK\r\nX-Name: " + secret, false, "it closes the connection without a response"},
		"no TLS":                 {"+OK " + secret + "\r\n", true, "it does not accept TLS connections for the host"},
		"HTTP without TLS":       {"HTTP/1.1 200 " + secret + "\r\n\r\n", true, "it does not accept TLS connections for the host"},
		"no output":              {"", false, "it closes the connection without a response"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 4096)) // Unread data would reset the connection.
					_, _ = c.Write([]byte(test.banner))
					_ = c.Close()
				}
			}()
			s := start(t, patient)
			p := providers.Probe{Address: "127.0.0.1", Port: int32(l.Addr().(*net.TCPAddr).Port), TLS: test.tls, Host: "shop.example.com", Path: "/.well-known/hlnr/x", Answer: asWritten}
			s.Ask(shop, []providers.Probe{p})
			s.until("a problem", func() bool { return s.Known(shop)[p].Problem != "" })
			if diff := cmp.Diff(test.want, s.Known(shop)[p].Problem); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			s.Forget(shop)
		})
	}
}

// TestNoServer checks that the problem contains the error of the operating system.
func TestNoServer(t *testing.T) {
	// Linux never assigns port 1 to a server of another test.
	p := providers.Probe{Address: "127.0.0.1", Port: 1, Host: "shop.example.com", Path: "/.well-known/hlnr/x", Answer: asWritten}
	s := start(t)
	s.Ask(shop, []providers.Probe{p})
	s.until("a problem", func() bool { return s.Known(shop)[p].Problem != "" })
	if got := s.Known(shop)[p].Problem; got != "no connection: connection refused" {
		t.Errorf("problem is %q", got)
	}
	s.Forget(shop)
}

// TestEndlessBody checks that the body of a response is not read.
func TestEndlessBody(t *testing.T) {
	var sent atomic.Int64
	ended := make(chan struct{}, InARow)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers(asWritten)(w, r)
		for chunk := make([]byte, 64<<10); ; {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				ended <- struct{}{}
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	s := start(t)
	s.Ask(shop, []providers.Probe{at(t, server)})
	s.await()
	for range InARow {
		<-ended
	}
	if got := sent.Load(); got > 32<<20 {
		t.Errorf("%d bytes were sent", got)
	}
}

// TestTLS checks that the server name is the host, and that the certificate is not verified.
func TestTLS(t *testing.T) {
	var names sync.Map
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names.Store(r.TLS.ServerName, true)
		answers(asWritten)(w, r)
	}))
	t.Cleanup(server.Close)
	s := start(t)
	s.Ask(shop, []providers.Probe{at(t, server)})
	s.await()
	if _, ok := names.Load("shop.example.com"); !ok {
		t.Error("the server name was not the host")
	}
}

// TestTimeout checks that a request to an address that does not respond times out.
func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	s := start(t)
	s.Ask(shop, []providers.Probe{at(t, server)}) // The server does not respond before the test ends.
	s.until("a problem", func() bool { return s.Known(shop)[at(t, server)].Problem != "" })
	if problem := s.Known(shop)[at(t, server)].Problem; problem != "no response within 2s" {
		t.Errorf("problem %q", problem)
	}
}

// names resolves every name to one address.
type names string

func (n names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(string(n))}, nil
}

// TestRefusedAddresses checks that no request is sent to an address that the manager's flags do not
// allow, although the status of a Gateway contains the address.
func TestRefusedAddresses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent to a refused address") }))
	t.Cleanup(server.Close)
	for name, test := range map[string]struct {
		config  outbound.Config
		address string
		names   string
		want    string
	}{
		"loopback":           {address: "127.0.0.1", want: "refuse 127.0.0.1: it is a loopback address; the manager's flag --outbound-allow can allow it"},
		"loopback by name":   {address: "gateway.example.net", names: "127.0.0.1", want: "refuse gateway.example.net (127.0.0.1): it is a loopback address; the manager's flag --outbound-allow can allow it"},
		"metadata":           {config: outbound.Config{Allow: []string{"0.0.0.0/0"}}, address: "169.254.169.254", want: "refuse 169.254.169.254: it is the address of a metadata service"},
		"metadata by name":   {config: outbound.Config{Allow: []string{"example.net"}}, address: "gateway.example.net", names: "169.254.169.254", want: "refuse gateway.example.net (169.254.169.254): it is the address of a metadata service"},
		"link-local":         {address: "169.254.1.1", want: "refuse 169.254.1.1: it is a link-local address; the manager's flag --outbound-allow can allow it"},
		"denied by the flag": {config: outbound.Config{Allow: []string{"127.0.0.1"}, Deny: []string{"127.0.0.1"}}, address: "127.0.0.1", want: "refuse 127.0.0.1: it is denied by the manager's flag --outbound-deny"},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := outbound.New(test.config)
			if err != nil {
				t.Fatal(err)
			}
			if test.names != "" {
				policy = policy.WithResolver(names(test.names))
			}
			s := start(t, func(o *Options) { o.Outbound = policy })
			p := at(t, server, func(p *providers.Probe) { p.Address = test.address })
			s.Ask(shop, []providers.Probe{p})
			s.until("a problem", func() bool { return s.Known(shop)[p].Problem != "" })
			if diff := cmp.Diff(test.want, s.Known(shop)[p].Problem); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			s.Forget(shop)
		})
	}
}

// TestSuccessfulProbeIsNotSentAgain checks that a successful probe is not sent again, and that a
// removed probe is stopped.
func TestSuccessfulProbeIsNotSentAgain(t *testing.T) {
	var requests atomic.Int64
	serve := answers(asWritten)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests.Add(1); serve(w, r) }))
	t.Cleanup(server.Close)
	s := start(t, patient)
	first, second := at(t, server), at(t, server, func(p *providers.Probe) { p.Generation = 2 })
	never := at(t, server, func(p *providers.Probe) { p.Answer = "newer-3.hlnr.invalid" })
	s.Ask(shop, []providers.Probe{first})
	s.await()
	s.Ask(shop, []providers.Probe{first, first})
	s.Ask(shop, []providers.Probe{first, second})
	s.await()
	if got := requests.Load(); got != 2*InARow {
		t.Errorf("%d requests, want %d", got, 2*InARow)
	}
	s.Ask(shop, []providers.Probe{second, never})
	if _, known := s.Known(shop)[first]; known {
		t.Error("a removed probe is still known")
	}
	s.until("a round without success", func() bool { return s.count(Earlier) > 0 })
	s.Forget(shop)
	if known := s.Known(shop); len(known) > 0 {
		t.Errorf("known is %v after the policy was forgotten", known)
	}
	before := settled(s)
	time.Sleep(50 * time.Millisecond) // Probes must not be sent during this time. If probes continued, one would be sent every millisecond.
	if after := s.count(Earlier); after != before {
		t.Errorf("%d requests after the policy was forgotten", after-before)
	}
}

// settled waits until no request is in progress. It returns the number of Earlier results.
func settled(s *setup) int {
	s.t.Helper()
	s.until("requests to end", func() bool { return s.slots.Taken() == 0 })
	return s.count(Earlier)
}

// TestShares checks that the number of concurrent requests to one address is limited, and that an
// address that does not respond leaves slots for other addresses.
func TestShares(t *testing.T) {
	var now, most atomic.Int64
	began := time.Now()
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		// After Timeout, the value of now also includes requests that have timed out and no longer have a
		// slot.
		for old := most.Load(); time.Since(began) < Timeout && n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
		now.Add(-1)
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(release) })
	well := httptest.NewServer(answers(asWritten))
	t.Cleanup(well.Close)
	s := start(t, func(o *Options) { o.Outbound = o.Outbound.Trusting("localhost").WithResolver(names("127.0.0.1")) })
	for i := range 40 {
		s.Ask(types.NamespacedName{Namespace: fmt.Sprint(i % 4), Name: fmt.Sprint(i)}, []providers.Probe{at(t, hanging, func(p *providers.Probe) { p.Route = types.UID(fmt.Sprint(i)) })})
	}
	s.until("all slots of the address to be taken", func() bool { return now.Load() >= maxAddress })
	s.Ask(shop, []providers.Probe{at(t, well, func(p *providers.Probe) { p.Address = "localhost" })})
	s.await()
	if got := most.Load(); got > maxAddress {
		t.Errorf("%d requests to one address at a time, want at most %d", got, maxAddress)
	}
}

// TestBackOff checks that the times between rounds become longer, and differ between probes.
func TestBackOff(t *testing.T) {
	for round, test := range map[int]struct{ least, most time.Duration }{
		1: {80 * time.Millisecond, 120 * time.Millisecond}, 9: {476 * time.Millisecond, 716 * time.Millisecond},
		100: {24 * time.Second, 36 * time.Second}, 1 << 30: {24 * time.Second, 36 * time.Second},
	} {
		seen := map[time.Duration]bool{}
		for range 100 {
			d := backOff(round)
			seen[d] = true
			if d < test.least || d > test.most {
				t.Errorf("wait after round %d is %s, want %s to %s", round, d, test.least, test.most)
			}
		}
		if len(seen) < 10 {
			t.Errorf("waits after round %d are the same", round)
		}
	}
}

// broken is a context that makes a request panic.
type broken struct{ context.Context }

func (broken) Value(any) any { panic("a secret of a tenant") }

// TestPanicOfARequest checks that a request that panics counts as a failed request, and that its slot is released.
func TestPanicOfARequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	problem, ok := s.round(broken{t.Context()}, shop.Namespace, providers.Probe{Address: "127.0.0.1", Port: 80, Host: "shop.example.com", Path: "/"})
	if !ok || problem != contain.ErrPanic.Error() || s.count(Failed) != 1 {
		t.Errorf("problem %q, ok %v, %d failed requests", problem, ok, s.count(Failed))
	}
	if n := s.slots.Taken(); n > 0 {
		t.Errorf("%d slots are taken", n)
	}
}
