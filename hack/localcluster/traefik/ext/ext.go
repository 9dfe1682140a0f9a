// Package ext contains the fields with which a build of Traefik extends its configuration. Traefik's version of this
// package is a module inside its repository, which no proxy serves. This build extends nothing.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends the configuration of a router.
type Router struct{}
