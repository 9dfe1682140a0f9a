// Package harness is what the demo and the end-to-end tests share: constant load through the gateway that counts every
// request by version and phase, a live picture and a closing table of those counts, the local cluster's addresses and
// client, images of the sample application, waits with a deadline, and the writes that the API server's audit log shows.
//
// Accounting and rendering are pure and tested apart from the network. Everything that sends refuses addresses other than
// loopback.
package harness
