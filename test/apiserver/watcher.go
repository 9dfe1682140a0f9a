package apiserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// marker is the name of an environment variable that a process with an API server sets for all processes that it starts. Each
// process with an API server uses a different value.
const marker = "HEIGHLINER_TEST_RUN"

// watcherScript reads the paths of API server folders until the process that writes these paths exits, for
// whatever reason. It then kills the processes that were started by that process and are still running, and
// deletes the folders.
const watcherScript = `
folders=()
while read -r folder; do folders+=("$folder"); done
for file in $(grep -lzFxe "$0" /proc/[0-9]*/environ 2>/dev/null); do
	pid=${file#/proc/}
	kill -KILL "${pid%/environ}" 2>/dev/null
done
for folder in "${folders[@]}"; do rm -rf "$folder"; done
`

// endTogether ensures that processes that are started later terminate with this process, even if this process is
// killed, and that the folder is then deleted. A parent death signal would not work, because it is sent when
// the thread that started the process exits.
func endTogether(folder string) error {
	folders, err := startWatcher()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(folders, folder); err != nil {
		return fmt.Errorf("write to watcher: %w", err)
	}
	return nil
}

// startWatcher starts this process's watcher once, and returns the pipe from which the watcher reads. No
// other process inherits the pipe, so it is closed only when this process exits.
var startWatcher = sync.OnceValues(func() (_ *os.File, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe to watcher: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	run := marker + "=" + rand.Text()
	cmd := exec.Command("bash", "-c", watcherScript, run)
	cmd.Stdin = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C interrupts the foreground processes of a terminal. The watcher, in its own session, is not one of them.
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start watcher: %w", err)
	}
	if err := os.Setenv(marker, run[len(marker)+1:]); err != nil { // The variable is set after the start of the watcher, because the watcher must not kill itself.
		return nil, fmt.Errorf("mark processes: %w", err)
	}
	return in, nil
})
