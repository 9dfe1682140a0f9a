package registry

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/heighliner/heighliner/internal/version"
)

// listing is the state of a list that is being read. It is passed in the context of the requests, and is used by one request at a time.
type listing struct {
	repo name.Repository
	// known is the ETag of the cached complete list, or empty if there is none.
	known string
	// etag is the ETag of a list that has only one page. pages is the number of pages that were read.
	etag  string
	pages int
	// tags are the tags on the page that was read last. named is the number of names on that page, which may include names that
	// are not tags.
	tags  []string
	named int
}

type listingKey struct{}

func withListing(ctx context.Context, l *listing) context.Context {
	return context.WithValue(ctx, listingKey{}, l)
}

// listingIn returns the listing in ctx, or nil if ctx does not belong to a request for a list.
func listingIn(ctx context.Context) *listing {
	l, _ := ctx.Value(listingKey{}).(*listing)
	return l
}

// page reports whether a request is for a page of the list rather than for a token.
func (l *listing) page(req *http.Request) bool {
	return l != nil && req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/tags/list")
}

// condition makes the request for the first page conditional if the cached list has an ETag.
func (l *listing) condition(req *http.Request) *http.Request {
	if !l.page(req) || l.known == "" || l.pages > 0 {
		return req
	}
	conditional := req.Clone(req.Context())
	conditional.Header.Set("If-None-Match", l.known)
	return conditional
}

// answered counts a page, records the ETag if the list has only this page, and reports whether the list is unchanged.
func (l *listing) answered(req *http.Request, resp *http.Response) (same bool) {
	if !l.page(req) {
		return false
	}
	switch resp.StatusCode {
	case http.StatusNotModified:
		return l.known != "" && req.Header.Get("If-None-Match") == l.known
	case http.StatusOK:
		l.pages++
		l.etag = ""
		if tag := resp.Header.Get("ETag"); l.pages == 1 && len(tag) <= maxETag && resp.Header.Get("Link") == "" {
			l.etag = tag
		}
	}
	return false
}

// read decodes the tags of a page one at a time to save memory, because a page can contain all tags of a large list, and several scans can read
// such pages concurrently.
func (l *listing) read(body io.ReadCloser) error {
	defer body.Close()
	l.tags, l.named = nil, 0
	d := json.NewDecoder(body)
	start, err := d.Token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return errNoList
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if key, ok := name.(string); ok && strings.EqualFold(key, "tags") {
			err = l.readTags(d)
		} else {
			err = skip(d)
		}
		if err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// errNoList reports that the response is JSON, but not a list of tags.
var errNoList = &json.UnmarshalTypeError{Value: "another value", Type: reflect.TypeFor[[]string]()}

// readTags reads a list of strings, or null.
func (l *listing) readTags(d *json.Decoder) error {
	l.tags, l.named = nil, 0
	start, err := d.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return errNoList
	}
	for d.More() {
		value, err := d.Token()
		if err != nil {
			return err
		}
		tag, ok := value.(string)
		if !ok {
			return errNoList
		}
		l.named++
		if version.IsTag(tag) {
			l.tags = append(l.tags, tag)
		}
	}
	_, err = d.Token()
	return err
}

// skip reads one value and discards it.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// maxETag is the maximum length of a stored ETag, in bytes.
const maxETag = 256

// correctLink replaces the scheme and host of the link to the next page with those of the registry, and the path with
// that of the request. It keeps only the query. Registries behind a proxy often do not know their own scheme, host and
// path. The library follows only the corrected link. Therefore, it requests all pages from the same host.
func correctLink(resp *http.Response) {
	link := resp.Header.Get("Link")
	start, end := strings.IndexByte(link, '<'), strings.IndexByte(link, '>')
	if resp.Request == nil || start != 0 || end < 0 {
		return
	}
	listing := listingIn(resp.Request.Context())
	if listing == nil {
		return
	}
	named, err := url.Parse(link[1:end])
	if err != nil {
		return
	}
	next := url.URL{Scheme: listing.repo.Scheme(), Host: listing.repo.RegistryStr(), Path: resp.Request.URL.Path, RawQuery: named.RawQuery}
	resp.Header.Set("Link", "<"+next.String()+link[end:])
}
