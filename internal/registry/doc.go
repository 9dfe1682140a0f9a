// Package registry reads tags and images from OCI registries. It uses go-containerregistry, and limits requests and responses.
//
// Callers with the same repository, credential and certificates share one list, and one digest per tag, if these are recent enough for the callers. All
// requests to one registry with the same credential pass through one gate, which contains a token bucket. The gate pauses all requests after a 429 response,
// and after the registry reports that its quota is used up. There are upper limits on pages, tags, bytes, JSON elements and time, and a lower limit on the
// rate of a response. A request is canceled when no caller is waiting for it any longer.
//
// The package does not connect to addresses that internal/outbound refuses. It checks an address after name resolution, and therefore also rejects redirects
// to a refused address and token servers at such an address. Private addresses are allowed, because clusters have registries at such addresses. The proxy
// environment variables are used, except for refused addresses. The token server of a registry may have a private address, but only if the
// challenge refers to it by name, or if it is on the host of the registry. Any other challenge that contains a private IP address is rejected.
//
// A failed request does not prove that anything is missing. A list that cannot be read is an error and never an empty list, even if the registry responds
// with 404. The caller decides what a shorter or an empty list means. Only Scanner.Gone proves that an image does not exist.
//
// scanner.go          the Scanner: lists of tags, and shared results
// list.go             the pages of a list
// link.go             links between pages, and lists that did not change
// resolve.go          digests and images of tags
// inspect.go          labels, times and platforms of an image
// artifact.go         manifests and blobs of any kind
// shared_requests.go  one request for all callers with the same key
// rate_limits.go      the rate of requests, and pauses after 429
// ping.go             cached responses to GET /v2/
// quota.go            the quota that a registry reports
// scan_interval.go    the interval between scans of a repository without changes
// body.go             limits on the size and rate of responses
// credential.go       credentials from pull Secrets
// tls.go              certificates of registries
// proxy.go            proxy environment variables
// errors.go           errors, classified by their remedy
package registry
