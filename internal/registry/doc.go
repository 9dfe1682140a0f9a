// Package registry reads tags and images from OCI registries, politely and
// safely, through go-containerregistry.
//
// Callers with the same repository and credential, certificates included, share one
// list and one digest per tag within the age that they accept. All requests with one registry and
// credential go through one gate: a token bucket, and a pause for everybody when
// the registry answers 429. Pages, tags, bytes, elements of JSON and time are
// bounded, and the pace of an answer from below; what nobody waits for any more ends.
// What internal/outbound refuses is not contacted, after name resolution, so redirects
// and token servers cannot reach it either; private addresses are allowed, because
// clusters have registries there. Proxies of the environment are used, and are not
// asked for what is refused. A token server is named by the registry, and may have a
// private address, but under a name or on the registry's host: a private address in the
// challenge itself is refused.
//
// No fact is made from a failure: a list that cannot be read, 404 included, is an
// error and never an empty list. What a shorter or an empty list means is for the
// caller to decide; Scanner.Gone is the only proof of absence.
//
//	scanner.go          the Scanner: lists of tags, and what is shared
//	list.go             reads the pages of a list
//	link.go             links between pages, and lists that did not change
//	resolve.go          digests and images of tags
//	inspect.go          labels, times and platforms of an image
//	artifact.go         manifests and blobs of any kind
//	shared_requests.go  one request for all who ask the same
//	rate_limits.go      the rate of requests, and pauses after 429
//	ping.go             answers to GET /v2/ from memory
//	quota.go            what a registry reports of its quota
//	scan_interval.go    how often a repository without news is scanned
//	body.go             bounds on the size and pace of answers
//	credential.go       credentials from pull Secrets
//	tls.go              certificates of registries
//	proxy.go            proxies of the environment
//	errors.go           errors by what is to be done about them
package registry
