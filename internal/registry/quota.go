package registry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// quotaSpent reports whether the quota of a registry is used up, and for how long. The duration is between minPause and maxPause. The function reads
// the fields of the IETF drafts: "RateLimit: limit=100, remaining=0, reset=30", RateLimit: "default";r=0;t=30, and RateLimit-Remaining with
// RateLimit-Reset. A quota whose reset time is not known causes no pause. An example is the quota of Docker Hub, which counts only some requests.
// When such a quota is used up, the registry responds with 429.
func quotaSpent(h http.Header, now time.Time) (time.Duration, bool) {
	remaining, reset := h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset")
	for _, field := range strings.FieldsFunc(strings.Join(h.Values("RateLimit"), ","), func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch strings.TrimSpace(name) {
		case "remaining", "r":
			if n, ok := seconds(value); ok && (remaining == "" || n == 0) {
				remaining = value
			}
		case "reset", "t":
			reset = value
		}
	}
	left, ok := seconds(remaining)
	if !ok || left > 0 {
		return 0, false
	}
	wait, ok := seconds(reset)
	if !ok {
		return 0, false
	}
	// Some registries send the time of the reset in seconds since 1970.
	if since := now.Unix(); since > 0 && wait > uint64(since) {
		wait -= uint64(since)
	}
	return min(max(time.Duration(min(wait, uint64(maxPause/time.Second)))*time.Second, minPause), maxPause), true
}

// seconds parses the number before any parameters, as in "76;w=21600".
func seconds(value string) (uint64, bool) {
	value, _, _ = strings.Cut(value, ";")
	n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 63)
	return n, err == nil
}
