// Package github reads pull requests, releases and tags from GitHub, and writes deployments, commit statuses and comments. It uses go-github. No
// other package calls GitHub. The package returns its own plain types.
//
// A [Pool] has one [Client] for each server and credential. A client is kept as long as it is used, so that the rate
// limits remain known. Clients share only connections and the response cache. The credential is part of the cache
// key, so that no token and no response is visible to a client with another credential.
//
// Reads are conditional: if a repository is unchanged, all responses are 304, which GitHub does not count. ETags depend on the token. The token of
// a GitHub App changes each hour, so each page counts once an hour. The result is either a complete list or an error,
// never part of a list. When GitHub requests a pause, no request is sent with that credential until the pause ends.
// The last tenth of the hourly limit is reserved for writes.
//
// Writes are idempotent: a marker identifies existing objects, so that a crash between a request and the record of its response does not create an
// object twice.
//
// client.go              a client of one server and credential
// credential.go          tokens, GitHub Apps and Secrets
// read.go                pull requests, releases and tags
// write.go               comments and deployments, which are created only once
// deployments.go         lists existing deployments
// commit_status.go       commit statuses
// webhook_deliveries.go  webhook deliveries, and their signatures
// errors.go              errors, classified by their remedy
// rate_limits.go         limits and pauses
// pool.go                the clients of a process
// response_cache.go      cached responses for conditional requests
package github
