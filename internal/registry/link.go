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

// mendLink writes the link to the next page of a list with the scheme and the port
// that the registry was asked by. Registries behind a proxy often know neither, and
// the library follows nothing else. A link to another host stays as it is, and is
// refused: nothing is ever sent there.
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
	next, err := resp.Request.URL.Parse(link[1:end])
	if err != nil || next.Hostname() != (&url.URL{Host: repo.RegistryStr()}).Hostname() {
		return
	}
	next.Scheme, next.Host, next.User = repo.Scheme(), repo.RegistryStr(), nil
	resp.Header.Set("Link", "<"+next.String()+link[end:])
}
