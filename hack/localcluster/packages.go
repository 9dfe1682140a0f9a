package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// tool is a system program with its Debian package.
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
	{"promtool", "prometheus"},
}

// testTools are the tools that only tests need.
var testTools = []tool{
	{"chromium", "chromium"},
	{"docker-registry", "docker-registry"},
	{"gcc", "gcc"},
	{"git", "git"},
	{"tmux", "tmux"},
	{"redis-server", "redis-server"},
	{"psql", "postgresql"},
}

// toolsNamed returns the tools with the given program names.
func toolsNamed(programs []string) ([]tool, error) {
	var named []tool
	for _, program := range programs {
		known := slices.Concat(tools, testTools)
		i := slices.IndexFunc(known, func(t tool) bool { return t.program == program })
		if i < 0 {
			return nil, fmt.Errorf("install packages: no known package contains %q", program)
		}
		named = append(named, known[i])
	}
	return named, nil
}

// missingPackages returns the packages of the given tools that are not installed.
func missingPackages(needed []tool, installed func(program string) bool) []string {
	var packages []string
	for _, t := range needed {
		if !installed(t.program) && (len(packages) == 0 || packages[len(packages)-1] != t.pkg) {
			packages = append(packages, t.pkg)
		}
	}
	return packages
}

// installPackages installs the missing packages of the given tools with apt-get.
func installPackages(ctx context.Context, needed []tool, say func(string, ...any)) error {
	packages := missingPackages(needed, func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
	if len(packages) == 0 {
		return nil
	}
	list := strings.Join(packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("install packages: apt-get is missing: manually install the software in the Debian packages " + list + " (CNI plugins in /usr/lib/cni)")
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
