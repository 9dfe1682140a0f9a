// Command heighliner is the manager: it runs the controllers of hlnr.io.
//
//	main.go     the process
//	check.go    "heighliner check", which helm test runs
//	manager.go  flags, and the manager with its controllers
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "heighliner:", err)
		os.Exit(1)
	}
}
