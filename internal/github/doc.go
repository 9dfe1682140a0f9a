// Package github reads pull requests, releases and tags from GitHub, and writes deployments, commit statuses and comments. It uses go-github. No
// other package calls GitHub. The package returns its own plain types.
//
// A [Pool] has one [Client] for each server and credential. A client is kept as long as it is used, so that the rate
// limits remain known. Clients share only connections and the response cache. The credential is part of the cache
// key, so that tokens and responses are not visible to clients with other credentials.
//
// Reads are conditional: if a repository is unchanged, all responses have status 304, and GitHub does not count them against the rate limit. ETags
// depend on the token. The token of a GitHub App changes each hour, so each page counts against the limit once per hour. The result is either an
// error or a complete list. The only exception is a list that exceeds the maximum number of pages: it is truncated, and marked as truncated. When
// GitHub requests a pause for a credential, no request is sent with that credential until the pause ends. The last tenth of the hourly limit is
// reserved for writes.
//
// Writes are idempotent: a marker identifies existing objects, so that no object is created twice after a crash between sending a request and
// recording its response.
//
// client.go              a client for one server and one credential
// credential.go          tokens, GitHub Apps and Secrets
// read.go                pull requests, releases and tags
// write.go               comments and deployments, which are created only once
// deployments.go         lists of deployments, and new deployments with their first status
// commit_status.go       commit statuses
// webhook_signatures.go  webhook deliveries and their signatures
// errors.go              errors, classified by their remedy
// rate_limits.go         limits and pauses
// pool.go                the clients of a process
// response_cache.go      cached responses for conditional requests
package github
