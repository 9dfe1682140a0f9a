// Command site checks a built website. Each internal link or picture must refer to an existing file and, if
// it has a fragment, to an existing ID in that file.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site DIRECTORY")
		os.Exit(2)
	}
	pages, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the website:", err)
		os.Exit(1)
	}
	links, broken := check(os.Args[1], pages)
	for _, b := range broken {
		fmt.Fprintln(os.Stderr, b)
	}
	fmt.Printf("%d pages, %d links within the website, %d broken\n", len(pages), links, len(broken))
	if len(broken) > 0 || len(pages) == 0 {
		os.Exit(1)
	}
}

// page contains the IDs and links of an HTML file.
type page struct {
	ids   map[string]bool
	links []string
}

// read parses the HTML files below dir. It returns them by slash-separated path relative to dir.
func read(dir string) (map[string]page, error) {
	pages := map[string]page{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".html" {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		root, err := html.Parse(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name, err := filepath.Rel(dir, path)
		p := page{ids: map[string]bool{}}
		for node := range root.Descendants() {
			p.add(node)
		}
		pages[filepath.ToSlash(name)] = p
		return err
	})
	return pages, err
}

func (p *page) add(node *html.Node) {
	for _, a := range node.Attr {
		switch {
		case a.Key == "id":
			p.ids[a.Val] = true
		case a.Key == "href", a.Key == "src":
			p.links = append(p.links, a.Val)
		}
	}
}

// check checks the links within the website, and describes the broken links.
func check(dir string, pages map[string]page) (links int, broken []string) {
	for name, p := range pages {
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err != nil {
				broken = append(broken, fmt.Sprintf("%s: link %q: %v", name, link, err))
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				continue
			}
			links++
			if why := follow(dir, pages, name, u); why != "" {
				broken = append(broken, fmt.Sprintf("%s: link %q: %s", name, link, why))
			}
		}
	}
	return links, broken
}

// follow returns the reason why a link is broken. The reason is empty if the link has a target.
func follow(dir string, pages map[string]page, from string, u *url.URL) string {
	target := from
	if u.Path != "" {
		target = (&url.URL{Path: "/" + from}).ResolveReference(&url.URL{Path: u.Path}).Path[1:]
	}
	if target == "" || strings.HasSuffix(target, "/") {
		target += "index.html"
	}
	p, isPage := pages[target]
	if !isPage {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(target))); err != nil {
			return "there is no such file"
		}
		return ""
	}
	if u.Fragment != "" && !p.ids[u.Fragment] {
		return "the page has no such heading"
	}
	return ""
}
