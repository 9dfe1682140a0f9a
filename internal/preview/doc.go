// Package preview selects the pull requests that an ImagePolicy offers, names their groups and
// the candidate tags of their images, and checks whether an image is of a pull request's head
// commit. It is pure: no clock, no network, no logger.
//
//	filters.go        which pull requests are offered
//	forks.go          which commits of forks are approved
//	image_of_head.go  whether an image is of the head commit
//	names.go          names of groups and tags
package preview
