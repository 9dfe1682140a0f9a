// Command standin is a small program with Go build information. Tests use it instead of a release's binaries.
package main

import "sigs.k8s.io/yaml"

func main() {
	if _, err := yaml.Marshal(nil); err != nil {
		panic(err)
	}
}
