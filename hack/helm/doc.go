// Package helm contains the tests of the chart charts/heighliner. They check that it renders the same objects as
// kustomize renders from config, and that a real API server accepts them from Helm's Go library. It is a separate
// module, so that the go.mod of the product remains small.
package helm
