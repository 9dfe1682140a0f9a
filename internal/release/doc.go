// Package release decides which releases of a Microservice run, with which
// status, weight and number of replicas.
//
// [Plan] is pure and total: it reads [Observed] and a time, and gives a [Result];
// it never errors, panics or changes its input, and it knows no client, network,
// clock or log. Why a release has its status is in rules.go, in the order in which
// it is decided. A rule changes one group; what it asks is answered by functions
// that change nothing: they return a value, or the wait that the rule records.
//
//	plan.go       Plan and its Result, and the passes over all groups
//	rules.go      the named rules of one group, in the order in which they apply
//
//	observed.go   what is observed
//	state.go      what is remembered: groups and rows, and how to copy, compare and sort them
//	notes.go      reasons, what is reported, and what is waited for
//
//	record.go     a record that is lost, and objects that are gone
//	decisions.go  what people decide about a release
//	groups.go     which groups there are, and when they end
//	previews.go   which pull requests have a place
//	target.go     which release is wanted
//	pins.go       which release a pin means
//	run.go        the way to active: clock, steps, health, failure
//	gates.go      where hooks have to agree
//	together.go   where other Microservices have to come along
//	outside.go    what has a cause outside of the release
//	newest.go     domains that move from one group to a newer one
//	traffic.go    what routes have to carry, what is confirmed, what is drained
//	capacity.go   how many replicas a release has, and needs for what comes next
//	retain.go     which releases are kept, and how many rows a group has
//
//	split.go      who gets traffic when endpoints are missing
//
// The rules and the histories that force them are in docs/explanation/protocol.md;
// "rule N" in comments names one of those.
package release
