// Package e2e holds the end-to-end tests: real images, pods, requests and faults on the local cluster, with Heighliner
// installed there as a user would install it. They are built with the tag e2e only and run by "make e2e", one after the
// other, because they measure times on one machine and end parts of the cluster.
//
// Each test is in one of the groups of groups.go, and "make e2e GROUP=traffic" runs the tests of one group.
//
// Each test works in its own namespace, named e2e-NAME, with its own image repository and the domain
// release.NAME.localhost. Load goes to loopback only.
package e2e
