package registry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// quotaSpent reports whether a quota of a registry is used up, and for how long. The duration is between minPause and maxPause. The function reads
// the fields of the IETF drafts: `RateLimit: limit=100, remaining=0, reset=30`, `RateLimit: "default";r=0;t=30`, and RateLimit-Remaining with
// RateLimit-Reset. In the newer draft, which defines r and t, a field can contain several quotas. If several quotas are used up, the longest duration
// is returned. A quota whose reset time is not known causes no pause. An example is the quota of Docker Hub, against which only some requests count. When
// such a quota is used up, the registry responds to these requests with 429.
func quotaSpent(h http.Header, now time.Time) (longest time.Duration, spent bool) {
	older := quota{h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset")}
	var quotas []quota
	for item := range strings.SplitSeq(strings.Join(h.Values("RateLimit"), ","), ",") {
		var newer quota
		for field := range strings.SplitSeq(item, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
			switch strings.TrimSpace(name) {
			case "remaining":
				if n, ok := number(value); ok && (older.remaining == "" || n == 0) {
					older.remaining = value
				}
			case "reset":
				older.reset = value
			case "r":
				newer.remaining = value
			case "t":
				newer.reset = value
			}
		}
		quotas = append(quotas, newer)
	}
	for _, q := range append(quotas, older) {
		if wait, ok := q.spent(now); ok {
			longest, spent = max(longest, wait), true
		}
	}
	return longest, spent
}

// quota contains the number of remaining requests, and the time until the reset, in seconds.
type quota struct{ remaining, reset string }

// spent reports whether the quota is used up, and for how long.
func (q quota) spent(now time.Time) (time.Duration, bool) {
	left, ok := number(q.remaining)
	if !ok || left > 0 {
		return 0, false
	}
	wait, ok := number(q.reset)
	if !ok {
		return 0, false
	}
	// Some registries send the time of the reset in seconds since 1970.
	if since := now.Unix(); since > 0 && wait > uint64(since) {
		wait -= uint64(since)
	}
	return min(max(time.Duration(min(wait, uint64(maxPause/time.Second)))*time.Second, minPause), maxPause), true
}

// number parses the number before any parameters, as in "76;w=21600".
func number(value string) (uint64, bool) {
	value, _, _ = strings.Cut(value, ";")
	n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 63)
	return n, err == nil
}
