// Package resources builds the Services of a NetworkPolicy, and the names, labels and annotations of
// all objects that the policy owns. It is pure: the same input always results in the same objects. Its
// files refer only to files further down in this list:
//
//	doc.go            this comment
//	adopted.go        users' Services that a policy adopts
//	service.go        Services of a policy
//	names.go          names of objects
//	managed_rules.go  the record of a policy's rules in a user-managed route
//	stamp.go          the stamp of the rollout state from which an object was written
package resources
