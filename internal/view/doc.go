// Package view computes what users see of services: a [Board] of all services, one [Service], and
// the reasons why something serves. It is pure: from objects and a time it computes a value with a
// stable JSON form (view.hlnr.io/v1). It never guesses: fields that the objects do not determine
// are empty.
//
// One function (State.say) formats the sentence of each state, for the command, its JSON form, and
// all other output.
//
//	board.go     the types of the JSON form
//	states.go    states and their sentences
//	times.go     ages and times in words
//	input.go     the objects that a view is made from, and how they are found
//	record.go    what is read of internal fields of the rollout state
//
//	service.go   services, groups and releases, and their states
//	rollout.go   rollouts in progress: what they wait for, and what their step has
//	freezes.go   freezes, and what they do to services
//	window.go    windows of steps in words
//	analysis.go  measurements next to their bounds
//	shares.go    which share of the traffic hosts and releases get
//	previews.go  pull requests
//	groups.go    the states of all groups or releases alone, for metrics and notifications
//
//	why.go       answers for hosts, versions, pods and pull requests
//	routes.go    what routes and Gateways behind a host report
//	changes.go   what is different between two views of a service
//	history.go   past rollouts, events, lists of previews
//	detail.go    one release next to the release before it
//	versions.go  what is offered and rejected
package view
