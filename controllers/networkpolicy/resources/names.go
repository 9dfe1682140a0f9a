package resources

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// maxName is the maximum length of a DNS label. Names of Services must be DNS labels.
const maxName = 63

// GroupServiceName returns the name of the Service that follows the active release of a group. It
// consists of the policy's name and the group's slug. If this name would be too long, it is
// shortened and ends in a hash.
func GroupServiceName(policy, slug string) string {
	name := policy + "-" + slug
	if len(name) <= maxName {
		return name
	}
	return join(name, "g"+digest(policy, slug))
}

// ReleaseServiceName returns the name of the Service of one release. The name always ends in a
// hash, so that it is unique across all policies and differs from the name of any group's Service.
func ReleaseServiceName(policy, microservice, release string) string {
	short := strings.TrimPrefix(release, microservice+"-")
	return join(policy+"-"+strings.ReplaceAll(short, ".", "-"), "r"+digest(policy, release))
}

// RouteName returns the name of the index-th route with the given target, path and port. The target
// identifies the releases to which the route sends requests. The name ends in a hash, so that it is
// unique.
func RouteName(policy, target, path, port string, index int) string {
	short := label(strings.TrimPrefix(target, "group/"))
	return join(policy+"-"+short, digest(policy, target, path, port, strconv.Itoa(index)))
}

// ListenerSetName returns the name of the ListenerSet for a host on a port of a Gateway. The
// gateway argument contains the namespace and name of the Gateway.
func ListenerSetName(policy, gateway, host string, port int32) string {
	return join(policy+"-"+label(host), "l"+digest(policy, gateway, host, strconv.Itoa(int(port))))
}

// TLSName returns the name of the object that assigns the certificate in a Secret to hosts of a
// policy.
func TLSName(policy, secret string) string {
	return join(policy+"-"+label(secret), "t"+digest(policy, secret))
}

// MatchesKey returns a key that is unique to a list of matches. The key is empty for an empty list.
func MatchesKey(matches []v1alpha1.CanaryMatch) string {
	if len(matches) == 0 {
		return ""
	}
	var parts []string
	byName := func(a, b v1alpha1.MatchValue) int { return cmp.Compare(a.Name, b.Name) }
	for _, m := range matches {
		parts = append(parts, "match")
		for _, h := range slices.SortedFunc(slices.Values(m.Headers), byName) {
			parts = append(parts, "header", strings.ToLower(h.Name), matchType(h.Type), h.Value)
		}
		for _, q := range slices.SortedFunc(slices.Values(m.QueryParams), byName) {
			parts = append(parts, "query", q.Name, matchType(q.Type), q.Value)
		}
		if m.Cookie != nil {
			parts = append(parts, "cookie", m.Cookie.Name, m.Cookie.Value)
		}
		if m.Path != nil {
			parts = append(parts, "path", string(cmp.Or(m.Path.Type, v1alpha1.PathPrefix)), m.Path.Value)
		}
		if m.Method != "" {
			parts = append(parts, "method", m.Method)
		}
		if m.GRPC != nil {
			parts = append(parts, "grpc", m.GRPC.Service, m.GRPC.Method)
		}
	}
	return digest(parts...)
}

func matchType(t v1alpha1.MatchType) string { return string(cmp.Or(t, v1alpha1.MatchExact)) }

// join returns name, "-" and tail. If necessary, it shortens name so that the result fits in a DNS label.
func join(name, tail string) string {
	if room := maxName - len(tail) - 1; len(name) > room {
		name = name[:room]
	}
	return strings.TrimRight(name, "-") + "-" + tail
}

// label returns text in lower case, with "-" in place of each character that a DNS label cannot
// contain.
func label(text string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return '-'
	}, text), "-")
}

// digest returns a short hash of parts. The hash depends on the length of each part, so that the
// hash of "a-b" and "c" differs from that of "a" and "b-c".
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}
