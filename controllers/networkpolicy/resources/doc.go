// Package resources builds Services of a NetworkPolicy, and the names, labels and
// annotations of all that it owns. It is pure: the same input gives the same objects.
// Its files, each of which refers only to those after it:
//
//	doc.go            this comment
//	adopted.go        Services of users that a policy adopts
//	service.go        Services of a policy
//	names.go          names
//	managed_rules.go  what a policy has in a user-managed route
//	stamp.go          from which rollout state an object was written
package resources
