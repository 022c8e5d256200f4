//go:build !linux

package main

import "syscall"

// dieWithParent: only Linux can do it; elsewhere a killed demo leaves its children.
func dieWithParent() *syscall.SysProcAttr { return nil }
