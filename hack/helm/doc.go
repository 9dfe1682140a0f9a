// Package helm holds the tests of the chart charts/heighliner: what it renders is what kustomize renders from config, and
// a real API server takes it by Helm's Go library. It is a separate module, so that the product's go.mod stays small.
package helm
