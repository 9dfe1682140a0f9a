// Package analysis measures canaries: it asks providers for numbers beside the
// reconcile, and folds what they say into a verdict.
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
package analysis
