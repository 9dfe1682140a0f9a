// Package harness is shared by the demos and the end-to-end tests. It contains a constant load through the
// gateway with counts of requests by version and phase, a live picture and a final table of these counts, the
// addresses and the client of the local cluster, images of the sample application, waits with a deadline, and
// counts of writes in the API server's audit log.
//
// Counting and rendering are pure, and are tested without the network. Everything that sends requests rejects addresses
// other than loopback, except in an isolated network namespace.
//
//	cluster.go       addresses and client of the local cluster
//	image.go         images of the sample application
//	load.go          constant load
//	exchange.go      one request of each protocol
//	tally.go        counts of requests by version and phase
//	split.go         shares of versions
//	picture.go       the live picture
//	table.go         the final table
//	wait.go          waits with a deadline
//	audit.go         writes in the audit log
//	forward.go       connections from pods to servers in this process
//	queue.go         a queue of jobs for workers
//	database.go      a PostgreSQL database for applications
//	inside_linux.go  listeners in the cluster's network namespace
//	inside_other.go  stubs for other systems
package harness
