// Package release decides which releases of a Microservice run, with which
// status, weight and number of replicas.
//
// [Plan] is pure and total: it reads [Observed] and a time, and gives a [Plan];
// it never errors, panics or changes its input, and it knows no client, network,
// clock or log. The package is a table of contents:
//
//	facts.go    what is observed
//	ledger.go   what is remembered: the groups and rows of the status
//	plan.go     the order of the decisions, over all groups
//	rules.go    the named rules of one group, in the order in which they apply
//	target.go   which release is wanted
//	run.go      how it gets there: clock, steps, promotion, failure
//	gates.go    where hooks have to agree
//	capacity.go how many replicas what comes next needs
//	traffic.go  what is confirmed, what is drained
//	retain.go   which releases are kept, at which size
//	split.go    who gets traffic when endpoints are missing
//
// The rules and the histories that force them are in docs/explanation/protocol.md;
// "rule N" in comments names one of those.
package release
