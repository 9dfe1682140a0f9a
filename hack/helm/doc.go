// Package helm contains the tests of the chart charts/heighliner: it renders what kustomize renders from config, and a
// real API server accepts it from Helm's Go library. It is a separate module, so that the product's go.mod stays small.
package helm
