// Package e2e contains the end-to-end tests: real images, pods, requests, and faults on the local cluster,
// with Heighliner installed as a user would install it. The tests are built only with the e2e build tag.
// "make e2e" runs them one after the other, because they measure times on one machine and stop parts of the
// cluster.
//
// Each test is in one of the groups in groups.go. "make e2e GROUP=traffic" runs the tests of one group.
//
// Each test uses its own namespace with the name e2e-NAME, its own image repository, and the domain
// release.NAME.localhost. Requests are sent only to loopback addresses.
package e2e
