// Package ext holds the fields by which a build of Traefik extends its configuration. Traefik's own one is a module inside
// its repository, which no proxy serves; this build extends nothing.
package ext

// HTTP extends the configuration of HTTP.
type HTTP struct{}

// Router extends the configuration of a router.
type Router struct{}
