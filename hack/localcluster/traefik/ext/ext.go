// Package ext has the fields by which a build of Traefik extends its configuration. Traefik's version is a module inside
// its repository, which no proxy serves; this build extends nothing.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends the configuration of a router.
type Router struct{}
