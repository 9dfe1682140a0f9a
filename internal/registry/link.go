package registry

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// pagesOf is the key of the repository whose list is read, in a context.
type pagesOf struct{}

func withPagesOf(ctx context.Context, repo name.Repository) context.Context {
	return context.WithValue(ctx, pagesOf{}, repo)
}

// pagesIn gives the repository whose list is read.
func pagesIn(ctx context.Context) (name.Repository, bool) {
	repo, ok := ctx.Value(pagesOf{}).(name.Repository)
	return repo, ok
}

// mendLink takes the query alone from the link to the next page of a list: scheme,
// host and path stay those that the registry was asked by. Registries behind a proxy
// often know none of the three, the library follows nothing else, and nothing is ever
// sent elsewhere.
func mendLink(resp *http.Response) {
	link := resp.Header.Get("Link")
	start, end := strings.IndexByte(link, '<'), strings.IndexByte(link, '>')
	if resp.Request == nil || start != 0 || end < 0 {
		return
	}
	repo, ok := pagesIn(resp.Request.Context())
	if !ok {
		return
	}
	named, err := url.Parse(link[1:end])
	if err != nil {
		return
	}
	next := url.URL{Scheme: repo.Scheme(), Host: repo.RegistryStr(), Path: resp.Request.URL.Path, RawQuery: named.RawQuery}
	resp.Header.Set("Link", "<"+next.String()+link[end:])
}
