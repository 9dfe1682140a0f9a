// Package analysis measures canaries. It queries providers in the background, and combines their responses into a result.
//
// The pure part consists of [Begin], [Due] and [Fold]: the next status depends only on the specification, the current status and the results of a
// round. The other part is the [Measurer], which sends the queries of a round through a bounded pool and keeps the results until they are
// fetched.
//
//	status := analysis.Begin(before, spec, point)
//	if at, due := analysis.Due(status, spec, now); due {
//		if round, done := measurer.Ask(key, analysis.Request{At: at, …}); done {
//			status = analysis.Fold(status, spec, point, round)
//		}
//	}
//
// A response that is not a single finite number (or, with samples, a series of such numbers) becomes a typed [Error] or counts as missing traffic,
// but never becomes a value. Therefore, a metric that could not be measured never passes.
//
// query.go       queries to providers
// round.go       one round: a request, its target and its responses
// template.go    fields of templates in queries
// builtin.go     the queries of built-in metrics
// prometheus.go  queries Prometheus
// web.go         queries an endpoint that responds with JSON
// aws.go         signs requests for Amazon CloudWatch
// tokens.go      caches access tokens until they expire
// google.go      access tokens for Google Cloud Monitoring
// http.go        HTTP requests to providers
// samples.go     samples of each release, and whether they differ significantly
// judge.go       compares a response with thresholds
// fold.go        Begin, Due and Fold, which are pure: when a round is due, and whether rounds pass, fail or are inconclusive
// replay.go      past rounds, and request counts, for hlnr
// errors.go      the reasons why a metric could not be measured
// measurer.go    the Measurer: rounds in the background
// pool.go        limits the number of concurrent queries
// metrics.go     the manager's metrics about analyses
package analysis
