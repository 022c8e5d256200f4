package main

import "syscall"

// dieWithParent lets a child end when the demo itself is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
