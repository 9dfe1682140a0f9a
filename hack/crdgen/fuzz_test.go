package main

import (
	"testing"

	"github.com/heighliner/heighliner/test/await"
)

// FuzzFinish tests that finish does not change a completed CRD.
func FuzzFinish(f *testing.F) {
	f.Add([]byte(definition))
	f.Add([]byte("spec: {versions: [{schema: {openAPIV3Schema: {properties: {spec: {properties: {template: {properties: {a: 1, b: {default: 2}}, items: {x-kubernetes-list-map-keys: [a], properties: {a: null}}}}}}}}}]}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		defer await.Quick(t)()
		out, err := finish(in)
		if err == nil {
			again, err := finish(out)
			if err != nil || string(again) != string(out) {
				t.Fatalf("not idempotent: %v\n%s\n%s", err, out, again)
			}
		}
	})
}
