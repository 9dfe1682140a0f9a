package identity

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/web"
)

// proxyAge is the time after which a stream ends, so that the proxy authenticates the reader again.
const proxyAge = 5 * time.Minute

// Proxy trusts the headers of an authenticating proxy only on connections whose client certificate the server has
// verified. Request header authentication in the Kubernetes API server works in the same way.
type Proxy struct {
	Rules
	// Names are the allowed common names of certificates. If Names is empty, all certificates that the CA has issued are allowed.
	Names []string
	// UserHeaders are the headers that may contain the user; the first header with a value is used. GroupHeaders are the headers that may contain
	// groups.
	UserHeaders, GroupHeaders []string
	// Separator separates the groups within a header; empty if each header contains one group.
	Separator string
	// Clock is the only source of time.
	Clock clock.Clock
}

// Reader returns the reader of a request.
func (p *Proxy) Reader(r *http.Request) (web.Reader, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return web.Reader{}, unknown("The request did not come through the proxy of the board. Open the board at the address of the proxy.")
	}
	if name := r.TLS.VerifiedChains[0][0].Subject.CommonName; len(p.Names) > 0 && !slices.Contains(p.Names, name) {
		return web.Reader{}, refused("The certificate of the proxy has the name %q, which is not allowed.", short(name))
	}
	var user string
	for _, h := range p.UserHeaders {
		if values := r.Header.Values(h); len(values) > 1 {
			return web.Reader{}, refused("The request has more than one %s header.", h)
		}
		if user = r.Header.Get(h); user != "" {
			break
		}
	}
	if user == "" {
		return web.Reader{}, unknown("The proxy did not send a user name. Log in to the proxy.")
	}
	var groups []string
	for _, h := range p.GroupHeaders {
		for _, value := range r.Header.Values(h) {
			if p.Separator == "" {
				groups = append(groups, value)
				continue
			}
			for g := range strings.SplitSeq(value, p.Separator) {
				groups = append(groups, strings.TrimSpace(g))
			}
		}
	}
	reader, err := p.Rules.Reader(user, groups)
	reader.Until = p.Clock.Now().Add(proxyAge)
	return reader, err
}

// Login returns an empty string, because readers log in at the proxy.
func (*Proxy) Login() string { return "" }

// Serve returns an error, because readers log in and out at the proxy.
func (*Proxy) Serve(http.ResponseWriter, *http.Request) error {
	return &web.Problem{Status: http.StatusNotFound, Title: "There is no such page", Text: "Log in and out at the proxy."}
}
