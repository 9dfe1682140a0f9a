// Command hlnr is a terminal program that shows, explains and controls the releases that Heighliner manages. When it is
// named kubectl-hlnr, it is also a kubectl plugin.
//
// The common parts of the commands, such as exit codes, are in cmd/hlnr/cli.
package main

import (
	"os"
	"slices"

	"github.com/heighliner/heighliner/cmd/hlnr/act"
	"github.com/heighliner/heighliner/cmd/hlnr/change"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/doctor"
	"github.com/heighliner/heighliner/cmd/hlnr/explain"
	"github.com/heighliner/heighliner/cmd/hlnr/measure"
	"github.com/heighliner/heighliner/cmd/hlnr/show"
	"github.com/heighliner/heighliner/cmd/hlnr/wait"
	"github.com/heighliner/heighliner/cmd/hlnr/web"
)

// version is set when the binary is built.
var version = "dev"

// commands contains all commands, in no particular order. The help text sorts them.
var commands = slices.Concat(
	act.Commands, change.Commands,
	show.NewCommands(act.Commands...),
	[]cli.NewCommand{doctor.NewCommand, explain.NewCommand, measure.NewCommand, wait.NewCommand, web.NewCommand},
)

func main() { os.Exit(cli.Main(os.Args, version, commands...)) }
