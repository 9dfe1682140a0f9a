package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usage is the template for help text. It does not contain the global flags, which are flags of kubectl: the
// "options" command lists them.
const usage = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Available Commands:{{range $cmds}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}

Available Commands:{{range $cmds}}{{if (and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if (and .HasParent .HasAvailableLocalFlags)}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more information about a command.{{end}}
Use "{{.Root.CommandPath}} options" to list the cluster connection flags, which all commands accept.
`

// The groups of commands in the help text.
const (
	// GroupSee is the group of commands that answer questions.
	GroupSee = "see"
	// GroupAct is the group of commands that change something.
	GroupAct = "act"
	// GroupCheck is the group of commands that check manifests and the installation.
	GroupCheck = "check"
)

// setHelp sets the usage text, which contains the name under which the user called the program.
func setHelp(root *cobra.Command, f *Factory) {
	root.SetUsageTemplate(usage)
	root.AddGroup(
		&cobra.Group{ID: GroupSee, Title: "See and explain:"},
		&cobra.Group{ID: GroupAct, Title: "Act:"},
		&cobra.Group{ID: GroupCheck, Title: "Check:"},
	)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usage(fmt.Errorf("%w; \"%s --help\" lists the flags", err, cmd.CommandPath()))
	})
	if f.program != name {
		called(root, f.program)
	}
}

// called makes the examples and descriptions of a command and its subcommands contain the name with which the user
// called the program.
func called(cmd *cobra.Command, program string) {
	replacer := strings.NewReplacer("  "+name+" ", "  "+program+" ", "| "+name+" ", "| "+program+" ", "\""+name+" ", "\""+program+" ", "& "+name+" ", "& "+program+" ")
	cmd.Example, cmd.Long = replacer.Replace(cmd.Example), replacer.Replace(cmd.Long)
	for _, c := range cmd.Commands() {
		called(c, program)
	}
}

func newOptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the cluster connection flags, which all commands accept",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return write(cmd.OutOrStdout(), []byte("Each command accepts these kubectl flags:\n\n"+cmd.InheritedFlags().FlagUsages()))
		},
	}
}

// codesText returns the list of exit codes for the help text.
func codesText() string {
	var b strings.Builder
	b.WriteString("Exit codes:")
	for _, c := range Codes {
		fmt.Fprintf(&b, "\n  %3d  %s", c.Code, c.Meaning)
	}
	return b.String()
}
