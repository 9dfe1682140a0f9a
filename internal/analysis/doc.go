// Package analysis measures canaries: it queries providers in the background, and folds their
// responses into a result.
//
// The pure half is [Begin], [Due] and [Fold]: the next status depends only on the
// specification, the current status and the results of a round. The other half is
// the [Measurer], which sends the queries of a round in a bounded pool and keeps
// the results until they are fetched.
//
//	status := analysis.Begin(before, spec, point)
//	if at, due := analysis.Due(status, spec, now); due {
//		if round, done := measurer.Ask(key, analysis.Request{At: at, …}); done {
//			status = analysis.Fold(status, spec, point, round)
//		}
//	}
//
// An answer that is not one plain number is a typed [Error], never a value: nothing
// passes because it could not be measured.
//
//	query.go       queries to providers
//	round.go       one round: a request, its target and its answers
//	template.go    fields of templates in queries
//	builtin.go     the queries of built-in metrics
//	prometheus.go  asks Prometheus
//	web.go         asks an endpoint that answers JSON
//	aws.go         signs requests for Amazon CloudWatch
//	tokens.go      keeps access tokens until they expire
//	google.go      access tokens for Google Cloud Monitoring
//	http.go        HTTP requests to providers
//	samples.go     several values of each release, and whether they differ
//	thresholds.go  compares an answer with thresholds
//	status.go      Begin, Due and Fold: the pure half
//	replay.go      past rounds, and counts of requests, for hlnr
//	errors.go      the reasons why a metric could not be measured
//	measurer.go    the Measurer: rounds in the background
//	pool.go        limits the queries that run at a time
//	metrics.go     the manager's metrics about analyses
package analysis
