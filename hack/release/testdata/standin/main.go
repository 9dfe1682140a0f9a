// Command standin is a small program with Go build information, in place of the programs of a release.
package main

import "sigs.k8s.io/yaml"

func main() {
	if _, err := yaml.Marshal(nil); err != nil {
		panic(err)
	}
}
