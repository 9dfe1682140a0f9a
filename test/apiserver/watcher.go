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

// marker is the environment variable that all processes have that a process with an API server starts. Its value is another one for
// each such process.
const marker = "HEIGHLINER_TEST_RUN"

// watcherScript reads the folders of API servers until the process that writes them has ended, in whatever way, and then ends what
// that process has left behind, and deletes the folders.
const watcherScript = `
folders=()
while read -r folder; do folders+=("$folder"); done
for file in $(grep -lzFxe "$0" /proc/[0-9]*/environ 2>/dev/null); do
	pid=${file#/proc/}
	kill -KILL "${pid%/environ}" 2>/dev/null
done
for folder in "${folders[@]}"; do rm -rf "$folder"; done
`

// endTogether makes sure that processes that are started from then on end with this one, also when it is killed, and that the folder is
// deleted then. A signal at the death of the parent would not do: it is sent when the thread ends that started the process.
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

// startWatcher starts the watcher of this process, once, and returns the pipe that it reads. Nothing closes the pipe but the end of
// the process, and no other process inherits it.
var startWatcher = sync.OnceValues(func() (_ *os.File, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe to watcher: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	run := marker + "=" + rand.Text()
	cmd := exec.Command("bash", "-c", watcherScript, run)
	cmd.Stdin = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C ends the processes of a terminal.
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start watcher: %w", err)
	}
	if err := os.Setenv(marker, run[len(marker)+1:]); err != nil { // after the watcher, which does not end itself
		return nil, fmt.Errorf("mark processes: %w", err)
	}
	return in, nil
})
