// Package ext contains the fields that a build of Traefik can use to extend the configuration. The original package
// is a module inside the repository of Traefik, and no module proxy serves this module. This build extends nothing.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends the configuration of a router.
type Router struct{}
