// Package helm contains the tests of the chart charts/heighliner. They check that the chart renders the same
// objects that kustomize renders from config, and that a real API server accepts these objects when Helm's
// Go library installs the chart. The package is a separate module, so that the product's go.mod remains
// small.
package helm
