package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// asKilled is an environment variable that makes the test binary start an API server, print its folder, and run until it is killed.
const asKilled = "HEIGHLINER_TEST_KILLED"

func waitToBeKilled() {
	env, err := apiserver.Start(apiserver.Options{Empty: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(filepath.Dir(env.Kubeconfig()))
	select {}
}

// TestKilled checks that no process remains and the folder is deleted when a process with an API server is
// killed together with its process group, for example because of a time limit or Ctrl-C.
func TestKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asKilled+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	lines.Scan()
	folder := lines.Text()
	if _, err := os.Stat(folder); err != nil {
		t.Fatalf("folder of the API server: %v", err)
	}
	running := processes(t, cmd.Process.Pid)
	if names := fmt.Sprint(running); len(running) != 3 || !strings.Contains(names, "bash") || !strings.Contains(names, "etcd") || !strings.Contains(names, "kube-apiserver") {
		t.Errorf("processes are %s, want etcd, kube-apiserver and the watcher", names)
	}

	kill()
	_ = cmd.Wait()
	await.Nil(t, func(context.Context) error {
		for pid, name := range running {
			if now, _, ok := process(pid); ok && now == name {
				return fmt.Errorf("%s is still running", name)
			}
		}
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			return fmt.Errorf("folder %s: %v", folder, err)
		}
		return nil
	})
}

// processes returns the names of the processes that a process started, by process ID.
func processes(t *testing.T, parent int) map[string]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	started := map[string]string{}
	for _, file := range files {
		pid := filepath.Base(file)
		if name, of, ok := process(pid); ok && of == fmt.Sprint(parent) {
			started[pid] = name
		}
	}
	return started
}

// process returns the name of a running process, and the ID of its parent.
func process(pid string) (name, parent string, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat")) // for example: 7 (etcd) S 1
	if err != nil {
		return "", "", false
	}
	name, rest, _ := strings.Cut(string(text), ") ")
	_, name, _ = strings.Cut(name, "(")
	fields := strings.Fields(rest)
	return name, fields[1], fields[0] != "Z"
}
