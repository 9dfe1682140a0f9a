// Package view computes the information about services that users see: a [Board] of all services, a single [Service], and
// explanations of routing. From objects and a time, it computes a value with a stable JSON form (view.hlnr.io/v1),
// without side effects. It never guesses: a field whose value does not follow from the objects is empty.
//
// Only the State.sentence function formats the sentences that describe states. The text and JSON output of the
// command, and all other output, use these sentences.
//
//	types.go        the types of the JSON form
//	states.go       states and their sentences
//	times.go        ages, times and windows of steps in words
//	input.go        the objects of a view, an index of them, and the internal fields of the rollout state that views use
//
//	board.go        the services of a board: their order, filters and counts
//	service.go      services, groups and releases
//	group_state.go  the state of a group, and of its active or failed release
//	rollout.go      rollouts in progress: their waits and their current step
//	freezes.go      freezes and their effects on services
//	analysis.go     measurements with their bounds
//	shares.go       traffic shares of hosts and releases
//	previews.go     pull requests
//	groups.go       the states of all groups or releases without other details, for metrics and notifications
//
//	why.go          explanations of hosts, versions, pods and pull requests
//	routes.go       the status of the routes and Gateways of a host
//	changes.go      differences between two views of a service
//	history.go      past rollouts, events, and lists of previews
//	detail.go       one release compared with the previous one
//	versions.go     offered and rejected versions, and versions to which a service can be rolled back
package view
