package identity

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/web"
)

// TestRules checks that names get their prefix, unused groups are omitted, and invalid names are rejected.
func TestRules(t *testing.T) {
	t.Parallel()
	many := make([]string, maxGroups+1)
	for i := range many {
		many[i] = fmt.Sprint("team-", i)
	}
	for name, tc := range map[string]struct {
		rules  Rules
		user   string
		groups []string
		want   web.Reader
		refuse string
	}{
		"prefix":                     {Rules{UserPrefix: "oidc:", GroupsPrefix: "oidc:"}, "ana", []string{"b", "a", "a", ""}, web.Reader{User: "oidc:ana", Groups: []string{"oidc:a", "oidc:b"}}, ""},
		"limited":                    {Rules{GroupsPrefix: "oidc:", Groups: []string{"oidc:a"}}, "ana", []string{"a", "b"}, web.Reader{User: "ana", Groups: []string{"oidc:a"}}, ""},
		"one of many":                {Rules{Groups: []string{"team-7"}}, "ana", many, web.Reader{User: "ana", Groups: []string{"team-7"}}, ""},
		"letters":                    {Rules{}, "Anaïs Ωmega", nil, web.Reader{User: "Anaïs Ωmega"}, ""},
		"no user":                    {Rules{UserPrefix: "oidc:"}, "", nil, web.Reader{}, "no user name"},
		"system user":                {Rules{}, "system:admin", nil, web.Reader{}, "for Kubernetes itself"},
		"system group":               {Rules{}, "ana", []string{"system:masters"}, web.Reader{}, "for Kubernetes itself"},
		"ignored, rejected":          {Rules{Groups: []string{"a"}}, "ana", []string{"a", "system:masters"}, web.Reader{}, "for Kubernetes itself"},
		"system group from a prefix": {Rules{GroupsPrefix: "sys"}, "ana", []string{"tem:masters"}, web.Reader{}, "for Kubernetes itself"},
		"long":                       {Rules{}, strings.Repeat("a", maxName+1), nil, web.Reader{}, "longer than"},
		"line":                       {Rules{}, "ana\r\nImpersonate-Group: admins", nil, web.Reader{}, "characters"},
		"direction":                  {Rules{}, "ana\u202e", nil, web.Reader{}, "characters"},
		"space":                      {Rules{}, " ana", nil, web.Reader{}, "characters"},
		"not UTF-8":                  {Rules{}, "ana", []string{"\xff"}, web.Reader{}, "characters"},
		"many groups":                {Rules{}, "ana", many, web.Reader{}, "501 groups"},
	} {
		got, err := tc.rules.Reader(tc.user, tc.groups)
		if tc.refuse != "" {
			if err == nil || !strings.Contains(err.Error(), tc.refuse) || got.User != "" {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

// TestProxy checks that the headers with the user and the groups are used only if the client of the
// connection has a verified certificate with an allowed name.
func TestProxy(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	proxy := &Proxy{Names: []string{"front"}, UserHeaders: []string{"X-Remote-User", "X-Forwarded-User"}, GroupHeaders: []string{"X-Forwarded-Groups"}, Separator: ",", Clock: clocktesting.NewFakeClock(now)}
	of := func(name string) *tls.ConnectionState {
		return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: name}}}}}
	}
	for name, tc := range map[string]struct {
		tls    *tls.ConnectionState
		header http.Header
		user   string
		groups []string
		status int
	}{
		"user and groups": {of("front"), http.Header{"X-Forwarded-User": {"ana"}, "X-Forwarded-Groups": {"b, a", "c,"}}, "ana", []string{"a", "b", "c"}, 0},
		"first header":    {of("front"), http.Header{"X-Remote-User": {"bob"}, "X-Forwarded-User": {"ana"}}, "bob", nil, 0},
		"no TLS":          {nil, http.Header{"X-Forwarded-User": {"ana"}}, "", nil, 401},
		"no certificate":  {&tls.ConnectionState{}, http.Header{"X-Forwarded-User": {"ana"}}, "", nil, 401},
		"unverified":      {&tls.ConnectionState{PeerCertificates: of("front").VerifiedChains[0]}, http.Header{"X-Forwarded-User": {"ana"}}, "", nil, 401},
		"another name":    {of("back"), http.Header{"X-Forwarded-User": {"ana"}}, "", nil, 403},
		"no user":         {of("front"), http.Header{"X-Forwarded-Groups": {"a"}}, "", nil, 401},
		"two users":       {of("front"), http.Header{"X-Forwarded-User": {"ana", "bob"}}, "", nil, 403},
		"system user":     {of("front"), http.Header{"X-Forwarded-User": {"system:admin"}}, "", nil, 403},
		"system group":    {of("front"), http.Header{"X-Forwarded-User": {"ana"}, "X-Forwarded-Groups": {"a,system:masters"}}, "", nil, 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS, r.Header = tc.tls, tc.header
		got, err := proxy.Reader(r)
		p, _ := err.(*web.Problem)
		switch {
		case tc.status != 0:
			if p == nil || p.Status != tc.status || got.User != "" {
				t.Errorf("%s: %+v %v", name, got, err)
			}
		case err != nil || got.User != tc.user || !slices.Equal(got.Groups, tc.groups) || !got.Until.Equal(now.Add(proxyAge)):
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	if err := proxy.Serve(nil, nil); proxy.Login() != "" || err == nil {
		t.Error("a proxy has a login")
	}
}

// TestSeal checks that a cookie can be opened only with the key and the name that were used to seal it.
func TestSeal(t *testing.T) {
	t.Parallel()
	a, err := newSealer([]byte(strings.Repeat("k", KeyLength)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := newSealer(nil)
	if err != nil {
		t.Fatal(err)
	}
	const user = "ana@example.com" // too long to occur by chance
	text, err := a.seal("session", session{User: user})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || strings.Contains(string(sealed), user) {
		t.Fatal(text, err)
	}
	var s session
	if err := a.open("session", text, &s); err != nil || s.User != user {
		t.Errorf("%+v %v", s, err)
	}
	// The last character of a base64 text can contain unused bits, and a constant can be equal to the text that it replaces.
	// The first character is always significant.
	first := "A"
	if text[:1] == first {
		first = "B"
	}
	for name, open := range map[string]func() error{
		"another name": func() error { return a.open("login", text, &s) },
		"another key":  func() error { return b.open("session", text, &s) },
		"changed":      func() error { return a.open("session", first+text[1:], &s) },
		"short":        func() error { return a.open("session", "AAAA", &s) },
		"not base64":   func() error { return a.open("session", "<>", &s) },
		"empty":        func() error { return a.open("session", "", &s) },
	} {
		if open() == nil {
			t.Errorf("%s: the cookie can be opened", name)
		}
	}
	if _, err := newSealer([]byte("short")); err == nil {
		t.Error("a short key is accepted")
	}
}

// FuzzOpen checks that no cookie that was sealed without the key causes a panic or can be opened.
func FuzzOpen(f *testing.F) {
	s, err := newSealer([]byte(strings.Repeat("k", KeyLength)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		var into session
		if s.open("session", text, &into) == nil {
			t.Error("the cookie was opened")
		}
	})
}

// TestLocal checks that a login redirects only to pages of the board.
func TestLocal(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/": "/", "/services/shop/shop?q=a%20b": "/services/shop/shop?q=a%20b", "": "/", "https://evil.example.com/": "/", "//evil.example.com": "/", "/\\evil.example.com": "/",
		"/\tevil": "/", "evil": "/", "/logout": "/", "/login?return=/": "/", "/login/callback?state=a": "/", "javascript:alert(1)": "/", "/?q=" + strings.Repeat("a", 1000): "/",
	} {
		if got := local(target); got != want {
			t.Errorf("%q: %q", target, got)
		}
	}
}
