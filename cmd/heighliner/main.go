// Command heighliner is the manager, which runs the controllers of hlnr.io.
//
//	main.go        the main function
//	check.go       "heighliner check", the command that helm test runs
//	manager.go     flags, and the manager with its controllers
//	mapper.go      the mapping of kinds to resources, which is cached for Kubernetes and Heighliner kinds
//	logger.go      the logger, which encodes fields only when it writes an entry
//	memory.go      the soft memory limit, and the return of unused memory to the operating system
//	namespaces.go  namespaces in which the manager lacks permissions
package main

import (
	"fmt"
	"os"
)

func main() {
	limitMemory()
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "heighliner:", err)
		os.Exit(1)
	}
}
