package github

import (
	"bytes"
	"compress/gzip"
	"container/list"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/heighliner/heighliner/internal/outbound"
)

// These are the limits of the response cache.
const (
	maxStored = 64 << 20 // bytes, compressed; a page of 100 pull requests takes about 100 KB
	maxBody   = 5 << 20  // bytes of one response, uncompressed; a page of ten pull requests of the maximum size is smaller
	// maxElements is the maximum number of JSON values in one response. A full page of pull requests contains about 40,000 values.
	maxElements = 1 << 16
	// decodedElement is the maximum size of a decoded value, in bytes: go-github may allocate a one-kilobyte structure for a few
	// bytes of text. maxDecoded is the maximum memory, in bytes, for all responses that the clients of a pool decode at the same time.
	decodedElement = 1 << 10
	maxDecoded     = 96 << 20
)

// headerUnchanged marks a response from the cache.
const headerUnchanged = "X-Heighliner-Unchanged"

// store caches responses for conditional requests. It compresses them, limits their total size in bytes, and evicts the least recently used
// responses.
type store struct {
	max int
	// decoding limits the memory for decoding all responses, whether they are cached or not.
	decoding *outbound.Decoding

	mu      sync.Mutex
	size    int
	order   *list.List // of *stored, most recently used first
	entries map[string]*list.Element
}

// stored is a cached response with status 200.
type stored struct {
	key    string
	header http.Header
	packed []byte
	length int // length of the uncompressed body
}

func (s *stored) size() int {
	n := len(s.key) + len(s.packed) + 256
	for name, values := range s.header {
		n += len(name)
		for _, value := range values {
			n += len(value)
		}
	}
	return n
}

func newStore(limit int) *store {
	return &store{max: limit, decoding: outbound.NewDecoding(maxDecoded, decodedElement), order: list.New(), entries: map[string]*list.Element{}}
}

func (s *store) get(key string) *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	element := s.entries[key]
	if element == nil {
		return nil
	}
	s.order.MoveToFront(element)
	return element.Value.(*stored)
}

// put adds an entry unless it is larger than an eighth of the limit. Therefore, no caller can evict all other entries with one response.
func (s *store) put(entry *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(s.entries[entry.key])
	if entry.size() > s.max/8 {
		return
	}
	s.entries[entry.key] = s.order.PushFront(entry)
	s.size += entry.size()
	for s.size > s.max {
		s.remove(s.order.Back())
	}
}

func (s *store) remove(element *list.Element) {
	if element == nil {
		return
	}
	entry := s.order.Remove(element).(*stored)
	delete(s.entries, entry.key)
	s.size -= entry.size()
}

// drop removes the entries whose keys begin with prefix.
func (s *store) drop(prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, element := range s.entries {
		if strings.HasPrefix(key, prefix) {
			s.remove(element)
		}
	}
}

// held is a RoundTripper that returns a response once the response has been read completely and there is enough memory to decode it.
type held struct {
	next     http.RoundTripper
	decoding *outbound.Decoding
}

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	source := response.Body
	if response.StatusCode >= http.StatusBadRequest { // Only the beginning of an error response is read.
		source = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(source, maxRefusal), source}
	}
	body, err := h.decoding.Hold(r.Context(), source)
	if err != nil {
		return nil, err
	}
	response.Body = body
	return response, nil
}

// conditional sends conditional requests with the ETag or date of the cached response. For a 304 response, it returns the cached
// response.
type conditional struct {
	next  http.RoundTripper
	store *store
	scope string // identifies the server and the credential; it is the prefix of all keys
}

func (c *conditional) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return c.next.RoundTrip(r)
	}
	key := c.scope + " " + r.URL.String() + " " + strings.Join(r.Header.Values("Accept"), ",")
	known := c.store.get(key)
	if known != nil {
		r = r.Clone(r.Context())
		if tag := known.header.Get("ETag"); tag != "" {
			r.Header.Set("If-None-Match", tag)
		} else {
			r.Header.Set("If-Modified-Since", known.header.Get("Last-Modified"))
		}
	}
	response, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Header.Del(headerUnchanged)
	switch {
	case response.StatusCode == http.StatusNotModified && known != nil:
		response.Body.Close()
		return c.stored(r, known, response.Header.Values("Link"))
	case response.StatusCode == http.StatusOK:
		if body, ok := response.Body.(*outbound.Held); ok {
			c.keep(key, response.Header, body)
		}
	}
	return response, nil
}

// keep caches a response if it allows conditional requests.
func (c *conditional) keep(key string, header http.Header, body *outbound.Held) {
	entry := &stored{key: key, header: http.Header{}, length: body.Len()}
	for _, name := range []string{"ETag", "Last-Modified", "Link", "Content-Type"} {
		if values := header.Values(name); len(values) > 0 {
			entry.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if entry.header.Get("ETag") == "" && entry.header.Get("Last-Modified") == "" {
		return
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // This fails only for an unknown compression level.
	if err := body.CopyTo(w); err == nil && w.Close() == nil {
		entry.packed = packed.Bytes()
		c.store.put(entry)
	}
}

// stored returns a cached response as soon as there is enough memory to decode it.
func (c *conditional) stored(r *http.Request, known *stored, link []string) (*http.Response, error) {
	response, err := known.answer(r, link)
	if err != nil {
		return nil, err
	}
	body, err := c.store.decoding.Hold(r.Context(), response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = body
	return response, nil
}

// answer returns the cached response for a new request. The Link header of the 304 response replaces the cached Link header, because
// the ETag of a page covers only its items.
func (s *stored) answer(r *http.Request, link []string) (*http.Response, error) {
	reader, err := gzip.NewReader(bytes.NewReader(s.packed))
	if err != nil {
		return nil, err
	}
	header := s.header.Clone()
	header.Set(headerUnchanged, "true")
	if len(link) > 0 {
		header["Link"] = link
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(reader), ContentLength: int64(s.length), Request: r,
	}, nil
}
