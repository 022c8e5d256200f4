package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// child is one process of the demo: this program again, with other arguments, so
// that killing it is real. What it logs goes to a file.
type child struct {
	name string
	args []string
	env  []string
	logs string // folder
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs the child, again when it ran before.
func (c *child) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.logs, c.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	c.cmd = exec.Command(self, c.args...)
	c.cmd.Env = append(os.Environ(), c.env...)
	c.cmd.Stdout, c.cmd.Stderr = f, f
	c.cmd.SysProcAttr = dieWithParent()
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	c.done = make(chan struct{})
	cmd, done := c.cmd, c.done
	go func() { _ = cmd.Wait(); close(done) }()
	return nil
}

// kill ends the child as kill -9 does, and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	<-c.done
}

// stop asks the child to end, and makes it after a while.
func (c *child) stop(patience time.Duration) {
	if c.cmd == nil || c.cmd.Process == nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(patience):
		c.kill()
	}
}

// freePort is a port of loopback that nobody has just now: want when it is free,
// else none of those that the system gives to outgoing connections, so that it is
// still free when a child listens on it.
func freePort(want int) (int, error) {
	for range 100 {
		if want == 0 {
			want = 10_000 + rand.IntN(22_000)
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", want)); err == nil {
			return want, l.Close()
		}
		want = 0
	}
	return 0, errors.New("no free port on loopback")
}

// until asks again and again until ok, and says what was missing when patience is
// over.
func until(ctx context.Context, patience time.Duration, what string, ok func() bool) error {
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}
