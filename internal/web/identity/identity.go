// Package identity identifies the readers of a board, either through an identity provider with OpenID Connect, or
// through a proxy that authenticates users and presents a certificate. It accepts no anonymous users, and no
// names that begin with "system:".
//
// identity.go  the accepted users and groups
// proxy.go     headers of a proxy, over mutual TLS
// oidc.go      login with an identity provider: authorization code with PKCE
// claims.go    the reader that the claims of a token identify
// session.go   sessions in sealed cookies
package identity

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/heighliner/heighliner/internal/web"
)

// These are the limits on the names of a reader.
const (
	maxName   = 256
	maxGroups = 500
	// reserved is the prefix of the built-in users and groups of Kubernetes.
	reserved = "system:"
)

// Rules map the names of users and groups to names for the API server.
type Rules struct {
	// UserPrefix and GroupsPrefix are prepended to names, so that a provider cannot issue names that already exist in the cluster. Each is
	// empty for no prefix.
	UserPrefix, GroupsPrefix string
	// Groups lists the groups that are used, with their prefix. Other groups are ignored. If Groups is empty, all groups are used.
	Groups []string
}

// Reader returns the reader with the given user and groups. It rejects reserved and invalid names with a [web.Problem].
func (r Rules) Reader(user string, groups []string) (web.Reader, error) {
	if user == "" {
		return web.Reader{}, refused("There is no user name.")
	}
	out := web.Reader{User: r.UserPrefix + user}
	if why := fault(out.User); why != "" {
		return web.Reader{}, refused("The user name %q %s.", short(out.User), why)
	}
	for _, g := range groups {
		if g = r.GroupsPrefix + g; g == r.GroupsPrefix || slices.Contains(out.Groups, g) {
			continue
		}
		if why := fault(g); why != "" {
			return web.Reader{}, refused("The group %q %s.", short(g), why)
		}
		if len(r.Groups) == 0 || slices.Contains(r.Groups, g) {
			out.Groups = append(out.Groups, g)
		}
	}
	if len(out.Groups) > maxGroups {
		return web.Reader{}, refused("You are in %d groups; at most %d are supported. Ask an administrator of the board to limit the groups with --groups.", len(out.Groups), maxGroups)
	}
	slices.Sort(out.Groups)
	return out, nil
}

// fault describes why a name is invalid. It returns an empty string if the name is valid.
func fault(name string) string {
	switch {
	case strings.HasPrefix(name, reserved):
		return "is reserved for Kubernetes itself"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsGraphic(c) }) || strings.TrimSpace(name) != name:
		return "contains characters that are not allowed in names"
	}
	return ""
}

func short(name string) string { return name[:min(len(name), 60)] }

func refused(format string, args ...any) *web.Problem {
	return &web.Problem{Status: http.StatusForbidden, Title: "You cannot use the board", Text: fmt.Sprintf(format, args...)}
}

// unknown returns the response to an unknown reader.
func unknown(text string) *web.Problem {
	return &web.Problem{Status: http.StatusUnauthorized, Title: "You are not logged in", Text: text}
}
