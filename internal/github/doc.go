// Package github reads pull requests, releases and tags from GitHub, and writes
// deployments, commit statuses and comments to it, through go-github, politely and safely. It is
// the only code that talks to GitHub, and gives plain types of its own.
//
// A [Pool] has one [Client] for each server and credential, which lives as long
// as it is used, so that what GitHub said about limits is not forgotten. Nothing
// of a client is shared with another but connections and the store of answers,
// in which the credential is part of the key: no token and no answer is ever
// seen through the client of another credential.
//
// Reads are conditional: an unchanged repository costs answers of 304 only, which
// GitHub does not count. Its tags are of the token as well: with a GitHub App, whose
// token changes each hour, each page counts once an hour. A list has all its pages or is an error, never a part
// that polls whole. When GitHub asks for a pause, nothing is sent with that
// credential until the pause has ended, and the last tenth of the hourly limit is
// left to writes.
//
// Writes are idempotent: what was made before is found again by a marker, so that
// a crash between a request and the record of its answer makes nothing twice.
//
//	client.go          a client of one server and credential
//	credential.go      tokens, GitHub Apps and Secrets
//	read.go            pull requests, releases and tags
//	write.go           comments and deployments, once each
//	deployments.go     lists deployments that were made before
//	commit_status.go   statuses of commits
//	webhook.go         deliveries of webhooks
//	errors.go          errors by their remedy
//	rate_limits.go     limits and pauses
//	pool.go            the clients of a process
//	response_cache.go  answers for conditional requests
package github
