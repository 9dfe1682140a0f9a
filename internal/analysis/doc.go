// Package analysis measures canaries: it queries providers in the background, and folds their
// responses into a result.
//
// The pure half is [Begin], [Due] and [Fold]: the specification, the status so
// far and the outcome of a round give the next status, and nothing else does.
// The other half is the [Measurer], which asks the questions of a round in a
// bounded pool and keeps the answer until it is fetched.
//
//	status := analysis.Begin(before, spec, point)
//	if at, due := analysis.Due(status, spec, now); due {
//		if round, done := measurer.Ask(key, analysis.Request{At: at, …}); done {
//			status = analysis.Fold(status, spec, point, round)
//		}
//	}
//
// An answer that is not one plain number is a typed [Error], never a value:
// nothing passes because it could not be measured.
//
//	query.go       what a provider is asked
//	round.go       one round: a request, its target and its answers
//	template.go    fields of templates in queries
//	builtin.go     the queries of built-in metrics
//	prometheus.go  asks Prometheus
//	web.go         asks an endpoint that answers JSON
//	http.go        HTTP to providers
//	thresholds.go  compares an answer with thresholds
//	status.go      Begin, Due and Fold: the pure half
//	replay.go      past rounds, and counts of requests, for hlnr
//	errors.go      the reasons why a metric could not be measured
//	measurer.go    the Measurer: rounds in the background
//	pool.go        how many queries run at a time
//	metrics.go     the metrics of the manager about analyses
package analysis
