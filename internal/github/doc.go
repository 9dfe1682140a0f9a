// Package github reads pull requests, releases and tags from GitHub, and writes deployments, commit
// statuses and comments, through go-github. It is the only code that calls GitHub, and returns its
// own plain types.
//
// A [Pool] has one [Client] for each server and credential, which is kept as long as it is used, so
// that its rate limits are known. Clients share only connections and the cache of responses, in
// which the credential is part of the key: no token and no response is visible to the client of
// another credential.
//
// Reads are conditional: for an unchanged repository all responses are 304, which GitHub does not count. ETags
// depend on the token: with a GitHub App, whose token changes each hour, each page counts once an hour. A list
// is complete or an error, never a part of it. When GitHub requests a pause, nothing is sent with that
// credential until the pause has ended, and the last tenth of the hourly limit is reserved for writes.
//
// Writes are idempotent: existing objects are found by a marker, so that a crash between a request
// and the record of its response creates nothing twice.
//
//	client.go              a client of one server and credential
//	credential.go          tokens, GitHub Apps and Secrets
//	read.go                pull requests, releases and tags
//	write.go               comments and deployments, once each
//	deployments.go         lists deployments that were made before
//	commit_status.go       statuses of commits
//	webhook_deliveries.go  deliveries of webhooks, and their signatures
//	errors.go              errors by their remedy
//	rate_limits.go         limits and pauses
//	pool.go                the clients of a process
//	response_cache.go      answers for conditional requests
package github
