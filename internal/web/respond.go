package web

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Problem is an error response that describes the problem and what the reader can do about it.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Text   string `json:"detail"`
	// Link is the page on which the reader can continue, and LinkText is the text of the link. An empty Link means the board.
	Link     string `json:"-"`
	LinkText string `json:"-"`
}

// Error returns the problem in one line.
func (p *Problem) Error() string { return p.Title + ": " + p.Text }

// retrySeconds is the time after which the browser reloads a page that could not be rendered because a server is unavailable.
const retrySeconds = 10

// wantsJSON reports whether a request prefers JSON to HTML.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	json := strings.Index(accept, "application/json")
	html := strings.Index(accept, "text/html")
	return json >= 0 && (html < 0 || json < html)
}

// fail responds with a problem.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, p *Problem) {
	if wantsJSON(r) {
		respondJSON(w, r, p.Status, p)
		return
	}
	data := s.layout(r, "")
	data.Title, data.Live = p.Title, false
	if p.Status == http.StatusServiceUnavailable && r.Method == http.MethodGet {
		data.Retry = retrySeconds
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	}
	body, err := s.templates.execute("problem", map[string]any{"Layout": data, "Problem": p, "Known": s.Identity != nil || p.Status != http.StatusUnauthorized})
	if err != nil {
		http.Error(w, p.Error(), p.Status)
		return
	}
	respond(w, r, p.Status, "text/html; charset=utf-8", body)
}

func respondJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, "the response cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	respond(w, r, status, "application/json", append(body, '\n'))
}

// writers is a pool of gzip writers.
var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.DefaultCompression)
	return w
}}

// minCompressed is the minimum size in bytes of responses that are compressed.
const minCompressed = 512

// respond writes a response, compressed if the reader accepts compression.
func respond(w http.ResponseWriter, r *http.Request, status int, contentType string, chunks ...[]byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept, Accept-Encoding")
	size := 0
	for _, c := range chunks {
		size += len(c)
	}
	out := io.Writer(w)
	if size >= minCompressed && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		z := writers.Get().(*gzip.Writer)
		z.Reset(w)
		defer func() {
			_ = z.Close() // An error means that the reader disconnected.
			writers.Put(z)
		}()
		out = z
	}
	w.WriteHeader(status)
	for _, c := range chunks {
		if _, err := out.Write(c); err != nil {
			return // the reader disconnected
		}
	}
}
