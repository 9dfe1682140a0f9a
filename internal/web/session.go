package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"slices"
	"strings"
)

// tokenParameter is the query parameter that contains the token in the URL that the command prints.
const tokenParameter = "token"

// knownHost reports whether a Host header belongs to this server. This check rejects another site's name that resolves to a loopback address.
func (s *Server) knownHost(host string) bool {
	return slices.Contains(s.Hosts, strings.ToLower(host))
}

// cookieName returns a cookie name that contains the port, because browsers share cookies between the ports of a host.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "0"
	}
	return "hlnr-" + port
}

// session returns the value of the cookie. The token cannot be derived from it.
func (s *Server) session() string {
	sum := sha256.Sum256([]byte("session of hlnr web: " + s.Token))
	return hex.EncodeToString(sum[:])
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// authenticated passes requests that have the session cookie, or the token as a bearer token. A URL that contains the token is exchanged for a
// session.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && equal(bearer, s.Token) {
			next.ServeHTTP(w, r)
			return
		}
		if token := r.URL.Query().Get(tokenParameter); r.Method == http.MethodGet && equal(token, s.Token) {
			http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: s.session(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
			u := *r.URL
			q := u.Query()
			q.Del(tokenParameter)
			u.RawQuery, u.Scheme, u.Host = q.Encode(), "", ""
			u.Path = "/" + strings.TrimLeft(u.Path, "/\\") // The redirect never points to another host.
			http.Redirect(w, r, u.RequestURI(), http.StatusSeeOther)
			return
		}
		if c, err := r.Cookie(cookieName(r)); err == nil && equal(c.Value, s.session()) {
			next.ServeHTTP(w, r)
			return
		}
		s.fail(w, r, &Problem{Status: http.StatusUnauthorized, Title: "Open the URL that hlnr web printed", Text: "It contains a token that changes each time the command is started. This browser does not have the current token."})
	})
}
