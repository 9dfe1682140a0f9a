// Package web serves the board: pages about services, the same content as JSON, a feed, and forms for actions. It renders the views that
// internal/view computes from the objects of a [cluster.Store], and computes nothing itself.
//
// server.go    options, routes, and headers of all responses
// session.go   authentication of the single reader: the token, the session, and the Host header
// readers.go   authentication and permissions of many readers
// respond.go   responses: pages as HTML or JSON, and errors; compression
// page.go      pages and their chunks, and templates and their functions
// shared.go    boards that readers share
// board.go     filter, search and order of the board
// pages.go     pages of services, releases, previews and versions
// events.go    events across services, as a page and as a feed
// stream.go    changes to open pages
// spark.go     pictures of measurements
// weights.go   weights since the server started, and a picture of them
// acts.go      forms for actions
// targets.go   the targets of actions
// preview.go   the effects of an action, and the check that a reader saw them
// outcome.go   the results of actions
// submit.go    forms that are submitted twice
// words.go     descriptions of actions
// freezes.go   freezes, and the forms that begin and end them
package web

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/cluster"
)

//go:embed assets templates
var files embed.FS

// These are the limits of the server.
const (
	maxHeader  = 16 << 10
	maxBody    = 16 << 10
	maxQuery   = 2 << 10
	maxStreams = 256
	// maxOfReader is the maximum number of streams of each reader, if the board has many readers.
	maxOfReader = 32
	readTimeout = 10 * time.Second
	// writeTimeout limits the time for a response, including the planner's preview and the changes that an
	// action writes.
	writeTimeout = 60 * time.Second
	idleTimeout  = 2 * time.Minute
)

// Options configure a server.
type Options struct {
	// Store contains the objects.
	Store *cluster.Store
	// Acts performs the actions of readers; nil for a read-only board.
	Acts Acts
	// Token authenticates the single reader. It has at least 16 characters. It is not used if Identity is
	// set.
	Token string
	// Identity authenticates many readers; nil for a single reader with the Token.
	Identity Identity
	// Access limits the objects that readers see; nil if they see everything.
	Access Access
	// Secure reports whether readers use HTTPS, even if a proxy terminates it.
	Secure bool
	// Hosts are the accepted values of the Host header, including the port.
	Hosts []string
	// Title is the name of the cluster or context.
	Title string
	// Version is the version of the program.
	Version string
	// Clock is the only source of time.
	Clock clock.Clock
}

// Server serves pages about the objects of one store.
type Server struct {
	Options
	templates  *templates
	assets     map[string]asset // keyed by path
	boards     boards
	namespaces namespaces
	done       doneActs
	submitted  submissions
	weights    observedWeights
	streams    chan struct{}
	// readTimeout limits the time for reading a request.
	readTimeout time.Duration
	// outcomeTimeout limits how long the server waits for the manager to handle a decision.
	outcomeTimeout time.Duration
	handler        http.Handler

	streamsMu sync.Mutex
	streamsOf map[string]int // keyed by user
}

// asset is a static file, served under a name that contains its hash.
type asset struct {
	contentType string
	body        []byte
}

// New returns a server.
func New(o Options) (*Server, error) {
	if o.Identity == nil && len(o.Token) < 16 || o.Identity != nil && o.Access == nil || len(o.Hosts) == 0 || o.Store == nil || o.Clock == nil {
		return nil, errors.New("web: hosts, store, clock, and either a token of at least 16 characters or an identity with access are required")
	}
	s := &Server{Options: o, streams: make(chan struct{}, maxStreams), streamsOf: map[string]int{}, readTimeout: readTimeout, outcomeTimeout: outcomeTimeout}
	names, err := s.readAssets()
	if err != nil {
		return nil, err
	}
	if s.templates, err = parseTemplates(names); err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

// readAssets reads the static files, and returns a map from their names to their paths.
func (s *Server) readAssets() (map[string]string, error) {
	s.assets = map[string]asset{}
	names := map[string]string{}
	types := map[string]string{".css": "text/css; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	for _, e := range entries {
		body, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read assets: %w", err)
		}
		h := fnv.New64a()
		_, _ = h.Write(body)
		ext := path.Ext(e.Name())
		name := fmt.Sprintf("/assets/%s-%x%s", strings.TrimSuffix(e.Name(), ext), h.Sum64(), ext)
		s.assets[name], names[e.Name()] = asset{types[ext], body}, name
	}
	return names, nil
}

// routes returns the handler for all paths.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", s.serveAsset)
	mux.HandleFunc("GET /favicon.ico", http.NotFound)
	mux.HandleFunc("GET /live", s.live)
	mux.HandleFunc("GET /events.atom", s.atom)
	mux.HandleFunc("GET /services/{namespace}/{service}/acts/{verb}", s.showAct)
	mux.HandleFunc("POST /services/{namespace}/{service}/acts/{verb}", s.doAct)
	mux.HandleFunc("GET /freezes/{verb}", s.showFreeze)
	mux.HandleFunc("POST /freezes/{verb}", s.doFreeze)
	mux.HandleFunc("GET /", s.get)
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &Problem{Status: http.StatusForbidden, Title: "The request comes from another site", Text: "Nothing was changed. Open the board itself, and use its form."})
	}))
	if s.Identity != nil {
		return s.secure(protection.Handler(limited(s.identified(mux))))
	}
	return s.secure(s.authenticated(protection.Handler(limited(mux))))
}

// limited limits the size of requests.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.RawQuery) > maxQuery {
			http.Error(w, "the query is too long", http.StatusRequestURITooLong)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// policy is the Content-Security-Policy of all responses.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers of all responses, and rejects unknown hosts.
func (s *Server) secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if s.Secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !s.knownHost(r.Host) {
			http.Error(w, "the host name is not a name of this server", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := s.assets[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	respond(w, r, http.StatusOK, a.contentType, a.body)
}

// ServeHTTP responds to a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve serves the requests that a listener receives until the context is done. Then, open streams also end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: s.readTimeout, ReadTimeout: s.readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: log.New(discard{}, "", 0),
	}
	recording, end := context.WithCancel(ctx)
	defer end()
	go s.record(recording)
	go func() { // This prepares the data of all rows, so that the first reader does not have to wait for it.
		data, _ := s.Store.Data()
		_, _ = s.boards.of("").get(s, data, Scope{})
	}()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return ctx.Err()
}

// discard drops the HTTP server's messages about client connections.
type discard struct{}

// Write drops a message.
func (discard) Write(p []byte) (int, error) { return len(p), nil }
