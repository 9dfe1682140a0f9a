// Package harness is what the demo and the end-to-end tests share: constant load through the gateway that counts every
// request by version and phase, a live picture and a closing table of those counts, the local cluster's addresses and
// client, images of the sample application, waits with a deadline, and the writes that the API server's audit log shows.
//
// Accounting and rendering are pure and tested apart from the network. Everything that sends refuses addresses other than
// loopback.
//
//	cluster.go       addresses and client of the local cluster
//	image.go         images of the sample application
//	load.go          constant load
//	exchange.go      one request of each protocol
//	tally.go        counts of requests by version and phase
//	split.go         shares of versions
//	picture.go       the live picture
//	table.go         the closing table
//	wait.go          waits with a deadline
//	audit.go         writes in the audit log
//	inside_linux.go  listeners in the cluster's network namespace
//	inside_other.go  their absence elsewhere
package harness
