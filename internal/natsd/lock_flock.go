//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package natsd

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// errInUse says that another process, or another server of this one, has the directory.
var errInUse = errors.New("in use by another server")

// lockDir makes dir if need be and takes it for this process until unlock, or
// until the process dies.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "dibs.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errInUse
		}
		return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return func() { f.Close() }, nil
}
