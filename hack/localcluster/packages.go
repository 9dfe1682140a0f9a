package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tool is a program of the system and the Debian package that brings it.
type tool struct{ program, pkg string }

var tools = []tool{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"/usr/lib/cni/host-local", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"nft", "nftables"},
	{"ip", "iproute2"},
	{"conntrack", "conntrack"},
	{"ethtool", "ethtool"},
	{"prometheus", "prometheus"},
}

// missingPackages lists the packages whose programs are not installed.
func missingPackages(installed func(program string) bool) []string {
	var packages []string
	for _, t := range tools {
		if !installed(t.program) && (len(packages) == 0 || packages[len(packages)-1] != t.pkg) {
			packages = append(packages, t.pkg)
		}
	}
	return packages
}

// installPackages installs what is missing with apt-get.
func installPackages(ctx context.Context, say func(string, ...any)) error {
	packages := missingPackages(func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
	if len(packages) == 0 {
		return nil
	}
	list := strings.Join(packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("install packages: no apt-get here: install by hand what brings " + list + " (CNI plugins in /usr/lib/cni)")
	}
	say("installing Debian packages: %s", list)
	install := append([]string{"install", "--yes", "--no-install-recommends"}, packages...)
	for _, arguments := range [][]string{{"update"}, install} {
		command := exec.CommandContext(ctx, "apt-get", arguments...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("run apt-get %s: %w: %s", arguments[0], err, lastLines(string(output), 5))
		}
	}
	return nil
}
