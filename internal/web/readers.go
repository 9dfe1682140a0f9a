package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/cluster"
)

// Reader is a user who reads the board.
type Reader struct {
	// User and Groups are the names that identify the reader to the API server. They are empty for the single reader who has
	// the token.
	User   string
	Groups []string
	// Until is the time at which the reader must authenticate again; zero means never.
	Until time.Time
}

// Identity authenticates readers.
type Identity interface {
	// Reader returns the reader of a request. Any error is a [Problem]. Its status is 401 if the reader must log
	// in.
	Reader(r *http.Request) (Reader, error)
	// Login returns the path at which readers log in, or an empty string if there is none. The query parameter "return" of that path contains the
	// page to which readers return after the login.
	Login() string
	// Serve responds to requests for /logout, for /login, and for paths below /login. Any error is a [Problem].
	Serve(w http.ResponseWriter, r *http.Request) error
}

// Access limits what readers see.
type Access interface {
	// Scope returns the scope of a reader. namespaces are the namespaces that contain services. Scope fails if the scope cannot be determined.
	Scope(ctx context.Context, reader Reader, namespaces []string) (Scope, error)
}

// Scope limits the objects that a reader sees. The zero value shows everything.
type Scope struct {
	// Key identifies the scope. Scopes with equal keys show the same objects.
	Key string
	// Filter returns the visible objects without changing its argument. If Filter is nil, all objects are visible.
	Filter func(cluster.Objects) cluster.Objects
	// Missing contains messages about objects that are not shown.
	Missing []string
}

// readerKey is the key of the reader in the context of a request.
type readerKey struct{}

// ReaderOf returns the reader of an authenticated request.
func ReaderOf(ctx context.Context) Reader {
	r, _ := ctx.Value(readerKey{}).(Reader)
	return r
}

// WithReader returns a context that contains a reader. [ReaderOf] returns this reader.
func WithReader(ctx context.Context, r Reader) context.Context {
	return context.WithValue(ctx, readerKey{}, r)
}

// identified passes requests from known readers to next. Static files are public.
func (s *Server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; p == "/login" || strings.HasPrefix(p, "/login/") || p == "/logout" {
			if err := s.Identity.Serve(w, r); err != nil {
				s.failed(w, r, err)
			}
			return
		}
		if strings.HasPrefix(r.URL.Path, "/assets/") {
			next.ServeHTTP(w, r)
			return
		}
		reader, err := s.Identity.Reader(r)
		var problem *Problem
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(WithReader(r.Context(), reader)))
		case errors.As(err, &problem) && problem.Status == http.StatusUnauthorized && s.Identity.Login() != "" && navigates(r):
			http.Redirect(w, r, s.Identity.Login()+"?"+url.Values{"return": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		default:
			s.failed(w, r, err)
		}
	})
}

// navigates reports whether a request opens a page in a browser. Requests from scripts must not be redirected to another
// site.
func navigates(r *http.Request) bool {
	mode := r.Header.Get("Sec-Fetch-Mode")
	return r.Method == http.MethodGet && (mode == "" || mode == "navigate") && !wantsJSON(r) && r.URL.Path != "/live"
}

// moments returns the board that the reader in ctx sees, and a channel that is closed at the next change.
func (s *Server) moments(ctx context.Context) (*moments, <-chan struct{}, error) {
	data, changed := s.Store.Data()
	var scope Scope
	if s.Access != nil {
		var err error
		if scope, err = s.Access.Scope(ctx, ReaderOf(ctx), s.namespaces.of(data)); err != nil {
			return nil, changed, &Problem{Status: http.StatusServiceUnavailable, Title: "Your permissions cannot be checked at the moment", Text: "The API server is not responding: " + err.Error() + ". Reload the page in a few seconds."}
		}
	}
	m, err := s.boards.of(scope.Key).get(s, data, scope)
	return m, changed, err
}

// scheme returns the scheme of the board's URLs.
func (s *Server) scheme() string {
	if s.Secure {
		return "https"
	}
	return "http"
}

// follows counts the open streams of each reader, so that no reader can use all streams of the server. by is 1 when a stream opens, and -1 when it
// ends. follows returns false if the reader has too many open streams.
func (s *Server) follows(reader string, by int) bool {
	s.streamsMu.Lock()
	defer s.streamsMu.Unlock()
	if by > 0 && s.Identity != nil && s.streamsOf[reader] >= maxOfReader {
		return false
	}
	if s.streamsOf[reader] += by; s.streamsOf[reader] == 0 {
		delete(s.streamsOf, reader)
	}
	return true
}
