// Package preview selects the pull requests that an ImagePolicy offers. It determines the names of their groups and
// the candidate tags of their images, and checks whether an image was built from a pull request's head
// commit. The package uses no clock, network or logger.
//
//	filters.go        which pull requests are offered; internal/release/previews.go assigns the preview slots (spec.previews.maxGroups)
//	forks.go          which commits from forks are approved; controllers/githubrepository/pull_requests.go records which commit a label approves
//	image_of_head.go  whether an image was built from the head commit
//	names.go          names of groups, and candidate tags; controllers/networkpolicy/traffic/hosts.go determines the hosts of a preview
package preview
