//go:build unix

package warmup

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the end of cmd's context the end of all that cmd has started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
