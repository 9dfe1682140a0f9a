// Package resources builds the children of a NetworkPolicy: Services and
// HTTPRoutes. It is pure: the same input gives the same objects.
package resources
