// Command standin is a small program with Go build information, which tests use instead of the binaries of a release.
package main

import "sigs.k8s.io/yaml"

func main() {
	if _, err := yaml.Marshal(nil); err != nil {
		panic(err)
	}
}
