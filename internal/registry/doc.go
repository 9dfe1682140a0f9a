// Package registry reads tags and images from OCI registries through go-containerregistry, with
// limits on requests and responses.
//
// Callers with the same repository and credential, certificates included, share one list and one
// digest per tag within the age that they accept. All requests with one registry and credential pass
// one gate: a token bucket, and a pause for all requests after a response 429. Pages, tags, bytes,
// elements of JSON and time have upper limits, and the rate of a response has a lower limit; a
// request ends when no caller waits for it. Addresses that internal/outbound refuses are not
// contacted, which is checked after name resolution, so that redirects and token servers cannot
// reach them either; private addresses are allowed, because clusters have registries there. Proxies
// of the environment are used, except for refused addresses. A token server is named by the
// registry, and may have a private address, but only by name or on the host of the registry: a
// private address in the challenge itself is rejected.
//
// A failure proves nothing: a list that cannot be read, also because of 404, is an error and never
// an empty list. The caller decides what a shorter or an empty list means; only Scanner.Gone proves
// absence.
//
//	scanner.go          the Scanner: lists of tags, and what is shared
//	list.go             reads the pages of a list
//	link.go             links between pages, and lists that did not change
//	resolve.go          digests and images of tags
//	inspect.go          labels, times and platforms of an image
//	artifact.go         manifests and blobs of any kind
//	shared_requests.go  one request for all callers that need the same
//	rate_limits.go      the rate of requests, and pauses after 429
//	ping.go             answers to GET /v2/ from memory
//	quota.go            what a registry reports of its quota
//	scan_interval.go    how often a repository without news is scanned
//	body.go             bounds on the size and pace of answers
//	credential.go       credentials from pull Secrets
//	tls.go              certificates of registries
//	proxy.go            proxies of the environment
//	errors.go           errors by their remedy
package registry
