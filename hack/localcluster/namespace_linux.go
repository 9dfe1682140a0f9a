package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// requireHost returns an error if this machine or user cannot run a cluster.
func requireHost() error {
	if os.Geteuid() != 0 {
		return errors.New("check user: network namespaces, mounts and cgroups need root: run with sudo, or " + elsewhere)
	}
	return nil
}

// createNamespace creates a network namespace and binds it to path, without
// changing the namespace of this process.
func createNamespace(path string) error {
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return fmt.Errorf("create namespace file: %w", err)
	}
	return onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create network namespace: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind network namespace: %w", err)
		}
		return nil
	})
}

// inNamespace runs work on a thread in the network namespace. Sockets opened by work and processes
// started by work stay in this namespace.
func inNamespace(path string, work func() error) error {
	return onOwnThread(func() error {
		target, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		defer unix.Close(target)
		if err := unix.Setns(target, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return work()
	})
}

// onOwnThread runs work on a separate thread, and then returns the thread to its initial network namespace.
// If the thread cannot return, it exits and is not reused.
func onOwnThread(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			result <- fmt.Errorf("open own network namespace: %w", err)
			return
		}
		defer unix.Close(home)
		err = work()
		if unix.Setns(home, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// configureNamespace configures the namespace's loopback interface, a bridge with the node's address, and a
// route for service addresses, which kube-proxy rewrites. All other addresses are rejected immediately, so
// that no process waits for a timeout. For the same reason, rejections are not rate-limited.
func configureNamespace(path string) error {
	commands := [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "node0", "type", "bridge"},
		{"address", "add", nodeAddress + "/24", "dev", "node0"},
		{"link", "set", "node0", "up"},
		{"route", "add", serviceRange, "dev", "node0"},
		{"route", "add", "unreachable", "default"},
	}
	return inNamespace(path, func() error {
		for _, arguments := range commands {
			if output, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
				return fmt.Errorf("configure network namespace: ip %s: %w: %s", strings.Join(arguments, " "), err, lastLines(string(output), 3))
			}
		}
		for name, value := range map[string]string{"ip_forward": "1", "icmp_ratelimit": "0"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0o644); err != nil {
				return fmt.Errorf("configure network namespace: %w", err)
			}
		}
		return nil
	})
}

// ownMounts returns attributes that start a process in a new mount namespace and session. The process
// continues after its terminal closes, and its mounts are removed when the process exits.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Unshareflags: syscall.CLONE_NEWNS}
}

// keepFiles sets close-on-exec on all open files except the first three, so that new processes do
// not inherit them. Otherwise, the caller's lock would be held until the cluster is stopped.
func keepFiles() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep open files: %w", err)
	}
	return nil
}

// hideHost hides the host's folders to which parts would otherwise write. In the mount namespace of this
// process, /run and /var become empty, except for the run folder. It also disables name resolution.
func hideHost(runDir string) error {
	const keep = "/run/keep"
	resolver := filepath.Join(runDir, "resolv.conf")
	if err := os.WriteFile(resolver, []byte("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n"), 0o644); err != nil {
		return fmt.Errorf("write resolver file: %w", err)
	}
	steps := []struct {
		about string
		do    func() error
	}{
		{"make mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"cover resolver", func() error {
			if err := unix.Mount(resolver, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != unix.ENOENT {
				return err
			}
			return nil // Without the file, names are also resolved through loopback.
		}},
		{"cover /run", func() error { return unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755") }},
		{"make folder", func() error { return os.Mkdir(keep, 0o755) }},
		{"keep run folder", func() error { return unix.Mount(runDir, keep, "", unix.MS_BIND|unix.MS_REC, "") }},
		{"cover /var", func() error { return unix.Mount("tmpfs", "/var", "tmpfs", 0, "mode=755") }},
		{"link /var/run", func() error { return os.Symlink("/run", "/var/run") }},
		{"make folder", func() error { return os.MkdirAll("/var/log", 0o755) }},
		{"make folder", func() error { return os.MkdirAll(runDir, 0o755) }},
		{"show run folder", func() error { return unix.Mount(keep, runDir, "", unix.MS_BIND|unix.MS_REC, "") }},
		{"share run folder", func() error { return unix.Mount("", runDir, "", unix.MS_REC|unix.MS_SHARED, "") }},
		{"forget kept folder", func() error { return unix.Unmount(keep, unix.MNT_DETACH) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("hide host: %s: %w", s.about, err)
		}
	}
	return nil
}

// cgroupRoots returns the folders of the cgroup called name in every hierarchy.
func cgroupRoots(name string) ([]string, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, m := range mounts {
		if m.kind == "cgroup" || m.kind == "cgroup2" {
			roots = append(roots, filepath.Join(m.path, name))
		}
	}
	return roots, nil
}

// createCgroup creates the cgroup in which the kubelet creates the cgroups of pods.
func createCgroup(name string) error {
	roots, err := cgroupRoots(name)
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(root, 0o755); err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
		enableControllers(filepath.Dir(root))
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // These files are empty in a new version 1 cgroup.
			inherited, err := os.ReadFile(filepath.Join(filepath.Dir(root), file))
			if err != nil || exists(filepath.Join(root, "cgroup.controllers")) {
				continue
			}
			if err := os.WriteFile(filepath.Join(root, file), inherited, 0o644); err != nil {
				return fmt.Errorf("create cgroup: %w", err)
			}
		}
	}
	return nil
}

// enableControllers enables the controllers that the kubelet needs for the cgroups below root, which is a
// version 2 hierarchy. It ignores rejected and missing controllers, because the kubelet reports the
// controllers that it requires.
func enableControllers(root string) {
	available, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return // This is a version 1 hierarchy.
	}
	for _, controller := range strings.Fields(string(available)) {
		if slices.Contains([]string{"cpu", "cpuset", "memory", "pids", "hugetlb", "io"}, controller) {
			_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		}
	}
}

// removeCgroup removes the cgroup and all cgroups below it. They must not contain processes.
func removeCgroup(name string) error {
	roots, err := cgroupRoots(name)
	if err != nil {
		return err
	}
	for _, root := range roots {
		var folders []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		for _, folder := range slices.Backward(folders) {
			if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove cgroup: %w", err)
			}
		}
	}
	return nil
}

type mount struct{ path, kind string }

// readMounts returns the mounts that this process sees, in the order in which they were created.
func readMounts() ([]mount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer file.Close()
	var list []mount
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if m, ok := parseMount(lines.Text()); ok {
			list = append(list, m)
		}
	}
	return list, lines.Err()
}

// parseMount parses a line of mountinfo. The fifth field is the mount point, and the file system type follows
// the dash.
func parseMount(line string) (mount, bool) {
	before, after, found := strings.Cut(line, " - ")
	fields, rest := strings.Fields(before), strings.Fields(after)
	if !found || len(fields) < 5 || len(rest) == 0 {
		return mount{}, false
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	return mount{path: unescape.Replace(fields[4]), kind: rest[0]}, true
}

// mountsBelow returns the mount points at or below folder, newest first.
func mountsBelow(folder string) ([]string, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, m := range slices.Backward(mounts) {
		if m.path == folder || strings.HasPrefix(m.path, folder+"/") {
			paths = append(paths, m.path)
		}
	}
	return paths, nil
}

// unmountBelow removes every mount at or below folder.
func unmountBelow(folder string) error {
	paths, err := mountsBelow(folder)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	return nil
}

// clusterProcesses returns the cluster's processes: the processes that have its mark in their environment,
// or that are in its network namespace or in its cgroup. The result includes neither the calling process nor
// its ancestors.
func clusterProcesses(name, runDir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	namespace := fileIdentity(filepath.Join(runDir, "netns"))
	if namespace == fileIdentity("/proc/self/ns/net") {
		namespace = [2]uint64{}
	}
	spared := ancestors(os.Getpid())
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || slices.Contains(spared, pid) {
			continue
		}
		if belongs(pid, name, runDir, namespace) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func belongs(pid int, name, runDir string, namespace [2]uint64) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	if environment, err := os.ReadFile(dir + "/environ"); err == nil && marked(environment, runDir) {
		return true
	}
	if namespace != [2]uint64{} && fileIdentity(dir+"/ns/net") == namespace {
		return true
	}
	groups, err := os.ReadFile(dir + "/cgroup")
	return err == nil && inCgroup(groups, name)
}

// marked reports whether an environment block contains the mark of runDir.
func marked(environment []byte, runDir string) bool {
	return slices.Contains(strings.Split(string(environment), "\x00"), mark+"="+runDir)
}

// inCgroup reports whether the given content of /proc/PID/cgroup belongs to a process in a cgroup below /name.
func inCgroup(groups []byte, name string) bool {
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && strings.HasPrefix(fields[2], "/"+name+"/") {
			return true
		}
	}
	return false
}

// fileIdentity returns the device and inode of a file. They are 0 if the file does not exist.
func fileIdentity(path string) [2]uint64 {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return [2]uint64{}
	}
	return [2]uint64{s.Dev, s.Ino}
}

// ancestors returns pid and its ancestors.
func ancestors(pid int) []int {
	var list []int
	for pid > 0 {
		list = append(list, pid)
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			break
		}
		_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		fields := strings.Fields(after)
		if len(fields) < 2 {
			break
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			break
		}
	}
	return list
}
